"""CPU limits of the workload: whether one is set anywhere above it, and whether it ran out in the window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.quotas import LIMIT_FILES, Quota
from auditor.rules.base import Rule, rate
from auditor.rules.keepers import in_nohz_full, limit_evidence
from auditor.rules.origins import limits_origin
from auditor.rules.quota_fix import lift_fix
from probes.threads import ThreadKey

US_PER_MS = 1000


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.QUOTA: a finding for each finite limit, then what is left of the CPUs."""
    here = {cpu: ctx.own_on(cpu) for cpu in ctx.audited}
    told: set[int] = set()
    for quota in ctx.quotas.finite:
        if cpus := _cpus(here, quota.threads):
            told.update(cpus)
            yield _finite(ctx, rule, cpus, quota)
    for path, (waited_us, threads) in ctx.quotas.waits.items():
        if cpus := _cpus(here, threads):
            told.update(cpus)
            yield _unseen(ctx, rule, cpus, path, waited_us)
    left = {cpu: own for cpu, own in here.items() if cpu not in told}
    if free := [cpu for cpu, own in left.items() if not own]:
        yield _nobody(ctx, rule, free)
    if owned := [cpu for cpu, own in left.items() if own]:
        yield _unlimited(ctx, rule, owned)


def _cpus(here: Mapping[int, frozenset[ThreadKey]], threads: frozenset[ThreadKey]) -> list[int]:
    return [cpu for cpu, own in here.items() if own & threads]


def _finite(ctx: Context, rule: Rule, cpus: list[int], quota: Quota) -> Finding:
    throttled = (quota.ran_out and not quota.spared) or (quota.grown is None and bool(quota.waited_us))
    return rule.finding(
        Outcome.FAIL if throttled else Outcome.WARN,
        cpus,
        observed=None if quota.grown is None else quota.grown.throttled,
        limit=None if quota.grown is None else 0,
        unit="throttled periods",
        title=f"{rule.title}: {quota.group.path}",
        detail="; ".join(_sentences(ctx, cpus, quota)),
        evidence=[limit_evidence(quota), *_growth(quota)],
        fix=lift_fix([quota]),
        origin=limits_origin([quota]),
        per_second=rate(quota.grown.throttled, ctx.window_s) if throttled and quota.grown else 0.0,
        cost_us_per_s=rate(_lost_us(quota), ctx.window_s) if throttled else 0.0,
    )


def _lost_us(quota: Quota) -> int:
    """How long own threads were held back: their own cgroups' count, else that of all below the limit."""
    if quota.waited_us is not None:
        return quota.waited_us
    return quota.grown.throttled_us if quota.grown else 0


def _sentences(ctx: Context, cpus: list[int], quota: Quota) -> Iterator[str]:
    limit, grown = quota.limit, quota.grown
    yield f"{limit.cpus:.4g} CPUs: {limit.quota_us} µs in each {limit.period_us} µs"
    if grown is None:
        yield "how often it ran out is not told"
    else:
        waited = f", {_ms(grown.throttled_us)} ms summed over CPUs" if grown.throttled_us else ""
        yield f"{grown.throttled} of {grown.periods} periods throttled{waited}"
    if quota.spared:
        yield "others below that limit, not the own threads"
    elif quota.waited_us:
        yield f"the own cgroups waited {_ms(quota.waited_us)} ms"
    if any(in_nohz_full(ctx, cpu) for cpu in cpus):
        yield "such a limit keeps the tick of a nohz_full CPU while an ordinary thread runs (since 6.6)"


def _ms(us: int) -> str:
    return f"{us / US_PER_MS:.0f}" if us >= 10 * US_PER_MS else f"{us / US_PER_MS:.3g}"


def _growth(quota: Quota) -> Iterator[Evidence]:
    if quota.grown is not None:
        path = f"/{quota.group.directory}/cpu.stat"
        yield Evidence(path=path, field="nr_periods", value=f"+{quota.grown.periods}")
        yield Evidence(path=path, field="nr_throttled", value=f"+{quota.grown.throttled}")
        yield Evidence(path=path, field=_time_field(quota), value=f"+{quota.grown.throttled_us} µs")


def _time_field(quota: Quota) -> str:
    return "throttled_time" if quota.group.version == 1 else "throttled_usec"


def _unseen(ctx: Context, rule: Rule, cpus: list[int], path: str, waited_us: int) -> Finding:
    """cpu.stat.local counts what ancestors did as well, those too that a cgroup namespace hides."""
    return rule.finding(
        Outcome.FAIL,
        cpus,
        observed=waited_us / US_PER_MS,
        limit=0,
        unit="ms throttled",
        title=f"{rule.title}: above {path}",
        detail=f"cgroup {path} waited {_ms(waited_us)} ms, summed over CPUs, for a limit that can't be seen from here: "
        "look at its ancestors on the host",
        evidence=[Evidence(path="/sys/fs/cgroup", field=f"{path} cpu.stat.local", value=f"+{waited_us} µs")],
        fix=Fix(kind=FixKind.RUNTIME, text=f"find the limit above {path} on the host, and lift it there"),
        origin=f"quota above {path}",
        cost_us_per_s=rate(waited_us, ctx.window_s),
    )


def _nobody(ctx: Context, rule: Rule, cpus: list[int]) -> Finding:
    if not ctx.own_visible:
        return rule.finding(Outcome.UNKNOWN, cpus, detail="not all own threads are visible, so their limits are not")
    return rule.finding(Outcome.NOT_APPLICABLE, cpus, detail="no own thread may run here")


def _unlimited(ctx: Context, rule: Rule, cpus: list[int]) -> Finding:
    gaps = [str(error) for error in ctx.quotas.unknown]
    if not ctx.own_visible:
        gaps.append("not all own threads are visible")
    if gaps:
        return rule.finding(Outcome.UNKNOWN, cpus, detail=f"no limit is seen, but not all is: {gaps[0]}")
    levels = ctx.quotas.levels
    seen = f"no limit on any of {levels} cgroups from the own threads up" if levels else "in the root cgroup: no limit"
    return rule.finding(Outcome.PASS, cpus, detail=seen)


CFG_QUOTA = Rule(
    id="CFG.QUOTA",
    title="CPU limit",
    axis=Axis.READINESS,
    kind=Kind.MEASURED,
    why="""A CPU limit (cpu.max; cpu.cfs_quota_us of v1) on the cgroup or any ancestor is a time budget per period: when
it is spent, every thread below waits for the next period, however idle the CPU is. CPUs of one's own do not exempt: one
spinning thread is throttled by a limit of exactly one CPU. A limit that did not run out is a warning.""",
    sources=(*LIMIT_FILES, "/sys/fs/cgroup/**/cpu.stat.local"),
    warns="at any finite limit",
    fails="at any period in which own threads were throttled",
    cure="lift it: threads with CPUs of their own need none (kubelet: by itself from 1.33 on, or cpuCFSQuota: false)",
    thresholds=lambda _: Thresholds(fail=0, unit="periods"),
    check=check,
)
