"""The reports: what was said to disturb the CPUs, the figures taken from the posting, and the cause that must be found.

Only figures are cited, each with its source; what was not posted is said to be assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.hosts.lab import WITH, WITHOUT
from tests.hosts.machine import Recorded, record
from tests.reports_cases import config, latency, quota


@dataclass(frozen=True, kw_only=True)
class Report:
    """One row. ``rule`` and ``names`` tell the stated cause among those found; no ``rule``: no cause may be found."""

    name: str
    source: str
    stated: str
    build: Callable[[], Recorded]
    rule: str = ""
    names: str = ""
    """What the title or the fix of that cause must say."""
    rank: int | None = None
    """The place it has among the ranked causes."""
    others: tuple[str, ...] = ()
    """Without ``rule``: what is found all the same."""
    risk: str = ""
    """Without ``rule``: the rule that lists what is stated as a risk, as nothing came of it that was posted."""
    cpus: str | None = None
    workload: str | None = None
    note: str = ""


FIRST = 3
"""The stated cause is to be among so many."""
LAB = "the pinning lab on a laptop (blog: CPU pinning is not CPU isolation)"
NEURORUST = "github.com/D0NMEGA/neurorust measurements"
BILLY = {
    "threads of others on the pinned CPUs": ("THR.FOREIGN", "containerd", 1),
    "SCHED softirqs, 12 times those of CPU 0": ("SIRQ.SCHED", "SCHED softirqs", 1),
    "interrupts of the NVMe drive": ("IRQ.MANAGED", "nvme0", 3),
    "IPIs": ("IPI.CAL", "reschedule interrupts", 4),
    "interrupts of the Wi-Fi card": ("IRQ.DEVICE", "iwlwifi", 5),
}
FIVE = "a miss: five things are stated, and the tick, which was not posted and is assumed, is among the first three"
REPORTS: tuple[Report, ...] = (
    *(
        Report(
            name=f"pinned, not isolated ({number})",
            source=LAB,
            stated=stated,
            build=partial(record, WITHOUT),
            rule=rule,
            names=names,
            rank=rank,
            note="" if rank <= FIRST else FIVE,
        )
        for number, (stated, (rule, names, rank)) in enumerate(BILLY.items(), 1)
    ),
    Report(
        name="pinned and isolated",
        source=LAB,
        stated="none: isolated at boot, the counters are quiet",
        build=partial(record, WITH),
        note="the 3.6 ms that cyclictest still saw are not in any counter: the bound of the verdict says what is not "
        "seen",
    ),
    Report(
        name="a vCPU preempted",
        source="osnoise output in a mail on vCPU-aware load balancing (linux-kernel)",
        stated="the host runs others on the CPU of vCPU 1: 144 ms of 115.5 s",
        build=latency.vcpu_preempted,
        rule="STEAL",
        names="hypervisor",
        rank=1,
        note="what was posted is rtla's hardware noise, which is not read; built as the steal clock shows such a loss",
    ),
    Report(
        name="irqbalance mask for 64 CPUs",
        source="github.com/Irqbalance/irqbalance#30",
        stated="none on the banned CPUs 8-63: the mask is right, one core of the others gets all interrupts",
        build=config.irqbalance_64,
        cpus="8-63",
    ),
    Report(
        name="irqbalance, one more CPU banned",
        source="github.com/Irqbalance/irqbalance#90",
        stated="IRQBALANCE_BANNED_CPUS for CPU 4 replaces the ban of the isolated CPUs 0-3",
        build=config.irqbalance_override,
        rule="CFG.IRQBALANCE",
        names="irqbalance",
        rank=3,
        note="which interrupts came was not posted; one network card is assumed, whose interrupts rank first",
    ),
    Report(
        name="exclusive CPU, throttled",
        source="github.com/kubernetes/kubernetes#70585",
        stated="a CFS quota of 1 CPU on a container with a CPU of its own",
        build=quota.kubernetes_70585,
        rule="CFG.QUOTA",
        names="/kubepods",
        rank=2,
        cpus="1",
        note="nr_throttled is cut in the posting: one period of 0.4 ms is assumed; first is the tick at HZ",
    ),
    Report(
        name="throttled below its limit",
        source="github.com/kubernetes/kubernetes#97445",
        stated="2 of 183 periods throttled, 5.2 ms, at 15 % of the limit",
        build=partial(quota.kubernetes_97445, 100_000, (183, 2, 5_198_271)),
        rule="CFG.QUOTA",
        names="/kubepods",
        rank=2,
        note="the pod was not pinned; here it is, for there to be a CPU to audit. First is the tick at HZ",
    ),
    Report(
        name="a limit of 1.1 CPUs",
        source="github.com/kubernetes/kubernetes#97445",
        stated="none: 0 of 181 periods throttled",
        build=partial(quota.kubernetes_97445, 110_000, (181, 0, 0), quiet=True),
        note="the limit is listed as a warning on readiness",
    ),
    Report(
        name="bound to one CPU, throttled",
        source="github.com/koordinator-sh/koordinator#489",
        stated="a quota of exactly the one CPU of its cpuset: 34 of 3076 periods throttled, 12.07 ms",
        build=quota.koordinator,
        rule="CFG.QUOTA",
        names="/kubepods",
        rank=1,
    ),
    Report(
        name="reserved CPUs, no isolation",
        source="github.com/kubernetes/kubernetes#99895",
        stated="the static policy keeps only other pods off exclusive CPUs, not the host's processes",
        build=config.reserved_not_host,
        rule="CFG.DOMAIN",
        names="host-agent",
        rank=1,
        cpus="2-3",
        note="no counts and no names were posted: one process of the host with 5 runs a second is assumed",
    ),
    Report(
        name="a CPU that went offline",
        source="github.com/kubernetes/kubernetes#66718",
        stated="the kubelet's state names CPU 7, which went offline: the shared pool keeps its old cpuset",
        build=config.offline_cpu,
        risk="KUBE.STATE",
        note="no counts were posted: that CPUs 2-3 are isolated, and which cpuset is the old one, is assumed; "
        "KUBE.DRIFT names the container that keeps it",
    ),
    Report(
        name="clean run, 75 µs",
        source=f"{NEURORUST}/2026-09-07",
        stated="none but rare device interrupts, at most 641 in 1800 s",
        build=latency.neurorust_clean,
        rule="IRQ.MANAGED",
        names="nvme0",
        rank=1,
        note="whose interrupts they were was not posted: NVMe queues are assumed, as managed_irq is not on the boot "
        "line",
    ),
    Report(
        name="contaminated run, 3.8 ms",
        source=f"{NEURORUST}/2026-08-28",
        stated="function-call IPIs to all isolated CPUs at once, about 137000 each in 600 s",
        build=latency.neurorust_ipis,
        rule="IPI.CAL",
        names="function-call interrupts",
        rank=1,
        note="that the figure is each CPU's growth in the run is assumed",
    ),
    Report(
        name="contaminated run, 1.9 ms",
        source=f"{NEURORUST}/2026-09-03",
        stated="one event of the whole machine half a second after the start; the counters are those of a clean run",
        build=latency.neurorust_start,
        others=("managed device interrupts: nvme0",),
        note="a miss: not in the counters, so not found: only the residual device interrupts of the clean run are",
    ),
    Report(
        name="vmstat work keeps the tick",
        source="github.com/ni/linux#130",
        stated="vmstat_update, queued once a second on isolated CPUs before 6.5",
        build=latency.vmstat_tick,
        rule="THR.KBOUND",
        names="mm_percpu_wq",
        rank=1,
        note="no counts were posted: vm.stat_interval at its default of 1 s is assumed",
    ),
    Report(
        name="fair server keeps the tick",
        source="github.com/NVIDIA/NV-Kernels#400",
        stated="the deadline server for ordinary threads re-arms the tick: about 1000 interrupts a second",
        build=partial(latency.fair_server, ticks_per_s=1000, softirqs_per_s=30),
        rule="TICK.LOC",
        names="fair server",
        rank=1,
        note="the counters tell the tick, not who keeps it: the fair server is named among what may",
    ),
    Report(
        name="fair server, after the fix",
        source="github.com/NVIDIA/NV-Kernels#400",
        stated="none: no interrupt and no softirq",
        build=partial(latency.fair_server, ticks_per_s=0, softirqs_per_s=0),
    ),
    Report(
        name="the boot CPU asked for",
        source="github.com/raspberrypi/linux#4106",
        stated="isolcpus=0,3 leaves CPU 0 out: early on arm64 only the boot CPU is present, and one must remain",
        build=config.boot_cpu,
        rule="CFG.CMDLINE",
        names="isolcpus",
        rank=1,
        cpus="0,3",
        note="no counts were posted: CPU 0 is assumed to be as busy as CPUs 1 and 2, with the network card's interrupt",
    ),
    Report(
        name="irqaffinity over all CPUs",
        source="github.com/seapath/ansible#865",
        stated="irqaffinity=0-15 overlaps the isolated CPUs 4-15",
        build=config.irqaffinity_overlap,
        rule="CFG.IRQAFF",
        names="irqaffinity=0-3",
        rank=3,
        note="no counts were posted: four queues of a network card at 5/s each are assumed, which rank first",
    ),
)


@dataclass(frozen=True, kw_only=True)
class NotBuilt:
    """A report without a recording, and why."""

    source: str
    stated: str
    reason: str


NOT_BUILT: tuple[NotBuilt, ...] = (
    NotBuilt(
        source="github.com/guysoft/RealtimePi#31",
        stated="cyclictest was started without a priority: its thousands of µs are no measurement",
        reason="a latency tool's output and how it was started: no evidence that an audit reads",
    ),
    NotBuilt(
        source="github.com/jlelli/rt-tests#6",
        stated="cyclictest -S starts threads on the inherited CPUs only: the isolated ones were not measured",
        reason="the CPUs are not disturbed: the measurement missed them; no counters were posted",
    ),
)
