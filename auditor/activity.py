"""Everything that was counted, per CPU: the raw numbers behind the findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from auditor.context import Context
from auditor.model import Activity, Counter, CpuActivity, IdleUse, Switches, ThreadSeen
from auditor.rules.presence import balance_of, confined, follows_own, foreign_runners
from auditor.switches import Runner
from probes.cpulist import format_cpulist
from probes.host import ProbeError
from probes.interrupts import InterruptKind

MAX_THREADS = 40
MAX_OTHERS = 10
"""Rows of a control CPU that no audited one shares, most events first: a machine has thousands."""
ALWAYS = (
    InterruptKind.TICK,
    InterruptKind.RESCHEDULE,
    InterruptKind.CALL,
    InterruptKind.TLB,
    InterruptKind.IRQ_WORK,
)
"""Rows that are shown at 0 too: no row at all means that nothing could be read."""


def activity(ctx: Context) -> Activity:
    """Audited CPUs with their threads, control CPUs for comparison: of their interrupts only what is compared."""
    audited = {cpu: _of_cpu(ctx, cpu, tuple(_interrupts(ctx, cpu)), _threads(ctx, cpu)) for cpu in ctx.audited}
    shared = {(row.label, row.name) for seen in audited.values() for row in seen.interrupts}
    return Activity(
        cpus=audited,
        control={cpu: _of_cpu(ctx, cpu, _compared(ctx, cpu, shared), ()) for cpu in sorted(ctx.targets.control)},
    )


def _of_cpu(ctx: Context, cpu: int, interrupts: tuple[Counter, ...], threads: tuple[ThreadSeen, ...]) -> CpuActivity:
    busy = ctx.busy(cpu)
    return CpuActivity(
        busy=None if busy is None else busy.busy,
        regime=ctx.regime(cpu),
        interrupts=interrupts,
        softirqs=tuple(_softirqs(ctx, cpu)),
        cpuidle=_cpuidle(ctx, cpu),
        switches=_switches(ctx, cpu),
        threads=threads,
    )


def _interrupts(ctx: Context, cpu: int) -> Iterable[Counter]:
    rows = () if isinstance(ctx.delta.interrupts, ProbeError) else ctx.delta.interrupts
    for row in rows:
        if row.kind is InterruptKind.REPEATED:
            continue
        count = row.counts.get(cpu)
        if count != 0 or row.kind in ALWAYS:
            yield _counter(ctx, row.label, row.name, count)


def _compared(ctx: Context, cpu: int, shared: Collection[tuple[str, str]]) -> tuple[Counter, ...]:
    """Rows that an audited CPU has too, and the busiest others, in the order of the file."""
    rows = list(_interrupts(ctx, cpu))
    others = [row for row in rows if (row.label, row.name) not in shared]
    busiest = {id(row) for row in sorted(others, key=lambda row: -(row.count or 0))[:MAX_OTHERS]}
    return tuple(row for row in rows if (row.label, row.name) in shared or id(row) in busiest)


def _softirqs(ctx: Context, cpu: int) -> Iterable[Counter]:
    rows = {} if isinstance(ctx.delta.softirqs, ProbeError) else ctx.delta.softirqs
    for name, counts in rows.items():
        yield _counter(ctx, name, name, counts.get(cpu))


def _counter(ctx: Context, label: str, name: str, count: int | None) -> Counter:
    return Counter(label=label, name=name, count=count, per_second=None if count is None else count / ctx.window_s)


def _cpuidle(ctx: Context, cpu: int) -> tuple[IdleUse, ...]:
    states = ctx.delta.idle[cpu]
    if isinstance(states, ProbeError):
        return ()
    return tuple(
        IdleUse(
            name=state.name,
            latency_us=state.latency_us,
            entries=state.entries,
            time_us=state.time_us,
            disabled=state.disabled,
        )
        for state in states
    )


def _switches(ctx: Context, cpu: int) -> Switches:
    """Own and foreign only where the CPU is balanced alone, and where both ends of the interval agree."""
    sched = None if isinstance(ctx.delta.sched, ProbeError) else ctx.delta.sched.get(cpu)
    total = None if sched is None else sched.switches
    balance = balance_of(ctx, cpu)
    if balance is None or balance.cpus != (cpu,):
        return Switches(total=total, own=None, foreign=None)
    own = balance.own_least if balance.own_least == balance.own_most else None
    foreign = balance.foreign_least if balance.foreign_least == balance.foreign_most else None
    return Switches(total=total, own=own, foreign=foreign)


def _threads(ctx: Context, cpu: int) -> tuple[ThreadSeen, ...]:
    own = ctx.own_runners([cpu])
    own += [runner for runner in ctx.runners if follows_own(ctx, runner) and cpu in runner.allowed]
    seen = [_seen(ctx, cpu, runner) for runner in [*own, *foreign_runners(ctx, cpu)]]
    most = sorted(seen, key=lambda thread: (not thread.own, -(thread.run_ms or 0), -(thread.switches or 0), thread.tid))
    return tuple(most[:MAX_THREADS])


def _seen(ctx: Context, cpu: int, runner: Runner) -> ThreadSeen:
    exact = confined(ctx, runner)
    return ThreadSeen(
        pid=runner.key.pid,
        tid=runner.key.tid,
        name=runner.status.name,
        kernel=runner.status.kernel,
        own=runner.key in ctx.own or follows_own(ctx, runner),
        cgroup=runner.cgroup,
        allowed=format_cpulist(runner.allowed),
        switches=runner.growth.least if exact else None,
        run_ms=runner.growth.run_ns / 1e6 if exact and runner.growth.run_ns is not None else None,
        sightings=runner.sightings.get(cpu, 0),
    )
