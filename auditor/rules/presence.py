"""Which threads of others were on an audited CPU: what the rules about them, and their fix, have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from auditor.context import Context
from auditor.rules.foreign_time import GRAIN_S, UNEXPLAINED_S, others_s, ran_s
from auditor.switches import Balance, Runner
from probes.host import ProbeError


def foreign_runners(ctx: Context, cpu: int) -> list[Runner]:
    """Threads of others that ran here.

    They are confined to audited CPUs and grew, were seen here in a sample, moved in or out, or are the only ones that
    can have held the CPU throughout. Where no foreign switch can have happened on the CPU, only those are left that
    were there without one.
    """
    balance = balance_of(ctx, cpu)
    quiet = balance is not None and balance.foreign_most == 0
    idle = (busy_s(ctx, cpu) or 0) <= GRAIN_S
    holding = {runner.key for runner in holders(ctx, cpu)}
    return [
        runner
        for runner in ctx.runners
        if runner.key not in ctx.own
        and not follows_own(ctx, runner)
        and (
            (cpu in runner.allowed and confined(ctx, runner))
            or cpu in runner.sightings
            or came_or_left(ctx, runner, cpu)
            or runner.key in holding
        )
        and (not quiet or stayed(runner) or (not idle and came_or_left(ctx, runner, cpu)))
    ]


def users_on(ctx: Context, cpus: Iterable[int]) -> list[Runner]:
    """User threads of others that ran on some of these CPUs, each once."""
    found = {runner.key: runner for cpu in sorted(cpus) for runner in foreign_runners(ctx, cpu)}
    return [runner for runner in found.values() if not runner.status.kernel]


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


def stuck(ctx: Context, runner: Runner, cpu: int) -> bool:
    """Whether a thread that may run elsewhere was only ever found here: often enough, or holding the CPU throughout."""
    if confined(ctx, runner):
        return False
    seen = runner.sightings.get(cpu, 0)
    often = seen >= ctx.policy.foreign_sightings and set(runner.sightings) == {cpu}
    return often or runner.key in {holder.key for holder in holders(ctx, cpu)}


def stayed(runner: Runner) -> bool:
    """Whether it ran, and never left the CPU it was on."""
    return runner.growth.most == 0 and (runner.growth.run_ns or 0) > 0


def balance_of(ctx: Context, cpu: int) -> Balance | None:
    """The switches of the group this CPU belongs to."""
    if isinstance(ctx.balances, ProbeError):
        return None
    return next((balance for balance in ctx.balances if cpu in balance.cpus), None)


def switches_of(ctx: Context, cpu: int) -> int | None:
    """Switches to any thread on this CPU, None where they are not counted."""
    sched = ctx.sched(cpu)
    return None if sched is None else sched.switches


def busy_s(ctx: Context, cpu: int) -> float | None:
    """Seconds of the window in which the CPU was busy, None where /proc/stat does not tell."""
    busy = ctx.busy(cpu)
    return None if busy is None else busy.busy * ctx.window_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """CPUs that were busy without a switch, by more than own threads explain: one thread held each throughout."""

    cpus: Mapping[int, float | None]
    """Seconds that each was busy."""
    more_s: float
    """What own threads that never left leave unexplained, over all of them."""
    moved_s: float
    """What own threads that were switched to may have run here."""
    suspects: tuple[Runner, ...]
    """Threads of others that never left some CPU, and may run here."""


def hold_of(ctx: Context, balance: Balance) -> Hold | None:
    """Whether others held CPUs of this group.

    What none of ours did, someone else's did. An own thread that was switched to elsewhere may have begun here: it
    excuses as far as it ran, but proves nothing.
    """
    most_s = slack_s(ctx)
    busy = {cpu: busy_s(ctx, cpu) for cpu in balance.cpus if not switches_of(ctx, cpu)}
    held = {cpu: seconds for cpu, seconds in busy.items() if seconds is None or seconds > most_s}
    if not held:
        return None
    here = [runner for runner in ctx.runners if runner.allowed & held.keys()]
    staying = [runner for runner in here if stayed(runner) and runner.key in ctx.own]
    moved = [runner for runner in here if not stayed(runner) and runner.key in ctx.own]
    more_s = sum(ctx.window_s if seconds is None else seconds for seconds in held.values()) - ran_s(staying)
    if more_s <= most_s * len(held) and len(held) <= len(staying):
        return None
    return Hold(
        cpus=held,
        more_s=more_s,
        moved_s=ran_s(moved),
        suspects=tuple(runner for runner in here if runner.key not in ctx.own and stayed(runner)),
    )


def holders(ctx: Context, cpu: int) -> tuple[Runner, ...]:
    """Threads of others that held this CPU throughout: nobody else can have.

    Who holds a CPU is never switched to, so no sample looks where it is. But it ran as long as the CPU was busy. There
    are as many such threads as CPUs held alike, or it stays open which one it was. Own threads must be out of question,
    and all threads be known.
    """
    mine = _fitting(ctx, cpu)
    if not mine or not ctx.observation.everyone_seen:
        return ()
    keys = {runner.key for runner in mine}
    alike = [other for other in ctx.audited if {runner.key for runner in _fitting(ctx, other)} == keys]
    return mine if len(mine) <= len(alike) else ()


def _fitting(ctx: Context, cpu: int) -> tuple[Runner, ...]:
    """Threads of others that never left a CPU and ran as long as this one was busy, if it was held by others."""
    balance = balance_of(ctx, cpu)
    hold = hold_of(ctx, balance) if balance is not None and switches_of(ctx, cpu) == 0 else None
    seconds = hold.cpus.get(cpu) if hold else None
    if hold is None or seconds is None or _maybe_own(ctx, cpu, seconds):
        return ()
    near = [runner for runner in hold.suspects if cpu in runner.allowed]
    return tuple(runner for runner in near if abs(ran_s([runner]) - seconds) <= slack_s(ctx))


def _maybe_own(ctx: Context, cpu: int, held_s: float) -> bool:
    """Whether an own thread ran long enough to be the one."""
    most_s = held_s - slack_s(ctx)
    return any(runner.growth.run_ns is None or ran_s([runner]) >= most_s for runner in ctx.own_runners([cpu]))


def slack_s(ctx: Context) -> float:
    """How far the run time of threads that never left may lag behind."""
    return min(UNEXPLAINED_S, ctx.window_s / 2)
