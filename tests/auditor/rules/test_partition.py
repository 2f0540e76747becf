"""Partitions that were asked for, and are none."""

from __future__ import annotations

import pytest

from auditor.model import Outcome
from probes.host import ProbeError, SourceState
from probes.isolation import Partition
from tests.auditor.build import context, cpus, gone, only

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
