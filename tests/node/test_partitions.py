"""Isolation at runtime, by cgroup v2 partitions, on a node booted without any parameter for it."""

from __future__ import annotations

import pytest

from tests.node.audits import NOISE, TSC, audit, judged, obey
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
WITHOUT_NOHZ = {"rcuc", "ktimers", "migration", "ksoftirqd", "kworker"}
"""Threads of a CPU that work there as long as nohz_full does not send that work elsewhere."""
MAKE = """mkdir /sys/fs/cgroup/latency
echo 1,3 >/sys/fs/cgroup/latency/cpuset.cpus
echo {kind} >/sys/fs/cgroup/latency/cpuset.cpus.partition
cat /sys/fs/cgroup/latency/cpuset.cpus.partition >$OUT/{kind}.state"""
# What was idle when it left the scheduler domains may stay on the list of idle CPUs that balance for others; what was
# offline since is not on it. 6.1 rebuilds the domains by and by.
RETURN = """for cpu in 1 3; do for state in 0 1; do echo $state >/sys/devices/system/cpu/cpu$cpu/online; done; done
sleep 1"""
UNMAKE = "echo member >/sys/fs/cgroup/latency/cpuset.cpus.partition; rmdir /sys/fs/cgroup/latency"
# A partition below an ordinary cgroup is no partition.
INVALID = """mkdir -p /sys/fs/cgroup/pods/latency
echo +cpuset >/sys/fs/cgroup/pods/cgroup.subtree_control
echo 1,3 >/sys/fs/cgroup/pods/cpuset.cpus
echo 1,3 >/sys/fs/cgroup/pods/latency/cpuset.cpus
echo isolated >/sys/fs/cgroup/pods/latency/cpuset.cpus.partition
cat /sys/fs/cgroup/pods/latency/cpuset.cpus.partition >$OUT/invalid.state"""
REPAIRED = "cat /sys/fs/cgroup/pods/latency/cpuset.cpus.partition >$OUT/repaired.state"


def scenario(kernel: str) -> Scenario:
    """Four audits in one boot."""
    lines = [
        NOISE,
        MAKE.format(kind="isolated"),
        RETURN,
        audit("isolated"),
        obey("isolated", "IRQ.AFFINITY"),
        audit("steered"),
        UNMAKE,
        MAKE.format(kind="root"),
        audit("root"),
        UNMAKE,
        INVALID,
        audit("invalid"),
        obey("invalid", "CFG.PARTITION"),
        REPAIRED,
    ]
    return Scenario(name=f"partitions-{kernel}", kernel=kernel, append=TSC, script="\n".join(lines))


@pytest.fixture(params=[pytest.param(kernel, marks=pytest.mark.scenario(scenario(kernel))) for kernel in KERNELS])
def partitions(request: pytest.FixtureRequest, guest: NodeResult) -> tuple[str, NodeResult]:
    """The kernel and its finished guest."""
    return str(request.param), guest


Partitions = tuple[str, NodeResult]


def test_an_isolated_partition_shuts_the_domain_and_not_the_interrupts(partitions: Partitions) -> None:
    found = judged(partitions[1], "isolated")
    assert found.outcomes("CFG.DOMAIN") == ["pass", "pass"]
    assert found.details("CFG.PARTITION") == "in force: /latency (isolated, CPUs 1,3)"
    assert "fail" in found.outcomes("IRQ.AFFINITY")  # those of a CPU that was offline moved on
    assert found.outcomes("SIRQ.SCHED") == ["pass", "pass"]
    assert found.code == 3
    assert found.status in ("exposed", "not-isolated")  # without nohz_full the CPU's own threads go on


def test_steering_as_told_shuts_the_other_door(partitions: Partitions) -> None:
    guest = partitions[1]
    assert (guest.out / "isolated.obeyed").read_text() == "0\n"
    found = judged(guest, "steered")
    # A queue that is silent moves with its next event: a warning.
    assert "fail" not in found.outcomes("IRQ.AFFINITY")
    assert found.outcomes("CFG.DOMAIN") == ["pass", "pass"]
    names = [
        f["title"].partition(": ")[2]
        for rule in ("THR.KBOUND", "THR.KUNBOUND", "THR.USER")
        for f in found.findings(rule)
        if f["outcome"] in ("warn", "fail")
    ]
    assert {name.partition("/")[0] for name in names} <= WITHOUT_NOHZ
    assert set(found.turned("", "fail")) <= {"THR.FOREIGN", "THR.KBOUND"}
    assert "nohz_full=1,3" in found.document["boot_line"]


def test_idle_cpus_of_a_root_partition_balance_for_the_machine(partitions: Partitions) -> None:
    found = judged(partitions[1], "root")
    assert (partitions[1].out / "root.state").read_text() == "root\n"
    assert found.outcomes("CFG.DOMAIN") == ["pass", "pass"]
    assert (
        found.details("CFG.DOMAIN").splitlines()[0]
        == "balanced only among the audited CPUs 1,3 (cpuset root partition)"
    )
    assert "fail" in found.outcomes("SIRQ.SCHED")
    (balancer,) = [cause for cause in found.document["causes"] if "SIRQ.SCHED" in cause["rules"]]
    assert "asked to balance for the whole machine" in balancer["fix"]["text"]
    assert balancer["fix"]["boot"]["nohz_full"] == "1,3"
    assert (found.status, found.code) == ("not-isolated", 3)


def test_an_invalid_partition_is_named_with_the_words_of_the_kernel(partitions: Partitions) -> None:
    kernel, guest = partitions
    found = judged(guest, "invalid")
    (lost,) = found.findings("CFG.PARTITION")
    assert (lost["outcome"], lost["cpus"], lost["title"]) == ("fail", [1, 3], "cpuset partition: /pods/latency")
    says = {
        "6.12-rt": "Invalid cpu list in cpuset.cpus.exclusive",
        "6.1-rt": "Parent is not a partition root",
    }[kernel]
    assert lost["detail"] == f"asked to be isolated, and is no partition: the kernel says {says!r}"
    assert found.outcomes("CFG.DOMAIN") == ["fail", "fail"]
    assert (found.status, found.code) == ("not-isolated", 3)


def test_the_repair_that_is_told_makes_it_valid(partitions: Partitions) -> None:
    """Only from 6.7 on there are commands for it."""
    kernel, guest = partitions
    valid = (guest.out / "repaired.state").read_text() == "isolated\n"
    assert valid is (kernel == "6.12-rt")
