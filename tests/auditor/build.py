"""Contexts of values in a line or two: the real dataclasses of the probes, filled with what grew in a window.

``context()`` alone is an isolated, idle CPU 1 beside one quiet housekeeping CPU 0, everything readable.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from auditor.audit import RunFacts
from auditor.context import Context, prepare
from auditor.engine import run
from auditor.model import Finding, Outcome
from auditor.overhead import NOT_MEASURED
from auditor.own import OwnRule
from auditor.policy import Policy
from auditor.rules import BY_ID
from auditor.targets import Targets
from auditor.window import Observation
from probes.boot_files import BootFiles
from probes.cgroup_cpu import CgroupCpu, CpuGroup, levels
from probes.cgroup_cpu_text import CpuLimit, Throttling
from probes.clocksource import Clocksource
from probes.cmdline import parse_cmdline
from probes.cpu_manager_state import parse_cpu_manager_state
from probes.cpu_timers import CpuTimers
from probes.cpufreq import FrequencyPolicy
from probes.cpuidle import CpuIdle, IdleState
from probes.cpulist import format_cpulist
from probes.cpustat import CpuStat, CpuTimes
from probes.host import ProbeError, SourceState
from probes.interrupt_text import actions_of, kind_of
from probes.interrupts import InterruptRow, Interrupts
from probes.irq_affinity import IrqAffinities, IrqAffinity
from probes.irqbalance import Irqbalance
from probes.isolation import Isolation, Partition
from probes.kernel import Kernel
from probes.kubelet import Kubelet
from probes.kubelet_config import parse_kubelet_config
from probes.memory_settings import MemorySettings
from probes.numa import Numa, OwnMemory
from probes.pm_qos import PmQos
from probes.pod_cgroups import PodCgroup, PodCgroups
from probes.resctrl import Resctrl
from probes.rps import Rps
from probes.schedstat import CpuSched, SchedStat
from probes.snapshot import Census, Config, Counters, Facts, Kubernetes, OwnLimits, Sample, Snapshot
from probes.softirqs import Softirqs
from probes.sysctls import Sysctls
from probes.task_io import TaskIo
from probes.threads import ThreadKey, ThreadRun, ThreadStatus
from probes.topology import Topology
from probes.workqueue import Workqueues

SAMPLES = 5
BASE = 1000
"""What every counter stood at before the window."""
TEXTS = {
    "LOC": "Local timer interrupts",
    "RES": "Rescheduling interrupts",
    "CAL": "Function call interrupts",
    "TLB": "TLB shootdowns",
    "IWI": "IRQ work interrupts",
}
SOFTIRQS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
C1 = ("C1", 2, 0, 0, False)
C6 = ("C6", 133, 0, 0, False)
"""States as name, exit latency in µs, entries, µs within, disabled."""
HOUSEKEEPING = frozenset({0})
FACTS = RunFacts(
    started="2026-03-02T10:00:00.000+00:00",
    requested_ms=10_000,
    load=None,
    work=None,
    overhead=NOT_MEASURED,
    interrupted=False,
)
KTHREADD = ThreadKey(pid=2, tid=2)
PerCpu = Mapping[int, int | None]
State = tuple[str, int, int, int, bool]


def cpus(*numbers: int) -> frozenset[int]:
    """A CPU set."""
    return frozenset(numbers)


def gone(path: str = "x", state: SourceState = SourceState.MISSING) -> ProbeError:
    """A source that gives nothing."""
    return ProbeError(path, f"{state.value} for this test", state)


@dataclass(frozen=True, kw_only=True)
class Thread:
    """A thread. ``switches`` is its growth at most, ``least`` (default: the same) what is certain of it."""

    tid: int = 100
    name: str = "app"
    on: frozenset[int] = cpus(1)
    """CPUs it may run on."""
    on_before: frozenset[int] | None = None
    switches: int = 0
    least: int | None = None
    run_ms: float = 0.0
    voluntary: int | None = None
    """Sleeps; default: as many as switches."""
    involuntary: int = 0
    kernel: bool = False
    pid: int | None = None
    parent: int = 1
    state: str = "S"
    cgroup: str = "/app.slice"
    seen: Mapping[int, int] = field(default_factory=dict)
    """Samples that find it on a CPU."""
    new: bool = False
    """It began in the window."""
    ended: bool = False
    """It ended in the window, before the last sample."""

    @property
    def key(self) -> ThreadKey:
        """Its ids."""
        return ThreadKey(pid=self.pid or self.tid, tid=self.tid)

    def status(self, *, after: bool) -> ThreadStatus:
        """Its status at an end of the window."""
        grown = (self.switches if self.voluntary is None else self.voluntary) if after else 0
        start = 0 if self.new else BASE
        return ThreadStatus(
            name=self.name,
            state=self.state,
            kernel=self.kernel,
            parent_pid=2 if self.kernel else self.parent,
            allowed=self.on if after or self.on_before is None else self.on_before,
            voluntary_switches=start + grown,
            involuntary_switches=start + (self.involuntary if after else 0),
        )

    def runs(self, *, schedstat: bool = True) -> list[ThreadRun | None]:
        """Its counters before the window, in every sample, and after the window."""
        certain = self.switches if self.least is None else self.least
        early = self.switches - certain
        steps = [0, *(early + certain * at // (SAMPLES - 1) for at in range(SAMPLES)), self.switches]
        ran = [int(self.run_ms * 1e6) * at // (SAMPLES + 1) for at in range(SAMPLES + 2)]
        start = 0 if self.new else BASE
        found: list[ThreadRun | None] = [
            ThreadRun(switches=start + step, run_ns=start + ns if schedstat else None)
            for step, ns in zip(steps, ran, strict=True)
        ]
        if self.new:
            found[:2] = [None, None]
        if self.ended:
            found[-2:] = [None, None]
        return found


@dataclass(frozen=True, kw_only=True)
class Limited:
    """A CPU limit, and what grew with it. ``waited_us``: of this cgroup, for any limit; None: no cpu.stat.local."""

    quota_us: int | None = None
    period_us: int = 100_000
    periods: int = 100
    throttled: int = 0
    throttled_us: int = 0
    waited_us: int | None = 0


def observation(
    *,
    audited: Collection[int] = (1,),
    control: Collection[int] = (0,),
    window_s: float = 10.0,
    rows: Mapping[str, PerCpu] | None = None,
    softirqs: Mapping[str, PerCpu] | None = None,
    switches: PerCpu | None = None,
    ran_s: Mapping[int, float] | None = None,
    waited_s: Mapping[int, float] | None = None,
    domains: Mapping[int, Iterable[frozenset[int]]] | None = None,
    busy: Mapping[int, float] | None = None,
    steal: Mapping[int, int] | None = None,
    idle: Mapping[int, Iterable[State]] | None = None,
    threads: Iterable[Thread] = (),
    own: Iterable[Thread] = (),
    own_rule: OwnRule | None = None,
    complete: bool = True,
    schedstat: bool = True,
    affinity: Mapping[int, IrqAffinity | ProbeError] | None = None,
    default_affinity: frozenset[int] | ProbeError = HOUSEKEEPING,
    modes_tell: bool = False,
    rps: Rps | ProbeError | None = None,
    io: Mapping[int, tuple[int | None, int | None]] | None = None,
    balancers: tuple[Irqbalance, ...] = (),
    isolated: frozenset[int] | ProbeError | None = None,
    nohz_full: frozenset[int] | ProbeError | None = None,
    partitions: tuple[Partition, ...] | ProbeError = (),
    cgroup_isolated: frozenset[int] | ProbeError | None = None,
    cmdline: str | ProbeError | None = None,
    release: str = "6.1.0-13-amd64",
    hypervisor: str | None = None,
    hz: int | None = 250,
    idle_driver: str | ProbeError = "intel_idle",
    limited: Mapping[str, Limited] | None = None,
    timers: Mapping[int, CpuTimers] | None = None,
    siblings: Mapping[int, frozenset[int]] | None = None,
    workqueues: Workqueues | ProbeError | None = None,
    kubernetes: Kubernetes | None = None,
    sysctls: Sysctls | ProbeError | None = None,
    memory: MemorySettings | None = None,
    clock: Clocksource | None = None,
    governors: Mapping[int, str] | ProbeError | None = None,
    pm_qos: PmQos | ProbeError | None = None,
    numa: Numa | ProbeError | None = None,
    own_memory: OwnMemory | None = None,
    resctrl: Resctrl | ProbeError | None = None,
    task_groups: Mapping[int, str | ProbeError] | None = None,
) -> Observation:
    """Two snapshots and the samples between them. Whatever is not given did not move."""
    everyone = sorted({*audited, *control})
    people = [*threads, *own, *([Thread(tid=KTHREADD.tid, name="kthreadd", on=HOUSEKEEPING, kernel=True)] * complete)]
    audited_set = frozenset(audited)
    line = cmdline if cmdline is not None else _line(audited_set, frozenset(control))
    config = Config(
        online=frozenset(everyone),
        isolation=Isolation(
            boot=audited_set if isolated is None else isolated,
            nohz_full=audited_set if nohz_full is None else nohz_full,
            partitions=partitions,
            cgroup_isolated=gone("cpuset.cpus.isolated") if cgroup_isolated is None else cgroup_isolated,
        ),
        affinity=IrqAffinities(irqs=affinity or {}, default=default_affinity, modes_tell=modes_tell),
        rps=rps or Rps(queues={}, default=None),
        workqueues=workqueues or queues(frozenset(control)),
        sysctls=sysctls or kernel_settings(frozenset(control)),
        memory=memory or MemorySettings(thp="madvise", collapsed=BASE, ksm_run=0),
        cpufreq=frequency(everyone, governors or {}),
        pm_qos=pm_qos or PmQos(resume_us=dict.fromkeys(everyone), dma_latency_us=None),
        resctrl=resctrl,
        clock=clock or Clocksource(current="tsc", available=("tsc", "hpet")),
    )
    ends = []
    for after in (False, True):
        counters = Counters(
            taken_ns=int(window_s * 1e9) if after else 0,
            interrupts=_interrupts(everyone, rows or {}, after=after),
            softirqs=_softirqs(everyone, softirqs or {}, after=after),
            cpustat=_cpustat(everyone, busy or {}, steal, window_s, after=after),
            schedstat=_schedstat(everyone, switches or {}, ran_s or {}, waited_s or {}, domains or {}, after=after),
            cpuidle={cpu: _cpuidle((idle or {}).get(cpu, (C1,)), after=after) for cpu in everyone},
        )
        runs = {item.key: found for item in people if (found := item.runs(schedstat=schedstat)[-1 if after else 0])}
        census = _census(people, after=after, schedstat=schedstat)
        own_io = {pid: _task_io(ends[after]) for pid, ends in (io or {}).items()}
        ends.append(
            Snapshot(
                config=config,
                census=census,
                runs=runs,
                counters=counters,
                own_io=own_io,
                irqbalance=balancers,
                kubernetes=kubernetes or Kubernetes(),
            )
        )
    before, after_ = ends
    rule = own_rule or OwnRule(audited=audited_set)
    keys = frozenset(item.key for item in own)
    censuses = [end.census for end in ends if isinstance(end.census, Census)]
    mine = [rule.threads(census) | (keys & census.statuses.keys()) for census in censuses]
    before, after_ = (
        replace(end, limits=_limits(end, people, limited or {}, timers or {}, own_memory, after=end is after_))
        for end, people in zip((before, after_), mine, strict=True)
    )
    if task_groups:
        before, after_ = (replace(end, limits=replace(end.limits, resctrl=task_groups)) for end in (before, after_))
    return Observation(
        facts=Facts(
            kernel=_kernel(release, hypervisor, hz),
            topology=Topology(
                online=frozenset(everyone),
                possible=frozenset(everyone),
                present=frozenset(everyone),
                siblings=siblings if siblings is not None else {cpu: frozenset({cpu}) for cpu in everyone},
                node={},
                core_type={},
            ),
            cmdline=line if isinstance(line, ProbeError) else parse_cmdline(line + "\n"),
            idle_driver=idle_driver,
            boot_files=BootFiles(paths=(), unread=(), asked=()),
            numa=numa or Numa(cpus={0: frozenset(everyone)}, memory=frozenset({0})),
        ),
        before=before,
        samples=tuple(_sample(people, at, window_s, schedstat=schedstat) for at in range(SAMPLES)),
        after=after_,
        own_before=mine[0],
        own_after=mine[1],
    )


def context(
    *,
    audited: Collection[int] = (1,),
    control: Collection[int] = (0,),
    policy: Policy | None = None,
    own_rule: OwnRule | None = None,
    **given: Any,
) -> Context:
    """What rules look at; see ``observation`` for what may be given. A thread belongs to whom the own rule says."""
    seen = observation(audited=audited, control=control, own_rule=own_rule, **given)
    cores = seen.facts.topology.siblings
    beside = frozenset().union(*(cores.get(cpu, frozenset()) for cpu in audited))
    targets = Targets(
        audited=frozenset(audited),
        housekeeping=frozenset(control),
        control=frozenset(control),
        roam=frozenset(control),
        chosen_by="--cpus",
        siblings=beside & frozenset(control),
    )
    return prepare(seen, targets, policy or Policy(), own_rule or OwnRule(audited=frozenset(audited)))


def edit(ctx: Context, path: str, value: object) -> Context:
    """The same with one thing of the observation changed: ``after.counters.interrupts``, ``facts.cmdline``."""
    changed = _edited(ctx.observation, path.split("."), value)
    return prepare(changed, ctx.targets, ctx.policy, ctx.own_rule)


def _edited(node: Any, path: list[str], value: object) -> Any:
    name, *rest = path
    if isinstance(node, dict):
        key = int(name) if name.isdecimal() else name
        return {**node, key: _edited(node[key], rest, value) if rest else value}
    assert name in {item.name for item in fields(node)}
    return replace(node, **{name: _edited(getattr(node, name), rest, value) if rest else value})


def findings(ctx: Context, rule: str) -> tuple[Finding, ...]:
    """What one rule finds, as the engine runs it."""
    return run([BY_ID[rule]], ctx)


def only(ctx: Context, rule: str) -> Finding:
    """The one finding of a rule."""
    found = findings(ctx, rule)
    assert len(found) == 1, found
    return found[0]


def outcomes(ctx: Context, rule: str) -> list[Outcome]:
    """Outcomes of a rule, in the order of its findings."""
    return [finding.outcome for finding in findings(ctx, rule)]


POD = "0aa1d6f2-0000-4000-8000-000000000001"
CONTAINER_ID = "a" * 64
KUBELET_CONFIG = """kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: '0'
"""


def kubelet(
    config: str | ProbeError = KUBELET_CONFIG,
    state: str | ProbeError | None = None,
    **given: Any,
) -> Kubelet:
    """A kubelet of texts: its configuration, and its state (default: CPU 1 is that of container app of POD)."""
    text = state or json.dumps({"policyName": "static", "defaultCpuSet": "0", "entries": {POD: {"app": "1"}}})
    values: dict[str, Any] = {"pid": 900, "root": "", "flags_seen": True, **given}
    return Kubelet(
        state_path="var/lib/kubelet/cpu_manager_state",
        config=config if isinstance(config, ProbeError) else parse_kubelet_config(config),
        state=text if isinstance(text, ProbeError) else parse_cpu_manager_state(text),
        **values,
    )


def pod_cgroup(on: frozenset[int] | ProbeError = frozenset({1}), **given: Any) -> PodCgroup:
    """A leaf cgroup: that of container app of POD, on CPU 1, unless something else is given."""
    values: dict[str, Any] = {"pod": POD, "container_id": CONTAINER_ID, "name": "app", "effective": on, **given}
    values.setdefault("path", f"sys/fs/cgroup/kubepods/pod{values['pod']}/{values['container_id']}")
    return PodCgroup(cpus=on, **values)


def node(
    *kubelets: Kubelet, containers: Iterable[PodCgroup] | ProbeError | None = None, cut: bool = False
) -> Kubernetes:
    """``context(kubernetes=node())``: one kubelet with one container that is pinned to CPU 1, live."""
    found = kubelets or (kubelet(),)
    if isinstance(containers, ProbeError):
        return Kubernetes(kubelets=found, cgroups=containers)
    leaves = (pod_cgroup(),) if containers is None else tuple(containers)
    cgroups = PodCgroups(containers=leaves, pods={POD: ("default", "bench")}, cut=cut)
    return Kubernetes(kubelets=found, cgroups=cgroups)


def queues(mask: frozenset[int], **given: Any) -> Workqueues:
    """Where unbound work may run."""
    return Workqueues(cpumask=mask, **{"isolated": None, "queues": {}, **given})


def kernel_settings(watched: frozenset[int] | ProbeError, **given: int | ProbeError) -> Sysctls:
    """A kernel's settings as it comes, but that the lockup detectors keep to these CPUs; names without ``kernel.``."""
    numbers: dict[str, int | ProbeError] = {
        "kernel.watchdog": 1,
        "kernel.soft_watchdog": 1,
        "kernel.nmi_watchdog": 1,
        "kernel.watchdog_thresh": 10,
        "vm.stat_interval": 10,
        "kernel.numa_balancing": 0,
        "kernel.sched_rt_runtime_us": -1,
        "kernel.sched_rt_period_us": 1_000_000,
    }
    more = {("vm." if name == "stat_interval" else "kernel.") + name: value for name, value in given.items()}
    assert more.keys() <= numbers.keys()
    return Sysctls(numbers={**numbers, **more}, watchdog_cpumask=watched)


def frequency(everyone: Iterable[int], governors: Mapping[int, str] | ProbeError) -> Any:
    """A policy for each CPU; the governor is performance, or as given."""
    if isinstance(governors, ProbeError):
        return governors
    return {
        cpu: FrequencyPolicy(
            path=f"sys/devices/system/cpu/cpufreq/policy{cpu}",
            driver="acpi-cpufreq",
            governor=governors.get(cpu, "performance"),
            min_khz=800_000,
            max_khz=3_000_000,
        )
        for cpu in everyone
    }


def irq(number: int, requested: frozenset[int], effective: frozenset[int] | None = None, **given: Any) -> IrqAffinity:
    """Where an interrupt may fire; effective as requested unless given."""
    values: dict[str, Any] = {"effective": requested if effective is None else effective, "settable": None, **given}
    return IrqAffinity(irq=number, requested=requested, **values)


def _line(audited: frozenset[int], control: frozenset[int]) -> str:
    listed = format_cpulist(audited)
    return (
        f"root=/dev/vda1 isolcpus=domain,managed_irq,{listed} nohz_full={listed} rcu_nocbs={listed} "
        f"irqaffinity={format_cpulist(control)}"
    )


def _kernel(release: str, hypervisor: str | None, hz: int | None) -> Kernel:
    return Kernel(
        name="node1",
        release=release,
        version="#1 SMP",
        arch="x86_64",
        boot_id="b",
        cpu_model="Some CPU",
        hypervisor=hypervisor,
        hz=hz,
    )


def row(label: str, counts: Mapping[int, int]) -> InterruptRow:
    """One row: ``LOC``, or a number with the names of its handlers as in ``30 eth0-rx-1``."""
    number, _, actions = label.partition(" ")
    text = f"PCI-MSIX-0000:00:02.0   {number}-edge      {actions}" if number.isdigit() else TEXTS.get(label, label)
    found = actions_of(text) if number.isdigit() else ""
    collapsed = " ".join(text.split())
    return InterruptRow(
        label=number, text=collapsed, kind=kind_of(number, collapsed, found), actions=found, counts=counts
    )


def _interrupts(everyone: list[int], rows: Mapping[str, PerCpu], *, after: bool) -> Interrupts:
    """None as growth: the CPU has no column at the end."""
    found = []
    for label in dict.fromkeys([*TEXTS, *rows]):
        grown = rows.get(label, {})
        counts = {cpu: BASE + ((grown.get(cpu, 0) or 0) if after else 0) for cpu in everyone}
        found.append(row(label, {cpu: n for cpu, n in counts.items() if not (after and grown.get(cpu, 0) is None)}))
    return Interrupts(cpus=tuple(everyone), rows=tuple(found), totals={})


def _softirqs(everyone: list[int], rows: Mapping[str, PerCpu], *, after: bool) -> Softirqs:
    found = {}
    for name in SOFTIRQS:
        grown = rows.get(name, {})
        counts = {cpu: BASE + ((grown.get(cpu, 0) or 0) if after else 0) for cpu in everyone}
        found[name] = {cpu: n for cpu, n in counts.items() if not (after and grown.get(cpu, 0) is None)}
    return Softirqs(cpus=tuple(everyone), rows=found)


def _cpustat(
    everyone: list[int],
    busy: Mapping[int, float],
    steal: Mapping[int, int] | None,
    window_s: float,
    *,
    after: bool,
) -> CpuStat:
    times = {}
    for cpu in everyone:
        stolen = (steal or {}).get(cpu, 0)
        user = round(busy.get(cpu, 0.0) * window_s * 100)
        idle = round(window_s * 100) - user - stolen
        times[cpu] = CpuTimes(
            user=BASE + (user if after else 0),
            nice=0,
            system=0,
            idle=BASE + (idle if after else 0),
            iowait=0,
            irq=0,
            softirq=0,
            steal=stolen if after else 0,
            guest=0,
            guest_nice=0,
        )
    return CpuStat(cpus=times, btime=1)


def _schedstat(
    everyone: list[int],
    switches: PerCpu,
    ran_s: Mapping[int, float],
    waited_s: Mapping[int, float],
    domains: Mapping[int, Iterable[frozenset[int]]],
    *,
    after: bool,
) -> SchedStat:
    found = {}
    for cpu in everyone:
        grown = switches.get(cpu, 0)
        if not (after and grown is None):
            found[cpu] = CpuSched(
                run_ns=BASE + (round(ran_s.get(cpu, 0.0) * 1e9) if after else 0),
                wait_ns=BASE + (round(waited_s.get(cpu, 0.0) * 1e9) if after else 0),
                switches=BASE + ((grown or 0) if after else 0),
                domains=tuple(domains.get(cpu, ())),
            )
    return SchedStat(version=15, cpus=found)


def _cpuidle(states: Iterable[State], *, after: bool) -> CpuIdle:
    return CpuIdle(
        states=tuple(
            IdleState(
                index=index,
                name=name,
                desc=name,
                latency_us=latency,
                residency_us=latency * 3,
                usage=BASE + (entries if after else 0),
                time_us=BASE + (time_us if after else 0),
                disabled=disabled,
                default_disabled=False,
            )
            for index, (name, latency, entries, time_us, disabled) in enumerate(states)
        )
    )


def _limits(
    end: Snapshot,
    own: Iterable[ThreadKey],
    limited: Mapping[str, Limited],
    timers: Mapping[int, CpuTimers],
    own_memory: OwnMemory | None,
    *,
    after: bool,
) -> OwnLimits:
    """No limit on any level, and no CPU timer, but those that are given."""
    assert isinstance(end.census, Census)
    paths: dict[ThreadKey, str | ProbeError] = {key: end.census.cgroups[key.pid] for key in sorted(own)}
    seen = sorted({level for path in paths.values() for level in levels(str(path))} - {"/"})
    groups = {level: group(level, limited.get(level, Limited()), after=after) for level in seen}
    none = CpuTimers(limit_s=None, timers=())
    return OwnLimits(
        cgroups=CgroupCpu(paths=paths, groups=groups),
        timers={pid: timers.get(pid, none) for pid in sorted({key.pid for key in paths})},
        memory=own_memory or OwnMemory(),
    )


def group(path: str, limited: Limited, *, after: bool, version: int = 2) -> CpuGroup:
    """One level at an end of the window."""
    grown = limited if after else Limited(periods=0, waited_us=None if limited.waited_us is None else 0)
    return CpuGroup(
        path=path,
        directory=("sys/fs/cgroup" if version == 2 else "sys/fs/cgroup/cpu") + path.rstrip("/"),
        version=version,
        limit=None if limited.quota_us is None else CpuLimit(quota_us=limited.quota_us, period_us=limited.period_us),
        throttling=Throttling(
            periods=BASE + grown.periods, throttled=BASE + grown.throttled, throttled_us=BASE + grown.throttled_us
        ),
        waited_us=None if grown.waited_us is None else BASE + grown.waited_us,
    )


def _task_io(read_bytes: int | None) -> TaskIo | ProbeError:
    """None: it can't be read."""
    return gone("proc/*/io") if read_bytes is None else TaskIo(read_bytes=read_bytes, write_bytes=0)


def _census(people: Iterable[Thread], *, after: bool, schedstat: bool) -> Census:
    there = [item for item in people if not (item.ended if after else item.new)]
    return Census(
        statuses={item.key: item.status(after=after) for item in there},
        cgroups={item.key.pid: item.cgroup for item in there},
        schedstat=schedstat,
    )


def _sample(people: Iterable[Thread], at: int, window_s: float, *, schedstat: bool) -> Sample:
    runs: dict[ThreadKey, ThreadRun] = {}
    processors: dict[ThreadKey, int] = {}
    for item in people:
        if (found := item.runs(schedstat=schedstat)[1 + at]) is not None:
            runs[item.key] = found
        sightings = [cpu for cpu, often in sorted(item.seen.items()) for _ in range(often)]
        if at < len(sightings):
            processors[item.key] = sightings[at]
    return Sample(taken_ns=int(window_s * 1e9) * at // (SAMPLES - 1), runs=runs, processors=processors)
