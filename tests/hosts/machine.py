"""A machine as numbers: what it is, and what grows on it in one window; and the files that a recording of it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from probes.cpulist import format_cpulist
from probes.record import SCHEMA
from tests.hosts import kernel_text as kernel
from tests.hosts.settings import settings

WINDOW_US = 40_000_000
T0_NS = 8_123_456_000_000
CENSUS_US, RUNS_US = -5_000, -200
"""When the threads are read before the counters, and how long after the others: microseconds as on a laptop."""
AFTER_RUNS_US, AFTER_CENSUS_US = 1_000, 6_000
"""How long after the end of the window they are read again."""
SAMPLES_US = (1_000, *range(4_000_000, WINDOW_US, 4_000_000), WINDOW_US - 200)
"""Every four seconds: a run samples every second, a file that lies here need not."""
PHASES = ("t0", *(f"samples/{number:04d}" for number in range(1, len(SAMPLES_US) + 1)), "t1")
BUNDLED = re.compile(r"proc/(\d+|irq)/|sys/devices/system/cpu/cpu\d+/|sys/devices/system/cpu/(cpuidle|cpufreq)/")
CPU_DIR = "sys/devices/system/cpu"

CpuSet = frozenset[int]
PerCpu = Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Thread:
    """One thread. ``on``: switches to it in the window, by CPU. ``gone_us``: when it ended."""

    pid: int
    tid: int
    name: str
    allowed: CpuSet
    on: PerCpu = field(default_factory=dict)
    run_us: int = 0
    parent: int = 1
    cgroup: str = "/"
    kernel: bool = False
    state: str = "S"
    preempted: bool = False
    """Switched to again after it had to leave the CPU, not after a wake-up."""
    gone_us: int | None = None
    allowed_after: CpuSet | None = None

    @property
    def switches(self) -> int:
        """Switches to it in the window, everywhere."""
        return sum(self.on.values())


@dataclass(frozen=True, kw_only=True)
class Irq:
    """One numbered interrupt. ``on``: events in the window, by CPU."""

    irq: int
    chip: str
    hwirq: str
    action: str
    requested: CpuSet
    effective: CpuSet
    flow: str = "edge"
    on: PerCpu = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class State:
    """One C-state."""

    name: str
    desc: str
    latency_us: int
    residency_us: int
    disabled: bool = False


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a host is, and the growth of its counters over the window by row and CPU."""

    cpus: tuple[int, ...]
    audited: CpuSet
    cmdline: str
    isolated: CpuSet
    default_affinity: CpuSet
    domains: Mapping[int, tuple[CpuSet, ...]]
    irqs: tuple[Irq, ...]
    arch_rows: Mapping[str, tuple[str, PerCpu]]
    softirqs: Mapping[str, PerCpu]
    busy_ticks: PerCpu
    states: tuple[State, ...]
    idle_entries: Mapping[str, PerCpu]
    threads: tuple[Thread, ...]
    unseen_switches: PerCpu
    """Switches to threads that come and go between two looks."""
    fixed: Mapping[str, str]
    """Files that say the same at any time, and are read once."""
    cgroups: Mapping[str, str]
    """Files of the cgroup tree and settings, read at both ends."""
    online_after: tuple[int, ...] | None = None
    """CPUs online at the end, where that differs."""
    window_us: int = WINDOW_US
    nohz_full: CpuSet | None = None
    """None: those that are isolated."""
    steal_ticks: PerCpu = field(default_factory=dict)
    """Ticks of 10 ms that a hypervisor took from a CPU."""
    arch: str = "x86_64"
    cgroup_line: str = "0::{}"
    """A line of /proc/PID/cgroup."""

    def online(self, phase: str) -> tuple[int, ...]:
        """CPUs online in this phase."""
        return self.online_after if phase == "t1" and self.online_after is not None else self.cpus


@dataclass(kw_only=True)
class Recorded:
    """A recording in memory: recording.json and the files of each phase, by the host's own paths."""

    meta: dict[str, Any]
    trees: dict[str, dict[str, str]]

    def deny(self, pattern: str) -> None:
        """Every file that matches may not be read, in any phase."""
        for phase, tree in self.trees.items():
            for path in [path for path in tree if re.fullmatch(pattern, path)]:
                del tree[path]
                self.meta["files"][f"{phase}/{path}"] = {"error": "denied: permission denied"}

    def drop(self, pattern: str) -> None:
        """Every file that matches does not exist, in any phase."""
        for tree in self.trees.values():
            for path in [path for path in tree if re.fullmatch(pattern, path)]:
                del tree[path]

    def files(self) -> dict[str, str]:
        """The files below the recording's directory; thousands of small ones lie in bundles."""
        found = {"recording.json": json.dumps(self.meta, indent=1) + "\n"} if self.meta else {}
        for phase, tree in self.trees.items():
            bundle = [
                f"{path}:{line}\n" for path in sorted(tree) if _bundled(path, tree[path]) for line in _lines(tree[path])
            ]
            found |= {f"{phase}/{path}": text for path, text in tree.items() if not _bundled(path, text)}
            found |= {f"{phase}/bundle.txt": "".join(bundle)} if bundle else {}
        return found


def _bundled(path: str, text: str) -> bool:
    return bool(text and BUNDLED.match(path))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def record(machine: Machine) -> Recorded:
    """What ``cpu-audit record`` would have written on such a machine."""
    trees = {"t0": {**machine.fixed, **_end(machine, "t0", 0, CENSUS_US, RUNS_US)}}
    previous = RUNS_US
    for phase, now in zip(PHASES[1:-1], samples_us(machine), strict=True):
        trees[phase] = dict(_sample(machine, previous, now, PHASES.index(phase)))
        previous = now
    end = machine.window_us
    trees["t1"] = _end(machine, "t1", end, end + AFTER_CENSUS_US, end + AFTER_RUNS_US)
    return Recorded(meta=_meta(machine), trees=trees)


def samples_us(machine: Machine) -> list[int]:
    """When is sampled; as often in a longer window."""
    first, *middle, last = SAMPLES_US
    return [first, *(us * machine.window_us // WINDOW_US for us in middle), machine.window_us - WINDOW_US + last]


def _meta(machine: Machine) -> dict[str, Any]:
    times = {"t0": 0, "t1": machine.window_us} | dict(zip(PHASES[1:-1], samples_us(machine), strict=True))
    modes = {f"{end}/proc/irq/{irq.irq}/smp_affinity": {"mode": 0o644} for end in ("t0", "t1") for irq in machine.irqs}
    return {
        "schema": SCHEMA,
        "tool": "tests.hosts.build",
        "cpus": format_cpulist(machine.audited),
        "chosen_by": "--cpus",
        "started": "2026-03-02T10:00:00.000+00:00",
        "requested_ms": machine.window_us // 1000,
        "interrupted": False,
        "times_ns": {phase: T0_NS + us * 1000 for phase, us in sorted(times.items())},
        "arch": machine.arch,
        "clock_ticks_per_s": 100,
        "workload": None,
        "work_pids": [],
        "work_timer_hz": None,
        "load": None,
        "work": None,
        "files": modes,
        "links": {f"{end}/proc/self/ns/cgroup": "cgroup:[4026531835]" for end in ("t0", "t1")},
    }


def base(name: str, limit: int) -> int:
    """What a counter stood at before the window: any number, always the same one."""
    return crc32(name.encode()) % limit


def at(growth: int, now_us: int, window_us: int = WINDOW_US) -> int:
    """How far a counter has grown: evenly, the first and the last event half a step away from the ends."""
    sign = -1 if now_us < 0 else 1
    return sign * ((growth * abs(now_us) + window_us // 2) // window_us)


def _end(machine: Machine, phase: str, now: int, census: int, runs: int) -> dict[str, str]:
    """One end of the window: counters, settings, threads."""
    files = {
        "proc/interrupts": _interrupts(machine, phase, now),
        "proc/softirqs": kernel.softirqs(
            {
                name: [_count(machine, name, on, cpu, now) for cpu in machine.cpus]
                for name, on in machine.softirqs.items()
            }
        ),
        "proc/schedstat": _schedstat(machine, phase, now),
        "proc/stat": _stat(machine, phase, now),
        f"{CPU_DIR}/online": kernel.cpulist(machine.online(phase)),
        f"{CPU_DIR}/isolated": kernel.cpulist(machine.isolated),
        f"{CPU_DIR}/nohz_full": kernel.nohz_full(machine.isolated if machine.nohz_full is None else machine.nohz_full),
        "proc/irq/default_smp_affinity": kernel.cpumask(machine.default_affinity),
        **{f"sys/class/net/{name}/queues/rx-0/rps_cpus": kernel.cpumask(frozenset()) for name in ("lo", "wlp0s20f3")},
    }
    files.update(machine.cgroups)
    files.update(_affinities(machine))
    files.update(_cpuidle(machine, phase, now))
    files.update(settings(machine.online(phase), machine.isolated))
    for thread in machine.threads:
        if thread.gone_us is None or thread.gone_us > runs:
            files.update(_thread(machine, thread, phase, census, runs))
            if _is_own(machine, thread):
                files[f"proc/{thread.pid}/io"] = kernel.process_io(read_bytes=1 << 20)
    return files


def _count(machine: Machine, name: str, on: PerCpu, cpu: int, now: int) -> int:
    grown = on.get(cpu, 0)
    return base(f"{name} {cpu}", 900_000) + at(grown, now, machine.window_us) if grown else 0


def _interrupts(machine: Machine, phase: str, now: int) -> str:
    cpus = machine.online(phase)
    rows = [
        kernel.interrupt_row(
            str(irq.irq),
            [_count(machine, f"irq{irq.irq}", irq.on, cpu, now) for cpu in cpus],
            kernel.device_text(irq.chip, irq.hwirq, irq.flow, irq.action),
        )
        for irq in machine.irqs
    ]
    rows += [
        kernel.interrupt_row(label, [_count(machine, label, on, cpu, now) for cpu in cpus], f"  {text}")
        for label, (text, on) in machine.arch_rows.items()
    ]
    return kernel.interrupts(cpus, rows, errors=("ERR", "MIS") if machine.arch == "x86_64" else ("Err",))


def _schedstat(machine: Machine, phase: str, now: int) -> str:
    found = {}
    for cpu in machine.online(phase):
        run_ns = base(f"run {cpu}", 10**12) + at(machine.busy_ticks.get(cpu, 0) * 10_000_000, now, machine.window_us)
        switches = sum(at(thread.on.get(cpu, 0), _alive(thread, now), machine.window_us) for thread in machine.threads)
        switches += at(machine.unseen_switches.get(cpu, 0), now, machine.window_us) + base(f"switches {cpu}", 10**7)
        found[cpu] = (run_ns, run_ns // 40, switches)
    return kernel.schedstat(found, machine.domains)


def _alive(thread: Thread, now: int) -> int:
    return now if thread.gone_us is None else min(now, thread.gone_us)


def _stat(machine: Machine, phase: str, now: int) -> str:
    found = {}
    for cpu in machine.online(phase):
        busy = machine.busy_ticks.get(cpu, 0)
        steal, window = machine.steal_ticks.get(cpu, 0), machine.window_us
        idle = window // 10_000 - busy - steal
        start = base(f"ticks {cpu}", 500_000)
        user, system = start + at(busy * 2 // 3, now, window), start // 3 + at(busy - busy * 2 // 3, now, window)
        stolen = base(f"steal {cpu}", 500) + at(steal, now, window) if steal else 0
        found[cpu] = (user, 0, system, 5 * start + at(idle, now, window), 900, 0, 1200, stolen, 0, 0)
    return kernel.stat(found, btime=1_772_437_477)


def _affinities(machine: Machine) -> Iterator[tuple[str, str]]:
    for irq in machine.irqs:
        yield f"proc/irq/{irq.irq}/smp_affinity_list", kernel.cpulist(irq.requested)
        yield f"proc/irq/{irq.irq}/effective_affinity_list", kernel.cpulist(irq.effective)


def _cpuidle(machine: Machine, phase: str, now: int) -> Iterator[tuple[str, str]]:
    for cpu in machine.online(phase):
        idle_us = machine.window_us - machine.busy_ticks.get(cpu, 0) * 10_000
        entries = {state.name: machine.idle_entries.get(state.name, {}).get(cpu, 0) for state in machine.states}
        weights = {state.name: entries[state.name] * max(1, state.residency_us) for state in machine.states}
        for index, state in enumerate(machine.states):
            time_us = idle_us * weights[state.name] // max(1, sum(weights.values()))
            start = base(f"{state.name} {cpu}", 200_000)
            usage, slept_us = (at(grown, now, machine.window_us) for grown in (entries[state.name], time_us))
            yield from _state(cpu, index, state, start + usage, start * 90 + slept_us)


def _state(cpu: int, index: int, state: State, usage: int, time_us: int) -> Iterator[tuple[str, str]]:
    values: dict[str, str | int] = {
        "name": state.name,
        "desc": state.desc,
        "latency": state.latency_us,
        "residency": state.residency_us,
        "usage": usage,
        "time": time_us,
        "disable": int(state.disabled),
        "default_status": "enabled",
    }
    for name, value in values.items():
        yield f"{CPU_DIR}/cpu{cpu}/cpuidle/state{index}/{name}", f"{value}\n"


def _is_own(machine: Machine, thread: Thread) -> bool:
    return not thread.kernel and thread.allowed <= machine.audited


def _thread(machine: Machine, thread: Thread, phase: str, census: int, runs: int) -> Iterator[tuple[str, str]]:
    directory = f"proc/{thread.pid}/task/{thread.tid}"
    switches = base(f"switches {thread.tid}", 50_000)
    grown = at(thread.switches, census, machine.window_us)
    yield (
        f"{directory}/status",
        kernel.thread_status(
            pid=thread.pid,
            tid=thread.tid,
            name=thread.name,
            state=thread.state,
            parent=thread.parent,
            kernel=thread.kernel,
            allowed=thread.allowed_after or thread.allowed if phase == "t1" else thread.allowed,
            voluntary=switches + (0 if thread.preempted else grown),
            involuntary=thread.tid % 97 + (grown if thread.preempted else 0),
        ),
    )
    yield f"{directory}/schedstat", _run(machine, thread, runs)
    yield f"proc/{thread.pid}/cgroup", machine.cgroup_line.format(thread.cgroup) + "\n"
    if _is_own(machine, thread):
        yield f"{directory}/cgroup", machine.cgroup_line.format(thread.cgroup) + "\n"
        yield f"proc/{thread.pid}/limits", kernel.limits()
        yield f"proc/{thread.pid}/timers", ""


def _run(machine: Machine, thread: Thread, now: int) -> str:
    switches = base(f"switches {thread.tid}", 50_000) + at(thread.switches, now, machine.window_us)
    ran_ns = base(f"ran {thread.tid}", 10**10) + at(thread.run_us * 1000, now, machine.window_us)
    return kernel.thread_schedstat(ran_ns, switches)


def _sample(machine: Machine, previous: int, now: int, number: int) -> Iterator[tuple[str, str]]:
    """Growth of every thread; where it ran only of those that moved, never of the own ones."""
    for thread in machine.threads:
        if thread.gone_us is not None and thread.gone_us <= now:
            continue
        directory = f"proc/{thread.pid}/task/{thread.tid}"
        yield f"{directory}/schedstat", _run(machine, thread, now)
        if _moved(machine, thread, previous, now) and not _is_own(machine, thread):
            often = sorted(thread.on, key=lambda cpu: (-thread.on[cpu], cpu))
            cpu = often[(thread.tid + number) % len(often)]
            yield f"{directory}/stat", kernel.thread_stat(thread.tid, thread.name, thread.state, thread.parent, cpu)


def _moved(machine: Machine, thread: Thread, previous: int, now: int) -> bool:
    return at(thread.switches, previous, machine.window_us) != at(thread.switches, now, machine.window_us)
