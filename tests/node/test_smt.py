"""Two cores of two threads each, CPU 3 audited: what its sibling, CPU 2, does to the verdict."""

from __future__ import annotations

import pytest

from tests.node.audits import TSC, Judged, audit, in_background, judged, obey
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

NEIGHBOUR = 'open("/proc/self/comm", "w").write("neighbour")\nwhile True: pass'
# One process on each thread of the core.
BOTH = "import os\nos.sched_setaffinity(0, [2 if os.fork() else 3])\nwhile True: pass"
SCENARIO = Scenario(
    name="smt",
    smp="threads=2",
    append=f"isolcpus=domain,managed_irq,2-3 nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1 {TSC}",
    script="\n".join(
        [
            "cat /sys/devices/system/cpu/cpu[0-3]/topology/thread_siblings_list >$OUT/cores",
            "taskset -c 3 sleep 1000 & own=$!; sleep 1",
            audit("idle", "--workload", "$own", cpus="3"),
            in_background(BOTH),
            "both=$!; sleep 2",
            audit("own", "--workload", "$both", cpus="3"),
            "kill -9 $(cat /proc/$both/task/$both/children) $both; sleep 1",
            in_background(NEIGHBOUR, "2"),
            "sleep 2",
            audit("busy", "--workload", "$own", cpus="3"),
            obey("busy", "CFG.SMT"),
            audit("offline", "--workload", "$own", cpus="3"),
        ]
    ),
)
scenario = pytest.mark.scenario(SCENARIO)


def sentence(found: Judged) -> str:
    """What CFG.SMT says, which is one sentence."""
    (finding,) = found.findings("CFG.SMT")
    assert finding["cpus"] == [3]
    return str(finding["detail"])


@scenario
def test_the_guest_has_two_threads_per_core(guest: NodeResult) -> None:
    assert (guest.out / "cores").read_text().split() == ["0-1", "0-1", "2-3", "2-3"]


@scenario
def test_an_idle_isolated_sibling_is_no_noise(guest: NodeResult) -> None:
    found = judged(guest, "idle")
    assert (found.failed(), found.code) == ([], 0)
    assert found.outcomes("CFG.SMT") == ["pass"]
    assert sentence(found).startswith("CPU 2 shares its core: isolated and idle (busy ")


@scenario
def test_a_sibling_busy_with_own_work_is_no_noise(guest: NodeResult) -> None:
    found = judged(guest, "own")
    assert (found.failed(), found.code) == ([], 0)
    assert found.outcomes("CFG.SMT") == ["pass"]
    assert sentence(found).endswith("% with own threads")
    assert found.document["activity"]["control"]["2"]["busy"] > 0.9


@scenario
def test_a_busy_sibling_is_the_first_cause(guest: NodeResult) -> None:
    found = judged(guest, "busy")
    assert (found.status, found.code) == ("not-isolated", 3)
    assert found.turned("", "fail") == {"CFG.SMT"}
    (finding,) = found.findings("CFG.SMT")
    assert finding["observed"] > 90
    assert (finding["limit"], finding["unit"]) == (10, "%")
    assert "with others' work (seen there: neighbour" in finding["detail"]
    cause = found.document["causes"][0]
    assert (cause["rules"], cause["cpus"]) == (["CFG.SMT"], [3])
    assert cause["fix"]["commands"] == ["echo 0 | sudo tee /sys/devices/system/cpu/cpu2/online"]
    assert cause["fix"]["undo"] == "echo 1 | sudo tee /sys/devices/system/cpu/cpu2/online"


@scenario
def test_a_sibling_that_is_taken_offline_disturbs_no_more(guest: NodeResult) -> None:
    assert (guest.out / "busy.obeyed").read_text() == "0\n"
    found = judged(guest, "offline")
    assert (found.failed(), found.code) == ([], 0)
    assert found.outcomes("CFG.SMT") == ["pass"]
    assert sentence(found) == "no other thread of its core is online, as the hypervisor shows it"
