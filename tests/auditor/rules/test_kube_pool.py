"""KUBE.POOL, KUBE.SMT and KUBE.NUMA: the kubelet's sets against the kernel's, and against cores and nodes."""

from __future__ import annotations

from typing import Any

from auditor.context import Context
from auditor.model import Axis, Evidence, Kind, Outcome
from probes.host import SourceState
from probes.isolation import Isolation
from probes.pod_cgroups import PodCgroup
from tests.auditor.build import (
    KUBELET_CONFIG,
    Thread,
    context,
    cpus,
    edit,
    findings,
    gone,
    kubelet,
    node,
    only,
    outcomes,
    pod_cgroup,
)
from tests.auditor.rules.test_kube_drift import APP, OTHERS
from tests.auditor.rules.test_kube_state import KUBELET, OTHER, STATE_PATH, state

WEB = pod_cgroup(cpus(0, 1), **OTHERS)
ISOLATED = "/sys/devices/system/cpu/isolated"


def on(*leaves: PodCgroup, text: str = "", config: str = KUBELET_CONFIG, threads: Any = (), **given: Any) -> Context:
    kubernetes = node(kubelet(config, text or None), containers=leaves or None)
    values = {"kubernetes": kubernetes, "threads": [KUBELET, *threads], "own": [APP], **given}
    return context(**values)


def test_isolated_cpus_are_exclusive() -> None:
    found = only(on(), "KUBE.POOL")
    assert (found.outcome, found.detail) == (Outcome.PASS, "none of these CPUs is both isolated and in the shared pool")


def test_no_isolated_cpu() -> None:
    found = only(on(isolated=cpus()), "KUBE.POOL")
    assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "the kernel isolates no CPU")


def test_an_isolated_cpu_in_the_pool() -> None:
    found = only(on(WEB, text=state("0-1")), "KUBE.POOL")
    assert (found.outcome, found.cpus, found.observed, found.limit) == (Outcome.WARN, (1,), 0, 0)
    assert found.title == "shared pool and isolated CPUs: isolated CPUs"
    assert found.detail == (
        "isolated CPUs 1 are in the kubelet's shared pool: nothing moves a thread away that gets there; "
        f"1 containers may run there ({OTHER}/web), none was seen"
    )
    assert found.evidence == (
        Evidence(path=f"/{STATE_PATH}", field="defaultCpuSet", value="1"),
        Evidence(path=ISOLATED, field="list", value="1"),
    )
    assert found.fix is not None
    none = only(on(WEB, text=state("", policy="none")), "KUBE.POOL")
    assert none.evidence[0] == Evidence(path=f"/{STATE_PATH}", field="policyName", value="none")
    alone = only(on(pod_cgroup(cpus(0), **OTHERS), text=state("0-1")), "KUBE.POOL")
    assert alone.detail.endswith("; no container has them now")
    dark = context(kubernetes=node(kubelet(state=state("0-1")), containers=gone("sys/fs/cgroup")))
    assert only(dark, "KUBE.POOL").detail.endswith("; which containers may run there is not known")


def test_a_thread_of_the_pool_ran_on_an_isolated_cpu() -> None:
    web = Thread(
        tid=700, name="nginx", on=cpus(0, 1), cgroup=f"/kubepods/pod{OTHER}/{'b' * 64}", seen={1: 3}, switches=9
    )
    given: dict[str, Any] = {"threads": [web], "switches": {1: 9}, "busy": {1: 0.1}}
    found = only(on(WEB, text=state("0-1"), **given), "KUBE.POOL")
    assert (found.outcome, found.observed) == (Outcome.FAIL, 1)
    assert found.detail.endswith("; threads of pods ran there: nginx")


def test_exclusive_cpus_that_are_not_isolated() -> None:
    found = only(on(isolated=cpus(2), control=(0, 2)), "KUBE.POOL")
    assert (found.outcome, found.cpus, found.observed) == (Outcome.WARN, (1,), 1)
    assert found.detail == "exclusive CPUs 1 are not isolated, isolated ones (2) are not given away"
    assert found.fix is not None
    assert found.fix.text.startswith("reserve what the kernel does not isolate: reservedSystemCPUs: '0-1'; ")


def isolation(**given: Any) -> Isolation:
    values: dict[str, Any] = {
        "boot": cpus(),
        "nohz_full": cpus(),
        "partitions": (),
        "cgroup_isolated": gone("cpuset.cpus.isolated"),
        **given,
    }
    return Isolation(**values)


def test_isolation_that_is_not_known() -> None:
    denied = gone("sys/fs/cgroup", SourceState.DENIED)
    for given, outcome in (
        ({"boot": gone("isolated")}, Outcome.UNKNOWN),
        ({"partitions": denied}, Outcome.UNKNOWN),
        ({"walk_cut": True}, Outcome.UNKNOWN),
        ({"walk_cut": True, "cgroup_isolated": cpus(1)}, Outcome.PASS),
        ({"partitions": gone("sys/fs/cgroup")}, Outcome.NOT_APPLICABLE),
    ):
        ctx = edit(on(), "after.config.isolation", isolation(**given))
        assert outcomes(ctx, "KUBE.POOL") == [outcome], given
    blind = edit(on(), "after.config.online", gone("online"))
    assert outcomes(blind, "KUBE.POOL") == [Outcome.UNKNOWN]
    assert outcomes(blind, "KUBE.RESERVED") == [Outcome.UNKNOWN]


def smt(core: frozenset[int], text: str = "", config: str = KUBELET_CONFIG, *leaves: PodCgroup) -> Context:
    siblings = {cpu: core if cpu in core else cpus(cpu) for cpu in range(6)}
    return on(*leaves, text=text or state("0,2-5", app="1"), config=config, siblings=siblings, control=(0, 2, 3, 4, 5))


def test_a_core_of_ones_own() -> None:
    found = only(smt(cpus(1)), "KUBE.SMT")
    assert (found.outcome, found.cpus) == (Outcome.PASS, (1,))
    both = smt(cpus(1, 5), state("0,2-4", app="1,5"), KUBELET_CONFIG, pod_cgroup(cpus(1, 5)))
    assert outcomes(both, "KUBE.SMT") == [Outcome.PASS]
    within = smt(cpus(1, 5), state("0,2-4", app="1", side="5"))
    assert outcomes(within, "KUBE.SMT") == [Outcome.PASS]  # a container of the same pod


def test_a_neighbour_of_the_pool() -> None:
    found = only(smt(cpus(1, 5)), "KUBE.SMT")
    assert (found.outcome, found.kind, found.observed, found.limit) == (Outcome.WARN, Kind.RISK, 1, 0)
    assert found.title == "core shared with another container: default/bench/app"
    assert found.detail == "its core is shared: CPU 5 is the shared pool"
    path = "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list"
    assert found.evidence == (Evidence(path=path, field="list", value="1,5"),)
    assert found.fix is not None
    assert found.fix.text.startswith("set cpuManagerPolicyOptions full-pcpus-only: 'true', and ask for whole cores; ")


def test_each_audited_cpu_is_spoken_of() -> None:
    """One with a neighbour, one without, one that is nobody's."""
    siblings = {1: cpus(1, 3), 2: cpus(2), 5: cpus(5)}
    ctx = on(
        pod_cgroup(cpus(1, 2)), text=state("0,3-5", app="1-2"), siblings=siblings, audited=(1, 2, 5), control=(0, 3, 4)
    )
    found = [(item.outcome, item.cpus, item.detail) for item in findings(ctx, "KUBE.SMT")]
    assert found == [
        (Outcome.WARN, (1,), "its core is shared: CPU 3 is the shared pool"),
        (Outcome.PASS, (2,), "no other container may run in the same core"),
        (Outcome.NOT_APPLICABLE, (5,), "no container has these CPUs exclusively"),
    ]


def test_other_neighbours() -> None:
    strict = KUBELET_CONFIG + "cpuManagerPolicyOptions: {strict-cpu-reservation: 'true', full-pcpus-only: 'true'}\n"
    found = only(smt(cpus(0, 1), state("2-5", app="1"), strict), "KUBE.SMT")
    assert found.detail == "its core is shared: CPU 0 is reserved for the host"
    assert found.fix is not None
    assert found.fix.text.startswith("full-pcpus-only is set")
    web = pod_cgroup(cpus(5), **{**OTHERS, "name": "app"})
    other = only(smt(cpus(1, 5), state("0,2-4", app="1", other="5"), KUBELET_CONFIG, pod_cgroup(), web), "KUBE.SMT")
    assert other.detail == f"its core is shared: CPU 5 is {OTHER}/app"
    stale = only(smt(cpus(1, 5), state("0,2-4", app="1", other="5")), "KUBE.SMT")
    assert stale.detail == f"its core is shared: CPU 5 is {OTHER}/app (stale)"


def test_cores_that_are_not_told() -> None:
    found = only(on(siblings={}), "KUBE.SMT")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "which CPUs share the core of CPU 1 is not told")


def numa(node_of: dict[int, int]) -> Context:
    ctx = on(pod_cgroup(cpus(1, 2)), text=state("0", app="1-2"), control=(0, 2))
    return edit(ctx, "facts.topology.node", node_of)


def test_one_node() -> None:
    found = only(numa({0: 0, 1: 0, 2: 0}), "KUBE.NUMA")
    assert (found.outcome, found.axis) == (Outcome.PASS, Axis.READINESS)


def test_several_nodes() -> None:
    found = only(numa({0: 0, 1: 0, 2: 1}), "KUBE.NUMA")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.WARN, 2, 1, "nodes")
    assert (found.cpus, found.detail) == ((1,), "CPUs 1 on node 0; CPUs 2 on node 1")
    assert found.evidence == (
        Evidence(path="/sys/devices/system/node/node0/cpulist", field="list", value="1"),
        Evidence(path="/sys/devices/system/node/node1/cpulist", field="list", value="2"),
    )
    assert found.fix is not None
    assert found.fix.text.startswith("set topologyManagerPolicy: single-numa-node (now none), ")


def test_nodes_that_are_not_told() -> None:
    found = only(numa({0: 0, 1: 0}), "KUBE.NUMA")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "to which NUMA node CPUs 2 belong is not told")
