"""From findings to verdicts: per CPU, for the host, and the second line, readiness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditor.context import Context
from auditor.model import Axis, ExitCode, Finding, Kind, Outcome, Readiness, ReadinessVerdict, Status, Verdict
from auditor.own_irqs import Claim
from auditor.rules import BY_ID
from auditor.waivers import counted

PRECEDENCE = tuple(Status)
OPEN = (Outcome.UNKNOWN, Outcome.NOT_EXERCISED)
MIN_WINDOW_S = 0.95
"""The shortest window is a second; an interrupted one may be shorter, and then proves nothing."""
NOT_SEEN = "SMI, cache and memory contention"


def judge_cpu(ctx: Context, findings: Iterable[Finding], cpu: int) -> Verdict:
    """The isolation verdict of one CPU."""
    mine = [finding for finding in findings if cpu in finding.cpus and finding.axis is Axis.ISOLATION]
    status, reasons = _status(ctx, mine, cpu)
    reason = _reason(status, reasons, _excepted(mine))
    if ctx.window_s < MIN_WINDOW_S and status in (Status.ISOLATED, Status.DISTURBED):
        status, reason = (
            Status.UNKNOWN,
            f"{ctx.window_s:.2g} s are too short to say more than that nothing failed{_excepted(mine)}",
        )
    waivers = counted(mine, Axis.ISOLATION)
    return Verdict(status=status, reason=reason, bounds=bounds(ctx, status, mine), waivers=waivers)


def _status(ctx: Context, findings: Sequence[Finding], cpu: int) -> tuple[Status, list[Finding]]:
    """Fail, then open doors, then what was not decided, then warnings. Risks decide nothing: others list them.

    A decisive rule that says nothing of this CPU has not decided either. A decisive risk that came true (the CPU was
    offline) leaves open what the other rules would have seen. What is waived disturbs at best, and leaves open what is
    unknown (auditor/waivers.py).
    """
    decisive = [rule for rule in BY_ID.values() if rule.decisive(ctx, cpu)]
    undecided = [f for f in findings if BY_ID[f.rule] in decisive and (f.outcome in OPEN or _lost(f))]
    silent = {rule.id for rule in decisive} - {finding.rule for finding in findings}
    undecided.sort(key=_lost, reverse=True)
    undecided += [BY_ID[name].finding(Outcome.UNKNOWN, [cpu]) for name in sorted(silent)]
    failed = [f for f in findings if f.kind is not Kind.RISK and f.outcome is Outcome.FAIL]
    warned = [f for f in findings if f.kind is not Kind.RISK and f.outcome is Outcome.WARN]
    steps = (
        (Status.NOT_ISOLATED, [f for f in failed if f.kind is Kind.MEASURED and not f.waived]),
        (Status.EXPOSED, [f for f in failed if f.kind is Kind.DOOR and not f.waived]),
        (Status.UNKNOWN, undecided),
        (Status.DISTURBED, [*warned, *failed]),
    )
    return next(((status, found) for status, found in steps if found), (Status.ISOLATED, []))


def _lost(finding: Finding) -> bool:
    """What explains why the others could not decide: it is named first."""
    return finding.kind is Kind.RISK and finding.outcome is Outcome.FAIL


def _excepted(findings: Sequence[Finding]) -> str:
    """What makes "nothing failed" true where something did."""
    failed = [f for f in findings if f.waived and f.kind is not Kind.RISK and f.outcome is Outcome.FAIL]
    return f" but what is waived ({_named(failed)})" if failed else ""


def _reason(status: Status, findings: Sequence[Finding], excepted: str = "") -> str:
    if status is Status.DISTURBED and any(finding.waived for finding in findings):
        return _with_waived(findings)
    named = _named(findings)
    return {
        Status.NOT_ISOLATED: f"measured above the limit: {named}",
        Status.EXPOSED: f"nothing measured above its limit{excepted}, but a door is open: {named}",
        Status.UNKNOWN: f"nothing failed{excepted}, but not decided: {named}",
        Status.DISTURBED: f"doors closed; above the warning limit: {named}",
        Status.ISOLATED: "doors closed and in force, every decisive rule passed",
    }[status]


def _named(findings: Sequence[Finding]) -> str:
    titles = list(dict.fromkeys(finding.title.partition(":")[0] for finding in findings))
    return ", ".join(titles[:4]) + (f" and {len(titles) - 4} more" if len(titles) > 4 else "")


def _with_waived(findings: Sequence[Finding]) -> str:
    """A waived door is open: no word says otherwise."""
    doors = [f for f in findings if f.waived and f.kind is Kind.DOOR and f.outcome is Outcome.FAIL]
    waived = [f for f in findings if f.waived and f not in doors]
    warned = [f for f in findings if not f.waived]
    parts = [f"a door is open, and waived: {_named(doors)}" if doors else "doors closed"]
    parts += [f"above the warning limit: {_named(warned)}"] if warned else []
    parts += [f"above a limit, and waived: {_named(waived)}"] if waived else []
    return "; ".join(parts)


def bounds(ctx: Context, status: Status, findings: Iterable[Finding] = ()) -> str:
    """Within what the verdict holds. Zero events in T seconds bound a rate at 3/T with 95 % confidence."""
    seconds, known = ctx.window_s, list(findings)
    unseen = NOT_SEEN + _hypervisor(ctx, known)
    site = f"; by the policy {ctx.policy.source}" if ctx.policy.source else ""
    if status is not Status.ISOLATED:
        return f"counted for {seconds:.3g} s{site}; not seen: {unseen}"
    judged = all(f.outcome is Outcome.PASS for f in known if f.rule == "TICK.LOC")
    tick = "" if judged else "; the tick was not judged"
    fired = {item.claim for item in ctx.own_irqs if any(item.fired.values())}
    others = " neither own nor allowed" if Claim.ALLOWED in fired else " of others" if fired else ""
    return (
        f"no disturbance visible to these counters in {seconds:.3g} s "
        f"(device interrupts{others} ≤ {_most(ctx):.2g}/s){tick}{site}; not seen: {unseen}"
    )


def _most(ctx: Context) -> float:
    """Device interrupts per second that may have come all the same: none was counted, unless the policy lets some."""
    let = max(ctx.policy.limits[rule].warn for rule in ("IRQ.DEVICE", "IRQ.MANAGED"))
    return max(3 / ctx.window_s, let)


def _hypervisor(ctx: Context, findings: Sequence[Finding]) -> str:
    """In a guest the hypervisor is never seen; whether it even tells of the time that it takes is said."""
    if ctx.observation.facts.kernel.hypervisor is None:
        return ""
    silent = any(f.outcome is Outcome.UNKNOWN for f in findings if f.rule == "STEAL")
    return ", hypervisor (which reports no steal)" if silent else ", hypervisor"


def overall(cpu_verdicts: Sequence[Verdict]) -> Verdict:
    """The worst CPU speaks for the host."""
    return min(cpu_verdicts, key=lambda verdict: PRECEDENCE.index(verdict.status))


def readiness(findings: Iterable[Finding]) -> ReadinessVerdict:
    """The readiness axis: fail, then warn or nothing judged, then ready."""
    mine = [finding for finding in findings if finding.axis is Axis.READINESS]
    waivers = counted(mine, Axis.READINESS)
    failed = [finding for finding in mine if finding.outcome is Outcome.FAIL]
    if unwaived := [finding for finding in failed if not finding.waived]:
        return ReadinessVerdict(status=Readiness.NOT_READY, reason=_subjects(unwaived), waivers=waivers)
    if found := [finding for finding in mine if finding.outcome is Outcome.WARN] + failed:
        return ReadinessVerdict(status=Readiness.LIMITED, reason=_subjects(found), waivers=waivers)
    if undecided := [finding for finding in mine if finding.outcome in OPEN]:
        return ReadinessVerdict(status=Readiness.LIMITED, reason=f"not decided: {_subjects(undecided)}")
    if not [finding for finding in mine if finding.outcome is Outcome.PASS and finding.kind is not Kind.RISK]:
        return ReadinessVerdict(status=Readiness.LIMITED, reason="nothing to judge it by is visible here")
    return ReadinessVerdict(status=Readiness.READY, reason="no limit found")


def _subjects(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(f.title + (" (waived)" if f.waived else "") for f in findings))


def exit_code(status: Status, ready: Readiness, *, fail_on_warn: bool = False) -> ExitCode:
    """Fail before unknown; not-ready counts as found."""
    if status in (Status.NOT_ISOLATED, Status.EXPOSED) or ready is Readiness.NOT_READY:
        return ExitCode.FOUND
    if status is Status.UNKNOWN:
        return ExitCode.UNKNOWN
    return ExitCode.FOUND if status is Status.DISTURBED and fail_on_warn else ExitCode.OK
