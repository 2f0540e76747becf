"""The kubelets of a kernel: where each has its configuration and its state. Nodes of kind run one in every container.

A kubelet's own command line names its files. k3s, MicroK8s and MicroShift run it inside another program; of a host that
is not running, files that distributions use are looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from probes.cpu_manager_state import CpuManagerState, read_cpu_manager_state
from probes.host import Host, ProbeError, SourceState, attempt
from probes.kubelet_config import KubeletConfig, Layer, configure, read_layers
from probes.kubelet_document import load
from probes.kubelet_flags import configured_by, parse_argv, parse_flags
from probes.kubelet_version import read_kubelet_version
from probes.pod_resources import SOCKET, PodResources, read_pod_resources
from probes.rooted import RootedHost
from probes.threads import ThreadKey, ThreadStatus

NAMES = ("kubelet", "hyperkube", "kubelite", "k3s", "k3s-server", "k3s-agent", "microshift")
"""comm. RKE2 and k0s run a kubelet of its own name beside their supervisor."""
ROOT_DIR = "/var/lib/kubelet"
ROOT_DIRS = (ROOT_DIR, "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet")
K3S_FILE, K3S_DIR = "etc/rancher/k3s/config.yaml", "var/lib/rancher/k3s/agent/etc/kubelet.conf.d"
SNAP = {"SNAP_DATA": "/var/snap/microk8s/current", "SNAP_COMMON": "/var/snap/microk8s/common"}
INSTALLED: tuple[tuple[str | None, str | None], ...] = (
    ("var/lib/kubelet/config.yaml", None),  # kubeadm, kind, minikube
    ("etc/kubernetes/kubelet/config.json", "etc/kubernetes/kubelet/config.json.d"),  # EKS on Amazon Linux 2023
    ("etc/kubernetes/kubelet/kubelet-config.json", None),  # EKS on Amazon Linux 2
    ("etc/kubernetes/kubelet/config", None),  # Bottlerocket
    ("home/kubernetes/kubelet-config.yaml", None),  # GKE
    ("etc/default/kubeletconfig.json", None),  # AKS
    ("etc/kubernetes/kubelet.yaml", None),  # Talos
    (None, K3S_DIR),
    (None, "var/lib/rancher/rke2/agent/etc/kubelet.conf.d"),
    ("etc/kubernetes/kubelet.conf", "etc/openshift/kubelet.conf.d"),  # OpenShift; with kubeadm a kubeconfig
)
"""Configuration file and drop-ins where no kubelet runs, the first that is there."""
NOT_ASKED = ProbeError(f"{ROOT_DIR}/{SOCKET}", "not asked", SourceState.MISSING)
NO_TIME = ProbeError(f"{ROOT_DIR}/cpu_manager_state", "not read", SourceState.MISSING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kubelet:
    """One kubelet, or what is left of it."""

    pid: int | None
    """None: none runs, these are the files it would be started with."""
    root: str
    """What its paths are below: "" for the host's own, else ``proc/PID/root``."""
    state_path: str
    config: KubeletConfig | ProbeError
    state: CpuManagerState | ProbeError
    flags_seen: bool
    """Whether its flags are known. They outrank ``config``, which is only what the files say without them."""
    state_mtime_ns: int | ProbeError = NO_TIME
    """When the state was written, nanoseconds since the epoch by the host's clock."""
    resources: PodResources | ProbeError = NOT_ASKED
    """What it says itself, at the end of the window."""
    version: str | None = None
    """``1.33.2``; None where none runs, or where its files don't tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Start:
    """What a kubelet was started with; paths are those of the host."""

    config: str | None = None
    config_dir: str | None = None
    root_dir: str
    flags: Layer | None = None
    flags_seen: bool = True


def kubelet_pids(statuses: Mapping[ThreadKey, ThreadStatus]) -> frozenset[int]:
    """Processes of a census that are a kubelet by their name, or run one."""
    leaders = ((key.pid, status) for key, status in statuses.items() if key.pid == key.tid)
    return frozenset(pid for pid, status in leaders if status.name in NAMES and not status.kernel)


def read_kubelets(host: Host, pids: Iterable[int]) -> tuple[Kubelet, ...]:
    """Those of the processes that are kubelets. Never raises."""
    return tuple(found for pid in sorted(set(pids)) if (found := _read_process(host, pid)))


def ask_kubelet(host: Host, kubelet: Kubelet) -> Kubelet:
    """The same with what it says on its socket, if it runs. Never raises."""
    if kubelet.pid is None:
        return kubelet
    inside = RootedHost(host, kubelet.root) if kubelet.root else host
    return replace(kubelet, resources=attempt(read_pod_resources, inside, kubelet.state_path.rpartition("/")[0]))


def read_installed(host: Host) -> Kubelet | None:
    """The files that a kubelet of this host would be started with, where none runs; None where there are none."""
    place = next(((config, drop_ins) for config, drop_ins in INSTALLED if _there(host, config, drop_ins)), None)
    states = [directory for directory in ROOT_DIRS if _there(host, f"{directory[1:]}/cpu_manager_state", None)]
    if place is None and not states:
        return None
    config, drop_ins = place or (None, None)
    drop_ins = drop_ins if _there(host, None, drop_ins) else None
    start = _Start(config=config, config_dir=drop_ins, root_dir=(states or [ROOT_DIR])[0][1:], flags_seen=False)
    return _read(host, None, "", start)


def _there(host: Host, file: str | None, directory: str | None) -> bool:
    """Whether a file, or without one a directory, is there or may be."""
    try:
        if file:
            host.read(file)
        elif directory:
            host.listdir(directory)
    except ProbeError as error:
        return error.state is not SourceState.MISSING
    return bool(file or directory)


def _read_process(host: Host, pid: int) -> Kubelet | None:
    path = f"proc/{pid}/cmdline"
    root = root_of(host, pid)
    inside = RootedHost(host, root) if root else host
    try:
        argv = parse_argv(host.read(path), path)
        if not _is_kubelet(argv):
            return None
        start = _start(inside, root, argv, path)
    except ProbeError as error:
        state = f"{root}{ROOT_DIR}/cpu_manager_state".lstrip("/")
        version = read_kubelet_version(inside, pid, root)
        return Kubelet(
            pid=pid, root=root, state_path=state, config=error, state=error, flags_seen=False, version=version
        )
    return _read(inside, pid, root, start)


def root_of(host: Host, pid: int) -> str:
    """Empty where a process sees the host's own files, else ``proc/PID/root``.

    Its mount namespace tells, to who may trace it. Else its process ids do: in a namespace of its own it has several.
    """
    try:
        own = host.readlink(f"proc/{pid}/ns/mnt") == host.readlink("proc/1/ns/mnt")
    except ProbeError:
        own = _ids(host, pid) < 2
    return "" if own else f"proc/{pid}/root"


def _ids(host: Host, pid: int) -> int:
    """How many process ids it has, one for each namespace of them; 0 where that can't be told."""
    try:
        text = host.read(f"proc/{pid}/status")
    except ProbeError:
        return 0
    return next((len(line.split()) - 1 for line in text.split("\n") if line.startswith("NSpid:")), 0)


def _program(argv: tuple[str, ...]) -> str:
    """k3s writes its command behind its name into the first argument."""
    return argv[0].split(" ")[0].rpartition("/")[2]


def _is_kubelet(argv: tuple[str, ...]) -> bool:
    words = " ".join(argv[:2]).split(" ")
    if _program(argv) == "hyperkube":
        return words[1:2] == ["kubelet"]
    return _program(argv) != "k3s" or words[1:2] in (["server"], ["agent"])


def _start(host: Host, root: str, argv: tuple[str, ...], path: str) -> _Start:
    program, flags = _program(argv), parse_flags(argv[1:])
    drop_ins = ""
    if program == "microshift":
        raise ProbeError(path, "how MicroShift sets up its kubelet is not read")
    if program == "k3s":
        flags, path = _k3s_flags(host, root, flags)
        drop_ins = f"/{K3S_DIR}" if _there(host, None, _path(root, f"/{K3S_DIR}", path)) else ""
    if program == "kubelite":
        path = _path(root, flags.get("kubelet-args-file", [""])[-1], path)
        flags = parse_flags(_arguments(host.read(path)))
    named = {name: flags.get(name, [""])[-1] for name in ("config", "config-dir", "root-dir")}
    return _Start(
        config=_path(root, named["config"], path) if named["config"] else None,
        config_dir=_path(root, named["config-dir"] or drop_ins, path) if named["config-dir"] or drop_ins else None,
        root_dir=_path(root, named["root-dir"] or ROOT_DIR, path),
        flags=Layer(path=path, keys=configured_by(flags, path)),
        flags_seen=program != "k3s",
    )


def _path(root: str, name: str, path: str) -> str:
    if not name.startswith("/"):
        raise ProbeError(path, f"a path that is not absolute: {name[:40]!r}")
    return f"{root}{name}".lstrip("/").rstrip("/")


def _arguments(text: str) -> list[str]:
    """Lines of MicroK8s's file of arguments, a flag each; the two variables that it uses there are filled in."""
    for name, value in SNAP.items():
        text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
    return [line.strip() for line in text.split("\n") if line.strip() and not line.strip().startswith("#")]


def _k3s_flags(host: Host, root: str, flags: Mapping[str, list[str]]) -> tuple[dict[str, list[str]], str]:
    """``kubelet-arg`` of its command line replaces that of its file. It wipes its command line: there may be more."""
    path = _path(root, f"/{K3S_FILE}", "")
    arguments = flags.get("kubelet-arg", [])
    if not arguments and _there(host, path, None):
        said = load(host.read(path), path=path).get("kubelet-arg", [])
        arguments = [str(word) for word in (said if isinstance(said, list) else [said])]
    return parse_flags([f"--{word}" for word in arguments]), path


def _read(host: Host, pid: int | None, root: str, start: _Start) -> Kubelet:
    config = attempt(lambda: configure(read_layers(host, start.config, start.config_dir), start.flags))
    path = f"{start.root_dir}/cpu_manager_state"
    mtime = attempt(host.mtime, path)  # before the text: what is read may be newer than that, never older
    state = attempt(read_cpu_manager_state, host, start.root_dir)
    return Kubelet(
        pid=pid,
        root=root,
        state_path=path,
        config=config,
        state=state,
        flags_seen=start.flags_seen,
        state_mtime_ns=mtime,
        version=None if pid is None else read_kubelet_version(host, pid, root),
    )
