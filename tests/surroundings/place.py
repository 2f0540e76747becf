"""The command in poor surroundings: an ordinary user, another PID namespace, files and mounts that are not there.

Made for real with unshare, mount and setpriv in a mount namespace of its own: nothing of the machine is changed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.cpulist import parse_cpulist

ROOT = Path(__file__).parents[2]
TOOLS = ("unshare", "mount", "setpriv")
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all"
CPU = max(parse_cpulist(Path("/sys/devices/system/cpu/online").read_text(encoding="ascii")))
PATIENCE_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """How a run ended: exit code, text report, stderr, and the document (None where none was written)."""

    code: int
    text: str
    log: str
    document: dict[str, Any] | None

    @property
    def status(self) -> str:
        """The verdict."""
        return str(self.found["verdict"]["status"])

    @property
    def found(self) -> dict[str, Any]:
        """The document, which must be there."""
        assert self.document is not None, self.log
        return self.document

    @property
    def gaps(self) -> dict[str, dict[str, str]]:
        """Sources that were not read."""
        return {line["source"]: line for line in self.found["coverage"] if line["state"] != "read"}

    def outcomes(self, rule: str) -> set[str]:
        """What a rule says of the audited CPU."""
        return {finding["outcome"] for finding in self.found["findings"] if finding["rule"] == rule}


def why_not() -> str | None:
    """Why such surroundings can't be made here; None where they can."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"{missing[0]} is not installed (util-linux)"
    if CPU == 0:
        return "one CPU only: none is left to run on"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"], capture_output=True)
    return None if tried.returncode == 0 else "unshare is not permitted: run it as root"


def run_in(
    setup: str = "", *, host: str = "", user: bool = False, own_pids: bool = False, arguments: str = "--window 1s"
) -> Said:
    """Audits the last CPU for a second. Shell lines run as root in a new mount namespace, ``{here}`` is a directory.

    ``host``: before there is another PID namespace; ``setup``: inside it.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o777)
        result = f"{directory}/a.json"
        command = f"{sys.executable} -m auditor run --cpus {CPU} -o {result} {arguments}"
        inside = f"{setup}\ncd {ROOT}\nexec {NOBODY if user else ''} {command}".format(here=directory)
        lines = ["set -e", *(_reachable(f"{directory}/stage") if user else []), host.format(here=directory)]
        lines.append(f"export PYTHONPATH={ROOT} PYTHONDONTWRITEBYTECODE=1")
        shell = f"sh -e -c {shlex.quote(inside)}"
        lines.append(f"exec unshare --pid --fork --mount --mount-proc {shell}" if own_pids else f"exec {shell}")
        whole = ["unshare", "--mount", "sh", "-c", "\n".join(lines)]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        text = Path(result).read_text(encoding="utf-8") if os.path.exists(result) else ""
    return Said(code=done.returncode, text=done.stdout, log=done.stderr, document=json.loads(text) if text else None)


def _reachable(stage: str) -> list[str]:
    """Shell lines that let an ordinary user come to this Python and these packages, though they lie in /root."""
    needed = sorted({str(ROOT), sys.prefix, sys.base_prefix})
    closed = {path: top for path in needed if (top := _closed(path))}
    lines = [f"mkdir -p {stage}"]
    for number, path in enumerate(closed):
        lines += [f"mkdir {stage}/{number}", f"mount --bind {shlex.quote(path)} {stage}/{number}"]
    lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(top)}" for top in sorted(set(closed.values()))]
    for number, path in enumerate(closed):
        lines += [f"mkdir -p {shlex.quote(path)}", f"mount --move {stage}/{number} {shlex.quote(path)}"]
    return lines


def _closed(path: str) -> str | None:
    """The first directory on the way that others may not enter."""
    above = [str(parent) for parent in reversed(Path(path).parents)]
    return next((at for at in (*above, path) if not os.stat(at).st_mode & stat.S_IXOTH), None)
