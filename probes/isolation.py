"""What keeps the scheduler off some CPUs, as the kernel itself reports it: boot isolation, nohz_full, cpuset partitions.

Sources: Documentation/admin-guide/cgroup-v2.rst (cpuset.cpus.partition), kernel/sched/isolation.c, drivers/base/cpu.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from probes.cpulist import parse_cpulist
from probes.host import Host, ProbeError, SourceState
from probes.topology import read_cpus

CGROUP_ROOTS = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
MAX_CGROUPS = 4000
"""A node with more is judged by cpuset.cpus.isolated and schedstat; the walk says that it was cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """One cgroup whose cpuset is not an ordinary member."""

    path: str
    state: str
    """isolated, root, ``isolated invalid (reason)`` …: only an exact ``isolated`` counts."""
    cpus: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """Every source apart, for they may differ and each proves something else."""

    boot: frozenset[int] | ProbeError
    """/sys/devices/system/cpu/isolated: boot-time only, partitions never show there."""
    nohz_full: frozenset[int] | ProbeError
    """Missing: the kernel has no CONFIG_NO_HZ_FULL. Reads ``(null)`` where no CPU was asked for."""
    partitions: tuple[Partition, ...] | ProbeError
    cgroup_isolated: frozenset[int] | ProbeError
    """cpuset.cpus.isolated of the root cgroup (since 6.8, only there): boot isolation and isolated partitions together."""

    def partitioned(self) -> frozenset[int]:
        """CPUs of valid isolated partitions."""
        named: set[int] = set()
        if not isinstance(self.partitions, ProbeError):
            for partition in self.partitions:
                if partition.state == "isolated":
                    named |= partition.cpus
        if not isinstance(self.cgroup_isolated, ProbeError):
            named |= self.cgroup_isolated
        return frozenset(named)


def read_isolation(host: Host) -> Isolation:
    """Never raises: each source is its value or its ProbeError."""
    return Isolation(
        boot=_cpus(host, "isolated"),
        nohz_full=_cpus(host, "nohz_full"),
        partitions=_read_partitions(host),
        cgroup_isolated=_read_cgroup_isolated(host),
    )


def _cpus(host: Host, which: str) -> frozenset[int] | ProbeError:
    try:
        return read_cpus(host, which)
    except ProbeError as error:
        return error


def cgroup2_root(host: Host) -> str | None:
    """Where cgroup v2 is mounted: cgroup.controllers exists in its root only there."""
    for root in CGROUP_ROOTS:
        try:
            host.read(f"{root}/cgroup.controllers")
        except ProbeError:
            continue
        return root
    return None


def _read_cgroup_isolated(host: Host) -> frozenset[int] | ProbeError:
    path = f"{cgroup2_root(host) or CGROUP_ROOTS[0]}/cpuset.cpus.isolated"
    try:
        return parse_cpulist(host.read(path), path=path)
    except ProbeError as error:
        return error


def _read_partitions(host: Host) -> tuple[Partition, ...] | ProbeError:
    root = cgroup2_root(host)
    if root is None:
        return ProbeError(CGROUP_ROOTS[0], "no cgroup v2 hierarchy is mounted here", SourceState.MISSING)
    return tuple(_walk(host, root))


def _walk(host: Host, root: str) -> Iterator[Partition]:
    """Partitions below root. A cgroup without cpuset.cpus.partition has no cpuset children: its subtree is left out."""
    queue = [root]
    for path in queue:
        for name in _directories(host, path)[: MAX_CGROUPS - len(queue)]:
            child = f"{path}/{name}"
            try:
                state = host.read(f"{child}/cpuset.cpus.partition").strip()
            except ProbeError:
                continue
            queue.append(child)
            if state and state != "member":
                yield Partition(path=child, state=state, cpus=_effective(host, child))


def _directories(host: Host, path: str) -> list[str]:
    """Sub-cgroups: in cgroup v2 every interface file has a dot, and names with a dot that are directories end in a type."""
    try:
        names = host.listdir(path)
    except ProbeError:
        return []
    return [name for name in names if "." not in name or name.endswith((".slice", ".scope", ".service", ".mount"))]


def _effective(host: Host, cgroup: str) -> frozenset[int]:
    path = f"{cgroup}/cpuset.cpus.effective"
    try:
        return parse_cpulist(host.read(path), path=path)
    except ProbeError:
        return frozenset()
