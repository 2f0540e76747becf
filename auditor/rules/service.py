"""Kernel threads of an audited CPU that work for the own workload: what they do for it is no noise."""

from __future__ import annotations

from auditor.context import Context, total
from probes.host import ProbeError
from probes.interrupts import InterruptKind

TIMER_THREADS = ("ktimers/", "ksoftirqd/")
"""On PREEMPT_RT the sleep of an ordinary thread expires in softirq context, in ktimers/N (kernel/softirq.c)."""


def own_timer_runs(ctx: Context, cpu: int) -> tuple[int, int]:
    """At least and at most how many switches to the CPU's timer thread let own sleeps expire.

    At most one for each own wake-up and each timer softirq. At least the own wake-ups that no other CPU sent: such a
    one arrives as RES or CAL (but where the idle loop polls: there some of these were remote).
    """
    if "PREEMPT_RT" not in ctx.observation.facts.kernel.version:  # elsewhere sleeps expire in the interrupt itself
        return 0, 0
    if isinstance(ctx.delta.softirqs, ProbeError) or isinstance(ctx.delta.interrupts, ProbeError):
        return 0, 0
    softirqs = sum(ctx.softirq(name, cpu) or 0 for name in ("TIMER", "HRTIMER"))
    serving = [runner for runner in ctx.runners if runner.status.kernel and _serves(runner.status.name, cpu)]
    ran = min(softirqs, sum(runner.growth.least for runner in serving))
    remote = total(ctx.rows(InterruptKind.RESCHEDULE, InterruptKind.CALL), cpu) or 0
    least, most = ctx.wakeups(cpu)
    return min(ran, max(0, least - remote)), min(ran, most)


def is_timer_thread(name: str) -> bool:
    """Whether a bound kernel thread expires timers."""
    return name.startswith(TIMER_THREADS)


def _serves(name: str, cpu: int) -> bool:
    return name in [f"{thread}{cpu}" for thread in TIMER_THREADS]
