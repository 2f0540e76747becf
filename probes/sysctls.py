"""Kernel settings under /proc/sys that decide what may wake up on a CPU, or stop a thread there.

Formats: kernel/watchdog.c, kernel/sched/rt.c, mm/vmstat.c, Documentation/admin-guide/sysctl/{kernel,vm}.rst. All are
plain values in memory; what acts when it is read (vm.stat_refresh) is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from probes.counters import parse_count
from probes.cpulist import read_cpulist
from probes.host import Host, ProbeError, SourceState, attempt, known

WATCHDOG = "kernel.watchdog"
SOFT_WATCHDOG = "kernel.soft_watchdog"
NMI_WATCHDOG = "kernel.nmi_watchdog"
WATCHDOG_THRESH = "kernel.watchdog_thresh"
WATCHDOG_CPUMASK = "kernel.watchdog_cpumask"
STAT_INTERVAL = "vm.stat_interval"
NUMA_BALANCING = "kernel.numa_balancing"
RT_RUNTIME = "kernel.sched_rt_runtime_us"
RT_PERIOD = "kernel.sched_rt_period_us"
NUMBERS = (
    WATCHDOG,
    SOFT_WATCHDOG,
    NMI_WATCHDOG,
    WATCHDOG_THRESH,
    STAT_INTERVAL,
    NUMA_BALANCING,
    RT_RUNTIME,
    RT_PERIOD,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sysctls:
    """One instant of the settings, by dotted name."""

    numbers: Mapping[str, int | ProbeError]
    watchdog_cpumask: frozenset[int] | ProbeError

    def number(self, name: str) -> int:
        """The value; raises its ProbeError where there is none."""
        value = self.numbers.get(name, ProbeError(path_of(name), "not read", SourceState.MISSING))
        return known(value)

    def lacks(self, name: str) -> bool:
        """Whether the kernel has no such setting: the file is missing, while others of them are there."""
        value = self.numbers.get(name)
        missing = isinstance(value, ProbeError) and value.state is SourceState.MISSING
        return missing and any(isinstance(other, int) for other in self.numbers.values())


def path_of(name: str) -> str:
    """``kernel.watchdog`` → ``proc/sys/kernel/watchdog``."""
    return f"proc/sys/{name.replace('.', '/')}"


def read_sysctls(host: Host) -> Sysctls:
    """Each setting is its value or its ProbeError; raises the first of these where there is no value at all."""
    numbers = {name: attempt(_number, host, name) for name in NUMBERS}
    found = [value for value in numbers.values() if isinstance(value, int)]
    errors = [value for value in numbers.values() if isinstance(value, ProbeError)]
    if not found:
        raise errors[0]
    return Sysctls(numbers=numbers, watchdog_cpumask=attempt(read_cpulist, host, path_of(WATCHDOG_CPUMASK)))


def _number(host: Host, name: str) -> int:
    path = path_of(name)
    return parse_signed(host.read(path), path=path)


def parse_signed(text: str, *, path: str = "") -> int:
    """A file that holds one decimal, maybe negative; raises ProbeError: MASKED where it is empty, else MALFORMED."""
    token = text.strip()
    number = parse_count(token.removeprefix("-"))
    if not token:
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    if number is None:
        raise ProbeError(path, f"not a number: {token[:40]!r}")
    return -number if token.startswith("-") else number
