"""What the hardware reports about itself: machine checks, polls for corrected errors, thermal and threshold events."""

from __future__ import annotations

import math
from collections.abc import Iterator

from auditor.context import Context
from auditor.model import BAD, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule, judge, poisson_lower, rate, weight
from probes.delta import RowDelta
from probes.interrupts import InterruptKind

HARDWARE = (InterruptKind.MCE, InterruptKind.MCE_POLL, InterruptKind.THERMAL)
THRESHOLD = "THR"
"""Its row: a corrected error passed a threshold (CMCI on Intel)."""
POLL_S = 300
"""How often each CPU is polled for corrected errors (arch/x86/kernel/cpu/mce check_interval); more often in a storm."""
STORM_PER_S = 0.1
ORDER = (Outcome.PASS, Outcome.WARN, Outcome.FAIL)


def is_hardware(row: RowDelta) -> bool:
    """Whether this rule judges the row."""
    return row.kind in HARDWARE or row.label == THRESHOLD


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """MCE."""
    rows = [row for row in ctx.rows(*InterruptKind) if is_hardware(row)]
    if not rows:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="/proc/interrupts has no such row here")
        return
    for cpu in ctx.audited:
        yield _judged(ctx, rule, rows, cpu)


def _judged(ctx: Context, rule: Rule, rows: list[RowDelta], cpu: int) -> Finding:
    grown = [(row, count) for row in rows if (count := row.counts.get(cpu))]
    outcome = max((_outcome(ctx, rule, row, count) for row, count in grown), key=ORDER.index, default=Outcome.PASS)
    if outcome is not Outcome.FAIL and any(row.counts.get(cpu) is None for row in rows):
        detail = "a row has no column for this CPU at both ends of the window"
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=detail)
    events = sum(count for _, count in grown)
    return rule.finding(
        outcome,
        [cpu],
        observed=rate(events, ctx.window_s),
        limit=0 if outcome in BAD else 1 / POLL_S,
        unit="/s",
        detail=", ".join(f"{row.name} {count}" for row, count in grown) or "none counted",
        evidence=[
            Evidence(path="/proc/interrupts", field=f"{row.label} CPU{cpu}", value=f"+{count}") for row, count in grown
        ],
        fix=_fix() if outcome in BAD else None,
        origin="hardware",
        per_second=rate(events, ctx.window_s),
        cost_us_per_s=weight("IRQ", rate(events, ctx.window_s)),
    )


def _outcome(ctx: Context, rule: Rule, row: RowDelta, count: int) -> Outcome:
    if row.kind is InterruptKind.MCE:
        return Outcome.FAIL
    if row.kind is InterruptKind.MCE_POLL:
        return _polled(count, ctx.window_s)
    if row.label == THRESHOLD:
        return Outcome.WARN  # the memory's trouble, not that of the isolation
    return judge(count, ctx.window_s, ctx.policy.limits[rule.id])


def _polled(count: int, window_s: float) -> Outcome:
    """One poll in five minutes is the rule; one more may fall on the edges of the window."""
    if poisson_lower(count) / window_s > STORM_PER_S:
        return Outcome.FAIL
    return Outcome.PASS if count <= math.ceil(window_s / POLL_S) + 1 else Outcome.WARN


def _fix() -> Fix:
    return Fix(
        kind=FixKind.FIRMWARE,
        text="look at the hardware: machine checks and thresholds stand in dmesg and in rasdaemon's log, thermal "
        "events mean throttling (cooling, power limits) or, on hybrid CPUs, new hints to the scheduler",
        commands=("sudo dmesg | grep -iE 'mce|machine check|thermal|throttl'",),
    )


MCE = Rule(
    id="MCE",
    title="hardware events",
    kind=Kind.MEASURED,
    why="""Machine checks (MCE, on AMD also deferred errors), polls for corrected errors (MCP, once in five minutes;
more often in a storm of errors), errors above a threshold (THR) and thermal events (TRM). Each stops the CPU for a
moment, whatever isolates it.""",
    sources=("/proc/interrupts",),
    warns="at a thermal or threshold event, or at more polls than one in five minutes",
    fails=f"at a machine check; at thermal events {{fail}}; at more than {STORM_PER_S:g} polls a second",
    cure="repair or cool the machine; mce=ignore_ce ends the polls for corrected errors, and hides these",
    check=check,
)
