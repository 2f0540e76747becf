"""POSIX CPU timers and RLIMIT_CPU of some processes: what makes the kernel keep the tick to see them expire.

Neither file takes a run queue lock: both take the process's own sighand lock to copy a few fields (fs/proc/base.c
proc_pid_limits, timers_start). Both are read before and after the window's counters, never between. What they can't
tell: setitimer(ITIMER_PROF, ITIMER_VIRTUAL), and whether a timer is armed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from probes.counters import parse_count
from probes.host import Host, ProbeError
from probes.threads import ThreadKey

CPU_LIMIT = "Max cpu time"
_CLOCK = re.compile(r"ClockID: (-?[0-9]{1,10})", re.ASCII)
PER_THREAD, WHICH, DEVICE = 4, 3, 3
"""Bits of a negative clock id (include/linux/posix-timers_types.h): ~pid << 3, per thread, which clock of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTimer:
    """A timer of timer_create(2) on a CPU clock: of whole processes or of one thread; ``pid`` 0 is the maker itself."""

    pid: int
    per_thread: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTimers:
    """One process. A ProbeError where a file gave nothing: such a timer may exist all the same."""

    limit_s: int | ProbeError | None
    """Soft limit of RLIMIT_CPU, seconds of CPU time; None: unlimited."""
    timers: tuple[CpuTimer, ...] | ProbeError


def read_cpu_timers(host: Host, threads: Iterable[ThreadKey]) -> dict[int, CpuTimers]:
    """By process id. Never raises."""
    return {pid: _read(host, pid) for pid in sorted({key.pid for key in threads})}


def _read(host: Host, pid: int) -> CpuTimers:
    limits, timers = f"proc/{pid}/limits", f"proc/{pid}/timers"
    limit: int | ProbeError | None
    found: tuple[CpuTimer, ...] | ProbeError
    try:
        limit = parse_cpu_limit(host.read(limits), path=limits)
    except ProbeError as error:
        limit = error
    try:
        found = parse_timers(host.read(timers), path=timers)
    except ProbeError as error:  # missing without CONFIG_CHECKPOINT_RESTORE
        found = error
    return CpuTimers(limit_s=limit, timers=found)


def parse_cpu_limit(text: str, *, path: str = "limits") -> int | None:
    """The soft limit in ``Max cpu time  SOFT  HARD  seconds`` of /proc/PID/limits; None: unlimited."""
    for line in text.split("\n"):
        if line.startswith(CPU_LIMIT + " "):
            words = line[len(CPU_LIMIT) :].split()
            soft = parse_count(words[0]) if words else None
            if len(words) == 3 and words[2] == "seconds" and (soft is not None or words[0] == "unlimited"):
                return soft
            raise ProbeError(path, f"not two limits in seconds: {line[:80]!r}")
    raise ProbeError(path, f"no line {CPU_LIMIT}")


def parse_timers(text: str, *, path: str = "timers") -> tuple[CpuTimer, ...]:
    """The CPU timers in the blocks of ID, signal, notify and ClockID of /proc/PID/timers; empty: no timer at all."""
    lines = text.split("\n")
    if lines.pop() or len(lines) % 4:
        raise ProbeError(path, "cut")
    found = []
    for line in lines[3::4]:
        clock = _CLOCK.fullmatch(line)
        if clock is None:
            raise ProbeError(path, f"not a clock: {line[:60]!r}")
        number = int(clock[1])
        if number < 0 and number & WHICH != DEVICE:
            found.append(CpuTimer(pid=~(number >> 3), per_thread=bool(number & PER_THREAD)))
    return tuple(found)
