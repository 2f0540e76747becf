"""CPUs, memory and huge pages of the same node, or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.coverage import coverage
from auditor.model import Axis, Evidence, FixKind, Outcome
from auditor.policy import Policy
from auditor.rules.config import settings
from probes.host import ProbeError, SourceState
from probes.numa import Numa, OwnMemory, Pool
from probes.topology import NODE_DIR
from tests.auditor.build import Thread, context, cpus, findings, gone, only

MIB = 1 << 20
TWO = Numa(cpus={0: cpus(0, 2), 1: cpus(1, 3)}, memory=frozenset({0, 1}))
APP = Thread(tid=100)
LEAF = "sys/fs/cgroup/app.slice"


def memory(allowed: Any = frozenset({0, 1}), **placed: Any) -> OwnMemory:
    """``N0=…`` MiB on that node."""
    where = {int(node[1:]): mib * MIB for node, mib in placed.items()}
    return OwnMemory(allowed={100: allowed}, placed={LEAF: where} if placed else {})


def made(own_memory: OwnMemory | None = None, numa: Numa | ProbeError = TWO, **given: Any) -> Context:
    values: dict[str, Any] = {"threads": [APP], "control": (0, 2), **given}
    return context(numa=numa, own_memory=own_memory or memory(), **values)


def test_one_node() -> None:
    found = only(context(), "CFG.NUMA")
    assert (found.outcome, found.axis, found.detail) == (
        Outcome.NOT_APPLICABLE,
        Axis.READINESS,
        "all memory is of one node",
    )


def test_near() -> None:
    found = only(made(memory(N0=1, N1=900)), "CFG.NUMA")
    assert (found.outcome, found.fix) == (Outcome.PASS, None)
    assert found.detail == "on node 1, and so is what is seen of the workload's memory"
    assert found.evidence == (
        Evidence(path=f"/{NODE_DIR}/node1/cpulist", field="CPUs", value="1,3"),
        Evidence(path=f"/{NODE_DIR}/has_memory", field="nodes", value="0-1"),
        Evidence(path="/proc/100/status", field="Mems_allowed_list", value="0-1"),
        Evidence(path=f"/{LEAF}/memory.numa_stat", field="anon + shmem", value=f"N0={MIB} N1={900 * MIB}"),
    )


def test_without_a_workload_there_is_no_memory_to_judge() -> None:
    found = only(made(OwnMemory(), threads=[]), "CFG.NUMA")
    assert (found.outcome, found.detail) == (
        Outcome.NOT_APPLICABLE,
        "on node 1; no own thread is here whose memory could be judged",
    )


def test_another_node_than_the_cpuset_allows() -> None:
    found = only(made(memory(frozenset({0}))), "CFG.NUMA")
    assert (found.outcome, found.detail) == (Outcome.WARN, "on node 1: PID 100 may have memory of node 0 only")
    assert found.fix is not None
    assert (found.fix.kind, found.fix.commands) == (FixKind.WORKLOAD, ())
    assert "numactl --membind=1" in found.fix.text


@pytest.mark.parametrize(
    ("own", "policy", "outcome"),
    [
        (memory(N0=10, N1=90), None, Outcome.PASS),  # at the limit
        (memory(N0=11, N1=89), None, Outcome.WARN),
        (memory(N0=11, N1=89), Policy(remote_memory=0.5), Outcome.PASS),
        (memory(N0=15), None, Outcome.PASS),  # too little to matter
        (memory(N0=16), None, Outcome.WARN),
    ],
)
def test_memory_that_is_elsewhere(own: OwnMemory, policy: Policy | None, outcome: Outcome) -> None:
    assert only(made(own, policy=policy), "CFG.NUMA").outcome is outcome


def test_far_memory_can_be_moved() -> None:
    found = only(made(memory(N0=75, N1=25)), "CFG.NUMA")
    assert found.detail == f"on node 1: 75% of 100 MiB of /{LEAF} are on other nodes"
    assert found.fix is not None
    assert found.fix.commands == ("sudo migratepages 100 0 1",)


def test_a_thread_that_may_run_on_both_nodes_and_threads_on_one_each() -> None:
    wide = made(memory(N0=50, N1=50), audited=(1, 2), control=(0, 3), threads=[replace(APP, on=cpus(1, 2))])
    assert [found.detail for found in findings(wide, "CFG.NUMA")] == [
        "on node 1: a thread of PID 100 may run on nodes 0-1",
        "on node 0: a thread of PID 100 may run on nodes 0-1",
    ]
    pair = [APP, Thread(tid=101, pid=100, on=cpus(2))]
    each = made(memory(N0=50, N1=50), audited=(1, 2), control=(0, 3), threads=pair)
    assert {found.outcome for found in findings(each, "CFG.NUMA")} == {Outcome.PASS}


def test_a_node_without_memory() -> None:
    found = only(made(numa=replace(TWO, memory=frozenset({0})), threads=[]), "CFG.NUMA")
    assert (found.outcome, found.detail) == (Outcome.WARN, "on node 1: it has no memory")


def test_huge_pages_of_other_nodes_only() -> None:
    pools = {0: {2048: Pool(total=512, free=100), 1048576: Pool(total=0, free=0)}}
    pools[1] = {2048: Pool(total=0, free=0), 1048576: Pool(total=0, free=0)}
    numa = replace(TWO, node_pools=pools, pools={2048: Pool(total=512, free=100, reserved=7), 4: gone()})
    found = only(made(numa=numa), "CFG.NUMA")
    assert (found.outcome, found.detail) == (
        Outcome.WARN,
        "on node 1: none of the 512 huge pages of 2048 KiB are there",
    )
    path = f"/{NODE_DIR}/node1/hugepages/hugepages-2048kB/nr_hugepages"
    assert Evidence(path=path, field="pages", value="0") in found.evidence
    assert found.fix is not None
    assert found.fix.commands == (f"echo 256 | sudo tee {path}",)
    (setting,) = [item for item in settings(made(numa=numa)) if "huge" in item.name]
    assert (setting.name, setting.effective) == (
        "huge pages of 2048 KiB",
        "100 of 512 free, 7 of them reserved (node 0: 100 of 512, node 1: 0 of 0)",
    )


def test_huge_pages_are_told_only_where_there_are_some() -> None:
    one = Numa(cpus={0: cpus(0, 1)}, memory=frozenset({0}), pools={2048: Pool(total=4, free=4, reserved=0)})
    told = [item.effective for item in settings(context(numa=one)) if "huge" in item.name]
    assert told == ["4 of 4 free"]
    assert [item for item in settings(context(numa=gone())) if "huge" in item.name] == []


@pytest.mark.parametrize(
    ("own", "numa"),
    [
        (memory(gone()), TWO),
        (OwnMemory(allowed={100: frozenset({1})}, placed={LEAF: gone(state=SourceState.DENIED)}), TWO),
        (memory(), replace(TWO, memory=gone())),
        (memory(), replace(TWO, cpus={0: cpus(0), 1: gone()})),
        (memory(), replace(TWO, cpus={0: cpus(0), 1: cpus(3)})),
        (memory(), gone()),
    ],
)
def test_what_is_not_known(own: OwnMemory, numa: Any) -> None:
    ctx = made(own, numa)
    assert only(ctx, "CFG.NUMA").outcome is Outcome.UNKNOWN
    gaps = [line for line in coverage(ctx) if line.source == "/sys/devices/system/node" and line.state != "read"]
    assert len(gaps) == (not isinstance(numa, Numa) or numa.cpus.get(1) != cpus(3))


def test_a_cgroup_without_the_controller_and_one_that_can_t_be_told_say_nothing() -> None:
    assert only(made(memory()), "CFG.NUMA").outcome is Outcome.PASS
    other = OwnMemory(allowed={100: frozenset({1})}, placed={"sys/fs/cgroup/other": {0: 99 * MIB}})
    assert only(made(other), "CFG.NUMA").outcome is Outcome.PASS
