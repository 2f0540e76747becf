"""/proc/uptime: seconds since the boot (fs/proc/uptime.c). With btime of /proc/stat it tells the host's own time."""

from __future__ import annotations

import re

from probes.host import Host, ProbeError

PATH = "proc/uptime"
_SECONDS = re.compile(r"([0-9]{1,12}\.[0-9]{2}) [0-9]{1,15}\.[0-9]{2}\n", re.ASCII)


def read_uptime(host: Host) -> float:
    """Seconds since the boot, sleep included. Raises ProbeError."""
    return parse_uptime(host.read(PATH))


def parse_uptime(text: str, *, path: str = PATH) -> float:
    """The first of two numbers with hundredths; the second is idle time. ProbeError (MALFORMED) for anything else."""
    match = _SECONDS.fullmatch(text)
    if match is None:
        raise ProbeError(path, f"not two numbers of seconds: {text.strip()[:40]!r}")
    return float(match[1])
