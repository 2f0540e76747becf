"""From findings to verdicts: precedence, bounds, readiness, exit codes; and that no gap in the evidence passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.engine import run
from auditor.model import (
    Axis,
    ExitCode,
    Finding,
    Kind,
    Outcome,
    Readiness,
    Status,
    Verdict,
)
from auditor.own import OwnRule
from auditor.policy import Policy
from auditor.rules import BY_ID, RULES
from auditor.verdict import exit_code, judge_cpu, overall, readiness
from probes.host import ProbeError, SourceState
from tests.auditor.build import Thread, context, cpus, edit, irq

PASSED = tuple(rule.finding(Outcome.PASS, [1]) for rule in RULES)


def said(**outcomes: Outcome) -> list[Finding]:
    """All rules pass but these."""
    by_rule = {name.replace("_", "."): outcome for name, outcome in outcomes.items()}
    return [replace(finding, outcome=by_rule.get(finding.rule, finding.outcome)) for finding in PASSED]


def judged(ctx: Context, cpu: int = 1) -> Verdict:
    return judge_cpu(ctx, run(RULES, ctx), cpu)


STEPS = [
    ("IRQ_DEVICE", Outcome.FAIL, Status.NOT_ISOLATED, "measured above the limit: device interrupts"),
    (
        "CFG_DOMAIN",
        Outcome.FAIL,
        Status.EXPOSED,
        "nothing measured above its limit, but a door is open: scheduler domain",
    ),
    ("THR_FOREIGN", Outcome.UNKNOWN, Status.UNKNOWN, "nothing failed, but not decided: foreign switches"),
    ("IPI_RES", Outcome.WARN, Status.DISTURBED, "doors closed; above the warning limit: reschedule interrupts"),
]


def test_precedence_from_the_worst_down() -> None:
    for first in range(len(STEPS)):
        verdict = judge_cpu(context(), said(**{rule: outcome for rule, outcome, *_ in STEPS[first:]}), 1)
        assert (verdict.status, verdict.reason) == STEPS[first][2:]
    verdict = judge_cpu(context(), PASSED, 1)
    assert verdict.status is Status.ISOLATED
    assert verdict.reason == "doors closed and in force, every decisive rule passed"


@pytest.mark.parametrize(
    "rule", ["CFG_DOMAIN", "IRQ_AFFINITY", "THR_FOREIGN", "IRQ_DEVICE", "IRQ_MANAGED", "SIRQ_SCHED"]
)
@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.NOT_EXERCISED])
def test_a_decisive_rule_that_does_not_know_keeps_the_verdict_open(rule: str, outcome: Outcome) -> None:
    assert judge_cpu(context(), said(**{rule: outcome}), 1).status is Status.UNKNOWN


def test_a_decisive_rule_that_says_nothing_keeps_the_verdict_open() -> None:
    for rule in RULES:
        verdict = judge_cpu(context(), [finding for finding in PASSED if finding.rule != rule.id], 1)
        decisive = rule.decisive(context(), 1)
        assert verdict.status is (Status.UNKNOWN if decisive else Status.ISOLATED)
        if decisive:
            assert verdict.reason == f"nothing failed, but not decided: {rule.title}"


@pytest.mark.parametrize("rule", ["IPI_RES", "STEAL", "SIRQ_RCU", "THR_USER", "TICK_LOC", "FAIRSRV"])
def test_other_rules_may_not_know(rule: str) -> None:
    assert judge_cpu(context(), said(**{rule: Outcome.UNKNOWN}), 1).status is Status.ISOLATED


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN])
def test_risks_and_readiness_never_change_the_verdict(outcome: Outcome) -> None:
    found = said(CFG_CMDLINE=outcome, CFG_MIRQ=outcome, THR_OWNERS=outcome, CST_DEEP=outcome)
    assert judge_cpu(context(), found, 1).status is Status.ISOLATED


def test_a_verdict_is_of_one_cpu() -> None:
    ctx = context(audited=(1, 5))
    found = [replace(finding, cpus=(1, 5)) for finding in PASSED]
    found.append(replace(found[0], outcome=Outcome.FAIL, cpus=(5,)))
    assert [judge_cpu(ctx, found, cpu).status for cpu in (1, 5)] == [Status.ISOLATED, Status.EXPOSED]


def test_many_reasons_are_counted() -> None:
    found = said(IRQ_DEVICE=Outcome.FAIL, SIRQ_SCHED=Outcome.FAIL, IPI_RES=Outcome.FAIL, IPI_CAL=Outcome.FAIL,
                 IPI_TLB=Outcome.FAIL, TICK_LOC=Outcome.FAIL)  # fmt: skip
    assert judge_cpu(context(), found, 1).reason.endswith(" and 2 more")


@pytest.mark.parametrize(("window_s", "status"), [(0.94, Status.UNKNOWN), (0.95, Status.ISOLATED)])
def test_too_short_a_window_proves_nothing(window_s: float, status: Status) -> None:
    verdict = judge_cpu(context(window_s=window_s), PASSED, 1)
    assert verdict.status is status
    if status is Status.UNKNOWN:
        assert verdict.reason == "0.94 s are too short to say more than that nothing failed"


def test_too_short_a_window_still_shows_what_failed() -> None:
    assert judge_cpu(context(window_s=0.5), said(IRQ_DEVICE=Outcome.FAIL), 1).status is Status.NOT_ISOLATED
    assert judge_cpu(context(window_s=0.5), said(IPI_RES=Outcome.WARN), 1).status is Status.UNKNOWN


def test_isolated_is_printed_with_its_bound() -> None:
    assert judge_cpu(context(window_s=30), PASSED, 1).bounds == (
        "no disturbance visible to these counters in 30 s (device interrupts ≤ 0.1/s); "
        "not seen: SMI, cache and memory contention"
    )
    rule = OwnRule(audited=cpus(1), irqs=("30",))
    for fired, whose in ((1, " of others"), (0, "")):
        own = judge_cpu(context(window_s=30, rows={"30 eth0": {1: fired}}, own_rule=rule), PASSED, 1)
        assert f"(device interrupts{whose} ≤ 0.1/s)" in own.bounds
    guest = judge_cpu(context(window_s=10, hypervisor="KVM"), said(TICK_LOC=Outcome.NOT_APPLICABLE), 1)
    assert guest.bounds == (
        "no disturbance visible to these counters in 10 s (device interrupts ≤ 0.3/s); the tick was not judged; "
        "not seen: SMI, cache and memory contention, hypervisor"
    )
    silent = said(TICK_LOC=Outcome.NOT_APPLICABLE, STEAL=Outcome.UNKNOWN)
    told = judge_cpu(context(window_s=10, hypervisor="KVM"), silent, 1)
    assert told.bounds.endswith("hypervisor (which reports no steal)")


def test_anything_else_is_printed_with_what_was_counted() -> None:
    assert judge_cpu(context(window_s=12.34), said(IPI_RES=Outcome.WARN), 1).bounds == (
        "counted for 12.3 s; not seen: SMI, cache and memory contention"
    )


def test_the_worst_cpu_speaks_for_the_host() -> None:
    each = [Verdict(status=status, reason=status.value, bounds="") for status in Status]
    for first in range(len(each)):
        assert overall(each[first:][::-1]) == each[first]


def cst(outcome: Outcome) -> Finding:
    return Finding(
        rule="CST.DEEP", axis=Axis.READINESS, kind=Kind.MEASURED, outcome=outcome, cpus=(1,), title=outcome.value
    )


@pytest.mark.parametrize(
    ("outcomes", "status", "reason"),
    [
        (("pass",), Readiness.READY, "no limit found"),
        (("pass", "warn"), Readiness.LIMITED, "warn"),
        (("warn", "fail", "unknown"), Readiness.NOT_READY, "fail"),
        (("pass", "unknown"), Readiness.LIMITED, "not decided: unknown"),
        (("not-exercised", "not-exercised"), Readiness.LIMITED, "not decided: not-exercised"),
        (("not-applicable",), Readiness.LIMITED, "nothing to judge it by is visible here"),
        ((), Readiness.LIMITED, "nothing to judge it by is visible here"),
    ],
)
def test_readiness(outcomes: tuple[str, ...], status: Readiness, reason: str) -> None:
    found = readiness([cst(Outcome(outcome)) for outcome in outcomes] + said(IRQ_DEVICE=Outcome.FAIL)[:5])
    assert (found.status, found.reason) == (status, reason)


def test_settings_that_pass_make_nobody_ready_alone() -> None:
    settings = [BY_ID[rule].finding(Outcome.PASS, [1]) for rule in ("CFG.CLOCK", "CFG.THP", "CFG.KSM")]
    assert readiness(settings).status is Readiness.LIMITED
    assert readiness([*settings, cst(Outcome.PASS)]).status is Readiness.READY
    assert readiness([cst(Outcome.PASS), BY_ID["CFG.CLOCK"].finding(Outcome.UNKNOWN, [1])]).reason == (
        "not decided: clock source"
    )


@pytest.mark.parametrize(
    ("status", "ready", "strict", "code"),
    [
        (Status.ISOLATED, Readiness.READY, True, ExitCode.OK),
        (Status.ISOLATED, Readiness.LIMITED, True, ExitCode.OK),
        (Status.ISOLATED, Readiness.NOT_READY, False, ExitCode.FOUND),
        (Status.DISTURBED, Readiness.READY, False, ExitCode.OK),
        (Status.DISTURBED, Readiness.READY, True, ExitCode.FOUND),
        (Status.EXPOSED, Readiness.READY, False, ExitCode.FOUND),
        (Status.NOT_ISOLATED, Readiness.READY, False, ExitCode.FOUND),
        (Status.UNKNOWN, Readiness.READY, True, ExitCode.UNKNOWN),
        (Status.UNKNOWN, Readiness.NOT_READY, False, ExitCode.FOUND),
    ],
)
def test_exit_codes(status: Status, ready: Readiness, strict: bool, code: ExitCode) -> None:
    assert exit_code(status, ready, fail_on_warn=strict) is code


def test_the_numbers_of_exit_codes() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "INTERNAL": 1,
        "USAGE": 2,
        "FOUND": 3,
        "UNKNOWN": 4,
        "TOOL": 5,
        "INTERRUPTED": 130,
    }


# Never a false pass.

LOADED: dict[str, Any] = {
    "rows": {"LOC": {0: 5000}, "RES": {0: 5000}, "CAL": {0: 5000}, "30 eth0": {0: 5000, 1: 0}},
    "softirqs": {"SCHED": {0: 5000}},
    "affinity": {30: irq(30, cpus(0))},
}
ISOLATED: dict[str, Context] = {
    "idle and quiet": context(),
    "idle under load": context(**LOADED, switches={0: 5000, 1: 0}, busy={0: 1.0}),
    "spinning": context(**LOADED, switches={0: 5000, 1: 0}, busy={0: 1.0, 1: 1.0}, own=[Thread(run_ms=9900)]),
    "spinning, busy-poll": context(
        **LOADED,
        switches={0: 5000, 1: 0},
        busy={0: 1.0, 1: 1.0},
        own=[Thread(run_ms=9900)],
        policy=Policy(busy_poll=True),
    ),
    "sleeping": context(
        **{**LOADED, "rows": {**LOADED["rows"], "LOC": {0: 5000, 1: 10_000}}},
        switches={0: 5000, 1: 10_000},
        busy={0: 1.0, 1: 0.05},
        own=[Thread(switches=10_000, run_ms=500)],
    ),
    "two CPUs of one pod": context(
        audited=(1, 5),
        **LOADED,
        switches={0: 5000, 1: 400, 5: 600},
        busy={0: 1.0, 1: 0.05, 5: 0.05},
        domains={1: [cpus(1, 5)], 5: [cpus(1, 5)]},
        own=[Thread(switches=1000, run_ms=1000, on=cpus(1, 5))],
    ),
    "one switch": context(switches={1: 1}, busy={1: 1.0}, own=[Thread(switches=1, run_ms=9_900)]),
}
COUNTERS = ("interrupts", "softirqs", "schedstat")
DECISIVE = [f"{end}.counters.{source}" for end in ("before", "after") for source in COUNTERS]
DOORS = [f"{end}.config.affinity" for end in ("before", "after")]


@pytest.mark.parametrize("name", ISOLATED)
def test_the_whole_evidence_is_isolated(name: str) -> None:
    for cpu in ISOLATED[name].audited:
        assert judged(ISOLATED[name], cpu).status is Status.ISOLATED


@pytest.mark.parametrize("state", [state for state in SourceState if state is not SourceState.READ])
@pytest.mark.parametrize("path", DECISIVE)
@pytest.mark.parametrize("name", ISOLATED)
def test_without_a_decisive_source_it_never_is(name: str, path: str, state: SourceState) -> None:
    ctx = edit(ISOLATED[name], path, ProbeError("proc/x", "gone", state))
    for cpu in ctx.audited:
        assert judged(ctx, cpu).status is Status.UNKNOWN


@pytest.mark.parametrize("state", [state for state in SourceState if state is not SourceState.READ])
@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("name", ISOLATED)
def test_without_the_affinity_of_interrupts_it_never_is(name: str, path: str, state: SourceState) -> None:
    ctx = edit(ISOLATED[name], path, ProbeError("proc/irq", "gone", state))
    for cpu in ctx.audited:
        assert judged(ctx, cpu).status is Status.UNKNOWN


@pytest.mark.parametrize("state", [state for state in SourceState if state is not SourceState.READ])
@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("name", ["idle under load", "spinning, busy-poll"])
def test_without_one_interrupts_affinity_it_never_is(name: str, end: str, state: SourceState) -> None:
    ctx = edit(ISOLATED[name], f"{end}.config.affinity.irqs.30", ProbeError("proc/irq/30", "gone", state))
    assert judged(ctx).status is Status.UNKNOWN


@pytest.mark.parametrize("state", [state for state in SourceState if state is not SourceState.READ])
@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("name", ["idle and quiet", "idle under load", "spinning, busy-poll", "sleeping"])
def test_without_any_proof_of_the_domain_it_never_is(name: str, end: str, state: SourceState) -> None:
    ctx = edit(ISOLATED[name], f"{end}.counters.schedstat", ProbeError("proc/schedstat", "gone", state))
    for source in ("boot", "partitions", "cgroup_isolated"):
        ctx = edit(ctx, f"{end}.config.isolation.{source}", ProbeError("sys/x", "gone", state))
    assert judged(ctx).status is Status.UNKNOWN
    assert BY_ID["CFG.DOMAIN"].finding(Outcome.UNKNOWN, [1]).outcome in {
        finding.outcome for finding in run(RULES, ctx) if finding.rule == "CFG.DOMAIN"
    }


@pytest.mark.parametrize("state", [state for state in SourceState if state is not SourceState.READ])
@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("name", ["idle and quiet", "idle under load", "spinning, busy-poll"])
def test_without_the_time_a_cpu_was_busy_it_is_only_where_ours_held_it(name: str, end: str, state: SourceState) -> None:
    """Idle, or held by someone throughout: no other source tells them apart. The tick is judged per busy second."""
    ctx = edit(ISOLATED[name], f"{end}.counters.cpustat", ProbeError("proc/stat", "gone", state))
    assert judged(ctx).status is Status.UNKNOWN


@pytest.mark.parametrize("state", [state for state in SourceState if state is not SourceState.READ])
@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("name", ISOLATED)
def test_threads_that_can_not_be_seen_prove_no_switch_to_be_ours(name: str, end: str, state: SourceState) -> None:
    """Where there was a switch, or the CPU was held without one: an idle CPU is idle, whoever may hide."""
    ctx = edit(ISOLATED[name], f"{end}.census", ProbeError("proc", "gone", state))
    for path, value in ((f"{end}.runs", {}), (f"own_{end}", frozenset()), ("samples", ())):
        ctx = edit(ctx, path, value)
    status = Status.ISOLATED if name.startswith("idle") else Status.UNKNOWN
    assert [judged(ctx, cpu).status for cpu in ctx.audited] == [status] * len(ctx.audited)


def test_no_false_pass_by_two_sources_at_once() -> None:
    paths = [*DECISIVE, *DOORS]
    for name, ctx in ISOLATED.items():
        for first in paths:
            for second in paths:
                both: Any = edit(edit(ctx, first, ProbeError("x", "gone")), second, ProbeError("x", "gone"))
                assert judged(both).status is Status.UNKNOWN, (name, first, second)
