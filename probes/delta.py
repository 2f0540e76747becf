"""The difference of two instants, per CPU: what happened in the window.

A count is None where it can't be known: a row freed and re-created, a CPU that has no column at one end. A counter that
can't fall within one boot (softirqs, LOC and the like) and fell anyway says that the two ends are of different boots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from probes.counters import counter_delta
from probes.cpuidle import CpuIdle
from probes.cpustat import CpuStat, CpuTimes
from probes.host import ProbeError, SourceState
from probes.interrupts import PATH as INTERRUPTS
from probes.interrupts import InterruptKind, InterruptRow, Interrupts
from probes.schedstat import PATH as SCHEDSTAT
from probes.schedstat import SchedStat
from probes.snapshot import Counters
from probes.softirqs import PATH as SOFTIRQS
from probes.softirqs import Softirqs

Source: TypeAlias = Interrupts | Softirqs | SchedStat | ProbeError

SHORTEST_S = 1e-9
"""A window of no length (a clock that stands still, ends in the wrong order) counts as the shortest there is."""
ANOTHER_BOOT = "a counter fell that can't fall within one boot: both ends of the window must be of one boot"
STANDS_STILL = "it stands still: not this kernel's own file"
STILL_S = 0.9
"""Within this time some CPU of any running machine is interrupted: the one that this tool runs on, for one."""
MOST_OF_WALL = 1.5
"""How far the columns of a CPU together may run ahead of the clock: /proc/stat is read after the time was taken."""
LATE_TICKS = 200
"""User and system of a nohz_full CPU lag behind by a second, and may have done so when the window began."""
STEADY = frozenset(
    {
        InterruptKind.TICK,
        InterruptKind.RESCHEDULE,
        InterruptKind.CALL,
        InterruptKind.TLB,
        InterruptKind.IRQ_WORK,
        InterruptKind.NMI,
    }
)
"""Kinds whose rows are printed from boot on, at 0 too."""
RENAMED = {"BLOCK_IOPOLL": "IRQ_POLL"}
"""One softirq: its name before 4.5 and since."""
NOT_READ = ProbeError("sys/devices/system/cpu/cpu*/cpuidle", "not read for this CPU", SourceState.MISSING)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowDelta:
    """Growth of one row of /proc/interrupts."""

    label: str
    text: str
    kind: InterruptKind
    actions: str
    irq: int | None
    counts: Mapping[int, int | None]

    @property
    def name(self) -> str:
        """The devices of a numbered row, the kernel's text of the others."""
        return self.actions or self.text or self.label


@dataclass(frozen=True, kw_only=True, slots=True)
class BusyDelta:
    """How one CPU spent the window. ``busy`` 0…1 without idle, iowait and steal; steal in USER_HZ ticks."""

    busy: float
    steal_ticks: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedDelta:
    """Growth of one CPU's schedstat: switches to a thread, nanoseconds that threads ran (counted when they leave).

    ``wait_ns`` is what the threads that got the CPU had waited for it before.
    """

    switches: int
    run_ns: int
    wait_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleDelta:
    """Growth of one C-state: entries and microseconds, counted when the CPU leaves it."""

    name: str
    latency_us: int
    entries: int
    time_us: int
    disabled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """Everything that was counted between two instants ``window_s`` apart."""

    window_s: float
    """Always more than 0, so that rates exist: see SHORTEST_S."""
    interrupts: tuple[RowDelta, ...] | ProbeError
    softirqs: Mapping[str, Mapping[int, int | None]] | ProbeError
    busy: Mapping[int, BusyDelta] | ProbeError
    sched: Mapping[int, SchedDelta] | ProbeError
    idle: Mapping[int, tuple[IdleDelta, ...] | ProbeError]

    @property
    def another_boot(self) -> bool:
        """Whether the two ends can't be of one boot."""
        sources = (self.interrupts, self.softirqs, self.sched)
        return any(isinstance(source, ProbeError) and source.reason == ANOTHER_BOOT for source in sources)


def diff(before: Counters, after: Counters, cpus: Collection[int], *, ticks_per_s: int = 100) -> Delta:
    """What was counted on these CPUs between two reads; sources that either end lacks stay ProbeErrors."""
    window_s = (after.taken_ns - before.taken_ns) / 1e9
    return Delta(
        window_s=max(window_s, SHORTEST_S),
        interrupts=_still(INTERRUPTS, before.interrupts, after.interrupts, window_s)
        or _diff_interrupts(before.interrupts, after.interrupts, cpus),
        softirqs=_still(SOFTIRQS, before.softirqs, after.softirqs, window_s)
        or _diff_softirqs(before.softirqs, after.softirqs, cpus),
        busy=_diff_busy(before.cpustat, after.cpustat, cpus, window_s * ticks_per_s),
        sched=_still(SCHEDSTAT, before.schedstat, after.schedstat, window_s)
        or _diff_sched(before.schedstat, after.schedstat, cpus),
        idle={cpu: _diff_idle(before.cpuidle.get(cpu, NOT_READ), after.cpuidle.get(cpu, NOT_READ)) for cpu in cpus},
    )


def _still(path: str, before: Source, after: Source, window_s: float) -> ProbeError | None:
    """Counters that nothing moved on any CPU of the machine are a copy mounted over the file, not a quiet machine."""
    if window_s < STILL_S or isinstance(before, ProbeError) or isinstance(after, ProbeError):
        return None
    same = before.fingerprint is not None and before.fingerprint == after.fingerprint
    return ProbeError(path, STANDS_STILL) if same else None


def _diff_interrupts(
    before: Interrupts | ProbeError, after: Interrupts | ProbeError, cpus: Collection[int]
) -> tuple[RowDelta, ...] | ProbeError:
    if isinstance(before, ProbeError):
        return before
    if isinstance(after, ProbeError):
        return after
    # Labels alone are no identity: numbers are recycled, and ppc has two rows called LOC.
    old = {(row.label, row.text): row for row in before.rows}
    new = {(row.label, row.text): row for row in after.rows}
    if any(_fell(old.get(key), row, cpus) for key, row in new.items() if row.irq is None):
        return ProbeError(INTERRUPTS, ANOTHER_BOOT)
    at_one_end = [row for ends in ((old, new), (new, old)) for key, row in ends[0].items() if key not in ends[1]]
    if lost := next((row.label for row in at_one_end if _steady(row)), None):
        return ProbeError(INTERRUPTS, f"row {lost} is there at one end of the window only: lines are lost")
    rows = [_row_delta(old.get(key), row, cpus) for key, row in new.items()]
    return (*rows, *(_vanished(row, cpus) for key, row in old.items() if key not in new))


def _steady(row: InterruptRow) -> bool:
    """Whether the row is there as long as the machine runs; the Xen timer of a CPU comes and goes with it."""
    return row.label.startswith("IPI") or (row.kind in STEADY and not row.text.startswith("xen"))


def _fell(before: InterruptRow | None, after: InterruptRow, cpus: Collection[int]) -> bool:
    """Whether a counter fell that is there at both ends; a CPU may lack one (offline, IPI rows of old arm kernels)."""
    if before is None:
        return False
    both = [cpu for cpu in cpus if cpu in before.counts and cpu in after.counts]
    return any(counter_delta(before.counts[cpu], after.counts[cpu]) is None for cpu in both)


def _row_delta(before: InterruptRow | None, after: InterruptRow, cpus: Collection[int]) -> RowDelta:
    """A number that was given away starts again from 0 on every CPU: where one count fell, none is known."""
    if after.irq is not None and _fell(before, after, cpus):
        return _vanished(after, cpus)
    return _as_delta(after, {cpu: _count(before, after, cpu) for cpu in cpus})


def _count(before: InterruptRow | None, after: InterruptRow, cpu: int) -> int | None:
    end = after.counts.get(cpu)
    if end is None:
        return None
    if before is None:
        # A summary row appears with its first event (SPU, RTR, ERR since 7.1). A numbered one may have been another's.
        return end if after.irq is None or end == 0 else None
    start = before.counts.get(cpu)
    return None if start is None else counter_delta(start, end)


def _vanished(row: InterruptRow, cpus: Collection[int]) -> RowDelta:
    return _as_delta(row, dict.fromkeys(cpus))


def _as_delta(row: InterruptRow, counts: Mapping[int, int | None]) -> RowDelta:
    return RowDelta(label=row.label, text=row.text, kind=row.kind, actions=row.actions, irq=row.irq, counts=counts)


def _diff_softirqs(
    before: Softirqs | ProbeError, after: Softirqs | ProbeError, cpus: Collection[int]
) -> Mapping[str, Mapping[int, int | None]] | ProbeError:
    if isinstance(before, ProbeError):
        return before
    if isinstance(after, ProbeError):
        return after
    found: dict[str, dict[int, int | None]] = {}
    for printed, row in after.rows.items():
        name, start = RENAMED.get(printed, printed), before.rows.get(printed, {})
        found[name] = {
            cpu: counter_delta(start[cpu], row[cpu]) if cpu in row and cpu in start else None for cpu in cpus
        }
        if any(found[name][cpu] is None and cpu in row and cpu in start for cpu in cpus):
            return ProbeError(SOFTIRQS, ANOTHER_BOOT)
    return found


def _diff_busy(
    before: CpuStat | ProbeError, after: CpuStat | ProbeError, cpus: Collection[int], wall_ticks: float
) -> Mapping[int, BusyDelta] | ProbeError:
    if isinstance(before, ProbeError):
        return before
    if isinstance(after, ProbeError):
        return after
    pairs = {cpu: (before.cpus[cpu], end) for cpu, end in after.cpus.items() if cpu in before.cpus}
    wall = _wall_ticks(pairs.values(), wall_ticks)
    found = {cpu: _busy(*pairs[cpu], wall) for cpu in cpus if cpu in pairs}
    return {cpu: busy for cpu, busy in found.items() if busy is not None}


def _wall_ticks(pairs: Iterable[tuple[CpuTimes, CpuTimes]], wall_ticks: float) -> float:
    """The time between the two reads of /proc/stat itself, as the CPU whose columns grew most tells it.

    The other sources are read before it, which takes a while on a loaded machine; a figure far off is not believed.
    """
    most = max((after.total_ticks - before.total_ticks for before, after in pairs), default=0)
    return most if 0.5 * wall_ticks <= most <= MOST_OF_WALL * wall_ticks else wall_ticks


def _busy(before: CpuTimes, after: CpuTimes, wall_ticks: float) -> BusyDelta | None:
    """None where the row stood still, or ran ahead of the clock: /proc/stat is frozen or made up at one end.

    That is no idle CPU and no busy one.
    """
    grown = after.total_ticks - before.total_ticks
    if wall_ticks <= 0 or not 0 < grown <= MOST_OF_WALL * wall_ticks + LATE_TICKS:
        return None
    idle = max(0, after.idle - before.idle) + max(0, (after.iowait or 0) - (before.iowait or 0))
    steal = None if before.steal is None or after.steal is None else max(0, after.steal - before.steal)
    # Against the clock, not the sum of the columns: user and system of a nohz_full CPU may lag behind by a second.
    busy = 1 - (idle + (steal or 0)) / wall_ticks
    return BusyDelta(busy=min(1.0, max(0.0, busy)), steal_ticks=steal)


def _diff_sched(
    before: SchedStat | ProbeError, after: SchedStat | ProbeError, cpus: Collection[int]
) -> Mapping[int, SchedDelta] | ProbeError:
    if isinstance(before, ProbeError):
        return before
    if isinstance(after, ProbeError):
        return after
    found: dict[int, SchedDelta] = {}
    for cpu in cpus:
        start, end = before.cpus.get(cpu), after.cpus.get(cpu)
        if start is None or end is None:
            continue
        switches = counter_delta(start.switches, end.switches)  # unsigned long: 32 bits on 32-bit kernels
        if switches is None or end.run_ns < start.run_ns or end.wait_ns < start.wait_ns:
            return ProbeError(SCHEDSTAT, ANOTHER_BOOT)
        found[cpu] = SchedDelta(
            switches=switches, run_ns=end.run_ns - start.run_ns, wait_ns=end.wait_ns - start.wait_ns
        )
    return found


def _diff_idle(before: CpuIdle | ProbeError, after: CpuIdle | ProbeError) -> tuple[IdleDelta, ...] | ProbeError:
    if isinstance(before, ProbeError):
        return before
    if isinstance(after, ProbeError):
        return after
    changed = ProbeError("sys/devices/system/cpu/cpu*/cpuidle", "the states changed in the window")
    if len(before.states) != len(after.states):
        return changed
    found = []
    for start, state in zip(before.states, after.states, strict=True):
        same = (start.index, start.name) == (state.index, state.name)
        if not same or state.usage < start.usage or state.time_us < start.time_us:
            return changed
        found.append(
            IdleDelta(
                name=state.name,
                latency_us=state.latency_us,
                entries=state.usage - start.usage,
                time_us=state.time_us - start.time_us,
                disabled=state.disabled,
            )
        )
    return tuple(found)
