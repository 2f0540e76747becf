"""A CPU limit on an ancestor, and CPU timers: a spinning thread that is throttled, and one whose tick is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.audits import ISOLATED, PYTHON, Judged, audit, in_background, judged, obey
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

SPINNER = "while True: pass"
# timer_create(CLOCK_THREAD_CPUTIME_ID) with SIGUSR1, due after a thousand seconds of CPU time.
TIMER = """import ctypes
libc = ctypes.CDLL(None)
event, timer, due = (ctypes.c_int * 16)(0, 0, 10), ctypes.c_void_p(), (ctypes.c_long * 4)(0, 0, 1000, 0)
assert libc.timer_create(3, event, ctypes.byref(timer)) == 0 == libc.timer_settime(timer, 0, due, None)
while True: pass"""
# The limit is set by the process that execs: inherited by fork it arms no timer.
RLIMIT = f"bash -c 'ulimit -t 9000; exec taskset -c 1 {PYTHON} -S -c \"{SPINNER}\"' &"
END = "kill -9 $own; wait $own"


def below(ancestor: str, limit: str) -> str:
    """The lines that put $own three levels deep, the outermost one limited."""
    at = f"/sys/fs/cgroup/{ancestor}"
    nested = [f"echo +cpu >{level}/cgroup.subtree_control" for level in (at, f"{at}/pod")]
    return "\n".join(
        [f"mkdir -p {at}/pod/app", *nested, f"echo {limit} >{at}/cpu.max", f"echo $own >{at}/pod/app/cgroup.procs"]
    )


def spinning(name: str, *before: str, start: str = in_background(SPINNER, "1")) -> str:
    """The audit of a spinning thread on CPU 1."""
    return "\n".join([start, "own=$!", *before, "sleep 2", audit(name, "--workload", "$own", cpus="1")])


SCENARIO = Scenario(
    name="quota",
    append=ISOLATED,
    script="\n".join(
        [
            spinning("throttled", below("low", "30000 100000")),
            END,
            # Four CPUs a second for one thread: it never runs out, however late the emulated timers come.
            spinning("generous", below("high", "4000000 1000000")),
            obey("generous", "QUOTA-TICK") + "; sleep 1",
            audit("lifted", "--workload", "$own", cpus="1"),
            END,
            spinning("rlimit", start=RLIMIT),
            END,
            spinning("timer", start=in_background(TIMER, "1")),
            END,
        ]
    ),
)
scenario = pytest.mark.scenario(SCENARIO)


def cause_of(found: Judged, rule: str) -> dict[str, Any]:
    """The cause that a rule is behind."""
    (cause,) = [cause for cause in found.document["causes"] if rule in cause["rules"]]
    return dict(cause)


@scenario
def test_a_limit_of_an_ancestor_that_runs_out_is_found_there(guest: NodeResult) -> None:
    found = judged(guest, "throttled")
    assert (found.code, found.document["readiness"]["status"]) == (3, "not-ready")
    (quota,) = found.findings("CFG.QUOTA")
    assert (quota["outcome"], quota["title"]) == ("fail", "CPU limit: /low")
    assert quota["observed"] > 20  # of about a hundred periods
    assert quota["detail"].startswith("0.3 CPUs: 30000 µs in each 100000 µs; ")
    assert "the own cgroups waited" in quota["detail"]
    counted = {item["field"]: item["path"] for item in quota["evidence"]}
    assert counted["nr_throttled"] == "/sys/fs/cgroup/low/cpu.stat"
    assert quota["fix"]["commands"] == ["echo max | sudo tee /sys/fs/cgroup/low/cpu.max"]
    assert quota["fix"]["undo"] == "echo '30000 100000' | sudo tee /sys/fs/cgroup/low/cpu.max"
    # One cause with the tick that it keeps; of readiness alone only where it keeps none.
    cause = cause_of(found, "CFG.QUOTA")
    assert cause["title"].startswith("readiness: ") is (cause["rules"] == ["CFG.QUOTA"])
    assert cause["fix"]["commands"][0] == "echo max | sudo tee /sys/fs/cgroup/low/cpu.max"


@scenario
def test_a_limit_that_never_runs_out_keeps_the_tick_all_the_same(guest: NodeResult) -> None:
    found = judged(guest, "generous")
    assert (found.status, found.code) == ("not-isolated", 3)
    assert found.outcomes("CFG.QUOTA") == ["warn"]
    assert "; 0 of " in found.details("CFG.QUOTA")
    assert found.outcomes("TICK.LOC") == found.outcomes("QUOTA-TICK") == ["fail"]
    assert found.details("QUOTA-TICK") == "kept by the limit of 4 CPUs on /high"
    assert "yet the tick runs: kept by the limit of 4 CPUs on /high" in found.details("TICK.LOC")
    cause = cause_of(found, "TICK.LOC")
    assert "QUOTA-TICK" in cause["rules"]
    assert cause["fix"]["commands"] == ["echo max | sudo tee /sys/fs/cgroup/high/cpu.max", "sudo taskset -c 1 true"]


@scenario
def test_with_the_fix_the_tick_stops(guest: NodeResult) -> None:
    found = judged(guest, "lifted")
    assert found.outcomes("TICK.LOC") == found.outcomes("CFG.QUOTA") == ["pass"], found.failed()
    assert found.outcomes("QUOTA-TICK") == ["not-applicable"]
    assert found.details("CFG.QUOTA") == "no limit on any of 3 cgroups from the own threads up"
    assert (found.document["readiness"]["status"], found.code) == ("ready", 0)


@scenario
@pytest.mark.parametrize(
    ("name", "reason", "fix"),
    [
        ("rlimit", "RLIMIT_CPU of 9000 s, unless python", "without a limit of CPU time"),
        ("timer", "1 POSIX CPU timer of python", "disarm its timers on CPU-time clocks"),
    ],
)
def test_a_cpu_timer_keeps_the_tick(name: str, reason: str, fix: str, guest: NodeResult) -> None:
    found = judged(guest, name)
    assert (found.status, found.code) == ("not-isolated", 3)
    assert (found.outcomes("TICK.LOC"), found.outcomes("TICK.POSIX")) == (["fail"], ["warn"])
    assert f"may be kept by {reason}" in found.details("TICK.POSIX")
    assert f"yet the tick runs; it may be kept by {reason}" in found.details("TICK.LOC")
    cause = cause_of(found, "TICK.LOC")
    assert "TICK.POSIX" in cause["rules"]
    assert fix in cause["fix"]["text"]
    assert found.outcomes("CFG.QUOTA") == ["pass"]
