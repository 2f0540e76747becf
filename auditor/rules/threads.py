"""The names behind foreign switches, one finding per name; and whose the CPUs are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, Kind, Outcome
from auditor.own import owners, unrelated
from auditor.policy import Limit
from auditor.quotas import Quota
from auditor.rules.base import Rule, bound, judge_between, maybe_own, rate, weight
from auditor.rules.foreign import (
    balance_of,
    came_or_left,
    confined,
    foreign_runners,
    thread_fix,
    time_of_others_ms,
    unnamed_switches,
)
from auditor.rules.irq import device_of
from auditor.rules.keepers import limits_name, limits_on
from auditor.rules.quota_fix import lift_fix
from auditor.rules.rps import ORIGIN as RPS
from auditor.rules.rps import brings_packets, is_backlog, rps_fix
from auditor.rules.service import TIMER_THREADS, is_timer_thread, own_timer_runs
from auditor.switches import Runner
from probes.host import ProbeError
from probes.snapshot import Census
from probes.threads import thread_irq


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """Runners of one name on one CPU. ``switches`` is exact where all are confined, else 0."""

    name: str
    runners: Sequence[Runner]
    exact: bool
    switches: int
    run_ms: float
    """At most, where it ``moved``: confined to audited CPUs at one end of the window only."""
    sightings: int
    moved: bool
    served: tuple[int, int] = (0, 0)
    """At least and at most how many of the switches were work for the own threads."""

    @property
    def foreign(self) -> int:
        """Switches that are certainly others' work."""
        return max(0, self.switches - self.served[1])


def named_runners(ctx: Context, cpu: int, *, kind: str) -> list[Named]:
    """Foreign runners of one kind (user, bound or unbound kernel threads), put together by name, most first."""
    chosen: dict[tuple[str, bool, bool], list[Runner]] = {}
    for runner in foreign_runners(ctx, cpu):
        if _kind(runner) == kind:
            group = (runner.status.name, confined(ctx, runner), came_or_left(ctx, runner, cpu))
            chosen.setdefault(group, []).append(runner)
    balance = balance_of(ctx, cpu)
    most = None if balance is None else balance.foreign_most
    found = [_named(ctx, name, exact, moved, members, cpu, most) for (name, exact, moved), members in chosen.items()]
    if kind == "bound":
        found = [
            replace(item, served=own_timer_runs(ctx, cpu)) if is_timer_thread(item.name) else item for item in found
        ]
    return sorted(found, key=lambda item: (-item.run_ms, -item.switches, -item.sightings, item.name))


def _kind(runner: Runner) -> str:
    if not runner.status.kernel:
        return "user"
    return "bound" if len(runner.allowed) == 1 else "unbound"


def _named(
    ctx: Context, name: str, exact: bool, moved: bool, members: list[Runner], cpu: int, most: int | None
) -> Named:
    """A switch on the window's edge is theirs if the CPU counted one: their readings enclose those of the CPU."""
    grown = sum(_switches(ctx, runner) for runner in members)
    return Named(
        name=name,
        runners=members,
        exact=exact,
        switches=(grown if most is None else min(grown, most)) if exact else 0,
        run_ms=math.fsum((runner.growth.run_ns or 0) / 1e6 for runner in members) if exact or moved else 0.0,
        sightings=sum(runner.sightings.get(cpu, 0) for runner in members),
        moved=moved,
    )


def _switches(ctx: Context, runner: Runner) -> int:
    part = ctx.foreign_part(runner)
    return max(0, runner.growth.least - ctx.allowances.get(runner.key, 0)) if part is None else part


def check_named(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.USER, THR.KBOUND and THR.KUNBOUND: one finding per name."""
    if isinstance(ctx.census, ProbeError):
        raise ctx.census
    kind = {"THR.USER": "user", "THR.KBOUND": "bound", "THR.KUNBOUND": "unbound"}[rule.id]
    for cpu in ctx.audited:
        found = named_runners(ctx, cpu, kind=kind)
        for item in found:
            yield _name_finding(ctx, rule, cpu, item)
        if not found:
            yield _nobody(ctx, rule, cpu)


def _nobody(ctx: Context, rule: Rule, cpu: int) -> Finding:
    """No name: a pass only where everyone was seen at both ends, and no switch to a user thread is left over."""
    ends = (ctx.observation.before.census, ctx.observation.after.census)
    lost = next((end for end in ends if isinstance(end, ProbeError)), None)
    if lost is not None:
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=f"who was there is not known at both ends: {lost}")
    if not all(isinstance(end, Census) and end.complete for end in ends):
        hidden = "not all threads of the host are visible from here (PID namespace or hidepid)"
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=hidden)
    balance = balance_of(ctx, cpu)
    if rule.id == "THR.USER" and balance is None:
        return rule.finding(Outcome.UNKNOWN, [cpu], detail="none was seen here; samples alone miss most short runs")
    if rule.id == "THR.USER" and balance is not None and (unnamed := unnamed_switches(ctx, balance)):
        left = f"none was seen here; {unnamed} switches remain unnamed"
        return rule.finding(Outcome.UNKNOWN, [cpu], detail=left)
    return rule.finding(Outcome.PASS, [cpu], observed=0, unit="threads", detail="none ran here")


def _name_finding(ctx: Context, rule: Rule, cpu: int, item: Named) -> Finding:
    seen = max(item.foreign, item.sightings, int(item.moved))
    part = item.foreign / item.switches if item.switches else 1.0
    stolen = part * _ran_here_ms(ctx, cpu, item) * 1000 / ctx.window_s
    outcome = _name_outcome(ctx, rule, cpu, item)
    limits = _limits_behind(ctx, cpu, item)
    return rule.finding(
        outcome,
        [cpu],
        observed=rate(seen, ctx.window_s) if rule.id != "THR.USER" else seen,
        limit=ctx.policy.foreign_sightings if rule.id == "THR.USER" else bound(outcome, ctx.policy.limits[rule.id]),
        unit="runs" if rule.id == "THR.USER" else "/s",
        title=f"{rule.title}: {item.name}",
        detail=f"{item.name}: {_what(item)}{maybe_own(outcome)}",
        evidence=[_evidence(runner, moved=item.moved) for runner in item.runners[:3]],
        fix=lift_fix(limits) if limits else _fix(ctx, cpu, item),
        origin=f"tick:{limits_name(limits)}" if limits else _origin(ctx, rule, cpu, item),
        # Sightings are a part of the foreign switches that THR.FOREIGN counts already.
        per_second=rate(item.foreign, ctx.window_s),
        cost_us_per_s=max(stolen, weight("THR", rate(item.foreign, ctx.window_s))),
    )


def _what(item: Named) -> str:
    ran = f", {item.run_ms:.1f} ms" if item.run_ms else ""
    if item.moved:
        return f"moved here or away within the window{ran and f'{ran} here and elsewhere'}"
    served = f", up to {item.served[1]} of them for own timers" if item.served[1] else ""
    return f"{item.switches} switches{ran}{served}" if item.exact else f"seen in {item.sightings} samples"


def _ran_here_ms(ctx: Context, cpu: int, item: Named) -> float:
    """Of one that moved no more than what others ran here at all, as far as that is proved."""
    balance = balance_of(ctx, cpu)
    if not item.moved or balance is None:
        return item.run_ms if item.exact else 0.0
    return min(item.run_ms, time_of_others_ms(ctx, balance))


def _origin(ctx: Context, rule: Rule, cpu: int, item: Named) -> str:
    """The thread of a threaded interrupt (irq/30-eth0) runs because of that interrupt: they are one cause."""
    irq = thread_irq(item.runners[0].status)
    rows = () if isinstance(ctx.delta.interrupts, ProbeError) else ctx.delta.interrupts
    if row := next((row for row in rows if irq is not None and row.irq == irq), None):
        return f"irq:{device_of(row.name)}"
    if _steered(ctx, cpu, item):
        return RPS
    return "kthreads" if rule.id == "THR.KBOUND" else "threads"


def _limits_behind(ctx: Context, cpu: int, item: Named) -> tuple[Quota, ...]:
    """CPU limits whose period timers explain a timer thread: on PREEMPT_RT each refill wakes it (seen on 6.12)."""
    here = limits_on(ctx, cpu) if item.name.startswith(TIMER_THREADS) else ()
    refills = sum(quota.grown.periods for quota in here if quota.grown)
    return here if 2 * refills >= item.foreign > 0 else ()


def _fix(ctx: Context, cpu: int, item: Named) -> Fix:
    return rps_fix(ctx) if _steered(ctx, cpu, item) else thread_fix(ctx)


def _steered(ctx: Context, cpu: int, item: Named) -> bool:
    """Whether the thread runs for packets that RPS sends here."""
    return is_backlog(item.runners[0].status) and bool(brings_packets(ctx, cpu))


def _name_outcome(ctx: Context, rule: Rule, cpu: int, item: Named) -> Outcome:
    policy = ctx.policy
    seen = max(item.foreign, item.sightings)
    if rule.id == "THR.USER":
        long = _ran_here_ms(ctx, cpu, item) >= policy.foreign_run_ms or item.sightings >= policy.foreign_sightings
        return Outcome.FAIL if long else Outcome.WARN
    if not (item.switches or item.sightings) and item.run_ms >= policy.foreign_run_ms:
        return Outcome.FAIL  # it was never switched to because it never left
    watchdog = Limit(warn=policy.migration_per_s, fail=policy.limits[rule.id].fail)
    limit = watchdog if item.name.startswith("migration/") else policy.limits[rule.id]
    return judge_between(seen, max(seen, item.switches - item.served[0]), ctx.window_s, limit)


def _evidence(runner: Runner, *, moved: bool) -> Evidence:
    path, growth = f"/{runner.key.path}", runner.growth
    if moved and growth.run_ns:
        return Evidence(path=path, field="run_ns", value=f"+{growth.run_ns}")
    if growth.least or not (runner.sightings or growth.run_ns):
        return Evidence(path=path, field="switches", value=f"+{growth.least}")
    if runner.sightings:
        return Evidence(path=path, field="processor", value=", ".join(str(cpu) for cpu in sorted(runner.sightings)))
    return Evidence(path=path, field="run_ns", value=f"+{growth.run_ns}")


def check_owners(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.OWNERS."""
    census = ctx.census
    if isinstance(census, ProbeError):
        raise census
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
a second, which miss most short runs. Fails from 10 ms of CPU time or three sightings on.""",
        check=check_named,
    ),
    Rule(
        id="THR.KBOUND",
        title="bound kernel threads",
        kind=Kind.MEASURED,
        why="""Kernel threads bound to this CPU exist everywhere; only their running counts. The name of a kworker tells
its queue; migration/N wakes once in four seconds for the soft-lockup watchdog.""",
        check=check_named,
    ),
    Rule(
        id="THR.KUNBOUND",
        title="unbound kernel threads",
        kind=Kind.MEASURED,
        why="""Kernel threads that could run elsewhere (kworker/u*, rcu*, kswapd …) seen here. nohz_full keeps them away
since 5.9.""",
        check=check_named,
    ),
)
THR_OWNERS = Rule(
    id="THR.OWNERS",
    title="owner of the CPUs",
    kind=Kind.RISK,
    why="Without --workload the threads allowed only on audited CPUs own them. Unrelated owners disturb each other.",
    check=check_owners,
)
