"""Threads of others on isolated CPUs: pinned there, stuck there, too short to be sampled, a worker that was let in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.audits import ISOLATED, Judged, audit, in_background, judged, obey
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

MASK = "/sys/devices/virtual/workqueue/cpumask"
UNIT = "/sys/fs/cgroup/system.slice/hostd.service"
NAMED = 'import os, time\nopen("/proc/self/comm", "w").write("{name}")\n'
# Allowed everywhere again, but nothing takes it off CPU 1.
STUCK = "os.sched_setaffinity(0, [1]); os.sched_setaffinity(0, [0, 1, 2, 3])\n"
SPIN = "while True: pass"
# A millisecond of work ten times a second.
BRIEF = """while True:
    time.sleep(0.1)
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end: pass"""
# What is written to a terminal is passed on by unbound work.
TERMINAL = """import pty
ours, theirs = pty.openpty()
while True: os.write(theirs, b"a line\\n"); os.read(ours, 100); time.sleep(0.02)"""


def started(name: str, program: str, cpus: str = "") -> str:
    """The lines that leave a program of that name running, and its id in NAME.tid."""
    return f"{in_background(NAMED.format(name=name) + program, cpus)}\n{name}=$!; echo $! >$OUT/{name}.tid; sleep 2"


SCENARIO = Scenario(
    name="threads",
    append=ISOLATED,
    script="\n".join(
        [
            "taskset -c 1 sleep 1000 & own=$!",
            started("hostd", BRIEF.replace("0.1)", "0.02)"), "1"),
            f"mkdir -p {UNIT}; echo $hostd >{UNIT}/cgroup.procs",
            audit("pinned", "--workload", "$own"),
            "kill $hostd",
            started("spinner", STUCK + SPIN),
            audit("stuck", "--workload", "$own"),
            obey("stuck", "THR.USER"),
            started("brief", BRIEF, "1"),
            audit("brief", "--workload", "$own"),
            "kill $spinner $brief",
            started("visitor", STUCK + BRIEF),
            audit("visitor", "--workload", "$own"),
            "kill $visitor $own",
            # CPUs that are there at boot have a pool of workers per cache, isolated ones per CPU; ours come later.
            "echo cpu >/sys/module/workqueue/parameters/default_affinity_scope",
            f"cat {MASK} >$OUT/mask; echo f >{MASK}",
            started("terminal", TERMINAL, "1"),
            audit("worker", "--workload", "$terminal"),
            obey("worker", "THR.KUNBOUND"),
            "sleep 1",
            audit("kept", "--workload", "$terminal"),
        ]
    ),
)
scenario = pytest.mark.scenario(SCENARIO)


def tid(result: NodeResult, name: str) -> str:
    """The id of a program that the script started."""
    return (result.out / f"{name}.tid").read_text().strip()


def first_fix(found: Judged) -> dict[str, Any]:
    """What the first cause asks for."""
    fix = found.document["causes"][0]["fix"]
    assert isinstance(fix, dict)
    return fix


def of_cpu_1(found: Judged, rule: str) -> list[dict[str, Any]]:
    """Findings of a rule on CPU 1."""
    return [finding for finding in found.findings(rule) if finding["cpus"] == [1]]


def is_not_isolated_by(found: Judged, name: str) -> None:
    """Somebody on CPU 1 fails the audit and is its first cause; CPU 3 is nobody's."""
    assert (found.status, found.code) == ("not-isolated", 3)
    assert (found.cpu_status(1), found.cpu_status(3)) == ("not-isolated", "isolated")
    cause = found.document["causes"][0]
    assert (set(cause["rules"]), cause["cpus"]) == ({"THR.USER", "THR.FOREIGN"}, [1])
    assert cause["title"] == f"foreign user threads: {name}; foreign switches"
    assert [(f["outcome"], f["title"]) for f in of_cpu_1(found, "THR.USER")] == [
        ("fail", f"foreign user threads: {name}")
    ]
    assert [f["outcome"] for f in of_cpu_1(found, "THR.FOREIGN")] == ["fail"]


@scenario
def test_a_pinned_thread_is_moved_by_its_id_and_its_unit(guest: NodeResult) -> None:
    found = judged(guest, "pinned")
    is_not_isolated_by(found, "hostd")
    fix, thread = first_fix(found), tid(guest, "hostd")
    assert fix["text"] == f"move hostd ({thread}) away, pinned here: taskset for now, AllowedCPUs= for good"
    assert fix["commands"] == [
        f"sudo taskset -pc 0,2 {thread}",
        "sudo systemctl set-property hostd.service AllowedCPUs=0,2",
    ]
    assert fix["undo"] == f"sudo taskset -pc 1 {thread}; sudo systemctl set-property hostd.service AllowedCPUs="
    assert f"      sudo taskset -pc 0,2 {thread}\n" in found.text


@scenario
def test_a_stuck_spinner_is_named_though_it_is_never_switched_to(guest: NodeResult) -> None:
    found = judged(guest, "stuck")
    is_not_isolated_by(found, "spinner")
    fix, thread = first_fix(found), tid(guest, "spinner")
    assert fix["text"] == (
        f"move spinner ({thread}) away: allowed on CPUs 0-3, but nothing balances an isolated CPU: "
        "it does not leave by itself"
    )
    assert (fix["commands"], fix["undo"]) == ([f"sudo taskset -pc 0,2 {thread}"], f"sudo taskset -pc 0-3 {thread}")
    (user,) = of_cpu_1(found, "THR.USER")
    assert user["detail"].endswith("free to run on CPUs 0-3")
    assert found.document["causes"][0]["share"] > 0.9


@scenario
def test_a_millisecond_ten_times_a_second_is_not_missed(guest: NodeResult) -> None:
    found = judged(guest, "brief")
    is_not_isolated_by(found, "brief")
    assert first_fix(found)["commands"] == [f"sudo taskset -pc 0,2 {tid(guest, 'brief')}"]
    (user,) = of_cpu_1(found, "THR.USER")
    assert user["observed"] > 20  # ten a second, on a host that has time for them
    (foreign,) = of_cpu_1(found, "THR.FOREIGN")
    assert foreign["unit"] == "/s"


@scenario
def test_one_that_left_as_the_report_says_is_gone(guest: NodeResult) -> None:
    """The stuck spinner still ran during the next audit, where the command had put it."""
    assert (guest.out / "stuck.obeyed").read_text() == "0\n"
    assert "spinner" not in judged(guest, "brief").details("THR.USER")


@scenario
def test_neither_is_one_that_may_run_elsewhere(guest: NodeResult) -> None:
    found = judged(guest, "visitor")
    is_not_isolated_by(found, "visitor")
    thread = tid(guest, "visitor")
    assert first_fix(found)["commands"] == [f"sudo taskset -pc 0,2 {thread}"]
    assert "it does not leave by itself" in first_fix(found)["text"]
    (user,) = of_cpu_1(found, "THR.USER")
    assert "samples and nowhere else" in user["detail"]


@scenario
def test_an_unbound_worker_that_was_let_in_is_kept_out_again(guest: NodeResult) -> None:
    assert (guest.out / "mask").read_text() == "5\n"  # what the boot line made of it
    found = judged(guest, "worker")
    assert (found.status, found.code) == ("not-isolated", 3)
    cause = found.document["causes"][0]
    assert set(cause["rules"]) == {"THR.FOREIGN", "THR.KUNBOUND"}
    assert "unbound kernel threads: kworker/u" in cause["title"]
    fix = first_fix(found)
    assert fix["commands"] == [f"echo 5 | sudo tee {MASK}"]
    assert fix["undo"] == f"echo f | sudo tee {MASK}"
    (risk,) = found.findings("CFG.WQ")
    assert (risk["outcome"], risk["cpus"], risk["fix"]["commands"]) == ("warn", [1, 3], fix["commands"])
    assert risk["detail"].startswith("unbound work may run on CPUs 0-3, though 1,3 are isolated")


@scenario
def test_out_of_the_mask_no_worker_comes(guest: NodeResult) -> None:
    assert (guest.out / "worker.obeyed").read_text() == "0\n"
    found = judged(guest, "kept")
    assert found.failed() == []
    assert found.code == 0
    assert found.outcomes("CFG.WQ") == ["pass"]
    assert found.outcomes("THR.KUNBOUND") == ["pass", "pass"]
