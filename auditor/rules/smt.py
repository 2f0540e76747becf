"""Who shares the core: an SMT sibling takes pipeline and caches, whoever the scheduler keeps off the CPU itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from auditor.context import Context
from auditor.model import BAD, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.requested import BOOT_CPU
from auditor.rules.base import Rule
from auditor.rules.doors import domain_state
from auditor.rules.foreign_time import ran_s
from auditor.rules.presence import busy_s, slack_s, switches_of
from auditor.switches import Runner
from probes.cpulist import format_cpulist
from probes.host import ProbeError
from probes.snapshot import Census
from probes.topology import CPU_DIR


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """How one sibling spent the window, in seconds; what is not known to be own may be others'."""

    busy_s: float
    others_least_s: float
    others_most_s: float


def check_smt(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.SMT: one finding per audited CPU and sibling."""
    appeared = _appeared(ctx)
    found = [pair for cpu in ctx.audited for pair in _core(ctx, rule, cpu, appeared)]
    shared = {sibling for sibling, finding in found if finding.outcome in BAD and sibling is not None}
    fix = _fix(ctx, shared - ctx.targets.audited)
    yield from (replace(finding, fix=fix) if finding.outcome in BAD else finding for _, finding in found)


def _appeared(ctx: Context) -> frozenset[int]:
    """CPUs that came online after the cores were read. Raises ProbeError where that can't be told."""
    online: set[int] = set()
    for end in (ctx.observation.before.config.online, ctx.observation.after.config.online):
        if isinstance(end, ProbeError):
            raise end
        online |= end
    for sample in ctx.observation.samples:
        online |= sample.online or frozenset()
    return frozenset(online) - ctx.observation.facts.topology.online


def _core(ctx: Context, rule: Rule, cpu: int, appeared: Collection[int]) -> Iterator[tuple[int | None, Finding]]:
    """Siblings with what is found of them; None where there is none to judge, or none that is known."""
    path = f"/{CPU_DIR}/cpu{cpu}/topology/thread_siblings_list"
    core = ctx.observation.facts.topology.siblings.get(cpu)
    evidence = [Evidence(path=path, field="list", value=format_cpulist(core or ()))]
    if core is None:
        yield None, rule.finding(Outcome.UNKNOWN, [cpu], detail=f"which CPUs share its core is not told: {path}")
        return
    if appeared:
        text = f"{_named(appeared)} came online within the window, perhaps in its core"
        yield None, rule.finding(Outcome.UNKNOWN, [cpu], detail=text, evidence=evidence)
    elif core == {cpu}:
        text = "no other thread of its core is online" + _as_shown(ctx)
        yield None, rule.finding(Outcome.PASS, [cpu], detail=text, evidence=evidence)
    for sibling in sorted(core - {cpu}):
        yield sibling, _judge(ctx, rule, cpu, sibling)


def _as_shown(ctx: Context) -> str:
    return "" if ctx.observation.facts.kernel.hypervisor is None else ", as the hypervisor shows it"


def _judge(ctx: Context, rule: Rule, cpu: int, sibling: int) -> Finding:
    use = _use(ctx, sibling)
    if use is None:
        text = f"CPU {sibling} shares its core; how busy it was is not known: /proc/stat has no row for the window"
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=text)
    outcome, share, why = _outcome(ctx, sibling, use)
    policy = ctx.policy
    measured = outcome in BAD and not why
    finding = rule.finding(
        outcome,
        [cpu],
        observed=100 * share,
        limit=100 * (policy.sibling_fail if outcome is Outcome.FAIL else policy.sibling_warn),
        unit="%",
        detail=f"CPU {sibling} shares its core: {why or _by_others(ctx, sibling, use)}",
        evidence=[Evidence(path="/proc/stat", field=f"cpu{sibling} busy", value=f"{use.busy_s:.2f} s")],
        origin="smt" if measured else "",
        cost_us_per_s=1e6 * share * policy.sibling_takes if measured else 0.0,
    )
    # Nothing happened yet: an idle sibling that anyone may be given is a risk.
    return replace(finding, kind=Kind.RISK) if outcome is Outcome.WARN and not measured else finding


def _use(ctx: Context, sibling: int) -> Use | None:
    """None where /proc/stat does not tell."""
    busy = busy_s(ctx, sibling)
    if busy is None:
        return None
    own = ctx.own_runners([sibling])
    lag_s = slack_s(ctx) if own else 0.0
    most = max(0.0, busy - ran_s([runner for runner in own if runner.allowed == {sibling}]))
    if most <= lag_s and _nobody_else(ctx, sibling, own):
        most = 0.0  # the run time of a thread that never leaves the CPU lags behind
    if _may_be_own(ctx, sibling) or any(runner.growth.run_ns is None for runner in own):
        return Use(busy_s=busy, others_least_s=0.0, others_most_s=most)
    return Use(busy_s=busy, others_least_s=min(most, max(0.0, busy - ran_s(own) - lag_s)), others_most_s=most)


def _may_be_own(ctx: Context, sibling: int) -> bool:
    """Whether own threads may have run there unseen: hidden ones, or those whose run time the kernel does not keep.

    Told by affinity, they are on audited CPUs only.
    """
    if not ctx.own_visible:
        return ctx.own_rule.source != "affinity" or sibling in ctx.targets.audited
    return any(
        sibling in end.statuses[key].allowed
        for end in ctx.observation.censuses
        if isinstance(end, Census) and not end.schedstat
        for key in ctx.own & end.statuses.keys()
    )


def _nobody_else(ctx: Context, sibling: int, own: Sequence[Runner]) -> bool:
    """Whether no switch there was to anyone but own threads that may run nowhere else."""
    total = switches_of(ctx, sibling)
    here = [runner for runner in own if runner.allowed == {sibling}]
    return total is not None and bool(here) and total <= sum(runner.growth.least for runner in here)


def _outcome(ctx: Context, sibling: int, use: Use) -> tuple[Outcome, float, str]:
    """The outcome, the share of the window it is judged by, and what explains it; "" where it is others' work."""
    least, most, busy = (part / ctx.window_s for part in (use.others_least_s, use.others_most_s, use.busy_s))
    policy = ctx.policy
    if least > policy.sibling_warn:
        return (Outcome.FAIL if least > policy.sibling_fail else Outcome.WARN), least, ""
    if sibling in ctx.targets.audited:
        return Outcome.PASS, least, f"audited itself, its own findings judge it (busy {busy:.1%})"
    if most > policy.sibling_warn:
        return Outcome.UNKNOWN, most, f"busy {busy:.1%}; own threads may have run there all of the time, or none of it"
    if busy > policy.sibling_warn:
        return Outcome.PASS, most, f"busy {busy:.1%} with own threads"
    if domain_state(ctx, sibling)[0] is Outcome.PASS:
        return Outcome.PASS, most, f"isolated and idle (busy {busy:.1%})"
    return Outcome.WARN, most, f"idle in this window (busy {busy:.1%}), but any thread may be placed there"


def _by_others(ctx: Context, sibling: int, use: Use) -> str:
    others = [
        runner
        for runner in ctx.runners
        if runner.key not in ctx.own
        and sibling in runner.allowed
        and (runner.allowed == {sibling} or sibling in runner.sightings)
    ]
    ranked = sorted(others, key=lambda runner: (-(runner.growth.run_ns or 0), runner.key.tid))
    names = list(dict.fromkeys(runner.status.name for runner in ranked))[:3]
    text = (
        f"busy {use.busy_s / ctx.window_s:.1%}, {use.others_least_s / ctx.window_s:.1%} of the time with others' work"
    )
    return text + (f" (seen there: {', '.join(names)})" if names else "")


def _fix(ctx: Context, siblings: Collection[int]) -> Fix:
    """Both threads of a core for the workload, or one of them empty. ``siblings``: those that are not audited."""
    text = "give both threads of a core to the workload, or leave one of them empty"
    if not siblings:
        return Fix(kind=FixKind.WORKLOAD, text=text)
    if _has_kubelet(ctx):
        option = "cpuManagerPolicyOptions full-pcpus-only=true with the static policy hands out whole cores"
        return Fix(kind=FixKind.KUBELET, text=f"{text}: {option}")
    can_go = sorted(set(siblings) - {BOOT_CPU})
    if not can_go or ctx.targets.housekeeping <= set(can_go):
        return Fix(
            kind=FixKind.WORKLOAD,
            text=f"{text}: {_named(siblings)} can't be given up here, choose CPUs of other cores, or boot with nosmt",
        )
    path = f"/{CPU_DIR}/cpu%d/online"
    stays = f"; CPU {BOOT_CPU} can't: leave its core to the host" if BOOT_CPU in siblings else ""
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"{text}: isolate {_named(can_go)} as well, or take offline (nosmt at boot: all such threads){stays}",
        commands=tuple(f"echo 0 | sudo tee {path % cpu}" for cpu in can_go),
        undo="; ".join(f"echo 1 | sudo tee {path % cpu}" for cpu in can_go),
    )


def _named(cpus: Collection[int]) -> str:
    return f"CPU{'s' * (len(cpus) > 1)} {format_cpulist(cpus)}"


def _has_kubelet(ctx: Context) -> bool:
    return not isinstance(ctx.census, ProbeError) and any(
        status.name == "kubelet" and not status.kernel for status in ctx.census.statuses.values()
    )


CFG_SMT = Rule(
    id="CFG.SMT",
    title="SMT sibling",
    kind=Kind.MEASURED,
    why="""Two threads of a core share its pipeline and caches: a busy sibling slows the CPU down although nothing runs
on the CPU itself. Judged by what the sibling did and for whom: own work there is fine, an isolated idle sibling too;
an idle one that others may be given is a risk.""",
    sources=("/sys/devices/system/cpu/cpu*/topology/thread_siblings_list", "/proc/stat", "/proc/*/task/*/schedstat"),
    warns="where others kept the sibling busy for more than {sibling_warn:.0%} of the window; where any thread may be "
    "placed on it, as a risk",
    fails="above {sibling_fail:.0%} of the window",
    cure="both threads of a core to the workload (kubelet: full-pcpus-only=true), or one of them isolated or offline",
    thresholds=lambda policy: Thresholds(warn=100 * policy.sibling_warn, fail=100 * policy.sibling_fail, unit="%"),
    check=check_smt,
)
