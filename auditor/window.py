"""The window: take, sample, take. The same steps on the live host and on a recording, so that both judge alike.

The own threads' switches are read as the last thing before the CPUs' and again as the first thing after them
(auditor/near.py): the CPUs' counters lie between two readings, and the arithmetic of foreign switches can carry the
uncertainty, not guess it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

from auditor.irq_names import check_named
from auditor.near import Between, Near, kernel_threads
from auditor.own import OwnRule
from auditor.targets import Targets
from probes.host import Host, ProbeError, attempt
from probes.snapshot import (
    Census,
    Counters,
    Facts,
    Sample,
    Snapshot,
    attempt_list,
    read_balancers,
    read_census,
    read_config,
    read_counters,
    read_kubernetes,
    read_limits,
    read_sample,
)
from probes.task_io import read_task_ios
from probes.threads import ThreadKey, ThreadRun, read_runs

MAX_SAMPLES = 600
NOT_YET = ProbeError("proc/schedstat", "not read yet")


class Timeline(Protocol):
    """Time as the window sees it: the host at each phase, and when that was."""

    interrupted: bool

    def host(self, phase: str) -> Host:
        """The host to read in this phase (t0, samples/0001 …, t1)."""
        ...

    def now_ns(self, phase: str) -> int:
        """Monotonic time at which this phase's counters are read."""
        ...

    def samples(self) -> Iterator[tuple[str, bool]]:
        """Phases between the ends, each when its time has come; the flag marks the last."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """Everything that was read: two snapshots and the samples between them."""

    facts: Facts
    before: Snapshot
    samples: tuple[Sample, ...]
    after: Snapshot
    own_before: frozenset[ThreadKey]
    own_after: frozenset[ThreadKey]

    @property
    def censuses(self) -> tuple[Census | ProbeError, Census | ProbeError]:
        """Who existed at both ends."""
        return self.before.census, self.after.census

    @property
    def everyone_seen(self) -> bool:
        """Whether every thread of the machine was seen at both ends."""
        return all(isinstance(census, Census) and census.complete for census in self.censuses)


def observe(timeline: Timeline, facts: Facts, targets: Targets, own: OwnRule) -> Observation:
    """Runs the window. Raises UsageError where the own workload or an own interrupt does not exist."""
    host = timeline.host("t0")
    config = read_config(host)
    census = attempt(lambda: read_census(host))
    mine = _own(own, census)
    if isinstance(census, Census):
        own.check(census)
    near = [*sorted(kernel_threads(census, targets.audited) - mine), *sorted(mine)]
    schedstat = isinstance(census, Census) and census.schedstat
    balancers, own_io = read_balancers(host, census), read_task_ios(host, {key.pid for key in mine})
    limits = read_limits(host, mine, nodes=facts.several_nodes, resctrl=config.resctrl)
    kubernetes = read_kubernetes(host, census)
    others = _others(host, near, schedstat=schedstat)
    steps = timeline.samples()
    first = list(islice(steps, 1))

    # The clock is read when the other threads have been: thousands of them take longer than the counters do.
    def counted() -> Counters:
        return read_counters(timeline.host("t0"), targets.counted, timeline.now_ns("t0"), schedstat=NOT_YET)

    phases = ("t0", "t0", first[0][0] if first else "t0")
    together = Near(host=timeline.host, threads=near, schedstat=schedstat)
    counters, start = together.read_behind(counted, phases)
    check_named(own.irqs, counters.interrupts)
    before = Snapshot(
        config=config,
        census=census,
        runs={**others, **start.before},
        counters=replace(counters, schedstat=start.schedstat),
        own_io=own_io,
        irqbalance=balancers,
        limits=limits,
        kubernetes=kubernetes,
    )
    samples = dict(_samples(timeline, chain(first, steps), start, before.runs, near, schedstat=schedstat))
    after = _close(timeline, targets.counted, before, samples, near, own, schedstat=schedstat)
    still = _own(own, after.census)
    limited = read_limits(timeline.host("t1"), still, nodes=facts.several_nodes, resctrl=after.config.resctrl)
    return Observation(
        facts=facts,
        before=before,
        samples=tuple(samples.values()),
        after=replace(after, limits=limited),
        own_before=mine,
        own_after=still,
    )


def _own(rule: OwnRule, census: Census | ProbeError) -> frozenset[ThreadKey]:
    return frozenset() if isinstance(census, ProbeError) else rule.threads(census)


def _others(host: Host, near: Collection[ThreadKey], *, schedstat: bool) -> dict[ThreadKey, ThreadRun]:
    apart = set(near)
    return read_runs(host, [key for key in attempt_list(host) if key not in apart], schedstat=schedstat)


def _samples(
    timeline: Timeline,
    steps: Iterable[tuple[str, bool]],
    start: Between,
    runs: Mapping[ThreadKey, ThreadRun],
    near: Sequence[ThreadKey],
    *,
    schedstat: bool,
) -> Iterator[tuple[str, Sample]]:
    """Samples by phase. In the first one the threads near the counters were read already, in the last they will be."""
    at_hand: Mapping[ThreadKey, ThreadRun] | None = start.after
    for phase, last in steps:
        host, now_ns = timeline.host(phase), timeline.now_ns(phase)
        known = {} if last and at_hand is None else at_hand
        sample = read_sample(host, runs, near, now_ns, schedstat=schedstat, known=known)
        runs, at_hand = sample.runs, None
        yield phase, sample


def _close(
    timeline: Timeline,
    cpus: Collection[int],
    before: Snapshot,
    samples: dict[str, Sample],
    near: Sequence[ThreadKey],
    own: OwnRule,
    *,
    schedstat: bool,
) -> Snapshot:
    """The far end: the CPUs' switches first, with the threads near them right before and after; at last no hurry."""
    host, now_ns = timeline.host("t1"), timeline.now_ns("t1")
    last = next(reversed(samples), "t1")
    end = Near(host=timeline.host, threads=near, schedstat=schedstat).read((last, "t1", "t1"))
    if last in samples:
        samples[last] = replace(samples[last], runs={**samples[last].runs, **end.before})
    counters = read_counters(host, cpus, now_ns, schedstat=end.schedstat)
    runs = {**end.after, **_others(host, near, schedstat=schedstat)}
    census = attempt(lambda: read_census(host))
    mine = before.own_io.keys() | {key.pid for key in _own(own, census)}
    return Snapshot(
        counters=counters,
        runs=runs,
        census=census,
        config=read_config(host),
        own_io=read_task_ios(host, mine),
        irqbalance=read_balancers(host, census),
        kubernetes=read_kubernetes(host, census, ask=True),
    )


def nothing(phase: str) -> None:
    """Nobody follows the phases."""


@dataclass(kw_only=True, slots=True)
class LiveTimeline:
    """The real host: waits, one sample a second, until the window is over or ``stop`` says so."""

    live: Host
    window_s: float
    clock_ns: Callable[[], int]
    wait: Callable[[float], bool]
    """Sleeps that many seconds; True when the run is to end early."""
    on_phase: Callable[[str], None] = nothing
    on_time: Callable[[str], None] = nothing
    interrupted: bool = False
    _started_ns: int = 0

    @property
    def period_s(self) -> float:
        """A second between samples; long windows are thinned, so that a recording of hours can still be kept."""
        return max(1.0, self.window_s / MAX_SAMPLES)

    def host(self, phase: str) -> Host:
        """Always the live host; ``on_phase`` lets a recorder follow."""
        self.on_phase(phase)
        return self.live

    def now_ns(self, phase: str) -> int:
        """Now; ``on_time`` lets a meter take its reading. The window begins with the last one of t0."""
        self.on_time(phase)
        now_ns = self.clock_ns()
        if phase == "t0":
            self._started_ns = now_ns
        return now_ns

    def samples(self) -> Iterator[tuple[str, bool]]:
        """One right after t0 and one right before t1 bracket the counters; one a second between."""
        number, last = 1, self.interrupted
        yield f"samples/{number:04d}", last
        while not last:
            self.interrupted = self.wait(min(self.period_s, max(0.0, self._left_s())))
            number, last = number + 1, self.interrupted or self._left_s() <= 0
            yield f"samples/{number:04d}", last

    def _left_s(self) -> float:
        return self.window_s - (self.clock_ns() - self._started_ns) / 1e9
