"""resctrl: which part of the caches each group of CPUs and tasks may fill (Intel RDT, AMD PQoS, Arm MPAM).

Sources: Documentation/filesystems/resctrl.rst, fs/resctrl/rdtgroup.c. Only what the kernel keeps in memory is read:
files below mon_data interrupt a CPU of their domain, and are never opened.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from probes.counters import parse_count
from probes.cpulist import read_cpulist
from probes.host import Host, ProbeError, SourceState, attempt, known, visible
from probes.topology import CPU_DIR

ROOT = "sys/fs/resctrl"
DEFAULT = "/"
"""The group of everything that is in no other."""
NO_GROUPS = ("info", "mon_data", "mon_groups")
MAX_GROUPS = 256
"""No processor has so many classes of service."""
_CACHE = re.compile(r"L([23])(?:CODE|DATA)?")
_MASK = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
Masks = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One control group."""

    cpus: frozenset[int] | ProbeError
    """Those of its cpus_list; a task that is assigned to a group takes that one wherever it runs."""
    masks: Masks | ProbeError
    """Ways of a cache as bits, by cache (``L3``; with CDP ``L3CODE`` and ``L3DATA``) and its domain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resctrl:
    """All groups at one instant; ``/`` is the default one."""

    groups: Mapping[str, Group | ProbeError]
    domains: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Id of the cache of a level that a CPU has, by level and CPU. Not read where there is the default group only."""

    def group_of(self, cpu: int) -> str:
        """The group of a CPU. Raises ProbeError where one that may have it can't be read."""
        for name, group in self.groups.items():
            cpus = known(known(group).cpus)
            if name != DEFAULT and cpu in cpus:
                return name
        return DEFAULT


def read_resctrl(host: Host, cpus: Collection[int]) -> Resctrl | None:
    """None where it is not mounted, or the machine has none: both look alike in a recording. Raises ProbeError."""
    try:
        names = [name for name in host.listdir(ROOT) if name not in NO_GROUPS]
        host.read(f"{ROOT}/schemata")
    except ProbeError as error:
        if error.state is SourceState.MISSING:
            return None
        raise
    groups: dict[str, Group | ProbeError] = {DEFAULT: _group(host, ROOT)}
    for name in names:
        try:
            host.read(f"{ROOT}/{name}/cpus_list")
        except ProbeError as error:
            if error.state is not SourceState.MISSING:
                groups[visible(name)] = error
            continue
        groups[visible(name)] = _group(host, f"{ROOT}/{name}")
        if len(groups) > MAX_GROUPS:
            raise ProbeError(ROOT, f"more than {MAX_GROUPS} groups")
    return Resctrl(groups=groups, domains=_domains(host, cpus) if len(groups) > 1 else {})


def _group(host: Host, directory: str) -> Group:
    cpus = attempt(read_cpulist, host, f"{directory}/cpus_list")
    return Group(cpus=cpus, masks=attempt(_masks, host, f"{directory}/schemata"))


def _masks(host: Host, path: str) -> Masks:
    return parse_schemata(host.read(path), path=path)


def parse_schemata(text: str, *, path: str = "schemata") -> dict[str, dict[int, int]]:
    """Lines ``L3:0=7ff;1=7ff``; other resources (MB, SMBA) are left out. Raises ProbeError."""
    if not text.endswith("\n"):
        raise ProbeError(path, "empty or cut")
    found: dict[str, dict[int, int]] = {}
    for line in text.split("\n")[:-1]:
        name, _, parts = line.strip().partition(":")
        if _CACHE.fullmatch(name) is None:
            continue
        if name in found:
            raise ProbeError(path, f"{name} is there twice")
        found[name] = dict(_mask(part, path) for part in parts.split(";"))
    return found


def _mask(part: str, path: str) -> tuple[int, int]:
    domain, _, mask = part.partition("=")
    number = parse_count(domain.strip())
    if number is None or not _MASK.fullmatch(mask):
        raise ProbeError(path, f"not a domain and its mask: {part[:40]!r}")
    return number, int(mask, 16)


def _domains(host: Host, cpus: Iterable[int]) -> dict[tuple[int, int], int]:
    """Of the second and third level, as far as sysfs tells."""
    found: dict[tuple[int, int], int] = {}
    for cpu in sorted(cpus):
        for index in (2, 3):
            try:
                level = parse_count(host.read(f"{CPU_DIR}/cpu{cpu}/cache/index{index}/level").strip())
                domain = parse_count(host.read(f"{CPU_DIR}/cpu{cpu}/cache/index{index}/id").strip())
            except ProbeError:
                continue
            if level is not None and domain is not None:
                found[level, cpu] = domain
    return found


def read_task_groups(host: Host, pids: Iterable[int]) -> dict[int, str | ProbeError]:
    """The group of each process (/proc/PID/cpu_resctrl_groups, since 5.6): ``/`` is that of the CPU. Never raises."""
    return {pid: attempt(_task_group, host, pid) for pid in sorted(set(pids))}


def _task_group(host: Host, pid: int) -> str:
    path = f"proc/{pid}/cpu_resctrl_groups"
    return parse_task_group(host.read(path), path=path)


def parse_task_group(text: str, *, path: str = "cpu_resctrl_groups") -> str:
    """The line ``res:name``; ``res:/`` for the default group. Raises ProbeError."""
    lines = [line for line in text.split("\n")[:-1] if line.startswith("res:")]
    if len(lines) != 1 or lines[0] == "res:":
        raise ProbeError(path, "no group of resources")
    return visible(lines[0].removeprefix("res:"))
