from __future__ import annotations

from auditor.kubelet_view import Pinning
from tests.auditor.build import context, cpus, kubelet, node, pod_cgroup


def test_a_container_with_the_cpuset_of_its_entry_is_live() -> None:
    (view,) = context(kubernetes=node()).kubelets
    (app,) = view.exclusive
    assert (app.pinning, app.cpus, app.cpuset, app.label) == (Pinning.LIVE, cpus(1), cpus(1), "default/bench/app")
    assert view.live() == cpus(1)


def test_no_cgroup_of_the_pod_is_stale() -> None:
    (view,) = context(kubernetes=node(containers=())).kubelets
    assert [(item.pinning, item.cgroup) for item in view.exclusive] == [(Pinning.STALE, None)]


def test_another_cpuset_contradicts() -> None:
    (view,) = context(kubernetes=node(kubelet(), containers=[pod_cgroup(cpus(0, 1))])).kubelets
    assert [item.pinning for item in view.exclusive] == [Pinning.CONTRADICTED]
