"""The isolated laptop with one thing changed, as recordings in memory; the test says what must become of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tests.hosts import kernel_text as kernel
from tests.hosts.lab import OTHERS, TIMERS, TUNED, WITH, WITHOUT
from tests.hosts.machine import WINDOW_US, Irq, Machine, PerCpu, Recorded, Thread, at, base, record

SECONDS = WINDOW_US // 1_000_000


def no_schedstat() -> Recorded:
    """A kernel without CONFIG_SCHEDSTATS."""
    host = record(WITH)
    host.drop("proc/schedstat")
    return host


def masked_interrupts() -> Recorded:
    """A container runtime put an empty file over it."""
    host = record(WITH)
    for end in ("t0", "t1"):
        host.trees[end]["proc/interrupts"] = ""
    return host


def cut_softirqs() -> Recorded:
    """The last write of a full disk."""
    host = record(WITH)
    text = host.trees["t1"]["proc/softirqs"]
    host.trees["t1"]["proc/softirqs"] = text[: text.index("SCHED:") + 30]
    return host


def denied_affinity() -> Recorded:
    """Where interrupts go may not be read."""
    host = record(WITH)
    host.deny(r"proc/irq/\d+/\w+_list")
    return host


def domain_line() -> Recorded:
    """CPU 1 is balanced with the others, whatever the command line and sysfs say."""
    spans: Mapping[int, tuple[frozenset[int], ...]] = {**WITH.domains, 1: (OTHERS | {1},)}
    return record(replace(WITH, domains=dict(sorted(spans.items()))))


def with_irq(action: str, *, cpus: Collection[int], on: PerCpu) -> Machine:
    """One interrupt goes elsewhere."""
    target = frozenset(cpus)

    def moved(irq: Irq) -> Irq:
        return replace(irq, requested=target, effective=target, on=on) if irq.action == action else irq

    return replace(WITH, irqs=tuple(moved(irq) for irq in WITH.irqs))


def routed_silent() -> Recorded:
    """The USB controller may fire on CPU 1, and does not."""
    return record(with_irq("xhci_hcd", cpus={1}, on={}))


def fired_60() -> Recorded:
    """A Wi-Fi queue fired 60 times on CPU 1 before someone moved it away."""
    return record(with_irq("iwlwifi:queue_1", cpus={0}, on={0: 552, 1: 60}))


def with_threads(*more: Thread, base: Machine = WITH) -> Machine:
    """More threads."""
    return replace(base, threads=(*base.threads, *more))


def pinned_thread() -> Recorded:
    """chronyd was pinned to CPU 1: 12 switches, 0.9 ms."""
    chronyd = Thread(
        pid=1500,
        tid=1500,
        name="chronyd",
        allowed=frozenset({1}),
        on={1: 12},
        run_us=900,
        cgroup="/system.slice/chrony.service",
    )
    return record(with_threads(chronyd))


def only_on_5(thread: Thread) -> Thread:
    """Nothing of it on CPU 1."""
    return replace(thread, on={cpu: count for cpu, count in thread.on.items() if cpu != 1}) if thread.on else thread


def occupied(*, counted: bool, allowed: frozenset[int] = frozenset({1})) -> Recorded:
    """A foreign thread holds CPU 1 throughout: nothing is ever switched to. Its run time is kept up to date or not."""
    hog = Thread(
        pid=1600,
        tid=1600,
        name="miner",
        allowed=allowed,
        run_us=WINDOW_US if counted else 0,
        state="R",
        cgroup="/system.slice/miner.service",
    )
    quiet = tuple(only_on_5(thread) for thread in WITH.threads if thread.tid != 5121)
    rows = {**WITH.arch_rows, "LOC": ("Local timer interrupts", {**WITH.arch_rows["LOC"][1], 1: SECONDS})}
    return record(
        replace(WITH, threads=(*quiet, hog), busy_ticks={**WITH.busy_ticks, 1: WINDOW_US // 10_000}, arch_rows=rows)
    )


def kworker_runs() -> Recorded:
    """Something queued work on CPU 1 three times."""
    ran = tuple(
        replace(thread, on={1: 3}, run_us=24) if thread.name == "kworker/1:1-events" else thread
        for thread in WITH.threads
    )
    return record(replace(WITH, threads=ran))


def spinning(ticks_per_s: int) -> Recorded:
    """The pod polls on CPU 1 instead of sleeping."""
    others = tuple(thread for thread in WITH.threads if thread.name != "cyclictest")
    poller = Thread(
        pid=5200, tid=5200, name="l2fwd", allowed=frozenset({1}), run_us=WINDOW_US, state="R", parent=5101, cgroup=TUNED
    )
    local = {**WITH.arch_rows["LOC"][1], 1: ticks_per_s * SECONDS, 5: 0}
    rows = {**WITH.arch_rows, "LOC": ("Local timer interrupts", local)}
    busy = {**WITH.busy_ticks, 1: WINDOW_US // 10_000, 5: 2}
    return record(replace(WITH, threads=(*others, poller), arch_rows=rows, busy_ticks=busy))


def another_boot(path: str = "proc/softirqs") -> Recorded:
    """The end is of a later boot: this file's counters of a CPU that is only compared with start again."""
    host = record(WITH)
    busy = {"proc/softirqs": ("SCHED", WITH.softirqs["SCHED"]), "proc/interrupts": ("LOC", WITH.arch_rows["LOC"][1])}
    label, counts = busy[path]
    last = base(f"{label} 0", 900_000) + counts[0]
    host.trees["t1"][path] = host.trees["t1"][path].replace(f" {last:10}", f" {7:10}", 1)
    return host


def offlined() -> Recorded:
    """CPU 5 went offline; its thread moved to what is left of the pod's cpuset."""
    moved = tuple(
        replace(thread, allowed_after=frozenset({1})) if thread.tid == 5122 else thread
        for thread in WITH.threads
        if not thread.name.endswith("/5")
    )
    return record(replace(WITH, threads=moved, online_after=tuple(cpu for cpu in WITH.cpus if cpu != 5)))


def no_samples(*, timed: bool) -> Recorded:
    """Only both ends; the times of samples in which nothing could be read may be there."""
    host = record(WITH)
    host.trees = {phase: tree for phase, tree in host.trees.items() if not phase.startswith("samples/")}
    if not timed:
        host.meta["times_ns"] = {phase: host.meta["times_ns"][phase] for phase in ("t0", "t1")}
    return host


def by_hand() -> Recorded:
    """Made with cp: nothing says when, or for which CPUs."""
    host = record(WITH)
    host.meta = {}
    return host


def silent(machine: Machine) -> Machine:
    """Nothing happens, but that CPU 0 keeps the time."""
    return replace(
        machine,
        irqs=tuple(replace(irq, on={}) for irq in machine.irqs),
        arch_rows={name: (text, {0: 40} if name == "LOC" else {}) for name, (text, _) in machine.arch_rows.items()},
        softirqs={name: {0: 40} if name == "TIMER" else {} for name in machine.softirqs},
        busy_ticks={},
        idle_entries={},
        threads=tuple(replace(thread, on={}, run_us=0) for thread in machine.threads),
        unseen_switches={0: 20},
    )


def quiet() -> Recorded:
    """A machine at rest, doors closed."""
    return record(silent(WITH))


def quiet_without() -> Recorded:
    """A machine at rest without isolation: nothing happened, and everything may."""
    return record(silent(WITHOUT))


def quiet_denied() -> Recorded:
    """A machine at rest: where its interrupts may fire can't be read."""
    host = quiet()
    host.deny(r"proc/irq/\d+/\w+_list")
    return host


def quiet_no_domains() -> Recorded:
    """A machine at rest: neither schedstat nor sysfs says what the scheduler may do."""
    host = quiet()
    host.drop(r"proc/schedstat|sys/devices/system/cpu/isolated")
    return host


def denied_threads() -> Recorded:
    """Threads are listed, and nothing of them may be read."""
    host = record(WITH)
    host.deny(r"proc/\d+/.*")
    return host


def own_ended() -> Recorded:
    """cyclictest's thread on CPU 1 ended after 18 s, and with it its timers."""
    ended_us = 18_000_000
    threads = tuple(replace(thread, gone_us=ended_us) if thread.tid == 5121 else thread for thread in WITH.threads)
    local = {**WITH.arch_rows["LOC"][1], 1: at(TIMERS, ended_us) + 37}
    return record(
        replace(
            WITH,
            threads=threads,
            arch_rows={**WITH.arch_rows, "LOC": ("Local timer interrupts", local)},
            busy_ticks={**WITH.busy_ticks, 1: 199},
        )
    )


def _nobodys(*more: Thread, busy_s: float, unseen: int = 0) -> Machine:
    """Nobody's CPUs; on CPU 1 a hog ran a while, and migration/1 pushed it away or brought it."""
    others = tuple(thread for thread in WITH.threads if thread.kernel or not thread.allowed <= WITH.audited)
    threads = tuple(
        replace(thread, on={1: 1}, run_us=20) if thread.name == "migration/1" else thread for thread in others
    )
    idle = {name: (text, {**counts, 1: 0, 5: 0}) for name, (text, counts) in WITH.arch_rows.items()}
    return replace(
        WITH,
        threads=(*threads, *more),
        arch_rows=idle,
        busy_ticks={**WITH.busy_ticks, 1: round(busy_s * 100), 5: 0},
        unseen_switches={1: unseen} if unseen else {},
    )


HOG = Thread(
    pid=1700, tid=1700, name="hog", allowed=frozenset({1}), run_us=WINDOW_US - 50_000, state="R", cgroup="/user"
)


def hog_moved_out() -> Recorded:
    """A hog confined to CPU 1 was moved to CPU 0 after 18 s."""
    return record(_nobodys(replace(HOG, on={0: 60}, allowed_after=frozenset({0})), busy_s=18))


def hog_moved_in() -> Recorded:
    """A hog on CPU 0 was moved to CPU 1 for the last 9 s."""
    hog = replace(HOG, on={0: 60, 1: 1}, allowed=frozenset({0}), allowed_after=frozenset({1}))
    return record(_nobodys(hog, busy_s=9))


def hog_visited() -> Recorded:
    """A hog was moved to CPU 1, and away again or killed there after 3 s: neither end knows of it."""
    return record(_nobodys(busy_s=3, unseen=1))


def throttled_pod() -> Recorded:
    """The pod has a limit of two CPUs, which ran out in 37 of 400 periods."""
    host = record(WITH)
    pod = f"sys/fs/cgroup{TUNED.rpartition('/')[0]}"
    for end, grown in (("t0", 0), ("t1", 37)):
        host.trees[end][f"{pod}/cpu.max"] = "200000 100000\n"
        host.trees[end][f"{pod}/cpu.stat"] = kernel.cpu_stat(
            9000, 100 + 400 * (grown > 0), 5 + grown, 900 + grown * 1000
        )
        for level in (pod, f"sys/fs/cgroup{TUNED}"):
            host.trees[end][f"{level}/cpu.stat.local"] = f"throttled_usec {900 + grown * 1000}\n"
    return host
