"""The fair server of 6.12 and later: about one LOC+RES+CAL triple a second on a CPU where one thread spins alone.

On a booted 6.12 node the sender was traced: the deadline timer of the fair server (dl_task_timer) on a housekeeping CPU
sets a tick dependency (irq_work: CAL), reschedules the CPU (RES), and one tick follows (LOC). No switch happens.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context, total
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule, rate, weight
from probes.host import ProbeError
from probes.interrupts import InterruptKind

KINDS = (InterruptKind.TICK, InterruptKind.RESCHEDULE, InterruptKind.CALL)
MAX_PER_S = 1.5
"""The server's period is one second; more than that is something else on top of it."""


def triples(ctx: Context, cpu: int) -> int:
    """How many LOC+RES+CAL triples on this CPU are the fair server's: 0 where the signature does not fit or can't."""
    return 0 if ctx.version is None else _triples(ctx, cpu) or 0


def _triples(ctx: Context, cpu: int) -> int | None:
    """The signature fits on 6.12 or later when RES and CAL agree within two or a fifth; None: can't be told.

    The tick may have up to as many again (booted: LOC 15, RES 10, CAL 10 in 12 s); TICK.LOC judges what is left of it.
    Each foreign switch may have come with a triple of its own, so as many are left to it.
    """
    if not ctx.since(6, 12):
        return 0
    foreign = _foreign(ctx, cpu)
    known = [count for kind in KINDS if (count := total(ctx.rows(kind), cpu)) is not None]
    if foreign is None or len(known) < len(KINDS):
        return None
    if min(known) <= foreign:
        return 0
    ticks, reschedules, calls = known
    fewer, more = sorted((reschedules, calls))
    alike = more - fewer <= max(2, fewer // 5) and fewer - 2 <= ticks <= 2 * fewer
    return min(known) - foreign if alike and fewer / ctx.window_s <= MAX_PER_S else 0


def _foreign(ctx: Context, cpu: int) -> int | None:
    if isinstance(ctx.balances, ProbeError):
        return None
    return next((balance.foreign_most for balance in ctx.balances if cpu in balance.cpus), None)


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """FAIRSRV."""
    if ctx.version is None:
        raise ProbeError("proc/sys/kernel/osrelease", "no kernel release: whether there is a fair server is unknown")
    if not ctx.since(6, 12):
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="this kernel has no fair server (since 6.12)")
        return
    for cpu in ctx.audited:
        count = _triples(ctx, cpu)
        if count is None:
            text = "foreign switches or one of the three interrupts were not counted on this CPU"
            yield rule.finding(Outcome.UNKNOWN, [cpu], detail=text)
            continue
        per_second = rate(count, ctx.window_s)
        yield rule.finding(
            Outcome.WARN if count else Outcome.PASS,
            [cpu],
            observed=per_second,
            limit=0,
            unit="/s",
            detail=f"{count} triples of tick, reschedule and function call without a switch"
            if count
            else "no such triple",
            evidence=[_evidence(ctx, kind, cpu) for kind in KINDS] if count else (),
            fix=_fix(ctx) if count else None,
            origin="fair-server",
            per_second=3 * per_second,
            cost_us_per_s=weight("TICK", per_second) + 2 * weight("IPI", per_second),
        )


def _evidence(ctx: Context, kind: InterruptKind, cpu: int) -> Evidence:
    rows = ctx.rows(kind)
    return Evidence(path="/proc/interrupts", field=f"{rows[0].label} CPU{cpu}", value=f"+{total(rows, cpu)}")


def _fix(ctx: Context) -> Fix:
    files = [f"/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime" for cpu in ctx.audited]
    return Fix(
        kind=FixKind.RUNTIME,
        text="it can be switched off per CPU, but then a spinning real-time thread may starve this CPU's kernel "
        "threads and hang the node: only for workloads known to leave the CPU",
        commands=tuple(f"echo 0 | sudo tee {file}" for file in files),
        undo="; ".join(f"echo 50000000 | sudo tee {file}" for file in files),
    )


FAIRSRV = Rule(
    id="FAIRSRV",
    title="fair server (deadline server for ordinary threads)",
    kind=Kind.MEASURED,
    why="""Since 6.12 a deadline server guards ordinary threads against starvation by real-time ones. On a nohz_full CPU
with one spinning thread its timer leaves about one tick, one reschedule and one function-call interrupt a second, in
triples.""",
    sources=("/proc/interrupts", "/proc/schedstat"),
    warns="at any such triple",
    cure="its runtime in debugfs can be set to 0 per CPU, for workloads known to leave the CPU only",
    thresholds=lambda _: Thresholds(warn=0, unit="/s"),
    check=check,
)
