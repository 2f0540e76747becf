"""The raw numbers behind the findings."""

from __future__ import annotations

from typing import Any

from auditor.activity import MAX_OTHERS, MAX_THREADS, activity
from auditor.model import Counter, IdleUse, Regime, Switches
from auditor.own import OwnRule
from tests.auditor.build import C1, Thread, context, cpus, edit, gone


def test_counters_of_one_cpu() -> None:
    ctx = context(
        rows={"LOC": {1: 50}, "30 eth0": {1: 20}, "31 quiet": {1: 0}, "NMI": {1: None}},
        softirqs={"RCU": {1: 5}},
        busy={1: 0.5},
        idle={1: (C1, ("C6", 133, 7, 900, True))},
    )
    found = activity(ctx).cpus[1]
    assert (found.busy, found.regime) == (0.5, Regime.SLEEPER)
    assert [(row.label, row.count) for row in found.interrupts] == [
        ("LOC", 50),
        ("RES", 0),
        ("CAL", 0),
        ("TLB", 0),
        ("IWI", 0),
        ("30", 20),
        ("NMI", None),
    ]
    assert found.interrupts[5] == Counter(label="30", name="eth0", count=20, per_second=2)
    assert found.interrupts[6].per_second is None
    assert {row.label: row.count for row in found.softirqs}["RCU"] == 5
    assert found.cpuidle[1] == IdleUse(name="C6", latency_us=133, entries=7, time_us=900, disabled=True)


def test_of_a_control_cpu_only_what_is_compared_and_its_busiest_rows_are_kept() -> None:
    """A machine of a thousand CPUs has thousands of queues, each on its own CPU."""
    queues = {f"{number} queue{number}": {0: number} for number in range(100, 200)}
    both: dict[str, dict[int, int | None]] = {"30 eth0": {0: 1, 1: 20}, "31 eth1": {0: None, 1: 5}}
    found = activity(context(rows={"LOC": {0: 3}, **queues, **both}))
    assert [row.label for row in found.control[0].interrupts] == [
        *("LOC", "RES", "CAL", "TLB", "IWI"),
        *(str(number) for number in range(200 - MAX_OTHERS, 200)),
        *("30", "31"),
    ]
    assert [(row.label, row.count) for row in found.control[0].interrupts[-2:]] == [("30", 1), ("31", None)]
    assert [row.label for row in found.cpus[1].interrupts] == ["LOC", "RES", "CAL", "TLB", "IWI", "30", "31"]


def test_what_could_not_be_read_is_empty_or_none() -> None:
    ctx = context()
    for source in ("interrupts", "softirqs", "cpustat", "schedstat", "cpuidle.1"):
        ctx = edit(ctx, f"after.counters.{source}", gone())
    found = activity(ctx).cpus[1]
    assert (found.busy, found.regime) == (None, Regime.UNKNOWN)
    assert (found.interrupts, found.softirqs, found.cpuidle, found.threads) == ((), (), (), ())
    assert found.switches == Switches(total=None, own=None, foreign=None)


def test_switches_are_split_only_as_far_as_they_are_known() -> None:
    def split(**given: Any) -> Switches:
        return activity(context(**given)).cpus[1].switches

    assert split(switches={1: 100}, own=[Thread(switches=90)]) == Switches(total=100, own=90, foreign=10)
    assert split(switches={1: 100}, own=[Thread(switches=90, least=80)]) == Switches(total=100, own=None, foreign=None)
    shared = [Thread(switches=90, on=cpus(1, 5))]
    assert split(audited=(1, 5), switches={1: 100}, own=shared) == Switches(total=100, own=None, foreign=None)


def test_threads_are_listed_ours_first() -> None:
    rule = OwnRule(audited=cpus(1), workload="app")
    ctx = context(
        own=[Thread(switches=50, run_ms=5)],
        threads=[
            Thread(tid=200, name="noise", switches=30, run_ms=90),
            Thread(tid=201, name="daemon", switches=500, run_ms=400, on=cpus(0, 1), seen={1: 2}, cgroup="/d"),
            Thread(tid=202, name="elsewhere", switches=500, on=cpus(0)),
            Thread(tid=21, name="kworker/1:1", kernel=True, switches=3, run_ms=1),
        ],
        switches={1: 500},
        own_rule=rule,
    )
    found = activity(ctx)
    assert [(t.name, t.own, t.kernel, t.switches, t.run_ms, t.sightings) for t in found.cpus[1].threads] == [
        ("app", True, False, 50, 5, 0),
        ("noise", False, False, 30, 90, 0),
        ("kworker/1:1", False, True, 3, 1, 0),
        ("daemon", False, False, None, None, 2),
    ]
    assert (found.cpus[1].threads[3].allowed, found.cpus[1].threads[3].cgroup) == ("0-1", "/d")
    assert set(found.control) == {0}
    assert found.control[0].threads == ()


def test_a_crowd_is_cut() -> None:
    crowd = [Thread(tid=1000 + n, switches=n + 1) for n in range(MAX_THREADS + 5)]
    listed = activity(context(own=crowd, switches={1: 5000})).cpus[1].threads
    assert len(listed) == MAX_THREADS
    assert listed[0].switches == MAX_THREADS + 5
