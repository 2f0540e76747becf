"""KubeletConfiguration: how the CPU manager, the topology manager and the CFS quota are set.

Defaults, then the file of ``--config``, then drop-ins of ``--config-dir`` (JSON merge patches, RFC 7396), then flags:
the later outranks the earlier. Sources: cmd/kubelet/app/server.go, pkg/kubelet/apis/config/v1beta1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from probes.host import Host, ProbeError, SourceState
from probes.kubelet_document import parse_document
from probes.kubelet_flags import FLAGS
from probes.kubelet_values import Fields

KEYS = frozenset(key for key, _ in FLAGS.values())
DROP_IN = ".conf"
MAX_DROP_INS = 1000
CPU_POLICIES = ("none", "static")
TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
RECONCILE_NS, CFS_PERIOD_NS = 10 * 10**9, 100 * 10**6
GATES_ON_SINCE: Mapping[str, tuple[int, int]] = {
    "DisableCPUQuotaWithExclusiveCPUs": (1, 33),
    "PodLevelResources": (1, 34),
}
"""Kubelet versions that have the gate on by default (pkg/features/kube_features.go)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One source of settings."""

    path: str
    keys: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletConfig:
    """What a kubelet runs with, if it was started after its files were last changed."""

    cpu_manager_policy: str
    cpu_manager_policy_options: Mapping[str, str]
    reconcile_ns: int
    reserved_system_cpus: frozenset[int] | None
    """None: not set; the kubelet then chooses as many as ``kube_reserved`` and ``system_reserved`` need."""
    kube_reserved_millis: int
    """Thousandths of a CPU."""
    system_reserved_millis: int
    cpu_cfs_quota: bool
    cpu_cfs_quota_period_ns: int
    topology_manager_policy: str
    topology_manager_scope: str
    topology_manager_policy_options: Mapping[str, str]
    memory_manager_policy: str
    feature_gates: Mapping[str, bool]
    """Only those that were set."""
    cgroup_root: str
    origins: Mapping[str, str]
    """The path that set a key last, by the key's own name; no entry: its default holds."""

    @property
    def strict_reservation(self) -> bool:
        """Whether reserved CPUs are no part of the shared pool. Go's ParseBool takes ``1`` and ``t`` as well."""
        return self.cpu_manager_policy_options.get("strict-cpu-reservation") in ("1", "t", "T", "TRUE", "true", "True")

    def reserves_cpus(self) -> bool:
        """Whether CPUs are reserved at all: without any, the static policy refuses to start."""
        return bool(self.reserved_system_cpus or self.kube_reserved_millis or self.system_reserved_millis)

    def gate(self, name: str, version: tuple[int, int] | None) -> bool | None:
        """Whether a gate of GATES_ON_SINCE is on in a kubelet of this version; None where that can't be told."""
        if name in self.feature_gates:
            return self.feature_gates[name]
        if version is None or {"AllAlpha", "AllBeta"} & self.feature_gates.keys():
            return None
        return version >= GATES_ON_SINCE[name]


def merge_patch(base: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """RFC 7396: maps are merged, null removes, everything else replaces."""
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            inner = merged.get(key)
            merged[key] = merge_patch(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def configure(files: Iterable[Layer], flags: Layer | None = None) -> KubeletConfig:
    """What the files in their order, and the flags above them, amount to. ProbeError on what no kubelet accepts."""
    merged: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in files:
        keys = {key: value for key, value in layer.keys.items() if key in KEYS}
        merged = merge_patch(merged, keys)
        origins |= dict.fromkeys(keys, layer.path)
    for key, value in flags.keys.items() if flags else ():
        gates = merged.get(key) if key == "featureGates" else None
        merged[key] = {**gates, **value} if isinstance(gates, dict) and isinstance(value, dict) else value
        origins[key] = flags.path if flags else ""
    return _config(Fields(values=merged, origins={key: path for key, path in origins.items() if key in merged}))


def _config(fields: Fields) -> KubeletConfig:
    return KubeletConfig(
        cpu_manager_policy=fields.choice("cpuManagerPolicy", CPU_POLICIES),
        cpu_manager_policy_options=fields.strings("cpuManagerPolicyOptions"),
        reconcile_ns=fields.duration_ns("cpuManagerReconcilePeriod", RECONCILE_NS),
        reserved_system_cpus=fields.cpus("reservedSystemCPUs"),
        kube_reserved_millis=fields.cpu_millis("kubeReserved"),
        system_reserved_millis=fields.cpu_millis("systemReserved"),
        cpu_cfs_quota=fields.boolean("cpuCFSQuota", default=True),
        cpu_cfs_quota_period_ns=fields.duration_ns("cpuCFSQuotaPeriod", CFS_PERIOD_NS),
        topology_manager_policy=fields.choice("topologyManagerPolicy", TOPOLOGY_POLICIES),
        topology_manager_scope=fields.choice("topologyManagerScope", ("container", "pod")),
        topology_manager_policy_options=fields.strings("topologyManagerPolicyOptions"),
        memory_manager_policy=fields.choice("memoryManagerPolicy", ("None", "Static")),
        feature_gates=fields.booleans("featureGates"),
        cgroup_root=fields.text("cgroupRoot"),
        origins=fields.origins,
    )


def parse_kubelet_config(text: str, *, path: str = "config.yaml") -> KubeletConfig:
    """One document alone, with no drop-ins and no flags: see ``parse_document`` for the forms it may have."""
    return configure([Layer(path=path, keys=parse_document(text, path=path))])


def read_layers(host: Host, config: str | None, config_dir: str | None) -> list[Layer]:
    """The configuration file and its drop-ins, in the kubelet's order. ProbeError where one of them can't be read."""
    paths = ([config] if config else []) + (list_drop_ins(host, config_dir) if config_dir else [])
    return [Layer(path=path, keys=parse_document(host.read(path), path=path, wrapped=False)) for path in paths]


def list_drop_ins(host: Host, directory: str) -> list[str]:
    """Files named ``*.conf``, those of subdirectories in between, by name (Go's filepath.WalkDir)."""
    found: list[str] = []
    left = [directory]
    while left:
        path = left.pop()
        names = _names(host, path, top=path == directory)
        if names is None:
            found += [path] if path.endswith(DROP_IN) else []
        else:
            left += [f"{path}/{name}" for name in reversed(names)]
        if len(found) + len(left) > MAX_DROP_INS:
            raise ProbeError(directory, f"more than {MAX_DROP_INS} files")
    return found


def _names(host: Host, path: str, *, top: bool) -> list[str] | None:
    """What is in a directory; None for what is none, and below the top for a link, which is not followed."""
    if not top and _is_link(host, path):
        return None
    try:
        return host.listdir(path)
    except ProbeError as error:
        if top or error.state is SourceState.DENIED:
            raise
        return None


def _is_link(host: Host, path: str) -> bool:
    try:
        return bool(host.readlink(path))
    except ProbeError:
        return False
