"""Where kubelets have their files: by their command line, in their own root, and where none runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probes.cpu_manager_state import parse_cpu_manager_state
from probes.host import DictHost, ProbeError, SourceState, TreeHost
from probes.kubelet import Kubelet, kubelet_pids, read_installed, read_kubelets, root_of
from probes.kubelet_config import KubeletConfig
from probes.rooted import RootedHost
from probes.threads import ThreadKey, ThreadStatus

STATE = '{"policyName":"static","defaultCpuSet":"0-1","checksum":1636926438}'
OTHER = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
CONFIG = "var/lib/kubelet/config.yaml"
STATE_FILE = "var/lib/kubelet/cpu_manager_state"


def document(**keys: object) -> str:
    return json.dumps({"kind": "KubeletConfiguration", **keys})


def argv(*words: str) -> str:
    return "".join(f"{word}\0" for word in words)


def only(host: DictHost) -> Kubelet:
    (found,) = read_kubelets(host, [7])
    return found


def config_of(found: Kubelet) -> KubeletConfig:
    assert isinstance(found.config, KubeletConfig)
    return found.config


def error_of(found: Kubelet) -> ProbeError:
    assert isinstance(found.config, ProbeError)
    return found.config


def status(name: str, *, kernel: bool = False) -> ThreadStatus:
    return ThreadStatus(
        name=name,
        state="S",
        kernel=kernel,
        parent_pid=1,
        allowed=frozenset({0}),
        voluntary_switches=0,
        involuntary_switches=0,
    )


def test_kubelets_are_found_by_the_name_of_a_process() -> None:
    names = {7: "kubelet", 9: "k3s-server", 11: "kube-proxy", 13: "kubelite"}
    statuses = {ThreadKey(pid=pid, tid=pid): status(name) for pid, name in names.items()}
    statuses[ThreadKey(pid=21, tid=22)] = status("kubelet")
    statuses[ThreadKey(pid=31, tid=31)] = status("kubelet", kernel=True)
    assert kubelet_pids(statuses) == {7, 9, 13}
    assert read_kubelets(DictHost({}), []) == ()


def test_the_command_line_names_the_files_and_outranks_them() -> None:
    command = argv("/usr/bin/kubelet", "--config=/etc/k.yaml", "--config-dir", "/etc/k.d", "--root-dir=/data/kubelet/")
    host = DictHost(
        {
            "proc/7/cmdline": command + argv("--reserved-cpus=0"),
            "etc/k.yaml": document(cpuManagerPolicy="none", reservedSystemCPUs="5"),
            "etc/k.d/1.conf": document(cpuManagerPolicy="static"),
            "data/kubelet/cpu_manager_state": STATE,
            STATE_FILE: OTHER,
        }
    )
    found = only(host)
    assert config_of(found).origins == {"cpuManagerPolicy": "etc/k.d/1.conf", "reservedSystemCPUs": "proc/7/cmdline"}
    assert config_of(found).reserved_system_cpus == frozenset({0})
    assert found.state == parse_cpu_manager_state(STATE)
    assert (found.pid, found.root, found.state_path) == (7, "", "data/kubelet/cpu_manager_state")
    assert found.flags_seen


def test_without_a_configuration_file_there_are_flags_and_defaults() -> None:
    host = DictHost({"proc/7/cmdline": argv("kubelet", "--config="), CONFIG: document(cpuManagerPolicy="static")})
    found = only(host)
    assert (config_of(found).cpu_manager_policy, config_of(found).origins) == ("none", {})
    assert isinstance(found.state, ProbeError)
    assert found.state.state is SourceState.MISSING


@pytest.mark.parametrize(
    ("files", "path", "state"),
    [
        ({}, "proc/7/cmdline", SourceState.MISSING),
        ({"proc/7/cmdline": ""}, "proc/7/cmdline", SourceState.MASKED),
        ({"proc/7/cmdline": argv("kubelet", "--config=k.yaml")}, "proc/7/cmdline", SourceState.MALFORMED),
        ({"proc/7/cmdline": argv("kubelet", "--cpu-cfs-quota=x")}, "proc/7/cmdline", SourceState.MALFORMED),
        ({"proc/7/cmdline": argv("microshift", "run")}, "proc/7/cmdline", SourceState.MALFORMED),
        ({"proc/7/cmdline": argv("kubelite")}, "proc/7/cmdline", SourceState.MALFORMED),
    ],
)
def test_where_the_files_cannot_be_told_neither_is_guessed(
    files: dict[str, str | ProbeError], path: str, state: SourceState
) -> None:
    found = only(DictHost({**files, CONFIG: document(), STATE_FILE: STATE}))
    assert (error_of(found).path, error_of(found).state) == (path, state)
    assert (found.state, found.flags_seen) == (found.config, False)


def test_a_file_that_may_not_be_read_leaves_the_state_readable() -> None:
    denied = ProbeError("k.yaml", "permission denied", SourceState.DENIED)
    host = DictHost({"proc/7/cmdline": argv("kubelet", "--config=/k.yaml"), "k.yaml": denied, STATE_FILE: STATE})
    found = only(host)
    assert (error_of(found), found.state) == (denied, parse_cpu_manager_state(STATE))


def test_every_node_of_kind_has_its_own_root() -> None:
    files = {CONFIG: document(reservedSystemCPUs="0"), STATE_FILE: OTHER}
    links = {"proc/1/ns/mnt": "mnt:[1]"}
    for pid in (7, 8):
        root = f"proc/{pid}/root"
        files[f"proc/{pid}/cmdline"] = argv("kubelet", "--config=/var/lib/kubelet/config.yaml")
        files[f"{root}/{CONFIG}"] = document(reservedSystemCPUs=str(pid))
        files[f"{root}/{STATE_FILE}"] = STATE
        links[f"proc/{pid}/ns/mnt"] = f"mnt:[{pid}]"
    found = read_kubelets(DictHost(files, links), [8, 7])
    assert [(kubelet.pid, kubelet.root, kubelet.state_path) for kubelet in found] == [
        (pid, f"proc/{pid}/root", f"proc/{pid}/root/{STATE_FILE}") for pid in (7, 8)
    ]
    assert [config_of(kubelet).reserved_system_cpus for kubelet in found] == [frozenset({7}), frozenset({8})]
    assert {kubelet.state for kubelet in found} == {parse_cpu_manager_state(STATE)}
    assert config_of(found[0]).origins == {"reservedSystemCPUs": f"proc/7/root/{CONFIG}"}


@pytest.mark.parametrize(
    ("files", "links", "root"),
    [
        ({}, {"proc/1/ns/mnt": "mnt:[1]", "proc/7/ns/mnt": "mnt:[1]"}, ""),
        ({"proc/7/status": "NSpid:\t7\t1\n"}, {"proc/1/ns/mnt": "mnt:[1]", "proc/7/ns/mnt": "mnt:[1]"}, ""),
        ({}, {"proc/1/ns/mnt": "mnt:[1]", "proc/7/ns/mnt": "mnt:[2]"}, "proc/7/root"),
        ({"proc/7/status": "Name:\tkubelet\nNSpid:\t7\t130\n"}, {}, "proc/7/root"),
        ({"proc/7/status": "Name:\tkubelet\nNSpid:\t7\n"}, {}, ""),
        ({"proc/7/status": "Name:\tkubelet\n"}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_the_mount_namespace_or_else_the_process_ids_tell_the_root(
    files: dict[str, str | ProbeError], links: dict[str, str], root: str
) -> None:
    assert root_of(DictHost(files, links), 7) == root


def test_hyperkube_is_a_kubelet_only_by_its_command() -> None:
    host = DictHost({"proc/7/cmdline": argv("/hyperkube", "kubelet", "--cpu-manager-policy=static")})
    assert config_of(only(host)).cpu_manager_policy == "static"
    assert read_kubelets(DictHost({"proc/7/cmdline": argv("/hyperkube", "scheduler")}), [7]) == ()


def test_microk8s_has_a_file_of_arguments() -> None:
    arguments = "var/snap/microk8s/8511/args/kubelet"
    host = DictHost(
        {
            "proc/7/cmdline": argv("/snap/microk8s/8511/kubelite", f"--kubelet-args-file=/{arguments}"),
            arguments: "# a remark\n--cpu-manager-policy=static\n\n--root-dir=${SNAP_COMMON}/var/lib/kubelet\n",
            "var/snap/microk8s/common/var/lib/kubelet/cpu_manager_state": STATE,
        }
    )
    found = only(host)
    assert config_of(found).origins == {"cpuManagerPolicy": arguments}
    assert (found.state, found.flags_seen) == (parse_cpu_manager_state(STATE), True)


@pytest.mark.parametrize("said", ["kubelet-arg: cpu-manager-policy=static", "kubelet-arg: [cpu-manager-policy=static]"])
def test_k3s_has_drop_ins_and_arguments_in_its_own_file(said: str) -> None:
    drop_in = "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf"
    host = DictHost(
        {
            "proc/7/cmdline": argv("/usr/local/bin/k3s server", ""),
            "etc/rancher/k3s/config.yaml": said,
            drop_in: document(cpuManagerPolicy="none", reservedSystemCPUs="0"),
            STATE_FILE: STATE,
        }
    )
    found = only(host)
    origins = {"cpuManagerPolicy": "etc/rancher/k3s/config.yaml", "reservedSystemCPUs": drop_in}
    assert (config_of(found).origins, config_of(found).cpu_manager_policy) == (origins, "static")
    assert (found.state, found.flags_seen) == (parse_cpu_manager_state(STATE), False)


def test_arguments_of_the_command_line_of_k3s_replace_those_of_its_file() -> None:
    files = {"etc/rancher/k3s/config.yaml": "kubelet-arg: reserved-cpus=0"}
    command = argv("k3s", "agent", "--kubelet-arg", "cpu-manager-policy=static", "--kubelet-arg=root-dir=/k")
    found = only(DictHost({"proc/7/cmdline": command, "k/cpu_manager_state": STATE, **files}))
    assert config_of(found).cpu_manager_policy == "static"
    assert config_of(found).reserved_system_cpus is None
    assert found.state_path == "k/cpu_manager_state"
    assert config_of(only(DictHost({"proc/7/cmdline": argv("k3s", "server")}))).origins == {}
    assert read_kubelets(DictHost({"proc/7/cmdline": argv("k3s", "kubectl")}), [7]) == ()


def test_where_none_runs_the_files_of_distributions_are_looked_for() -> None:
    assert read_installed(DictHost({"etc/hostname": "x"})) is None
    found = read_installed(
        DictHost(
            {
                "etc/kubernetes/kubelet/config.json": document(cpuManagerPolicy="none"),
                "etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf": document(cpuManagerPolicy="static"),
                STATE_FILE: STATE,
            }
        )
    )
    assert found is not None
    assert config_of(found).cpu_manager_policy == "static"
    assert (found.pid, found.root, found.state_path, found.flags_seen) == (None, "", STATE_FILE, False)
    assert found.state == parse_cpu_manager_state(STATE)


def test_drop_ins_alone_and_a_state_alone_are_something() -> None:
    drop_in = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d/0.conf"
    found = read_installed(DictHost({drop_in: document(cpuManagerPolicy="static")}))
    assert found is not None
    assert (config_of(found).cpu_manager_policy, found.state_path) == ("static", STATE_FILE)
    left = read_installed(DictHost({"var/lib/k0s/kubelet/cpu_manager_state": STATE}))
    assert left is not None
    assert left.state == parse_cpu_manager_state(STATE)


def test_a_file_that_may_not_be_read_is_there() -> None:
    denied = ProbeError(CONFIG, "permission denied", SourceState.DENIED)
    found = read_installed(DictHost({CONFIG: denied, "etc/kubernetes/kubelet.yaml": document()}))
    assert found is not None
    assert found.config is denied


def test_openshift_without_drop_ins() -> None:
    found = read_installed(DictHost({"etc/kubernetes/kubelet.conf": document(cpuManagerPolicy="static")}))
    assert found is not None
    assert config_of(found).cpu_manager_policy == "static"


def test_links_in_a_container_are_followed_in_it(tmp_path: Path) -> None:
    """The kernel would follow an absolute link of a container from the root of who reads."""
    root = tmp_path / "proc/7/root"
    (root / "data/inner").mkdir(parents=True)
    (root / "data/inner/file").write_text("container")
    (root / "abs").symlink_to("/data/inner")
    (root / "up").symlink_to("../../../../abs/file")
    (root / "loop").symlink_to("loop")
    host = RootedHost(TreeHost(str(tmp_path)), "proc/7/root")
    assert host.read("proc/7/root/abs/file") == "container"
    assert host.read("proc/7/root/up") == "container"
    assert host.listdir("proc/7/root/abs/./") == ["file"]
    assert host.readlink("proc/7/root/abs") == "/data/inner"
    assert host.mtime("proc/7/root/up") == (root / "data/inner/file").stat().st_mtime_ns
    assert host.mode("proc/7/root/up") == (root / "data/inner/file").stat().st_mode & 0o777
    with pytest.raises(ProbeError, match="too many links"):
        host.read("proc/7/root/loop")
