"""Own threads that share a CPU: each keeps the others waiting, and the tick running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.doors import balanced_inside
from auditor.switches import Runner
from probes.host import ProbeError

WAITED = 0.05
"""Part of the window that threads waited for the CPU; less is a wake-up that met the tail of another."""
RAN_NS = 10_000_000


def waited_s(ctx: Context, cpu: int) -> float | None:
    """Seconds that threads waited for this CPU until they got it; None where /proc/schedstat does not tell."""
    sched = ctx.sched(cpu)
    return None if sched is None else sched.wait_ns / 1e9


def own_here(ctx: Context, cpu: int) -> list[Runner]:
    """Own threads that may run here and ran for ten milliseconds, by thread id."""
    able = ctx.own_runners([cpu])
    return sorted((runner for runner in able if (runner.growth.run_ns or 0) >= RAN_NS), key=lambda item: item.key)


def compete(ctx: Context, cpu: int) -> bool:
    """Whether several own threads wanted this CPU at once: then its tick is theirs (kernel/sched/core.c)."""
    waited = waited_s(ctx, cpu)
    return waited is not None and waited > WAITED * ctx.window_s and len(own_here(ctx, cpu)) > 1


def check_multi(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.MULTI."""
    if isinstance(ctx.delta.sched, ProbeError):
        raise ctx.delta.sched
    for cpu in ctx.audited:
        here, waited = own_here(ctx, cpu), waited_s(ctx, cpu)
        if len(here) < 2:
            detail = "at most one own thread is at work that may run here" if ctx.own else "no own thread"
            yield rule.finding(Outcome.PASS if ctx.own else Outcome.NOT_APPLICABLE, [cpu], detail=detail)
        elif waited is None:
            yield rule.finding(Outcome.UNKNOWN, [cpu], detail="/proc/schedstat has no row for it at both ends")
        else:
            yield _judged(ctx, rule, cpu, here, waited)


def _judged(ctx: Context, rule: Rule, cpu: int, here: Sequence[Runner], waited: float) -> Finding:
    bad = compete(ctx, cpu)
    who = ", ".join(f"{runner.status.name} ({runner.key.tid})" for runner in here[:4]) + (" …" if len(here) > 4 else "")
    return rule.finding(
        Outcome.WARN if bad else Outcome.PASS,
        [cpu],
        observed=waited / ctx.window_s,
        limit=WAITED,
        unit="s/s",
        detail=f"{len(here)} own threads may run here: {who}; they waited {waited:.2f} s for the CPU",
        evidence=[Evidence(path="/proc/schedstat", field=f"cpu{cpu} field 8", value=f"+{round(waited * 1e9)}")],
        fix=spread_fix(ctx, here) if bad else None,
    )


def spread_fix(ctx: Context, here: Sequence[Runner]) -> Fix:
    """One thread per CPU, as far as there are CPUs; the scheduler does not spread them where it balances nothing."""
    if len(here) > len(ctx.audited):
        text = (
            f"{len(here)} busy threads and {len(ctx.audited)} CPUs: give it more CPUs, or have it start fewer threads"
        )
        return Fix(kind=FixKind.WORKLOAD, text=text)
    text = "one thread per CPU: pin them" + (
        ""
        if all(balanced_inside(ctx, cpu) for cpu in ctx.audited)
        else "; nothing spreads threads over isolated CPUs, a cpuset root partition would"
    )
    pairs = list(zip(here, ctx.audited, strict=False))
    return Fix(
        kind=FixKind.WORKLOAD,
        text=text,
        commands=tuple(f"sudo taskset -pc {cpu} {runner.key.tid}" for runner, cpu in pairs),
    )


THR_MULTI = Rule(
    id="THR.MULTI",
    title="own threads share a CPU",
    axis=Axis.READINESS,
    kind=Kind.MEASURED,
    why="""CPUs out of the scheduler domains are not balanced: the threads of a workload stay where they started and may
all sit on its first CPU. Two that run at once take turns by the tick, whatever nohz_full says.""",
    sources=("/proc/schedstat", "/proc/*/task/*/schedstat"),
    warns=f"where several own threads waited for the CPU for more than {WAITED:.0%} of the window",
    cure="pin one thread per CPU, or use a cpuset root partition, which is balanced",
    thresholds=lambda _: Thresholds(warn=WAITED, unit="s/s"),
    check=check_multi,
)
