"""Which CPUs are audited, compared with, and left to the tool."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.errors import UsageError
from auditor.targets import choose, kept_free, parse_asked
from probes.cpuset_v1 import V1_ROOT, CpusetsV1, CpusetV1
from probes.isolation import Isolation, Partition
from probes.topology import Topology
from tests.auditor.build import cpus, gone


def topology(online: frozenset[int] = cpus(0, 1, 2, 3), **given: Any) -> Topology:
    values: dict[str, Any] = {"possible": online, "present": online, "siblings": {}, "node": {}, "core_type": {}}
    return Topology(online=online, **{**values, **given})


def isolation(**given: Any) -> Isolation:
    values: dict[str, Any] = {"boot": cpus(), "nohz_full": cpus(), "partitions": (), "cgroup_isolated": gone()}
    return Isolation(**{**values, **given})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", cpus(1)),
        ("1,5", cpus(1, 5)),
        ("2-4", cpus(2, 3, 4)),
        (" 1 , 5 ", cpus(1, 5)),
        ("2 - 4", cpus(2, 3, 4)),
        ("1,1,1-2", cpus(1, 2)),
    ],
)
def test_what_cpus_takes(text: str, expected: frozenset[int]) -> None:
    assert parse_asked(text) == expected


@pytest.mark.parametrize(
    "text", ["all-of-them", "1 5", "1;5", "0x1", "-1", "1-", "5-1", "1,,5", "N", "all", "1.5", "99999999999", "٣"]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as in 1,5 or 2-7") as caught:
        parse_asked(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_an_empty_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--cpus names no CPU"):
        parse_asked(text)


def test_all_others_are_housekeeping_and_control() -> None:
    targets = choose(topology(), isolation(), "1,3")
    assert (targets.audited, targets.housekeeping, targets.control) == (cpus(1, 3), cpus(0, 2), cpus(0, 2))
    assert (targets.roam, targets.counted, targets.chosen_by) == (cpus(0, 2), cpus(0, 1, 2, 3), "--cpus")


def test_only_cpus_of_the_same_kind_are_compared() -> None:
    where = topology(node={0: 0, 1: 0, 2: 0, 3: 1}, core_type={0: "cpu_core", 1: "cpu_core", 2: "cpu_atom"})
    targets = choose(where, isolation(), "1")
    assert (targets.housekeeping, targets.control) == (cpus(0, 2, 3), cpus(0))


def test_the_tool_keeps_off_cpus_that_are_free_for_someone_else() -> None:
    free = isolation(boot=cpus(1, 2), nohz_full=gone())
    assert choose(topology(), free, "1").roam == cpus(0, 3)
    assert choose(topology(), isolation(nohz_full=cpus(0, 2, 3)), "1").roam == cpus(0, 2, 3)


def test_what_the_kernel_keeps_free() -> None:
    partition = Partition(path="/p", state="isolated", cpus=cpus(3))
    assert kept_free(isolation(boot=cpus(1), nohz_full=cpus(2), partitions=(partition,))) == cpus(1, 2, 3)
    assert kept_free(isolation(boot=gone(), nohz_full=gone(), partitions=gone())) == cpus()


@pytest.mark.parametrize(
    ("given", "audited"),
    [
        ({"boot": cpus(1, 2)}, cpus(1, 2)),
        ({"boot": gone(), "cgroup_isolated": cpus(3)}, cpus(3)),
        ({"boot": cpus(1), "partitions": (Partition(path="/p", state="isolated", cpus=cpus(2)),)}, cpus(1, 2)),
        ({"boot": cpus(1, 9)}, cpus(1)),
    ],
)
def test_without_cpus_those_that_the_kernel_isolates(given: dict[str, Any], audited: frozenset[int]) -> None:
    targets = choose(topology(), isolation(**given), None)
    assert (targets.audited, targets.chosen_by) == (audited, "isolated by the kernel")


@pytest.mark.parametrize("given", [{}, {"boot": gone()}, {"boot": cpus(9)}, {"nohz_full": cpus(1)}])
def test_without_cpus_and_without_isolation_it_asks(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the kernel isolates no CPU here"):
        choose(topology(), isolation(**given), None)


def test_an_offline_cpu_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^CPU 5,7 is not online \(online: 0-3\); choose others with --cpus$"):
        choose(topology(), isolation(), "1,5,7")


def test_somewhere_the_host_must_live() -> None:
    with pytest.raises(UsageError, match=r"^all online CPUs \(0-3\) are audited"):
        choose(topology(), isolation(), "0-3")


def test_siblings_of_audited_cpus_are_counted_and_the_tool_sits_elsewhere() -> None:
    pairs = {0: cpus(0, 1), 1: cpus(0, 1), 2: cpus(2, 3), 3: cpus(2, 3)}
    one = choose(topology(siblings=pairs, core_type={2: "cpu_atom"}), isolation(), "3")
    assert (one.siblings, one.control, one.counted) == (cpus(2), cpus(0, 1), cpus(0, 1, 2, 3))
    assert (one.roam, one.seats) == (cpus(0, 1, 2), cpus(0, 1))
    core = choose(topology(siblings=pairs), isolation(), "2,3")
    assert (core.siblings, core.seats) == (cpus(), cpus(0, 1))
    both = choose(topology(siblings=pairs), isolation(), "1,3")
    assert (both.siblings, both.seats) == (cpus(0, 2), cpus(0, 2))
    free = choose(topology(siblings=pairs), isolation(boot=cpus(0, 1, 3)), "3")
    assert (free.roam, free.seats) == (cpus(2), cpus(2))


def test_an_offline_sibling_is_none() -> None:
    assert choose(topology(siblings={3: cpus(3, 7)}), isolation(), "3").siblings == cpus()


def test_what_cpusets_of_v1_leave_alone_is_isolated_by_the_kernel() -> None:
    """All but the CPUs of a balanced cpuset, of those that another one asks for."""
    host = CpusetV1(path=f"{V1_ROOT}/system.slice", cpus=cpus(0, 1), exclusive=False)
    pods = CpusetV1(path=f"{V1_ROOT}/kubepods", cpus=cpus(1, 2), exclusive=False)
    known = isolation(cpusets_v1=CpusetsV1(balancing=(host,), unbalanced=(pods,)))
    assert (choose(topology(), known, None).audited, kept_free(known)) == (cpus(2), cpus(2))
