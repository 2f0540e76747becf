"""What keeps the tick of a nohz_full CPU, as far as files tell: several threads, a CPU limit, CPU timers.

Sources: kernel/sched/core.c (sched_can_stop_tick, cfs_task_bw_constrained), kernel/time/posix-cpu-timers.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditor.context import Context
from auditor.model import Evidence, Fix, FixKind
from auditor.quotas import Quota
from auditor.rules.multi import compete, own_here, spread_fix
from auditor.rules.origins import TICK, limits_name
from auditor.rules.quota_fix import lift_fix, limit_file
from probes.cpu_timers import CpuTimer, CpuTimers
from probes.host import ProbeError
from probes.snapshot import Census

QUOTA, POSIX, THREADS = "QUOTA-TICK", "TICK.POSIX", "THR.MULTI"
LEAST_SHARE = 0.5
"""A kept tick comes HZ times a busy second; in a guest some are lost while the hypervisor runs others."""
SLOWEST_HZ = 100
OTHERS = (
    "more than one runnable thread, perf in frequency mode anywhere, an unstable clock, "
    "setitimer(ITIMER_PROF or ITIMER_VIRTUAL), which no file tells"
)
FAIR_SERVER = "the fair server (a fault of some kernels; /sys/kernel/debug/sched/fair_server/cpuN/runtime tells)"
UNREAD = "a finite cpu.max on the cgroup or an ancestor (since 6.6), a POSIX CPU timer or RLIMIT_CPU"
TRACE = "the timer:tick_stop tracepoint gives the dependency mask"


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeper:
    """One thing that was found. ``sure``: the kernel is known to keep the tick for it, at this rate."""

    rule: str
    name: str
    text: str
    sure: bool
    evidence: tuple[Evidence, ...]
    fix: Fix


def in_nohz_full(ctx: Context, cpu: int) -> bool:
    """Whether nohz_full covers this CPU at either end of the window."""
    nohz = [end.config.isolation.nohz_full for end in (ctx.observation.before, ctx.observation.after)]
    return any(not isinstance(known, ProbeError) and cpu in known for known in nohz)


def limits_on(ctx: Context, cpu: int) -> tuple[Quota, ...]:
    """Finite CPU limits above own threads that may run here."""
    own = ctx.own_on(cpu)
    return tuple(quota for quota in ctx.quotas.finite if quota.threads & own)


def keepers(ctx: Context, cpu: int, per_busy_s: float) -> tuple[Keeper, ...]:
    """What was found that keeps the tick here, which came so often per busy second; the sure ones first."""
    if not in_nohz_full(ctx, cpu):
        return ()
    found = [*_thread_keepers(ctx, cpu), *_quota_keepers(ctx, cpu, per_busy_s), *_timer_keepers(ctx, cpu)]
    return tuple(sorted(found, key=lambda keeper: not keeper.sure))


def origin(found: Sequence[Keeper]) -> str:
    """One cause per set of reasons, so that each is shown with its own fix."""
    return ":".join([TICK, *(keeper.name for keeper in found)])


def because(found: Sequence[Keeper]) -> str:
    """The end of the sentence that the tick runs: by what it is kept, or else may be."""
    sure = [keeper.text for keeper in found if keeper.sure]
    if sure:
        return f": kept by {'; '.join(sure)}"
    return f"; it may be kept by {'; '.join(keeper.text for keeper in found)}" if found else ""


def _others(ctx: Context) -> str:
    """What no file tells. Some kernels since 6.12 have a fault by which the fair server keeps the tick at its rate."""
    return OTHERS + (f", {FAIR_SERVER}" if ctx.since(6, 12) else "")


def keepers_fix(ctx: Context, found: Sequence[Keeper]) -> Fix:
    """Removes what is known to keep the tick, else what may; the rest is named only where that may not do."""
    sure = [keeper for keeper in found if keeper.sure]
    fixes = [keeper.fix for keeper in sure or found]
    texts = list(dict.fromkeys(fix.text for fix in fixes))
    if not fixes:
        texts = [f"something keeps the tick: {UNREAD}, {_others(ctx)}; {TRACE}"]
    elif not sure:
        texts.append(f"if the tick goes on without: {_others(ctx)}; {TRACE}")
    return Fix(
        kind=fixes[0].kind if fixes else FixKind.WORKLOAD,
        text="; ".join(texts),
        commands=tuple(dict.fromkeys(command for fix in fixes for command in fix.commands)),
        undo="; ".join(dict.fromkeys(fix.undo for fix in fixes if fix.undo)),
    )


def _thread_keepers(ctx: Context, cpu: int) -> Iterator[Keeper]:
    """Own threads that want the CPU at once take turns by the tick: it is theirs, and no disturbance by others."""
    if compete(ctx, cpu):
        here = own_here(ctx, cpu)
        yield Keeper(
            rule=THREADS,
            name=f"threads {' '.join(str(runner.key.tid) for runner in here)}",
            text=f"{len(here)} own threads that share this CPU",
            sure=True,
            evidence=(),
            fix=spread_fix(ctx, here),
        )


def _quota_keepers(ctx: Context, cpu: int, per_busy_s: float) -> Iterator[Keeper]:
    """Since 6.6 for ordinary threads; vendors may have taken that back to older kernels, which never is sure."""
    here = limits_on(ctx, cpu)
    if not here:
        return
    facts = ctx.observation.facts.kernel
    full = facts.hypervisor is not None or per_busy_s >= LEAST_SHARE * (facts.hz or SLOWEST_HZ)
    yield Keeper(
        rule=QUOTA,
        name=limits_name(here),
        text=" and ".join(f"the limit of {quota.limit.cpus:.4g} CPUs on {quota.group.path}" for quota in here),
        sure=ctx.since(6, 6) and full,
        evidence=tuple(limit_evidence(quota) for quota in here),
        fix=_lift_and_wake(here, cpu),
    )


def _lift_and_wake(here: Sequence[Quota], cpu: int) -> Fix:
    """A thread that never sleeps keeps its tick without the limit too: the kernel looks again when another is queued.

    sched_update_tick_dependency() is part of add_nr_running() and sub_nr_running() (kernel/sched/sched.h).
    """
    fix = lift_fix(here)
    return replace(
        fix,
        text=f"{fix.text}; the tick of a thread that never sleeps then goes on until another one ran on its CPU",
        commands=(*fix.commands, f"sudo taskset -c {cpu} true"),
    )


def limit_evidence(quota: Quota) -> Evidence:
    """The file with the limit and what it says."""
    return Evidence(
        path=limit_file(quota), field="quota period", value=f"{quota.limit.quota_us} {quota.limit.period_us}"
    )


def _timer_keepers(ctx: Context, cpu: int) -> Iterator[Keeper]:
    """Never sure: a timer may be disarmed, and a limit that was inherited by fork keeps nothing (booted 6.12)."""
    for pid in sorted({key.pid for key in ctx.own_on(cpu)}):
        known = [end.limits.timers.get(pid) for end in (ctx.observation.before, ctx.observation.after)]
        process = f"{_name(ctx, pid)} ({pid})"
        yield from _process_keepers(pid, process, [timers for timers in known if timers is not None])


def _process_keepers(pid: int, process: str, known: Sequence[CpuTimers]) -> Iterator[Keeper]:
    limit = next((item.limit_s for item in known if isinstance(item.limit_s, int)), None)
    if limit is not None:
        yield Keeper(
            rule=POSIX,
            name=f"rlimit {pid}",
            text=f"RLIMIT_CPU of {limit} s, unless {process} inherited it by fork, which arms no timer",
            sure=False,
            evidence=(Evidence(path=f"/proc/{pid}/limits", field="Max cpu time", value=f"{limit} seconds"),),
            fix=Fix(
                kind=FixKind.WORKLOAD,
                text=f"start {process} without a limit of CPU time (LimitCPU=infinity in its unit, no ulimit -t): "
                "lifting it later does not stop the timer behind it",
            ),
        )
    timers = next((found for item in known if (found := _own_timers(item, pid))), ())
    if timers:
        clocks = sorted({"thread" if timer.per_thread else "process" for timer in timers})
        yield Keeper(
            rule=POSIX,
            name=f"timer {pid}",
            text=f"{len(timers)} POSIX CPU timer{'s' * (len(timers) > 1)} of {process}, if armed",
            sure=False,
            evidence=(Evidence(path=f"/proc/{pid}/timers", field="ClockID", value=f"CPU time: {', '.join(clocks)}"),),
            fix=Fix(
                kind=FixKind.WORKLOAD,
                text=f"have {process} disarm its timers on CPU-time clocks (timer_create with "
                "CLOCK_PROCESS_CPUTIME_ID or CLOCK_THREAD_CPUTIME_ID); CLOCK_MONOTONIC needs no tick",
            ),
        )


def _own_timers(item: CpuTimers, pid: int) -> tuple[CpuTimer, ...]:
    """Timers on its own clocks: one on another process keeps that one's tick. Its threads go by their own ids."""
    if isinstance(item.timers, ProbeError):
        return ()
    return tuple(timer for timer in item.timers if timer.per_thread or timer.pid in (0, pid))


def _name(ctx: Context, pid: int) -> str:
    """The name of the first thread that either census names; own threads are in one of them."""
    ends = [
        end.statuses for end in (ctx.observation.after.census, ctx.observation.before.census) if isinstance(end, Census)
    ]
    return next(end[key].name for end in ends for key in sorted(end) if key.pid == pid)
