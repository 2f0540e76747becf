"""The instant at which CPUs and threads are compared: switches of the CPUs, between two readings of those threads.

A thread that is switched to between the readings makes the balance of foreign switches an interval. So they are read
again, a few times, until none was; what is kept are the last readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from probes.host import Host, ProbeError
from probes.schedstat import SchedStat, read_schedstat
from probes.snapshot import Census, attempt
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


def read_between(
    host: Callable[[str], Host], phases: tuple[str, str, str], near: Sequence[ThreadKey], *, schedstat: bool
) -> Between:
    """Reads threads, CPUs and threads in these phases, the last threads nearest; ``host`` gives the host of a phase."""
    first, second, third = phases
    for _ in range(TRIES if len(near) <= FEW else 1):
        before = read_runs(host(first), near, schedstat=schedstat)
        sched = attempt(lambda: read_schedstat(host(second)))
        after = read_runs(host(third), near[::-1], schedstat=schedstat)
        if _switches(before) == _switches(after):
            break
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
