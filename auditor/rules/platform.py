"""What the platform does to the CPUs: C-states that a wake-up must leave, time stolen by the hypervisor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from auditor.context import Context
from auditor.model import BAD, Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule, judge, rate
from probes.delta import IdleDelta
from probes.host import ProbeError, SourceState

DEEP_SHARE = 0.01


def check_deep(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CST.DEEP."""
    for cpu in ctx.audited:
        states = ctx.delta.idle[cpu]
        if isinstance(states, ProbeError):
            yield without_states(ctx, rule, cpu, states)
            continue
        deep = [state for state in states if state.latency_us > deep_budget_us(ctx)]
        yield _judge_deep(ctx, rule, cpu, deep)


def deep_budget_us(ctx: Context) -> int:
    """States that take longer than this to leave are deep: the policy's wake-up budget, else its own limit."""
    budget = ctx.policy.wakeup_budget_us
    return ctx.policy.deep_latency_us if budget is None else budget


def without_states(ctx: Context, rule: Rule, cpu: int, error: ProbeError, unit: str = "/s") -> Finding:
    """Without a driver the kernel enters no deep state by itself; what a hypervisor's host does is not seen inside."""
    driver, hypervisor = ctx.observation.facts.idle_driver, ctx.observation.facts.kernel.hypervisor
    if error.state is SourceState.MISSING and driver == "none" and hypervisor is None:
        return rule.finding(
            Outcome.PASS, [cpu], observed=0, limit=0, unit=unit, detail="no cpuidle driver: only HLT or polling"
        )
    if error.state is SourceState.MISSING and hypervisor not in (None, "unknown"):
        return rule.finding(Outcome.NOT_APPLICABLE, [cpu], detail="a guest without cpuidle: C-states are the host's")
    return rule.finding(Outcome.UNKNOWN, [cpu], detail=str(error))


def _judge_deep(ctx: Context, rule: Rule, cpu: int, deep: list[IdleDelta]) -> Finding:
    entries = sum(state.entries for state in deep)
    share = sum(state.time_us for state in deep) / 1e6 / ctx.window_s
    outcome = judge(entries, ctx.window_s, ctx.policy.limits[rule.id])
    if share > DEEP_SHARE:
        outcome = Outcome.FAIL
    # A CPU asleep through the whole window counts nothing: if a deep state is open to it, it may lie there.
    open_deep = any(not state.disabled for state in deep)
    busy = ctx.busy(cpu)
    if outcome is Outcome.PASS and open_deep and (busy is None or busy.busy < 0.5):
        outcome = Outcome.NOT_EXERCISED
    if outcome is Outcome.FAIL and ctx.policy.wakeup_budget_us is None:
        outcome = Outcome.WARN
    names = ", ".join(f"{state.name} ({state.latency_us} µs) {state.entries} times" for state in deep)
    return rule.finding(
        outcome,
        [cpu],
        observed=rate(entries, ctx.window_s),
        limit=ctx.policy.limits[rule.id].fail,
        unit="/s",
        detail=f"{names}; {share:.1%} of the time"
        if deep
        else f"no state takes longer than {deep_budget_us(ctx)} µs to leave",
        evidence=[_state_evidence(cpu, state) for state in deep],
        fix=shallow_fix(ctx, [cpu]) if outcome in BAD else None,
        origin="cstates",
    )


def _state_evidence(cpu: int, state: IdleDelta) -> Evidence:
    return Evidence(
        path=f"/sys/devices/system/cpu/cpu{cpu}/cpuidle", field=f"{state.name} usage", value=f"+{state.entries}"
    )


def shallow_fix(ctx: Context, cpus: Iterable[int]) -> Fix:
    """Bars the deep states of these CPUs."""
    loops = [
        f"for s in /sys/devices/system/cpu/cpu{cpu}/cpuidle/state*; "
        f"do [ $(cat $s/latency) -gt {deep_budget_us(ctx)} ] && echo %d | sudo tee $s/disable; done"
        for cpu in cpus
    ]
    return Fix(
        kind=FixKind.RUNTIME,
        text="bar the deep states on this CPU (reset by reboot and hotplug), "
        "or hold /dev/cpu_dma_latency open in the workload",
        commands=tuple(loop % 1 for loop in loops),
        undo="; ".join(loop % 0 for loop in loops),
    )


def check_steal(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """STEAL."""
    hypervisor = ctx.observation.facts.kernel.hypervisor
    if hypervisor is None:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="bare metal")
        return
    for cpu in ctx.audited:
        busy = ctx.busy(cpu)
        ticks = busy.steal_ticks if busy else None
        if not ticks:
            yield rule.finding(
                Outcome.UNKNOWN, [cpu], detail="no steal reported: the hypervisor stole nothing or does not tell"
            )
            continue
        share = ticks / 100 / ctx.window_s
        yield rule.finding(
            Outcome.FAIL if share > ctx.policy.steal_fail else Outcome.WARN,
            [cpu],
            observed=share * 100,
            limit=ctx.policy.steal_fail * 100,
            unit="%",
            detail=f"{ticks} ticks of 10 ms were taken by the hypervisor",
            evidence=[Evidence(path="/proc/stat", field=f"cpu{cpu} steal", value=f"+{ticks}")],
            fix=Fix(kind=FixKind.FIRMWARE, text="pin this vCPU to a CPU of its own on the host, and audit the host"),
            origin="steal",
            cost_us_per_s=share * 1e6,
        )


CST_DEEP = Rule(
    id="CST.DEEP",
    title="deep C-states",
    axis=Axis.READINESS,
    kind=Kind.MEASURED,
    why="""States that take long to leave delay the next wake-up. At most a warning unless the policy states a wake-up
budget: an idle exclusive CPU in C6 is isolated. The counters are the kernel's requests, counted at the
wake-up.""",
    sources=("/sys/devices/system/cpu/cpu*/cpuidle",),
    warns="at any entry into a state that takes more than {deep_latency_us} µs to leave",
    fails=f"only where the policy states a wake-up budget: {{fail}}, or more than {DEEP_SHARE:.0%} of the time in them",
    cure="disable the deep states of the CPU, or hold /dev/cpu_dma_latency open in the workload",
    check=check_deep,
)
STEAL = Rule(
    id="STEAL",
    title="time stolen by the hypervisor",
    kind=Kind.MEASURED,
    why="In a guest the hypervisor may run others on the CPU itself. Zero without a steal clock is unknown, not none.",
    sources=("/proc/stat",),
    warns="at any stolen tick",
    fails="above {steal_fail:.1%} of the window",
    cure="pin the vCPU to a CPU of its own on the host, and audit the host",
    thresholds=lambda policy: Thresholds(warn=0, fail=100 * policy.steal_fail, unit="%"),
    check=check_steal,
)
