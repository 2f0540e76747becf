"""What keeps the scheduler off some CPUs, as the kernel reports it: boot isolation, nohz_full, cpuset partitions.

Sources: Documentation/admin-guide/cgroup-v2.rst (cpuset.cpus.partition), kernel/sched/isolation.c, drivers/base/cpu.c.
"""

from __future__ import annotations

from dataclasses import dataclass

from probes.cpulist import read_cpulist
from probes.cpuset_v1 import NO_CPUSETS_V1, CpusetsV1, read_cpusets_v1
from probes.host import Host, ProbeError, SourceState, attempt, visible
from probes.topology import read_cpus

CGROUP_ROOTS = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
CONTROLLERS = frozenset(
    ("cgroup", "cpu", "cpuset", "debug", "dmem", "hugetlb", "io", "irq", "memory", "misc", "perf_event", "pids", "rdma")
)
"""What stands before the first dot of interface files; every other name may be a cgroup (``lxc.payload.db``)."""
MAX_CGROUPS = 4000
"""How many are looked at, parents first. A node with more is judged by cpuset.cpus.isolated and schedstat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """One cgroup whose cpuset is not an ordinary member."""

    path: str
    state: str
    """isolated, root, ``isolated invalid (reason)`` …: only an exact ``isolated`` counts."""
    cpus: frozenset[int]
    """Those that it has: cpuset.cpus.effective."""
    asked: frozenset[int] | ProbeError = frozenset()
    """Those that it was given: cpuset.cpus.exclusive (since 6.7) where it is set, else cpuset.cpus."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """Every source apart, for they may differ and each proves something else."""

    boot: frozenset[int] | ProbeError
    """/sys/devices/system/cpu/isolated: boot-time only, partitions never show there."""
    nohz_full: frozenset[int] | ProbeError
    """Missing: the kernel has no CONFIG_NO_HZ_FULL. Reads ``(null)`` where no CPU was asked for."""
    partitions: tuple[Partition, ...] | ProbeError
    """Partitions prove isolation, their absence proves nothing: see ``walk_cut``."""
    cgroup_isolated: frozenset[int] | ProbeError
    """cpuset.cpus.isolated of the root cgroup (since 6.8, only there): isolation by boot and partitions together."""
    walk_cut: bool = False
    """There are more than MAX_CGROUPS cgroups: ``partitions`` may lack some."""
    cpusets_v1: CpusetsV1 | ProbeError = NO_CPUSETS_V1
    """Cgroup v1 has no partitions: there a flag of every cpuset decides."""

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

    def unbalanced(self) -> frozenset[int]:
        """CPUs that cpusets of cgroup v1 keep out of all scheduler domains."""
        return frozenset() if isinstance(self.cpusets_v1, ProbeError) else self.cpusets_v1.free()


def read_isolation(host: Host) -> Isolation:
    """Never raises: each source is its value or its ProbeError."""
    root = cgroup2_root(host)
    partitions, cut = (root, False) if isinstance(root, ProbeError) else _walk(host, root)
    return Isolation(
        boot=attempt(read_cpus, host, "isolated"),
        nohz_full=attempt(read_cpus, host, "nohz_full"),
        partitions=partitions,
        cgroup_isolated=root
        if isinstance(root, ProbeError)
        else attempt(read_cpulist, host, f"{root}/cpuset.cpus.isolated"),
        walk_cut=cut,
        cpusets_v1=read_cpusets_v1(host),
    )


def cgroup2_root(host: Host) -> str | ProbeError:
    """Where cgroup v2 is mounted: cgroup.controllers exists in its root only there. Else why that can't be told."""
    reason = ProbeError(CGROUP_ROOTS[0], "no cgroup v2 hierarchy is mounted here", SourceState.MISSING)
    for root in CGROUP_ROOTS:
        try:
            host.read(f"{root}/cgroup.controllers")
        except ProbeError as error:
            if error.state is not SourceState.MISSING:
                reason = error
            continue
        return root
    return reason


def _walk(host: Host, root: str) -> tuple[tuple[Partition, ...], bool]:
    """Partitions, and whether there are more cgroups than are looked at.

    A cgroup without cpuset.cpus.partition has no children with one: its subtree is left out. The real root never has
    one, that of a cgroup namespace may.
    """
    found: list[Partition] = []
    queue = [root]
    for seen, path in enumerate(queue):
        if seen == MAX_CGROUPS:
            return tuple(found), True
        state = _state(host, path)
        if state not in ("", "member"):
            found.append(_partition(host, path, state))
        if state or path == root:
            queue += [f"{path}/{name}" for name in _cgroups(host, path)]
    return tuple(found), False


def _state(host: Host, path: str) -> str:
    try:
        return host.read(f"{path}/cpuset.cpus.partition").strip()
    except ProbeError:
        return ""


def _partition(host: Host, path: str, state: str) -> Partition:
    cpus = attempt(read_cpulist, host, f"{path}/cpuset.cpus.effective")
    return Partition(
        path=visible(path),
        state=state,
        cpus=frozenset() if isinstance(cpus, ProbeError) else cpus,
        asked=_asked(host, path),
    )


def _asked(host: Host, path: str) -> frozenset[int] | ProbeError:
    exclusive = attempt(read_cpulist, host, f"{path}/cpuset.cpus.exclusive")
    if exclusive and not isinstance(exclusive, ProbeError):
        return exclusive
    return attempt(read_cpulist, host, f"{path}/cpuset.cpus")


def _cgroups(host: Host, path: str) -> list[str]:
    """Sub-cgroups of a cgroup: what is no interface file, and all of these are named ``controller.what``."""
    try:
        names = host.listdir(path)
    except ProbeError:
        return []
    return [name for name in names if "." not in name or name.partition(".")[0] not in CONTROLLERS]
