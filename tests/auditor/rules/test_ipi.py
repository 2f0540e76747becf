"""Inter-processor interrupts, less those that woke own threads."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Evidence, Outcome
from auditor.rules.ipi import own_ipis
from probes.interrupts import InterruptKind
from tests.auditor.build import Thread, context, cpus, edit, gone, only, outcomes

LIMITS = [("RES", 1, 10), ("CAL", 0.2, 5), ("TLB", 1, 50), ("IWI", 1, 50)]


@pytest.mark.parametrize(("label", "warn", "fail"), LIMITS)
def test_the_edges_of_each_limit(label: str, warn: float, fail: float) -> None:
    def judged(count: int) -> Outcome:
        return only(context(window_s=100, rows={label: {1: count, 0: 100_000}}), f"IPI.{label}").outcome

    assert judged(0) is Outcome.PASS
    assert judged(int(warn * 100)) is Outcome.PASS
    assert judged(int(warn * 100) + 1) is Outcome.WARN
    assert judged(int(fail * 100)) is Outcome.WARN
    assert judged(int(fail * 100 * 1.1)) is Outcome.FAIL


@pytest.mark.parametrize(("label", "warn", "fail"), LIMITS)
def test_below_the_limit_without_load_is_not_exercised(label: str, warn: float, fail: float) -> None:
    below = int(fail * 10) - 1
    assert outcomes(context(rows={label: {0: below}}), f"IPI.{label}") == [Outcome.NOT_EXERCISED]
    assert outcomes(context(rows={label: {0: below + 1}}), f"IPI.{label}") == [Outcome.PASS]


def test_what_is_shown() -> None:
    found = only(context(rows={"CAL": {1: 300}}), "IPI.CAL")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.FAIL, 30, 5, "/s")
    assert (found.detail, found.origin, found.per_second, found.cost_us_per_s) == ("300 counted", "ipi", 30, 30)
    assert found.evidence == (Evidence(path="/proc/interrupts", field="CAL CPU1", value="+300"),)
    assert found.fix is not None


def test_tlb_flushes_are_calls_and_weigh_nothing_again() -> None:
    found = only(context(rows={"TLB": {1: 6000}, "CAL": {1: 6000}}), "IPI.TLB")
    assert (found.outcome, found.observed, found.per_second, found.cost_us_per_s) == (Outcome.FAIL, 600, 0, 0)


def test_a_sleeper_that_others_wake_is_no_noise() -> None:
    ctx = context(rows={"CAL": {1: 10_000, 0: 10_000}}, own=[Thread(switches=10_000)], busy={1: 0.3})
    found = only(ctx, "IPI.CAL")
    assert (found.outcome, found.observed) == (Outcome.PASS, 0)
    assert found.detail == "10000 counted, less up to 10000 own wake-ups"


def test_a_sleeper_that_others_wake_excuses_no_more_than_its_wake_ups() -> None:
    ctx = context(rows={"CAL": {1: 10_080, 0: 10_000}}, own=[Thread(switches=10_000)], busy={1: 0.3})
    assert outcomes(ctx, "IPI.CAL") == [Outcome.FAIL]


def test_reschedules_are_credited_before_calls() -> None:
    ctx = context(rows={"RES": {1: 600}, "CAL": {1: 500}}, own=[Thread(switches=1000)])
    assert own_ipis(ctx, 1, InterruptKind.RESCHEDULE) == (600, 600)
    assert own_ipis(ctx, 1, InterruptKind.CALL) == (400, 400)
    assert own_ipis(ctx, 1, InterruptKind.TLB) == (0, 0)


def test_wake_ups_by_own_timers_here_excuse_no_call() -> None:
    """Idle but for a thread that its own timer wakes: every wake-up has its LOC."""
    ctx = context(rows={"LOC": {1: 10_000}, "CAL": {1: 300, 0: 300}}, own=[Thread(switches=10_000)], busy={1: 0.0})
    assert own_ipis(ctx, 1, InterruptKind.CALL) == (0, 0)
    assert outcomes(ctx, "IPI.CAL") == [Outcome.FAIL]


def test_where_the_tick_may_account_for_the_timers_it_can_not_be_told() -> None:
    """Busy enough for 250 ticks a second: a tenth of the wake-ups may have come from elsewhere."""
    ctx = context(rows={"LOC": {1: 10_000}, "CAL": {1: 300, 0: 300}}, own=[Thread(switches=10_000)], busy={1: 0.5})
    found = only(ctx, "IPI.CAL")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail.endswith("the own threads may explain them all, or none")


def test_a_thread_that_may_run_on_two_cpus_excuses_and_proves_nothing() -> None:
    ctx = context(
        audited=(1, 5),
        rows={"CAL": {1: 300, 5: 0, 0: 300}},
        own=[Thread(switches=10_000, on=cpus(1, 5))],
        busy={1: 0.3},
    )
    assert own_ipis(ctx, 1, InterruptKind.CALL) == (0, 300)
    assert outcomes(ctx, "IPI.CAL") == [Outcome.UNKNOWN, Outcome.PASS]


def test_a_thread_that_was_preempted_was_not_woken() -> None:
    """Switched to 300 times because it had to leave as often: no wake-up excuses the calls."""
    ctx = context(
        rows={"CAL": {1: 300, 0: 300}}, own=[Thread(switches=300, voluntary=0, involuntary=300)], busy={1: 0.9}
    )
    assert own_ipis(ctx, 1, InterruptKind.CALL) == (0, 0)
    assert outcomes(ctx, "IPI.CAL") == [Outcome.FAIL]


def test_no_row_on_this_architecture() -> None:
    ctx = context()
    for end in ("before", "after"):
        interrupts = getattr(ctx.observation, end).counters.interrupts
        rows = tuple(row for row in interrupts.rows if row.label != "TLB")
        ctx = edit(ctx, f"{end}.counters.interrupts.rows", rows)
    found = only(ctx, "IPI.TLB")
    assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "this architecture has no such row")


def test_no_column_and_no_table() -> None:
    rows: dict[str, Any] = {"RES": {1: None}}
    found = only(context(rows=rows), "IPI.RES")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "no column for this CPU at both ends of the window")
    for end in ("before", "after"):
        assert outcomes(edit(context(), f"{end}.counters.interrupts", gone()), "IPI.RES") == [Outcome.UNKNOWN]
