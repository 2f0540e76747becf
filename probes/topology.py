"""CPUs of a host: which exist, which are online, which share a core, a NUMA node, a core type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from probes.counters import parse_count
from probes.cpulist import read_cpulist
from probes.host import Host, ProbeError, SourceState

CPU_DIR = "sys/devices/system/cpu"
NODE_DIR = "sys/devices/system/node"
CORE_TYPES = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""PMU devices of Intel hybrid parts; each has a ``cpus`` list (Documentation/ABI/testing/sysfs-bus-event_source)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """CPU sets. What the host tells of ``siblings``, ``node`` and ``core_type``, by CPU; nothing where it is silent."""

    online: frozenset[int]
    possible: frozenset[int]
    present: frozenset[int]
    siblings: Mapping[int, frozenset[int]]
    node: Mapping[int, int]
    core_type: Mapping[int, str]

    def like(self, cpu: int, other: int) -> bool:
        """Whether two CPUs may be compared: same NUMA node and same core type."""
        return self.node.get(cpu) == self.node.get(other) and self.core_type.get(cpu) == self.core_type.get(other)


def read_cpus(host: Host, which: str) -> frozenset[int]:
    """One of /sys/devices/system/cpu/{online,possible,present,isolated,nohz_full}; raises ProbeError.

    The empty set is a lone line end (drivers/base/cpu.c): a file without anything is masked.
    """
    return read_cpulist(host, f"{CPU_DIR}/{which}")


def read_topology(host: Host) -> Topology:
    """Raises ProbeError where the online CPUs can't be told; the rest is optional."""
    online = read_cpus(host, "online")
    if not online:
        raise ProbeError(f"{CPU_DIR}/online", "no CPU is online: masked or cut", SourceState.MASKED)
    return Topology(
        online=online,
        possible=_at_least(host, "possible", online),
        present=_at_least(host, "present", online),
        siblings=_siblings(host, online),
        node=_nodes(host),
        core_type=_core_types(host, online),
    )


def _at_least(host: Host, which: str, online: frozenset[int]) -> frozenset[int]:
    try:
        return read_cpus(host, which) | online
    except ProbeError:
        return online


def _siblings(host: Host, cpus: frozenset[int]) -> dict[int, frozenset[int]]:
    found: dict[int, frozenset[int]] = {}
    for cpu in cpus:
        path = f"{CPU_DIR}/cpu{cpu}/topology/thread_siblings_list"
        try:
            told = read_cpulist(host, path)
        except ProbeError:
            continue
        if cpu in told:
            found[cpu] = told
    return found


def _nodes(host: Host) -> dict[int, int]:
    found: dict[int, int] = {}
    try:
        names = host.listdir(NODE_DIR)
    except ProbeError:
        return found
    for name in names:
        if match := re.fullmatch(r"node([0-9]{1,6})", name):
            path = f"{NODE_DIR}/{name}/cpulist"
            try:
                found.update(dict.fromkeys(read_cpulist(host, path), int(match[1])))
            except ProbeError:
                continue
    return found


def _core_types(host: Host, cpus: frozenset[int]) -> dict[int, str]:
    """Intel hybrid parts by PMU device; arm64 big.LITTLE by cpu_capacity (Documentation/ABI/testing/sysfs-devices)."""
    found: dict[int, str] = {}
    for kind in CORE_TYPES:
        path = f"sys/devices/{kind}/cpus"
        try:
            found.update(dict.fromkeys(read_cpulist(host, path), kind))
        except ProbeError:
            continue
    for cpu in cpus - set(found):
        try:
            capacity = parse_count(host.read(f"{CPU_DIR}/cpu{cpu}/cpu_capacity").strip())
        except ProbeError:
            continue
        if capacity is not None:
            found[cpu] = f"capacity {capacity}"
    return found
