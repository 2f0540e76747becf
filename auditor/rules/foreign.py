"""Foreign switches on the audited CPUs: the decisive count of whoever else ran there, however short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from auditor.context import Context
from auditor.model import BAD, Evidence, Finding, Kind, Outcome
from auditor.policy import Limit
from auditor.rules.base import Rule, always, bound, judge, rate, settle, weight
from auditor.rules.doors import domain_state
from auditor.rules.foreign_time import ran_s
from auditor.rules.origins import DOMAIN, THREADS
from auditor.rules.presence import busy_s, confined, hold_of, holders, slack_s, switches_of, time_of_others_ms
from auditor.rules.service import own_timer_runs
from auditor.rules.thread_fix import thread_fix
from auditor.switches import Balance
from probes.host import ProbeError

WATCHDOG_S = 4.0
"""The soft-lockup watchdog wakes migration/N this often (kernel/watchdog.c, threshold 10 s)."""


def check_foreign(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.FOREIGN. One fix for all CPUs: it looks at all of them."""
    found = list(_groups(ctx, rule))
    fix = thread_fix(ctx) if any(finding.outcome in BAD for finding in found) else None
    yield from (replace(finding, fix=fix) if finding.outcome in BAD else finding for finding in found)


def _groups(ctx: Context, rule: Rule) -> Iterator[Finding]:
    if isinstance(ctx.balances, ProbeError):
        raise ctx.balances
    for balance in ctx.balances:
        occupied = _occupied(ctx, rule, balance)
        if occupied:
            yield occupied
        if not occupied and (text := was_there(ctx, balance)):
            text = f"{_describe(balance)}, {text}"
            yield rule.finding(Outcome.UNKNOWN, balance.cpus, detail=text, origin=THREADS)
        elif not occupied or occupied.cpus != balance.cpus:
            yield _counted(ctx, rule, balance)
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
    control = ctx.control_rate(lambda cpu: switches_of(ctx, cpu))
    outcome = settle(outcome, least, control, limit, shut=shut)
    ran_ms = time_of_others_ms(ctx, balance)
    long = outcome is not Outcome.FAIL and ran_ms >= ctx.policy.foreign_run_ms
    outcome = Outcome.FAIL if long else outcome
    unnamed = _unnamed(ctx, balance, least)
    return rule.finding(
        outcome,
        balance.cpus,
        observed=ran_ms if long else rate(least, ctx.window_s),
        limit=ctx.policy.foreign_run_ms if long else bound(outcome, limit),
        unit="ms" if long else "/s",
        detail=_describe(balance, watchdog, timers_most)
        + (f"; {ran_ms / 1000:.2f} s of CPU time by others" if long else ""),
        evidence=[
            Evidence(path="/proc/schedstat", field=f"cpu{cpu} field 9", value=f"+{switches_of(ctx, cpu)}")
            for cpu in balance.cpus
        ],
        origin=came_by(ctx, balance.cpus, placed=unnamed > 0),
        per_second=rate(unnamed, ctx.window_s),
        cost_us_per_s=weight("THR", rate(unnamed, ctx.window_s)),
    )


def came_by(ctx: Context, cpus: Iterable[int], *, placed: bool) -> str:
    """Threads that may run elsewhere were placed here through the open door; who is pinned here needs none."""
    return DOMAIN if placed and all(domain_state(ctx, cpu)[0] is Outcome.FAIL for cpu in cpus) else THREADS


def _undecided(least: int, most: int, window_s: float, limit: Limit) -> bool:
    """Whether the upper end would fail and the lower end does not: at 0 by its plain rate, above by its lower bound."""
    return judge(most, window_s, limit) is Outcome.FAIL or (not least and most / window_s > limit.fail)


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
    """CPUs busy without a single switch: one thread held each throughout, and it was none of ours."""
    hold = hold_of(ctx, balance)
    if hold is None:
        return None
    names = sorted({runner.status.name for runner in hold.suspects})
    proved = bool(names) and None not in hold.cpus.values() and hold.more_s - hold.moved_s > slack_s(ctx)
    named = any(holders(ctx, cpu) for cpu in hold.cpus)
    return rule.finding(
        Outcome.FAIL if proved else Outcome.UNKNOWN,
        hold.cpus,
        detail=_describe_held(hold.cpus, hold.more_s, names),
        origin=came_by(ctx, hold.cpus, placed=not any(confined(ctx, runner) for runner in hold.suspects)),
        # Who is named has the time counted in THR.USER.
        cost_us_per_s=1e6 * hold.more_s / ctx.window_s if proved and not named else 0.0,
    )


def _describe_held(held: Mapping[int, float | None], more_s: float, suspects: Sequence[str]) -> str:
    if None in held.values():
        text = "no switch, and /proc/stat does not tell whether the CPU was idle or one thread held it"
    else:
        text = f"busy {more_s:.1f} s more than own threads here ran, without a switch: another thread held the CPU"
    return text + (f"; it may be {', '.join(suspects[:4])}" if suspects else "")


def was_there(ctx: Context, balance: Balance) -> str:
    """A thread that held the CPU when the window began is not switched to. Where switches are few, its time tells.

    Gives what tells of it, "" where nothing does.
    """
    busy = [busy_s(ctx, cpu) for cpu in balance.cpus]
    more_s = sum(ctx.window_s if seconds is None else seconds for seconds in busy)
    more_s -= ran_s(ctx.own_runners(balance.cpus))
    if balance.foreign_least or balance.total > ctx.window_s or more_s <= slack_s(ctx) * len(balance.cpus):
        return ""
    if None in busy:
        return "and /proc/stat does not tell whether another thread was there at the start"
    return f"yet busy {more_s:.1f} s more than own threads ran: another was there at the start"


THR_FOREIGN = Rule(
    id="THR.FOREIGN",
    title="foreign switches",
    kind=Kind.MEASURED,
    decisive=always,
    why="""Switches to a thread on the CPU (/proc/schedstat) less those to own threads (/proc/PID/task/TID/schedstat):
what is left was someone else, however short. Few switches may be long: CPU time of others fails as well. Own
threads that may run on several audited CPUs are balanced over all of them together.""",
    sources=("/proc/schedstat", "/proc/*/task/*/schedstat", "/proc/*/task/*/stat", "/proc/stat"),
    fails="{fail}; or from {foreign_run_ms:g} ms of CPU time of others on",
    cure="isolate the CPUs (isolcpus=domain, a cpuset partition); move what is pinned there by taskset or AllowedCPUs=",
    check=check_foreign,
)
