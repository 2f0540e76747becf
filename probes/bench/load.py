"""The load of ``--load``: stress-ng on the housekeeping CPUs, to bring out what could disturb the audited ones.

CPU, cache and memory stressors alone raise almost no device interrupt; small writes with fsync to a real disk do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from probes.bench.errors import ToolError
from probes.bench.process import Command, find_tool
from probes.host import Host, ProbeError, TreeHost

PACKAGE = "stress-ng"
SCRATCH_VARIABLE = "CPU_AUDIT_SCRATCH"
NEEDED_BYTES = 64 << 20
MULTI_DEVICE = ("btrfs", "zfs", "bcachefs")  # on block devices, though their mounts have an anonymous device number
NO_INTERRUPTS = ("ram", "zram", "loop")  # block devices whose requests no device answers


def find_stress_ng() -> str:
    """Absolute path of stress-ng. Raises ToolError that says how to install it."""
    return find_tool("stress-ng", PACKAGE)


def load_command(cpus: frozenset[int], *, seconds: float, scratch: str) -> Command:
    """Runs stress-ng on ``cpus`` for ``seconds``, with small files below ``scratch`` (stress-ng(1), 0.15 and newer).

    Per CPU one cpu stressor; one that thrashes the cache, one that writes 64 MiB of memory; one or two that write 4 KiB
    at a time and fsync each. Not ``--quiet``: it would silence the reason of a failure too, and the output goes to a
    file anyway. Raises ValueError without a CPU.
    """
    if not cpus:
        raise ValueError("no CPU to load")
    writers = 1 if len(cpus) < 4 else 2
    argv = [
        *("stress-ng", "--taskset", ",".join(str(cpu) for cpu in sorted(cpus)), "--timeout", f"{math.ceil(seconds)}s"),
        *("--temp-path", ".", "--oomable", "--cpu", str(len(cpus))),
        *("--cache", "1", "--cache-no-affinity", "--vm", "1", "--vm-bytes", "64M"),
        *("--hdd", str(writers), "--hdd-bytes", "4M", "--hdd-write-size", "4K", "--hdd-opts", "fsync"),
    ]
    note = f"stress-ng: {len(cpus)} cpu, 1 cache, 1 vm, {writers} hdd with fsync"
    return Command(
        argv=tuple(argv),
        cpus=cpus,
        max_s=float(math.ceil(seconds)),
        name="stress-ng",
        package=PACKAGE,
        scratch=scratch,
        note=note,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """One line of mountinfo: ``device`` is major:minor, ``upper`` the writable layer of an overlay."""

    point: str
    device: str
    fstype: str
    upper: str = ""


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Mounts in the order they were made (/proc/PID/mountinfo, proc(5)). Raises ProbeError for other lines."""
    return tuple(_parse_mount(line) for line in text.split("\n") if line)  # a name may hold what splitlines splits at


def _parse_mount(line: str) -> Mount:
    head, separator, tail = line.partition(" - ")
    left, right = head.split(" "), tail.split(" ")
    if not separator or len(left) < 6 or len(right) < 3:
        raise ProbeError("proc/self/mountinfo", "not a line of mountinfo")
    options = [option.removeprefix("upperdir=") for option in right[2].split(",") if option.startswith("upperdir=")]
    upper = _unescape(options[0]) if options else ""
    return Mount(point=_unescape(left[4]), device=left[2], fstype=right[0], upper=upper)


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """The mount that an absolute path without links lies on: the deepest, and of those on one point the last made."""
    above = [mount for mount in mounts if (path + "/").startswith(mount.point.rstrip("/") + "/")]
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def block_backed(path: str, host: Host, depth: int = 3) -> bool:
    """Whether writing to ``path`` provably reaches a real disk; an overlay does where its upper layer does."""
    try:
        mount = mount_of(os.path.realpath(path), parse_mountinfo(host.read("proc/self/mountinfo")))
        if mount is None:
            return False
        if mount.fstype == "overlay":
            return depth > 0 and os.path.isdir(mount.upper) and block_backed(mount.upper, host, depth - 1)
        if mount.fstype in MULTI_DEVICE:
            return True
        disk = os.path.basename(host.readlink(f"sys/dev/block/{mount.device}"))
    except ProbeError:
        return False
    return not disk.startswith(NO_INTERRUPTS)


def _usable(path: str) -> bool:
    if not (path and os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)):
        return False
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize >= NEEDED_BYTES


def scratch_dir(environ: Mapping[str, str] | None = None, host: Host | None = None) -> str:
    """Where the load writes: $CPU_AUDIT_SCRATCH if set, else the first of /var/tmp, /tmp, . that is on a real disk.

    If none is, /var/tmp; ``scratch_note`` says what that costs. Raises ToolError if the directory can't be used.
    """
    chosen = (os.environ if environ is None else environ).get(SCRATCH_VARIABLE, "")
    if chosen:
        if not _usable(chosen):
            raise ToolError(f"${SCRATCH_VARIABLE}: {chosen} is not a writable directory with 64 MiB of room")
        return os.path.abspath(chosen)
    usable = [path for path in ("/var/tmp", "/tmp", os.getcwd()) if _usable(path)]
    if not usable:
        raise ToolError(f"no writable directory with 64 MiB of room for the load: set ${SCRATCH_VARIABLE}")
    door = host or TreeHost()
    return next((path for path in usable if block_backed(path, door)), usable[0])


def scratch_note(path: str, host: Host | None = None) -> str:
    """What is wrong with a scratch directory, as a sentence; empty if it is on a real disk."""
    if block_backed(path, host or TreeHost()):
        return ""
    return (
        f"{path} is not known to be on a real disk: the load may raise no block interrupts;"
        f" set ${SCRATCH_VARIABLE} to a directory that is"
    )
