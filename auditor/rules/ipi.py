"""Inter-processor interrupts on the audited CPUs, without those that the own workload's wake-ups cause."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.bootline import boot_fix, nohz_words
from auditor.context import Context, total
from auditor.model import BAD, Evidence, Finding, Fix, Kind, Outcome
from auditor.rules.base import Rule, bound, judge_between, maybe_own, rate, settle, weight
from auditor.rules.fair_server import triples
from auditor.rules.tick import own_ticks
from probes.interrupts import InterruptKind

RESCHEDULE, CALL = InterruptKind.RESCHEDULE, InterruptKind.CALL
WAKING = (RESCHEDULE, CALL)
KIND_OF = {
    "IPI.RES": RESCHEDULE,
    "IPI.CAL": CALL,
    "IPI.TLB": InterruptKind.TLB,
    "IPI.IWI": InterruptKind.IRQ_WORK,
}


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """One rule for every kind of IPI; the rule's id says which."""
    kind = KIND_OF[rule.id]
    rows = ctx.rows(kind)
    if not rows:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="this architecture has no such row")
        return
    limit = ctx.policy.limits[rule.id]
    control = ctx.control_rate(lambda cpu: total(rows, cpu))
    for cpu in ctx.audited:
        raw = total(rows, cpu)
        if raw is None:
            yield rule.finding(Outcome.UNKNOWN, [cpu], detail="no column for this CPU at both ends of the window")
            continue
        own, server = own_ipis(ctx, cpu, kind), triples(ctx, cpu) if kind in WAKING else 0
        least, most = max(0, raw - own[1] - server), max(0, raw - own[0] - server)
        outcome = settle(judge_between(least, most, ctx.window_s, limit), most, control, limit, shut=False)
        yield _finding(ctx, rule, outcome, cpu, raw, least, own[1], server)


def own_ipis(ctx: Context, cpu: int, kind: InterruptKind) -> tuple[int, int]:
    """At least and at most how many of these IPIs woke own threads.

    A wake-up comes from a timer here (LOC), or from another CPU as RES, since 6.1 mostly as CAL; on a nohz_full CPU
    also its own timers may expire on a housekeeping CPU and arrive so. What LOC can't account for is credited, RES
    first.
    """
    if kind not in WAKING:
        return 0, 0
    wake_least, wake_most = ctx.wakeups(cpu)
    timer_least, timer_most = own_ticks(ctx, cpu)
    reschedules, calls = (max(0, (total(ctx.rows(each), cpu) or 0) - triples(ctx, cpu)) for each in WAKING)
    least, most = max(0, wake_least - timer_most), max(0, wake_most - timer_least)
    if kind is RESCHEDULE:
        return min(reschedules, least), min(reschedules, most)
    return min(calls, max(0, least - reschedules)), min(calls, max(0, most - min(reschedules, most)))


def _finding(
    ctx: Context, rule: Rule, outcome: Outcome, cpu: int, raw: int, net: int, own: int, server: int
) -> Finding:
    limit = ctx.policy.limits[rule.id]
    credited = [f"up to {own} own wake-ups"] * bool(own) + [f"{server} of the fair server"] * bool(server)
    label = ctx.rows(KIND_OF[rule.id])[0].label
    per_second = 0.0 if rule.id == "IPI.TLB" else rate(net, ctx.window_s)
    return rule.finding(
        outcome,
        [cpu],
        observed=rate(net, ctx.window_s),
        limit=bound(outcome, limit),
        unit="/s",
        detail=f"{raw} counted" + (f", less {' and '.join(credited)}" if credited else "") + maybe_own(outcome),
        evidence=[Evidence(path="/proc/interrupts", field=f"{label} CPU{cpu}", value=f"+{raw}")],
        fix=_fix(ctx) if outcome in BAD else None,
        origin="ipi",
        # TLB flushes travel as function calls and are counted there already.
        per_second=per_second,
        cost_us_per_s=weight("IPI", per_second),
    )


def _fix(ctx: Context) -> Fix:
    return boot_fix(
        ctx,
        nohz_words(ctx, "nohz_full keeps most senders away")
        + "; the rest come from module and BPF loading, tracing, munmap and mprotect of "
        "threads that ran here, and collectors that read MSRs or frequencies: keep those off this node",
    )


CURE = "nohz_full keeps most senders away; keep module and BPF loading, tracing and readers of MSRs off this node"


def _rule(name: str, title: str, why: str, cure: str = CURE) -> Rule:
    return Rule(
        id=f"IPI.{name}",
        title=title,
        kind=Kind.MEASURED,
        why=why,
        sources=("/proc/interrupts", "/proc/*/task/*/schedstat"),
        cure=cure,
        check=check,
    )


IPI_RULES = (
    _rule(
        "RES",
        "reschedule interrupts",
        "Another CPU makes this one reschedule: it woke a thread here, or balances onto it.",
        "take the CPU out of the scheduler domains; pin what wakes threads here to the same CPUs",
    ),
    _rule(
        "CAL",
        "function-call interrupts",
        """Another CPU runs a function here: TLB and vmalloc flushes, text patching, membarrier, expedited RCU, MSR
readers, and since 6.1 wake-ups onto an idle CPU. TLB shootdowns are a part of this count.""",
    ),
    _rule(
        "TLB",
        "TLB shootdowns",
        "A thread that shares memory with one that ran here unmapped or protected pages.",
        "keep the other threads of the process off munmap and mprotect; lock and preallocate its memory",
    ),
    _rule(
        "IWI",
        "irq_work interrupts",
        "Deferred work raised in interrupt context: tick kicks, perf, BPF ring buffers, printk.",
    ),
)
