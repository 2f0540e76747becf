"""Threads of others on one CPU put together by name, with what can be said of how they were there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from auditor.context import Context
from auditor.rules.presence import (
    balance_of,
    busy_s,
    came_or_left,
    confined,
    foreign_runners,
    stayed,
    stuck,
    time_of_others_ms,
)
from auditor.rules.service import is_timer_thread, own_timer_runs
from auditor.switches import Runner
from probes.cpulist import format_cpulist


class How(Enum):
    """What is known of a thread's way to the CPU."""

    CONFINED = "may run on audited CPUs only"
    MOVED = "was confined to audited CPUs at one end of the window only"
    STUCK = "free to run elsewhere, and only ever found here"
    PASSING = "seen here"


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """Runners of one name on one CPU. ``switches`` is exact where they are confined, else 0."""

    name: str
    how: How
    runners: Sequence[Runner]
    switches: int
    run_ms: float
    """At most, where they moved or are stuck; 0.0 where they were only seen passing."""
    sightings: int
    served: tuple[int, int] = (0, 0)
    """At least and at most how many of the switches were work for the own threads."""

    @property
    def foreign(self) -> int:
        """Switches that are certainly others' work."""
        return max(0, self.switches - self.served[1])

    @property
    def held(self) -> bool:
        """Whether they are stuck and never left the CPU."""
        return self.how is How.STUCK and all(map(stayed, self.runners))

    @property
    def here(self) -> bool:
        """Whether they were here for certain, though no switch and no sample shows it."""
        return self.how is How.MOVED or self.held

    def describe(self) -> str:
        """What it did, without its name."""
        ran = f", {self.run_ms:.1f} ms" if self.run_ms else ""
        if self.how is How.MOVED:
            return f"moved here or away within the window{ran and f'{ran} here and elsewhere'}"
        if self.how is How.CONFINED:
            served = f", up to {self.served[1]} of them for own timers" if self.served[1] else ""
            return f"{self.switches} switches{ran}{served}"
        if self.how is How.PASSING:
            return f"seen in {self.sightings} samples"
        allowed = format_cpulist(frozenset().union(*(runner.ends[-1] for runner in self.runners)))
        seen = "held the CPU throughout" if self.held else f"seen in {self.sightings} samples and nowhere else"
        return f"{seen}{ran}, free to run on CPUs {allowed}"


def named_runners(ctx: Context, cpu: int, *, kind: str) -> list[Named]:
    """Foreign runners of one kind (user, bound or unbound kernel threads), put together by name, most first."""
    chosen: dict[tuple[str, How], list[Runner]] = {}
    for runner in foreign_runners(ctx, cpu):
        if _kind(runner) == kind:
            chosen.setdefault((runner.status.name, _how(ctx, runner, cpu)), []).append(runner)
    balance = balance_of(ctx, cpu)
    most = None if balance is None else balance.foreign_most
    found = [_named(ctx, name, how, members, cpu, most) for (name, how), members in chosen.items()]
    if kind == "bound":
        found = _served(ctx, cpu, found)
    return sorted(found, key=lambda item: (-item.run_ms, -item.switches, -item.sightings, item.name))


def _served(ctx: Context, cpu: int, found: list[Named]) -> list[Named]:
    """With the part of the timer threads that was for own sleeps: which of several let them expire is not known."""
    least, most = own_timer_runs(ctx, cpu)
    timers = sum(item.switches for item in found if is_timer_thread(item.name))
    return [
        replace(item, served=(max(0, least - (timers - item.switches)), most)) if is_timer_thread(item.name) else item
        for item in found
    ]


def _kind(runner: Runner) -> str:
    if not runner.status.kernel:
        return "user"
    return "bound" if len(runner.allowed) == 1 else "unbound"


def _how(ctx: Context, runner: Runner, cpu: int) -> How:
    if confined(ctx, runner):
        return How.CONFINED
    if came_or_left(ctx, runner, cpu):
        return How.MOVED
    return How.STUCK if stuck(ctx, runner, cpu) else How.PASSING


def _named(ctx: Context, name: str, how: How, members: list[Runner], cpu: int, most: int | None) -> Named:
    """A switch on the window's edge is theirs if the CPU counted one: their readings enclose those of the CPU."""
    grown = sum(_switches(ctx, runner) for runner in members)
    ran_ms = math.fsum((runner.growth.run_ns or 0) / 1e6 for runner in members)
    return Named(
        name=name,
        how=how,
        runners=members,
        switches=(grown if most is None else min(grown, most)) if how is How.CONFINED else 0,
        run_ms=0.0 if how is How.PASSING else ran_ms,
        sightings=sum(runner.sightings.get(cpu, 0) for runner in members),
    )


def _switches(ctx: Context, runner: Runner) -> int:
    part = ctx.foreign_part(runner)
    return max(0, runner.growth.least - ctx.allowances.get(runner.key, 0)) if part is None else part


def ran_here_ms(ctx: Context, cpu: int, item: Named) -> float:
    """CPU time spent on this CPU, in milliseconds.

    Who moved is charged with no more than what others ran here at all, as far as that is proved; who was found nowhere
    else, with no more than the CPU was busy.
    """
    balance, busy = balance_of(ctx, cpu), busy_s(ctx, cpu)
    if item.how is How.CONFINED:
        return item.run_ms
    if item.how is How.STUCK and busy is not None:
        return min(item.run_ms, 1000 * busy)
    return 0.0 if balance is None else min(item.run_ms, time_of_others_ms(ctx, balance))
