"""C-states that are open to a CPU, whether or not it entered them in the window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.platform import deep_budget_us, shallow_fix, without_states
from probes.cpuidle import CPU_DIR, CpuIdle, IdleState
from probes.delta import NOT_READ
from probes.host import ProbeError
from probes.pm_qos import DMA_LATENCY, PmQos
from probes.snapshot import Snapshot


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.CSTATE: a finding for all CPUs of which the same is said."""
    said: dict[tuple[IdleState | None, int | None], list[int]] = {}
    for cpu in ctx.audited:
        ends = [end.counters.cpuidle.get(cpu, NOT_READ) for end in (ctx.observation.before, ctx.observation.after)]
        missing = next((end for end in ends if isinstance(end, ProbeError)), None)
        if missing is None:
            said.setdefault(_deeper(ctx, cpu), []).append(cpu)
        else:
            yield without_states(ctx, rule, cpu, missing, " µs")
    for (deepest, bound), cpus in said.items():
        yield _judged(ctx, rule, cpus, deepest, bound)


def _deeper(ctx: Context, cpu: int) -> tuple[IdleState | None, int | None]:
    """What is open at the end of the window where it is deeper, without its counters; and what PM QoS allows there."""
    ends = [(_deepest(end, cpu), _bound_us(end, cpu)) for end in (ctx.observation.before, ctx.observation.after)]
    deepest, bound = max(ends, key=lambda found: found[0].latency_us if found[0] else -1)
    return replace(deepest, usage=0, time_us=0) if deepest else None, bound


def _judged(ctx: Context, rule: Rule, cpus: list[int], deepest: IdleState | None, bound: int | None) -> Finding:
    budget = deep_budget_us(ctx)
    latency = deepest.latency_us if deepest else 0
    outcome = Outcome.WARN if latency > budget else Outcome.PASS
    return rule.finding(
        outcome,
        cpus,
        observed=latency,
        limit=budget,
        unit=" µs",
        detail=_text(deepest, bound),
        evidence=_evidence(cpus[0], deepest, ctx.observation.after),
        fix=shallow_fix(ctx, cpus) if outcome is Outcome.WARN else None,
    )


def _bound_us(end: Snapshot, cpu: int) -> int | None:
    qos = end.config.pm_qos
    return qos.bound_us(cpu) if isinstance(qos, PmQos) else None


def _deepest(end: Snapshot, cpu: int) -> IdleState | None:
    """The state that takes longest to leave, of those that are neither switched off nor beyond what PM QoS allows."""
    states, bound = end.counters.cpuidle.get(cpu), _bound_us(end, cpu)
    known = states.states if isinstance(states, CpuIdle) else ()
    allowed = [state for state in known if not state.disabled and (bound is None or state.latency_us <= bound)]
    return max(allowed, key=lambda state: state.latency_us, default=None)


def _text(deepest: IdleState | None, bound: int | None) -> str:
    demanded = "" if bound is None else f"; PM QoS allows {bound} µs"
    if deepest is None:
        return f"no state but polling is open{demanded}"
    return f"{deepest.name} is open, which takes {deepest.latency_us} µs to leave{demanded}"


def _evidence(cpu: int, deepest: IdleState | None, after: Snapshot) -> list[Evidence]:
    found = []
    if deepest is not None:
        path = f"/{CPU_DIR}/cpu{cpu}/cpuidle"
        found.append(Evidence(path=path, field=f"{deepest.name} latency", value=f"{deepest.latency_us} µs"))
    qos = after.config.pm_qos
    if isinstance(qos, PmQos):
        if isinstance(resume := qos.resume_us.get(cpu), int):
            path = f"/{CPU_DIR}/cpu{cpu}/power/pm_qos_resume_latency_us"
            found.append(Evidence(path=path, field="µs", value=str(resume)))
        if isinstance(qos.dma_latency_us, int):
            found.append(Evidence(path=f"/{DMA_LATENCY}", field="µs", value=str(qos.dma_latency_us)))
    return found


CFG_CSTATE = Rule(
    id="CFG.CSTATE",
    title="open C-states",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""A CPU that idles long enough enters the deepest state that is neither switched off nor barred by PM QoS, and
the next wake-up waits until it is left. Never more than a warning: a sleeping CPU is isolated, and one that polls
enters none. What /dev/cpu_dma_latency holds is told to root only.""",
    sources=(
        f"/{CPU_DIR}/cpu*/cpuidle",
        f"/{CPU_DIR}/cpu*/power/pm_qos_resume_latency_us",
        f"/{DMA_LATENCY}",
    ),
    warns="where a state that takes more than {deep_latency_us} µs (or the policy's wake-up budget) to leave is open",
    cure="disable the deep states of the CPU, or hold /dev/cpu_dma_latency open in the workload",
    thresholds=lambda policy: Thresholds(
        warn=policy.deep_latency_us if policy.wakeup_budget_us is None else policy.wakeup_budget_us, unit=" µs"
    ),
    check=check,
)
