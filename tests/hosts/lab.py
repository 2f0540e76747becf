"""The laptop on which static CPU pinning was measured: Linux 6.8, four cores of two threads, CPUs 1 and 5 handed out.

A pod runs cyclictest (200 µs) on CPUs 1 and 5, a noise pod loads the others. WITHOUT holds what the per-CPU counters
said in 40 s without boot isolation, WITH the same machine booted with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tests.hosts import kernel_text as kernel
from tests.hosts.machine import CPU_DIR, Irq, Machine, PerCpu, State, Thread

CPUS = tuple(range(8))
AUDITED = frozenset({1, 5})
OTHERS = frozenset(CPUS) - AUDITED
CORES = {cpu: frozenset({cpu % 4, cpu % 4 + 4}) for cpu in CPUS}
RELEASE = "6.8.0-45-generic"
BOOT = f"BOOT_IMAGE=/boot/vmlinuz-{RELEASE} root=UUID=3b1f6a52-7c0e-4c55-9d7e-2a54c1d0e9b7 ro quiet splash"
ISOLATION = "isolcpus=domain,managed_irq,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,4"
POD = "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope"
TUNED = POD.format("5f0c8a1e", "91d2c7")
NOISE = POD.format("b27d90c4", "4e88f0")
TIMERS = 200_000
"""cyclictest: 5000 wake-ups a second and thread for 40 s."""

FIXED = {
    "proc/sys/kernel/hostname": "pinning-lab\n",
    "proc/sys/kernel/osrelease": f"{RELEASE}\n",
    "proc/sys/kernel/version": "#45-Ubuntu SMP PREEMPT_DYNAMIC\n",
    "proc/sys/kernel/arch": "x86_64\n",
    "proc/sys/kernel/random/boot_id": "0d6c2c0f-58b1-4a0e-8f55-6f3a4cf2b1aa\n",
    "proc/cpuinfo": kernel.cpuinfo(
        CPUS, model="11th Gen Intel(R) Core(TM) i5-1135G7 @ 2.40GHz", flags="fpu tsc msr lm"
    ),
    f"boot/config-{RELEASE}": "CONFIG_NO_HZ_FULL=y\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n",
    f"{CPU_DIR}/possible": "0-7\n",
    f"{CPU_DIR}/present": "0-7\n",
    f"{CPU_DIR}/cpuidle/current_driver": "acpi_idle\n",
    "sys/devices/system/node/node0/cpulist": "0-7\n",
    **{f"{CPU_DIR}/cpu{cpu}/topology/thread_siblings_list": kernel.cpulist(CORES[cpu]) for cpu in CPUS},
}


def workqueues(mask: int, isolated: int) -> dict[str, str]:
    """The mask of unbound work, and the queues that are shown; each asks for all CPUs."""
    folder = "sys/devices/virtual/workqueue"
    return {
        f"{folder}/cpumask": f"{mask:02x}\n",
        f"{folder}/cpumask_isolated": f"{isolated:02x}\n",
        f"{folder}/cpumask_requested": f"{mask:02x}\n",
        f"{folder}/blkcg_punt_bio/cpumask": "ff\n",
        f"{folder}/writeback/cpumask": "ff\n",
    }


KUBELET = {
    "proc/1041/cmdline": "/usr/bin/kubelet\0--cpu-manager-policy=none\0",
    "var/lib/kubelet/cpu_manager_state": '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}\n',
}
"""It gives no CPU away: the pod of the workload was pinned by hand."""
CGROUPS = {
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
    "sys/fs/cgroup/cpuset.cpus.isolated": "\n",
    **{
        f"sys/fs/cgroup{path}/cpuset.cpus.partition": "member\n"
        for path in ("/system.slice", "/kubepods.slice", TUNED.rpartition("/")[0], TUNED)
    },
    **{
        f"sys/fs/cgroup{path}/{name}": text
        for path in ("/kubepods.slice", TUNED.rpartition("/")[0], TUNED)
        for name, text in (
            ("cpu.max", "max 100000\n"),
            ("cpu.stat", kernel.cpu_stat(91_442_310)),
            ("cpu.stat.local", "throttled_usec 0\n"),
        )
    },
}


def on(*counts: int) -> dict[int, int]:
    """Counts of CPUs 0 to 7."""
    return {cpu: count for cpu, count in enumerate(counts) if count}


STATES = (
    State(name="POLL", desc="CPUIDLE CORE POLL IDLE", latency_us=0, residency_us=0),
    State(name="C1", desc="ACPI FFH MWAIT 0x0", latency_us=1, residency_us=1),
    State(name="C2", desc="ACPI FFH MWAIT 0x31", latency_us=253, residency_us=759),
    State(name="C3", desc="ACPI FFH MWAIT 0x60", latency_us=1048, residency_us=3144),
)
MSIX = "IR-PCI-MSIX-0000:01:00.0"
WIFI = "IR-PCI-MSIX-0000:00:14.3"
ALL = frozenset(CPUS)


def _pin(number: int, chip: str, action: str, cpu: int, counts: PerCpu, *, allowed: frozenset[int] = ALL) -> Irq:
    return Irq(
        irq=number,
        chip=chip,
        hwirq=str(number % 100),
        action=action,
        requested=allowed,
        effective=frozenset({cpu}),
        on=counts,
    )


NVME_ON = (2211, 2368, 1984, 2077, 1840, 1196, 1733, 1902)
WIFI_ON: Mapping[int, PerCpu] = {
    1: on(0, 612),
    2: on(0, 0, 402),
    3: on(318),
    4: {},
    5: on(0, 0, 0, 0, 0, 211),
    6: on(0, 123),
}
WIFI_CPU = {1: 1, 2: 2, 3: 0, 4: 3, 5: 5, 6: 1}
IRQS = (
    _pin(1, "IR-IO-APIC", "i8042", 3, on(0, 0, 0, 144)),
    Irq(irq=8, chip="IR-IO-APIC", hwirq="8", action="rtc0", requested=ALL, effective=frozenset({2})),
    _pin(9, "IR-IO-APIC", "acpi", 0, on(37)),
    Irq(irq=40, chip="IR-IO-APIC", hwirq="40", action="", requested=ALL, effective=frozenset({1})),
    _pin(125, "IR-PCI-MSI-0000:00:14.0", "xhci_hcd", 6, on(0, 0, 0, 0, 0, 0, 1290)),
    _pin(126, MSIX, "nvme0q0", 7, {}),
    *(_pin(127 + cpu, MSIX, f"nvme0q{cpu + 1}", cpu, {cpu: NVME_ON[cpu]}, allowed=frozenset({cpu})) for cpu in CPUS),
    _pin(135, "IR-PCI-MSI-0000:00:02.0", "i915", 4, on(0, 0, 0, 0, 2402)),
    *(_pin(136 + queue, WIFI, f"iwlwifi:queue_{queue}", cpu, WIFI_ON[queue]) for queue, cpu in WIFI_CPU.items()),
)

CONTROL_NOISE = {
    "RES": ("Rescheduling interrupts", on(9120, 0, 8844, 9033, 8410, 0, 8702, 8951)),
    "CAL": ("Function call interrupts", on(7311, 0, 7015, 7240, 6874, 0, 6903, 7122)),
    "TLB": ("TLB shootdowns", on(4102, 0, 3911, 4040, 3780, 0, 3856, 3977)),
}
INTRUSION = {
    "RES": on(0, 4387, 0, 0, 0, 2954),
    "CAL": on(0, 4745, 0, 0, 0, 3211),
    "TLB": on(0, 368, 0, 0, 0, 244),
}
TICKS = (10_004, 9_871, 10_003, 10_005, 10_002, 9_846, 10_004, 10_003)
"""At 250 Hz nearly all the time: sleeps of 200 µs are too short for an idle CPU to stop its tick."""


def _timers(extra: Iterable[int]) -> PerCpu:
    return {cpu: ticks + (TIMERS if cpu in AUDITED else 0) for cpu, ticks in enumerate(extra)}


def _arch_rows(local: PerCpu, ipis: Mapping[str, PerCpu]) -> dict[str, tuple[str, PerCpu]]:
    return {
        "NMI": ("Non-maskable interrupts", {}),
        "LOC": ("Local timer interrupts", local),
        "SPU": ("Spurious interrupts", {}),
        "PMI": ("Performance monitoring interrupts", {}),
        "IWI": ("IRQ work interrupts", on(611, 0, 540, 602, 498, 0, 515, 580)),
        "RTR": ("APIC ICR read retries", {}),
        **{name: (text, {**counts, **ipis.get(name, {})}) for name, (text, counts) in CONTROL_NOISE.items()},
        "TRM": ("Thermal event interrupts", {}),
        "MCE": ("Machine check exceptions", {}),
        "MCP": ("Machine check polls", {}),
    }


SOFTIRQS: Mapping[str, PerCpu] = {
    "HI": on(0, 0, 2, 0, 1),
    "TIMER": on(9_911, 1_870, 9_702, 9_840, 9_455, 1_233, 9_517, 9_688),
    "NET_TX": on(4, 0, 2, 3),
    "NET_RX": on(1_811, 735, 1_520, 1_644, 1_302, 211, 1_390, 1_471),
    "BLOCK": on(480, 0, 455, 470, 402, 0, 431, 444),
    "IRQ_POLL": {},
    "TASKLET": on(210, 0, 64, 80, 22, 0, 41, 59),
    "SCHED": on(1_040, 12_647, 980, 1_015, 870, 9_318, 902, 951),
    "HRTIMER": on(3, 0, 1),
    "RCU": on(9_020, 1_160, 8_804, 8_910, 8_520, 806, 8_677, 8_745),
}
BUSY = {0: 2810, 1: 640, 2: 2704, 3: 2766, 4: 2590, 5: 520, 6: 2633, 7: 2688}
IDLE: Mapping[str, PerCpu] = {
    "POLL": on(301, 1_902, 288, 305, 266, 1_410, 279, 290),
    "C1": on(4_120, 201_300, 4_011, 4_302, 3_870, 200_480, 3_955, 4_060),
    "C2": on(12, 2_214, 61, 58, 12, 1_480, 70, 66),
    "C3": on(12, 1_103, 44, 39, 9, 702, 48, 51),
}


def _process(pid: int, name: str, cgroup: str, counts: PerCpu, run_us: int, tids: int = 1) -> Iterable[Thread]:
    """A process; its main thread idles, the switches are those of the last thread."""
    for tid in range(pid, pid + tids):
        last = tid == pid + tids - 1
        yield Thread(
            pid=pid,
            tid=tid,
            name=name,
            allowed=ALL,
            on=counts if last else {},
            run_us=run_us if last else 0,
            cgroup=cgroup,
        )


SYSTEM = "/system.slice/{}.service"
USER = "/user.slice/user-1000.slice/user@1000.service/{}"
HOST_THREADS = (
    *_process(1, "systemd", "/init.scope", on(120, 44, 60, 81, 40, 20), 60_000),
    *_process(
        812, "containerd", SYSTEM.format("containerd"), on(4210, 2906, 3877, 3921, 3010, 1404, 3102, 3340), 2_400_000, 3
    ),
    *_process(
        1041, "kubelet", SYSTEM.format("kubelet"), on(3604, 2371, 3310, 3420, 2804, 1122, 2811, 3002), 2_100_000, 3
    ),
    *_process(1203, "openvpn", SYSTEM.format("openvpn"), on(510, 388, 401, 433, 301, 160, 322, 370), 160_000),
    *_process(1377, "packagekitd", SYSTEM.format("packagekit"), on(204, 166, 180, 191, 120, 44, 131, 150), 310_000, 2),
    *_process(
        2188, "etcd", POD.format("0aa1", "e17c"), on(2980, 1844, 2701, 2811, 2202, 903, 2304, 2490), 1_300_000, 2
    ),
    *_process(
        2210,
        "kube-apiserver",
        POD.format("0bb2", "a90d"),
        on(4433, 2677, 4021, 4100, 3411, 1301, 3502, 3720),
        3_900_000,
        3,
    ),
    *_process(2950, "coredns", POD.format("0cc3", "c04e"), on(811, 622, 730, 760, 580, 290, 601, 640), 240_000, 2),
    *_process(
        3120, "gnome-shell", USER.format("session.slice"), on(1840, 1203, 1622, 1711, 1302, 601, 1380, 1466), 1_900_000
    ),
    *_process(3415, "gnome-terminal-", USER.format("app.slice"), on(402, 311, 360, 377, 280, 140, 290, 322), 280_000),
)


def _kthread(tid: int, name: str, allowed: frozenset[int], counts: PerCpu, run_us: int = 0, state: str = "S") -> Thread:
    return Thread(
        pid=tid, tid=tid, name=name, allowed=allowed, on=counts, run_us=run_us, parent=2, kernel=True, state=state
    )


def _bound(cpu: int) -> Iterable[Thread]:
    """The kernel threads that every CPU has. The watchdog wakes migration/N every four seconds."""
    here, worker = frozenset({cpu}), {0: 1204, 1: 402, 5: 270}.get(cpu, 1100)
    yield _kthread(20 + 6 * cpu, f"cpuhp/{cpu}", here, {})
    yield _kthread(21 + 6 * cpu, f"idle_inject/{cpu}", here, {})
    yield _kthread(22 + 6 * cpu, f"migration/{cpu}", here, {cpu: 10}, 90)
    yield _kthread(23 + 6 * cpu, f"ksoftirqd/{cpu}", here, {cpu: 61 if cpu in AUDITED else 402}, 1_900)
    yield _kthread(24 + 6 * cpu, f"kworker/{cpu}:0H-kblockd", here, {}, state="I")
    yield _kthread(25 + 6 * cpu, f"kworker/{cpu}:1-events", here, {cpu: worker}, 8 * worker, "I")


KERNEL_THREADS = (
    _kthread(2, "kthreadd", ALL, {0: 3}, 40),
    _kthread(17, "rcu_preempt", ALL, on(2210, 1288, 2004, 2122, 1802, 702, 1840, 1902), 310_000, "I"),
    *(thread for cpu in CPUS for thread in _bound(cpu)),
    _kthread(70, "kswapd0", ALL, on(211, 0, 104, 98), 120_000),
    _kthread(71, "kworker/u16:3-events_unbound", ALL, on(612, 401, 580, 590, 470, 233, 488, 502), 52_000, "I"),
)
CYCLICTEST = (
    Thread(
        pid=5120,
        tid=5120,
        name="cyclictest",
        allowed=AUDITED,
        on={1: 20, 5: 20},
        run_us=2_000,
        parent=5101,
        cgroup=TUNED,
    ),
    Thread(
        pid=5120,
        tid=5121,
        name="cyclictest",
        allowed=frozenset({1}),
        on={1: TIMERS},
        run_us=4_420_000,
        parent=5101,
        cgroup=TUNED,
    ),
    Thread(
        pid=5120,
        tid=5122,
        name="cyclictest",
        allowed=frozenset({5}),
        on={5: TIMERS},
        run_us=4_405_000,
        parent=5101,
        cgroup=TUNED,
    ),
)
NOISE_THREADS = tuple(
    Thread(
        pid=6001 + index,
        tid=6001 + index,
        name="stress-ng-cpu",
        allowed=OTHERS,
        on={cpu: 9_000 + cpu},
        run_us=22_000_000,
        cgroup=NOISE,
    )
    for index, cpu in enumerate(sorted(OTHERS))
)
UNSEEN = {1: 804, 5: 377, **dict.fromkeys(OTHERS, 4_000)}

WITHOUT = Machine(
    cpus=CPUS,
    audited=AUDITED,
    cmdline=BOOT,
    isolated=frozenset(),
    default_affinity=ALL,
    domains={cpu: (CORES[cpu], ALL) for cpu in CPUS},
    irqs=IRQS,
    arch_rows=_arch_rows(_timers(TICKS), INTRUSION),
    softirqs=SOFTIRQS,
    busy_ticks=BUSY,
    states=STATES,
    idle_entries=IDLE,
    threads=(*HOST_THREADS, *KERNEL_THREADS, *CYCLICTEST, *NOISE_THREADS),
    unseen_switches=UNSEEN,
    fixed={**FIXED, "proc/cmdline": BOOT + "\n"},
    cgroups={**CGROUPS, **KUBELET, **workqueues(0xFF, 0)},
)


def kept_off(counts: PerCpu) -> dict[int, int]:
    """The same events, none of them on the audited CPUs: the boot CPU's core takes them."""
    found = {cpu: count for cpu, count in counts.items() if cpu in OTHERS}
    for cpu, instead in ((1, 0), (5, 4)):
        if counts.get(cpu):
            found[instead] = found.get(instead, 0) + counts[cpu]
    return found


def _steered(irq: Irq) -> Irq:
    """irqaffinity=0,4 moves what the kernel does not manage; a managed queue stays armed, silent without I/O there."""
    if irq.action.startswith("nvme0q") and irq.action != "nvme0q0":
        return replace(irq, on=kept_off(irq.on) if not irq.effective & AUDITED else {})
    goes = frozenset({0 if irq.irq % 2 else 4})
    moved = {next(iter(goes)): sum(irq.on.values())} if irq.on else {}
    return replace(irq, requested=frozenset({0, 4}), effective=goes, on=moved)


def _moved_off(thread: Thread) -> Thread:
    """Threads inherit the mask without isolated CPUs; what is bound there has nothing to do."""
    if thread.name == "cyclictest":
        return thread
    if thread.kernel and len(thread.allowed) == 1:
        return replace(thread, on={}, run_us=0) if thread.allowed <= AUDITED else thread
    return replace(thread, on=kept_off(thread.on), allowed=thread.allowed & OTHERS)


OFFLOADED = (
    _kthread(80, "rcuog/1", OTHERS, on(402, 0, 120), 9_000),
    _kthread(81, "rcuop/1", OTHERS, on(77, 0, 20), 2_000),
    _kthread(82, "rcuog/5", OTHERS, on(380, 0, 110), 8_000),
    _kthread(83, "rcuop/5", OTHERS, on(69, 0, 18), 2_000),
)
WITH = replace(
    WITHOUT,
    cmdline=f"{BOOT} {ISOLATION}",
    fixed={**FIXED, "proc/cmdline": f"{BOOT} {ISOLATION}\n"},
    cgroups={**CGROUPS, **KUBELET, **workqueues(0xDD, 0x22)},
    isolated=AUDITED,
    default_affinity=frozenset({0, 4}),
    domains={cpu: (CORES[cpu], OTHERS) for cpu in OTHERS},
    irqs=tuple(_steered(irq) for irq in IRQS),
    arch_rows=_arch_rows(_timers(37 if cpu in AUDITED else ticks for cpu, ticks in enumerate(TICKS)), {"RES": {1: 1}}),
    softirqs={
        name: {cpu: count for cpu, count in counts.items() if cpu in OTHERS} for name, counts in SOFTIRQS.items()
    },
    busy_ticks={**BUSY, 1: 442, 5: 441},
    states=tuple(replace(state, disabled=state.latency_us > 20) for state in STATES),
    idle_entries={
        name: {cpu: count for cpu, count in counts.items() if name not in ("C2", "C3")} for name, counts in IDLE.items()
    },
    threads=tuple(_moved_off(thread) for thread in WITHOUT.threads) + OFFLOADED,
    unseen_switches={cpu: count for cpu, count in UNSEEN.items() if cpu in OTHERS},
)
HOSTS: Mapping[str, Machine] = {"pinning-lab-without": WITHOUT, "pinning-lab-with": WITH}
