"""Partitions that were asked for, and are none."""

from __future__ import annotations

import pytest

from auditor.context import Context
from auditor.model import Outcome
from probes.cpuset_v1 import BALANCE, EXCLUSIVE, V1_ROOT, CpusetsV1, CpusetV1
from probes.host import ProbeError, SourceState
from probes.isolation import Partition
from tests.auditor.build import context, cpus, edit, findings, gone, only

ROOT = "sys/fs/cgroup"
ONE = cpus(1)
INVALID = "isolated invalid (Parent is not a partition root)"


def partition(state: str, path: str = "/pods/a b", asked: frozenset[int] | ProbeError = ONE) -> Partition:
    return Partition(path=ROOT + path, state=state, cpus=cpus(1), asked=asked)


def test_an_invalid_partition_fails_with_the_reason_of_the_kernel_and_the_way_out() -> None:
    found = only(context(partitions=(partition(INVALID),), release="6.12.1"), "CFG.PARTITION")
    assert (found.outcome, found.cpus, found.title) == (Outcome.FAIL, (1,), "cpuset partition: /pods/a b")
    assert found.detail == (
        "asked to be isolated, and is no partition: the kernel says 'Parent is not a partition root'"
    )
    assert (found.evidence[0].path, found.evidence[0].value) == (f"/{ROOT}/pods/a b/cpuset.cpus.partition", INVALID)
    assert found.fix is not None
    assert found.fix.commands == (
        "echo 1 | sudo tee /sys/fs/cgroup/pods/cpuset.cpus.exclusive",
        "echo 1 | sudo tee '/sys/fs/cgroup/pods/a b/cpuset.cpus.exclusive'",
        "echo isolated | sudo tee '/sys/fs/cgroup/pods/a b/cpuset.cpus.partition'",
    )
    assert found.fix.undo.startswith("echo member | sudo tee '/sys/fs/cgroup/pods/a b/cpuset.cpus.partition'; echo | ")


@pytest.mark.parametrize(
    ("release", "state"),
    [("6.1.0", INVALID), ("6.12.1", "isolated invalid (Cpu list in cpuset.cpus not exclusive)")],
)
def test_where_no_command_is_sure_to_help_the_boot_line_does(release: str, state: str) -> None:
    found = only(context(partitions=(partition(state),), release=release, isolated=cpus()), "CFG.PARTITION")
    assert found.outcome is Outcome.FAIL
    assert found.fix is not None
    assert found.fix.commands == ()
    assert found.fix.boot["isolcpus"].endswith(",1")


def test_old_kernels_do_not_say_why() -> None:
    found = only(context(partitions=(partition("root invalid"),)), "CFG.PARTITION")
    assert found.detail.startswith("asked to be root, and is no partition; this kernel does not say why")


def test_what_it_asks_for_may_be_unreadable() -> None:
    denied = gone(f"{ROOT}/p/cpuset.cpus", SourceState.DENIED)
    found = only(context(partitions=(partition(INVALID, asked=denied),), release="6.12.1"), "CFG.PARTITION")
    assert (found.outcome, found.cpus) == (Outcome.WARN, (1,))


def test_a_hybrid_hierarchy_has_its_own_root() -> None:
    item = Partition(path="sys/fs/cgroup/unified/p", state=INVALID, cpus=cpus(1), asked=cpus(1))
    found = only(context(partitions=(item,), release="6.12.1"), "CFG.PARTITION")
    assert found.title == "cpuset partition: /p"
    assert found.fix is not None
    assert found.fix.commands[0] == "echo 1 | sudo tee /sys/fs/cgroup/unified/p/cpuset.cpus.exclusive"


@pytest.mark.parametrize(
    ("partitions", "outcome", "detail"),
    [
        ((), Outcome.NOT_APPLICABLE, "no cpuset partition asks for these CPUs"),
        ((partition(INVALID, asked=cpus(0)),), Outcome.NOT_APPLICABLE, "no cpuset partition asks for these CPUs"),
        ((partition("isolated", "/p"),), Outcome.PASS, "in force: /p (isolated, CPUs 1)"),
        (gone("sys/fs/cgroup"), Outcome.NOT_APPLICABLE, "missing for this test"),
        (gone("sys/fs/cgroup", SourceState.DENIED), Outcome.UNKNOWN, "/sys/fs/cgroup: denied for this test"),
    ],
)
def test_what_else_there_is(partitions: tuple[Partition, ...] | ProbeError, outcome: Outcome, detail: str) -> None:
    found = only(context(partitions=partitions), "CFG.PARTITION")
    assert (found.outcome, found.detail) == (outcome, detail)


POD_V1 = CpusetV1(path=f"{V1_ROOT}/kubepods/pod", cpus=cpus(1, 2), exclusive=False)
ALL_V1 = CpusetV1(path=V1_ROOT, cpus=cpus(0, 1, 2), exclusive=gone())


def with_v1(
    *balancing: CpusetV1, partitions: object = (), unbalanced: tuple[CpusetV1, ...] = (POD_V1,), whole: bool = True
) -> Context:
    ctx = edit(context(isolated=cpus()), "after.config.isolation.partitions", partitions)
    cpusets = CpusetsV1(balancing=balancing, unbalanced=unbalanced, whole=whole)
    return edit(ctx, "after.config.isolation.cpusets_v1", cpusets)


@pytest.mark.parametrize("partitions", [(), gone()])
def test_a_cpuset_of_v1_that_asks_not_to_be_balanced_and_is(partitions: object) -> None:
    found = only(with_v1(ALL_V1, partitions=partitions), "CFG.PARTITION")
    assert (found.outcome, found.cpus) == (Outcome.FAIL, (1,))
    assert found.title == "cpuset partition: /kubepods/pod (cgroup v1)"
    assert found.detail == "asked not to be balanced, and is: / has its CPUs and is"
    assert [(item.path, item.value) for item in found.evidence] == [
        (f"/{V1_ROOT}/kubepods/pod/{BALANCE}", "0"),
        (f"/{V1_ROOT}/kubepods/pod/{EXCLUSIVE}", "0"),
    ]
    assert found.fix is not None
    assert found.fix.boot["isolcpus"].endswith(",1")


def test_one_that_is_left_alone() -> None:
    other = CpusetV1(path=f"{V1_ROOT}/system.slice", cpus=cpus(0), exclusive=False)
    found = only(with_v1(other, partitions=gone()), "CFG.PARTITION")
    assert (found.outcome, found.fix) == (Outcome.PASS, None)
    assert found.detail == "/kubepods/pod is not balanced, and no balanced cpuset has its CPUs"


@pytest.mark.parametrize(("whole", "other"), [(False, cpus(0)), (True, gone())])
def test_what_can_t_be_told_of_the_others_is_unknown(whole: bool, other: frozenset[int] | ProbeError) -> None:
    beside = CpusetV1(path=f"{V1_ROOT}/a", cpus=other, exclusive=False)
    assert only(with_v1(beside, whole=whole), "CFG.PARTITION").outcome is Outcome.UNKNOWN


def test_cpusets_of_v1_with_other_cpus_and_partitions_beside_them() -> None:
    elsewhere = CpusetV1(path=f"{V1_ROOT}/a", cpus=cpus(2), exclusive=gone())
    unread = CpusetV1(path=f"{V1_ROOT}/b", cpus=gone(), exclusive=gone())
    quiet = with_v1(ALL_V1, partitions=gone(), unbalanced=(elsewhere, unread))
    assert only(quiet, "CFG.PARTITION").outcome is Outcome.NOT_APPLICABLE
    both = findings(with_v1(ALL_V1, partitions=(partition(INVALID),)), "CFG.PARTITION")
    assert [found.outcome for found in both] == [Outcome.FAIL, Outcome.FAIL]
