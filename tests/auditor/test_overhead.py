"""What the tool does itself: where it runs, what it costs, what its reads leave behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from auditor.errors import UsageError
from auditor.overhead import Meter, pin, self_check
from probes.host import DictHost
from tests.auditor.build import cpus

HEADER = "           CPU0       CPU1\n"


@pytest.fixture
def allowed() -> Iterator[set[int]]:
    """Where this process may run, restored afterwards."""
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


@dataclass
class Calls:
    """A host whose function-call row grows by so many with every look, on CPU 1."""

    grows: int
    count: int = 100

    def read(self, path: str) -> str:
        self.count += self.grows if path == "proc/interrupts" else 0
        text = f"{HEADER}CAL: 5 {self.count}   Function call interrupts\nLOC: 1 1   Local timer interrupts\n"
        return DictHost({"proc/interrupts": text}).read(path)

    def listdir(self, path: str) -> list[str]:
        return DictHost({}).listdir(path)

    def readlink(self, path: str) -> str:
        return DictHost({}).readlink(path)

    def mode(self, path: str) -> int:
        return DictHost({}).mode(path)

    def mtime(self, path: str) -> int:
        return DictHost({}).mtime(path)


def test_reads_that_leave_no_call_are_clean() -> None:
    assert self_check(Calls(0), cpus(1), lambda: 0) == "clean: a dry double read added no function-call interrupt"


def test_reads_that_leave_calls_are_said() -> None:
    assert self_check(Calls(3), cpus(1), lambda: 0) == (
        "perturbed: 3 function-call interrupts during a dry double read, from this tool or its environment"
    )
    assert self_check(Calls(3), cpus(0), lambda: 0).startswith("clean")


def test_without_the_table_nobody_knows() -> None:
    assert self_check(DictHost({}), cpus(1), lambda: 0) == "unknown: /proc/interrupts: no such file"


def test_the_tool_leaves_the_audited_cpus(allowed: set[int]) -> None:
    stay = min(allowed)
    pin(frozenset({stay}), frozenset({max(allowed) + 1}))
    assert os.sched_getaffinity(0) == {stay}


def test_where_it_may_not_leave_it_refuses(allowed: set[int]) -> None:
    with pytest.raises(UsageError, match="may not run on the housekeeping CPUs 4000"):
        pin(frozenset({4000}), cpus(1))
    with pytest.raises(UsageError, match="still allowed on the audited CPUs"):
        pin(frozenset(allowed), frozenset(allowed))


def test_the_cost_of_the_window_alone(allowed: set[int]) -> None:
    meter = Meter(frozenset({max(allowed) + 1}))
    meter.mark("t0")
    meter.mark("samples/0001")
    end = os.times().user + 0.05
    while os.times().user < end:
        pass
    meter.mark("t1")
    end = os.times().user + 0.5
    while os.times().user < end:
        pass
    cost = meter.overhead("clean")
    assert 40 <= cost.cpu_ms <= 400
    assert cost.switches >= 0
    assert (cost.on_audited_cpus, cost.self_check) == (False, "clean")


def test_a_tool_on_the_audited_cpus_admits_it(allowed: set[int]) -> None:
    meter = Meter(frozenset(allowed))
    meter.mark("t0")
    meter.mark("t1")
    assert meter.overhead("clean").on_audited_cpus
