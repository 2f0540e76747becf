"""Foreign switches as an interval that always holds the truth: by hand, and against simulated schedules."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.switches import Balance, Growth, balances, groups_of, growth_of, runners
from auditor.window import Observation
from probes.delta import SchedDelta
from probes.host import ProbeError
from probes.snapshot import Census, Sample
from probes.threads import ThreadKey, ThreadRun
from tests.auditor.build import BASE, Thread, cpus, gone, observation

AUDITED = cpus(1, 5)


def seen(*counts: int | None, new: bool = False, unread: int = 0) -> Observation:
    """One thread, as read before the window, in samples, and after it; None where it was not there."""
    first, *within, last = [None if count is None else ThreadRun(switches=count, run_ns=count) for count in counts]
    thread = Thread(new=new)
    found = observation(threads=[thread])
    census = found.before.census
    assert isinstance(census, Census)
    return replace(
        found,
        before=replace(found.before, runs={thread.key: first} if first else {}, census=replace(census, unread=unread)),
        samples=tuple(Sample(taken_ns=at, runs={thread.key: run} if run else {}) for at, run in enumerate(within)),
        after=replace(found.after, runs={thread.key: last} if last else {}),
    )


@pytest.mark.parametrize(
    ("counts", "new", "growth"),
    [
        ((100, 101, 108, 110), False, Growth(least=7, most=10, run_ns=10, bracketed=True)),
        ((100, 101, 110), False, Growth(least=0, most=10, run_ns=10, bracketed=True)),
        ((100, 110), False, Growth(least=10, most=10, run_ns=10, bracketed=False)),
        ((100, None, 105, 107, 110), False, Growth(least=2, most=10, run_ns=10, bracketed=True)),
        ((100, 100, 100, 100), False, Growth(least=0, most=0, run_ns=0, bracketed=True)),
        # it ended: what was seen is certain, the rest is open
        ((100, 102, 108, None), False, Growth(least=6, most=None, run_ns=None, bracketed=True)),
        ((100, None, None, None), False, Growth(least=0, most=None, run_ns=None, bracketed=True)),
        # its id went to another thread: what that one did is not its own
        ((100, 102, 108, 3, 50, 60), False, Growth(least=6, most=None, run_ns=None, bracketed=True)),
        ((100, 3, 50, 60), False, Growth(least=0, most=None, run_ns=None, bracketed=True)),
        # it began within
        ((None, None, 5, 9), True, Growth(least=5, most=9, run_ns=9, bracketed=True)),
        ((None, 2, 5, 9), True, Growth(least=3, most=9, run_ns=9, bracketed=True)),
        ((None, 9), True, Growth(least=9, most=9, run_ns=9, bracketed=False)),
        ((None, None, None, 9), True, Growth(least=0, most=9, run_ns=9, bracketed=True)),
        # it was there, and could not be read
        ((None, None, 5000, 5009), False, Growth(least=0, most=None, run_ns=None, bracketed=True)),
        ((None, 5000, 5009, 5010), False, Growth(least=9, most=None, run_ns=None, bracketed=True)),
    ],
)
def test_growth_of_one_thread(counts: tuple[int | None, ...], new: bool, growth: Growth) -> None:
    assert growth_of(seen(*counts, new=new), Thread().key) == growth


def test_where_threads_hid_at_the_start_none_certainly_began() -> None:
    hidden = Growth(least=0, most=None, run_ns=None, bracketed=True)
    assert growth_of(seen(None, None, 5000, 5009, new=True, unread=1), Thread().key) == hidden
    blind = seen(None, None, 5000, 5009, new=True)
    blind = replace(blind, before=replace(blind.before, census=gone("proc")))
    assert growth_of(blind, Thread().key) == hidden


def test_a_runner_moved_kept_running_or_was_seen() -> None:
    still = Thread(tid=10)
    moved = Thread(tid=11, switches=1)
    kept = Thread(tid=12, run_ms=5)
    sighted = Thread(tid=13, seen={1: 2, 5: 1})
    found = {runner.key.tid: runner for runner in runners(observation(threads=[still, moved, kept, sighted]))}
    assert set(found) == {11, 12, 13}
    assert found[13].sightings == {1: 2, 5: 1}
    assert found[11].cgroup == "/app.slice"


def test_a_runner_may_have_run_where_either_census_allowed_it() -> None:
    thread = Thread(switches=1, on=cpus(1), on_before=cpus(0, 3))
    assert runners(observation(threads=[thread]))[0].allowed == cpus(0, 1, 3)


def test_a_census_that_is_missing_names_nobody() -> None:
    found = observation(threads=[Thread(switches=1)])
    assert (
        runners(replace(found, before=replace(found.before, census=gone()), after=replace(found.after, census=gone())))
        == ()
    )


@pytest.mark.parametrize(
    ("masks", "groups"),
    [
        ([], [{1}, {2}, {3}, {4}]),
        ([{1}], [{1}, {2}, {3}, {4}]),
        ([{1, 2}], [{1, 2}, {3}, {4}]),
        ([{1, 2}, {3, 4}], [{1, 2}, {3, 4}]),
        ([{1, 2}, {2, 3}], [{1, 2, 3}, {4}]),
        ([{1, 2}, {3, 4}, {2, 3}], [{1, 2, 3, 4}]),
        ([{4, 1}], [{1, 4}, {2}, {3}]),
        ([{0, 1, 9}], [{1}, {2}, {3}, {4}]),
        ([{0, 1, 2, 3, 4}], [{1, 2, 3, 4}]),
        ([set()], [{1}, {2}, {3}, {4}]),
    ],
)
def test_cpus_are_joined_where_one_thread_may_run_on_several(masks: list[set[int]], groups: list[set[int]]) -> None:
    assert groups_of(cpus(1, 2, 3, 4), [frozenset(mask) for mask in masks]) == groups


def balanced(total: int, *own: Thread, others: tuple[Thread, ...] = (), visible: bool = True) -> Balance:
    found = balances(
        {1: SchedDelta(switches=total, run_ns=0, wait_ns=0)},
        cpus(1),
        runners(observation(own=own, threads=others)),
        frozenset(thread.key for thread in own),
        visible=visible,
    )
    assert isinstance(found, tuple)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("balance", "own", "foreign"),
    [
        (balanced(100), (0, 0), (100, 100)),
        (balanced(100, Thread(switches=100)), (100, 100), (0, 0)),
        (balanced(100, Thread(switches=90, least=80)), (80, 90), (10, 20)),
        (balanced(100, Thread(switches=200, least=120)), (120, 200), (0, 0)),
        (balanced(100, Thread(switches=40, ended=True)), (30, None), (0, 70)),
        # switches of a thread that may run elsewhere as well may all have been elsewhere
        (balanced(100, Thread(switches=60, on=cpus(0, 1))), (0, 60), (40, 100)),
        # an own thread that may not run here is none
        (balanced(100, Thread(switches=60, on=cpus(0))), (0, 0), (100, 100)),
        # a foreign thread that may run nowhere else is certain
        (
            balanced(100, Thread(switches=90, least=50), others=(Thread(tid=9, name="k", switches=30),)),
            (50, 90),
            (30, 50),
        ),
        (balanced(100, others=(Thread(tid=9, switches=30),), visible=False), (0, None), (30, 100)),
        (balanced(100, Thread(switches=40), visible=False), (40, None), (0, 60)),
    ],
)
def test_the_arithmetic(balance: Balance, own: tuple[int, int | None], foreign: tuple[int, int]) -> None:
    assert (balance.own_least, balance.own_most) == own
    assert (balance.foreign_least, balance.foreign_most) == foreign


def test_without_counters_of_every_cpu_of_a_group_there_is_no_balance() -> None:
    everyone = runners(observation(own=[Thread(switches=1, on=AUDITED)]))
    sched = {1: SchedDelta(switches=5, run_ns=0, wait_ns=0)}
    assert balances(sched, AUDITED, everyone, frozenset({Thread().key}), visible=True) == ()
    apart = balances(sched, AUDITED, (), frozenset(), visible=True)
    assert isinstance(apart, tuple)
    assert [balance.cpus for balance in apart] == [(1,)]
    error = gone("proc/schedstat")
    assert balances(error, AUDITED, (), frozenset(), visible=True) is error


START, END, LAST = 100, 400, 410
"""When the CPUs are read, in ticks of a simulated clock that runs from 0 to 500."""


@dataclass(frozen=True)
class Simulated:
    """A thread with the times and CPUs at which it was switched to."""

    tid: int
    own: bool
    allowed: frozenset[int]
    events: tuple[tuple[int, int], ...]
    born: int
    ends: int
    next_owner: tuple[tuple[int, int], ...]
    """Switches to the foreign thread that gets its id when it ended."""

    @property
    def key(self) -> ThreadKey:
        return ThreadKey(pid=self.tid, tid=self.tid)

    @property
    def counted(self) -> bool:
        """Whether a census finds it, at one end of the window: else nobody knows whose it was."""
        return self.born == 0 or self.ends > LAST

    def read(self, now: int) -> ThreadRun | None:
        if self.born > now:
            return None
        if self.ends > now:
            start = BASE if self.born == 0 else 0
            return ThreadRun(switches=start + sum(at <= now for at, _ in self.events), run_ns=0)
        if self.next_owner and self.next_owner[0][0] <= now:
            return ThreadRun(switches=sum(at <= now for at, _ in self.next_owner), run_ns=0)
        return None


@st.composite
def simulated(draw: st.DrawFn, tid: int) -> Simulated:
    allowed = draw(st.sampled_from([cpus(1), cpus(5), AUDITED, cpus(0, 1), cpus(0, 1, 5)]))
    born = draw(st.sampled_from([0, 0, 0, 97, 103, 250]))
    ends = draw(st.sampled_from([999, 999, 999, 150, 300, 399, 401]).filter(lambda end: end > born))
    times = st.tuples(st.integers(born, min(ends - 1, 499)), st.sampled_from(sorted(allowed)))
    later = st.tuples(st.integers(ends, 499), st.sampled_from(sorted(allowed)))
    events = draw(st.lists(times, max_size=12))
    heir = draw(st.lists(later, max_size=4)) if ends < 499 else []
    return Simulated(
        tid=tid,
        own=draw(st.booleans()),
        allowed=allowed,
        events=tuple(sorted(events)),
        born=born,
        ends=ends,
        next_owner=tuple(sorted(heir)),
    )


STILL = [
    Simulated(tid=tid, own=False, allowed=cpus(1), events=(), born=0, ends=999, next_owner=()) for tid in (10, 11, 12)
]
HEIR = ((150, 1), (151, 1))
"""Switches to the thread that got the id of an own one before any sample looked."""


@example(
    threads=(*STILL, Simulated(tid=13, own=True, allowed=AUDITED, events=(), born=0, ends=150, next_owner=HEIR)),
    before=[90, 90, 90, 90],
    within=[[100, 100, 100, 150], [100, 100, 100, 151]],
    after=[400, 400, 400, 400],
)
@given(
    threads=st.tuples(*(simulated(tid) for tid in range(10, 14))),
    before=st.lists(st.integers(90, START), min_size=4, max_size=4),
    after=st.lists(st.integers(END, LAST), min_size=4, max_size=4),
    within=st.lists(st.lists(st.integers(START, END), min_size=4, max_size=4), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_the_truth_lies_in_the_interval(
    threads: tuple[Simulated, ...], before: list[int], after: list[int], within: list[list[int]]
) -> None:
    """Whatever the schedule, and whenever each thread is read around the CPUs' counters."""
    seen = simulate(threads, before, sorted_columns(within), after)
    own = frozenset(thread.key for thread in threads if thread.own and thread.counted)
    switched = [
        (at, cpu, thread.key in own and thread.ends > at)
        for thread in threads
        for at, cpu in (*thread.events, *thread.next_owner)
        if START < at <= END
    ]
    sched = {cpu: SchedDelta(switches=sum(c == cpu for _, c, _ in switched), run_ns=0, wait_ns=0) for cpu in AUDITED}
    found = balances(sched, AUDITED, runners(seen), own, visible=True)
    assert isinstance(found, tuple)
    assert sorted(cpu for balance in found for cpu in balance.cpus) == [1, 5]
    for balance in found:
        truth = sum(cpu in balance.cpus and not mine for _, cpu, mine in switched)
        assert balance.foreign_least <= truth <= balance.foreign_most


def sorted_columns(within: list[list[int]]) -> list[list[int]]:
    """Each thread's readings in order of time."""
    return [list(line) for line in zip(*(sorted(column) for column in zip(*within, strict=True)), strict=True)]


def simulate(
    threads: tuple[Simulated, ...], before: list[int], within: list[list[int]], after: list[int]
) -> Observation:
    """The observation that a reader with this timing would have made."""
    people = [
        Thread(tid=thread.tid, on=thread.allowed, new=thread.born > 0, ended=thread.read(LAST) is None)
        for thread in threads
    ]
    found = observation(audited=(1, 5), threads=people)

    def read(times: list[int]) -> dict[ThreadKey, ThreadRun]:
        runs = ((thread.key, thread.read(now)) for thread, now in zip(threads, times, strict=True))
        return {key: run for key, run in runs if run is not None}

    return replace(
        found,
        before=replace(found.before, runs=read(before)),
        samples=tuple(Sample(taken_ns=at, runs=read(times)) for at, times in enumerate(within)),
        after=replace(found.after, runs=read(after)),
    )


@pytest.mark.parametrize("end", ["before", "after"])
def test_switches_of_a_thread_whose_mask_is_unknown_at_one_end_explain_none_for_certain(end: str) -> None:
    """It may have been allowed elsewhere there: what others did here would be taken for its doing."""
    thread = Thread(tid=10, switches=800, on=cpus(1))
    found = observation(threads=[thread])
    assert [(runner.key.tid, runner.bounded) for runner in runners(found)] == [(10, True)]
    census = getattr(found, end).census
    assert isinstance(census, Census)
    hidden = replace(census, statuses={key: value for key, value in census.statuses.items() if key.tid != 10}, unread=1)
    for other in (hidden, gone("proc")):
        changed = replace(found, **{end: replace(getattr(found, end), census=other)})
        mine = [runner for runner in runners(changed) if runner.key.tid == 10]
        assert [runner.bounded for runner in mine] == [False]
        sched = {1: SchedDelta(switches=800, run_ns=0, wait_ns=0)}
        counted = balances(sched, cpus(1), tuple(mine), frozenset({mine[0].key}), visible=False)
        assert not isinstance(counted, ProbeError)
        (balance,) = counted
        assert (balance.own_least, balance.foreign_least, balance.foreign_most) == (0, 0, 800)
