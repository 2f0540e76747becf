"""Foreign switches on the audited CPUs: the decisive count of whoever else ran there, however short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Limit
from auditor.rules.base import Rule, always, bound, judge, rate, settle, weight
from auditor.rules.doors import domain_state
from auditor.rules.foreign_time import GRAIN_S, UNEXPLAINED_S, others_s, ran_s
from auditor.rules.service import own_timer_runs
from auditor.switches import Balance, Runner
from probes.host import ProbeError

WATCHDOG_S = 4.0
"""The soft-lockup watchdog wakes migration/N this often (kernel/watchdog.c, threshold 10 s)."""


def foreign_runners(ctx: Context, cpu: int) -> list[Runner]:
    """Threads of others that ran here: confined to audited CPUs and grown, seen here in a sample, or moved in or out.

    Where no foreign switch can have happened on the CPU, only those are left that were there without one.
    """
    balance = balance_of(ctx, cpu)
    quiet = balance is not None and balance.foreign_most == 0
    idle = (_busy_s(ctx, cpu) or 0) <= GRAIN_S
    return [
        runner
        for runner in ctx.runners
        if runner.key not in ctx.own
        and not follows_own(ctx, runner)
        and (
            (cpu in runner.allowed and confined(ctx, runner))
            or cpu in runner.sightings
            or came_or_left(ctx, runner, cpu)
        )
        and (not quiet or _stayed(runner) or (not idle and came_or_left(ctx, runner, cpu)))
    ]


def follows_own(ctx: Context, runner: Runner) -> bool:
    """Whether it is the thread of an own interrupt, and ran no more often than that fired."""
    return runner.key in ctx.allowances and ctx.foreign_part(runner) == 0


def came_or_left(ctx: Context, runner: Runner, cpu: int) -> bool:
    """Whether a user thread was confined to audited CPUs at one end of the window only, this one among them."""
    confined_to = [bool(end) and end <= ctx.targets.audited for end in runner.ends]
    return (
        not runner.status.kernel
        and confined_to in ([True, False], [False, True])
        and cpu in (runner.ends[confined_to.index(True)])
    )


def time_of_others_ms(ctx: Context, balance: Balance) -> float:
    """CPU time of others on these CPUs, at least, in milliseconds."""
    here = {runner.key: runner for cpu in balance.cpus for runner in foreign_runners(ctx, cpu)}
    return 1000 * others_s(ctx, balance, [runner for runner in here.values() if not runner.status.kernel])


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
    watchdog, (timers_least, timers_most) = _watchdog(ctx, balance), _own_timers(ctx, balance)
    least = max(0, balance.foreign_least - watchdog - timers_most)
    most = max(0, balance.foreign_most - watchdog - timers_least)
    outcome = judge(least, ctx.window_s, limit)
    if outcome is not Outcome.FAIL and _undecided(least, most, ctx.window_s, limit):
        outcome = Outcome.UNKNOWN
    shut = all(domain_state(ctx, cpu)[0] is Outcome.PASS for cpu in balance.cpus)
    control = ctx.control_rate(lambda cpu: _switches(ctx, cpu))
    outcome = settle(outcome, least, control, limit, shut=shut)
    ran_ms = time_of_others_ms(ctx, balance)
    long = outcome is not Outcome.FAIL and ran_ms >= ctx.policy.foreign_run_ms
    outcome = Outcome.FAIL if long else outcome
    return rule.finding(
        outcome,
        balance.cpus,
        observed=ran_ms if long else rate(least, ctx.window_s),
        limit=ctx.policy.foreign_run_ms if long else bound(outcome, limit),
        unit="ms" if long else "/s",
        detail=_describe(balance, watchdog, timers_most)
        + (f"; {ran_ms / 1000:.2f} s of CPU time by others" if long else ""),
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


def _describe(balance: Balance, watchdog: int = 0, own_timers: int = 0) -> str:
    own = (
        str(balance.own_least)
        if balance.own_least == balance.own_most
        else f"{balance.own_least} to {balance.own_most or '?'}"
    )
    if balance.followed:
        own += f" ({balance.followed} of them threads of own interrupts)"
    foreign = str(balance.foreign_least)
    if balance.foreign_least != balance.foreign_most:
        foreign += f" to {balance.foreign_most}"
    excused = [f"{watchdog} of them the soft-lockup watchdog"] * bool(watchdog)
    excused += [f"up to {own_timers} of them for own timers"] * bool(own_timers)
    return ", ".join([f"{balance.total} switches, {own} own, {foreign} foreign", *excused])


def _watchdog(ctx: Context, balance: Balance) -> int:
    """Switches to migration/N that the soft-lockup watchdog explains: one in four seconds and CPU, if so many were.

    Where a thread came or left it may as well have been pushed by migration/N: nothing is excused then.
    """
    cpus = set(balance.cpus)
    pushed = any(runner.moved & cpus for runner in ctx.runners)
    if pushed or time_of_others_ms(ctx, balance) >= ctx.policy.foreign_run_ms:
        return 0
    allowed = int(ctx.window_s / WATCHDOG_S) + 1
    grown = 0
    for runner in ctx.runners:
        if runner.status.kernel and runner.status.name.startswith("migration/") and runner.allowed <= cpus:
            grown += min(allowed, runner.growth.least)
    return grown


def _own_timers(ctx: Context, balance: Balance) -> tuple[int, int]:
    """At least and at most how many of the foreign switches let the own threads' sleeps expire (PREEMPT_RT)."""
    runs = [own_timer_runs(ctx, cpu) for cpu in balance.cpus]
    return sum(least for least, _ in runs), sum(most for _, most in runs)


def unnamed_switches(ctx: Context, balance: Balance) -> int:
    """Foreign switches that are certain, and that no thread accounts for."""
    return _unnamed(ctx, balance, balance.foreign_least)


def _unnamed(ctx: Context, balance: Balance, least: int) -> int:
    """Foreign switches that no thread confined to these CPUs accounts for."""
    named = sum(
        max(0, runner.growth.least - ctx.allowances.get(runner.key, 0))
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
    moved_s = ran_s([runner for runner in here if not _stayed(runner) and runner.key in ctx.own])
    more_s = sum(ctx.window_s if busy_s is None else busy_s for busy_s in held.values()) - ran_s(stayed)
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
    more_s = sum(ctx.window_s if busy_s is None else busy_s for busy_s in busy) - ran_s(own)
    if balance.foreign_least or balance.total > ctx.window_s or more_s <= slack_s:
        return None
    if None in busy:
        held = "and /proc/stat does not tell whether another thread was there at the start"
    else:
        held = f"yet busy {more_s:.1f} s more than own threads ran: another was there at the start"
    text = f"{_describe(balance)}, {held}"
    return rule.finding(Outcome.UNKNOWN, balance.cpus, detail=text, origin="threads")


def _busy_s(ctx: Context, cpu: int) -> float | None:
    busy = ctx.busy(cpu)
    return None if busy is None else busy.busy * ctx.window_s


def thread_fix(ctx: Context) -> Fix:
    """Threads keep off by themselves once the CPU is out of the domains; what is pinned there must be moved."""
    if any(domain_state(ctx, cpu)[0] is not Outcome.PASS for cpu in ctx.audited):
        return boot_fix(ctx, "keep other threads off: isolate these CPUs at boot")
    return Fix(
        kind=FixKind.RUNTIME,
        text="the CPU is out of the scheduler domains: what runs here was pinned or inherited it; move user threads "
        "with taskset -pc or their unit's CPUAffinity=, find what queues the kernel work",
    )


THR_FOREIGN = Rule(
    id="THR.FOREIGN",
    title="foreign switches",
    kind=Kind.MEASURED,
    decisive=always,
    why="""Switches to a thread on the CPU (/proc/schedstat) less those to own threads (/proc/PID/task/TID/schedstat):
what is left was someone else, however short. Few switches may be long: 10 ms of CPU time of others fail as well. Own
threads that may run on several audited CPUs are balanced over all of them together.""",
    check=check_foreign,
)
