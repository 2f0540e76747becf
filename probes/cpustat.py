"""/proc/stat: how each online CPU spent its time, in USER_HZ ticks (10 ms where getconf CLK_TCK says 100).

Format: fs/proc/stat.c. The grain hides everything shorter than a tick; idle and iowait may step back a little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from probes.counters import parse_count
from probes.host import Host, ProbeError, SourceState

PATH = "proc/stat"
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
MIN_FIELDS = 7  # since 2.6.0; steal came with 2.6.11, guest with 2.6.24, guest_nice with 2.6.33
_CPU = re.compile(r"cpu(\d{1,7})", re.ASCII)
_LINE = re.compile(r"[a-z_]+\d* ", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTimes:
    """USER_HZ ticks since boot; None where the kernel is too old to print the column."""

    user: int
    """Holds guest."""
    nice: int
    """Holds guest_nice."""
    system: int
    idle: int
    iowait: int
    irq: int
    """irq and softirq stay near 0 without CONFIG_IRQ_TIME_ACCOUNTING."""
    softirq: int
    steal: int | None
    guest: int | None
    guest_nice: int | None

    @property
    def busy_ticks(self) -> int:
        """Ticks the CPU worked for this machine: not idle, not iowait, and not steal, when it ran for another guest."""
        return self.user + self.nice + self.system + self.irq + self.softirq

    @property
    def total_ticks(self) -> int:
        """All ticks, guest time counted once."""
        return self.busy_ticks + self.idle + self.iowait + (self.steal or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuStat:
    """Times of every online CPU."""

    cpus: Mapping[int, CpuTimes]
    btime: int | None
    """Boot time in seconds since the epoch, by the wall clock: it moves when that is set."""


def read_cpustat(host: Host) -> CpuStat:
    """Raises ProbeError."""
    return parse_cpustat(host.read(PATH))


def parse_cpustat(text: str, *, path: str = PATH) -> CpuStat:
    """Text of /proc/stat to the rows ``cpuN`` and ``btime``.

    Raises ProbeError: MASKED for an empty file, else MALFORMED with the line number (no CPU rows, a cut or wrapped row,
    one left out, rows of different lengths, several snapshots).
    """
    if not text.strip():
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    lines = text.split("\n")
    if lines[-1]:
        raise ProbeError(path, f"line {len(lines)}: no line end, the file is cut")
    cpus: dict[int, CpuTimes] = {}
    btime: int | None = None
    columns: int | None = None
    for number, line in enumerate(lines, 1):
        if line and not _LINE.match(line):
            raise ProbeError(path, f"line {number}: no row of this file: {line.strip()[:40]!r}")
        words = line.split() if line.startswith(("cpu", "btime ")) else []  # intr has a number per interrupt
        match = _CPU.fullmatch(words[0]) if words else None
        if match:
            cpu = int(match[1])
            if cpu in cpus or columns not in (None, len(words)):
                raise ProbeError(path, f"line {number}: a second {words[0]}, or other columns than the rows before")
            columns = len(words)
            cpus[cpu] = _parse_times(words[1:], number, path)
        elif words and words[0] == "btime":
            btime = parse_count(words[-1])
    if not cpus:
        raise ProbeError(path, "no cpuN rows")
    return CpuStat(cpus=cpus, btime=btime)


def _parse_times(words: list[str], number: int, path: str) -> CpuTimes:
    ticks = [count for word in words if (count := parse_count(word)) is not None]
    if len(ticks) != len(words) or len(ticks) < MIN_FIELDS:
        raise ProbeError(path, f"line {number}: not {MIN_FIELDS} to {len(FIELDS)} numbers")
    user, nice, system, idle, iowait, irq, softirq = ticks[:MIN_FIELDS]
    steal, guest, guest_nice = (ticks[column] if column < len(ticks) else None for column in (7, 8, 9))
    return CpuTimes(
        user=user,
        nice=nice,
        system=system,
        idle=idle,
        iowait=iowait,
        irq=irq,
        softirq=softirq,
        steal=steal,
        guest=guest,
        guest_nice=guest_nice,
    )
