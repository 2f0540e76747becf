"""What several rules need, drawn from an observation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import ENDLESS, own_visible, total
from auditor.model import Regime
from auditor.own import OwnRule
from probes.delta import RowDelta
from probes.host import ProbeError
from probes.interrupts import InterruptKind
from tests.auditor.build import Thread, context, cpus, edit, gone


@pytest.mark.parametrize(
    ("busy", "regime"),
    [
        (0.0, Regime.IDLE),
        (0.009, Regime.IDLE),
        (0.011, Regime.SLEEPER),
        (0.899, Regime.SLEEPER),
        (0.901, Regime.SPINNER),
        (1.0, Regime.SPINNER),
    ],
)
def test_regimes(busy: float, regime: Regime) -> None:
    assert context(busy={1: busy}).regime(1) is regime


@pytest.mark.parametrize("end", ["before", "after"])
def test_without_proc_stat_nothing_is_known_of_the_regime(end: str) -> None:
    ctx = edit(context(busy={1: 1.0}), f"{end}.counters.cpustat", gone())
    assert (ctx.regime(1), ctx.busy(1)) == (Regime.UNKNOWN, None)
    assert context().busy(7) is None


@pytest.mark.parametrize(
    ("release", "since"), [("6.12.0", True), ("6.11.9", False), ("7.0.1", True), ("5.12.0", False), ("custom", False)]
)
def test_versions(release: str, since: bool) -> None:
    assert context(release=release).since(6, 12) is since


def test_rows_of_a_kind() -> None:
    ctx = context(rows={"30 eth0": {1: 5}})
    assert [row.label for row in ctx.rows(InterruptKind.DEVICE)] == ["30"]
    assert [row.label for row in ctx.rows(InterruptKind.TICK, InterruptKind.CALL)] == ["LOC", "CAL"]
    with pytest.raises(ProbeError):
        edit(ctx, "after.counters.interrupts", gone()).rows(InterruptKind.DEVICE)


def test_softirqs_by_name_and_cpu() -> None:
    ctx = context(softirqs={"RCU": {1: 5}})
    assert (ctx.softirq("RCU", 1), ctx.softirq("RCU", 0), ctx.softirq("RCU", 9), ctx.softirq("X", 1)) == (
        5,
        0,
        None,
        None,
    )
    with pytest.raises(ProbeError):
        edit(ctx, "before.counters.softirqs", gone()).softirq("RCU", 1)


def test_a_sum_with_a_hole_is_unknown() -> None:
    def delta(**counts: int | None) -> RowDelta:
        by_cpu = {int(name.removeprefix("cpu")): count for name, count in counts.items()}
        return RowDelta(label="1", text="", kind=InterruptKind.DEVICE, actions="", irq=1, counts=by_cpu)

    assert total([], 1) == 0
    assert total([delta(cpu1=2), delta(cpu1=3)], 1) == 5
    assert total([delta(cpu1=2), delta(cpu1=None)], 1) is None
    assert total([delta(cpu1=2), delta(cpu0=3)], 1) is None


def test_the_busiest_control_cpu_is_compared_with() -> None:
    ctx = context(control=(0, 2, 3))
    counts: dict[int, int | None] = {0: 50, 2: None, 3: 70}
    assert ctx.control_rate(counts.get) == 7
    assert ctx.control_rate(lambda cpu: None) is None
    assert context(control=()).control_rate(lambda cpu: 5) is None


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        (Thread(switches=100), (100, 100)),
        (Thread(switches=100, least=90), (90, 100)),
        (Thread(switches=100, voluntary=60, involuntary=40), (60, 60)),
        (Thread(switches=100, voluntary=0, involuntary=100), (0, 0)),
        (Thread(switches=100, least=90, voluntary=60, involuntary=45), (45, 60)),
        (Thread(switches=100, voluntary=500), (100, 100)),
        (Thread(switches=100, voluntary=-5), (0, 100)),
        (Thread(switches=100, involuntary=-5), (0, 100)),
        (Thread(switches=100, on=cpus(0, 1)), (0, 100)),
        (Thread(switches=100, on=cpus(0)), (0, 0)),
        (Thread(switches=100, new=True), (100, 100)),
        (Thread(switches=100, ended=True), (0, ENDLESS)),
        (Thread(switches=0, run_ms=5), (0, 0)),
    ],
)
def test_wake_ups_of_one_thread(thread: Thread, expected: tuple[int, int]) -> None:
    """The workload is named, so that a thread is own wherever it may run."""
    rule = OwnRule(audited=cpus(1), workload="app")
    assert context(own=[thread], own_rule=rule).wakeups(1) == expected


def test_wake_ups_of_others_are_none() -> None:
    rule = OwnRule(audited=cpus(1), workload="app")
    assert context(own=[Thread()], threads=[Thread(tid=9, name="x", switches=50)], own_rule=rule).wakeups(1) == (0, 0)


def test_wake_ups_add_up() -> None:
    own = [Thread(switches=100), Thread(tid=101, switches=50), Thread(tid=102, switches=7, on=cpus(1, 5))]
    ctx = context(audited=(1, 5), own=own)
    assert (ctx.wakeups(1), ctx.wakeups(5)) == ((150, 157), (0, 7))


@pytest.mark.parametrize("end", ["before", "after"])
def test_without_a_census_no_wake_up_is_certain(end: str) -> None:
    rule = OwnRule(audited=cpus(1), workload="app")
    ctx = edit(context(own=[Thread(switches=100)], own_rule=rule), f"{end}.census", gone("proc"))
    assert ctx.wakeups(1) == (0, ENDLESS)


@pytest.mark.parametrize(
    ("given", "visible"),
    [
        ({}, True),
        ({"complete": False}, False),
        ({"complete": False, "own_rule": OwnRule(audited=cpus(1), workload="app"), "own": [Thread()]}, True),
        ({"complete": False, "own_rule": OwnRule(audited=cpus(1), workload="app")}, False),
        (
            {"complete": False, "own_rule": OwnRule(audited=cpus(1), work_pids=frozenset({100})), "own": [Thread()]},
            True,
        ),
    ],
)
def test_whether_all_own_threads_are_known(given: dict[str, Any], visible: bool) -> None:
    ctx = context(**given)
    assert own_visible(ctx.observation, ctx.own_rule) is ctx.own_visible is visible
    for end in ("before", "after"):
        blind = edit(ctx, f"{end}.census", gone("proc"))
        assert not blind.own_visible


def test_a_thread_whose_status_vanished_proves_nothing() -> None:
    ctx = context(own=[Thread(switches=100)])
    census = ctx.observation.after.census
    assert not isinstance(census, ProbeError)
    statuses = {key: status for key, status in census.statuses.items() if key != Thread().key}
    assert edit(ctx, "after.census", replace(census, statuses=statuses)).wakeups(1) == (0, 100)
