"""Nodes as ``run`` sees them: whose CPUs are audited by default, and what a recording holds of a kubelet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.model import Coverage
from probes.host import DictHost, ProbeError
from probes.kubelet_config import KubeletConfig
from probes.record import SCHEMA, Recorder, describe_files, describe_links, entries, load_recording
from probes.snapshot import Census, Kubernetes, read_kubernetes
from probes.threads import ThreadKey, ThreadStatus
from tests.hosts import variations as make
from tests.hosts.build import write
from tests.hosts.machine import Recorded
from tests.hosts.replayed import audit_of

UID, STATIC = "0aa1d6f2-0000-4000-8000-000000000001", "b930f583721fb9c7aa5034482168d52c"
ID = "a" * 64
LEAF = f"sys/fs/cgroup/kubepods/pod{UID}/{ID}"
STATE = json.dumps({"policyName": "static", "defaultCpuSet": "0,2-7", "entries": {UID: {"app": "1"}}})
CONFIG = "kind: KubeletConfiguration\ncpuManagerPolicy: static\nstaticPodURLHeader: {Authorization: [SECRET]}\n"


def argv(*words: str) -> str:
    return "".join(f"{word}\0" for word in words)


def node(cpuset: str | None, state: str = STATE) -> Recorded:
    """The laptop with a kubelet that gave CPU 1 away, and one pod."""
    host = make.by_hand()
    for end in ("t0", "t1"):
        tree = host.trees[end]
        tree |= {"proc/1041/cmdline": argv("kubelet", "--config=/etc/k.yaml"), "etc/k.yaml": CONFIG}
        tree |= {"var/lib/kubelet/cpu_manager_state": state}
        tree |= {} if cpuset is None else {f"{LEAF}/cpuset.cpus": cpuset, f"{LEAF}/cpuset.cpus.effective": cpuset}
    return host


def test_the_cpus_of_live_containers_are_audited(tmp_path: Path) -> None:
    audit = audit_of(write(node("1\n"), tmp_path / "host"), window_s=40)
    whose = f"the kubelet (PID 1041), exclusive to {UID}/app"
    assert (audit.cpus.audited, audit.cpus.chosen_by) == ("1", whose)
    lines = {line.source: line for line in audit.coverage}
    for source in (
        "kubelet configuration (PID 1041)",
        "/var/lib/kubelet/cpu_manager_state",
        "/sys/fs/cgroup cpusets of pods",
    ):
        assert lines[source] == Coverage(source=source, state="read")


def test_files_of_a_kubelet_that_does_not_run(tmp_path: Path) -> None:
    host = node("1\n")
    host.drop(r"proc/1041/.*")
    for tree in host.trees.values():
        tree["var/lib/kubelet/config.yaml"] = CONFIG
    audit = audit_of(write(host, tmp_path / "host"), window_s=40)
    assert (audit.cpus.audited, audit.cpus.chosen_by) == (
        "1",
        f"the kubelet (not running), exclusive to {UID}/app",
    )


def test_a_kubelet_that_can_t_be_asked_is_told(tmp_path: Path) -> None:
    host = make.by_hand()
    host.drop("proc/1041/cmdline")
    note = "the kubelet (PID 1041) may have given CPUs away: /proc/1041/cmdline: no such file"
    audit = audit_of(write(host, tmp_path / "host"), window_s=40)
    assert audit.cpus.chosen_by == f"isolated by the kernel; {note}"


def test_a_stale_state_is_said_and_not_used(tmp_path: Path) -> None:
    audit = audit_of(write(node(None), tmp_path / "host"), window_s=40)
    note = f"left out: CPUs 1 of {UID}/app, whose container is not there (stale)"
    assert (audit.cpus.audited, audit.cpus.chosen_by) == ("1,5", f"isolated by the kernel; {note}")


def test_a_contradicted_state_is_refused_unless_cpus_are_named(tmp_path: Path) -> None:
    path = write(node("0-7\n"), tmp_path / "host")
    with pytest.raises(UsageError, match=r"CPUs 1 are .*/app's, its cgroup can't be told: say which CPUs are meant"):
        audit_of(path, window_s=40)
    assert audit_of(path, cpus="1", window_s=40).cpus.chosen_by == "--cpus"


def test_what_can_t_be_read_costs_something(tmp_path: Path) -> None:
    host = node("1\n", state="{")
    host.drop(r"sys/fs/cgroup/cgroup\.controllers")
    audit = audit_of(write(host, tmp_path / "host"), cpus="1", window_s=40)
    lines = {line.source: (line.state, line.costs) for line in audit.coverage}
    assert lines["/var/lib/kubelet/cpu_manager_state"] == ("malformed", "to whom the kubelet gave CPUs is unknown")
    assert lines["/sys/fs/cgroup cpusets of pods"] == (
        "missing",
        "whether containers have the CPUs that the kubelet gave them is unknown",
    )


def status(name: str) -> ThreadStatus:
    return ThreadStatus(
        name=name,
        state="S",
        kernel=name == "kthreadd",
        parent_pid=1,
        allowed=frozenset({0}),
        voluntary_switches=0,
        involuntary_switches=0,
    )


def census(**names: int) -> Census:
    known = {ThreadKey(pid=pid, tid=pid): status(name.replace("_", "-")) for name, pid in names.items()}
    return Census(statuses=known, cgroups={7: f"/system.slice/x/kubelet/kubepods/pod{UID}/{ID}"}, schedstat=True)


MTIME_NS = 1_764_561_000_123_456_789
POD = {
    "proc/uptime": "812.50 1600.00\n",
    "var/lib/dpkg/status": "Package: kubelet\nStatus: install ok installed\nMaintainer: SECRET\nVersion: 1.33.2-1.1\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset\n",
    f"{LEAF}/cpuset.cpus": "1\n",
    f"{LEAF}/cpuset.cpus.effective": "1\n",
}
LINKS = {"proc/7/exe": "/usr/bin/kubelet", "proc/1/ns/mnt": "mnt:[1]", "proc/7/ns/mnt": "mnt:[1]"}
LOG = f"var/log/containers/bench_default_app-{ID}.log"
K3S = "token: SECRET\nkubelet-arg: [cpu-manager-policy=static, system-reserved=cpu=1]\n"
NODES = {
    "its own": (
        {
            "proc/7/cmdline": argv("kubelet", "--config=/etc/k.yaml", "--config-dir=/etc/k.d", "--token", "SECRET"),
            "etc/k.yaml": CONFIG,
            "etc/k.d/10-a.conf": "kind: KubeletConfiguration\nreservedSystemCPUs: '0'\n",
            "etc/k.d/readme": "SECRET",
            "var/lib/kubelet/cpu_manager_state": STATE,
        },
        {**LINKS, LOG: "x"},
    ),
    "in a container": (
        {
            "proc/7/cmdline": argv("kubelet", "--config=/etc/k.yaml"),
            "proc/7/root/etc/real.yaml": CONFIG,
            "proc/7/root/var/lib/kubelet/cpu_manager_state": STATE,
        },
        {**LINKS, "proc/7/ns/mnt": "mnt:[2]", "proc/7/root/etc/k.yaml": "/etc/real.yaml", f"proc/7/root/{LOG}": "x"},
    ),
    "k3s": ({"proc/7/cmdline": argv("/usr/bin/k3s server"), "etc/rancher/k3s/config.yaml": K3S}, LINKS),
    "MicroK8s": (
        {
            "proc/7/cmdline": argv("/snap/kubelite", "--kubelet-args-file=/var/snap/args"),
            "var/snap/args": "--cpu-manager-policy=static\n--token=SECRET\n",
        },
        LINKS,
    ),
}


def recorded(host: DictHost, seen: Census, directory: Path) -> tuple[Kubernetes, Kubernetes]:
    """What is read of a host, and of its recording on disk."""
    recorder = Recorder(host)
    recorder.trees["t1"] = recorder.trees["t0"]
    found = read_kubernetes(recorder, seen)
    about = {"schema": SCHEMA, "files": describe_files(recorder.trees), "links": describe_links(recorder.trees)}
    for name, data in [("recording.json", json.dumps(about).encode()), *entries(recorder.trees)]:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        assert b"SECRET" not in data
    return found, read_kubernetes(load_recording(str(directory)).trees["t1"].host(), seen)


@pytest.mark.parametrize("name", NODES)
def test_a_recording_tells_the_same_without_secrets(name: str, tmp_path: Path) -> None:
    files, links = NODES[name]
    seen = census(kthreadd=2, **{"kubelite" if name == "MicroK8s" else "k3s_server" if name == "k3s" else "kubelet": 7})
    times = {path: MTIME_NS for path in files if path.endswith("cpu_manager_state")}
    found, again = recorded(DictHost({**POD, **files}, links, mtimes=times), seen, tmp_path / "recording")
    (kubelet,) = found.kubelets
    assert (kubelet.pid, again.cgroups) == (7, found.cgroups)
    assert isinstance(kubelet.config, KubeletConfig)
    assert kubelet.config.cpu_manager_policy == "static"
    (replayed,) = again.kubelets
    assert replayed.config == kubelet.config
    assert (again.uptime_s, found.uptime_s) == (812.5, 812.5)
    assert (replayed.version, kubelet.version) == (None, None) if name == "in a container" else ("1.33.2", "1.33.2")
    assert str(replayed.state_mtime_ns) == str(kubelet.state_mtime_ns)
    assert kubelet.state_mtime_ns == MTIME_NS if times else isinstance(kubelet.state_mtime_ns, ProbeError)
    assert str(replayed.state) == str(kubelet.state)


def test_a_broken_configuration_is_as_broken_in_a_recording(tmp_path: Path) -> None:
    files = {"proc/7/cmdline": argv("kubelet", "--config=/etc/k.yaml"), "etc/k.yaml": "a: [SECRET"}
    found, again = recorded(DictHost({**POD, **files}, LINKS), census(kthreadd=2, kubelet=7), tmp_path / "recording")
    assert str(found.kubelets[0].config) == str(again.kubelets[0].config) == "/etc/k.yaml: no map of names"
