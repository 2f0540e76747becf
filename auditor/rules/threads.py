"""The names behind foreign switches, one finding per name; and whose the CPUs are."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, Kind, Outcome
from auditor.own import owners, unrelated
from auditor.policy import Limit, Thresholds
from auditor.quotas import Quota
from auditor.rules.base import Rule, bound, judge_between, maybe_own, rate, weight
from auditor.rules.foreign import came_by, unnamed_switches, was_there
from auditor.rules.irq import device_of
from auditor.rules.keepers import limits_on
from auditor.rules.named import How, Named, named_runners, ran_here_ms
from auditor.rules.origins import limits_origin
from auditor.rules.presence import balance_of, hold_of
from auditor.rules.quota_fix import lift_fix
from auditor.rules.rps import ORIGIN as RPS
from auditor.rules.rps import brings_packets, is_backlog, rps_fix
from auditor.rules.service import is_timer_thread
from auditor.rules.thread_fix import bound_fix, thread_fix
from auditor.switches import Runner
from probes.host import ProbeError, known
from probes.threads import thread_irq


def check_named(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.USER, THR.KBOUND and THR.KUNBOUND: one finding per name."""
    if isinstance(ctx.census, ProbeError):
        raise ctx.census
    kind = {"THR.USER": "user", "THR.KBOUND": "bound", "THR.KUNBOUND": "unbound"}[rule.id]
    everyone = {cpu: named_runners(ctx, cpu, kind=kind) for cpu in ctx.audited}
    fix = None
    if any(everyone.values()):
        fix = bound_fix(ctx) if rule.id == "THR.KBOUND" else thread_fix(ctx)
    for cpu, found in everyone.items():
        for item in found:
            yield _name_finding(ctx, rule, cpu, item, fix)
        if not found:
            yield _nobody(ctx, rule, cpu)


def _nobody(ctx: Context, rule: Rule, cpu: int) -> Finding:
    """No name: a pass only where everyone was seen at both ends, and no switch to a user thread is left over."""
    lost = next((end for end in ctx.observation.censuses if isinstance(end, ProbeError)), None)
    if lost is not None:
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=f"who was there is not known at both ends: {lost}")
    if not ctx.observation.everyone_seen:
        hidden = "not all threads of the host are visible from here (PID namespace or hidepid)"
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=hidden)
    if rule.id == "THR.USER" and (left := _left_over(ctx, cpu)):
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=f"none was seen here; {left}")
    return rule.finding(Outcome.PASS, [cpu], observed=0, unit="threads", detail="none ran here")


def _left_over(ctx: Context, cpu: int) -> str:
    """What shows that a user thread may have been here all the same, "" where nothing does."""
    balance = balance_of(ctx, cpu)
    if balance is None:
        return "samples alone miss most short runs"
    if unnamed := unnamed_switches(ctx, balance):
        return f"{unnamed} switches remain unnamed"
    hold = hold_of(ctx, balance)
    if hold and cpu in hold.cpus:
        return "who held the CPU throughout, if anyone did, can't be told"
    return "" if hold else was_there(ctx, balance)


def _name_finding(ctx: Context, rule: Rule, cpu: int, item: Named, fix: Fix | None) -> Finding:
    part = item.foreign / item.switches if item.switches else 1.0
    stolen = part * ran_here_ms(ctx, cpu, item) * 1000 / ctx.window_s
    outcome = _name_outcome(ctx, rule, cpu, item)
    observed, limit, unit = _number(ctx, rule, cpu, item, outcome)
    limits = _limits_behind(ctx, cpu, item)
    return rule.finding(
        outcome,
        [cpu],
        observed=observed,
        limit=limit,
        unit=unit,
        title=f"{rule.title}: {item.name}",
        detail=f"{item.name}: {item.describe()}{maybe_own(outcome)}",
        evidence=[_evidence(runner, item) for runner in item.runners[:3]],
        fix=lift_fix(limits) if limits else rps_fix(ctx) if _steered(ctx, cpu, item) else fix,
        origin=limits_origin(limits) if limits else _origin(ctx, rule, cpu, item),
        # Sightings are a part of the foreign switches that THR.FOREIGN counts already.
        per_second=rate(item.foreign, ctx.window_s),
        cost_us_per_s=max(stolen, weight("THR", rate(item.foreign, ctx.window_s))),
    )


def _number(ctx: Context, rule: Rule, cpu: int, item: Named, outcome: Outcome) -> tuple[float, float, str]:
    """Observed, limit and unit: runs, or the time by which few runs fail."""
    seen = max(item.foreign, item.sightings, int(item.here))
    if rule.id != "THR.USER":
        return rate(seen, ctx.window_s), bound(outcome, ctx.policy.limits[rule.id]), "/s"
    if outcome is Outcome.FAIL and seen < ctx.policy.foreign_sightings:
        return ran_here_ms(ctx, cpu, item), ctx.policy.foreign_run_ms, "ms"
    return seen, ctx.policy.foreign_sightings, "runs"


def _origin(ctx: Context, rule: Rule, cpu: int, item: Named) -> str:
    """The thread of a threaded interrupt (irq/30-eth0) runs because of that interrupt: they are one cause."""
    irq = thread_irq(item.runners[0].status)
    rows = () if isinstance(ctx.delta.interrupts, ProbeError) else ctx.delta.interrupts
    if row := next((row for row in rows if irq is not None and row.irq == irq), None):
        return f"irq:{device_of(row.name)}"
    if _steered(ctx, cpu, item):
        return RPS
    if rule.id == "THR.KBOUND":
        return "kthreads"
    return came_by(ctx, [cpu], placed=item.how in (How.PASSING, How.STUCK))


def _limits_behind(ctx: Context, cpu: int, item: Named) -> tuple[Quota, ...]:
    """CPU limits whose period timers explain a timer thread: on PREEMPT_RT each refill wakes it (seen on 6.12)."""
    here = limits_on(ctx, cpu) if is_timer_thread(item.name) else ()
    refills = sum(quota.grown.periods for quota in here if quota.grown)
    return here if 2 * refills >= item.foreign > 0 else ()


def _steered(ctx: Context, cpu: int, item: Named) -> bool:
    """Whether the thread runs for packets that RPS sends here."""
    return is_backlog(item.runners[0].status) and bool(brings_packets(ctx, cpu))


def _name_outcome(ctx: Context, rule: Rule, cpu: int, item: Named) -> Outcome:
    policy = ctx.policy
    seen = max(item.foreign, item.sightings)
    if rule.id == "THR.USER":
        long = ran_here_ms(ctx, cpu, item) >= policy.foreign_run_ms or item.sightings >= policy.foreign_sightings
        return Outcome.FAIL if long else Outcome.WARN
    if not (item.switches or item.sightings) and item.run_ms >= policy.foreign_run_ms:
        return Outcome.FAIL  # it was never switched to because it never left
    watchdog = Limit(warn=policy.migration_per_s, fail=policy.limits[rule.id].fail)
    limit = watchdog if item.name.startswith("migration/") else policy.limits[rule.id]
    return judge_between(seen, max(seen, item.switches - item.served[0]), ctx.window_s, limit)


def _evidence(runner: Runner, item: Named) -> Evidence:
    path, growth = f"/{runner.key.path}", runner.growth
    if item.here and growth.run_ns:
        return Evidence(path=path, field="run_ns", value=f"+{growth.run_ns}")
    if growth.least or not (runner.sightings or growth.run_ns):
        return Evidence(path=path, field="switches", value=f"+{growth.least}")
    if runner.sightings:
        return Evidence(path=path, field="processor", value=", ".join(str(cpu) for cpu in sorted(runner.sightings)))
    return Evidence(path=path, field="run_ns", value=f"+{growth.run_ns}")


def check_owners(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.OWNERS."""
    census = known(ctx.census)
    found = owners(census, ctx.own)
    several = unrelated(ctx.own_rule, found)
    names = ", ".join(f"{owner.name} ({owner.where})" for owner in found[:4])
    yield rule.finding(
        Outcome.WARN if several else Outcome.PASS,
        ctx.audited,
        observed=len(found),
        limit=1,
        unit="owners",
        detail=f"{names}: name the one that these CPUs belong to with --workload"
        if several
        else names or "no own thread",
    )


THR_RULES = (
    Rule(
        id="THR.USER",
        title="foreign user threads",
        kind=Kind.MEASURED,
        why="""User threads of others that ran here: exact where they may only run on audited CPUs, else by samples once
a second, which miss most short runs.""",
        sources=("/proc/*/task/*/schedstat", "/proc/*/task/*/stat", "/proc/*/task/*/status"),
        warns="at any run",
        fails="from {foreign_run_ms:g} ms of CPU time or {foreign_sightings} sightings on",
        cure="isolate the CPUs; move what is pinned to them with taskset or AllowedCPUs=",
        thresholds=lambda policy: Thresholds(warn=0, fail=policy.foreign_sightings, unit="runs"),
        check=check_named,
    ),
    Rule(
        id="THR.KBOUND",
        title="bound kernel threads",
        kind=Kind.MEASURED,
        why="""Kernel threads bound to this CPU exist everywhere; only their running counts. The name of a kworker tells
its queue; migration/N wakes once in four seconds for the soft-lockup watchdog.""",
        sources=("/proc/*/task/*/schedstat", "/proc/*/task/*/stat", "/proc/*/task/*/status"),
        warns="{warn}; migration/N above {migration_per_s:g}/s",
        fails="{fail}",
        cure="nohz_full ends what the tick wakes; else keep off what gives them work, as their names tell",
        check=check_named,
    ),
    Rule(
        id="THR.KUNBOUND",
        title="unbound kernel threads",
        kind=Kind.MEASURED,
        why="""Kernel threads that could run elsewhere (kworker/u*, rcu*, kswapd …) seen here. nohz_full keeps them away
since 5.9.""",
        sources=("/proc/*/task/*/schedstat", "/proc/*/task/*/stat", "/proc/*/task/*/status"),
        cure="nohz_full, and the CPU out of the workqueue mask (CFG.WQ); taskset for those that allow it",
        check=check_named,
    ),
)
THR_OWNERS = Rule(
    id="THR.OWNERS",
    title="owner of the CPUs",
    kind=Kind.RISK,
    why="Without --workload the threads allowed only on audited CPUs own them. Unrelated owners disturb each other.",
    sources=("/proc/*/task/*/status",),
    warns="at more than one unrelated owner",
    cure="name the owner with --workload",
    thresholds=lambda _: Thresholds(warn=1, unit="owners"),
    check=check_owners,
)
