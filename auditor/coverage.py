"""What this audit could see: per source what became of it, and what its absence costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from auditor.context import Context
from auditor.kubelet_cpus import KubeletCpus
from auditor.model import Coverage
from auditor.remedies import HIDDEN, OTHER_NAMESPACE, remedy
from probes.cpulist import format_cpulist
from probes.cpustat import PATH as STAT
from probes.delta import RowDelta
from probes.host import ProbeError, SourceState
from probes.interrupts import InterruptKind
from probes.irq_affinity import IRQ_DIR, IrqAffinities, is_block_queue
from probes.irqbalance import Ban
from probes.isolation import MAX_CGROUPS, Isolation
from probes.pod_resources import SOCKET
from probes.resctrl import Group
from probes.rps import MAX_QUEUES, NET_DIR
from probes.schedstat import PATH as SCHEDSTAT
from probes.snapshot import Census, Config, Snapshot
from probes.topology import CPU_DIR


def coverage(ctx: Context) -> tuple[Coverage, ...]:
    """One line per source, in the order of the rules they feed."""
    return tuple(_line(source, value, costs) for source, value, costs in _sources(ctx))


def _line(source: str, value: object, costs: str) -> Coverage:
    if isinstance(value, ProbeError):
        what_to_do = remedy(source, value)
        costs = f"{costs}; {what_to_do}" if what_to_do else costs
        return Coverage(source=source, state=value.state.value, reason=value.reason, costs=costs)
    return Coverage(source=source, state=SourceState.READ.value)


def _sources(ctx: Context) -> Iterator[tuple[str, object, str]]:
    ends, facts, delta = (ctx.observation.before, ctx.observation.after), ctx.observation.facts, ctx.delta
    configs = [end.config for end in ends]
    isolations = [config.isolation for config in configs]
    yield "/proc/interrupts", delta.interrupts, "no interrupt, IPI or tick can be judged"
    yield "/proc/softirqs", delta.softirqs, "no softirq can be judged"
    yield (
        "/proc/schedstat",
        _of_cpus(ctx, SCHEDSTAT, delta.sched),
        "foreign switches can't be counted: who else ran is only sampled",
    )
    yield "/proc/*/task", _worse(*map(_census, ends)), "foreign threads can't be named, own switches not subtracted"
    yield "/proc/*/task/*/schedstat", _thread_schedstat(ctx), "own switches can't be told from foreign ones"
    yield "/proc/stat", _of_cpus(ctx, STAT, delta.busy), "busy or idle is unknown, so the tick can't be judged"
    yield (
        "/proc/irq",
        _worse(*(_affinity(ctx, config) for config in configs)),
        "where device interrupts may fire is unknown",
    )
    if isinstance(affinity := configs[1].affinity, IrqAffinities):
        yield "/proc/irq/default_smp_affinity", affinity.default, "where new interrupts will go is unknown"
    rps = _worse(*map(_rps, configs))
    yield "/sys/class/net/*/queues", rps, "whether packets are steered here (RPS) is unknown"
    if (unread := _own_io(ctx)) is not None:
        yield "/proc/*/io", unread, "whose I/O a managed queue served is not known"
    for balancer in ctx.observation.after.irqbalance:
        ban = balancer.environment
        source = ban.path if isinstance(ban, Ban) else f"proc/{balancer.pid}/environ"
        yield f"/{source}", ban, "what irqbalance was told is only guessed from its configuration"
    yield f"/{CPU_DIR}/online", _worse(*(item.online for item in configs)), "whether the CPUs stayed is unknown"
    boot = _worse(*(isolation.boot for isolation in isolations))
    nohz = _worse(*(isolation.nohz_full for isolation in isolations))
    yield "/sys/devices/system/cpu/isolated", boot, "boot isolation is unknown"
    yield "/sys/devices/system/cpu/nohz_full", nohz, "whether the tick may stop is unknown"
    yield "/sys/fs/cgroup cpuset partitions", _worse(*map(_partitions, isolations)), "runtime isolation is unknown"
    if cpusets := _cpusets_v1(isolations):
        yield "/sys/fs/cgroup/cpuset", cpusets[0], "which CPUs the cpusets of cgroup v1 keep balanced is unknown"
    yield "/sys/fs/cgroup cpu.max, cpu.stat", next(_limits(ctx), None), "CPU limits of the workload are unknown"
    yield "/proc/*/limits, timers", next(_timers(ctx), None), "CPU timers that keep the tick can't be named"
    queues = _worse(*(config.workqueues for config in configs))
    yield "/sys/devices/virtual/workqueue/cpumask", queues, "where unbound kernel work may run is unknown"
    sysctls = _worse(*map(_sysctls, configs))
    yield "/proc/sys", sysctls, "lockup detectors and other kernel settings can't be judged"
    yield "/sys/kernel/mm", _worse(*map(_memory, configs)), "transparent huge pages and KSM can't be judged"
    yield "/sys/devices/system/node", _nodes(ctx), "whether the workload's memory is near is unknown"
    if divided := [found for config in configs if (found := _resctrl(config)) is not None]:
        yield "/sys/fs/resctrl", _worse(divided[0], divided[-1]), "who else may fill the caches is unknown"
    clock = _worse(*(config.clock for config in configs))
    yield "/sys/devices/system/clocksource", clock, "what reading the time costs is unknown"
    frequency = None if _frequency_of_host(ctx, configs) else _worse(*(_frequency(ctx, config) for config in configs))
    yield "/sys/devices/system/cpu/cpufreq", frequency, "who sets the frequency is unknown"
    yield "/sys/devices/system/cpu/cpu*/topology", _cores(ctx), "which CPUs share a core is unknown"
    yield "boot loader configuration", _boot_files(ctx), "what the next boot is to isolate is unknown"
    yield "/proc/cmdline", facts.cmdline, "what was asked for at boot is unknown"
    yield from _kubelets(ctx)
    idle = next((states for states in delta.idle.values() if isinstance(states, ProbeError)), None)
    yield "/sys/devices/system/cpu/cpu*/cpuidle", idle, "C-states can't be judged"


def _of_cpus(ctx: Context, path: str, value: Mapping[int, object] | ProbeError) -> object:
    """What does not tell of every audited CPU at both ends is no whole source."""
    if isinstance(value, ProbeError) or not (untold := ctx.targets.audited - value.keys()):
        return value
    return ProbeError(path, f"does not tell of CPU {format_cpulist(untold)} at both ends of the window")


def _kubelets(ctx: Context) -> Iterator[tuple[str, object, str]]:
    """Of every kubelet; nothing where there is none."""
    for view in ctx.kubelets:
        kubelet = view.kubelet
        where = "installed files" if kubelet.pid is None else f"PID {kubelet.pid}"
        yield f"kubelet configuration ({where})", kubelet.config, "what the kubelet is told to do is unknown"
        yield f"/{kubelet.state_path}", kubelet.state, "to whom the kubelet gave CPUs is unknown"
        unnamed = isinstance(view.cpus, KubeletCpus) and view.cpus.reserved is None and kubelet.pid is not None
        if unnamed or not isinstance(kubelet.resources, ProbeError):
            socket = f"{kubelet.state_path.rpartition('/')[0]}/{SOCKET}"
            yield f"/{socket}", kubelet.resources, "which CPUs the kubelet keeps for the system is unknown"
    if ctx.kubelets:
        costs = "whether containers have the CPUs that the kubelet gave them is unknown"
        yield "/sys/fs/cgroup cpusets of pods", _pods(ctx), costs


def _pods(ctx: Context) -> object:
    """One cgroup that can't be read leaves its container undecided."""
    found = ctx.observation.after.kubernetes.cgroups
    if isinstance(found, ProbeError):
        return found
    if found.cut:
        return ProbeError("sys/fs/cgroup", "not all cgroups of pods may have been found")
    return next((item.cpus for item in found.containers if isinstance(item.cpus, ProbeError)), found)


def _own_io(ctx: Context) -> object:
    """The accounting of own processes, where a managed queue fired: None where nothing depends on it."""
    if not any(
        is_block_queue(row.actions) and any(row.counts.get(cpu) for cpu in ctx.audited) for row in _devices(ctx)
    ):
        return None
    ends = [end.own_io for end in (ctx.observation.before, ctx.observation.after)]
    read = [value for end in ends for value in end.values()]
    return next((value for value in read if isinstance(value, ProbeError)), read or None)


def _devices(ctx: Context) -> list[RowDelta]:
    return [] if isinstance(ctx.delta.interrupts, ProbeError) else ctx.rows(InterruptKind.DEVICE)


def _cores(ctx: Context) -> object:
    untold = ctx.targets.audited - ctx.observation.facts.topology.siblings.keys()
    if not untold:
        return None
    return ProbeError(f"{CPU_DIR}/cpu{min(untold)}/topology/thread_siblings_list", "not told", SourceState.MISSING)


def _worse(before: object, after: object) -> object:
    """What one end lacks, the audit lacks."""
    return before if isinstance(before, ProbeError) else after


def _affinity(ctx: Context, config: Config) -> object:
    """One interrupt that can't be read leaves the door undecided."""
    affinity = config.affinity
    if isinstance(affinity, ProbeError):
        return affinity
    if not affinity.irqs and any(row.irq is not None and row.actions for row in _devices(ctx)):
        return ProbeError(IRQ_DIR, "holds no interrupt: masked", SourceState.MASKED)
    return next((item for item in affinity.irqs.values() if isinstance(item, ProbeError)), affinity)


def _rps(config: Config) -> object:
    """One queue that can't be read may hold an audited CPU."""
    rps = config.rps
    if isinstance(rps, ProbeError) or not rps.cut:
        values = [] if isinstance(rps, ProbeError) else [*rps.queues.values(), rps.default]
        return next((value for value in values if isinstance(value, ProbeError)), rps)
    return ProbeError(NET_DIR, f"more than {MAX_QUEUES} receive queues: not all were read")


def _sysctls(config: Config) -> object:
    """A setting that the kernel does not have is no gap."""
    if isinstance(config.sysctls, ProbeError):
        return config.sysctls
    values = [*config.sysctls.numbers.values(), config.sysctls.watchdog_cpumask]
    gaps = (value for value in values if isinstance(value, ProbeError) and value.state is not SourceState.MISSING)
    return next(gaps, config.sysctls)


def _memory(config: Config) -> object:
    memory = config.memory
    values = [] if isinstance(memory, ProbeError) else [memory.thp, memory.ksm_run]
    return next((value for value in values if isinstance(value, ProbeError)), memory)


def _nodes(ctx: Context) -> object:
    """Where there are several, also where the own memory may be and is."""
    numa = ctx.observation.facts.numa
    if isinstance(numa, ProbeError):
        return numa
    memory = ctx.observation.after.limits.memory
    values = [*numa.cpus.values(), *memory.allowed.values(), *memory.placed.values()]
    values += [numa.memory] if ctx.observation.facts.several_nodes else []
    return next((value for value in values if isinstance(value, ProbeError)), numa)


def _resctrl(config: Config) -> object:
    """Nothing where it is not mounted."""
    found = config.resctrl
    if found is None or isinstance(found, ProbeError):
        return found
    values = [value for group in found.groups.values() for value in _of_group(group)]
    return next((value for value in values if isinstance(value, ProbeError)), found)


def _of_group(group: Group | ProbeError) -> list[object]:
    return [group] if isinstance(group, ProbeError) else [group.cpus, group.masks]


def _frequency_of_host(ctx: Context, configs: list[Config]) -> bool:
    """Whether this is a guest that has nothing to tell."""
    missing = [isinstance(item.cpufreq, ProbeError) and item.cpufreq.state is SourceState.MISSING for item in configs]
    return all(missing) and ctx.observation.facts.kernel.hypervisor not in (None, "unknown")


def _frequency(ctx: Context, config: Config) -> object:
    policies = config.cpufreq
    values = [] if isinstance(policies, ProbeError) else [policies.get(cpu) for cpu in ctx.audited]
    return next((value for value in values if isinstance(value, ProbeError)), policies)


def _boot_files(ctx: Context) -> object:
    files = ctx.observation.facts.boot_files
    return files if isinstance(files, ProbeError) else next(iter(files.unread), files)


def _partitions(isolation: Isolation) -> object:
    if isinstance(isolation.partitions, ProbeError) or not isolation.walk_cut:
        return isolation.partitions
    return ProbeError("sys/fs/cgroup", f"more than {MAX_CGROUPS} cgroups: not all were visited")


def _cpusets_v1(isolations: list[Isolation]) -> list[object]:
    """Of each end that has some the gap in them, else themselves; the worse first."""
    ends = [isolation.cpusets_v1 for isolation in isolations]
    there = [end for end in ends if not (isinstance(end, ProbeError) and end.state is SourceState.MISSING)]
    known = [end if isinstance(end, ProbeError) else end.gap() or end for end in there]
    return sorted(known, key=lambda value: not isinstance(value, ProbeError))


def _limits(ctx: Context) -> Iterator[ProbeError]:
    yield from ctx.quotas.unknown
    for end in (ctx.observation.before, ctx.observation.after):
        for group in end.limits.cgroups.groups.values():
            for value in (group.throttling, group.waited_us):
                if isinstance(value, ProbeError):
                    yield value


def _timers(ctx: Context) -> Iterator[ProbeError]:
    for known in ctx.observation.after.limits.timers.values():
        for value in (known.limit_s, known.timers):
            if isinstance(value, ProbeError):
                yield value


def _census(end: Snapshot) -> object:
    census = end.census
    if isinstance(census, ProbeError) or census.complete:
        return census
    if census.unread:
        return ProbeError("proc", f"the status of {census.unread} threads may not be read", SourceState.DENIED)
    if any(key.pid == 1 for key in census.statuses):  # every PID namespace has an init, which only hidepid hides
        return ProbeError("proc", OTHER_NAMESPACE, SourceState.MASKED)
    return ProbeError("proc", HIDDEN, SourceState.DENIED)


def _thread_schedstat(ctx: Context) -> object:
    if isinstance(ctx.census, ProbeError) or ctx.census.schedstat:
        return _own_unread(ctx) or ctx.census
    return ProbeError("proc", "the kernel has no CONFIG_SCHED_INFO", SourceState.MISSING)


def _own_unread(ctx: Context) -> ProbeError | None:
    """Own threads that were there at an end of the window, and whose switches could not be read."""
    ends = (ctx.observation.before, ctx.observation.after)
    censuses = [(end.census, end.runs) for end in ends]
    unread = [
        key
        for census, runs in censuses
        if isinstance(census, Census)
        for key in ctx.own & census.statuses.keys() - runs.keys()
    ]
    return (
        ProbeError(f"{min(unread).path}/schedstat", f"not read of {len(set(unread))} own threads") if unread else None
    )
