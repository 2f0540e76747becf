"""Cgroups of pods in the layouts of both drivers and all runtimes."""

from __future__ import annotations

import pytest

from probes.cgroup_cpu import INITIAL_NAMESPACE
from probes.host import DictHost, ProbeError, SourceState
from probes.pod_cgroups import PodCgroup, PodCgroups, read_pod_cgroups
from probes.record import Recorder
from tests.auditor.build import cpus, gone

V2 = "sys/fs/cgroup"
UID = "0aa1d6f2-0000-4000-8000-000000000001"
SLICE_UID = UID.replace("-", "_")
STATIC = "b930f583721fb9c7aa5034482168d52c"
ID, OTHER = "a" * 64, "b" * 64
LOGS = {f"var/log/containers/bench_default_app-{ID}.log": f"/var/log/pods/default_bench_{UID}/app/0.log"}

MODES = {f"var/log/pods/kube-system_etcd_{STATIC}": 0o755}


def v2(*leaves: str, cpus: str = "2-3", **given: str) -> dict[str, str | ProbeError]:
    files: dict[str, str | ProbeError] = {f"{V2}/cgroup.controllers": "cpuset cpu\n"}
    for leaf in leaves:
        files[f"{V2}/{leaf}/cpuset.cpus"] = f"{cpus}\n"
        files[f"{V2}/{leaf}/cpuset.cpus.effective"] = f"{cpus}\n"
    return {**files, **{path.replace("__", "/"): text for path, text in given.items()}}


def read(host: DictHost | Recorder, *cgroups: str, complete: bool = True) -> PodCgroups:
    found = read_pod_cgroups(host, cgroups, [""], complete=complete)
    assert isinstance(found, PodCgroups)
    return found


def only(host: DictHost, *cgroups: str) -> PodCgroup:
    (found,) = read(host, *cgroups).containers
    return found


@pytest.mark.parametrize(
    ("leaf", "pod"),
    [
        (f"kubepods/pod{UID}/{ID}", UID),
        (f"kubepods/pod{STATIC}/{ID}", STATIC),
        (f"kubepods/burstable/pod{UID}/{ID}", UID),
        (f"kubepods/besteffort/pod{UID}/crio-{ID}", UID),
        (f"kubepods.slice/kubepods-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope", UID),
        (f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice/crio-{ID}.scope", UID),
        (f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{STATIC}.slice/docker-{ID}.scope", STATIC),
    ],
)
def test_layouts(leaf: str, pod: str) -> None:
    found = only(DictHost(v2(leaf)))
    assert found == PodCgroup(
        pod=pod, container_id=ID, name=None, path=f"{V2}/{leaf}", cpus=cpus(2, 3), effective=cpus(2, 3)
    )


def test_a_node_of_kind_is_found_by_its_processes() -> None:
    top = "system.slice/docker-x.scope/kubelet.slice/kubelet-kubepods.slice"
    leaf = f"{top}/kubelet-kubepods-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope"
    host = DictHost(v2(leaf))
    assert read(host).containers == ()
    assert only(host, f"/{leaf}", "/", "/init.scope", "/../kubepods/x").pod == UID


@pytest.mark.parametrize("name", [f"crio-conmon-{ID}.scope", "cgroup.procs", "exec", ID[1:]])
def test_what_is_no_container(name: str) -> None:
    assert read(DictHost(v2(f"kubepods/pod{UID}/{name}"))).containers == ()


def test_crun_puts_the_container_one_deeper() -> None:
    leaf = f"kubepods/pod{UID}/{ID}"
    found = only(DictHost({**v2(leaf, cpus=""), **v2(f"{leaf}/container", cpus="4")}))
    assert (found.path, found.cpus, found.effective) == (f"{V2}/{leaf}/container", cpus(4), cpus(4))
    above = only(DictHost({**v2(f"{leaf}/container", cpus=""), **v2(leaf, cpus="4")}))
    assert above.cpus == cpus(4)


def test_a_cpuset_that_can_t_be_read() -> None:
    leaf = f"kubepods/pod{UID}/{ID}"
    error = gone("x", SourceState.DENIED)
    found = only(DictHost({**v2(leaf), f"{V2}/{leaf}/cpuset.cpus": error}))
    assert found.cpus is error


V1 = "sys/fs/cgroup/cpuset"
V1_FILES = {
    f"{V1}/cpuset.cpus": "0-7\n",
    f"{V1}/kubepods/pod{UID}/{ID}/cpuset.cpus": "2\n",
    f"{V1}/kubepods/pod{UID}/{ID}/cpuset.effective_cpus": "2\n",
}


def test_cgroup_v1() -> None:
    found = only(DictHost(V1_FILES))
    assert (found.path, found.cpus, found.effective) == (f"{V1}/kubepods/pod{UID}/{ID}", cpus(2), cpus(2))


def test_without_cpusets() -> None:
    found = read_pod_cgroups(DictHost({"sys/fs/cgroup/unified/cgroup.controllers": "\n"}), [], [""], complete=True)
    assert isinstance(found, ProbeError)
    assert found.state is SourceState.MISSING


@pytest.mark.parametrize(
    ("files", "links", "masked"),
    [
        ({f"{V2}/cgroup.controllers": "cpuset\n", f"{V2}/cgroup.type": "domain\n"}, {}, True),
        ({f"{V2}/cgroup.controllers": "cpuset\n"}, {}, False),
        ({f"{V1}/cpuset.cpus": "0\n"}, {}, True),
        ({f"{V1}/cpuset.cpus": "0\n"}, {"proc/self/ns/cgroup": "cgroup:[4026532000]"}, True),
        ({f"{V1}/cpuset.cpus": "0\n"}, {"proc/self/ns/cgroup": INITIAL_NAMESPACE}, False),
    ],
)
def test_no_pods_in_a_cgroup_namespace_are_hidden_not_absent(
    files: dict[str, str], links: dict[str, str], masked: bool
) -> None:
    found = read_pod_cgroups(DictHost(files, links), [], [""], complete=True)
    assert (isinstance(found, ProbeError) and found.state is SourceState.MASKED) is masked
    assert masked or found == PodCgroups()


def test_a_name_that_is_gone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host = DictHost(v2(), LOGS)
    monkeypatch.setattr(host, "links", {})
    assert read(host) == PodCgroups()


def test_what_may_have_been_missed() -> None:
    host = DictHost({**v2(f"kubepods/pod{UID}/{ID}"), f"{V2}/kubepods/pod{STATIC}": gone("x", SourceState.DENIED)})
    assert read(host).cut
    assert not read(DictHost(v2())).cut
    assert read(DictHost(v2()), complete=False).cut


def test_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.pod_cgroups.MAX_VISITED", 2)
    assert read(DictHost(v2(f"kubepods/pod{UID}/{ID}", f"kubepods/pod{STATIC}/{OTHER}"))).cut


def test_names_come_from_file_names_of_logs() -> None:
    files = v2(f"kubepods/pod{UID}/{ID}", f"kubepods/pod{UID}/{OTHER}")
    host = DictHost(
        files, {**LOGS, "var/log/containers/strange.log": "x"}, {f"var/log/pods/kube-system_etcd_{STATIC}": 0o755}
    )
    found = read(host)
    assert [item.name for item in found.containers] == ["app", None]
    assert found.pods == {UID: ("default", "bench"), STATIC: ("kube-system", "etcd")}


def test_names_of_a_kubelet_in_a_container() -> None:
    root = "proc/7/root"
    files = v2(f"kubepods/pod{UID}/{ID}")
    host = DictHost(files, {f"{root}/{path}": target for path, target in LOGS.items()})
    found = read_pod_cgroups(host, [], [root], complete=True)
    assert isinstance(found, PodCgroups)
    assert found.containers[0].name == "app"


def test_a_recording_gives_the_same() -> None:
    files = {
        **v2(f"kubepods/burstable/pod{UID}/{ID}", f"kubepods/pod{STATIC}/{OTHER}"),
        f"{V2}/kubepods/besteffort/x": "",
    }
    recorder = Recorder(DictHost(files, LOGS, {f"var/log/pods/kube-system_etcd_{STATIC}": 0o755}))
    found = read(recorder)
    assert len(found.containers) == len(found.pods) == 2
    assert read(recorder.trees["t0"].host()) == found
