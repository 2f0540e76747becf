"""The instant at which CPUs and threads are compared: switches of the CPUs, between two readings of those threads.

A thread that is switched to between the readings makes the balance of foreign switches an interval. So they are read
again, a few times, until none was; what is kept are the last readings. Counters that are compared with own wake-ups are
read anew in each try: a try takes long where threads are many, and what happened since would be taken for foreign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from probes.host import Host, ProbeError, attempt
from probes.schedstat import SchedStat, read_schedstat
from probes.snapshot import Census, Counters
from probes.threads import ThreadKey, ThreadRun, is_service, read_runs, thread_irq

TRIES = 16
FEW = 256
"""Each try costs as many reads as there are threads: of more than these there is one try."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Between:
    """The CPUs' switches with the threads' growth right before and right after them."""

    before: Mapping[ThreadKey, ThreadRun]
    schedstat: SchedStat | ProbeError
    after: Mapping[ThreadKey, ThreadRun]

    @property
    def still(self) -> bool:
        """Whether no thread was switched to between the readings."""
        return _switches(self.before) == _switches(self.after)


@dataclass(frozen=True, kw_only=True, slots=True)
class Near:
    """What is read together: these threads, the last of them nearest to the CPUs."""

    host: Callable[[str], Host]
    """The host of a phase."""
    threads: Sequence[ThreadKey]
    schedstat: bool
    """Whether threads carry schedstat."""

    @property
    def tries(self) -> range:
        """One for each time that they are read."""
        return range(TRIES if len(self.threads) <= FEW else 1)

    def read(self, phases: tuple[str, str, str]) -> Between:
        """Threads, CPUs and threads, in these phases."""
        for _ in self.tries:
            found = self._once(phases)
            if found.still:
                break
        return found

    def read_behind(self, counters: Callable[[], Counters], phases: tuple[str, str, str]) -> tuple[Counters, Between]:
        """The same, right behind what ``counters`` reads."""
        for _ in self.tries:
            first, found = counters(), self._once(phases)
            if found.still:
                break
        return first, found

    def _once(self, phases: tuple[str, str, str]) -> Between:
        first, second, third = phases
        before = read_runs(self.host(first), self.threads, schedstat=self.schedstat)
        sched = attempt(lambda: read_schedstat(self.host(second)))
        after = read_runs(self.host(third), self.threads[::-1], schedstat=self.schedstat)
        return Between(before=before, schedstat=sched, after=after)


def _switches(runs: Mapping[ThreadKey, ThreadRun]) -> dict[ThreadKey, int]:
    return {key: run.switches for key, run in runs.items()}


def kernel_threads(census: Census | ProbeError, audited: frozenset[int]) -> frozenset[ThreadKey]:
    """Threads of interrupts that fire on audited CPUs only, some of which may turn out to be own, and services there.

    Where these are all that ran beside own threads, it must be known to the last switch.
    """
    statuses = {} if isinstance(census, ProbeError) else census.statuses
    return frozenset(
        key
        for key, status in statuses.items()
        if (thread_irq(status) is not None or is_service(status)) and status.allowed and status.allowed <= audited
    )
