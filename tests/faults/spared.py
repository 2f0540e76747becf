"""What may fail while the verdict stays isolated, and why other evidence truly decides. Each entry must be needed."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, kw_only=True)
class Spared:
    """Sources by the pattern of their names; without ``faults``, ``ends``, ``hosts`` under any."""

    sources: tuple[str, ...]
    why: str
    faults: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def covers(self, host: str, source: str, fault: str, end: str) -> bool:
        """Whether it is spared."""
        named = any(fnmatchcase(source, pattern) for pattern in self.sources)
        asked = ((self.faults, fault), (self.ends, end), (self.hosts, host))
        return named and all(not some or value in some for some, value in asked)


SPARED = (
    Spared(
        sources=(
            "sys/devices/system/cpu/cpu[*]/cpuidle/*",
            "list sys/devices/system/cpu/cpu[*]/cpuidle",
            "sys/devices/system/cpu/cpuidle/current_driver",
            "sys/devices/system/cpu/cpufreq/*",
            "list sys/devices/system/cpu/cpufreq",
            "sys/devices/system/cpu/cpu[*]/power/pm_qos_resume_latency_us",
            "dev/cpu_dma_latency",
            "sys/devices/system/clocksource/*",
            "sys/kernel/mm/*",
            "sys/fs/cgroup/[*][*]/cpu.max",
            "sys/fs/cgroup/[*][*]/cpu.stat*",
            "proc/sys/kernel/sched_rt_*",
            "proc/sys/kernel/numa_balancing",
            "list sys/kernel/mm/hugepages",
            "list sys/devices/system/node/node[*]/hugepages",
            "sys/devices/system/node/has_memory",
            "list sys/fs/resctrl",
        ),
        why="readiness: C-states, frequency, clock, memory, cache and quota make nobody less alone on the CPU",
    ),
    Spared(
        sources=(
            "proc/sys/kernel/*watchdog*",
            "proc/sys/vm/stat_interval",
            "proc/irq/default_smp_affinity",
            "proc/sys/net/core/rps_default_mask",
            "sys/devices/virtual/workqueue/*",
            "list sys/devices/virtual/workqueue",
            "sys/class/net/[*]/queues/rx-0/rps_cpus",
            "list sys/class/net*",
            "etc/*/irqbalance",
            "usr/lib/irqbalance/defaults.env",
            "proc/<irqbalance>/environ",
            "etc/default/grub",
            "list etc/default/grub.d",
            "list boot/loader/entries",
            "etc/kernel/cmdline",
        ),
        why="risks: what could become noise later; what came of it in the window is counted",
    ),
    Spared(
        sources=("proc/cmdline", "boot/config-[*]"),
        why="what was asked for: sysfs, schedstat and the counters say what is in force",
    ),
    Spared(
        sources=(
            "sys/devices/system/cpu/isolated",
            "sys/fs/cgroup/*cpuset.*",
            "sys/fs/cgroup/cgroup.*",
            "list sys/fs/cgroup*",
            "link proc/self/ns/cgroup",
        ),
        why="proofs of isolation in the second place: /proc/schedstat shows no domain of the CPU",
    ),
    Spared(
        sources=("sys/devices/system/cpu/nohz_full",),
        why="whether the tick may stop: the tick itself is counted, and the spinner had none",
    ),
    Spared(
        sources=("sys/devices/system/cpu/cpu[*]/topology/thread_siblings_list",),
        why="which CPUs share a core: what runs beside costs time and is shown, but nobody else is on the CPU",
    ),
    Spared(
        sources=(
            "sys/devices/cpu_*/cpus",
            "sys/devices/system/cpu/cpu[*]/cpu_capacity",
            "sys/devices/system/cpu/possible",
            "sys/devices/system/cpu/present",
            "sys/devices/system/node/node[*]/cpulist",
            "list sys/devices/system/node",
        ),
        why="which CPUs may be compared: the doors are shut and the counters are 0 without a comparison",
    ),
    Spared(
        sources=(
            "proc/sys/kernel/arch",
            "proc/sys/kernel/hostname",
            "proc/sys/kernel/osrelease",
            "proc/sys/kernel/version",
            "proc/cpuinfo",
            "sys/class/dmi/id/sys_vendor",
            "sys/hypervisor/type",
        ),
        why="which machine it is; one that can't be told is no bare metal (bounds of the verdict)",
    ),
    Spared(
        sources=("proc/sys/kernel/random/boot_id",),
        why="a live window spans no boot, counters that fall tell of one as well, and a replay refuses two boot ids",
    ),
    Spared(
        sources=(
            "proc/<*>/cgroup",
            "proc/<own>/task/[*]/cgroup",
            "proc/<kubelet>/*",
            "link proc/<kubelet>/ns/mnt",
            "var/lib/kubelet/cpu_manager_state",
            "list var/log/*",
            "link proc/<kubelet>/exe",
            "mtime var/lib/kubelet/cpu_manager_state",
            "var/lib/kubelet/pod-resources/kubelet.sock",
            "proc/uptime",
            "proc/<own>/io",
        ),
        why="whose threads they are, by name: who owns the CPU is told by their affinity, and no managed queue fired",
    ),
    Spared(
        sources=("proc/<own>/limits", "proc/<own>/timers"),
        why="what keeps the tick, by name: the tick itself is counted",
    ),
    Spared(
        sources=(
            "proc/<bound>/task/[*]/*",
            "proc/<kthreadd>/task/[*]/*",
            "proc/<irqbalance>/task/[*]/*",
            "proc/<other>/task/[*]/sta*",
            "list proc/<bound>/task",
            "list proc/<kthreadd>/task",
            "list proc/<irqbalance>/task",
            "list proc/<kubelet>/task",
            "list proc/<other>/task",
        ),
        why="only names the culprit: the switches of the CPU, less those of own threads, leave none for anybody else",
    ),
    Spared(
        sources=("proc/<other>/task/[*]/schedstat",),
        faults=("zeroed",),
        why="their switches are not asked for: the CPU's own count leaves none for them",
    ),
    Spared(
        sources=("list proc", "proc/<other>/task/[*]/schedstat"),
        hosts=("quiet",),
        why="no switch on an idle CPU: nobody was there, whoever exists",
    ),
    Spared(
        sources=("proc/<own>/task/[*]/status",),
        faults=("garbled",),
        why="the place that is overwritten is not read",
    ),
    Spared(
        sources=("proc/<own>/task/[*]/status",),
        faults=("missing",),
        ends=("t0", "t1"),
        why="not there at one end: it began or ended, and its samples say how often it was switched to",
    ),
    Spared(
        sources=("list proc/<own>/task",),
        faults=("missing", "empty"),
        ends=("t1",),
        why="the process ended: its samples say how often it was switched to",
    ),
    Spared(
        sources=("mode proc/irq/[*]/smp_affinity",),
        why="modes tell since 6.12; before, the names of block queues do, and none of these fired",
    ),
    Spared(
        sources=("proc/irq/[*]/effective_affinity_list",),
        faults=("missing",),
        why="kernels without it have smp_affinity_list alone",
    ),
    Spared(
        sources=("proc/irq/[*]/*_affinity_list",),
        faults=("zeroed",),
        why="a list in the right form can't be told from a true one; where interrupts did fire is counted",
    ),
    Spared(
        sources=("proc/softirqs",),
        faults=("zeroed",),
        ends=("t0",),
        why="a start of 0 makes every growth larger, none smaller",
    ),
)
PAIRS = {
    frozenset({"proc/stat", "sys/devices/system/cpu/nohz_full"}): "the tick was not judged",
}
"""Two that may fail together, and what the verdict's bounds must say then. A kernel without nohz_full promises no CPU
without a tick; that nobody else was on it is told by the switches, and by the own spinner's run time: the whole window.
"""
