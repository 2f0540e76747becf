"""How long others ran: few switches, much time; and whose a thread is that was here for a part of the window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, Outcome
from auditor.own import OwnRule
from auditor.rules.presence import balance_of, time_of_others_ms
from probes.cpustat import CpuStat
from tests.auditor.build import Thread, context, cpus, edit, gone, only, outcomes

PUSHER = Thread(tid=20, name="migration/1", kernel=True, switches=1, run_ms=0.02)
LEFT = Thread(tid=700, name="hog", on=cpus(0), on_before=cpus(1), switches=40, run_ms=9_900)
CAME = Thread(tid=700, name="hog", on=cpus(1), on_before=cpus(0), switches=40, run_ms=9_900)
KWORKER = Thread(tid=21, name="kworker/1:0-events", kernel=True, switches=1, run_ms=25)
SLEEPER = Thread(switches=1000, run_ms=3000)
SPINNER = Thread(switches=1, run_ms=9_900)


def ran_ms(ctx: Context) -> float:
    balance = balance_of(ctx, 1)
    assert balance is not None
    return round(time_of_others_ms(ctx, balance), 3)


def foreign(**given: Any) -> tuple[Outcome, float | None]:
    found = only(context(**given), "THR.FOREIGN")
    return found.outcome, found.observed


def test_a_hog_that_was_moved_away_was_never_ours() -> None:
    ctx = context(switches={1: 1}, ran_s={1: 3_600}, busy={1: 0.46}, threads=[PUSHER, LEFT])
    assert ctx.own == frozenset()
    found = only(ctx, "THR.FOREIGN")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.FAIL, 4599.98, 10, "ms")
    assert found.detail == "1 switches, 0 own, 1 foreign; 4.60 s of CPU time by others"
    user = only(ctx, "THR.USER")
    assert (user.outcome, user.title) == (Outcome.FAIL, "foreign user threads: hog")
    assert user.detail == "hog: moved here or away within the window, 9900.0 ms here and elsewhere"
    assert user.evidence == (Evidence(path="/proc/700/task/700", field="run_ns", value="+9900000000"),)
    assert round(user.cost_us_per_s) == 459_998


def test_a_hog_that_was_moved_here_and_stays_is_not_ours() -> None:
    ctx = context(switches={1: 1}, ran_s={1: 0}, busy={1: 0.3}, threads=[CAME])
    assert (ctx.own, ran_ms(ctx)) == (frozenset(), 3000)
    assert outcomes(ctx, "THR.FOREIGN") == outcomes(ctx, "THR.USER") == [Outcome.FAIL]


def test_one_that_moved_and_hardly_ran_here_is_named_all_the_same() -> None:
    ctx = context(switches={1: 1}, ran_s={1: 0.001}, threads=[LEFT])
    assert outcomes(ctx, "THR.FOREIGN") == outcomes(ctx, "THR.USER") == [Outcome.WARN]
    assert only(ctx, "THR.USER").observed == 1
    idle = context(threads=[LEFT])
    assert outcomes(idle, "THR.USER") == [Outcome.PASS]
    held = context(threads=[LEFT], busy={1: 0.4})
    assert outcomes(held, "THR.USER") == [Outcome.WARN]
    assert outcomes(held, "THR.FOREIGN") == [Outcome.UNKNOWN]


def test_who_moved_can_be_told_without_schedstat_of_the_cpus() -> None:
    ctx = edit(context(switches={1: 1}, threads=[LEFT]), "after.counters.schedstat", gone())
    assert outcomes(ctx, "THR.USER") == [Outcome.WARN]


@pytest.mark.parametrize(
    ("thread", "own"),
    [
        (Thread(switches=1), True),
        (Thread(switches=1, new=True), True),
        (Thread(switches=1, ended=True), True),
        (Thread(switches=1, on=cpus(5), on_before=cpus(1)), True),
        (Thread(switches=1, on=cpus(1), on_before=cpus(1, 5)), True),
        (Thread(switches=1, on=cpus(1), on_before=cpus(0, 1)), False),
        (Thread(switches=1, on=cpus(0), on_before=cpus(1)), False),
    ],
)
def test_ours_by_affinity_is_what_is_confined_as_long_as_it_is_there(thread: Thread, own: bool) -> None:
    assert (thread.key in context(audited=(1, 5), threads=[thread]).own) is own


def test_ours_by_name_is_ours_wherever_it_moves() -> None:
    rule = OwnRule(audited=cpus(1), workload="hog")
    ctx = context(switches={1: 1}, busy={1: 0.3}, threads=[CAME], own_rule=rule)
    assert ctx.own == {CAME.key}
    assert outcomes(ctx, "THR.USER") == [Outcome.PASS]


def test_a_visitor_that_nobody_saw_is_told_by_its_time() -> None:
    given: dict[str, Any] = {"switches": {1: 2}, "threads": [PUSHER]}
    assert foreign(**given, ran_s={1: 2.8}, busy={1: 0.28})[0] is Outcome.FAIL
    assert foreign(**given, ran_s={1: 0.0101}, busy={1: 0.0})[0] is Outcome.FAIL
    assert foreign(**given, ran_s={1: 0.0099}) == (Outcome.WARN, 0.1)


def test_kernel_threads_bound_here_are_no_strangers() -> None:
    given: dict[str, Any] = {"switches": {1: 1}, "ran_s": {1: 0.045}}
    assert foreign(**given, threads=[KWORKER]) == (Outcome.WARN, 0.1)
    assert foreign(**given, threads=[replace(KWORKER, switches=0, ended=True)]) == (Outcome.WARN, 0.1)
    assert foreign(**{**given, "switches": {1: 2}}, threads=[KWORKER])[0] is Outcome.FAIL


def test_a_run_that_began_before_the_window_counts_as_far_as_the_cpu_was_busy() -> None:
    given: dict[str, Any] = {"switches": {1: 2}, "ran_s": {1: 3600}}
    assert ran_ms(context(**given, busy={1: 0.25})) == 2500
    assert ran_ms(context(**given)) == 0
    assert ran_ms(edit(context(**given), "after.counters.cpustat", gone())) == 0
    short = context(switches={1: 2}, ran_s={1: 3})
    assert ran_ms(edit(short, "after.counters.cpustat", gone())) == 3000


def test_interrupts_are_no_threads() -> None:
    ctx = context(switches={1: 1}, busy={1: 0.5}, ran_s={1: 0}, threads=[PUSHER])
    assert ran_ms(ctx) == 0
    came = context(switches={1: 1}, busy={1: 0.5}, threads=[CAME])
    stat = came.observation.after.counters.cpustat
    assert isinstance(stat, CpuStat)
    times = replace(stat.cpus[1], user=stat.cpus[1].user - 300, irq=100, softirq=200)
    assert ran_ms(edit(came, "after.counters.cpustat", replace(stat, cpus={**stat.cpus, 1: times}))) == 2000


def test_time_that_another_guest_had_is_not_a_threads() -> None:
    assert ran_ms(context(switches={1: 1}, ran_s={1: 0.5}, steal={1: 45})) == pytest.approx(50)


def test_beside_ours_two_seconds_are_not_proved() -> None:
    given: dict[str, Any] = {"switches": {1: 1002}, "own": [SLEEPER]}
    assert ran_ms(context(**given, ran_s={1: 5.1}, busy={1: 0.51})) == 0
    assert ran_ms(context(**given, ran_s={1: 5.5}, busy={1: 0.54})) == 2400
    spinner: dict[str, Any] = {"switches": {1: 2}, "own": [SPINNER], "busy": {1: 1.0}}
    assert foreign(**spinner, ran_s={1: 3600}) == (Outcome.WARN, 0.1)


def test_where_ours_can_not_be_told_nothing_is_claimed() -> None:
    given: dict[str, Any] = {"switches": {1: 1002}, "ran_s": {1: 9}, "busy": {1: 0.9}}
    assert ran_ms(context(**given, own=[replace(SLEEPER, ended=True)])) == 0
    assert ran_ms(context(**given, complete=False)) == 0
    assert ran_ms(context(**{**given, "switches": {1: 0}})) == 0


def test_two_cpus_of_a_balance_add_up() -> None:
    both = Thread(tid=101, switches=100, run_ms=1, on=cpus(1, 5))
    ctx = context(audited=(1, 5), switches={1: 60, 5: 44}, ran_s={1: 4, 5: 4}, busy={1: 0.4, 5: 0.4}, own=[both])
    assert ran_ms(ctx) == 7999
