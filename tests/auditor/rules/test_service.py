"""Kernel threads that work for the own workload: a poller on PREEMPT_RT, whose sleeps expire in ktimers/N."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Outcome
from auditor.rules.service import own_timer_runs
from tests.auditor.build import Thread, context, edit, findings, gone, only

POLLER = Thread(switches=891)
KTIMERS = Thread(tid=30, name="ktimers/1", kernel=True, switches=65, run_ms=12)
BOOTED: dict[str, Any] = {
    "switches": {1: 956},
    "softirqs": {"HRTIMER": {1: 65}},
    "rows": {"LOC": {1: 65}, "RES": {1: 830}},
    "own": [POLLER],
    "threads": [KTIMERS],
}
"""The counts of a booted 6.12-rt node: 65 sleeps expired here, 830 elsewhere and arrived as RES."""


BOOTED_SAYS = "ktimers/1: 65 switches, 12.0 ms, up to 65 of them for own timers"


def rt(**given: Any) -> Context:
    ctx = context(**{**BOOTED, **given})
    return edit(ctx, "facts.kernel.version", "#1 SMP PREEMPT_RT Debian")


def test_own_sleeps_that_expire_in_a_kernel_thread_are_no_noise() -> None:
    found = only(rt(), "THR.FOREIGN")
    assert (found.outcome, found.observed) == (Outcome.PASS, 0)
    assert found.detail == "956 switches, 891 own, 65 foreign, up to 65 of them for own timers"
    named = findings(rt(), "THR.KBOUND")
    assert [(f.outcome, f.detail) for f in named] == [
        (
            Outcome.UNKNOWN,
            f"{BOOTED_SAYS}; the own threads may explain them all, or none",
        )
    ]
    assert named[0].cost_us_per_s == 0


def test_what_own_wake_ups_can_not_explain_stays_foreign() -> None:
    """Forty runs more than there were own wake-ups."""
    ctx = rt(
        switches={1: 165},
        softirqs={"HRTIMER": {1: 105}},
        own=[Thread(switches=60)],
        rows={},
        threads=[Thread(tid=30, name="ktimers/1", kernel=True, switches=105)],
    )
    found = only(ctx, "THR.FOREIGN")
    assert (found.outcome, found.observed) == (Outcome.FAIL, 4.5)
    assert findings(ctx, "THR.KBOUND")[0].observed == 4.5


def test_what_two_threads_may_have_done_together_excuses_neither_of_them_for_certain() -> None:
    """Sixty own sleeps: ktimers/1 may have let all of them expire, then ksoftirqd/1 ran for others all the time."""
    pair = [
        Thread(tid=tid, name=name, kernel=True, switches=60) for tid, name in ((30, "ktimers/1"), (31, "ksoftirqd/1"))
    ]
    ctx = rt(switches={1: 180}, softirqs={"HRTIMER": {1: 60}}, rows={}, own=[Thread(switches=60)], threads=pair)
    assert own_timer_runs(ctx, 1) == (60, 60)
    assert [f.outcome for f in findings(ctx, "THR.KBOUND")] == [Outcome.UNKNOWN, Outcome.UNKNOWN]
    assert only(ctx, "THR.FOREIGN").outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        ({}, (61, 65)),
        ({"softirqs": {"HRTIMER": {1: 3}}}, (3, 3)),
        ({"rows": {"RES": {1: 5000}}}, (0, 65)),
        ({"threads": [Thread(tid=30, name="ktimers/1", switches=65)]}, (0, 0)),
        ({"threads": [Thread(tid=30, name="ktimers/0", kernel=True, switches=65)]}, (0, 0)),
        ({"own": []}, (0, 0)),
    ],
)
def test_the_interval(given: dict[str, Any], interval: tuple[int, int]) -> None:
    assert own_timer_runs(rt(**given), 1) == interval


@pytest.mark.parametrize("source", ["softirqs", "interrupts"])
def test_without_the_counters_nothing_is_excused(source: str) -> None:
    assert own_timer_runs(edit(rt(), f"after.counters.{source}", gone()), 1) == (0, 0)


def test_elsewhere_sleeps_expire_in_the_interrupt() -> None:
    assert own_timer_runs(context(**BOOTED), 1) == (0, 0)
    assert only(context(**BOOTED), "THR.FOREIGN").outcome is Outcome.FAIL
