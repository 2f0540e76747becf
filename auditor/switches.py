"""Foreign switches: how often something other than the own workload was switched to on the audited CPUs.

Foreign = growth of the CPU's switches (/proc/schedstat) − growth of the own threads' (/proc/PID/task/TID/schedstat).
Both count in the same place (kernel/sched/stats.h sched_info_arrive). The own ones are read before and after the CPUs,
so every term is an interval, and so is the result: its lower end may fail a rule, its upper end may pass it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from auditor.window import Observation
from probes.delta import SchedDelta
from probes.host import ProbeError
from probes.snapshot import Census
from probes.threads import ThreadKey, ThreadRun, ThreadStatus

NEVER_RAN = ThreadRun(switches=0, run_ns=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """What one thread did in the window. ``most`` is None where it ended unseen; ``run_ns`` None without schedstat."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """Switches on a group of CPUs that own threads share (or on one CPU)."""

    cpus: tuple[int, ...]
    total: int
    own_least: int
    own_most: int | None
    foreign_least: int
    foreign_most: int


def growths(observation: Observation, keys: frozenset[ThreadKey]) -> dict[ThreadKey, Growth]:
    """Growth of these threads over the CPUs' window, as an interval."""
    return {key: _growth(observation, key) for key in keys}


def _growth(observation: Observation, key: ThreadKey) -> Growth:
    seen = [observation.before.runs.get(key), *(sample.runs.get(key) for sample in observation.samples)]
    seen.append(observation.after.runs.get(key))
    start, end = seen[0] or NEVER_RAN, seen[-1]
    known = [run for run in seen if run is not None]
    inner = [run for run in seen[1:-1] if run is not None]
    born = len(seen) > 2 and seen[0] is None and seen[1] is None
    first = inner[0] if inner and not born else start
    if end is None or any(later.switches < earlier.switches for earlier, later in pairwise(known)):
        # It ended, or its id was given to another thread: only what was seen is certain.
        grown = max((run.switches - first.switches for run in inner), default=0)
        return Growth(least=max(0, grown), most=None, run_ns=None, bracketed=True)
    last = inner[-1] if inner else end
    return Growth(
        least=max(0, last.switches - first.switches),
        most=end.switches - start.switches,
        run_ns=None if end.run_ns is None else end.run_ns - (start.run_ns or 0),
        bracketed=bool(inner),
    )


def runners(observation: Observation) -> tuple[Runner, ...]:
    """Every thread that was switched to, or kept running, in the window."""
    found = []
    for key, (status, cgroup, allowed) in _known(observation).items():
        growth = _growth(observation, key)
        ran_ms = (growth.run_ns or 0) / 1e6
        sightings = _sightings(observation, key)
        if growth.most != 0 or ran_ms > 0 or sightings:
            found.append(
                Runner(key=key, status=status, cgroup=cgroup, growth=growth, allowed=allowed, sightings=sightings)
            )
    return tuple(found)


def _known(observation: Observation) -> dict[ThreadKey, tuple[ThreadStatus, str, frozenset[int]]]:
    """Every thread that either census names, with the CPUs it was allowed at either end."""
    found: dict[ThreadKey, tuple[ThreadStatus, str, frozenset[int]]] = {}
    for census in (observation.before.census, observation.after.census):
        if isinstance(census, Census):
            for key, status in census.statuses.items():
                earlier = found[key][2] if key in found else frozenset()
                found[key] = (status, census.cgroups.get(key.pid, ""), status.allowed | earlier)
    return found


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
) -> tuple[Balance, ...] | ProbeError:
    """One balance per group of audited CPUs; CPUs without counters at both ends are left out.

    ``visible``: all own threads are known; else any switch may have been to one of them.
    """
    if isinstance(sched, ProbeError):
        return sched
    mine = [runner for runner in all_runners if runner.key in own]
    others = [runner for runner in all_runners if runner.key not in own]
    groups = groups_of(audited, [runner.allowed for runner in mine])
    return tuple(_balance(group, sched, mine, others, visible=visible) for group in groups if group <= set(sched))


def _balance(
    group: frozenset[int],
    sched: Mapping[int, SchedDelta],
    mine: list[Runner],
    others: list[Runner],
    *,
    visible: bool,
) -> Balance:
    total = sum(sched[cpu].switches for cpu in group)
    own_least = sum(runner.growth.least for runner in mine if runner.allowed <= group and runner.growth.bracketed)
    here = [runner.growth.most for runner in mine if runner.allowed & group]
    own_most = None if not visible or None in here else sum(most for most in here if most is not None)
    confined = sum(runner.growth.least for runner in others if runner.allowed and runner.allowed <= group)
    most = max(0, total - own_least)
    least = 0 if own_most is None else max(0, total - own_most)
    return Balance(
        cpus=tuple(sorted(group)),
        total=total,
        own_least=own_least,
        own_most=own_most,
        foreign_least=min(most, max(least, confined)),
        foreign_most=most,
    )


def groups_of(audited: frozenset[int], masks: list[frozenset[int]]) -> list[frozenset[int]]:
    """Audited CPUs joined where one own thread may run on several: per CPU its switches can't be told apart."""
    groups = [frozenset({cpu}) for cpu in sorted(audited)]
    for mask in masks:
        joined = [group for group in groups if group & mask]
        if len(joined) > 1:
            groups = [group for group in groups if not group & mask] + [frozenset().union(*joined)]
    return sorted(groups, key=min)
