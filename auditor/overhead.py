"""What the tool itself did: CPU time, switches, where it ran; and that its reads leave no trace on the audited CPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from auditor.errors import UsageError
from auditor.model import Overhead
from probes.cpulist import format_cpulist
from probes.delta import diff
from probes.host import Host, ProbeError
from probes.interrupts import InterruptKind
from probes.snapshot import read_counters

NOT_MEASURED = Overhead(cpu_ms=0, switches=0, on_audited_cpus=False, self_check="unknown: not recorded")


def pin(roam: frozenset[int], audited: frozenset[int]) -> None:
    """Moves this process off the audited CPUs before it reads anything. Raises UsageError where it may not."""
    import psutil

    process = psutil.Process()
    try:
        process.cpu_affinity(sorted(roam))
    except (OSError, ValueError, psutil.Error) as error:
        raise UsageError(
            f"this process may not run on the housekeeping CPUs {format_cpulist(roam)} ({error}): "
            "start it outside the audited pod's cpuset"
        ) from None
    if set(process.cpu_affinity() or ()) & audited:
        raise UsageError("this process is still allowed on the audited CPUs: start it outside the audited pod's cpuset")


def self_check(host: Host, cpus: Collection[int], clock_ns: Callable[[], int]) -> str:
    """A dry double read right before the window: on a quiet CPU it must add no function-call interrupt."""
    first = read_counters(host, cpus, clock_ns())
    second = read_counters(host, cpus, clock_ns())
    rows = diff(first, second, cpus).interrupts
    if isinstance(rows, ProbeError):
        return f"unknown: {rows}"
    calls = sum(row.counts.get(cpu) or 0 for row in rows if row.kind is InterruptKind.CALL for cpu in cpus)
    if calls:
        return (
            f"perturbed: {calls} function-call interrupts during a dry double read, from this tool or its environment"
        )
    return "clean: a dry double read added no function-call interrupt"


class Meter:
    """Counts this process between the two reads of the counters."""

    def __init__(self, audited: frozenset[int]) -> None:
        import psutil

        self._process = psutil.Process()
        self._audited = audited
        self._seen = False
        self._ends: dict[str, tuple[float, int]] = {}

    def mark(self, phase: str) -> None:
        """Takes the reading of this phase; t0 and t1 are the ends."""
        if phase in ("t0", "t1"):
            self._ends[phase] = self._read()
            self._seen = self._seen or self._here()

    def _read(self) -> tuple[float, int]:
        times, switches = self._process.cpu_times(), self._process.num_ctx_switches()
        return times.user + times.system, switches.voluntary + switches.involuntary

    def _here(self) -> bool:
        return bool(os.sched_getaffinity(0) & self._audited) or self._process.cpu_num() in self._audited

    def overhead(self, checked: str) -> Overhead:
        """The cost of the window, once both ends are marked."""
        (start_s, before), (end_s, after) = self._ends["t0"], self._ends["t1"]
        return Overhead(
            cpu_ms=round((end_s - start_s) * 1000),
            switches=after - before,
            on_audited_cpus=self._seen,
            self_check=checked,
        )
