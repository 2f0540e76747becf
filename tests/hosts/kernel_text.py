"""Texts of /proc and /sys in the shapes that Linux 6.8 prints on x86-64. Pure functions: numbers in, text out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from probes.cpulist import format_cpulist, format_cpumask

LABEL_WIDTH = 3
DOMAIN_COUNTERS = 36
STAT_FIELDS = 52
PROCESSOR_FIELD = 39


def cpulist(cpus: Collection[int]) -> str:
    """A CPU list file; the empty set is a lone newline."""
    return format_cpulist(cpus) + "\n"


def nohz_full(cpus: Collection[int]) -> str:
    """/sys/devices/system/cpu/nohz_full, which prints a null pointer where nothing was asked for."""
    return cpulist(cpus) if cpus else "  (null)\n"


def cpumask(cpus: Collection[int], width: int = 2) -> str:
    """A mask file."""
    return format_cpumask(cpus).rjust(width, "0") + "\n"


def process_io(*, read_bytes: int) -> str:
    """/proc/PID/io of a process that wrote nothing."""
    counts = {"rchar": read_bytes, "wchar": 0, "syscr": 9, "syscw": 0, "read_bytes": read_bytes, "write_bytes": 0}
    return "".join(f"{name}: {count}\n" for name, count in counts.items()) + "cancelled_write_bytes: 0\n"


def interrupt_row(label: str, counts: Iterable[int], text: str) -> str:
    """One row of /proc/interrupts."""
    return f"{label:>{LABEL_WIDTH}}: " + "".join(f"{count:10} " for count in counts) + text + "\n"


def device_text(chip: str, hwirq: str, flow: str, action: str) -> str:
    """What stands behind the counts of a device's row."""
    return f" {chip:>8} {hwirq:>4}-{flow:<8}  {action}" if action else f" {chip:>8} {hwirq:>4}-{flow}"


def interrupts(cpus: Sequence[int], rows: Iterable[str], *, errors: Sequence[str] = ("ERR", "MIS")) -> str:
    """/proc/interrupts; columns are the online CPUs. ``errors``: the rows of the whole machine, all 0."""
    header = " " * (LABEL_WIDTH + 8) + "".join(f"CPU{cpu:<8}" for cpu in cpus) + "\n"
    return header + "".join(rows) + "".join(f"{label}: {0:10}\n" for label in errors)


def softirqs(rows: Mapping[str, Sequence[int]]) -> str:
    """/proc/softirqs; columns are the possible CPUs."""
    columns = len(next(iter(rows.values())))
    header = " " * 20 + "".join(f"CPU{cpu:<8}" for cpu in range(columns)) + "\n"
    return header + "".join(
        f"{name + ':':>12}" + "".join(f" {n:10}" for n in counts) + "\n" for name, counts in rows.items()
    )


def schedstat(cpus: Mapping[int, tuple[int, int, int]], domains: Mapping[int, Sequence[Collection[int]]]) -> str:
    """/proc/schedstat version 15. ``cpus``: nanoseconds run and waited, switches."""
    lines = ["version 15", "timestamp 4296950372"]
    for cpu, (run_ns, wait_ns, switches) in cpus.items():
        lines.append(f"cpu{cpu} 0 0 0 0 0 0 {run_ns} {wait_ns} {switches}")
        lines += [
            f"domain{level} {cpumask(span).strip()}" + " 0" * DOMAIN_COUNTERS
            for level, span in enumerate(domains.get(cpu, ()))
        ]
    return "\n".join(lines) + "\n"


def stat(cpus: Mapping[int, Sequence[int]], *, btime: int) -> str:
    """/proc/stat. ``cpus``: ten columns of USER_HZ ticks each."""
    total = [sum(column) for column in zip(*cpus.values(), strict=True)]
    lines = ["cpu  " + " ".join(map(str, total))]
    lines += [f"cpu{cpu} " + " ".join(map(str, ticks)) for cpu, ticks in cpus.items()]
    lines += ["intr 0", "ctxt 0", f"btime {btime}", "processes 9120", "procs_running 5", "procs_blocked 0"]
    return "\n".join(lines) + "\n"


def thread_schedstat(run_ns: int, switches: int) -> str:
    """/proc/PID/task/TID/schedstat."""
    return f"{run_ns} {run_ns // 50} {switches}\n"


def thread_stat(tid: int, name: str, state: str, parent: int, cpu: int) -> str:
    """/proc/PID/task/TID/stat with the CPU it last ran on."""
    fields = [str(tid), f"({name})", state, str(parent)]
    fields += ["0"] * (STAT_FIELDS - len(fields))
    fields[PROCESSOR_FIELD - 1] = str(cpu)
    return " ".join(fields) + "\n"


def thread_status(
    *,
    pid: int,
    tid: int,
    name: str,
    state: str,
    parent: int,
    kernel: bool,
    allowed: Collection[int],
    voluntary: int,
    involuntary: int,
) -> str:
    """/proc/PID/task/TID/status, without the lines on groups and signals."""
    word = {"S": "sleeping", "R": "running", "I": "idle", "P": "parked"}[state]
    lines = [f"Name:\t{name}", "Umask:\t0022", f"State:\t{state} ({word})", f"Tgid:\t{pid}", "Ngid:\t0", f"Pid:\t{tid}"]
    lines += [f"PPid:\t{parent}", "TracerPid:\t0", "Uid:\t0\t0\t0\t0", "Gid:\t0\t0\t0\t0"]
    if not kernel:
        lines += ["VmPeak:\t   25160 kB", "VmSize:\t   25160 kB", "VmRSS:\t   11520 kB"]
    lines += [
        "Threads:\t1",
        f"Cpus_allowed:\t{cpumask(allowed).strip()}",
        f"Cpus_allowed_list:\t{format_cpulist(allowed)}",
        f"voluntary_ctxt_switches:\t{voluntary}",
        f"nonvoluntary_ctxt_switches:\t{involuntary}",
    ]
    return "\n".join(lines) + "\n"


def cpuinfo(cpus: Sequence[int], *, model: str, flags: str) -> str:
    """/proc/cpuinfo, the lines that tell which machine it is."""
    block = "processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: {model}\nflags\t\t: {flags}\n\n"
    return "".join(block.format(cpu=cpu, model=model, flags=flags) for cpu in cpus)


def limits(cpu_s: str = "unlimited") -> str:
    """/proc/PID/limits, as far as a line before and one behind (fs/proc/base.c proc_pid_limits)."""
    rows = [("Limit", "Soft Limit", "Hard Limit", "Units"), ("Max cpu time", cpu_s, cpu_s, "seconds")]
    rows.append(("Max file size", "unlimited", "unlimited", "bytes"))
    return "".join(f"{name:<25} {soft:<20} {hard:<20} {unit:<10}\n" for name, soft, hard, unit in rows)


def cpu_stat(usage_us: int, periods: int = 0, throttled: int = 0, throttled_us: int = 0) -> str:
    """cpu.stat of cgroup v2 with the cpu controller (kernel/sched/core.c cpu_extra_stat_show)."""
    fields = {"usage_usec": usage_us, "user_usec": usage_us // 2, "system_usec": usage_us - usage_us // 2}
    fields |= {"nr_periods": periods, "nr_throttled": throttled, "throttled_usec": throttled_us}
    fields |= {"nr_bursts": 0, "burst_usec": 0}
    return "".join(f"{name} {value}\n" for name, value in fields.items())
