"""A kubelet as rules see it: what it runs with, whom it gave CPUs, and what the cgroups of those containers say.

The state alone is not enough: it outlives pods, policies and the kubelet. Only the leaf cpusets tell what holds now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from auditor.kubelet_cpus import KubeletCpus, kubelet_cpus
from probes.cpu_manager_state import Assignment, CpuManagerState
from probes.cpustat import CpuStat
from probes.host import ProbeError
from probes.kubelet import Kubelet
from probes.pod_cgroups import PodCgroup, PodCgroups
from probes.snapshot import Kubernetes

CLOCK_GRAIN_S = 2.0
"""btime holds whole seconds, and files are stamped with the time of the last tick."""


class Pinning(str, Enum):
    """What the cgroups say about an entry of the state."""

    LIVE = "live"
    """The container is there and its cpuset is the entry."""
    CONTRADICTED = "contradicted"
    """The container is there, with other CPUs than the entry."""
    ENDED = "ended"
    """Its pod is there, the container is not: an init container that is done, or one that ended."""
    STALE = "stale"
    """Nothing of its pod is there."""
    UNKNOWN = "unknown"
    """The cgroups can't be read, or which of the pod's cgroups is this container's can't be told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExclusiveContainer:
    """An entry of the state, joined with its leaf cgroup."""

    pod: str
    """UID as in the state; of a static pod 32 digits. "" in states before 1.18, which name containers by id."""
    container: str
    """Name, or the id where ``pod`` is ""."""
    cpus: frozenset[int]
    """Of the state."""
    pinning: Pinning
    cgroup: str | None
    """Directory of its leaf cgroup, without a leading slash; None where there is none or which one can't be told."""
    cpuset: frozenset[int] | ProbeError | None
    """cpuset.cpus of the leaf; empty: not set. None without a leaf."""
    effective: frozenset[int] | ProbeError | None
    """cpuset.cpus.effective of the leaf (v1: cpuset.effective_cpus); None without a leaf."""
    namespace: str | None
    pod_name: str | None
    """From /var/log/pods; None where that does not tell."""

    @property
    def label(self) -> str:
        """For people: ``namespace/pod/container``, or with the UID where the names are not known."""
        pod = f"{self.namespace}/{self.pod_name}" if self.pod_name else self.pod
        return f"{pod}/{self.container}" if pod else self.container


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletView:
    """One kubelet of the node."""

    kubelet: Kubelet
    """Its process (``pid`` None: none runs), paths, configuration and state as they were read."""
    cpus: KubeletCpus | ProbeError
    """Table of exclusive, shared, reserved and free; the error is that of the state."""
    exclusive: tuple[ExclusiveContainer, ...]
    """Every entry of the state, in its order; pods as a whole are in ``state.pod_entries`` only."""
    containers: tuple[PodCgroup, ...] | ProbeError
    """Leaf cgroups of all containers that are there, those of the shared pool and of the sandboxes too."""
    state_age_s: float | None = None
    """Seconds since the state was written; None where that is not known, or the clock was set back since."""
    of_this_boot: bool | None = None
    """Whether the state was written since the boot; None where that is not known."""

    @property
    def state(self) -> CpuManagerState | ProbeError:
        """The state as it was read."""
        return self.kubelet.state

    def live(self) -> frozenset[int]:
        """CPUs of containers that have exactly what the state says."""
        return frozenset().union(*(item.cpus for item in self.exclusive if item.pinning is Pinning.LIVE))


def join(
    kubelet: Kubelet,
    cgroups: PodCgroups | ProbeError,
    online: frozenset[int] | ProbeError,
    *,
    state_age_s: float | None = None,
    of_this_boot: bool | None = None,
) -> KubeletView:
    """A kubelet with the leaf cgroups of its node. Pure."""
    state = kubelet.state
    cpus: KubeletCpus | ProbeError
    if isinstance(state, ProbeError):
        cpus = state
    elif isinstance(online, ProbeError):
        cpus = online
    else:
        said = kubelet.resources
        allocatable = None if isinstance(said, ProbeError) else said.allocatable
        cpus = kubelet_cpus(state, kubelet.config, online, flags_seen=kubelet.flags_seen, allocatable=allocatable)
    entries = () if isinstance(state, ProbeError) else state.entries
    return KubeletView(
        kubelet=kubelet,
        cpus=cpus,
        exclusive=_joined(entries, cgroups),
        containers=cgroups if isinstance(cgroups, ProbeError) else cgroups.containers,
        state_age_s=state_age_s,
        of_this_boot=of_this_boot,
    )


def views(
    kubernetes: Kubernetes, online: frozenset[int] | ProbeError, stat: CpuStat | ProbeError | None = None
) -> tuple[KubeletView, ...]:
    """Every kubelet of one end of the window; with /proc/stat, which has the time of the boot, how old its state is."""
    return tuple(_view(kubelet, kubernetes, online, stat) for kubelet in kubernetes.kubelets)


def _view(
    kubelet: Kubelet, kubernetes: Kubernetes, online: frozenset[int] | ProbeError, stat: CpuStat | ProbeError | None
) -> KubeletView:
    age_s = _age_s(kubelet, kubernetes.uptime_s, stat)
    recent = None if age_s is None or isinstance(kubernetes.uptime_s, ProbeError) else age_s < kubernetes.uptime_s
    return join(kubelet, kubernetes.cgroups, online, state_age_s=age_s, of_this_boot=recent)


def _age_s(kubelet: Kubelet, uptime_s: float | ProbeError, stat: CpuStat | ProbeError | None) -> float | None:
    """The time of the boot is rounded down to a second, so an age may be too small by one, and below 0."""
    mtime_ns = kubelet.state_mtime_ns
    boot_s = None if stat is None or isinstance(stat, ProbeError) else stat.btime
    if boot_s is None or isinstance(mtime_ns, ProbeError) or isinstance(uptime_s, ProbeError):
        return None
    age_s = boot_s + uptime_s - mtime_ns / 1e9
    return max(0.0, age_s) if age_s > -CLOCK_GRAIN_S else None


def _joined(entries: Iterable[Assignment], cgroups: PodCgroups | ProbeError) -> tuple[ExclusiveContainer, ...]:
    if isinstance(cgroups, ProbeError):
        return tuple(_container(entry, None, Pinning.UNKNOWN, None) for entry in entries)
    everyone = list(entries)
    return tuple(_judged(entry, everyone, cgroups) for entry in everyone)


def _judged(entry: Assignment, everyone: list[Assignment], cgroups: PodCgroups) -> ExclusiveContainer:
    leaf, pinning = _leaf(entry, everyone, cgroups)
    return _container(entry, leaf, pinning, cgroups.pods.get(entry.pod))


def _leaf(entry: Assignment, everyone: list[Assignment], cgroups: PodCgroups) -> tuple[PodCgroup | None, Pinning]:
    """By name where the names are known, else by what no other container of the pod can be."""
    if not entry.pod:
        here = [item for item in cgroups.containers if item.container_id == entry.container]
    else:
        here = [item for item in cgroups.containers if item.pod == entry.pod]
    if not here:
        return None, Pinning.UNKNOWN if cgroups.cut else Pinning.STALE
    named = [item for item in here if item.name == entry.container or not entry.pod]
    if named:
        return named[-1], _compared(entry, named)
    unnamed = [item for item in here if item.name is None]
    if same := [item for item in unnamed if _has(item, entry)]:
        return same[0], Pinning.LIVE
    known = len(unnamed) < len(here)  # then those without a name are sandboxes
    taken = [other.cpus for other in everyone if other.pod == entry.pod]
    strange = [item for item in unnamed if item.cpus and item.cpus not in taken]
    return None, Pinning.UNKNOWN if strange and not known else Pinning.ENDED


def _compared(entry: Assignment, leaves: list[PodCgroup]) -> Pinning:
    """A container that was started again may be there twice for a moment: both must have what the entry says."""
    if any(isinstance(leaf.cpus, ProbeError) for leaf in leaves):
        return Pinning.UNKNOWN
    return Pinning.LIVE if all(_has(leaf, entry) for leaf in leaves) else Pinning.CONTRADICTED


def _has(leaf: PodCgroup, entry: Assignment) -> bool:
    """Whether a cpuset is what the entry says, and so is what is left of it below its ancestors."""
    return leaf.cpus == entry.cpus and (isinstance(leaf.effective, ProbeError) or leaf.effective == entry.cpus)


def _container(
    entry: Assignment, leaf: PodCgroup | None, pinning: Pinning, pod: tuple[str, str] | None
) -> ExclusiveContainer:
    return ExclusiveContainer(
        pod=entry.pod,
        container=entry.container,
        cpus=entry.cpus,
        pinning=pinning,
        cgroup=leaf.path if leaf else None,
        cpuset=leaf.cpus if leaf else None,
        effective=leaf.effective if leaf else None,
        namespace=pod[0] if pod else None,
        pod_name=pod[1] if pod else None,
    )
