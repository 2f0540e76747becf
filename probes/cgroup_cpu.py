"""CPU limits: what the cgroups of some threads, and all above them, allow per period, and how often that ran out.

A limit anywhere up to the root holds for a thread, and the counters of a cgroup speak only of its own limit; only
cpu.stat.local (6.6) tells what a cgroup waited for any of them. No file here takes a run queue lock: cpu.stat of v2
takes the per-CPU locks of the cgroup statistics for a moment, memory only.
Sources: Documentation/admin-guide/cgroup-v2.rst, kernel/sched/core.c (cpu_max_show, cpu_extra_stat_show,
cpu_local_stat_show), cgroup_namespaces(7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from probes.cgroup_cpu_text import (
    CpuLimit,
    Throttling,
    parse_cpu_max,
    parse_place,
    parse_throttling,
    parse_v1_limit,
    parse_waited,
)
from probes.cpuset_v1 import ONLY_IN_ROOT
from probes.host import Host, ProbeError, SourceState, attempt
from probes.isolation import cgroup2_root
from probes.threads import ThreadKey

MAX_LEVELS = 24
"""Deeper paths would not fit into a recording; systemd and the kubelet stay below ten."""
V1_MOUNTS = ("sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpuacct,cpu")
NAMESPACE = "proc/self/ns/cgroup"
INITIAL_NAMESPACE = "cgroup:[4026531835]"
"""PROC_CGROUP_INIT_INO of include/linux/proc_ns.h: only a reader in there sees paths that begin at the real root."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuGroup:
    """One level. None is "there is none", a ProbeError "that is not known"."""

    path: str
    """Within its hierarchy: ``/kubepods.slice``."""
    directory: str
    """On the host, without a leading slash."""
    version: int
    limit: CpuLimit | ProbeError | None
    throttling: Throttling | ProbeError | None
    waited_us: int | ProbeError | None
    """Throttled for any limit, those of ancestors too, summed over CPUs; None before 6.6."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CgroupCpu:
    """The levels above some threads at one instant."""

    paths: Mapping[ThreadKey, str | ProbeError] = field(default_factory=dict)
    """The cgroup of each thread."""
    groups: Mapping[str, CpuGroup] = field(default_factory=dict)
    """By path; without the real root, which can have no limit."""
    hidden: ProbeError | None = None
    """Why there may be levels above those that are seen."""

    def above(self, path: str) -> list[CpuGroup]:
        """The levels from a cgroup up to the root."""
        return [self.groups[level] for level in levels(path) if level in self.groups]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mount:
    """Where the hierarchy with the cpu controller is, and whether that is its real root (None: v1 does not say no)."""

    root: str
    version: int
    real: bool | None


def levels(path: str) -> list[str]:
    """``/a/b`` → ``/a/b``, ``/a``, ``/``."""
    parts = [part for part in path.split("/") if part]
    return ["/" + "/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


def read_cgroup_cpu(host: Host, threads: Iterable[ThreadKey]) -> CgroupCpu:
    """Never raises: what can't be read is a ProbeError in its place. Without threads nothing is read."""
    places = _places(host, sorted(threads))
    version = next((place[0] for place in places.values() if not isinstance(place, ProbeError)), None)
    if version is None:
        return CgroupCpu(paths={key: error for key, error in places.items() if isinstance(error, ProbeError)})
    mount = _mount(host, version)
    if isinstance(mount, ProbeError):
        return CgroupCpu(paths=dict.fromkeys(places, mount))
    hidden, strange = _hidden(host, mount)
    paths = {key: _path(place, strange) for key, place in places.items()}
    known = {path for path in paths.values() if not isinstance(path, ProbeError)}
    wanted = {level for path in known for level in levels(path)}
    if mount.real or (mount.real is None and hidden is None):
        wanted.discard("/")
    return CgroupCpu(paths=paths, groups={level: _group(host, mount, level) for level in sorted(wanted)}, hidden=hidden)


def _places(host: Host, keys: Collection[ThreadKey]) -> dict[ThreadKey, tuple[int, str] | ProbeError]:
    """Version and path of each thread; a thread that ended is left out where others of its process tell."""
    places: dict[ThreadKey, tuple[int, str] | ProbeError] = {}
    for key in keys:
        path = f"{key.path}/cgroup"
        try:
            places[key] = parse_place(host.read(path), path=path)
        except ProbeError as error:
            places[key] = error
    told = {key.pid for key, place in places.items() if not isinstance(place, ProbeError)}
    return {key: place for key, place in places.items() if not (key.pid in told and _is_missing(place))}


def _is_missing(value: object) -> bool:
    return isinstance(value, ProbeError) and value.state is SourceState.MISSING


def _mount(host: Host, version: int) -> _Mount | ProbeError:
    if version == 1:
        return _v1_mount(host)
    root = cgroup2_root(host)
    if isinstance(root, ProbeError):
        return root
    try:
        host.read(f"{root}/cgroup.type")
    except ProbeError as error:
        return _Mount(root=root, version=2, real=_is_missing(error))  # every cgroup but the root has this file
    return _Mount(root=root, version=2, real=False)


def _v1_mount(host: Host) -> _Mount | ProbeError:
    for root in V1_MOUNTS:
        try:
            host.read(f"{root}/cpu.shares")
        except ProbeError:
            continue
        part = isinstance(attempt(host.read, f"{root}/{ONLY_IN_ROOT}"), ProbeError)
        return _Mount(root=root, version=1, real=None if part else True)
    return ProbeError(V1_MOUNTS[0], "the cpu controller (cgroup v1) is not mounted here", SourceState.MISSING)


def _hidden(host: Host, mount: _Mount) -> tuple[ProbeError | None, bool]:
    """Why levels may be hidden, and whether the paths can't belong to what is mounted."""
    reason = "read from a cgroup namespace: limits above its root are hidden"
    try:
        private = host.readlink(NAMESPACE) != INITIAL_NAMESPACE
    except ProbeError as error:
        return ProbeError(NAMESPACE, f"{error.reason}: whether all levels are seen is unknown", error.state), False
    if private or mount.real is False:
        return ProbeError(NAMESPACE, reason, SourceState.MASKED), private and mount.real is True
    return None, False


def _path(place: tuple[int, str] | ProbeError, strange: bool) -> str | ProbeError:
    if isinstance(place, ProbeError):
        return place
    path = place[1]
    if strange or ".." in path.split("/"):
        return ProbeError(NAMESPACE, f"cgroup {path} is named from another cgroup namespace", SourceState.MASKED)
    if len(levels(path)) > MAX_LEVELS:
        return ProbeError("sys/fs/cgroup", f"a cgroup lies more than {MAX_LEVELS} levels deep")
    return path


def _group(host: Host, mount: _Mount, path: str) -> CpuGroup:
    directory = mount.root + path.rstrip("/")
    return CpuGroup(
        path=path,
        directory=directory,
        version=mount.version,
        limit=_v1_limit(host, directory) if mount.version == 1 else _limit(host, directory),
        throttling=_throttling(host, directory, mount.version),
        waited_us=_waited_us(host, directory),
    )


def _limit(host: Host, directory: str) -> CpuLimit | ProbeError | None:
    """A level on which the cpu controller is not enabled has no cpu.max, and no limit of its own."""
    path = f"{directory}/cpu.max"
    try:
        return parse_cpu_max(host.read(path), path=path)
    except ProbeError as error:
        return None if _is_missing(error) and _lacks_controller(host, directory) else error


def _lacks_controller(host: Host, directory: str) -> bool:
    try:
        text = host.read(f"{directory}/cgroup.controllers")
    except ProbeError:
        return False
    return text.endswith("\n") and "cpu" not in text.split()


def _v1_limit(host: Host, directory: str) -> CpuLimit | ProbeError | None:
    path = f"{directory}/cpu.cfs_quota_us"
    try:
        quota = host.read(path)
        period = "" if quota.strip() == "-1" else host.read(f"{directory}/cpu.cfs_period_us")
        return parse_v1_limit(quota, period, path=path)
    except ProbeError as error:
        return error


def _throttling(host: Host, directory: str, version: int) -> Throttling | ProbeError | None:
    path = f"{directory}/cpu.stat"
    try:
        return parse_throttling(host.read(path), version=version, path=path)
    except ProbeError as error:
        return error


def _waited_us(host: Host, directory: str) -> int | ProbeError | None:
    path = f"{directory}/cpu.stat.local"
    try:
        return parse_waited(host.read(path), path=path)
    except ProbeError as error:
        return None if _is_missing(error) else error
