"""Memory nodes: which CPUs and how much memory each has, the huge pages of each, and what own processes may use.

Sources: Documentation/admin-guide/mm/numaperf.rst, drivers/base/node.c, mm/hugetlb.c, fs/proc/array.c (Mems_allowed),
Documentation/admin-guide/cgroup-v2.rst (memory.numa_stat). numa_maps would tell more and walks page tables: never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from probes.counters import parse_count, parse_number
from probes.cpulist import parse_cpulist, read_cpulist
from probes.host import Host, ProbeError, SourceState, attempt
from probes.topology import NODE_DIR

POOL_DIR = "sys/kernel/mm/hugepages"
HAS_MEMORY = "has_memory"
PLACED = ("anon", "shmem")
"""Lines of memory.numa_stat that are memory of processes; others are caches of files, or parts of these."""
_NODE = re.compile(r"node([0-9]{1,6})", re.ASCII)
_SIZE = re.compile(r"hugepages-([0-9]{1,9})kB", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Huge pages of one size, of the host or of a node."""

    total: int
    free: int
    reserved: int | None = None
    """Promised to mappings and not yet used: free for nobody else. Only the host has the number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Numa:
    """The memory nodes of a host."""

    cpus: Mapping[int, frozenset[int] | ProbeError]
    """CPUs by node; empty of one with memory only."""
    memory: frozenset[int] | ProbeError
    """Nodes with memory."""
    pools: Mapping[int, Pool | ProbeError] = field(default_factory=dict)
    """Huge pages of the host, by size in KiB; only sizes of which there are directories."""
    node_pools: Mapping[int, Mapping[int, Pool | ProbeError]] = field(default_factory=dict)
    """Of each node, by size in KiB."""

    def node_of(self, cpu: int) -> int | None:
        """The node of a CPU, None where no node tells."""
        return next(
            (node for node, cpus in self.cpus.items() if not isinstance(cpus, ProbeError) and cpu in cpus), None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnMemory:
    """Where the own processes may have memory, and where it is."""

    allowed: Mapping[int, frozenset[int] | ProbeError] = field(default_factory=dict)
    """Mems_allowed_list by process: cpuset.mems of its cgroup. A policy of its own (numactl) is not in it."""
    placed: Mapping[str, Mapping[int, int] | ProbeError] = field(default_factory=dict)
    """Bytes by node, by the directory of a cgroup (v2 with the memory controller)."""


def read_numa(host: Host) -> Numa:
    """Raises ProbeError where there is no directory of nodes: masked, or a kernel without CONFIG_NUMA."""
    nodes = {int(match[1]): name for name in host.listdir(NODE_DIR) if (match := _NODE.fullmatch(name))}
    if not nodes:
        raise ProbeError(NODE_DIR, "no node in it: masked or cut", SourceState.MASKED)
    return Numa(
        cpus={node: attempt(read_cpulist, host, f"{NODE_DIR}/{nodes[node]}/cpulist") for node in sorted(nodes)},
        memory=attempt(read_cpulist, host, f"{NODE_DIR}/{HAS_MEMORY}"),
        pools=_pools(host, POOL_DIR, "resv_hugepages"),
        node_pools={node: _pools(host, f"{NODE_DIR}/{nodes[node]}/hugepages", None) for node in sorted(nodes)},
    )


def _pools(host: Host, directory: str, reserved: str | None) -> dict[int, Pool | ProbeError]:
    try:
        names = host.listdir(directory)
    except ProbeError:
        return {}
    sizes = {int(match[1]): name for name in names if (match := _SIZE.fullmatch(name))}
    return {size: attempt(_pool, host, f"{directory}/{sizes[size]}", reserved) for size in sorted(sizes)}


def _pool(host: Host, directory: str, reserved: str | None) -> Pool:
    return Pool(
        total=_number(host, f"{directory}/nr_hugepages"),
        free=_number(host, f"{directory}/free_hugepages"),
        reserved=_number(host, f"{directory}/{reserved}") if reserved else None,
    )


def _number(host: Host, path: str) -> int:
    return parse_number(host.read(path), path=path)


def read_own_memory(host: Host, pids: Iterable[int], directories: Iterable[str]) -> OwnMemory:
    """Of these processes, and of these cgroups (v2) where they have the memory controller. Never raises."""
    placed: dict[str, Mapping[int, int] | ProbeError] = {}
    for directory in sorted(set(directories)):
        path = f"{directory}/memory.numa_stat"
        try:
            placed[directory] = parse_placed(host.read(path), path=path)
        except ProbeError as error:
            if error.state is not SourceState.MISSING:
                placed[directory] = error
    return OwnMemory(allowed={pid: attempt(_allowed, host, pid) for pid in sorted(set(pids))}, placed=placed)


def _allowed(host: Host, pid: int) -> frozenset[int]:
    path = f"proc/{pid}/status"
    return parse_allowed(host.read(path), path=path)


def parse_allowed(text: str, *, path: str = "status") -> frozenset[int]:
    """Mems_allowed_list of /proc/PID/status. Raises ProbeError where there is none (no CONFIG_CPUSETS)."""
    lines = [line for line in text.split("\n")[:-1] if line.startswith("Mems_allowed_list:")]
    if len(lines) != 1:
        raise ProbeError(path, "no Mems_allowed_list")
    nodes = parse_cpulist(lines[0].partition(":")[2].strip(), path=path)
    if not nodes:
        raise ProbeError(path, "Mems_allowed_list is empty")
    return nodes


def parse_placed(text: str, *, path: str = "memory.numa_stat") -> dict[int, int]:
    """Bytes by node in lines ``anon N0=4096 N1=0``; sum of those that are memory of processes. Raises ProbeError."""
    if not text.endswith("\n"):
        raise ProbeError(path, "empty or cut")
    placed: dict[int, int] = {}
    seen: set[str] = set()
    for line in text.split("\n")[:-1]:
        name, *words = line.split(" ")
        if name not in PLACED or name in seen:
            continue
        seen.add(name)
        for word in words:
            node, _, value = word.removeprefix("N").partition("=")
            number, count = parse_count(node), parse_count(value)
            if number is None or count is None or not word.startswith("N"):
                raise ProbeError(path, f"not a node and its bytes: {word[:40]!r}")
            placed[number] = placed.get(number, 0) + count
    if len(seen) != len(PLACED):
        raise ProbeError(path, f"lacks {', '.join(name for name in PLACED if name not in seen)}")
    return placed
