"""The window: take, sample, take. The same steps on the live host and on a recording, so that both judge alike.

The own threads' switches are read as the last thing before the CPUs' and again as the first thing after them: the CPUs'
counters lie between two readings, and the arithmetic of foreign switches can carry the uncertainty, not guess it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from auditor.own import OwnRule
from auditor.targets import Targets
from probes.host import Host, ProbeError
from probes.schedstat import read_schedstat
from probes.snapshot import (
    Census,
    Counters,
    Facts,
    Sample,
    Snapshot,
    attempt,
    attempt_list,
    read_census,
    read_config,
    read_counters,
    read_limits,
    read_sample,
)
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


def observe(timeline: Timeline, facts: Facts, targets: Targets, own: OwnRule) -> Observation:
    """Runs the window. Raises UsageError where the own workload does not exist."""
    host = timeline.host("t0")
    config = read_config(host)
    census = attempt(lambda: read_census(host))
    mine = _own(own, census)
    if isinstance(census, Census):
        own.check(census)
    schedstat = isinstance(census, Census) and census.schedstat
    limits = read_limits(host, mine)
    runs, counters = _open(timeline, host, targets.counted, mine, schedstat=schedstat)
    samples = tuple(_samples(timeline, runs, mine, schedstat=schedstat))
    host = timeline.host("t1")
    after = _close(host, targets.counted, timeline.now_ns("t1"), mine, schedstat=schedstat)
    still = _own(own, after.census)
    return Observation(
        facts=facts,
        before=Snapshot(config=config, census=census, runs=runs, counters=counters, limits=limits),
        samples=samples,
        after=replace(after, limits=read_limits(host, still)),
        own_before=mine,
        own_after=still,
    )


def _own(rule: OwnRule, census: Census | ProbeError) -> frozenset[ThreadKey]:
    return frozenset() if isinstance(census, ProbeError) else rule.threads(census)


def _others(host: Host, own: frozenset[ThreadKey], *, schedstat: bool) -> dict[ThreadKey, ThreadRun]:
    return read_runs(host, [key for key in attempt_list(host) if key not in own], schedstat=schedstat)


def _open(
    timeline: Timeline, host: Host, cpus: Collection[int], own: frozenset[ThreadKey], *, schedstat: bool
) -> tuple[dict[ThreadKey, ThreadRun], Counters]:
    """The near end: schedstat last, with the own threads right before it (and right after it in the first sample).

    The clock is read when the other threads have been: thousands of them take longer than the counters do.
    """
    others = _others(host, own, schedstat=schedstat)
    counters = read_counters(host, cpus, timeline.now_ns("t0"), schedstat=NOT_YET)
    runs = others | read_runs(host, sorted(own), schedstat=schedstat)
    return runs, replace(counters, schedstat=attempt(lambda: read_schedstat(host)))


def _samples(
    timeline: Timeline, runs: dict[ThreadKey, ThreadRun], own: frozenset[ThreadKey], *, schedstat: bool
) -> Iterator[Sample]:
    known = runs
    for phase, last in timeline.samples():
        host = timeline.host(phase)
        sample = read_sample(host, known, sorted(own), timeline.now_ns(phase), last=last, schedstat=schedstat)
        known = dict(sample.runs)
        yield sample


def _close(host: Host, cpus: Collection[int], now_ns: int, own: frozenset[ThreadKey], *, schedstat: bool) -> Snapshot:
    """The far end: schedstat first, the own threads right after it, then the rest, at last what is no hurry."""
    sched = attempt(lambda: read_schedstat(host))
    mine = read_runs(host, sorted(own), schedstat=schedstat)
    counters = read_counters(host, cpus, now_ns, schedstat=sched)
    runs = mine | _others(host, own, schedstat=schedstat)
    return Snapshot(counters=counters, runs=runs, census=attempt(lambda: read_census(host)), config=read_config(host))


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

    @property
    def period_s(self) -> float:
        """A second between samples; long windows are thinned, so that a recording of hours can still be kept."""
        return max(1.0, self.window_s / MAX_SAMPLES)

    def host(self, phase: str) -> Host:
        """Always the live host; ``on_phase`` lets a recorder follow."""
        self.on_phase(phase)
        return self.live

    def now_ns(self, phase: str) -> int:
        """Now; ``on_time`` lets a meter take its reading."""
        self.on_time(phase)
        return self.clock_ns()

    def samples(self) -> Iterator[tuple[str, bool]]:
        """One right after t0 and one right before t1 bracket the counters; one a second between."""
        end_ns = self.clock_ns() + int(self.window_s * 1e9)
        number = 1
        while True:
            left_s = (end_ns - self.clock_ns()) / 1e9
            last = left_s <= 0 or self.interrupted
            yield f"samples/{number:04d}", last
            if last:
                return
            self.interrupted = self.wait(min(self.period_s, max(0.0, (end_ns - self.clock_ns()) / 1e9)))
            number += 1
