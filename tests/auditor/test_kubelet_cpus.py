"""Which CPU is what to a kubelet: by state, configuration and what is online."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.kubelet_cpus import KubeletCpus, kubelet_cpus
from probes.cpu_manager_state import CpuManagerState, parse_cpu_manager_state
from probes.cpulist import format_cpulist, parse_cpulist
from probes.host import ProbeError
from probes.kubelet_config import KubeletConfig, Layer, configure, parse_kubelet_config
from tests.probes.collected import SHARED

POD, OTHER_POD = "c5eb47f4-a9a7-4682-ac98-4f2d187e3994", "5f7d4788a2e201c71c6472e9bb4cfe79"
STRICT = {"strict-cpu-reservation": "true"}


def cpus(text: str) -> frozenset[int]:
    return parse_cpulist(text)


def config(**keys: object) -> KubeletConfig:
    return configure([Layer(path="config.yaml", keys={"cpuManagerPolicy": "static", **keys})])


def state(default: str, policy: str = "static", **pods: dict[str, str]) -> CpuManagerState:
    names = {"a": POD, "b": OTHER_POD}
    entries = {names[name]: containers for name, containers in pods.items()}
    return parse_cpu_manager_state(
        json.dumps({"policyName": policy, "defaultCpuSet": default, "entries": entries, "checksum": 0})
    )


def test_reserved_cpus_are_shared_unless_strict() -> None:
    found = kubelet_cpus(state("0-1,4-7", a={"x": "2-3"}), config(reservedSystemCPUs="0-1"), cpus("0-7"))
    assert found == KubeletCpus(
        exclusive=cpus("2-3"),
        shared=cpus("0-1,4-7"),
        reserved=cpus("0-1"),
        free=cpus("4-7"),
        allocatable=cpus("2-7"),
        offline=cpus(""),
        overlap=cpus(""),
        given_twice=cpus(""),
        reserved_given=cpus(""),
        nobodys=cpus(""),
        policy_differs=False,
    )


def test_of_a_quantity_the_kubelet_chooses_which() -> None:
    found = kubelet_cpus(state("0-7"), config(kubeReserved={"cpu": "500m"}), cpus("0-7"))
    assert (found.reserved, found.free, found.allocatable, found.reserved_given) == (None, None, None, None)
    assert (found.nobodys, found.policy_differs) == (cpus(""), False)


def test_of_a_strict_quantity_those_left_over_are_reserved() -> None:
    given = config(kubeReserved={"cpu": "500m"}, systemReserved={"cpu": "1"}, cpuManagerPolicyOptions=STRICT)
    found = kubelet_cpus(state("1-3,5", a={"x": "6-7"}), given, cpus("0-7"))
    assert (found.reserved, found.free, found.nobodys) == (cpus("0,4"), cpus("1-3,5"), cpus(""))
    more = kubelet_cpus(state("1-3", a={"x": "6-7"}), given, cpus("0-7"))
    assert (more.reserved, more.nobodys) == (None, None)


@pytest.mark.parametrize("flags_seen", [True, False])
def test_without_the_whole_configuration_no_hole_is_called_lost(flags_seen: bool) -> None:
    given = ProbeError("config.yaml", "permission denied") if flags_seen else config(reservedSystemCPUs="0")
    found = kubelet_cpus(state("2-7"), given, cpus("0-7"), flags_seen=flags_seen)
    assert (found.reserved, found.free, found.nobodys, found.policy_differs) == (None, None, None, None)


def test_policy_none_gives_nothing_away() -> None:
    given = configure([Layer(path="config.yaml", keys={})])
    found = kubelet_cpus(state("", policy="none"), given, cpus("0-3"))
    assert (found.exclusive, found.shared, found.free) == (cpus(""), cpus("0-3"), cpus(""))
    assert (found.overlap, found.nobodys, found.policy_differs) == (cpus(""), cpus(""), False)
    assert kubelet_cpus(state("", policy="none"), config(), cpus("0-3")).policy_differs is True


def test_what_can_be_wrong() -> None:
    broken = state("0-1,3,9", a={"x": "2-3"}, b={"y": "1-2"})
    found = kubelet_cpus(broken, config(reservedSystemCPUs="1"), cpus("0-7"))
    assert (found.overlap, found.given_twice, found.reserved_given) == (cpus("1,3"), cpus("2"), cpus("1"))
    assert (found.offline, found.nobodys) == (cpus("9"), cpus("4-7"))
    nothing = kubelet_cpus(state("0-2"), config(), cpus("0-3"))
    assert (nothing.reserved, nothing.nobodys) == (cpus(""), cpus("3"))


subsets = st.frozensets(st.integers(0, 9))


@given(subsets, subsets, subsets, subsets, st.booleans())
def test_every_online_cpu_is_something(
    shared: frozenset[int], given: frozenset[int], reserved: frozenset[int], online: frozenset[int], strict: bool
) -> None:
    found = kubelet_cpus(
        state(format_cpulist(shared), a={"x": format_cpulist(given)}),
        config(reservedSystemCPUs=format_cpulist(reserved), cpuManagerPolicyOptions=STRICT if strict else {}),
        online,
    )
    assert found.nobodys is not None
    assert found.reserved is not None
    assert found.free is not None
    assert online <= found.exclusive | found.shared | found.reserved | found.nobodys
    assert not found.free & found.reserved
    assert not found.nobodys & (found.exclusive | found.shared | found.reserved)


@pytest.mark.parametrize(
    ("run", "exclusive", "shared", "free"),
    [("default", "2-4", "0-1,5-7", "5-7"), ("pod-level", "2-6", "0-1,7", "7"), ("strict", "", "2-7", "2-7")],
)
def test_recorded_kubelets(run: str, exclusive: str, shared: str, free: str) -> None:
    path = SHARED / "recordings" / f"kubelet-1.36.2-{run}.txt"
    if not path.is_file():
        pytest.skip("no recordings beside the repository")
    text = path.read_text(encoding="utf-8")
    line = {name: text.partition(f"=== {name}\n")[2].partition("\n")[0] for name in ("STATE", "CONFIGZ", "PODRES")}
    found = kubelet_cpus(parse_cpu_manager_state(line["STATE"]), parse_kubelet_config(line["CONFIGZ"]), cpus("0-7"))
    assert (found.exclusive, found.shared, found.free) == (cpus(exclusive), cpus(shared), cpus(free))
    assert found.reserved == cpus("0-1")
    assert found.allocatable == frozenset(json.loads(line["PODRES"])["allocatable_cpu_ids"])
    wrong = (found.offline, found.overlap, found.given_twice, found.reserved_given, found.nobodys)
    assert wrong == (frozenset(),) * 5
    assert found.policy_differs is False
