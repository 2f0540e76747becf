"""One instant of a host: every probe read once. Two and the samples in between are the raw material of an audit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from probes.boot_files import BootFiles, read_boot_files
from probes.cgroup_cpu import CgroupCpu, read_cgroup_cpu
from probes.clocksource import CLOCK_DIR, Clocksource, read_clocksource
from probes.cmdline import Cmdline, read_cmdline
from probes.cpu_timers import CpuTimers, read_cpu_timers
from probes.cpufreq import CPUFREQ_DIR, FrequencyPolicy, read_cpufreq
from probes.cpuidle import CpuIdle, read_cpuidle, read_idle_driver
from probes.cpustat import CpuStat, read_cpustat
from probes.host import Host, ProbeError, SourceState, attempt
from probes.interrupts import Interrupts, read_interrupts
from probes.irq_affinity import IrqAffinities, read_irq_affinity
from probes.irqbalance import NAME as IRQBALANCE
from probes.irqbalance import Irqbalance, read_irqbalance
from probes.isolation import Isolation, read_isolation
from probes.kernel import Kernel, read_kernel
from probes.kubelet import Kubelet, ask_kubelet, kubelet_pids, read_installed, read_kubelets
from probes.memory_settings import MM_DIR, MemorySettings, read_memory_settings
from probes.numa import Numa, OwnMemory, read_numa, read_own_memory
from probes.pm_qos import DMA_LATENCY, PmQos, read_pm_qos
from probes.pod_cgroups import PodCgroups, read_pod_cgroups
from probes.resctrl import ROOT as RESCTRL
from probes.resctrl import Resctrl, read_resctrl, read_task_groups
from probes.rps import Rps, read_rps
from probes.schedstat import SchedStat, read_schedstat
from probes.softirqs import Softirqs, read_softirqs
from probes.sysctls import Sysctls, read_sysctls
from probes.task_io import TaskIo
from probes.threads import (
    KTHREADD,
    ThreadKey,
    ThreadRun,
    ThreadStatus,
    has_schedstat,
    list_threads,
    moved,
    read_cgroup,
    read_processor,
    read_runs,
    read_status,
)
from probes.topology import NODE_DIR, Topology, read_cpus, read_topology
from probes.uptime import PATH as UPTIME
from probes.uptime import read_uptime
from probes.workqueue import WORKQUEUE_DIR, Workqueues, read_workqueues

CGROUP2 = 2
BOOT_ID = "proc/sys/kernel/random/boot_id"
NO_WORKQUEUES = ProbeError(f"{WORKQUEUE_DIR}/cpumask", "not read", SourceState.MISSING)
NO_CLOCK = ProbeError(CLOCK_DIR, "not read", SourceState.MISSING)
NO_MEMORY = ProbeError(MM_DIR, "not read", SourceState.MISSING)
NO_CPUFREQ = ProbeError(CPUFREQ_DIR, "not read", SourceState.MISSING)
NO_PM_QOS = ProbeError(DMA_LATENCY, "not read", SourceState.MISSING)
NO_BOOT_FILES = ProbeError("etc/default/grub", "not read", SourceState.MISSING)
NO_NUMA = ProbeError(NODE_DIR, "not read", SourceState.MISSING)
NO_RESCTRL = ProbeError(RESCTRL, "not read", SourceState.MISSING)
NO_UPTIME = ProbeError(UPTIME, "not read", SourceState.MISSING)
NO_SYSCTLS = ProbeError("proc/sys", "not read", SourceState.MISSING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What does not change in a window; read before it, some of it would disturb the audited CPUs on old kernels."""

    kernel: Kernel
    topology: Topology
    cmdline: Cmdline | ProbeError
    idle_driver: str | ProbeError
    boot_files: BootFiles | ProbeError = NO_BOOT_FILES
    numa: Numa | ProbeError = NO_NUMA

    @property
    def several_nodes(self) -> bool:
        """Whether memory can be far."""
        return isinstance(self.numa, Numa) and len(self.numa.cpus) > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings that someone may change in a window: read at both ends."""

    online: frozenset[int] | ProbeError
    isolation: Isolation
    affinity: IrqAffinities | ProbeError
    rps: Rps | ProbeError
    boot_id: str | ProbeError = ""
    workqueues: Workqueues | ProbeError = NO_WORKQUEUES
    sysctls: Sysctls | ProbeError = NO_SYSCTLS
    memory: MemorySettings | ProbeError = NO_MEMORY
    clock: Clocksource | ProbeError = NO_CLOCK
    cpufreq: Mapping[int, FrequencyPolicy | ProbeError] | ProbeError = NO_CPUFREQ
    pm_qos: PmQos | ProbeError = NO_PM_QOS
    resctrl: Resctrl | ProbeError | None = NO_RESCTRL
    """None where it is not mounted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """Per-CPU counters; ``taken_ns`` is the monotonic time of the read."""

    taken_ns: int
    interrupts: Interrupts | ProbeError
    softirqs: Softirqs | ProbeError
    cpustat: CpuStat | ProbeError
    schedstat: SchedStat | ProbeError
    cpuidle: Mapping[int, CpuIdle | ProbeError]


@dataclass(frozen=True, kw_only=True, slots=True)
class Census:
    """Who exists: status of every thread, cgroup of every process."""

    statuses: Mapping[ThreadKey, ThreadStatus]
    cgroups: Mapping[int, str]
    schedstat: bool
    """Whether threads carry schedstat, so that switches can be attributed exactly."""
    unread: int = 0
    """Threads that exist and whose status may not be read, or makes no sense; processes whose threads hide."""

    @property
    def complete(self) -> bool:
        """Whether the whole machine is seen: kthreadd is visible only in the initial PID namespace, without hidepid."""
        kthreadd = self.statuses.get(ThreadKey(pid=KTHREADD, tid=KTHREADD))
        return kthreadd is not None and kthreadd.kernel and kthreadd.name == "kthreadd" and not self.unread


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Growth of all threads up to one instant, and where those that had moved since the sample before last ran."""

    taken_ns: int
    runs: Mapping[ThreadKey, ThreadRun]
    processors: Mapping[ThreadKey, int] = field(default_factory=dict)
    online: frozenset[int] | None = None
    """CPUs that are online; None where that can't be told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnLimits:
    """What bounds the CPU time of the own threads."""

    cgroups: CgroupCpu = field(default_factory=CgroupCpu)
    timers: Mapping[int, CpuTimers] = field(default_factory=dict)
    """By process id."""
    memory: OwnMemory = field(default_factory=OwnMemory)
    """Not read where there is one memory node."""
    resctrl: Mapping[int, str | ProbeError] = field(default_factory=dict)
    """Group by process id, where caches are divided."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kubernetes:
    """The kubelets of this kernel and the cgroups of their containers."""

    kubelets: tuple[Kubelet, ...] = ()
    cgroups: PodCgroups | ProbeError = field(default_factory=PodCgroups)
    """Of all kubelets together; not looked for where there is none."""
    uptime_s: float | ProbeError = NO_UPTIME
    """When they were read, seconds since the boot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One end of the window."""

    config: Config
    census: Census | ProbeError
    runs: Mapping[ThreadKey, ThreadRun]
    counters: Counters
    limits: OwnLimits = field(default_factory=OwnLimits)
    own_io: Mapping[int, TaskIo | ProbeError] = field(default_factory=dict)
    """Block I/O of the own processes; read outside of what the counters span."""
    irqbalance: tuple[Irqbalance, ...] = ()
    """Every process of that name."""
    kubernetes: Kubernetes = field(default_factory=Kubernetes)


def read_facts(host: Host, *, arch: str = "") -> Facts:
    """Raises ProbeError only where the online CPUs can't be told: without them nothing can be audited."""
    kernel = read_kernel(host, arch=arch)
    return Facts(
        kernel=kernel,
        topology=read_topology(host),
        cmdline=attempt(lambda: read_cmdline(host)),
        idle_driver=attempt(lambda: read_idle_driver(host)),
        boot_files=read_boot_files(host, kernel.release),
        numa=attempt(lambda: read_numa(host)),
    )


def read_config(host: Host) -> Config:
    """Never raises."""
    online = attempt(lambda: read_cpus(host, "online"))
    return Config(
        online=online,
        boot_id=attempt(lambda: host.read(BOOT_ID).strip()),
        isolation=read_isolation(host),
        affinity=attempt(lambda: read_irq_affinity(host)),
        rps=attempt(lambda: read_rps(host)),
        workqueues=attempt(lambda: read_workqueues(host)),
        sysctls=attempt(lambda: read_sysctls(host)),
        memory=read_memory_settings(host),
        clock=attempt(lambda: read_clocksource(host)),
        cpufreq=attempt(lambda: read_cpufreq(host)),
        pm_qos=read_pm_qos(host, () if isinstance(online, ProbeError) else online),
        resctrl=attempt(lambda: read_resctrl(host, () if isinstance(online, ProbeError) else online)),
    )


def read_limits(
    host: Host, own: Collection[ThreadKey], *, nodes: bool = False, resctrl: Resctrl | ProbeError | None = None
) -> OwnLimits:
    """Never raises. Not between the counters: it takes locks of the own processes for a moment.

    With several memory ``nodes`` also where the own memory is, with ``resctrl`` also in which of its groups.
    """
    cgroups = read_cgroup_cpu(host, own)
    leaves = {path for path in cgroups.paths.values() if not isinstance(path, ProbeError)} if nodes else set[str]()
    groups = [cgroups.groups[path] for path in leaves if path in cgroups.groups]
    places = [group.directory for group in groups if group.version == CGROUP2]
    memory = read_own_memory(host, {key.pid for key in own}, places) if nodes else OwnMemory()
    divided = isinstance(resctrl, Resctrl) and len(resctrl.groups) > 1
    return OwnLimits(
        cgroups=cgroups,
        timers=read_cpu_timers(host, own),
        memory=memory,
        resctrl=read_task_groups(host, {key.pid for key in own}) if divided else {},
    )


def read_balancers(host: Host, census: Census | ProbeError) -> tuple[Irqbalance, ...]:
    """The irqbalance processes of a census. Never raises."""
    if isinstance(census, ProbeError):
        return ()
    pids = {key.pid for key, status in census.statuses.items() if status.name == IRQBALANCE and not status.kernel}
    return read_irqbalance(host, pids)


def read_kubernetes(host: Host, census: Census | ProbeError, *, ask: bool = False) -> Kubernetes:
    """The kubelets of a census, else the files of one that doesn't run, and the cgroups of pods. Never raises.

    To ``ask`` the kubelets themselves makes threads, which may outlive the answer: only after the window.
    """
    kubelets = read_kubelets(host, kubelet_pids(census.statuses)) if isinstance(census, Census) else ()
    if not kubelets and (installed := read_installed(host)):
        kubelets = (installed,)
    if not kubelets:
        return Kubernetes()
    if ask:
        kubelets = tuple(ask_kubelet(host, kubelet) for kubelet in kubelets)
    cgroups = set(census.cgroups.values()) if isinstance(census, Census) else set[str]()
    roots = {kubelet.root for kubelet in kubelets}
    complete = isinstance(census, Census) and census.complete
    return Kubernetes(
        kubelets=kubelets,
        cgroups=read_pod_cgroups(host, cgroups, roots, complete=complete),
        uptime_s=attempt(lambda: read_uptime(host)),
    )


def read_counters(
    host: Host, cpus: Collection[int], now_ns: int, schedstat: SchedStat | ProbeError | None = None
) -> Counters:
    """Counters of these CPUs; ``schedstat`` where it was read already, close to the threads it is compared with."""
    if schedstat is None:
        schedstat = attempt(lambda: read_schedstat(host))
    return Counters(
        taken_ns=now_ns,
        schedstat=schedstat,
        interrupts=attempt(lambda: read_interrupts(host, cpus)),
        softirqs=attempt(lambda: read_softirqs(host, cpus)),
        cpustat=attempt(lambda: read_cpustat(host)),
        cpuidle={cpu: _cpuidle(host, cpu) for cpu in sorted(cpus)},
    )


def _cpuidle(host: Host, cpu: int) -> CpuIdle | ProbeError:
    return attempt(lambda: read_cpuidle(host, cpu))


def read_census(host: Host) -> Census:
    """Raises ProbeError where no process can be seen."""
    unlisted: list[ProbeError] = []
    keys = list_threads(host, unlisted)
    statuses: dict[ThreadKey, ThreadStatus] = {}
    unread = len(unlisted)
    for key in keys:
        try:
            statuses[key] = read_status(host, key)
        except ProbeError as error:
            unread += error.state is not SourceState.MISSING  # missing: it ended meanwhile
    cgroups = {pid: read_cgroup(host, pid) for pid in sorted({key.pid for key in statuses})}
    return Census(statuses=statuses, cgroups=cgroups, schedstat=has_schedstat(host, keys), unread=unread)


def read_sample(
    host: Host,
    before: Mapping[ThreadKey, ThreadRun],
    near: Sequence[ThreadKey],
    now_ns: int,
    *,
    schedstat: bool,
    known: Mapping[ThreadKey, ThreadRun] | None = None,
) -> Sample:
    """Growth of all threads: first of those ``near`` the counters, unless it is ``known`` (or will be: see window)."""
    apart = set(near)
    runs = dict(read_runs(host, near, schedstat=schedstat) if known is None else known)
    online = attempt(lambda: read_cpus(host, "online"))
    runs |= read_runs(host, [key for key in attempt_list(host) if key not in apart], schedstat=schedstat)
    return Sample(
        taken_ns=now_ns,
        runs=runs,
        processors=_processors(host, [key for key in moved(before, runs) if key not in apart]),
        online=None if isinstance(online, ProbeError) else online,
    )


def _processors(host: Host, keys: Sequence[ThreadKey]) -> dict[ThreadKey, int]:
    found: dict[ThreadKey, int] = {}
    for key in keys:
        try:
            found[key] = read_processor(host, key)
        except ProbeError:
            continue
    return found


def attempt_list(host: Host) -> list[ThreadKey]:
    """All threads, none where /proc shows none."""
    try:
        return list_threads(host)
    except ProbeError:
        return []
