"""What this audit could see: per source what became of it, and what its absence costs."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Coverage
from probes.host import ProbeError, SourceState
from probes.irq_affinity import IrqAffinities
from probes.isolation import MAX_CGROUPS, Isolation


def coverage(ctx: Context) -> tuple[Coverage, ...]:
    """One line per source, in the order of the rules they feed."""
    return tuple(_line(source, value, costs) for source, value, costs in _sources(ctx))


def _line(source: str, value: object, costs: str) -> Coverage:
    if isinstance(value, ProbeError):
        return Coverage(source=source, state=value.state.value, reason=value.reason, costs=costs)
    return Coverage(source=source, state=SourceState.READ.value)


def _sources(ctx: Context) -> Iterator[tuple[str, object, str]]:
    config, facts, delta = ctx.observation.after.config, ctx.observation.facts, ctx.delta
    yield "/proc/interrupts", delta.interrupts, "no interrupt, IPI or tick can be judged"
    yield "/proc/softirqs", delta.softirqs, "no softirq can be judged"
    yield "/proc/schedstat", delta.sched, "foreign switches can't be counted: who else ran is only sampled"
    yield "/proc/*/task", _census(ctx), "foreign threads can't be named, own switches not subtracted"
    yield "/proc/*/task/*/schedstat", _thread_schedstat(ctx), "own switches can't be told from foreign ones"
    yield "/proc/stat", delta.busy, "busy or idle is unknown, so the tick can't be judged"
    yield "/proc/irq", _affinity(config.affinity), "where device interrupts may fire is unknown"
    affinity = config.affinity
    if isinstance(affinity, IrqAffinities):
        yield "/proc/irq/default_smp_affinity", affinity.default, "where new interrupts will go is unknown"
    yield "/sys/devices/system/cpu/isolated", config.isolation.boot, "boot isolation is unknown"
    yield "/sys/devices/system/cpu/nohz_full", config.isolation.nohz_full, "whether the tick may stop is unknown"
    yield "/sys/fs/cgroup cpuset partitions", _partitions(config.isolation), "runtime isolation is unknown"
    yield "/proc/cmdline", facts.cmdline, "what was asked for at boot is unknown"
    idle = next((states for states in delta.idle.values() if isinstance(states, ProbeError)), None)
    yield "/sys/devices/system/cpu/cpu*/cpuidle", idle, "C-states can't be judged"


def _affinity(affinity: IrqAffinities | ProbeError) -> object:
    """One interrupt that can't be read leaves the door undecided."""
    if isinstance(affinity, ProbeError):
        return affinity
    return next((item for item in affinity.irqs.values() if isinstance(item, ProbeError)), affinity)


def _partitions(isolation: Isolation) -> object:
    if isinstance(isolation.partitions, ProbeError) or not isolation.walk_cut:
        return isolation.partitions
    return ProbeError("sys/fs/cgroup", f"more than {MAX_CGROUPS} cgroups: not all were visited")


def _census(ctx: Context) -> object:
    census = ctx.census
    if isinstance(census, ProbeError) or census.complete:
        return census
    return ProbeError("proc", "kernel threads are hidden (PID namespace or hidepid)", SourceState.MASKED)


def _thread_schedstat(ctx: Context) -> object:
    if isinstance(ctx.census, ProbeError) or ctx.census.schedstat:
        return ctx.census
    return ProbeError("proc", "the kernel has no CONFIG_SCHED_INFO", SourceState.MISSING)
