"""/proc/PID/io: block I/O of a process (fs/proc/base.c proc_tgid_io_accounting; CONFIG_TASK_IO_ACCOUNTING).

Its threads and its children that were waited for are in it. Only root and the same user may read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from probes.counters import parse_count
from probes.host import Host, ProbeError, attempt

FIELDS = ("read_bytes", "write_bytes")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskIo:
    """Bytes since the process began: read from a device, and made dirty or written directly."""

    read_bytes: int
    write_bytes: int


def parse_task_io(text: str, *, path: str = "io") -> TaskIo:
    """Lines ``name: number``. Raises ProbeError where one of the two is not there, or twice."""
    values: dict[str, int] = {}
    for line in text.split("\n")[:-1]:  # what follows the last line end is cut
        name, _, value = line.partition(":")
        if name in FIELDS:
            count = parse_count(value.strip())
            if count is None or name in values:
                raise ProbeError(path, f"{name} is no number, or there twice: {value[:40]!r}")
            values[name] = count
    if missing := [name for name in FIELDS if name not in values]:
        raise ProbeError(path, f"no field {missing[0]}")
    return TaskIo(read_bytes=values["read_bytes"], write_bytes=values["write_bytes"])


def read_task_ios(host: Host, pids: Iterable[int]) -> dict[int, TaskIo | ProbeError]:
    """The processes' accounting; of one that may not be read, or ended, the reason."""
    return {pid: attempt(_task_io, host, pid) for pid in sorted(set(pids))}


def _task_io(host: Host, pid: int) -> TaskIo:
    path = f"proc/{pid}/io"
    return parse_task_io(host.read(path), path=path)
