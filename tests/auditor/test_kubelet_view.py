"""A kubelet's state against the leaf cgroups of its containers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from auditor.coverage import coverage
from auditor.kubelet_choice import kubelet_choice
from auditor.kubelet_cpus import KubeletCpus
from auditor.kubelet_view import Pinning, views
from probes.cpulist import format_cpulist
from probes.host import DictHost, ProbeError
from probes.kubelet import Kubelet
from probes.pod_cgroups import PodCgroup
from probes.pod_resources import PodResources
from probes.snapshot import Census, read_kubernetes
from probes.threads import ThreadKey, ThreadStatus
from tests.auditor.build import POD, context, cpus, gone, kubelet, node, pod_cgroup
from tests.probes.collected import SHARED


def status(name: str, *, kernel: bool = False) -> ThreadStatus:
    return ThreadStatus(
        name=name,
        state="S",
        kernel=kernel,
        parent_pid=1,
        allowed=cpus(0),
        voluntary_switches=0,
        involuntary_switches=0,
    )


KEY = ThreadKey(pid=7, tid=7)
LEADER = status("kubelet")
KTHREADD = {ThreadKey(pid=2, tid=2): status("kthreadd", kernel=True)}


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


def pinning(*leaves: PodCgroup, **containers: str) -> list[Pinning]:
    text = json.dumps({"policyName": "static", "defaultCpuSet": "0", "entries": {POD: containers or {"app": "1"}}})
    (view,) = views(node(kubelet(state=text), containers=leaves), cpus(0, 1, 2, 3))
    return [item.pinning for item in view.exclusive]


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ([pod_cgroup(name=None)], Pinning.LIVE),
        ([pod_cgroup(cpus(), name=None)], Pinning.ENDED),  # a sandbox alone
        ([pod_cgroup(cpus(0), name=None)], Pinning.UNKNOWN),  # of the shared pool, or drifted
        ([pod_cgroup(cpus(0), name=None), pod_cgroup(cpus(0), name="frac")], Pinning.ENDED),
        ([pod_cgroup(), pod_cgroup()], Pinning.LIVE),
        ([pod_cgroup(), pod_cgroup(cpus(0))], Pinning.CONTRADICTED),
        ([pod_cgroup(gone())], Pinning.UNKNOWN),
        ([pod_cgroup(gone(), name=None)], Pinning.UNKNOWN),
        ([pod_cgroup(effective=gone())], Pinning.LIVE),
    ],
)
def test_which_leaf_is_whose(leaves: list[PodCgroup], expected: Pinning) -> None:
    assert pinning(*leaves) == [expected]


def test_init_containers_without_names() -> None:
    leaf = pod_cgroup(cpus(2, 3), name=None)
    assert pinning(leaf, app="2-3", warm="2") == [Pinning.LIVE, Pinning.ENDED]


def test_what_is_not_known_stays_so() -> None:
    error = gone("state")
    (view,) = views(node(kubelet(state=error)), cpus(0, 1))
    assert (view.cpus, view.state, view.exclusive, view.live()) == (error, error, (), cpus())
    offline = gone("online")
    (view,) = views(node(), offline)
    assert view.cpus is offline


RUNS = {
    "default": ("2-4", "0-1,5-7", "5-7", "app one"),
    "pod-level": ("2-6", "0-1,7", "7", "app ex sh1"),
    "strict": ("", "2-7", "2-7", ""),
}


@pytest.mark.parametrize("run", RUNS)
def test_a_real_kubelet(run: str) -> None:
    """Its files and cgroups as they were, through the whole path: census, configuration, state, leaf cpusets."""
    path = SHARED / "recordings" / f"kubelet-1.36.2-{run}.txt"
    if not path.is_file():
        pytest.skip("no recordings beside the repository")
    host = host_of(path.read_text())
    census = Census(statuses={KEY: LEADER, **KTHREADD}, cgroups={KEY.pid: "/"}, schedstat=True)
    kubernetes = read_kubernetes(host, census)
    (view,) = views(kubernetes, cpus(*range(8)))
    assert isinstance(view.cpus, KubeletCpus)
    exclusive, shared, free, live = RUNS[run]
    assert format_cpulist(view.cpus.exclusive) == format_cpulist(view.live()) == exclusive
    assert (format_cpulist(view.cpus.shared), view.cpus.reserved) == (shared, cpus(0, 1))
    assert view.cpus.free is not None
    assert format_cpulist(view.cpus.free) == free
    named = sorted(item.container for item in view.exclusive if item.pinning is Pinning.LIVE)
    assert named == live.split()
    assert {item.container for item in view.exclusive} - set(named) == ({"warm"} if live else set())
    choice = kubelet_choice([view])
    assert (format_cpulist(choice.cpus), choice.notes) == (exclusive, ())


def host_of(text: str) -> DictHost:
    """The sections STATE, CONFIGZ and CGROUPS as files."""
    lines = text.split("\n")
    config = json.loads(lines[lines.index("=== CONFIGZ") + 1])["kubeletconfig"]
    files: dict[str, str | ProbeError] = {
        "proc/7/cmdline": "/usr/bin/kubelet\0--config=/etc/rig.json\0",
        "proc/7/status": "NSpid:\t7\n",
        "etc/rig.json": json.dumps(config),
        "var/lib/kubelet/cpu_manager_state": lines[lines.index("=== STATE") + 1],
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu\n",
    }
    for group, asked, effective in re.findall(r"^/(\S+) cpus=(\S*) eff=(\S*) ", text, re.MULTILINE):
        files |= {f"{group}/cpuset.cpus": f"{asked}\n", f"{group}/cpuset.cpus.effective": f"{effective}\n"}
    return DictHost(files)


def test_what_the_kubelet_says_of_its_reserved_cpus_outranks_what_it_was_told() -> None:
    mere = "kind: KubeletConfiguration\ncpuManagerPolicy: static\nkubeReserved: {cpu: '1'}\n"
    said = PodResources(containers=(), allocatable=cpus(1, 2))
    everyone = cpus(0, 1, 2)
    (unsure,) = views(node(kubelet(mere)), everyone)
    (asked,) = views(node(kubelet(mere, resources=said)), everyone)
    (named,) = views(node(kubelet(resources=replace(said, allocatable=cpus(0, 1)))), everyone)
    (silent,) = views(node(kubelet(resources=replace(said, allocatable=cpus()))), everyone)  # policy none says so
    found = [view.cpus.reserved for view in (unsure, asked, named, silent) if isinstance(view.cpus, KubeletCpus)]
    assert found == [None, cpus(0), cpus(2), cpus(0)]


def test_a_kubelet_that_was_not_asked_is_missed_only_where_nothing_else_names_the_reserved_cpus() -> None:
    mere = "kind: KubeletConfiguration\ncpuManagerPolicy: static\nkubeReserved: {cpu: '1'}\n"
    socket = "/var/lib/kubelet/pod-resources/kubelet.sock"

    def state_of(given: Kubelet) -> str | None:
        lines = coverage(context(control=(0, 2), kubernetes=node(given)))
        return {line.source: line.state for line in lines}.get(socket)

    assert (state_of(kubelet(mere)), state_of(kubelet())) == ("missing", None)
    assert state_of(kubelet(resources=PodResources(containers=(), allocatable=cpus(1)))) == "read"
    assert state_of(kubelet(mere, pid=None)) is None
