"""A node whose audited CPUs are quiet: what a report says of them is put on top, everything else stays plausible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tests.hosts import kernel_text as kernel
from tests.hosts.machine import CPU_DIR, Irq, Machine, PerCpu, Recorded, State, Thread, record

S = 1_000_000
"""Microseconds in a second."""
X86_ROWS = {
    "NMI": "Non-maskable interrupts",
    "LOC": "Local timer interrupts",
    "SPU": "Spurious interrupts",
    "PMI": "Performance monitoring interrupts",
    "IWI": "IRQ work interrupts",
    "RTR": "APIC ICR read retries",
    "RES": "Rescheduling interrupts",
    "CAL": "Function call interrupts",
    "TLB": "TLB shootdowns",
    "TRM": "Thermal event interrupts",
    "MCE": "Machine check exceptions",
    "MCP": "Machine check polls",
}
ARM_ROWS = {
    "11": "   GICv2  30 Level     arch_timer",
    "IPI0": "     Rescheduling interrupts",
    "IPI1": "     Function call interrupts",
    "IPI5": "     IRQ work interrupts",
}
TICKS = {"x86_64": "LOC", "aarch64": "11"}
PER_S = {"LOC": 180, "RES": 40, "CAL": 30, "TLB": 60, "IWI": 60, "11": 180, "IPI0": 40, "IPI1": 30, "IPI5": 60}
SOFTIRQS_PER_S = {"TIMER": 60, "NET_TX": 2, "NET_RX": 25, "BLOCK": 6, "TASKLET": 2, "SCHED": 20, "HRTIMER": 1,
                  "RCU": 90, "HI": 2, "IRQ_POLL": 2}  # fmt: skip
"""What a busy housekeeping CPU counts: enough to have exercised every rule."""
SWITCHES_PER_S = 300
HOUSEKEEPING_BUSY = 0.4
STATES = (
    State(name="POLL", desc="CPUIDLE CORE POLL IDLE", latency_us=0, residency_us=0),
    State(name="C1", desc="MWAIT 0x00", latency_us=1, residency_us=1),
)

CGROUPS = {
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    **{
        f"sys/fs/cgroup{path}/{name}": text
        for path in ("/app", "/kubepods", "/kubepods/pod1")
        for name, text in (
            ("cpu.max", "max 100000\n"),
            ("cpu.stat", kernel.cpu_stat(91_442_310)),
            ("cpu.stat.local", "throttled_usec 0\n"),
            ("cpuset.cpus.partition", "member\n"),
        )
    },
}


def node(
    cpus: int,
    audited: Collection[int],
    *,
    kernel_release: str,
    boot: str = "",
    isolated: Collection[int] = (),
    nohz_full: Collection[int] | None = None,
    default_affinity: Collection[int] | None = None,
    window_s: float = 40,
    arch: str = "x86_64",
    hz: int = 250,
    guest: bool = False,
) -> Machine:
    """The quiet node. ``isolated`` CPUs are in no scheduler domain and, by default, in nohz_full."""
    everyone, kept, quiet = range(cpus), frozenset(isolated), frozenset(audited)
    noisy = frozenset(everyone) - quiet
    open_to = frozenset(everyone) - kept
    window_us = round(window_s * S)

    def counts(per_s: float) -> PerCpu:
        return {cpu: round(per_s * window_s) for cpu in noisy}

    rows = X86_ROWS if arch == "x86_64" else ARM_ROWS
    return Machine(
        cpus=tuple(everyone),
        audited=quiet,
        cmdline=boot,
        isolated=kept,
        nohz_full=None if nohz_full is None else frozenset(nohz_full),
        default_affinity=noisy if default_affinity is None else frozenset(default_affinity),
        domains=dict.fromkeys(sorted(open_to), (open_to,)) if len(open_to) > 1 else {},
        irqs=(device(40, "ahci[0000:00:17.0]", sorted(noisy)[-1], noisy, per_s=8, window_s=window_s),),
        arch_rows={label: (text, counts(PER_S[label]) if label in PER_S else {}) for label, text in rows.items()},
        softirqs={name: counts(per_s) for name, per_s in SOFTIRQS_PER_S.items()},
        busy_ticks={cpu: round(HOUSEKEEPING_BUSY * window_s * 100) for cpu in noisy},
        states=STATES,
        idle_entries={"C1": counts(SWITCHES_PER_S)},
        threads=(*_host_threads(noisy, window_s), *_kernel_threads(everyone, noisy, window_s)),
        unseen_switches={},
        fixed=_fixed(everyone, kernel_release, boot, arch=arch, hz=hz, guest=guest),
        cgroups=CGROUPS,
        window_us=window_us,
        arch=arch,
    )


def _fixed(cpus: range, release: str, boot: str, *, arch: str, hz: int, guest: bool) -> Mapping[str, str]:
    everyone = kernel.cpulist(cpus)
    flags = "fpu tsc msr lm" + " hypervisor" * guest
    return {
        "proc/cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{release} ro {boot}".strip() + "\n",
        "proc/sys/kernel/hostname": "node\n",
        "proc/sys/kernel/osrelease": f"{release}\n",
        "proc/sys/kernel/arch": f"{arch}\n",
        "proc/sys/kernel/random/boot_id": "5f7b7a32-6d0b-4f0e-a4cc-0a4c7f6a1e02\n",
        "proc/cpuinfo": kernel.cpuinfo(cpus, model="a CPU", flags=flags) if arch == "x86_64" else "",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2\n" if guest else "a vendor\n",
        f"boot/config-{release}": f"CONFIG_NO_HZ_FULL=y\nCONFIG_HZ={hz}\n",
        f"{CPU_DIR}/possible": everyone,
        f"{CPU_DIR}/present": everyone,
        f"{CPU_DIR}/cpuidle/current_driver": "intel_idle\n",
        "sys/devices/system/node/node0/cpulist": everyone,
        **{f"{CPU_DIR}/cpu{cpu}/topology/thread_siblings_list": kernel.cpulist({cpu}) for cpu in cpus},
    }


def device(irq: int, name: str, cpu: int, allowed: Iterable[int], *, per_s: float = 0, window_s: float = 40) -> Irq:
    """An interrupt of a device that fires on one CPU."""
    return Irq(
        irq=irq,
        chip=f"IR-PCI-MSIX-0000:{irq % 256:02x}:00.0",
        hwirq="0",
        action=name,
        requested=frozenset(allowed),
        effective=frozenset({cpu}),
        on={cpu: round(per_s * window_s)} if per_s else {},
    )


def _host_threads(noisy: Collection[int], window_s: float) -> Iterable[Thread]:
    """A daemon per CPU is all that the housekeeping CPUs need to be busy."""
    yield Thread(pid=1, tid=1, name="systemd", allowed=frozenset(noisy), cgroup="/init.scope")
    for cpu in sorted(noisy):
        yield Thread(
            pid=900 + cpu,
            tid=900 + cpu,
            name=f"daemon-{cpu}",
            allowed=frozenset(noisy),
            on={cpu: round(SWITCHES_PER_S * window_s)},
            run_us=round(HOUSEKEEPING_BUSY * window_s * S),
            cgroup="/system.slice/daemon.service",
        )


def kthread(tid: int, name: str, allowed: Collection[int], on: PerCpu | None = None, run_us: int = 0) -> Thread:
    """A kernel thread."""
    return Thread(
        pid=tid, tid=tid, name=name, allowed=frozenset(allowed), on=on or {}, run_us=run_us, parent=2, kernel=True
    )


def _kernel_threads(cpus: Iterable[int], noisy: Collection[int], window_s: float) -> Iterable[Thread]:
    yield kthread(2, "kthreadd", noisy)
    for cpu in cpus:
        watchdog = {cpu: int(window_s / 4)}
        yield kthread(10_000 + 10 * cpu, f"migration/{cpu}", {cpu}, watchdog if cpu in noisy else {}, 90)
        yield kthread(10_001 + 10 * cpu, f"ksoftirqd/{cpu}", {cpu})
        yield kthread(10_002 + 10 * cpu, f"kworker/{cpu}:1-events", {cpu})


def spinner(cpu: int, machine: Machine, *, name: str, cgroup: str = "/app", tid: int = 0, idle_us: int = 0) -> Thread:
    """An own thread that keeps its CPU busy throughout, but for ``idle_us``."""
    tid = tid or 2_000 + cpu
    return Thread(
        pid=tid,
        tid=tid,
        name=name,
        allowed=frozenset({cpu}),
        run_us=machine.window_us - idle_us,
        state="R",
        cgroup=cgroup,
    )


def add(machine: Machine, *threads: Thread) -> Machine:
    """The node with more threads; what they run is part of how busy the CPUs are (a thread runs where it is woken)."""
    busy = dict(machine.busy_ticks)
    for thread in threads:
        where = thread.on or dict.fromkeys(thread.allowed, 1)
        for cpu, switches in where.items():
            share = thread.run_us * switches / sum(where.values())
            busy[cpu] = min(machine.window_us // 10_000, busy.get(cpu, 0) + round(share / 10_000))
    return replace(machine, threads=(*machine.threads, *threads), busy_ticks=busy)


def rows(machine: Machine, **counts: PerCpu) -> Machine:
    """The node with these counts in rows of /proc/interrupts, by label; TICK is the row of the local timer."""
    found = dict(machine.arch_rows)
    for label, more in counts.items():
        label = TICKS[machine.arch] if label == "TICK" else label
        text, known = found[label]
        found[label] = (text, {**known, **more})
    return replace(machine, arch_rows=found)


def softirqs(machine: Machine, **counts: PerCpu) -> Machine:
    """The node with these softirqs, by name."""
    return replace(machine, softirqs={name: {**on, **counts.get(name, {})} for name, on in machine.softirqs.items()})


def cyclictest(machine: Machine, cpus: Iterable[int], *, interval_us: int = 200, run_us: int = 5) -> Machine:
    """The node with a cyclictest thread on each of these CPUs: a wake-up by its own timer each interval."""
    loops = machine.window_us // interval_us
    threads = [
        Thread(
            pid=3_000,
            tid=3_001 + cpu,
            name="cyclictest",
            allowed=frozenset({cpu}),
            on={cpu: loops},
            run_us=loops * run_us,
            cgroup="/app",
        )
        for cpu in cpus
    ]
    ticks = dict.fromkeys(cpus, loops)
    return rows(add(machine, *threads), TICK=ticks)


def group_v1(machine: Machine, path: str, quota_us: int, stat: tuple[int, int, int]) -> Recorded:
    """The node with a cgroup v1 limit on ``path``; ``stat``: periods, throttled ones and nanoseconds in the window."""
    host = record(replace(machine, cgroup_line="4:cpu,cpuacct:{}", cgroups={}))
    root = "sys/fs/cgroup/cpu,cpuacct"
    names = [part for part in path.split("/") if part]
    levels = ["/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)]
    for end, grown in (("t0", (0, 0, 0)), ("t1", stat)):
        tree = host.trees[end]
        tree[f"{root}/cpu.shares"] = "1024\n"
        for level in levels:
            own = level == path
            tree[f"{root}{level}/cpu.cfs_quota_us"] = f"{quota_us if own else -1}\n"
            tree[f"{root}{level}/cpu.cfs_period_us"] = "100000\n"
            periods, throttled, ns = grown if own else (0, 0, 0)
            tree[f"{root}{level}/cpu.stat"] = f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time {ns}\n"
    return host
