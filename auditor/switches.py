"""Foreign switches: how often something other than the own workload was switched to on the audited CPUs.

Foreign = growth of the CPU's switches (/proc/schedstat) − growth of the own threads' (/proc/PID/task/TID/schedstat).
Both count in the same place (kernel/sched/stats.h sched_info_arrive). The own ones are read before and after the CPUs,
so every term is an interval, and so is the result: its lower end may fail a rule, its upper end may pass it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from auditor.window import Observation
from probes.delta import SchedDelta
from probes.host import ProbeError
from probes.snapshot import Census
from probes.threads import ThreadKey, ThreadRun, ThreadStatus

NONE: Mapping[ThreadKey, int] = MappingProxyType({})
NEVER_RAN = ThreadRun(switches=0, run_ns=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """What one thread did in the window: switches at least, and at most.

    ``most`` and ``run_ns`` are None where it ended unseen, or was there before and was not read; ``run_ns`` also
    without schedstat.
    """

    least: int
    most: int | None
    run_ns: int | None
    bracketed: bool
    """Samples within the window hold ``least``; without them it is what both ends say, and those lie outside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """A thread that ran in the window, with where it may have run."""

    key: ThreadKey
    status: ThreadStatus
    cgroup: str
    growth: Growth
    allowed: frozenset[int]
    """CPUs allowed at either end of the window."""
    sightings: Mapping[int, int]
    """Samples in which it had just run on this CPU."""
    ends: tuple[frozenset[int], ...]
    """CPUs allowed at each end at which it was there."""
    bounded: bool = True
    """Whether it was nowhere else, as far as both ends tell: at neither it may have been there unread."""

    @property
    def moved(self) -> frozenset[int]:
        """CPUs allowed at one end of the window and not at the other."""
        return self.ends[0] ^ self.ends[-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """Switches on a group of CPUs that own threads share (or on one CPU)."""

    cpus: tuple[int, ...]
    total: int
    own_least: int
    """With those to threads of own interrupts."""
    own_most: int | None
    foreign_least: int
    foreign_most: int
    followed: int = 0
    """Of the own ones those to threads of own interrupts, at least."""


def growth_of(observation: Observation, key: ThreadKey) -> Growth:
    """Growth of a thread over the CPUs' window: at least what lies between two samples, which lie within it."""
    start, end = observation.before.runs.get(key), observation.after.runs.get(key)
    within = [sample.runs.get(key) for sample in observation.samples]
    if start is None and _began(observation, key):
        start = NEVER_RAN
        within = [within[0] or NEVER_RAN, *within[1:]] if within else []
    known = [run for run in (start, *within, end) if run is not None]
    if start is None or end is None or _fell(known):
        return Growth(least=_grown(start, within), most=None, run_ns=None, bracketed=True)
    most, bracketed = end.switches - start.switches, any(run is not None for run in within)
    return Growth(
        least=_grown(start, within) if bracketed else most,
        most=most,
        run_ns=None if end.run_ns is None or start.run_ns is None else end.run_ns - start.run_ns,
        bracketed=bracketed,
    )


def _began(observation: Observation, key: ThreadKey) -> bool:
    """Whether it certainly was not there at the start, so that it counts from 0."""
    census = observation.before.census
    return isinstance(census, Census) and not census.unread and key not in census.statuses


def _fell(known: Sequence[ThreadRun]) -> bool:
    """Whether its id was given to another thread meanwhile."""
    return any(later.switches < earlier.switches for earlier, later in pairwise(known))


def _grown(start: ThreadRun | None, within: Sequence[ThreadRun | None]) -> int:
    """Growth from the first sample that has it, up to the last one before its id went to another thread.

    That may be before the first sample: what these count is not its own then.
    """
    known = [run.switches for run in (start, *within) if run is not None]
    last = next((at for at, (one, two) in enumerate(pairwise(known)) if two < one), len(known) - 1)
    its_own = known[start is not None : last + 1]
    return its_own[-1] - its_own[0] if its_own else 0


def runners(observation: Observation) -> tuple[Runner, ...]:
    """Every thread that was switched to, or kept running, in the window."""
    found = []
    for key, (status, cgroup, ends) in _known(observation).items():
        growth = growth_of(observation, key)
        ran_ms = (growth.run_ns or 0) / 1e6
        sightings = _sightings(observation, key)
        if growth.most != 0 or ran_ms > 0 or sightings:
            found.append(
                Runner(
                    key=key,
                    status=status,
                    cgroup=cgroup,
                    growth=growth,
                    allowed=frozenset().union(*ends),
                    sightings=sightings,
                    ends=ends,
                    bounded=len(ends) == 2 or all(_told(census, key) for census in observation.censuses),
                )
            )
    return tuple(found)


def _known(observation: Observation) -> dict[ThreadKey, tuple[ThreadStatus, str, tuple[frozenset[int], ...]]]:
    """Every thread that either census names, with the CPUs it was allowed at each end."""
    found: dict[ThreadKey, tuple[ThreadStatus, str, tuple[frozenset[int], ...]]] = {}
    for census in observation.censuses:
        if isinstance(census, Census):
            for key, status in census.statuses.items():
                earlier = found[key][2] if key in found else ()
                found[key] = (status, census.cgroups.get(key.pid, ""), (*earlier, status.allowed))
    return found


def _told(census: Census | ProbeError, key: ThreadKey) -> bool:
    """Whether this end says where the thread may run, or that it was not there."""
    return isinstance(census, Census) and (key in census.statuses or not census.unread)


def _sightings(observation: Observation, key: ThreadKey) -> dict[int, int]:
    found: dict[int, int] = {}
    for sample in observation.samples:
        cpu = sample.processors.get(key)
        if cpu is not None:
            found[cpu] = found.get(cpu, 0) + 1
    return found


def balances(
    sched: Mapping[int, SchedDelta] | ProbeError,
    audited: frozenset[int],
    all_runners: tuple[Runner, ...],
    own: frozenset[ThreadKey],
    *,
    visible: bool,
    allowances: Mapping[ThreadKey, int] = NONE,
) -> tuple[Balance, ...] | ProbeError:
    """One balance per group of audited CPUs; CPUs without counters at both ends are left out.

    ``visible``: all own threads are known; else any switch may have been to one of them. ``allowances``: switches to
    threads of own interrupts that these explain at most.
    """
    if isinstance(sched, ProbeError):
        return sched
    mine = [runner for runner in all_runners if runner.key in own]
    others = [runner for runner in all_runners if runner.key not in own]
    groups = groups_of(audited, [runner.allowed for runner in mine])
    return tuple(
        _balance(group, sched, mine, others, allowances, visible=visible) for group in groups if group <= set(sched)
    )


def _balance(
    group: frozenset[int],
    sched: Mapping[int, SchedDelta],
    mine: list[Runner],
    others: list[Runner],
    allowances: Mapping[ThreadKey, int],
    *,
    visible: bool,
) -> Balance:
    total = sum(sched[cpu].switches for cpu in group)
    followers = [runner for runner in others if runner.key in allowances]
    followed = sum(min(allowances[runner.key], _certain([runner], group)) for runner in followers)
    own_least = _certain(mine, group) + followed
    here = [runner.growth.most for runner in mine if runner.allowed & group]
    here += [allowances[runner.key] for runner in followers if runner.allowed & group]
    own_most = None if not visible or None in here else sum(most for most in here if most is not None)
    confined = _certain(others, group) - followed
    most = max(0, total - own_least)
    least = 0 if own_most is None else max(0, total - own_most)
    return Balance(
        cpus=tuple(sorted(group)),
        total=total,
        own_least=own_least,
        own_most=own_most,
        foreign_least=min(most, max(least, confined)),
        foreign_most=most,
        followed=followed,
    )


def _certain(threads: list[Runner], group: frozenset[int]) -> int:
    """Switches on these CPUs and within the window, beyond doubt."""
    confined = [runner.growth for runner in threads if runner.bounded and runner.allowed and runner.allowed <= group]
    return sum(growth.least for growth in confined if growth.bracketed)


def groups_of(audited: frozenset[int], masks: list[frozenset[int]]) -> list[frozenset[int]]:
    """Audited CPUs joined where one own thread may run on several: per CPU its switches can't be told apart."""
    groups = [frozenset({cpu}) for cpu in sorted(audited)]
    for mask in masks:
        joined = [group for group in groups if group & mask]
        if len(joined) > 1:
            groups = [group for group in groups if not group & mask] + [frozenset().union(*joined)]
    return sorted(groups, key=min)
