"""What the own workload does decides what can be judged: a sleeper, a poller, two threads.

Idle CPUs and the tool's own spinner are part of test_first_light.py, on the same kernels.
"""

from __future__ import annotations

import pytest

from tests.node.audits import ISOLATED, NOISE, Judged, audit, in_background, judged
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
# An event loop on CPU 1, woken through a pipe fifty times a second by a process that is kept off it.
SLEEPER = """import os, select, sys, time
read, write = os.pipe()
if os.fork():
    os.sched_setaffinity(0, [1])
    wait = select.epoll(); wait.register(read, select.EPOLLIN)
    while True: wait.poll(); os.read(read, 1)
os.sched_setaffinity(0, [0])
while True: time.sleep(0.02); os.write(write, b"x")"""
# Seven tenths busy. An emulated CPU takes tens of milliseconds to read what must be read while no own thread is
# switched to: at more than ten switches a second that hardly ever comes off, and the verdict is rightly unknown.
POLLER = """import time
while True:
    start = time.monotonic()
    while time.monotonic() < start + 0.07: pass
    time.sleep(0.03)"""
# hashlib lets go of the interpreter lock: both threads want a CPU all the time.
TWO = """import hashlib, os, threading
def work(cpus):
    os.sched_setaffinity(0, cpus)
    while True: hashlib.pbkdf2_hmac("sha256", b"p", b"s", 200000)
threading.Thread(target=work, args=({first},)).start()
work({second})"""


def with_workload(name: str, program: str, cpus: str = "") -> str:
    """The audit of a workload that runs already."""
    return "\n".join(
        [in_background(program, cpus), "own=$!; sleep 2", audit(name, "--workload", "$own"), "kill -9 $own; wait $own"]
    )


def scenario(kernel: str) -> Scenario:
    lines = [
        NOISE,
        with_workload("sleeper", SLEEPER),
        with_workload("poller", POLLER, "1"),
        with_workload("two", TWO.format(first="[1]", second="[3]")),
        with_workload("stacked", TWO.format(first="[1, 3]", second="[1, 3]"), "1,3"),
    ]
    return Scenario(name=f"regimes-{kernel}", kernel=kernel, append=ISOLATED, script="\n".join(lines))


@pytest.fixture(params=[pytest.param(kernel, marks=pytest.mark.scenario(scenario(kernel))) for kernel in KERNELS])
def regimes(guest: NodeResult) -> NodeResult:
    return guest


def regime(found: Judged, cpu: int) -> str:
    """How the CPU spent the window."""
    return str(found.document["activity"]["cpus"][str(cpu)]["regime"])


def test_the_wake_ups_of_a_sleeper_are_its_own(regimes: NodeResult) -> None:
    """Woken fifty times a second by another CPU: as many switches and interrupts, and none is noise."""
    found = judged(regimes, "sleeper")
    assert found.failed() == []
    assert found.status in ("isolated", "disturbed")
    assert (found.code, regime(found, 1)) == (0, "sleeper")
    activity = found.document["activity"]["cpus"]["1"]
    assert activity["switches"]["total"] > 300
    remote = sum(row["count"] for row in activity["interrupts"] if row["label"] in ("RES", "CAL"))
    assert remote > 300
    assert "fail" not in found.outcomes("IPI.RES") + found.outcomes("IPI.CAL")


def test_a_poller_is_judged_by_its_busy_seconds(regimes: NodeResult) -> None:
    """Seventy percent busy is enough to judge the tick by; its own sleeps are not the tick, and no noise."""
    found = judged(regimes, "poller")
    assert found.failed() == []
    assert (found.code, regime(found, 1)) == (0, "sleeper")
    assert found.document["activity"]["cpus"]["1"]["busy"] > 0.5
    (tick,) = [f for f in found.findings("TICK.LOC") if f["cpus"] == [1]]
    assert tick["outcome"] in ("pass", "unknown")
    assert "busy seconds" in tick["detail"]


def test_two_threads_on_a_cpu_each_spin_alone(regimes: NodeResult) -> None:
    found = judged(regimes, "two")
    assert found.failed() == []
    assert found.code == 0
    assert [regime(found, cpu) for cpu in (1, 3)] == ["spinner", "spinner"]
    assert found.outcomes("TICK.LOC") == ["pass", "pass"]
    assert "warn" not in found.outcomes("THR.MULTI")


def test_two_threads_that_may_use_both_cpus_pile_up_on_one(regimes: NodeResult) -> None:
    """Nothing balances isolated CPUs. The tick that time-slices them is the workload's own doing: a warning."""
    found = judged(regimes, "stacked")
    assert sorted(regime(found, cpu) for cpu in (1, 3)) == ["idle", "spinner"]
    (multi,) = [f for f in found.findings("THR.MULTI") if f["outcome"] == "warn"]
    (cpu,) = multi["cpus"]
    assert regime(found, cpu) == "spinner"
    assert [line.rpartition(" ")[0] for line in multi["fix"]["commands"]] == [
        "sudo taskset -pc 1",
        "sudo taskset -pc 3",
    ]
    (tick,) = [f for f in found.findings("TICK.LOC") if f["cpus"] == [cpu]]
    assert tick["outcome"] == "warn"
    assert "kept by 2 own threads that share this CPU" in tick["detail"]
    assert found.document["readiness"]["status"] == "limited"
    if found.document["host"]["kernel"].startswith("6.1."):  # there each tick may wake rcuc/N, which counts as it runs
        named = {f["title"].partition(": ")[2] for f in found.findings("THR.KBOUND") if f["outcome"] == "fail"}
        assert named <= {f"rcuc/{cpu}"}
        assert found.turned("", "fail") <= {"THR.FOREIGN", "THR.KBOUND"}
    else:
        assert found.failed() == []
        assert (found.status, found.code) == ("disturbed", 0)
