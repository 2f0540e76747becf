"""Differences of two instants: wraps, resets, hotplug, recycled interrupts, other boots, windows of no length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.cpuidle import CpuIdle, IdleState
from probes.cpustat import CpuStat, CpuTimes
from probes.delta import ANOTHER_BOOT, SHORTEST_S, STANDS_STILL, BusyDelta, Delta, IdleDelta, RowDelta, SchedDelta, diff
from probes.host import ProbeError, SourceState
from probes.interrupts import Interrupts, parse_interrupts
from probes.schedstat import CpuSched, SchedStat, parse_schedstat
from probes.snapshot import Counters
from probes.softirqs import Softirqs, parse_softirqs

ABSENT = ProbeError("proc/x", "no such file", SourceState.MISSING)
SECOND = 1_000_000_000
WRAP = 1 << 32


def counters(
    taken_ns: int = 0,
    *,
    interrupts: Interrupts | ProbeError = ABSENT,
    softirqs: Softirqs | ProbeError = ABSENT,
    cpustat: CpuStat | ProbeError = ABSENT,
    schedstat: SchedStat | ProbeError = ABSENT,
    cpuidle: Mapping[int, CpuIdle | ProbeError] | None = None,
) -> Counters:
    return Counters(
        taken_ns=taken_ns,
        interrupts=interrupts,
        softirqs=softirqs,
        cpustat=cpustat,
        schedstat=schedstat,
        cpuidle=cpuidle or {},
    )


def table(*rows: str, cpus: str = "0 1") -> Interrupts:
    """/proc/interrupts of rows ``label: counts text``."""
    header = " ".join(f"CPU{cpu}" for cpu in cpus.split())
    return parse_interrupts("\n".join([f"    {header}", *rows]) + "\n")


def rows(before: Interrupts | ProbeError, after: Interrupts | ProbeError) -> tuple[RowDelta, ...] | ProbeError:
    return diff(counters(interrupts=before), counters(SECOND, interrupts=after), [0, 1]).interrupts


def growth(before: Interrupts, after: Interrupts) -> dict[str, dict[int, int | None]]:
    found = rows(before, after)
    assert not isinstance(found, ProbeError), found
    return {f"{row.label} {row.text}".strip(): dict(row.counts) for row in found}


def test_growth_of_rows() -> None:
    found = rows(
        table("LOC: 10 20 Local timer interrupts", "24: 1 2 PCI-MSI 5-edge nvme0q1"),
        table("LOC: 15 20 Local timer interrupts", "24: 1 9 PCI-MSI 5-edge nvme0q1"),
    )
    assert not isinstance(found, ProbeError)
    assert [(row.label, row.name, row.irq, dict(row.counts)) for row in found] == [
        ("LOC", "Local timer interrupts", None, {0: 5, 1: 0}),
        ("24", "nvme0q1", 24, {0: 0, 1: 7}),
    ]


def test_a_row_without_text_is_called_by_its_label() -> None:
    found = rows(table("EXT: 1 2"), table("EXT: 1 3"))
    assert not isinstance(found, ProbeError)
    assert found[0].name == "EXT"


def test_a_counter_of_32_bits_wraps() -> None:
    assert growth(table(f"LOC: {WRAP - 5} 0 x"), table("LOC: 5 0 x")) == {"LOC x": {0: 10, 1: 0}}
    assert growth(table(f"24: {WRAP - 5} 0 x"), table("24: 5 0 x")) == {"24 x": {0: 10, 1: 0}}


@pytest.mark.parametrize("label", ["LOC", "RES", "CAL", "NMI", "IPI0"])
def test_a_named_counter_that_fell_says_another_boot(label: str) -> None:
    found = diff(
        counters(interrupts=table(f"{label}: 1000 1 x")), counters(SECOND, interrupts=table(f"{label}: 10 1 x")), [0, 1]
    )
    assert isinstance(found.interrupts, ProbeError)
    assert found.interrupts.reason == ANOTHER_BOOT
    assert found.another_boot


def test_a_fall_on_a_cpu_that_is_not_counted_is_nobodys() -> None:
    before, after = counters(interrupts=table("LOC: 9 9 x")), counters(1, interrupts=table("LOC: 9 1 x"))
    assert not diff(before, after, [0]).another_boot
    assert diff(before, after, [1]).another_boot


def test_a_numbered_row_that_was_freed_and_made_again_is_unknown_alone() -> None:
    found = growth(table("LOC: 1 1 x", "24: 500 9 a"), table("LOC: 2 2 x", "24: 3 9 a"))
    assert found == {"LOC x": {0: 1, 1: 1}, "24 a": {0: None, 1: None}}  # what CPU 1 had before it was freed is lost


def test_a_number_given_to_another_device_is_unknown_at_both_names() -> None:
    found = growth(table("24: 5 5 nic"), table("24: 7 0 disk"))
    assert found == {"24 disk": {0: None, 1: 0}, "24 nic": {0: None, 1: None}}


def test_a_summary_row_appears_with_its_first_event_and_one_that_vanished_is_unknown() -> None:
    found = growth(table("LOC: 1 1 x", "THR: 4 4 y"), table("LOC: 1 1 x", "SPU: 0 3 z"))
    assert found == {"LOC x": {0: 0, 1: 0}, "SPU z": {0: 0, 1: 3}, "THR y": {0: None, 1: None}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (table("LOC: 5 5 x"), table("LOC: 6 x", cpus="0"), {0: 1, 1: None}),  # went offline
        (table("LOC: 5 x", cpus="0"), table("LOC: 6 9 x"), {0: 1, 1: None}),  # came online
        (table("LOC: 5 x", cpus="0"), table("LOC: 9 x", cpus="1"), {0: None, 1: None}),
    ],
)
def test_hotplug_in_the_window_is_no_other_boot(
    before: Interrupts, after: Interrupts, expected: dict[int, int | None]
) -> None:
    assert growth(before, after) == {"LOC x": expected}


def test_an_ipi_row_of_old_arm_kernels_may_lack_an_online_cpu() -> None:
    """Its columns are the present CPUs: behind a gap in the online ones nothing is sure."""
    before = table("IPI0: 1 2 3 Rescheduling interrupts", "24: 5 5 nic", cpus="0 2")
    after = table("IPI0: 4 2 3 Rescheduling interrupts", "24: 6 9 nic", cpus="0 2")
    found = diff(counters(interrupts=before), counters(SECOND, interrupts=after), [0, 2])
    assert not isinstance(found.interrupts, ProbeError)
    assert [dict(row.counts) for row in found.interrupts] == [{0: 3, 2: None}, {0: 1, 2: 4}]
    assert not found.another_boot


def test_rows_of_one_label_are_told_apart_by_their_text() -> None:
    assert growth(table("LOC: 1 1 event", "LOC: 2 2 others"), table("LOC: 2 1 event", "LOC: 2 5 others")) == {
        "LOC event": {0: 1, 1: 0},
        "LOC others": {0: 0, 1: 3},
    }


SOFT = "          CPU0       CPU1\n RCU: {} 5\n"
SCHED = "version 15\ntimestamp {}\ncpu0 0 0 0 0 0 0 5 5 5\n"


def moved(one: int, two: int, three: int, *, taken_ns: int = 0, housekeeping: int = 0) -> Counters:
    """Sources of a CPU 0 that isn't counted; CPU 1 is at rest."""
    return counters(
        taken_ns,
        interrupts=table(f"LOC: {one} 7 x"),
        softirqs=parse_softirqs(SOFT.format(two), [1]),
        schedstat=parse_schedstat(SCHED.format(three)),
        cpustat=stat(idle=100 * housekeeping),
    )


@pytest.mark.parametrize("still", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (0, 0, 0)])
def test_counters_that_stand_still_on_every_cpu_are_not_this_kernels(still: tuple[int, int, int]) -> None:
    before = moved(1, 1, 1)
    after = moved(*(1 if stands else 2 for stands in still), taken_ns=SECOND, housekeeping=1)
    found = diff(before, after, [1])
    sources = (found.interrupts, found.softirqs, found.sched)
    reasons = [isinstance(source, ProbeError) and source.reason == STANDS_STILL for source in sources]
    assert reasons == [bool(stands) for stands in still]
    assert not found.another_boot


def test_a_moment_may_pass_without_any_event() -> None:
    found = diff(moved(1, 1, 1), moved(1, 1, 1, taken_ns=SECOND // 10), [1])
    assert not isinstance(found.interrupts, ProbeError)
    assert not isinstance(found.softirqs, ProbeError)
    assert not isinstance(found.sched, ProbeError)


@pytest.mark.parametrize(
    "row",
    [
        "LOC: 5 5 Local timer interrupts",
        "NMI: 0 0 Non-maskable interrupts",
        "RES: 0 0 Rescheduling interrupts",
        "CAL: 0 0 Function call interrupts",
        "TLB: 0 0 TLB shootdowns",
        "IWI: 0 0 IRQ work interrupts",
        "IPI5: 0 0 IRQ work interrupts",
        "IPI7: 0 0 KGDB roundup",
        "11: 5 5 GICv3 27 Level arch_timer",
    ],
)
def test_a_row_that_is_always_there_can_not_come_or_go(row: str) -> None:
    label = row.partition(":")[0]
    with_it, without = table("24: 1 1 nic", row), table("24: 1 1 nic")
    for found in (rows(with_it, without), rows(without, with_it)):
        assert isinstance(found, ProbeError)
        assert found.reason == f"row {label} is there at one end of the window only: lines are lost"
        assert found.state is SourceState.MALFORMED


@pytest.mark.parametrize("row", ["SPU: 0 3 z", "MIS: 0 3 z", "THR: 0 3 z", "VPMI: 0 3 z", "PIN: 0 3 z"])
def test_a_row_may_come_with_its_first_event(row: str) -> None:
    found = growth(table("24: 1 1 nic"), table("24: 1 1 nic", row))
    assert list(found.values()) == [{0: 0, 1: 0}, {0: 0, 1: 3}]


def test_the_xen_timer_of_a_cpu_comes_with_it() -> None:
    timer = "64: 0 3 xen-percpu -virq timer1"
    assert growth(table("24: 1 1 nic"), table("24: 1 1 nic", timer))["64 xen-percpu -virq timer1"] == {0: 0, 1: None}


def soft(**names: dict[int, int]) -> Softirqs:
    return Softirqs(cpus=(0, 1), rows=names)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (soft(SCHED={0: 1, 1: 5}), soft(SCHED={0: 4, 1: 5}), {"SCHED": {0: 3, 1: 0}}),
        (soft(SCHED={0: WRAP - 1, 1: 5}), soft(SCHED={0: 1, 1: 5}), {"SCHED": {0: 2, 1: 0}}),
        (soft(SCHED={0: 1}), soft(SCHED={0: 1, 1: 5}), {"SCHED": {0: 0, 1: None}}),
        (soft(RCU={0: 1, 1: 1}), soft(SCHED={0: 1, 1: 5}), {"SCHED": {0: None, 1: None}}),
        (soft(SCHED={0: 9, 1: 5}), soft(SCHED={0: 1, 1: 5}), ANOTHER_BOOT),
    ],
)
def test_softirqs(before: Softirqs, after: Softirqs, expected: object) -> None:
    found = diff(counters(softirqs=before), counters(SECOND, softirqs=after), [0, 1])
    assert (found.softirqs.reason if isinstance(found.softirqs, ProbeError) else found.softirqs) == expected
    assert found.another_boot is (expected == ANOTHER_BOOT)


def sched(run_ns: int, switches: int, cpu: int = 0) -> SchedStat:
    return SchedStat(version=15, cpus={cpu: CpuSched(run_ns=run_ns, wait_ns=0, switches=switches, domains=())})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (sched(10, 5), sched(30, 9), {0: SchedDelta(switches=4, run_ns=20, wait_ns=0)}),
        (
            sched(10, WRAP - 1),
            sched(30, 1),
            {0: SchedDelta(switches=2, run_ns=20, wait_ns=0)},
        ),  # unsigned long of 32 bits
        (sched(10, 5), sched(10, 5, cpu=1), {}),  # offline at one end
        (sched(10, 5), sched(30, 4), ANOTHER_BOOT),
        (sched(10, 5), sched(9, 6), ANOTHER_BOOT),
    ],
)
def test_schedstat(before: SchedStat, after: SchedStat, expected: object) -> None:
    found = diff(counters(schedstat=before), counters(SECOND, schedstat=after), [0, 1])
    assert (found.sched.reason if isinstance(found.sched, ProbeError) else found.sched) == expected
    assert found.another_boot is (expected == ANOTHER_BOOT)


def stat(*, user: int = 0, idle: int = 0, iowait: int = 0, steal: int | None = 0, cpu: int = 0) -> CpuStat:
    times = CpuTimes(
        user=user,
        nice=0,
        system=0,
        idle=idle,
        iowait=iowait,
        irq=0,
        softirq=0,
        steal=steal,
        guest=None,
        guest_nice=None,
    )
    return CpuStat(cpus={cpu: times}, btime=None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (stat(), stat(user=100), {0: BusyDelta(busy=1.0, steal_ticks=0)}),
        (stat(), stat(idle=75, iowait=25), {0: BusyDelta(busy=0.0, steal_ticks=0)}),
        (stat(), stat(user=25, idle=50, steal=25), {0: BusyDelta(busy=0.25, steal_ticks=25)}),
        (stat(steal=None), stat(user=50, idle=50, steal=None), {0: BusyDelta(busy=0.5, steal_ticks=None)}),
        (stat(idle=9), stat(idle=8, user=101), {0: BusyDelta(busy=1.0, steal_ticks=0)}),  # idle may step back
        (stat(user=1000), stat(idle=200), {}),  # fell: another boot
        (stat(idle=7), stat(idle=7), {}),  # stands still: made up
        (stat(), stat(idle=100, cpu=1), {}),  # offline at one end
        (stat(), stat(user=900_000, idle=5_000_000), {}),  # made up at the start: no window of a second has that many
        (stat(), stat(user=350), {0: BusyDelta(busy=1.0, steal_ticks=0)}),  # nohz_full: accounted for late
        (stat(), stat(user=351), {}),
    ],
)
def test_busy(before: CpuStat, after: CpuStat, expected: object) -> None:
    assert diff(counters(cpustat=before), counters(SECOND, cpustat=after), [0, 1]).busy == expected


def idle(index: int, name: str, usage: int, time_us: int, *, disabled: bool = False) -> IdleState:
    return IdleState(
        index=index,
        name=name,
        desc="",
        latency_us=index * 10,
        residency_us=0,
        usage=usage,
        time_us=time_us,
        disabled=disabled,
        default_disabled=False,
    )


C1, C6 = idle(0, "C1", 5, 50), idle(1, "C6", 7, 70)


def test_idle_states() -> None:
    before, after = CpuIdle(states=(C1, C6)), CpuIdle(states=(C1, idle(1, "C6", 9, 100, disabled=True)))
    found = diff(counters(cpuidle={0: before}), counters(SECOND, cpuidle={0: after}), [0])
    assert found.idle == {
        0: (
            IdleDelta(name="C1", latency_us=0, entries=0, time_us=0, disabled=False),
            IdleDelta(name="C6", latency_us=10, entries=2, time_us=30, disabled=True),
        )
    }


@pytest.mark.parametrize(
    "states",
    [
        (),
        (C1,),
        (C1, C6, idle(2, "C8", 0, 0)),
        (C1, idle(1, "C7", 9, 99)),
        (C1, idle(2, "C6", 9, 99)),
        (C1, idle(1, "C6", 6, 99)),
        (C1, idle(1, "C6", 9, 6)),
    ],
)
def test_idle_states_that_changed_are_unknown(states: tuple[IdleState, ...]) -> None:
    before, after = {0: CpuIdle(states=(C1, C6))}, {0: CpuIdle(states=states)}
    found = diff(counters(cpuidle=before), counters(SECOND, cpuidle=after), [0]).idle[0]
    assert isinstance(found, ProbeError)
    assert found.reason == "the states changed in the window"


def test_a_source_that_either_end_lacks_stays_its_error() -> None:
    other = ProbeError("proc/y", "permission denied", SourceState.DENIED)
    full = counters(
        interrupts=table("LOC: 1 1 x"),
        softirqs=soft(SCHED={0: 1}),
        cpustat=stat(),
        schedstat=sched(1, 1),
        cpuidle={0: CpuIdle(states=(C1,))},
    )
    none = counters(interrupts=other, softirqs=other, cpustat=other, schedstat=other, cpuidle={0: other})
    for found in (diff(full, none, [0]), diff(none, full, [0])):
        assert {found.interrupts, found.softirqs, found.busy, found.sched, found.idle[0]} == {other}
        assert not found.another_boot


def test_a_cpu_whose_states_were_never_read_is_missing() -> None:
    found = diff(counters(), counters(SECOND), [5]).idle[5]
    assert isinstance(found, ProbeError)
    assert (found.state, found.reason) == (SourceState.MISSING, "not read for this CPU")


@pytest.mark.parametrize("taken_ns", [0, -5, -SECOND * 100])
def test_a_window_of_no_length_divides_nothing_by_zero(taken_ns: int) -> None:
    found = diff(counters(cpustat=stat()), counters(taken_ns, cpustat=stat(user=5)), [0])
    assert found.window_s == SHORTEST_S
    assert found.busy == {}  # not 100 % busy, nor idle: it can't be told


def test_the_length_of_a_window() -> None:
    assert diff(counters(5), counters(SECOND * 30 + 5), []).window_s == 30


COUNTS = st.integers(0, WRAP - 1)


@settings(deadline=None)
@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS), min_size=1, max_size=4), st.booleans())
def test_no_counts_make_a_negative_growth_or_a_crash(ends: list[tuple[int, int, int, int]], numbered: bool) -> None:
    labels = [str(number) if numbered else f"X{number}" for number in range(len(ends))]
    before = table(*(f"{label}: {a} {b} x" for label, (a, b, _, _) in zip(labels, ends, strict=True)))
    after = table(*(f"{label}: {c} {d} x" for label, (_, _, c, d) in zip(labels, ends, strict=True)))
    found = diff(counters(interrupts=before), counters(SECOND // 2, interrupts=after), [0, 1]).interrupts
    fell = any((a > c and a <= WRAP // 2) or (b > d and b <= WRAP // 2) for a, b, c, d in ends)
    if isinstance(found, ProbeError):
        assert fell
        assert not numbered
    else:
        counts = [count for row in found for count in row.counts.values()]
        assert all(count is None or 0 <= count < WRAP for count in counts)
        assert (None in counts) is fell


def test_another_boot_is_asked_of_every_source_that_can_tell() -> None:
    clean = diff(counters(), counters(SECOND), [0])
    boot = ProbeError("proc/x", ANOTHER_BOOT)
    assert not clean.another_boot
    changed: list[Delta] = [replace(clean, interrupts=boot), replace(clean, softirqs=boot), replace(clean, sched=boot)]
    assert all(one.another_boot for one in changed)
