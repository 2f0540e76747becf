"""Why the tick runs on a nohz_full CPU: explanations of what TICK.LOC measured, and never more than that."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import BAD, Finding, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.keepers import POSIX, QUOTA, in_nohz_full, keepers, origin
from auditor.rules.tick import TICK_LOC
from probes.host import ProbeError


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """QUOTA-TICK and TICK.POSIX: as bad as the tick is where the reason is sure, a warning where it may be one."""
    for tick in TICK_LOC.check(ctx, TICK_LOC):
        (cpu,) = tick.cpus
        if tick.outcome not in BAD or not in_nohz_full(ctx, cpu):
            yield rule.finding(Outcome.NOT_APPLICABLE, [cpu], detail="no tick to explain on a nohz_full CPU")
            continue
        found = keepers(ctx, cpu, tick.observed or 0)
        mine = [keeper for keeper in found if keeper.rule == rule.id]
        if not mine:
            yield _none(ctx, rule, cpu)
        for keeper in mine:
            yield rule.finding(
                tick.outcome if keeper.sure else Outcome.WARN,
                [cpu],
                observed=tick.observed,
                limit=tick.limit,
                unit=tick.unit,
                detail=f"{'kept' if keeper.sure else 'may be kept'} by {keeper.text}",
                evidence=keeper.evidence,
                fix=keeper.fix,
                origin=origin(found),
            )


def _none(ctx: Context, rule: Rule, cpu: int) -> Finding:
    """Nothing was found; whether there is nothing is another matter."""
    gap = _unread_limit(ctx) if rule.id == QUOTA else _unread_timer(ctx, cpu)
    if gap:
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=f"the tick runs; {gap}")
    text = (
        "no finite limit above the own threads"
        if rule.id == QUOTA
        else "no RLIMIT_CPU and no timer on a CPU clock; setitimer(ITIMER_PROF, ITIMER_VIRTUAL) is told by no file"
    )
    return rule.finding(Outcome.NOT_APPLICABLE, [cpu], detail=f"the tick runs; {text}")


def _unread_limit(ctx: Context) -> str:
    if not ctx.own_visible:
        return "not all own threads are visible"
    return next((str(error) for error in ctx.quotas.unknown), "")


def _unread_timer(ctx: Context, cpu: int) -> str:
    if not ctx.own_visible:
        return "not all own threads are visible"
    timers = ctx.observation.after.limits.timers
    for pid in sorted({key.pid for key in ctx.own_on(cpu)}):
        known = timers.get(pid)
        errors = [] if known is None else [known.limit_s, known.timers]
        if known is None or any(isinstance(error, ProbeError) for error in errors):
            reason = next((str(error) for error in errors if isinstance(error, ProbeError)), "not read")
            return f"limits and timers of process {pid}: {reason}"
    return ""


QUOTA_TICK = Rule(
    id=QUOTA,
    title="tick kept by a CPU limit",
    kind=Kind.MEASURED,
    why="""Since 6.6 the kernel does not stop the tick while an ordinary thread runs under a finite cpu.max, its own
cgroup's or an ancestor's, so that the limit is enforced in time. Older kernels stop it and throttle late.""",
    sources=(
        "/proc/interrupts",
        "/sys/fs/cgroup/**/cpu.max",
        "/sys/fs/cgroup/**/cpu.cfs_quota_us",
        "/sys/devices/system/cpu/nohz_full",
    ),
    warns="as TICK.LOC, and where the limit is only one of several possible reasons",
    fails="as TICK.LOC, where the reason is sure",
    cure="lift the CPU limit",
    check=check,
)
TICK_POSIX = Rule(
    id=POSIX,
    title="tick kept by a CPU timer",
    kind=Kind.MEASURED,
    why="""A timer on the CPU time of a process or thread, and RLIMIT_CPU, expire by the tick: it is kept while such a
thread runs. What /proc tells is that they exist, not that they are armed; ITIMER_PROF and ITIMER_VIRTUAL it does not
tell at all.""",
    sources=("/proc/interrupts", "/proc/*/limits", "/proc/*/timers", "/sys/devices/system/cpu/nohz_full"),
    warns="as TICK.LOC, and where the timer is only one of several possible reasons",
    fails="as TICK.LOC, where the reason is sure",
    cure="lift RLIMIT_CPU (LimitCPU=), take the timer off a CPU clock",
    check=check,
)
