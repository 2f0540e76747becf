"""Findings of one origin are one cause; causes are ranked by what they take."""

from __future__ import annotations

from typing import Any

from auditor.causes import rank
from auditor.model import Axis, Finding, Fix, FixKind, Kind, Outcome


def bad(origin: str, cost: float = 0, outcome: Outcome = Outcome.FAIL, **given: Any) -> Finding:
    values: dict[str, Any] = {"rule": "R", "kind": Kind.MEASURED, "cpus": (1,), "title": origin, **given}
    return Finding(
        axis=given.pop("axis", Axis.ISOLATION), outcome=outcome, origin=origin, cost_us_per_s=cost,
        **{name: value for name, value in values.items() if name != "axis"},
    )  # fmt: skip


def fix(text: str) -> Fix:
    return Fix(kind=FixKind.RUNTIME, text=text)


def test_most_disturbance_first_and_shares_of_all() -> None:
    causes = rank([bad("a", 10), bad("b", 30, Outcome.WARN), bad("a", 20), bad("c", 40)])
    assert [(cause.title, cause.share) for cause in causes] == [("c", 0.4), ("a", 0.3), ("b", 0.3)]


def test_an_open_door_that_nothing_came_through_is_last_and_has_no_share() -> None:
    causes = rank([bad("door", kind=Kind.DOOR), bad("irq", 5, Outcome.WARN)])
    assert [(cause.title, cause.share) for cause in causes] == [("irq", 1), ("door", None)]


def test_with_nothing_measured_failures_come_before_warnings_and_then_names() -> None:
    causes = rank([bad("b", 0, Outcome.WARN), bad("d"), bad("a", 0, Outcome.WARN), bad("c")])
    assert [(cause.title, cause.share) for cause in causes] == [("c", None), ("d", None), ("a", None), ("b", None)]


def test_only_what_failed_or_warned_and_has_an_origin() -> None:
    assert (
        rank(
            [
                bad("a", 5, Outcome.PASS),
                bad("b", 5, Outcome.UNKNOWN),
                bad("c", 5, Outcome.NOT_EXERCISED),
                bad("d", 5, Outcome.WARN, axis=Axis.READINESS),
                bad("", 5),
            ]
        )
        == ()
    )


def test_what_a_cause_puts_together() -> None:
    found = [
        bad("x", 5, Outcome.WARN, rule="B", cpus=(5,), title="softirq: b", per_second=2, fix=fix("later")),
        bad("x", 1, rule="A", cpus=(1,), title="irq: a", per_second=1),
        bad("x", 2, rule="A", cpus=(1, 5), title="irq: c", per_second=0.5, fix=fix("first")),
    ]
    (cause,) = rank(found)
    assert cause.title == "irq: c, a; softirq: b"
    assert (cause.rules, cause.cpus, cause.share, cause.per_second) == (("A", "B"), (1, 5), 1, 3.5)
    assert cause.fix == fix("first")


def test_the_interrupt_names_the_cause_before_the_thread_that_handles_it() -> None:
    (cause,) = rank(
        [bad("irq:eth0", 90, rule="THR.KBOUND", title="thread"), bad("irq:eth0", 5, Outcome.WARN, title="irq")]
    )
    assert cause.title == "irq; thread"


def test_no_rate_and_no_fix_are_none() -> None:
    (cause,) = rank([bad("x")])
    assert (cause.per_second, cause.share, cause.fix) == (None, None, None)


def test_names_are_told_once_and_five_at_most() -> None:
    (cause,) = rank([bad("x", title=f"threads: t{n % 7}") for n in range(14)])
    assert cause.title == "threads: t0, t1, t2, t3, t4 and 2 more"


def test_nothing_is_no_cause() -> None:
    assert rank([]) == ()


def test_a_failure_of_readiness_says_so_and_comes_after_all_that_was_measured_of_isolation() -> None:
    """However much time it costs, it takes none from the CPUs; an open door cost nobody anything yet."""
    quota = bad("quota", 900_000, axis=Axis.READINESS, per_second=0.1, fix=fix("lift"))
    door = bad("door", kind=Kind.DOOR)
    causes = rank([door, quota, bad("irq", 3, Outcome.WARN), bad("tick", 1, Outcome.WARN), bad("mce", 0, Outcome.WARN)])
    assert [(cause.title, cause.share, cause.per_second) for cause in causes] == [
        ("irq", 0.75, None),
        ("tick", 0.25, None),
        ("mce", None, None),
        ("readiness: quota", None, 0.1),
        ("door", None, None),
    ]


def test_failures_of_readiness_are_ranked_by_the_time_that_they_cost() -> None:
    causes = rank([bad(name, cost, axis=Axis.READINESS) for name, cost in (("a", 5), ("b", 20), ("c", 0))])
    assert [(cause.title, cause.share) for cause in causes] == [
        ("readiness: b", None),
        ("readiness: a", None),
        ("readiness: c", None),
    ]


def test_a_limit_that_keeps_the_tick_and_runs_out_counts_as_the_tick() -> None:
    """The stall of the own threads gives a disturbance no larger share, and no other fix."""
    found = [
        bad("tick:quota", 90, axis=Axis.READINESS, rule="CFG.QUOTA", title="limit", per_second=9, fix=fix("lift")),
        bad("tick:quota", 10, rule="TICK.LOC", title="tick", per_second=250, fix=fix("lift and wake")),
        bad("irq", 30),
    ]
    irq, tick = rank(found)
    assert (irq.title, irq.share) == ("irq", 0.75)
    assert (tick.title, tick.rules) == ("tick; limit", ("TICK.LOC", "CFG.QUOTA"))
    assert (tick.share, tick.per_second, tick.fix) == (0.25, 250, fix("lift and wake"))


def test_a_risk_of_isolation_makes_a_failure_of_readiness_no_failure_of_isolation() -> None:
    (cause,) = rank([bad("x", 5, axis=Axis.READINESS), bad("x", rule="CFG.X", kind=Kind.RISK, title="risk")])
    assert (cause.title, cause.share) == ("readiness: x; risk", None)


def test_a_risk_explains_a_door_and_is_no_cause_of_its_own() -> None:
    risk = bad("door:irq", 0, Outcome.WARN, rule="CFG.IRQAFF", kind=Kind.RISK, title="default", cpus=(1, 2))
    assert rank([risk]) == ()
    (cause,) = rank([risk, bad("door:irq", rule="IRQ.AFFINITY", kind=Kind.DOOR, title="door", waived="known")])
    assert (cause.title, cause.rules, cause.cpus) == ("door; default", ("IRQ.AFFINITY", "CFG.IRQAFF"), (1, 2))
    assert cause.waived  # the risk decides nothing, so neither does that it is not waived


def test_a_door_is_named_before_what_came_through_it() -> None:
    (cause,) = rank(
        [
            bad("door:domain", 900, rule="SIRQ.SCHED", title="softirqs", fix=fix("balancer")),
            bad("door:domain", rule="CFG.DOMAIN", kind=Kind.DOOR, title="domain", fix=fix("isolate")),
        ]
    )
    assert (cause.title, cause.share, cause.fix) == ("domain; softirqs", 1, fix("isolate"))
