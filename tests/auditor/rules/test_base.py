"""The arithmetic that measured rules share, at its edges."""

from __future__ import annotations

import math

import pytest

from auditor.model import Axis, Evidence, Kind, Outcome
from auditor.policy import LIMITS, Limit
from auditor.rules import BY_ID, RULES
from auditor.rules.base import (
    Rule,
    always,
    bound,
    judge,
    judge_between,
    never,
    poisson_lower,
    rate,
    settle,
    weight,
)
from tests.auditor.build import context, findings

LIMIT = Limit(warn=2, fail=10)


def at_least(mean: float, count: int) -> float:
    """P(N >= count) of a Poisson mean, by its exact sum."""
    return 1 - math.fsum(math.exp(-mean + n * math.log(mean) - math.lgamma(n + 1)) for n in range(count))


def exact_lower(count: int) -> float:
    """The mean under which that many or more come with 5 % chance: the lower end of the one-sided 95 % interval."""
    low, high = 1e-9, float(count)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if at_least(middle, count) < 0.05 else (low, middle)
    return low


@pytest.mark.parametrize("count", [*range(1, 41), 75, 150, 300, 600])
def test_the_poisson_bound_is_that_of_exact_sums(count: int) -> None:
    assert poisson_lower(count) == pytest.approx(exact_lower(count), abs=0.02)


@pytest.mark.parametrize("count", [0, -1])
def test_no_events_have_no_lower_bound(count: int) -> None:
    assert poisson_lower(count) == 0.0


@pytest.mark.parametrize(
    ("count", "outcome"),
    [
        (0, Outcome.PASS),
        (20, Outcome.PASS),
        (20.5, Outcome.WARN),
        (21, Outcome.WARN),
        (100, Outcome.WARN),
        (117, Outcome.WARN),
        (118, Outcome.FAIL),
    ],
)
def test_ten_seconds_against_a_limit(count: float, outcome: Outcome) -> None:
    assert judge(count, 10, LIMIT) is outcome


def test_any_event_warns_where_none_is_allowed() -> None:
    limit = Limit(warn=0, fail=1)
    assert [judge(count, 30, limit) for count in (0, 1, 39, 40)] == [
        Outcome.PASS,
        Outcome.WARN,
        Outcome.WARN,
        Outcome.FAIL,
    ]


@pytest.mark.parametrize(
    ("least", "most", "outcome"),
    [
        (0, 0, Outcome.PASS),
        (0, 20, Outcome.PASS),
        (0, 21, Outcome.UNKNOWN),
        (20, 5000, Outcome.UNKNOWN),
        (21, 5000, Outcome.WARN),
        (118, 5000, Outcome.FAIL),
    ],
)
def test_an_interval_fails_by_its_lower_and_passes_by_its_upper_end(least: int, most: int, outcome: Outcome) -> None:
    assert judge_between(least, most, 10, LIMIT) is outcome


@pytest.mark.parametrize(
    ("outcome", "count", "control", "shut", "settled"),
    [
        (Outcome.FAIL, 200, None, True, Outcome.FAIL),
        (Outcome.WARN, 30, 50.0, True, Outcome.WARN),
        (Outcome.UNKNOWN, 0, 50.0, True, Outcome.UNKNOWN),
        (Outcome.PASS, 3, 10.0, False, Outcome.PASS),
        (Outcome.PASS, 0, 9.9, False, Outcome.NOT_EXERCISED),
        (Outcome.PASS, 0, None, False, Outcome.NOT_EXERCISED),
        (Outcome.PASS, 0, None, True, Outcome.PASS),
        (Outcome.PASS, 1, 9.9, True, Outcome.WARN),
    ],
)
def test_a_pass_needs_proof(outcome: Outcome, count: int, control: float | None, shut: bool, settled: Outcome) -> None:
    assert settle(outcome, count, control, LIMIT, shut=shut) is settled


def test_a_failure_stands_beside_the_failing_limit_and_all_else_beside_the_other() -> None:
    assert [bound(outcome, LIMIT) for outcome in (Outcome.FAIL, Outcome.WARN, Outcome.PASS)] == [10, 2, 2]


def test_weights_are_nominal_microseconds() -> None:
    assert (weight("IRQ", 3), weight("IPI", 3), rate(30, 10)) == (30, 3, 3)


def test_a_finding_takes_title_axis_and_kind_from_its_rule() -> None:
    rule = Rule(id="X.Y", title="some thing", kind=Kind.DOOR, why="", check=lambda ctx, rule: ())
    found = rule.finding(Outcome.WARN, {5, 1}, evidence=[Evidence(path="/p", field="f")])
    assert (found.rule, found.title, found.axis, found.kind) == ("X.Y", "some thing", Axis.ISOLATION, Kind.DOOR)
    assert (found.cpus, found.evidence) == ((1, 5), (Evidence(path="/p", field="f"),))
    assert rule.finding(Outcome.WARN, [1], title="other").title == "other"


def test_decisive_is_nothing_unless_said() -> None:
    ctx = context()
    assert (never(ctx, 1), always(ctx, 1)) == (False, True)
    assert {rule.id for rule in RULES if rule.decisive(ctx, 1)} == {
        "CFG.CPUS",
        "CFG.DOMAIN",
        "IRQ.AFFINITY",
        "THR.FOREIGN",
        "IRQ.DEVICE",
        "IRQ.MANAGED",
        "SIRQ.SCHED",
    }


def test_ids_are_unique_and_every_limit_belongs_to_a_rule() -> None:
    assert len(BY_ID) == len(RULES)
    assert set(LIMITS) <= set(BY_ID)
    assert all(rule.why and rule.title for rule in RULES)


def test_nothing_moved_on_an_isolated_cpu_and_no_rule_complains() -> None:
    ctx = context()
    found = [finding for rule in RULES for finding in findings(ctx, rule.id)]
    bad = {finding.rule for finding in found if finding.outcome in (Outcome.FAIL, Outcome.WARN)}
    assert bad == set()
