"""Who sets the frequency of a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.ends import alike, both
from probes.cpufreq import CPUFREQ_DIR, FrequencyPolicy
from probes.host import ProbeError, SourceState, known

PERFORMANCE = "performance"
ACTIVE = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers whose powersave is a range within which the hardware chooses; in passive mode they bear other names."""
NO_POLICY = ProbeError(CPUFREQ_DIR, "no policy holds this CPU", SourceState.MISSING)
GOVERNORS = ("conservative", "ondemand", PERFORMANCE, "powersave", "schedutil", "userspace")
MAX_NAMED = 4
BADNESS = (Outcome.PASS, Outcome.UNKNOWN, Outcome.WARN)

Policies = Mapping[int, FrequencyPolicy | ProbeError]


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.FREQ."""
    hypervisor = ctx.observation.facts.kernel.hypervisor
    try:
        before, after = both(ctx, lambda config: config.cpufreq)
    except ProbeError as error:
        if error.state is not SourceState.MISSING or hypervisor in (None, "unknown"):
            raise
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="a guest: the frequency is the host's to set")
        return

    def judge(cpu: int) -> tuple[Outcome, str]:
        outcomes = [_judge(_policy(policies, cpu)) for policies in (before, after)]
        return max(outcomes, key=lambda found: BADNESS.index(found[0]))

    yield from alike(ctx, rule, judge, evidence=lambda cpus: _evidence(after, cpus), fix=lambda cpus: _fix(after, cpus))


def _policy(policies: Policies, cpu: int) -> FrequencyPolicy:
    return known(policies.get(cpu, NO_POLICY))


def _judge(policy: FrequencyPolicy) -> tuple[Outcome, str]:
    span = f"{policy.min_khz // 1000} to {policy.max_khz // 1000} MHz"
    text = f"governor {policy.governor[:16]} of {policy.driver[:32]}, {span}"
    if policy.governor == PERFORMANCE:
        return Outcome.PASS, text
    if policy.governor == "powersave" and policy.driver in ACTIVE:
        return Outcome.UNKNOWN, (
            f"{text}: the hardware chooses by energy_performance_preference, which is not read, "
            "as that interrupts the CPU"
        )
    slow = "" if policy.min_khz == policy.max_khz else ": a CPU that wakes starts slow"
    return Outcome.WARN, text + slow


def _paths(policies: Policies, cpus: list[int]) -> dict[str, FrequencyPolicy]:
    """Each policy once."""
    found = [policies.get(cpu) for cpu in cpus]
    return {policy.path: policy for policy in found if isinstance(policy, FrequencyPolicy)}


def _evidence(policies: Policies, cpus: list[int]) -> list[Evidence]:
    return [
        Evidence(path=f"/{path}/scaling_governor", field="governor", value=policy.governor[:16])
        for path, policy in list(_paths(policies, cpus).items())[:MAX_NAMED]
    ]


def _fix(after: Policies, cpus: list[int]) -> Fix:
    """What is not performance now; undone only to names of governors, for these are typed into a shell."""
    now = {path: policy for path, policy in _paths(after, cpus).items() if policy.governor != PERFORMANCE}
    back = {path: policy for path, policy in now.items() if policy.governor in GOVERNORS}
    return Fix(
        kind=FixKind.RUNTIME,
        text="hold these CPUs at their best frequency; tuned, a power daemon or cpufreq.default_governor=performance "
        "at boot keep it so",
        commands=tuple(f"echo {PERFORMANCE} | sudo tee /{path}/scaling_governor" for path in now),
        undo="; ".join(f"echo {policy.governor} | sudo tee /{path}/scaling_governor" for path, policy in back.items()),
    )


CFG_FREQ = Rule(
    id="CFG.FREQ",
    title="CPU frequency",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""A governor other than performance lowers the frequency of a CPU that idles, and takes milliseconds to raise
it when work comes. Under intel_pstate and amd-pstate in active mode powersave leaves that to the hardware. The
frequency itself is not read: that interrupts the CPU.""",
    sources=(
        f"/{CPUFREQ_DIR}/policy*/scaling_governor",
        f"/{CPUFREQ_DIR}/policy*/scaling_driver",
        f"/{CPUFREQ_DIR}/policy*/scaling_min_freq",
        f"/{CPUFREQ_DIR}/policy*/scaling_max_freq",
        f"/{CPUFREQ_DIR}/policy*/affected_cpus",
    ),
    warns="where the governor is none that holds the frequency",
    cure="the governor performance",
    check=check,
)
