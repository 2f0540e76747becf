"""Who else ran on the audited CPUs: the decisive count of foreign switches, and the names behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Limit
from auditor.rules.base import Rule, always, bound, judge, rate, settle, weight
from auditor.rules.doors import domain_state
from auditor.rules.irq import device_of
from auditor.switches import Balance, Runner
from probes.host import ProbeError

IRQ_THREAD = re.compile(r"irq/([0-9]{1,6})-", re.ASCII)
UNEXPLAINED_S = 2.0
"""The run time of a thread that never leaves the CPU is brought up to date by the residual tick, once a second."""


def foreign_runners(ctx: Context, cpu: int) -> list[Runner]:
    """Threads of others that ran on this CPU: confined to audited CPUs and grown, or seen there in a sample.

    Where no foreign switch can have happened on the CPU, only one that ran there all the time is left.
    """
    balance = balance_of(ctx, cpu)
    quiet = balance is not None and balance.foreign_most == 0
    return [
        runner
        for runner in ctx.runners
        if runner.key not in ctx.own
        and ((cpu in runner.allowed and confined(ctx, runner)) or cpu in runner.sightings)
        and (not quiet or _stayed(runner))
    ]


def confined(ctx: Context, runner: Runner) -> bool:
    """Whether everything the thread did was done on audited CPUs."""
    return bool(runner.allowed) and runner.allowed <= ctx.targets.audited


def _stayed(runner: Runner) -> bool:
    return runner.growth.most == 0 and (runner.growth.run_ns or 0) > 0


def balance_of(ctx: Context, cpu: int) -> Balance | None:
    """The switches of the group this CPU belongs to."""
    if isinstance(ctx.balances, ProbeError):
        return None
    return next((balance for balance in ctx.balances if cpu in balance.cpus), None)


def check_foreign(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.FOREIGN."""
    if isinstance(ctx.balances, ProbeError):
        raise ctx.balances
    for balance in ctx.balances:
        occupied = _occupied(ctx, rule, balance)
        if occupied:
            yield occupied
        if not occupied or occupied.cpus != balance.cpus:
            yield (None if occupied else _was_there(ctx, rule, balance)) or _counted(ctx, rule, balance)
    missing = set(ctx.audited) - {cpu for balance in ctx.balances for cpu in balance.cpus}
    if missing:
        yield rule.finding(
            Outcome.UNKNOWN, missing, detail="/proc/schedstat has no row for it at both ends of the window"
        )


def _counted(ctx: Context, rule: Rule, balance: Balance) -> Finding:
    limit = ctx.policy.limits[rule.id]
    watchdog = _watchdog(ctx, balance)
    least, most = max(0, balance.foreign_least - watchdog), max(0, balance.foreign_most - watchdog)
    outcome = judge(least, ctx.window_s, limit)
    if outcome is not Outcome.FAIL and _undecided(least, most, ctx.window_s, limit):
        outcome = Outcome.UNKNOWN
    shut = all(domain_state(ctx, cpu)[0] is Outcome.PASS for cpu in balance.cpus)
    control = ctx.control_rate(lambda cpu: _switches(ctx, cpu))
    outcome = settle(outcome, least, control, limit, shut=shut)
    return rule.finding(
        outcome,
        balance.cpus,
        observed=rate(least, ctx.window_s),
        limit=bound(outcome, limit),
        unit="/s",
        detail=_describe(balance, watchdog),
        evidence=[
            Evidence(path="/proc/schedstat", field=f"cpu{cpu} field 9", value=f"+{_switches(ctx, cpu)}")
            for cpu in balance.cpus
        ],
        fix=thread_fix(ctx) if outcome in (Outcome.WARN, Outcome.FAIL) else None,
        origin="threads",
        per_second=rate(_unnamed(ctx, balance, least), ctx.window_s),
        cost_us_per_s=weight("THR", rate(_unnamed(ctx, balance, least), ctx.window_s)),
    )


def _undecided(least: int, most: int, window_s: float, limit: Limit) -> bool:
    """Whether the upper end would fail and the lower end does not: at 0 by its plain rate, above by its lower bound."""
    return judge(most, window_s, limit) is Outcome.FAIL or (not least and most / window_s > limit.fail)


def _switches(ctx: Context, cpu: int) -> int | None:
    if isinstance(ctx.delta.sched, ProbeError) or cpu not in ctx.delta.sched:
        return None
    return ctx.delta.sched[cpu].switches


def _describe(balance: Balance, watchdog: int) -> str:
    own = (
        str(balance.own_least)
        if balance.own_least == balance.own_most
        else f"{balance.own_least} to {balance.own_most or '?'}"
    )
    foreign = str(balance.foreign_least)
    if balance.foreign_least != balance.foreign_most:
        foreign += f" to {balance.foreign_most}"
    less = f", {watchdog} of them the soft-lockup watchdog" if watchdog else ""
    return f"{balance.total} switches, {own} own, {foreign} foreign{less}"


def _watchdog(ctx: Context, balance: Balance) -> int:
    """Switches to migration/N that the soft-lockup watchdog explains: one in four seconds and CPU, if so many were."""
    allowed = int(ctx.policy.migration_per_s * ctx.window_s) + 1
    grown = 0
    for runner in ctx.runners:
        if runner.status.kernel and runner.status.name.startswith("migration/") and runner.allowed <= set(balance.cpus):
            grown += min(allowed, runner.growth.least)
    return grown


def _unnamed(ctx: Context, balance: Balance, least: int) -> int:
    """Foreign switches that no thread confined to these CPUs accounts for."""
    named = sum(
        runner.growth.least
        for runner in ctx.runners
        if runner.key not in ctx.own and runner.allowed and runner.allowed <= set(balance.cpus)
    )
    return max(0, least - named)


def _occupied(ctx: Context, rule: Rule, balance: Balance) -> Finding | None:
    """CPUs busy without a single switch: one thread held each throughout. What none of ours did, someone else's did.

    An own thread that was switched to elsewhere may have begun here: it excuses as far as it ran, but proves nothing.
    """
    slack_s = min(UNEXPLAINED_S, ctx.window_s / 2)
    busy = {cpu: _busy_s(ctx, cpu) for cpu in balance.cpus if not _switches(ctx, cpu)}
    held = {cpu: busy_s for cpu, busy_s in busy.items() if busy_s is None or busy_s > slack_s}
    here = [runner for runner in ctx.runners if runner.allowed & held.keys()]
    stayed = [runner for runner in here if _stayed(runner) and runner.key in ctx.own]
    moved_s = _ran_s([runner for runner in here if not _stayed(runner) and runner.key in ctx.own])
    more_s = sum(ctx.window_s if busy_s is None else busy_s for busy_s in held.values()) - _ran_s(stayed)
    if more_s <= slack_s * len(held) and len(held) <= len(stayed):
        return None
    suspects = sorted({runner.status.name for runner in here if runner.key not in ctx.own and _stayed(runner)})
    proved = bool(suspects) and None not in held.values() and more_s - moved_s > slack_s
    return rule.finding(
        Outcome.FAIL if proved else Outcome.UNKNOWN,
        held,
        detail=_describe_held(held, more_s, suspects),
        fix=thread_fix(ctx) if proved else None,
        origin="threads",
    )


def _describe_held(held: Mapping[int, float | None], more_s: float, suspects: Sequence[str]) -> str:
    if None in held.values():
        text = "no switch, and /proc/stat does not tell whether the CPU was idle or one thread held it"
    else:
        text = f"busy {more_s:.1f} s more than own threads here ran, without a switch: another thread held the CPU"
    return text + (f"; it may be {', '.join(suspects[:4])}" if suspects else "")


def _was_there(ctx: Context, rule: Rule, balance: Balance) -> Finding | None:
    """A thread that held the CPU when the window began is not switched to. Where switches are few, its time tells."""
    busy = [_busy_s(ctx, cpu) for cpu in balance.cpus]
    slack_s = min(UNEXPLAINED_S, ctx.window_s / 2) * len(balance.cpus)
    own = [runner for runner in ctx.runners if runner.key in ctx.own and runner.allowed & set(balance.cpus)]
    more_s = sum(ctx.window_s if busy_s is None else busy_s for busy_s in busy) - _ran_s(own)
    if balance.foreign_least or balance.total > ctx.window_s or more_s <= slack_s:
        return None
    if None in busy:
        held = "and /proc/stat does not tell whether another thread was there at the start"
    else:
        held = f"yet busy {more_s:.1f} s more than own threads ran: another was there at the start"
    text = f"{_describe(balance, 0)}, {held}"
    return rule.finding(Outcome.UNKNOWN, balance.cpus, detail=text, origin="threads")


def _busy_s(ctx: Context, cpu: int) -> float | None:
    busy = ctx.busy(cpu)
    return None if busy is None else busy.busy * ctx.window_s


def _ran_s(runners: Sequence[Runner]) -> float:
    return sum((runner.growth.run_ns or 0) / 1e9 for runner in runners)


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """Runners of one name on one CPU. ``switches`` is exact where all are confined, else None."""

    name: str
    runners: Sequence[Runner]
    exact: bool
    switches: int
    run_ms: float
    sightings: int


def named_runners(ctx: Context, cpu: int, *, kind: str) -> list[Named]:
    """Foreign runners of one kind (user, bound or unbound kernel threads), put together by name, most first."""
    chosen: dict[tuple[str, bool], list[Runner]] = {}
    for runner in foreign_runners(ctx, cpu):
        if _kind(runner) == kind:
            chosen.setdefault((runner.status.name, confined(ctx, runner)), []).append(runner)
    balance = balance_of(ctx, cpu)
    most = None if balance is None else balance.foreign_most
    found = [_named(name, exact, members, cpu, most) for (name, exact), members in chosen.items()]
    return sorted(found, key=lambda item: (-item.run_ms, -item.switches, -item.sightings, item.name))


def _kind(runner: Runner) -> str:
    if not runner.status.kernel:
        return "user"
    return "bound" if len(runner.allowed) == 1 else "unbound"


def _named(name: str, exact: bool, members: list[Runner], cpu: int, most: int | None) -> Named:
    """A switch on the window's edge is theirs if the CPU counted one: their readings enclose those of the CPU."""
    grown = sum(runner.growth.least if runner.growth.most is None else runner.growth.most for runner in members)
    return Named(
        name=name,
        runners=members,
        exact=exact,
        switches=(grown if most is None else min(grown, most)) if exact else 0,
        run_ms=sum((runner.growth.run_ns or 0) / 1e6 for runner in members) if exact else 0.0,
        sightings=sum(runner.sightings.get(cpu, 0) for runner in members),
    )


def check_named(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.USER, THR.KBOUND and THR.KUNBOUND: one finding per name."""
    if isinstance(ctx.census, ProbeError):
        raise ctx.census
    kind = {"THR.USER": "user", "THR.KBOUND": "bound", "THR.KUNBOUND": "unbound"}[rule.id]
    for cpu in ctx.audited:
        found = named_runners(ctx, cpu, kind=kind)
        for item in found:
            yield _name_finding(ctx, rule, cpu, item)
        if found:
            continue
        if not ctx.census.complete:
            yield rule.finding(
                Outcome.UNKNOWN,
                [cpu],
                detail="not all threads of the host are visible from here (PID namespace or hidepid)",
            )
        else:
            yield rule.finding(Outcome.PASS, [cpu], observed=0, unit="threads", detail="none ran here")


def _name_finding(ctx: Context, rule: Rule, cpu: int, item: Named) -> Finding:
    seen = max(item.switches, item.sightings)
    ran = f", {item.run_ms:.1f} ms" if item.run_ms else ""
    detail = f"{item.name}: " + (
        f"{item.switches} switches{ran}" if item.exact else f"seen in {item.sightings} samples"
    )
    stolen = item.run_ms * 1000 / ctx.window_s
    outcome = _name_outcome(ctx, rule, item)
    return rule.finding(
        outcome,
        [cpu],
        observed=rate(seen, ctx.window_s) if rule.id != "THR.USER" else seen,
        limit=ctx.policy.foreign_sightings if rule.id == "THR.USER" else bound(outcome, ctx.policy.limits[rule.id]),
        unit="runs" if rule.id == "THR.USER" else "/s",
        title=f"{rule.title}: {item.name}",
        detail=detail,
        evidence=[_evidence(runner) for runner in item.runners[:3]],
        fix=thread_fix(ctx),
        origin=_origin(ctx, rule, item.name),
        # Sightings are a part of the foreign switches that THR.FOREIGN counts already.
        per_second=rate(item.switches, ctx.window_s),
        cost_us_per_s=max(stolen, weight("THR", rate(item.switches, ctx.window_s))),
    )


def _origin(ctx: Context, rule: Rule, name: str) -> str:
    """The thread of a threaded interrupt (irq/30-eth0) runs because of that interrupt: they are one cause."""
    if match := IRQ_THREAD.match(name):
        rows = () if isinstance(ctx.delta.interrupts, ProbeError) else ctx.delta.interrupts
        if row := next((row for row in rows if row.irq == int(match[1])), None):
            return f"irq:{device_of(row.name)}"
    return "kthreads" if rule.id == "THR.KBOUND" else "threads"


def _name_outcome(ctx: Context, rule: Rule, item: Named) -> Outcome:
    policy = ctx.policy
    seen = max(item.switches, item.sightings)
    if rule.id == "THR.USER":
        long = item.run_ms >= policy.foreign_run_ms or item.sightings >= policy.foreign_sightings
        return Outcome.FAIL if long else Outcome.WARN
    if not seen and item.run_ms >= policy.foreign_run_ms:
        return Outcome.FAIL  # it was never switched to because it never left
    watchdog = Limit(warn=policy.migration_per_s, fail=policy.limits[rule.id].fail)
    return judge(seen, ctx.window_s, watchdog if item.name.startswith("migration/") else policy.limits[rule.id])


def _evidence(runner: Runner) -> Evidence:
    path, growth = f"/{runner.key.path}", runner.growth
    if growth.least or not (runner.sightings or growth.run_ns):
        return Evidence(path=path, field="switches", value=f"+{growth.least}")
    if runner.sightings:
        return Evidence(path=path, field="processor", value=", ".join(str(cpu) for cpu in sorted(runner.sightings)))
    return Evidence(path=path, field="run_ns", value=f"+{growth.run_ns}")


def thread_fix(ctx: Context) -> Fix:
    """Threads keep off by themselves once the CPU is out of the domains; what is pinned there must be moved."""
    if any(domain_state(ctx, cpu)[0] is not Outcome.PASS for cpu in ctx.audited):
        return boot_fix(ctx, "keep other threads off: isolate these CPUs at boot")
    return Fix(
        kind=FixKind.RUNTIME,
        text="the CPU is out of the scheduler domains: what runs here was pinned or inherited it; move user threads "
        "with taskset -pc or their unit's CPUAffinity=, find what queues the kernel work",
    )


def check_owners(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.OWNERS."""
    census = ctx.census
    if isinstance(census, ProbeError):
        raise census
    owners: dict[str, str] = {}
    for key in sorted(ctx.own):
        if key in census.statuses:
            cgroup = census.cgroups.get(key.pid, "")
            owners.setdefault(cgroup if len(cgroup) > 1 else f"process {key.pid}", census.statuses[key].name)
    unrelated = ctx.own_rule.source == "affinity" and len(owners) > 1
    names = ", ".join(f"{name} ({where})" for where, name in list(owners.items())[:4])
    yield rule.finding(
        Outcome.WARN if unrelated else Outcome.PASS,
        ctx.audited,
        observed=len(owners),
        limit=1,
        unit="owners",
        detail=f"{names}: name the one that these CPUs belong to with --workload"
        if unrelated
        else names or "no own thread",
    )


THR_FOREIGN = Rule(
    id="THR.FOREIGN",
    title="foreign switches",
    kind=Kind.MEASURED,
    decisive=always,
    why="""Switches to a thread on the CPU (/proc/schedstat) less those to own threads (/proc/PID/task/TID/schedstat):
what is left was someone else, however short. Own threads that may run on several audited CPUs are balanced over all
of them together.""",
    check=check_foreign,
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
