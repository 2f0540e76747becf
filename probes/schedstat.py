"""/proc/schedstat: time, switches and scheduler domains of each online CPU.

Format: Documentation/scheduler/sched-stats.rst, kernel/sched/stats.c. What the versions change:

- 14 (2.6.20): ``cpuN`` has 12 fields, of which the last three are run, wait and switches.
- 15: dropped three sched_yield() counters, so 9 fields. Domain lines keep a mask and 36 counters.
- 16 (6.10): the same fields, the idle and the busy block of the domain counters swapped.
- 17 (6.14): the domain's name before its mask, 45 counters (one imbalance became four).

Run, wait and switches are counted whether or not kernel.sched_schedstats is on. Run time is in nanoseconds since 2.6.23
(the document says jiffies); it is added when a thread leaves the CPU, and idling is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.counters import parse_count
from probes.cpulist import parse_cpumask
from probes.host import Host, ProbeError, SourceState
from probes.topology import read_cpus

PATH = "proc/schedstat"
CPU_FIELDS = {14: 12, 15: 9, 16: 9, 17: 9}
DOMAIN_COUNTERS = {14: 36, 15: 36, 16: 36, 17: 45}
NAMED_DOMAINS_SINCE = 17
_ROW = re.compile(r"(cpu|domain)\d{1,7}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuSched:
    """Counters of one CPU since boot, and the CPUs it shares load with."""

    run_ns: int
    """Field 7: time that threads ran, without the one that runs now."""
    wait_ns: int
    """Field 8: time that threads waited for this CPU."""
    switches: int
    """Field 9: how often a thread other than idle got the CPU."""
    domains: tuple[frozenset[int], ...]
    """CPUs of each scheduler domain, smallest first; () = in no domain, so the scheduler brings no thread here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedStat:
    """Counters of every online CPU."""

    version: int
    cpus: Mapping[int, CpuSched]
    fingerprint: int | None = field(default=None, compare=False, repr=False)
    """Of the whole text, its time stamp too: the same a second later means that the file stands still."""


def read_schedstat(host: Host) -> SchedStat:
    """Raises ProbeError; MISSING without CONFIG_SCHEDSTATS, MALFORMED where an online CPU is not in it.

    Cut behind a ``cpuN`` line, the file would make that CPU look isolated. Where every CPU is there, others name it.
    """
    found = parse_schedstat(host.read(PATH))
    lost = sorted(_online(host) - set(found.cpus))
    if lost:
        raise ProbeError(PATH, f"cpu{lost[0]} is online and has no line: the file is cut, or a CPU came meanwhile")
    return found


def _online(host: Host) -> frozenset[int]:
    try:
        return read_cpus(host, "online")
    except ProbeError:
        return frozenset()


def parse_schedstat(text: str, *, path: str = PATH) -> SchedStat:
    """Text of /proc/schedstat to CPUs. Raises ProbeError: MASKED for an empty file, else MALFORMED with the line.

    A CPU without domains that lies in the domain of another one means that lines are lost: refused, as it would look
    isolated.
    """
    if not text.strip():
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    lines = text.split("\n")
    if lines[-1]:
        raise ProbeError(path, f"line {len(lines)}: no line end, the file is cut")
    version = _parse_version(lines[0], path)
    counters: dict[int, tuple[int, int, int]] = {}
    domains: dict[int, list[frozenset[int]]] = {}
    cpu: int | None = None
    for number, line in enumerate(lines[1:], 2):
        words = line.split()
        if not words or words[0] == "timestamp":
            continue
        row = _ROW.fullmatch(words[0])
        if row and row[1] == "cpu" and int(words[0][3:]) not in counters:
            cpu = int(words[0][3:])
            counters[cpu] = _parse_cpu(words[1:], version, f"line {number}", path)
            domains[cpu] = []
        elif row and row[1] == "domain" and cpu is not None:
            domains[cpu].append(_parse_domain(words[1:], version, f"line {number}", path))
        else:
            raise ProbeError(path, f"line {number}: out of place: {words[0][:40]!r}")
    _check_domains(domains, path)
    return SchedStat(
        version=version,
        cpus={
            cpu: CpuSched(run_ns=run, wait_ns=wait, switches=switches, domains=tuple(domains[cpu]))
            for cpu, (run, wait, switches) in counters.items()
        },
        fingerprint=hash(text),
    )


def _parse_version(line: str, path: str) -> int:
    words = line.split()
    version = parse_count(words[1]) if len(words) == 2 and words[0] == "version" else None
    if version not in CPU_FIELDS:
        raise ProbeError(path, f"line 1: neither of the versions {min(CPU_FIELDS)} to {max(CPU_FIELDS)}: {line[:40]!r}")
    return version


def _numbers(words: list[str]) -> list[int] | None:
    numbers = [count for word in words if (count := parse_count(word)) is not None]
    return numbers if len(numbers) == len(words) else None


def _parse_cpu(words: list[str], version: int, where: str, path: str) -> tuple[int, int, int]:
    numbers = _numbers(words)
    if numbers is None or len(numbers) != CPU_FIELDS[version]:
        raise ProbeError(path, f"{where}: not the {CPU_FIELDS[version]} numbers of version {version}")
    run, wait, switches = numbers[-3:]
    return run, wait, switches


def _parse_domain(words: list[str], version: int, where: str, path: str) -> frozenset[int]:
    fields = words[1:] if version >= NAMED_DOMAINS_SINCE else words
    if not fields or len(fields) - 1 < DOMAIN_COUNTERS[version] or _numbers(fields[1:]) is None:
        raise ProbeError(path, f"{where}: not a mask and the {DOMAIN_COUNTERS[version]} numbers of version {version}")
    try:
        return parse_cpumask(fields[0], path=path)
    except ProbeError as error:
        raise ProbeError(path, f"{where}: {error.reason}") from None


def _check_domains(domains: Mapping[int, list[frozenset[int]]], path: str) -> None:
    if not domains:
        raise ProbeError(path, "no cpuN lines, the file is cut")
    spanned = {cpu for spans in domains.values() for span in spans for cpu in span}
    lost = sorted(cpu for cpu in spanned if not domains.get(cpu))
    if lost:
        raise ProbeError(path, f"cpu{lost[0]} has no domain, yet it is in that of another CPU: lines are lost")
