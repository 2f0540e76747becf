"""The kubelet's configuration: defaults, files, drop-ins and flags, in this order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.kubelet_config import (
    KEYS,
    KubeletConfig,
    Layer,
    configure,
    list_drop_ins,
    merge_patch,
    parse_kubelet_config,
    read_layers,
)
from tests.probes.collected import SHARED

KIND = "kubelet_config"
DIR = "etc/kubelet.d"


def config(**keys: object) -> KubeletConfig:
    return configure([Layer(path="config.yaml", keys=keys)])


def text_of(**keys: object) -> str:
    return json.dumps({"kind": "KubeletConfiguration", **keys})


def test_defaults() -> None:
    assert config() == KubeletConfig(
        cpu_manager_policy="none",
        cpu_manager_policy_options={},
        reconcile_ns=10_000_000_000,
        reserved_system_cpus=None,
        kube_reserved_millis=0,
        system_reserved_millis=0,
        cpu_cfs_quota=True,
        cpu_cfs_quota_period_ns=100_000_000,
        topology_manager_policy="none",
        topology_manager_scope="container",
        topology_manager_policy_options={},
        memory_manager_policy="None",
        feature_gates={},
        cgroup_root="",
        origins={},
    )


def test_what_is_empty_zero_or_null_is_the_default() -> None:
    found = config(cpuManagerPolicy="", cpuManagerReconcilePeriod="0s", cpuCFSQuota=None, reservedSystemCPUs="")
    assert found == configure([Layer(path="config.yaml", keys={})], None) or found.origins
    assert (found.cpu_manager_policy, found.reconcile_ns) == ("none", 10_000_000_000)
    assert (found.cpu_cfs_quota, found.reserved_system_cpus) == (True, None)


def test_every_key() -> None:
    found = parse_kubelet_config(
        """
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
cpuManagerReconcilePeriod: 5s
reservedSystemCPUs: 0,4
kubeReserved: {cpu: 250m, memory: 1Gi}
systemReserved: {memory: 1Gi}
cpuCFSQuota: false
cpuCFSQuotaPeriod: 10ms
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
memoryManagerPolicy: Static
featureGates: {A: false}
cgroupRoot: /kubelet
"""
    )
    assert found == KubeletConfig(
        cpu_manager_policy="static",
        cpu_manager_policy_options={"full-pcpus-only": "true"},
        reconcile_ns=5_000_000_000,
        reserved_system_cpus=frozenset({0, 4}),
        kube_reserved_millis=250,
        system_reserved_millis=0,
        cpu_cfs_quota=False,
        cpu_cfs_quota_period_ns=10_000_000,
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
        memory_manager_policy="Static",
        feature_gates={"A": False},
        cgroup_root="/kubelet",
        origins=dict.fromkeys(KEYS, "config.yaml"),
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cpuManagerPolicy": "Static"}, "cpuManagerPolicy is none of none, static: 'Static'"),
        ({"cpuManagerPolicy": 1}, "cpuManagerPolicy is no string: '1'"),
        ({"reservedSystemCPUs": 0}, "reservedSystemCPUs is no string: '0'"),
        ({"reservedSystemCPUs": "(null)"}, "reservedSystemCPUs is no CPU list: '(null)'"),
        ({"reservedSystemCPUs": "3-1"}, "no CPU list: '3-1' runs backwards"),
        ({"cpuCFSQuota": "false"}, "cpuCFSQuota is no boolean: 'false'"),
        ({"cpuCFSQuotaPeriod": "fast"}, "no duration: 'fast'"),
        ({"systemReserved": ["cpu"]}, "systemReserved is no map of names: \"['cpu']\""),
        ({"systemReserved": {"cpu": 1}}, "systemReserved is a map with values of another type: \"{'cpu': 1}\""),
        ({"systemReserved": {"cpu": "one"}}, "no CPU quantity: 'one'"),
        ({"featureGates": {"A": "true"}}, "featureGates is a map with values of another type: \"{'A': 'true'}\""),
        ({"cpuManagerPolicyOptions": {1: "true"}}, "cpuManagerPolicyOptions is no map of names: \"{1: 'true'}\""),
        ({"memoryManagerPolicy": "none"}, "memoryManagerPolicy is none of None, Static: 'none'"),
    ],
)
def test_what_the_kubelet_refuses_is_an_error(keys: dict[str, object], said: str) -> None:
    with pytest.raises(ProbeError) as caught:
        config(**keys)
    assert (caught.value.path, caught.value.reason) == ("config.yaml", said)


def test_a_later_file_outranks_an_earlier_one_and_maps_are_merged() -> None:
    found = configure(
        [
            Layer(path="a", keys={"cpuManagerPolicy": "none", "featureGates": {"A": True, "B": True, "C": True}}),
            Layer(path="b", keys={"cpuManagerPolicy": "static", "featureGates": {"A": False, "B": None}}),
            Layer(path="c", keys={"kubeReserved": {"cpu": "1"}, "unknown": 1}),
        ]
    )
    assert (found.cpu_manager_policy, found.feature_gates) == ("static", {"A": False, "C": True})
    assert found.origins == {"cpuManagerPolicy": "b", "featureGates": "b", "kubeReserved": "c"}


def test_null_in_a_drop_in_brings_the_default_back() -> None:
    found = configure(
        [Layer(path="a", keys={"reservedSystemCPUs": "0-3"}), Layer(path="b", keys={"reservedSystemCPUs": None})]
    )
    assert (found.reserved_system_cpus, found.origins) == (None, {})


def test_flags_outrank_files_and_replace_maps_but_feature_gates() -> None:
    files = [
        Layer(path="a", keys={"systemReserved": {"cpu": "1", "memory": "1Gi"}, "featureGates": {"A": True, "B": True}}),
    ]
    flags = Layer(
        path="proc/7/cmdline",
        keys={"systemReserved": {"memory": "2Gi"}, "featureGates": {"A": False}, "reservedSystemCPUs": "0"},
    )
    found = configure(files, flags)
    assert (found.system_reserved_millis, found.feature_gates) == (0, {"A": False, "B": True})
    assert (found.reserved_system_cpus, set(found.origins.values())) == (frozenset({0}), {"proc/7/cmdline"})
    assert configure([], flags).feature_gates == {"A": False}


def test_static_needs_a_reservation() -> None:
    assert not config(cpuManagerPolicy="static", kubeReserved={"memory": "1Gi"}).reserves_cpus()
    assert config(kubeReserved={"cpu": "1m"}).reserves_cpus()
    assert config(systemReserved={"cpu": "1"}).reserves_cpus()
    assert config(reservedSystemCPUs="3").reserves_cpus()


def test_a_gate_is_on_where_it_was_set_or_by_the_version() -> None:
    name = "DisableCPUQuotaWithExclusiveCPUs"
    assert [config().gate(name, version) for version in ((1, 32), (1, 33), (1, 37), None)] == [False, True, True, None]
    assert config(featureGates={name: False}).gate(name, (1, 36)) is False
    assert config(featureGates={name: True}).gate(name, None) is True
    assert config(featureGates={"AllBeta": False}).gate(name, (1, 36)) is None


@pytest.mark.parametrize(("value", "strict"), [("true", True), ("1", True), ("false", False), ("yes", False)])
def test_strict_reservation(value: str, strict: bool) -> None:
    assert config(cpuManagerPolicyOptions={"strict-cpu-reservation": value}).strict_reservation is strict


def test_drop_ins_are_read_by_name_with_subdirectories_in_between() -> None:
    names = ("20-b.conf", "10-a/x.conf", "10-a/y.yaml", "README", "30-c/d/z.conf", "15.conf")
    host = DictHost({f"{DIR}/{name}": text_of() for name in names}, links={f"{DIR}/..data": "..2026"})
    assert list_drop_ins(host, DIR) == [f"{DIR}/{n}" for n in ("10-a/x.conf", "15.conf", "20-b.conf", "30-c/d/z.conf")]


def test_a_linked_directory_is_not_entered_but_a_linked_file_is_read() -> None:
    files = {f"{DIR}/..2026/a.conf": text_of(), f"{DIR}/a.conf": text_of(), f"{DIR}/..data/a.conf": text_of()}
    host = DictHost(files, links={f"{DIR}/..data": "..2026", f"{DIR}/a.conf": "..data/a.conf"})
    assert list_drop_ins(host, DIR) == [f"{DIR}/..2026/a.conf", f"{DIR}/a.conf"]


def test_layers_are_the_file_and_its_drop_ins() -> None:
    host = DictHost({"config.yaml": text_of(a=1), f"{DIR}/1.conf": text_of(a=2)})
    kind = {"kind": "KubeletConfiguration"}
    assert read_layers(host, "config.yaml", DIR) == [
        Layer(path="config.yaml", keys={**kind, "a": 1}),
        Layer(path=f"{DIR}/1.conf", keys={**kind, "a": 2}),
    ]
    assert read_layers(host, None, None) == []


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({}, SourceState.MISSING),
        ({DIR: ProbeError(DIR, "permission denied", SourceState.DENIED)}, SourceState.DENIED),
        (
            {f"{DIR}/a/b": ProbeError("b", "x"), f"{DIR}/a": ProbeError("a", "x", SourceState.DENIED)},
            SourceState.DENIED,
        ),
        ({f"{DIR}/a.conf": ProbeError("a", "x", SourceState.DENIED)}, SourceState.DENIED),
        ({f"{DIR}/a.conf": ""}, SourceState.MASKED),
        ({f"{DIR}/a.conf": "a: b"}, SourceState.MALFORMED),
        ({f"{DIR}/{n}.conf": "" for n in range(1001)}, SourceState.MALFORMED),
    ],
)
def test_a_drop_in_that_cannot_be_read_leaves_nothing_known(
    files: dict[str, str | ProbeError], state: SourceState
) -> None:
    with pytest.raises(ProbeError) as caught:
        read_layers(DictHost(files), None, DIR)
    assert caught.value.state is state


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["static", "0-3", "5s", "500m"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["cpu", "A", "\ud800"]), inner),
    max_leaves=4,
)
documents = st.dictionaries(st.sampled_from(sorted(KEYS)), values, max_size=4)


@given(st.lists(documents, max_size=3), st.none() | documents)
def test_nothing_but_a_probe_error(files: list[dict[str, object]], flags: dict[str, object] | None) -> None:
    try:
        found = configure(
            [Layer(path="a", keys=keys) for keys in files], None if flags is None else Layer(path="b", keys=flags)
        )
    except ProbeError:
        return
    json.dumps(found.cpu_manager_policy_options, ensure_ascii=False).encode()
    assert found.cpu_manager_policy in ("none", "static")


@given(documents, documents)
def test_merging_is_a_patch(base: dict[str, object], patch: dict[str, object]) -> None:
    merged = merge_patch(base, patch)
    assert merge_patch(merged, patch) == merged
    assert set(merged) == (set(base) | set(patch)) - {key for key, value in patch.items() if value is None}


@pytest.mark.parametrize(
    ("run", "topology", "strict", "gates"),
    [
        ("default", "none", False, {}),
        ("pod-level", "best-effort", False, {"PodLevelResourceManagers": True}),
        ("strict", "none", True, {}),
    ],
)
def test_recorded_configz(run: str, topology: str, strict: bool, gates: dict[str, bool]) -> None:
    path = SHARED / "recordings" / f"kubelet-1.36.2-{run}.txt"
    if not path.is_file():
        pytest.skip("no recordings beside the repository")
    line = path.read_text(encoding="utf-8").partition("=== CONFIGZ\n")[2].partition("\n")[0]
    found = parse_kubelet_config(line)
    assert (found.cpu_manager_policy, found.reserved_system_cpus) == ("static", frozenset({0, 1}))
    assert (found.topology_manager_policy, found.strict_reservation) == (topology, strict)
    assert (found.feature_gates, found.reconcile_ns) == (gates, 5 * 10**9)
