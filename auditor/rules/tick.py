"""The tick: whether it stops while the workload runs (kernel/time/tick-sched.c)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditor.bootline import boot_fix, has_nohz_full
from auditor.context import Context, total
from auditor.model import BAD, Evidence, Finding, Fix, FixKind, Kind, Outcome, Regime
from auditor.policy import Limit, Thresholds
from auditor.rules.base import Rule, bound, judge, rate, weight
from auditor.rules.fair_server import triples
from auditor.rules.keepers import Keeper, because, in_nohz_full, keepers, keepers_fix, origin
from auditor.rules.multi import compete
from probes.host import ProbeError, SourceState
from probes.interrupts import InterruptKind

JUDGED_BUSY = 0.10
"""Below, the CPU is mostly idle, and an idle CPU stops its tick without nohz_full: a low count proves nothing."""
HZ_CHOICES = (100, 250, 300, 1000)


def claimed(ctx: Context, cpu: int) -> bool:
    """Whether the tick is decisive here: nohz_full is in force for this CPU, or the policy says busy-poll."""
    return ctx.policy.busy_poll or in_nohz_full(ctx, cpu)


def _nohz(ctx: Context) -> list[frozenset[int] | ProbeError]:
    """nohz_full at both ends of the window."""
    return [end.config.isolation.nohz_full for end in (ctx.observation.before, ctx.observation.after)]


def decisive(ctx: Context, cpu: int) -> bool:
    """Claimed, or unknown whether so, and judgeable: a CPU mostly idle says nothing, a sleeper's timers may hide it."""
    unread = any(isinstance(nohz, ProbeError) and nohz.state is not SourceState.MISSING for nohz in _nohz(ctx))
    judgeable = ctx.policy.busy_poll or ctx.regime(cpu) in (Regime.SPINNER, Regime.UNKNOWN)
    return judgeable and (unread or claimed(ctx, cpu))


def own_ticks(ctx: Context, cpu: int) -> tuple[int, int]:
    """At least and at most how many local timer interrupts were own timers, not the tick.

    The tick runs only while the CPU is busy, at most HZ times a second (1000 where HZ is unknown).
    """
    count, busy = total(ctx.rows(InterruptKind.TICK), cpu) or 0, ctx.busy(cpu)
    hz = ctx.observation.facts.kernel.hz or max(HZ_CHOICES)
    ticks = count if busy is None else min(count, math.ceil(1.1 * hz * busy.busy * ctx.window_s))
    most = min(count, ctx.wakeups(cpu)[1])
    return min(most, count - ticks), most


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """TICK.LOC."""
    rows = ctx.rows(InterruptKind.TICK)
    if not rows:
        raise ProbeError("proc/interrupts", "no row of the local timer")
    for cpu in ctx.audited:
        busy, count = ctx.busy(cpu), total(rows, cpu)
        if count is None or busy is None:
            missing = "/proc/interrupts" if count is None else "/proc/stat"
            yield rule.finding(
                Outcome.UNKNOWN, [cpu], detail=f"{missing} does not tell of this CPU at both ends of the window"
            )
        elif busy.busy < JUDGED_BUSY:
            yield rule.finding(
                Outcome.NOT_EXERCISED if ctx.policy.busy_poll else Outcome.NOT_APPLICABLE,
                [cpu],
                detail=f"the CPU was {busy.busy:.1%} busy: an idle CPU stops its tick on any kernel; "
                "--work spin judges it",
                evidence=[_evidence(ctx, cpu, count)],
            )
        else:
            yield _judged(ctx, rule, cpu, _ticks(ctx, cpu, count, busy.busy * ctx.window_s))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticks:
    """Local timer interrupts of one CPU: all, those of the fair server, and the interval of what is the tick's."""

    raw: int
    server: int
    own: int
    wakeups: int
    known_timers: bool
    least: int
    most: int
    busy_s: float


def _ticks(ctx: Context, cpu: int, raw: int, busy_s: float) -> Ticks:
    """All wake-ups may have been timers; only a workload whose timers are known proves that they were."""
    server = triples(ctx, cpu)
    wake_least, wake_most = ctx.wakeups(cpu)
    remote = sum(total(ctx.rows(kind), cpu) or 0 for kind in (InterruptKind.RESCHEDULE, InterruptKind.CALL))
    known = ctx.own_rule.work_timer_hz is not None
    local = min(max(0, wake_least - remote), _known_timers(ctx, cpu))
    return Ticks(
        raw=raw,
        server=server,
        own=min(raw, wake_most),
        wakeups=wake_most,
        known_timers=known,
        least=max(0, raw - server - wake_most),
        most=max(0, raw - server - local),
        busy_s=busy_s,
    )


def _known_timers(ctx: Context, cpu: int) -> int:
    """How many timers a workload of ours can have set off here; 0 where nobody knows. Its other wake-ups are none."""
    return len(ctx.own_runners([cpu])) * math.ceil((ctx.own_rule.work_timer_hz or 0) * ctx.window_s)


def _outcome(ctx: Context, cpu: int, ticks: Ticks, limit: Limit) -> Outcome:
    least, most = (judge(count, ticks.busy_s, limit) for count in (ticks.least, ticks.most))
    if most is Outcome.PASS:
        return most
    own_doing = compete(ctx, cpu) and not ctx.policy.busy_poll
    worst = Outcome.FAIL if claimed(ctx, cpu) and not own_doing else Outcome.WARN
    if least is Outcome.FAIL or (_hz_of(ctx, ticks.most / ticks.busy_s) and not _may_be_timers(ticks)):
        return worst
    return Outcome.WARN if least is Outcome.WARN else Outcome.UNKNOWN


def _may_be_timers(ticks: Ticks) -> bool:
    """Whether own timers explain a rate near HZ as well as the tick does: about as many wake-ups as interrupts."""
    return not ticks.known_timers and 0.9 * ticks.raw <= ticks.wakeups <= 1.1 * ticks.raw


def _judged(ctx: Context, rule: Rule, cpu: int, ticks: Ticks) -> Finding:
    limit = _limit(ctx.policy.limits[rule.id], ticks.own / ticks.busy_s)
    outcome = _outcome(ctx, cpu, ticks, limit)
    net = ticks.most if outcome is Outcome.PASS or not ticks.least else ticks.least
    credited = [f"up to {ticks.own} own timers"] * bool(ticks.own) + [f"{ticks.server} of the fair server"] * bool(
        ticks.server
    )
    less = f", less {' and '.join(credited)}" if credited else ""
    bad = outcome in BAD
    found = keepers(ctx, cpu, rate(net, ticks.busy_s)) if bad else ()
    meaning = _meaning(ctx, cpu, net / ticks.busy_s, found) if bad else ""
    if outcome is Outcome.UNKNOWN:
        meaning = "; own wake-ups may explain them all: whether the tick runs as well can't be told"
    return rule.finding(
        outcome,
        [cpu],
        observed=None if outcome is Outcome.UNKNOWN else rate(net, ticks.busy_s),
        limit=bound(outcome, limit),
        unit="/busy s",
        detail=f"{ticks.raw} ticks in {ticks.busy_s:.1f} busy seconds{less}{meaning}",
        evidence=[_evidence(ctx, cpu, ticks.raw)],
        fix=_fix(ctx, cpu, found) if bad else None,
        origin=origin(found),
        per_second=rate(net, ctx.window_s) if bad else 0,
        cost_us_per_s=weight("TICK", rate(net, ctx.window_s)) if bad else 0,
    )


def _evidence(ctx: Context, cpu: int, count: int) -> Evidence:
    label = ctx.rows(InterruptKind.TICK)[0].label
    return Evidence(path="/proc/interrupts", field=f"{label} CPU{cpu}", value=f"+{count}")


def _limit(limit: Limit, own_per_s: float) -> Limit:
    """A benchmark's own timers are allowed to be miscounted by one in a hundred."""
    allowance = own_per_s / 100
    return Limit(warn=max(limit.warn, allowance), fail=max(limit.fail, allowance + limit.fail - limit.warn))


def _hz_of(ctx: Context, per_busy_s: float) -> int | None:
    """The HZ that a rate fits within a tenth."""
    known = ctx.observation.facts.kernel.hz
    return next((hz for hz in ([known] if known else HZ_CHOICES) if abs(per_busy_s - hz) <= hz / 10), None)


def _meaning(ctx: Context, cpu: int, per_busy_s: float, found: Sequence[Keeper]) -> str:
    hz = _hz_of(ctx, per_busy_s)
    periodic = f": the periodic tick at {hz} Hz" if hz else ""
    if not in_nohz_full(ctx, cpu):
        return periodic + "; nohz_full does not cover this CPU"
    return periodic + f"; nohz_full covers CPU {cpu}, yet the tick runs{because(found)}"


def _fix(ctx: Context, cpu: int, found: Sequence[Keeper]) -> Fix:
    nohz = ctx.observation.after.config.isolation.nohz_full
    if not has_nohz_full(ctx):
        text = "this kernel has no CONFIG_NO_HZ_FULL: only another one can stop the tick while a thread runs"
        return Fix(kind=FixKind.BOOT, text=text, reboot=True)
    if isinstance(nohz, ProbeError) or cpu not in nohz:
        return boot_fix(ctx, "stop the tick while one thread runs")
    return keepers_fix(ctx, found)


TICK_LOC = Rule(
    id="TICK.LOC",
    title="timer tick",
    kind=Kind.MEASURED,
    decisive=decisive,
    why="""Local timer interrupts per busy second, less those of the own threads' timers. nohz_full stops the tick while
one thread runs; a configured nohz_full does not prove that it does. Judged from 10 % busy on; decisive where nohz_full
is in force.""",
    sources=("/proc/interrupts", "/proc/stat", "/sys/devices/system/cpu/nohz_full", "/proc/*/task/*/schedstat"),
    decides="where nohz_full is in force or the policy says busy-poll, and the CPU is busy enough to judge",
    fails="{fail}, where nohz_full is in force or the policy says busy-poll",
    cure="nohz_full= at boot; where it is in force, remove what keeps the tick (QUOTA-TICK, TICK.POSIX)",
    thresholds=lambda policy: Thresholds.of(policy.limits["TICK.LOC"], "/busy s"),
    check=check,
)
