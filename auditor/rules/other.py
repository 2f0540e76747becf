"""Interrupts of the PMU, and those that no other rule judges: posted, the hypervisor's. None may go unnamed."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Evidence, Finding, Kind, Outcome
from auditor.rules.base import Rule, bound, judge, rate, settle, weight
from auditor.rules.hardware import HARDWARE, is_hardware
from probes.delta import RowDelta
from probes.interrupts import InterruptKind

JUDGED_ELSEWHERE = (
    InterruptKind.DEVICE,
    InterruptKind.TICK,
    InterruptKind.RESCHEDULE,
    InterruptKind.CALL,
    InterruptKind.TLB,
    InterruptKind.IRQ_WORK,
    InterruptKind.REPEATED,
)
NMI = (InterruptKind.NMI, InterruptKind.PMI)
KINDS = tuple(kind for kind in InterruptKind if kind not in (*JUDGED_ELSEWHERE, *NMI, *HARDWARE))


def check_nmi(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """NMI.PMI."""
    yield from _check(ctx, rule, ctx.rows(*NMI))


def check_other(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """IRQ.OTHER."""
    yield from _check(ctx, rule, [row for row in ctx.rows(*KINDS) if not is_hardware(row)])


def _check(ctx: Context, rule: Rule, rows: list[RowDelta]) -> Iterator[Finding]:
    limit = ctx.policy.limits[rule.id]
    control = ctx.control_rate(lambda cpu: _events(rows, cpu))
    for cpu in ctx.audited:
        events = _events(rows, cpu)
        if events is None:
            yield rule.finding(
                Outcome.UNKNOWN, [cpu], detail="a row has no column for this CPU at both ends of the window"
            )
            continue
        outcome = settle(judge(events, ctx.window_s, limit), events, control, limit, shut=False)
        grown = [row for row in rows if row.counts.get(cpu)]
        yield rule.finding(
            outcome,
            [cpu],
            observed=rate(events, ctx.window_s),
            limit=bound(outcome, limit),
            unit="/s",
            detail=", ".join(f"{row.name} {row.counts[cpu]}" for row in grown) or "none counted",
            evidence=[
                Evidence(path="/proc/interrupts", field=f"{row.label} CPU{cpu}", value=f"+{row.counts[cpu]}")
                for row in grown
            ],
            origin="nmi" if rule.id == "NMI.PMI" else "other",
            per_second=rate(events, ctx.window_s),
            cost_us_per_s=weight("IRQ", rate(events, ctx.window_s)),
        )


def _events(rows: list[RowDelta], cpu: int) -> int | None:
    """The sum, with NMI and PMI as one: both count the same event, so the larger speaks for both."""
    counts = [(row.kind, row.counts.get(cpu)) for row in rows]
    if any(count is None for _, count in counts):
        return None
    twins = [count or 0 for kind, count in counts if kind in NMI]
    rest = sum(count or 0 for kind, count in counts if kind not in NMI)
    return max(twins, default=0) + rest


NMI_PMI = Rule(
    id="NMI.PMI",
    title="NMIs and PMU interrupts",
    kind=Kind.MEASURED,
    why="""perf and other profilers interrupt the CPU by its PMU, and so does the hard-lockup detector, about once in
ten seconds of work. Both rows count the same event: the larger one is taken. A few are information; a stream is
noise.""",
    sources=("/proc/interrupts",),
    cure="stop perf and profilers; nmi_watchdog=0 ends the hard-lockup detector",
    check=check_nmi,
)
IRQ_OTHER = Rule(
    id="IRQ.OTHER",
    title="other interrupts",
    kind=Kind.MEASURED,
    why="""Interrupts that no other rule judges: posted and hypervisor interrupts, spurious ones, IPIs that share a row.
Few are information; a stream of them is noise.""",
    sources=("/proc/interrupts",),
    cure="see which row grows; posted and hypervisor interrupts come of virtual machines on this CPU",
    check=check_other,
)
