"""Cgroups of pods and their containers, in the forms that both cgroup drivers and all runtimes give them, with names.

Only the leaf of a container has a cpuset of its own: those of pods and of ``kubepods`` are empty. The name of a cgroup
tells the pod's UID and the container's id, file names in /var/log/containers what these are called.
Sources: pkg/kubelet/cm/cgroup_manager_linux.go, pkg/kubelet/kuberuntime/legacy.go (logSymlink), helpers.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from probes.cgroup_cpu import INITIAL_NAMESPACE, NAMESPACE
from probes.cpulist import read_cpulist
from probes.cpuset_v1 import V1_ROOT
from probes.host import Host, ProbeError, SourceState, attempt, visible
from probes.isolation import cgroup2_root
from probes.rooted import RootedHost

MAX_VISITED = 4000
"""Cgroups of pods; a node holds some hundred pods."""
MAX_NAMES = 10_000
CONTAINER_LOGS, POD_LOGS = "var/log/containers", "var/log/pods"
TOPS = ("kubepods", "kubepods.slice")
_TOP = re.compile(r"(?:[^/]+-)?kubepods(?:\.slice)?")
_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:[^/]*-)?pod({_UID})(?:\.slice)?", re.ASCII)
_QOS = re.compile(r"(?:[^/]*kubepods-)?(?:burstable|besteffort)(?:\.slice)?")
_CONTAINER = re.compile(r"(?:([a-z-]+)-)?([0-9a-f]{64})(?:\.scope)?", re.ASCII)
_MONITOR = "crio-conmon"
_WORD = r"[a-z0-9][a-z0-9.-]*"
_LOG = re.compile(rf"({_WORD})_({_WORD})_({_WORD})-([0-9a-f]{{64}})\.log", re.ASCII)
_POD_LOG = re.compile(rf"({_WORD})_({_WORD})_({_WORD})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodCgroup:
    """The leaf cgroup of one container: where the runtime sets its cpuset. Levels above have none."""

    pod: str
    """UID as the kubelet's state writes it: with dashes, or 32 digits of a static pod."""
    container_id: str
    """64 digits."""
    name: str | None
    """From /var/log/containers; None where that does not tell: a sandbox is never named there."""
    path: str
    """Directory without a leading slash."""
    cpus: frozenset[int] | ProbeError
    """cpuset.cpus; empty: not set, then every CPU is allowed. On cgroup v2 a sandbox has none set."""
    effective: frozenset[int] | ProbeError


@dataclass(frozen=True, kw_only=True, slots=True)
class PodCgroups:
    """All that are there at one instant."""

    containers: tuple[PodCgroup, ...] = ()
    pods: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Namespace and name by UID, from /var/log."""
    cut: bool = False
    """There may be more than were visited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    """What file names below /var/log tell."""

    containers: dict[str, tuple[str, str, str]]
    """Namespace, pod and container by the container's id."""
    pods: dict[str, tuple[str, str]]
    """Namespace and name by UID."""


def read_pod_cgroups(
    host: Host, cgroups: Iterable[str], roots: Iterable[str], *, complete: bool
) -> PodCgroups | ProbeError:
    """Never raises. ``cgroups`` are those of all processes, ``roots`` those of the kubelets ("" or proc/PID/root).

    Without a ``complete`` list of processes, pods in unusual places may be missed: the result is then ``cut``.
    """
    mount = _mount(host)
    if isinstance(mount, ProbeError):
        return mount
    root, effective, private = mount
    tops = {*TOPS, *(top for path in cgroups if (top := _top(path)))}
    leaves, cut, seen = _walk(host, [f"{root}/{top}" for top in sorted(tops)])
    if private and not seen:
        return ProbeError(root, "read from a cgroup namespace: the cgroups of pods are hidden", SourceState.MASKED)
    names = _names(host, sorted(set(roots)))
    containers = tuple(_read(host, path, effective, names) for path in leaves)
    told = ((item.pod, names.containers.get(item.container_id)) for item in containers)
    pods = names.pods | {pod: (found[0], found[1]) for pod, found in told if found}
    return PodCgroups(containers=containers, pods=pods, cut=cut or not complete)


def _mount(host: Host) -> tuple[str, str, bool] | ProbeError:
    """The hierarchy with cpusets, its file of effective CPUs, and whether its root may hide cgroups."""
    root = cgroup2_root(host)
    if root == "sys/fs/cgroup":
        return root, "cpuset.cpus.effective", _is_there(host, f"{root}/cgroup.type")
    if _is_there(host, f"{V1_ROOT}/cpuset.cpus"):
        return V1_ROOT, "cpuset.effective_cpus", _is_private(host)
    return ProbeError("sys/fs/cgroup", "no hierarchy with cpusets is mounted here", SourceState.MISSING)


def _is_there(host: Host, path: str) -> bool:
    try:
        host.read(path)
    except ProbeError as error:
        return error.state is not SourceState.MISSING
    return True


def _is_private(host: Host) -> bool:
    try:
        return host.readlink(NAMESPACE) != INITIAL_NAMESPACE
    except ProbeError:
        return True


def _top(path: str) -> str:
    """The part of a process's cgroup that ends with kubepods; "" for one of no pod."""
    parts = path.strip("/").split("/")
    at = next((at for at, part in enumerate(parts) if _TOP.fullmatch(part)), None)
    return "" if at is None or ".." in parts else "/".join(parts[: at + 1])


def in_pod(path: str) -> bool:
    """Whether a cgroup, as /proc/PID/cgroup names it, is one of pods."""
    return bool(_top(path))


def _walk(host: Host, tops: list[str]) -> tuple[list[tuple[str, str, str]], bool, bool]:
    """Pod, id and directory of each container; whether some may be missing; whether there is any of the tops."""
    found: list[tuple[str, str, str]] = []
    cut = seen = False
    left = [(top, "") for top in reversed(tops)]
    visited = 0
    while left:
        path, pod = left.pop()
        visited += 1
        if visited > MAX_VISITED:
            return found, True, True
        try:
            names = host.listdir(path)
        except ProbeError as error:
            cut |= error.state is not SourceState.MISSING
            continue
        seen = True
        if pod:
            found += [(pod, identity, f"{path}/{name}") for name in names if (identity := _container(name))]
        else:
            left += [(f"{path}/{name}", uid) for name in reversed(names) if (uid := _pod_or_level(name)) is not None]
    return found, cut, seen


def _pod_or_level(name: str) -> str | None:
    """The UID of a pod's cgroup, "" for that of a QoS class, None for everything else."""
    if pod := _POD.fullmatch(name):
        return pod[1].replace("_", "-")
    return "" if _QOS.fullmatch(name) else None


def _container(name: str) -> str:
    """The id in the name of a container's cgroup. That of CRI-O's monitor holds no container."""
    match = _CONTAINER.fullmatch(name)
    return match[2] if match and match[1] != _MONITOR else ""


def _read(host: Host, leaf: tuple[str, str, str], effective: str, names: _Names) -> PodCgroup:
    """crun, and CRI-O with it, may put the container into a cgroup of its own below the one with its id."""
    pod, identity, path = leaf
    inner = f"{path}/container"
    asked, deeper = (
        attempt(read_cpulist, host, f"{path}/cpuset.cpus"),
        attempt(read_cpulist, host, f"{inner}/cpuset.cpus"),
    )
    nested = not (isinstance(deeper, ProbeError) and deeper.state is SourceState.MISSING)
    directory = inner if nested else path
    return PodCgroup(
        pod=pod,
        container_id=identity,
        name=names.containers[identity][2] if identity in names.containers else None,
        path=visible(directory),
        cpus=deeper if nested and deeper else asked,
        effective=attempt(read_cpulist, host, f"{directory}/{effective}"),
    )


def _names(host: Host, roots: list[str]) -> _Names:
    names = _Names(containers={}, pods={})
    for root in roots:
        inside = RootedHost(host, root) if root else host
        for match in _matches(inside, f"{root}/{CONTAINER_LOGS}".lstrip("/"), _LOG):
            names.containers[match[4]] = (match[2], match[1], match[3])
        for match in _matches(inside, f"{root}/{POD_LOGS}".lstrip("/"), _POD_LOG):
            names.pods[match[3]] = (match[1], match[2])
    return names


def _matches(host: Host, directory: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Names in a directory. Each is looked at, so that a recording holds it; no log is ever read."""
    try:
        listed = host.listdir(directory)
    except ProbeError:
        return
    for name in listed[:MAX_NAMES]:
        match = pattern.fullmatch(name)
        if match and _exists(host, f"{directory}/{name}"):
            yield match


def _exists(host: Host, path: str) -> bool:
    for look in (host.readlink, host.mode):
        try:
            look(path)
        except ProbeError:
            continue
        return True
    return False
