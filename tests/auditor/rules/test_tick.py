"""The tick: per busy second, less what own timers may be."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import FixKind, Outcome
from auditor.own import OwnRule
from auditor.policy import Policy
from auditor.rules import BY_ID
from auditor.rules.tick import claimed, own_ticks
from probes.host import SourceState
from tests.auditor.build import Thread, context, cpus, edit, gone, only, outcomes

NO_NOHZ: dict[str, Any] = {"nohz_full": cpus()}
POLL = Policy(busy_poll=True)
SPINNER = Thread(switches=0, run_ms=9900)


def spinning(loc: int, **given: Any) -> Context:
    """One own thread that never sleeps, for ten seconds."""
    return context(rows={"LOC": {1: loc}}, busy={1: 1.0}, own=[SPINNER], **given)


def decisive(ctx: Context) -> bool:
    return BY_ID["TICK.LOC"].decisive(ctx, 1)


@pytest.mark.parametrize(
    ("loc", "outcome"),
    [
        (0, Outcome.PASS),
        (20, Outcome.PASS),
        (21, Outcome.WARN),
        (117, Outcome.WARN),
        (118, Outcome.FAIL),
        (2500, Outcome.FAIL),
    ],
)
def test_a_spinner_under_nohz_full(loc: int, outcome: Outcome) -> None:
    ctx = spinning(loc)
    assert outcomes(ctx, "TICK.LOC") == [outcome]
    assert decisive(ctx)


@pytest.mark.parametrize("hz", [100, 250, 300, 1000])
def test_the_periodic_tick_is_named(hz: int) -> None:
    found = only(spinning(hz * 10, hz=hz), "TICK.LOC")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.FAIL, hz, 10, "/busy s")
    assert found.detail == (
        f"{hz * 10} ticks in 10.0 busy seconds: the periodic tick at {hz} Hz; nohz_full covers CPU 1, yet the tick runs"
    )
    assert (found.origin, found.per_second, found.cost_us_per_s) == ("tick", hz, 3 * hz)
    assert found.evidence[0].value == f"+{hz * 10}"
    assert found.fix is not None
    assert found.fix.kind is FixKind.WORKLOAD


def test_the_periodic_tick_is_recognised_where_hz_is_not_known() -> None:
    assert "the periodic tick at 300 Hz" in only(spinning(3100, hz=None), "TICK.LOC").detail
    assert "the periodic tick" not in only(spinning(5000, hz=None), "TICK.LOC").detail


def test_a_spinner_without_nohz_full_is_a_warning_with_the_boot_line() -> None:
    ctx = spinning(2500, **NO_NOHZ)
    found = only(ctx, "TICK.LOC")
    assert (found.outcome, found.observed) == (Outcome.WARN, 250)
    assert found.detail.endswith("the periodic tick at 250 Hz; nohz_full does not cover this CPU")
    assert found.fix is not None
    assert found.fix.boot["nohz_full"] == "1"
    assert not decisive(ctx)


def test_where_the_policy_says_busy_poll_it_is_a_failure_and_decisive() -> None:
    ctx = spinning(2500, policy=POLL, **NO_NOHZ)
    found = only(ctx, "TICK.LOC")
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith("nohz_full does not cover this CPU")
    assert decisive(ctx)


@pytest.mark.parametrize(
    ("busy", "policy", "outcome"),
    [
        (0.0, Policy(), Outcome.NOT_APPLICABLE),
        (0.099, Policy(), Outcome.NOT_APPLICABLE),
        (0.101, Policy(), Outcome.PASS),
        (0.0, POLL, Outcome.NOT_EXERCISED),
    ],
)
def test_an_idle_cpu_says_nothing_of_its_tick(busy: float, policy: Policy, outcome: Outcome) -> None:
    found = only(context(busy={1: busy}, policy=policy), "TICK.LOC")
    assert found.outcome is outcome
    if outcome is not Outcome.PASS:
        assert found.detail == (
            f"the CPU was {busy:.1%} busy: an idle CPU stops its tick on any kernel; --work spin judges it"
        )


@pytest.mark.parametrize("hz", [100, 250, 1000])
def test_a_poller_at_70_percent_whose_tick_runs_is_found_behind_its_timers(hz: int) -> None:
    """A thousand own timers a second, and the tick at HZ while it is busy."""
    ctx = context(rows={"LOC": {1: 10_000 + 7 * hz}}, busy={1: 0.7}, hz=hz, own=[Thread(switches=10_000, run_ms=7000)])
    found = only(ctx, "TICK.LOC")
    assert found.outcome is Outcome.FAIL
    assert found.observed == pytest.approx(hz)
    assert f"the periodic tick at {hz} Hz" in found.detail


@pytest.mark.parametrize("hz", [100, 250, 300, 1000])
def test_a_poller_at_70_percent_that_others_wake_is_found_by_its_rate(hz: int) -> None:
    ctx = context(
        rows={"LOC": {1: 7 * hz}, "CAL": {1: 10_000}}, busy={1: 0.7}, hz=hz, own=[Thread(switches=10_000, run_ms=7000)]
    )
    found = only(ctx, "TICK.LOC")
    assert found.outcome is Outcome.FAIL
    assert found.observed == pytest.approx(hz)


def test_a_poller_without_a_tick_passes_when_woken_by_others() -> None:
    ctx = context(rows={"CAL": {1: 10_000}}, busy={1: 0.7}, own=[Thread(switches=10_000)])
    assert outcomes(ctx, "TICK.LOC") == [Outcome.PASS]


def test_a_sleeper_with_timers_that_nobody_declared_is_unknown_and_not_decisive() -> None:
    ctx = context(rows={"LOC": {1: 10_000}}, busy={1: 0.3}, own=[Thread(switches=10_000)])
    found = only(ctx, "TICK.LOC")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == (
        "10000 ticks in 3.0 busy seconds, less up to 10000 own timers; own wake-ups may explain them all: "
        "whether the tick runs as well can't be told"
    )
    assert not decisive(ctx)


def test_timers_at_the_rate_of_the_tick_are_unknown() -> None:
    """2400 interrupts in 9.6 busy seconds at 250 Hz are a tick, or one for each of 2400 wake-ups."""
    ctx = context(rows={"LOC": {1: 2400}}, busy={1: 0.96}, own=[Thread(switches=2400)])
    assert outcomes(ctx, "TICK.LOC") == [Outcome.UNKNOWN]
    assert decisive(ctx)


def cyclictest(loc: int, **given: Any) -> Context:
    """5000 known timers a second for ten seconds at a third busy."""
    rule = OwnRule(audited=cpus(1), work_pids=frozenset({100}), work_timer_hz=5000)
    rows = {"LOC": {1: loc}, **given.pop("rows", {})}
    return context(rows=rows, busy={1: 0.33}, own=[Thread(switches=50_000)], own_rule=rule, **given)


@pytest.mark.parametrize(
    ("loc", "outcome"), [(50_000, Outcome.PASS), (50_490, Outcome.PASS), (50_510, Outcome.WARN), (50_825, Outcome.FAIL)]
)
def test_known_timers_are_subtracted_with_an_allowance_of_a_hundredth(loc: int, outcome: Outcome) -> None:
    assert outcomes(cyclictest(loc), "TICK.LOC") == [outcome]


def test_known_timers_do_not_hide_the_tick_behind_wake_ups_by_others() -> None:
    """As many calls as a tick brings interrupts: those wake-ups were no timers."""
    assert outcomes(cyclictest(50_000, rows={"CAL": {1: 825}}), "TICK.LOC") == [Outcome.FAIL]


def test_a_workload_wakes_no_more_often_by_timer_than_its_timers_are() -> None:
    """It blocks on more than its timers: 825 other wake-ups excuse no tick."""
    rule = OwnRule(audited=cpus(1), work_pids=frozenset({100}), work_timer_hz=5000)
    ctx = context(rows={"LOC": {1: 50_825}}, busy={1: 0.33}, own=[Thread(switches=90_000)], own_rule=rule)
    assert outcomes(ctx, "TICK.LOC") == [Outcome.FAIL]


def test_the_fair_server_is_no_tick() -> None:
    rows = {"LOC": {1: 11}, "RES": {1: 11}, "CAL": {1: 11}}
    ctx = context(rows=rows, busy={1: 1.0}, own=[SPINNER], release="6.12.0")
    found = only(ctx, "TICK.LOC")
    assert (found.outcome, found.observed) == (Outcome.PASS, 0)
    assert found.detail == "11 ticks in 10.0 busy seconds, less 11 of the fair server"


def test_own_ticks_are_an_interval() -> None:
    sleeper = [Thread(switches=10_000)]
    assert own_ticks(context(rows={"LOC": {1: 10_000}}, busy={1: 0.0}, own=sleeper), 1) == (10_000, 10_000)
    assert own_ticks(context(rows={"LOC": {1: 10_000}}, busy={1: 0.5}, own=sleeper), 1) == (8_625, 10_000)
    assert own_ticks(context(rows={"LOC": {1: 10_000}}, busy={1: 0.5}, own=sleeper, hz=None), 1) == (4_500, 10_000)
    unknown = edit(context(rows={"LOC": {1: 10_000}}, own=sleeper), "after.counters.cpustat", gone())
    assert own_ticks(unknown, 1) == (0, 10_000)


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("cpustat", "/proc/stat does not tell of this CPU at both ends of the window"),
        ("interrupts", "/proc/interrupts: missing for this test"),
    ],
)
@pytest.mark.parametrize("end", ["before", "after"])
def test_without_a_source_it_is_unknown_and_decisive(end: str, source: str, detail: str) -> None:
    ctx = edit(spinning(0), f"{end}.counters.{source}", gone(f"proc/{source}"))
    found = only(ctx, "TICK.LOC")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, detail)
    assert decisive(ctx)


def test_a_cpu_without_a_column_and_a_machine_without_a_row() -> None:
    found = only(context(rows={"LOC": {1: None}}, busy={1: 1.0}), "TICK.LOC")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "/proc/interrupts does not tell of this CPU at both ends of the window",
    )
    ctx = spinning(0)
    for end in ("before", "after"):
        rows = getattr(ctx.observation, end).counters.interrupts.rows
        ctx = edit(ctx, f"{end}.counters.interrupts.rows", tuple(row for row in rows if row.label != "LOC"))
    found = only(ctx, "TICK.LOC")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "/proc/interrupts: no row of the local timer")


@pytest.mark.parametrize("end", ["before", "after"])
def test_nohz_full_is_claimed_where_either_end_shows_it(end: str) -> None:
    ctx = edit(spinning(2500), f"{end}.config.isolation.nohz_full", cpus())
    assert claimed(ctx, 1)
    assert outcomes(ctx, "TICK.LOC") == [Outcome.FAIL]


@pytest.mark.parametrize(
    ("state", "keeps_open"), [(SourceState.MISSING, False), (SourceState.DENIED, True), (SourceState.MALFORMED, True)]
)
def test_nohz_full_that_can_not_be_read_keeps_the_verdict_open(state: SourceState, keeps_open: bool) -> None:
    ctx = spinning(2500, nohz_full=gone("nohz_full", state))
    assert not claimed(ctx, 1)
    assert outcomes(ctx, "TICK.LOC") == [Outcome.WARN]
    assert decisive(ctx) is keeps_open
