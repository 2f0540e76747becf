"""Small whole hosts whose verdict is isolated: what the faults are applied to. Each read of an audit is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from probes.record import Recording, Tree
from tests.hosts import kernel_text as kernel
from tests.hosts.lab import CGROUPS, FIXED, KUBELET, STATES, TUNED, WITH, on, workqueues
from tests.hosts.machine import CPU_DIR, WINDOW_US, Irq, Machine, PerCpu, Recorded, Thread, record
from tests.hosts.variations import silent

CPUS = (0, 1, 2, 3)
PLACES = {0: 0, 1: 1, 4: 2, 5: 3}
"""CPUs of the pinning lab that are kept, and what they are here: two cores of two threads."""
AUDITED = frozenset({1, 3})
OTHERS = frozenset(CPUS) - AUDITED
LINE = "root=/dev/sda1 ro isolcpus=domain,managed_irq,1,3 nohz_full=1,3 rcu_nocbs=1,3 irqaffinity=0,2"
KEPT_SAMPLES = ("samples/0001", "samples/0006", "samples/0011")
"""One right after t0, one right before t1, one between."""
SPINNER, SLEEPER = 5200, 5300
KUBELET_PID, BALANCER = 1041, 700
PEOPLE = (1, 812, KUBELET_PID, 6001)
"""Others that run elsewhere; the last one keeps its CPU busy."""


def _here(counts: PerCpu) -> dict[int, int]:
    return {PLACES[cpu]: count for cpu, count in counts.items() if cpu in PLACES}


def _mask(cpus: frozenset[int]) -> frozenset[int]:
    return frozenset(PLACES[cpu] for cpu in cpus if cpu in PLACES)


def _smaller(thread: Thread) -> Thread:
    name, bound, cpu = thread.name.partition("/")
    name = f"{name}/{PLACES[int(cpu)]}" if bound else name
    return replace(thread, name=name, allowed=_mask(thread.allowed), on=_here(thread.on))


def _irq(irq: Irq) -> Irq:
    return replace(irq, requested=_mask(irq.requested), effective=_mask(irq.effective), on=_here(irq.on))


OWN = (
    Thread(pid=SPINNER, tid=SPINNER, name="l2fwd", allowed=frozenset({1}), run_us=WINDOW_US, state="R", cgroup=TUNED),
    Thread(pid=SLEEPER, tid=SLEEPER, name="poll", allowed=frozenset({3}), on={3: 800}, run_us=80_000, cgroup=TUNED),
)
IRQBALANCE = Thread(pid=BALANCER, tid=BALANCER, name="irqbalance", allowed=OTHERS, on={0: 4}, run_us=900)
BALANCED = {f"proc/{BALANCER}/environ": "IRQBALANCE_BANNED_CPULIST=1,3\0", f"proc/{BALANCER}/cmdline": "irqbalance\0"}
BOUND = ("migration", "ksoftirqd", "cpuhp")


def _people() -> tuple[Thread, ...]:
    bound = [thread for thread in WITH.threads if thread.kernel and thread.name.startswith(BOUND)]
    kept = [thread for thread in bound if thread.allowed <= PLACES.keys()]
    kept += [thread for thread in WITH.threads if thread.pid in PEOPLE or thread.name in ("kthreadd", "rcu_preempt")]
    return (*(_smaller(thread) for thread in kept), IRQBALANCE, *OWN)


def _files() -> dict[str, str]:
    fixed = {path: text for path, text in FIXED.items() if "/topology/" not in path}
    cores = {cpu: frozenset({cpu % 2, cpu % 2 + 2}) for cpu in CPUS}
    topology = {f"{CPU_DIR}/cpu{cpu}/topology/thread_siblings_list": kernel.cpulist(cores[cpu]) for cpu in CPUS}
    places = {f"{CPU_DIR}/{name}": kernel.cpulist(frozenset(CPUS)) for name in ("possible", "present")}
    node = {"sys/devices/system/node/node0/cpulist": kernel.cpulist(frozenset(CPUS))}
    return {**fixed, **topology, **places, **node, "proc/cmdline": f"{LINE}\n"}


BUSY = Machine(
    cpus=CPUS,
    audited=AUDITED,
    cmdline=LINE,
    isolated=AUDITED,
    default_affinity=OTHERS,
    domains=dict.fromkeys(OTHERS, (OTHERS,)),
    irqs=tuple(_irq(irq) for irq in WITH.irqs if irq.irq in (1, 9, 127, 128, 132, 135)),
    arch_rows={
        **{name: (text, _here(counts)) for name, (text, counts) in WITH.arch_rows.items()},
        "LOC": ("Local timer interrupts", on(10_004, 36, 10_002, 830)),
    },
    softirqs={name: _here(counts) for name, counts in WITH.softirqs.items()},
    busy_ticks={0: 2810, 1: WINDOW_US // 10_000, 2: 2590, 3: 8},
    states=STATES[:2],
    idle_entries={name: _here(counts) for name, counts in WITH.idle_entries.items()},
    threads=_people(),
    unseen_switches={0: 4000, 2: 4000},
    fixed=_files(),
    cgroups={**CGROUPS, **KUBELET, **BALANCED, **workqueues(0x5, 0xA)},
)
"""CPU 1 spins in nohz_full, so that the tick decides too; CPU 3 sleeps; the others are loaded: all was exercised."""


def _quiet(machine: Machine) -> Machine:
    """Nothing happens but that CPU 0 keeps the time: only doors that are provably closed make it isolated."""
    others = tuple(item for item in machine.threads if item.pid not in (SPINNER, SLEEPER))
    return silent(replace(machine, threads=others))


MACHINES: Mapping[str, Callable[[], Machine]] = {"busy": lambda: BUSY, "quiet": lambda: _quiet(BUSY)}


@lru_cache
def good(name: str) -> Recording:
    """A recording in memory; whoever changes it takes a copy."""
    host: Recorded = record(MACHINES[name]())
    trees = {
        phase: Tree(files=dict(files))
        for phase, files in host.trees.items()
        if phase in ("t0", "t1") or phase in KEPT_SAMPLES
    }
    for phase in KEPT_SAMPLES:
        trees[phase].files[f"{CPU_DIR}/online"] = kernel.cpulist(frozenset(CPUS))
    for path, facts in host.meta["files"].items():
        phase, _, rest = path.partition("/")
        trees[phase].modes[rest] = facts["mode"]
    for path, target in host.meta["links"].items():
        phase, _, rest = path.partition("/")
        trees[phase].links[rest] = target
    return Recording(trees=trees, meta=host.meta)
