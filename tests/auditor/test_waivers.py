"""Waivers: what they may do to each verdict, and what they never may."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from auditor.audit import audit
from auditor.context import Context
from auditor.model import Audit, Axis, Finding, Outcome, PolicyFacts, Readiness, Status, WaiverState, WaiverUse
from auditor.own_irqs import Claim
from auditor.policy import LIMITS, Limit, Policy, Waiver
from auditor.policy_file import parse_policy
from auditor.rules import BY_ID, RULES
from auditor.verdict import exit_code, judge_cpu, readiness
from auditor.waivers import changes, counted, waive
from tests.auditor.build import FACTS, context, findings, irq, only

DAY = "2026-03-02T10:00:00.000+00:00"
PASSED = tuple(rule.finding(Outcome.PASS, [1]) for rule in RULES)
BAD = (Outcome.FAIL, Outcome.WARN)
NOT_BAD = tuple(outcome for outcome in Outcome if outcome not in BAD)


def waiver(rule: str, cpus: set[int] | None = None, *, expires: date = date(2026, 3, 2)) -> Waiver:
    return Waiver(rule=rule, cpus=frozenset(cpus or {1}), reason=f"{rule} is known", expires=expires)


def policy(*waivers: Waiver) -> Policy:
    return replace(Policy(), waivers=waivers, source="site.toml")


def said(**outcomes: Outcome) -> list[Finding]:
    """All rules pass but these."""
    by_rule = {name.replace("_", "."): outcome for name, outcome in outcomes.items()}
    return [replace(finding, outcome=by_rule.get(finding.rule, finding.outcome)) for finding in PASSED]


def marked(rules: list[str], **outcomes: Outcome) -> tuple[Finding, ...]:
    return waive(said(**outcomes), policy(*map(waiver, rules)), DAY)[0]


STEPS = [
    (
        ["IRQ.DEVICE"],
        {"IRQ_DEVICE": Outcome.FAIL},
        Status.DISTURBED,
        "doors closed; above a limit, and waived: device interrupts",
    ),
    (
        ["CFG.DOMAIN"],
        {"CFG_DOMAIN": Outcome.FAIL},
        Status.DISTURBED,
        "a door is open, and waived: scheduler domain",
    ),
    (
        ["CFG.DOMAIN", "IRQ.DEVICE"],
        {"CFG_DOMAIN": Outcome.FAIL, "IRQ_DEVICE": Outcome.FAIL, "IPI_RES": Outcome.WARN},
        Status.DISTURBED,
        (
            "a door is open, and waived: scheduler domain; above the warning limit: reschedule interrupts; "
            "above a limit, and waived: device interrupts"
        ),
    ),
    (
        ["IPI.RES"],
        {"IPI_RES": Outcome.WARN},
        Status.DISTURBED,
        "doors closed; above a limit, and waived: reschedule interrupts",
    ),
    (
        ["IRQ.DEVICE"],
        {"IRQ_DEVICE": Outcome.FAIL, "THR_FOREIGN": Outcome.FAIL},
        Status.NOT_ISOLATED,
        "measured above the limit: foreign switches",
    ),
    (
        ["IRQ.DEVICE"],
        {"IRQ_DEVICE": Outcome.FAIL, "CFG_DOMAIN": Outcome.FAIL},
        Status.EXPOSED,
        "nothing measured above its limit but what is waived (device interrupts), but a door is open: scheduler domain",
    ),
    (
        ["IRQ.DEVICE"],
        {"IRQ_DEVICE": Outcome.FAIL, "THR_FOREIGN": Outcome.UNKNOWN},
        Status.UNKNOWN,
        "nothing failed but what is waived (device interrupts), but not decided: foreign switches",
    ),
]


@pytest.mark.parametrize(("rules", "outcomes", "status", "reason"), STEPS)
def test_what_a_waiver_does_to_a_verdict(
    rules: list[str], outcomes: dict[str, Outcome], status: Status, reason: str
) -> None:
    verdict = judge_cpu(context(), marked(rules, **outcomes), 1)
    assert (verdict.status, verdict.reason, verdict.waivers) == (status, reason, len(rules))


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
@pytest.mark.parametrize("outcome", Outcome)
def test_no_waiver_makes_a_cpu_isolated(rule: str, outcome: Outcome) -> None:
    """Isolated with a waiver is only what is isolated without."""
    plain = [replace(finding, outcome=outcome if finding.rule == rule else finding.outcome) for finding in PASSED]
    waived = waive(plain, policy(waiver(rule)), DAY)[0]
    before, after = judge_cpu(context(), plain, 1), judge_cpu(context(), waived, 1)
    assert (after.status is Status.ISOLATED) is (before.status is Status.ISOLATED)
    assert (after.status is Status.UNKNOWN) is (before.status is Status.UNKNOWN)
    assert after.waivers == 0 or after.status is Status.DISTURBED
    assert (readiness(waived).status is Readiness.READY) is (readiness(plain).status is Readiness.READY)


@pytest.mark.parametrize("outcome", NOT_BAD)
def test_only_what_failed_or_warned_is_waived(outcome: Outcome) -> None:
    found, facts = waive(said(IRQ_DEVICE=outcome), policy(waiver("IRQ.DEVICE")), DAY)
    assert list(found) == said(IRQ_DEVICE=outcome)
    assert facts.waivers[0].state is WaiverState.UNUSED


def test_a_cpu_that_was_offline_stays_unknown() -> None:
    verdict = judge_cpu(context(), marked(["CFG.CPUS"], CFG_CPUS=Outcome.FAIL), 1)
    assert (verdict.status, verdict.waivers) == (Status.UNKNOWN, 0)


def test_a_waived_finding_keeps_its_outcome_and_says_why() -> None:
    (found,) = [f for f in marked(["IRQ.DEVICE"], IRQ_DEVICE=Outcome.FAIL) if f.rule == "IRQ.DEVICE"]
    assert (found.outcome, found.waived) == (Outcome.FAIL, "until 2026-03-02: IRQ.DEVICE is known")


@pytest.mark.parametrize(
    ("started", "expires", "state"),
    [
        (DAY, date(2026, 3, 2), WaiverState.IN_EFFECT),
        (DAY, date(2026, 3, 1), WaiverState.EXPIRED),
        ("", date(2999, 1, 1), WaiverState.UNDATED),
        ("unknown", date(2999, 1, 1), WaiverState.UNDATED),
    ],
)
def test_a_waiver_holds_to_its_last_day_and_never_without_a_day(
    started: str, expires: date, state: WaiverState
) -> None:
    found, facts = waive(said(IRQ_DEVICE=Outcome.FAIL), policy(waiver("IRQ.DEVICE", expires=expires)), started)
    holds = state is WaiverState.IN_EFFECT
    assert [bool(f.waived) for f in found if f.rule == "IRQ.DEVICE"] == [holds]
    assert facts == PolicyFacts(
        source="site.toml",
        waivers=(
            WaiverUse(
                rule="IRQ.DEVICE",
                cpus="1",
                reason="IRQ.DEVICE is known",
                expires=expires.isoformat(),
                state=state,
                findings=int(holds),
            ),
        ),
    )
    expected = Status.DISTURBED if holds else Status.NOT_ISOLATED
    assert judge_cpu(context(), found, 1).status is expected


@pytest.mark.parametrize(
    ("cpus", "waived"), [({1}, False), ({5}, False), ({1, 5}, True), ({1, 5, 6}, True), ({2, 3}, False)]
)
def test_a_waiver_names_all_cpus_of_a_finding(cpus: set[int], waived: bool) -> None:
    finding = BY_ID["THR.FOREIGN"].finding(Outcome.FAIL, [1, 5])
    (found,), _ = waive([finding], policy(waiver("THR.FOREIGN", cpus)), DAY)
    assert bool(found.waived) is waived


def test_two_waivers_of_a_part_each_do_not_make_one() -> None:
    finding = BY_ID["THR.FOREIGN"].finding(Outcome.FAIL, [1, 5])
    parts = policy(waiver("THR.FOREIGN", {1}), waiver("THR.FOREIGN", {5}))
    assert waive([finding], parts, DAY)[0] == (finding,)


def test_a_finding_of_no_cpu_is_not_waived() -> None:
    finding = BY_ID["THR.FOREIGN"].finding(Outcome.FAIL, [])
    assert waive([finding], policy(waiver("THR.FOREIGN")), DAY)[0] == (finding,)


def test_readiness_gets_limited_at_best() -> None:
    found = marked(["CFG.QUOTA"], CFG_QUOTA=Outcome.FAIL)
    second = readiness(found)
    assert (second.status, second.reason, second.waivers) == (Readiness.LIMITED, "CPU limit (waived)", 1)
    both = readiness(marked(["CFG.QUOTA"], CFG_QUOTA=Outcome.FAIL, CST_DEEP=Outcome.FAIL))
    assert (both.status, both.reason, both.waivers) == (Readiness.NOT_READY, "deep C-states", 1)


def test_risks_are_not_counted() -> None:
    found = marked(["CFG.NOHZ"], CFG_NOHZ=Outcome.WARN)
    assert [f.rule for f in found if f.waived] == ["CFG.NOHZ"]
    assert counted(found, Axis.ISOLATION) == 0
    assert judge_cpu(context(), found, 1).status is Status.ISOLATED


def test_the_exit_code_of_what_is_waived() -> None:
    assert exit_code(Status.DISTURBED, Readiness.LIMITED) == 0
    assert exit_code(Status.DISTURBED, Readiness.LIMITED, fail_on_warn=True) == 3


def noisy(given: Policy) -> Context:
    """eth0 fires on CPU 1 fifty times a second and on the control CPU, and is routed to CPU 1."""
    return context(
        rows={"30 eth0": {0: 500, 1: 500}}, affinity={30: irq(30, frozenset({1}), frozenset({1}))}, policy=given
    )


def audited(given: Policy) -> Audit:
    return audit(noisy(given), replace(FACTS, started=DAY))


def test_an_audit_with_everything_waived() -> None:
    rules = ("IRQ.DEVICE", "IRQ.AFFINITY")
    before, after = audited(Policy()), audited(policy(*map(waiver, rules)))
    assert (before.verdict.status, before.policy) == (Status.NOT_ISOLATED, PolicyFacts())
    assert after.verdict.status is Status.DISTURBED
    assert after.verdict.waivers == 2
    assert after.verdict.reason == (
        "a door is open, and waived: where device interrupts may fire; above a limit, and waived: device interrupts"
    )
    assert "by the policy site.toml" in after.verdict.bounds
    assert [(use.rule, use.state, use.findings) for use in after.policy.waivers] == [
        (rule, WaiverState.IN_EFFECT, 1) for rule in rules
    ]
    assert {cause.title: cause.waived for cause in before.causes} == dict.fromkeys(
        [cause.title for cause in before.causes], False
    )
    assert all(cause.waived for cause in after.causes)
    assert [f.outcome for f in after.findings] == [f.outcome for f in before.findings]


def test_a_waived_door_is_open_to_the_rules_behind_it() -> None:
    """Nothing came, on no CPU: without the door's proof the counters prove nothing."""
    ctx = context(
        rows={"30 eth0": {0: 0, 1: 0}},
        affinity={30: irq(30, frozenset({1}), frozenset({1}))},
        policy=policy(waiver("IRQ.AFFINITY")),
    )
    found = audit(ctx, replace(FACTS, started=DAY))
    assert only(ctx, "IRQ.AFFINITY").outcome is Outcome.FAIL
    assert only(ctx, "IRQ.DEVICE").outcome is Outcome.NOT_EXERCISED
    assert (found.verdict.status, found.verdict.waivers) == (Status.UNKNOWN, 1)
    assert found.next_command is not None
    assert " --policy site.toml" in found.next_command


def test_a_stricter_limit_is_not_exercised_by_less() -> None:
    """fail = 0.001: one interrupt on the control CPU is a hundred times that, and proves nothing."""
    strict = parse_policy('[limits]\n"IRQ.DEVICE" = { fail = 0.001 }')
    ctx = context(rows={"30 eth0": {0: 1, 1: 0}}, affinity={30: irq(30, frozenset({1}), frozenset({1}))}, policy=strict)
    assert only(ctx, "IRQ.DEVICE").outcome is Outcome.NOT_EXERCISED


def test_a_looser_limit_passes_and_the_bound_says_so() -> None:
    loose = replace(Policy(), limits={**LIMITS, "IRQ.DEVICE": Limit(warn=60, fail=60, exercised=1)}, source="site.toml")
    ctx = context(rows={"30 eth0": {0: 900, 1: 500}}, policy=loose)
    assert [(f.outcome, f.observed, f.limit) for f in findings(ctx, "IRQ.DEVICE")] == [(Outcome.PASS, 50, 60)]
    verdict = judge_cpu(ctx, PASSED, 1)
    assert verdict.bounds.startswith(
        "no disturbance visible to these counters in 10 s (device interrupts ≤ 60/s); by the policy site.toml; "
    )


@pytest.mark.parametrize(
    ("key", "claim", "title", "detail", "door"),
    [
        (
            "own_interrupts",
            Claim.POLICY,
            "own interrupts: eth0",
            "eth0 fired 500 times: own (named by the policy)",
            "routed here are only own interrupts: 30 (eth0)",
        ),
        (
            "allowed_interrupts",
            Claim.ALLOWED,
            "allowed interrupts: eth0",
            "eth0 fired 500 times: not own, allowed by the policy",
            "routed here are only own or allowed interrupts: 30 (eth0)",
        ),
    ],
)
def test_interrupts_of_the_policy_are_shown_and_not_judged(
    key: str, claim: Claim, title: str, detail: str, door: str
) -> None:
    ctx = noisy(parse_policy(f'{key} = ["eth*"]'))
    assert [(item.irq, item.claim, item.fired) for item in ctx.own_irqs] == [(30, claim, {1: 500})]
    shown, _ = findings(ctx, "IRQ.DEVICE")
    assert (shown.outcome, shown.title, shown.detail) == (Outcome.NOT_APPLICABLE, title, detail)
    assert (only(ctx, "IRQ.AFFINITY").outcome, only(ctx, "IRQ.AFFINITY").detail) == (Outcome.PASS, door)


def test_the_bound_of_isolated_says_that_interrupts_are_allowed() -> None:
    for key, words in (("own_interrupts", "of others"), ("allowed_interrupts", "neither own nor allowed")):
        verdict = judge_cpu(noisy(parse_policy(f'{key} = ["eth*"]')), PASSED, 1)
        assert verdict.bounds.startswith(
            f"no disturbance visible to these counters in 10 s (device interrupts {words} ≤ 0.3/s); "
        )


def test_the_first_claim_on_an_interrupt_holds() -> None:
    ctx = noisy(parse_policy('allowed_interrupts = ["30"]\nown_interrupts = ["eth0"]'))
    assert [item.claim for item in ctx.own_irqs] == [Claim.POLICY]


def test_what_a_policy_changes() -> None:
    assert changes(Policy()) == ()
    assert changes(
        parse_policy(
            'busy_poll = true\nwakeup_budget_us = 50\nown_interrupts = ["31", "eth0-*"]\n'
            'allowed_interrupts = ["ptp0"]\n[limits]\n"IRQ.DEVICE" = { fail = 7 }\n"IPI.RES" = { warn = 1 }\n'
        )
    ) == (
        "IRQ.DEVICE warns above 0 (not 0), fails above 7 (not 1)",
        "busy-poll: the tick is decisive",
        "a wake-up may cost 50 µs",
        "own interrupts: 31, eth0-*",
        "allowed interrupts: ptp0",
    )
