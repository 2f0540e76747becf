"""How long threads of others ran on audited CPUs: one switch may hide seconds.

Two clocks tell, and each errs in its own way. /proc/schedstat adds a thread's whole run when it leaves the CPU, also
what lay before the window. /proc/stat has a grain of a tick and holds interrupts. What both allow is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from auditor.context import Context
from auditor.switches import Balance, Runner
from probes.host import ProbeError

UNEXPLAINED_S = 2.0
"""The run time of a thread that never leaves the CPU is brought up to date by the residual tick, once a second."""
GRAIN_S, GRAIN = 0.1, 0.02
"""What /proc/stat may be wrong by: ticks at both ends, and a share of the window."""


def others_s(ctx: Context, balance: Balance, suspects: Collection[Runner]) -> float:
    """Seconds that user and unknown threads of others ran here in the window, at least; 0.0 where nothing proves it.

    Own threads and kernel threads bound here are subtracted. A thread that still runs at the end is not in
    /proc/schedstat yet: it counts as far as a suspect, known to have been here, ran.
    """
    own = ctx.own_runners(balance.cpus)
    if not balance.foreign_least or not ctx.own_visible or any(runner.growth.run_ns is None for runner in own):
        return 0.0
    bound = [runner for runner in ctx.runners if runner.status.kernel and runner.allowed <= set(balance.cpus)]
    explained_s = ran_s(own) + ran_s(bound)
    slack_s = max(GRAIN_S, GRAIN * ctx.window_s) + (min(UNEXPLAINED_S, ctx.window_s / 2) if own else 0.0)
    slack_s *= len(balance.cpus)
    busy_s = _less(_busy_s(ctx, balance), explained_s)
    held_s = min(busy_s, ran_s(suspects)) if busy_s is not None and busy_s > slack_s else 0.0
    if _strangers(balance, bound):
        return max(held_s, _left_s(ctx, _counted_s(ctx, balance) - explained_s, busy_s, slack_s, exact=not own))
    return max(0.0, held_s)


def ran_s(runners: Collection[Runner]) -> float:
    """Run time of these threads, wherever they ran."""
    return math.fsum((runner.growth.run_ns or 0) / 1e9 for runner in runners)


def _left_s(ctx: Context, counted_s: float, busy_s: float | None, slack_s: float, *, exact: bool) -> float:
    """Of the time of threads that left the CPU what lies in the window.

    Exact without own threads, whose runs may have begun long before it. Where more was counted than the CPU was busy,
    a run began before the window.
    """
    within_s = ctx.window_s if busy_s is None else busy_s + slack_s
    if exact and counted_s <= within_s:
        return max(0.0, counted_s)
    return min(counted_s, busy_s) if busy_s is not None and busy_s > slack_s and counted_s > slack_s else 0.0


def _less(value: float | None, part: float) -> float | None:
    return None if value is None else value - part


def _strangers(balance: Balance, bound: Sequence[Runner]) -> int:
    """Foreign switches that no kernel thread bound here can have been."""
    most = [runner.growth.most for runner in bound]
    return 0 if None in most else max(0, balance.foreign_least - sum(count for count in most if count is not None))


def _counted_s(ctx: Context, balance: Balance) -> float:
    """Run time of all threads that left these CPUs, less what another guest may have had of it."""
    if isinstance(ctx.delta.sched, ProbeError):
        return 0.0
    busy = [ctx.busy(cpu) for cpu in balance.cpus]
    steal_ticks = sum((item.steal_ticks or 0) for item in busy if item is not None)
    return sum(ctx.delta.sched[cpu].run_ns for cpu in balance.cpus) / 1e9 - steal_ticks / 100


def _busy_s(ctx: Context, balance: Balance) -> float | None:
    """Busy time of these CPUs without what was accounted to interrupts; None where /proc/stat does not tell."""
    before, after = (end.counters.cpustat for end in (ctx.observation.before, ctx.observation.after))
    busy = [ctx.busy(cpu) for cpu in balance.cpus]
    if isinstance(before, ProbeError) or isinstance(after, ProbeError) or None in busy:
        return None
    interrupts = sum(
        max(0, after.cpus[cpu].irq - before.cpus[cpu].irq) + max(0, after.cpus[cpu].softirq - before.cpus[cpu].softirq)
        for cpu in balance.cpus
    )
    return math.fsum(item.busy for item in busy if item is not None) * ctx.window_s - interrupts / 100
