"""Real-time throttling: a thread of SCHED_FIFO or SCHED_RR that never sleeps is stopped for the rest of each period."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.ends import alike, both
from probes.host import ProbeError
from probes.sysctls import RT_PERIOD, RT_RUNTIME, Sysctls, path_of

NEAR = 0.01
"""How near two shares of the window must be to be the same."""


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """RT.THROTTLE."""
    if ctx.version is None:
        raise ProbeError("proc/sys/kernel/osrelease", "no kernel release: how real-time threads are bounded is unknown")
    if ctx.since(6, 12):
        text = "since 6.12 the fair server takes its place: see FAIRSRV"
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail=text)
        return
    before, after = both(ctx, lambda config: config.sysctls)
    shares = [_share(before), _share(after)]
    limits = [share for share in shares if share is not None]

    def judge(cpu: int) -> tuple[Outcome, str]:
        if not limits:
            return Outcome.PASS, "real-time threads are not bounded"
        return _judge(ctx, cpu, min(limits))

    yield from alike(ctx, rule, judge, evidence=lambda _: _evidence(after))


def _share(sysctls: Sysctls) -> float | None:
    """The part of each period that real-time threads may run, None where they are not bounded; raises ProbeError."""
    runtime, period = sysctls.number(RT_RUNTIME), sysctls.number(RT_PERIOD)
    return None if runtime < 0 or runtime >= period else runtime / period


def _judge(ctx: Context, cpu: int, share: float) -> tuple[Outcome, str]:
    """Policies are not read, but a thread that was stopped ran for just that share, and one that ran longer was not."""
    busy, longest = ctx.busy(cpu), _longest(ctx, cpu)
    text = f"real-time threads may run {share:.0%} of each period"
    if busy is None:
        return Outcome.UNKNOWN, f"{text}; how busy the CPU was is not known"
    if busy.busy < share - NEAR:
        return Outcome.NOT_APPLICABLE, f"{text}; the CPU was not that busy"
    if longest > share + NEAR:
        return Outcome.PASS, f"{text}; one thread ran longer than that, so it was not stopped"
    advice = "if its thread is SCHED_FIFO or SCHED_RR (chrt -p TID), it was stopped in every period"
    if longest >= share - NEAR:
        return Outcome.WARN, f"{text}, and one thread ran for just that long: {advice}"
    return Outcome.UNKNOWN, f"{text}, and the CPU was that busy; which of its threads are real-time is not known"


def _longest(ctx: Context, cpu: int) -> float:
    """The part of the window that the longest running of the CPU's own threads ran; 0 where that is not known."""
    ran = [runner.growth.run_ns for runner in ctx.runners if runner.allowed == {cpu}]
    return max((run_ns for run_ns in ran if run_ns is not None), default=0) / 1e9 / ctx.window_s


def _evidence(sysctls: Sysctls) -> list[Evidence]:
    return [
        Evidence(path=f"/{path_of(name)}", field=name, value=str(value))
        for name in (RT_RUNTIME, RT_PERIOD)
        if isinstance(value := sysctls.numbers.get(name), int)
    ]


RT_THROTTLE = Rule(
    id="RT.THROTTLE",
    title="real-time throttling",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""Before 6.12 all SCHED_FIFO and SCHED_RR threads of a CPU together get kernel.sched_rt_runtime_us of each
kernel.sched_rt_period_us: one that spins is stopped for the rest, 50 ms a second by default. Some kernels let it borrow
from other CPUs. Threads' policies are not read: that may take the run queue's lock of the audited CPU.""",
    sources=(f"/{path_of(RT_RUNTIME)}", f"/{path_of(RT_PERIOD)}", "/proc/stat", "/proc/*/task/*/schedstat"),
    warns="where one thread ran for just the share that real-time threads may run",
    cure="let the thread sleep now and then, or run it as SCHED_OTHER; sched_rt_runtime_us=-1 lifts the bound, but "
    "then a spinning thread can starve the CPU's kernel threads and hang the node",
    check=check,
)
