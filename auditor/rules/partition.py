"""Cpuset partitions that were asked for, and what became of them (Documentation/admin-guide/cgroup-v2.rst)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from probes.cpulist import format_cpulist
from probes.cpuset_v1 import BALANCE, EXCLUSIVE, V1_ROOT, CpusetV1
from probes.host import ProbeError, SourceState
from probes.isolation import CGROUP_ROOTS, Partition

NOT_HANDED_DOWN = re.compile("arent is not a partition|cpuset.cpus.exclusive")
"""What the kernel says of a partition below an ordinary cgroup; 6.12: ``Invalid cpu list in cpuset.cpus.exclusive``."""


def check_partitions(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.PARTITION."""
    partitions = ctx.observation.after.config.isolation.partitions
    if of_v1 := list(_unbalanced_v1(ctx, rule)):
        yield from of_v1
        partitions = () if isinstance(partitions, ProbeError) else partitions
    if isinstance(partitions, ProbeError):
        if partitions.state is not SourceState.MISSING:
            raise partitions
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail=partitions.reason)
        return
    lost = [found for partition in partitions if (found := _lost(ctx, rule, partition))]
    yield from lost or ([_in_force(ctx, rule, partitions)] if not of_v1 else [])


def _unbalanced_v1(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """Cpusets of cgroup v1 that ask not to be balanced: one balanced cpuset above or beside defeats them."""
    cpusets = ctx.observation.after.config.isolation.cpusets_v1
    for item in () if isinstance(cpusets, ProbeError) else cpusets.unbalanced:
        cpus = frozenset[int]() if isinstance(item.cpus, ProbeError) else item.cpus & ctx.targets.audited
        if not cpus or isinstance(cpusets, ProbeError):
            continue
        name = item.path.removeprefix(V1_ROOT)
        over = [
            other.path.removeprefix(V1_ROOT) or "/"
            for other in cpusets.balancing
            if not isinstance(other.cpus, ProbeError) and other.cpus & cpus
        ]
        gap = cpusets.gap()
        outcome = Outcome.FAIL if over else Outcome.PASS if gap is None else Outcome.UNKNOWN
        told = f"asked not to be balanced, and is: {', '.join(over[:4])} has its CPUs and is" if over else str(gap)
        text = "boot isolation does not depend on other cpusets; or give the cpusets that are balanced other CPUs"
        yield rule.finding(
            outcome,
            cpus,
            title=f"{rule.title}: {name} (cgroup v1)",
            detail=f"{name} is not balanced, and no balanced cpuset has its CPUs" if outcome is Outcome.PASS else told,
            evidence=[Evidence(path=f"/{item.path}/{BALANCE}", field="flag", value="0"), *_exclusive(item)],
            fix=boot_fix(ctx, text) if over else None,
        )


def _exclusive(item: CpusetV1) -> list[Evidence]:
    if isinstance(item.exclusive, ProbeError):
        return []
    return [Evidence(path=f"/{item.path}/{EXCLUSIVE}", field="flag", value=str(int(item.exclusive)))]


def _lost(ctx: Context, rule: Rule, partition: Partition) -> Finding | None:
    """A partition that reads ``isolated invalid (reason)`` or ``root invalid (reason)`` is an ordinary cgroup."""
    kind, invalid, reason = partition.state.partition(" invalid")
    cpus = ctx.targets.audited if isinstance(partition.asked, ProbeError) else partition.asked & ctx.targets.audited
    if not invalid or not cpus:
        return None
    return rule.finding(
        Outcome.WARN if isinstance(partition.asked, ProbeError) else Outcome.FAIL,
        cpus,
        title=f"{rule.title}: {_name(partition)}",
        detail=f"asked to be {kind}, and is no partition{_because(reason)}",
        evidence=[Evidence(path=f"/{partition.path}/cpuset.cpus.partition", field="state", value=partition.state)],
        fix=_repair(ctx, partition, kind, cpus),
    )


def _because(reason: str) -> str:
    words = reason.strip(" ()")
    return f": the kernel says {words!r}" if words else "; this kernel does not say why (since 6.0 it does)"


def _name(partition: Partition) -> str:
    return next((partition.path[len(root) :] for root in reversed(CGROUP_ROOTS) if partition.path.startswith(root)), "")


def _repair(ctx: Context, partition: Partition, kind: str, cpus: frozenset[int]) -> Fix:
    """A partition needs its CPUs handed down: by cpuset.cpus.exclusive (since 6.7), before by parents that are one."""
    if not ctx.since(6, 7) or not NOT_HANDED_DOWN.search(partition.state) or not partition.path.isascii():
        text = "make its parents partitions too, or free its CPUs from the cpuset.cpus of sibling cgroups; or"
        return boot_fix(ctx, f"{text} isolate these CPUs at boot")
    path = PurePosixPath("/", partition.path)
    root = next(
        top for top in map(PurePosixPath, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if path.is_relative_to(top)
    )
    levels = [level for level in (*reversed(path.parents), path) if root in level.parents]
    asked = format_cpulist(cpus if isinstance(partition.asked, ProbeError) else partition.asked)
    commands = [_write(asked, level / "cpuset.cpus.exclusive") for level in levels]
    return Fix(
        kind=FixKind.RUNTIME,
        text="hand the CPUs down to it from the root: its parent is no partition",
        commands=(*commands, _write(kind, path / "cpuset.cpus.partition")),
        undo="; ".join(
            [_write("member", path / "cpuset.cpus.partition")]
            + [_write("", level / "cpuset.cpus.exclusive") for level in reversed(levels)]
        ),
    )


def _write(value: str, path: PurePosixPath) -> str:
    return f"echo {shlex.quote(value) if value else ''}".rstrip() + f" | sudo tee {shlex.quote(str(path))}"


def _in_force(ctx: Context, rule: Rule, partitions: tuple[Partition, ...]) -> Finding:
    here = [item for item in partitions if item.state in ("isolated", "root") and item.cpus & ctx.targets.audited]
    if not here:
        return rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="no cpuset partition asks for these CPUs")
    cpus = frozenset[int]().union(*(item.cpus for item in here)) & ctx.targets.audited
    listed = ", ".join(f"{_name(item)} ({item.state}, CPUs {format_cpulist(item.cpus)})" for item in here[:4])
    return rule.finding(Outcome.PASS, cpus, detail=f"in force: {listed}")


CFG_PARTITION = Rule(
    id="CFG.PARTITION",
    title="cpuset partition",
    kind=Kind.RISK,
    why="""A cgroup v2 partition can be asked for and not be one: the file accepts `isolated` and reads back
`isolated invalid (reason)`. Only the exact word counts; a rewrite of some cpuset.cpus or a CPU that went offline may
invalidate it later. On cgroup v1 a cpuset asks by sched_load_balance 0, and any balanced cpuset that has its CPUs, the
root too, defeats it.""",
    sources=("/sys/fs/cgroup/**/cpuset.cpus.partition", "/sys/fs/cgroup/**/cpuset.cpus", f"/{V1_ROOT}/**/{BALANCE}"),
    warns="where an invalid partition does not tell its CPUs",
    fails="where a partition that asks for the CPU is invalid, or a cpuset of v1 that asks not to be balanced is",
    cure="hand the CPUs down by cpuset.cpus.exclusive (since 6.7), make its parents partitions, or isolate at boot",
    check=check_partitions,
)
