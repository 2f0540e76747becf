"""Own threads that share a CPU."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Axis, Outcome
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, only

A, B = (Thread(tid=tid, on=cpus(1, 5), switches=50, run_ms=4000) for tid in (100, 101))
SHARED: dict[str, Any] = {"audited": (1, 5), "switches": {1: 100, 5: 0}}


def test_two_threads_on_one_cpu_are_pinned_apart() -> None:
    stacked, alone = findings(context(own=[A, B], waited_s={1: 8.0}, **SHARED), "THR.MULTI")
    assert (stacked.outcome, stacked.axis, stacked.cpus) == (Outcome.WARN, Axis.READINESS, (1,))
    assert (stacked.observed, stacked.limit) == (0.8, 0.05)
    assert stacked.detail == "2 own threads may run here: app (100), app (101); they waited 8.00 s for the CPU"
    assert stacked.evidence[0].value == "+8000000000"
    assert stacked.fix is not None
    assert stacked.fix.commands == ("sudo taskset -pc 1 100", "sudo taskset -pc 5 101")
    assert "cpuset root partition" in stacked.fix.text
    assert (alone.outcome, alone.cpus, alone.observed) == (Outcome.PASS, (5,), 0.0)


def test_a_root_partition_spreads_them_by_itself() -> None:
    inside = {1: [cpus(1, 5)], 5: [cpus(1, 5)]}
    found = findings(context(own=[A, B], waited_s={1: 8.0}, domains=inside, **SHARED), "THR.MULTI")[0]
    assert found.fix is not None
    assert found.fix.text == "one thread per CPU: pin them"


def test_more_threads_than_cpus_can_not_be_pinned_apart() -> None:
    found = findings(
        context(own=[Thread(tid=tid, switches=50, run_ms=4000) for tid in (100, 101)], waited_s={1: 5.0}), "THR.MULTI"
    )
    assert found[0].fix is not None
    assert found[0].fix.commands == ()
    assert found[0].fix.text.startswith("2 busy threads and 1 CPUs")


@pytest.mark.parametrize(
    ("own", "outcome", "detail"),
    [
        ([], Outcome.NOT_APPLICABLE, "no own thread"),
        ([A], Outcome.PASS, "at most one own thread is at work that may run here"),
        ([A, Thread(tid=102, run_ms=1)], Outcome.PASS, "at most one own thread is at work that may run here"),
    ],
)
def test_one_thread_competes_with_nobody(own: list[Thread], outcome: Outcome, detail: str) -> None:
    found = findings(context(own=own, waited_s={1: 8.0}, **SHARED), "THR.MULTI")[0]
    assert (found.outcome, found.detail) == (outcome, detail)


def test_without_schedstat_nothing_is_said() -> None:
    ctx = context(own=[A, B], **SHARED)
    without = edit(ctx, "after.counters.schedstat", gone("proc/schedstat"))
    assert only(without, "THR.MULTI").outcome is Outcome.UNKNOWN
    lost = findings(edit(ctx, "after.counters.schedstat.cpus", {}), "THR.MULTI")
    assert [(f.outcome, f.detail) for f in lost] == [
        (Outcome.UNKNOWN, "/proc/schedstat has no row for it at both ends")
    ] * 2
