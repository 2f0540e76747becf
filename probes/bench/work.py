"""The workloads of ``--work``: a spinner per audited CPU, or cyclictest with a thread on each."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from probes.bench import spin
from probes.bench.process import Command, find_tool
from probes.host import ProbeError

PACKAGE = "rt-tests"
RESULT = "cyclictest.json"
PRIORITY = 80
MAX_VALUE = 1 << 62
SMALL_NUMBER = re.compile(r"[0-9]{1,6}")


def spin_command(cpu: int, *, seconds: float) -> Command:
    """A loop in user space on one CPU, without system calls, for ``seconds``."""
    argv = (sys.executable, "-I", "-S", os.path.abspath(spin.__file__), str(seconds))
    note = "spin: one thread that never leaves user space"
    return Command(argv=argv, cpus=frozenset({cpu}), max_s=seconds, name=f"spin on CPU {cpu}", note=note)


def find_cyclictest() -> str:
    """Absolute path of cyclictest. Raises ToolError that says how to install it."""
    return find_tool("cyclictest", PACKAGE)


def fifo_permitted(priority: int = PRIORITY) -> bool:
    """Whether this user may run SCHED_FIFO at this priority: tried in a child, since cgroups may forbid it as well."""
    code = f"import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param({priority:d}))"
    argv = (sys.executable, "-I", "-S", "-c", code)
    return subprocess.run(argv, capture_output=True, check=False, timeout=10).returncode == 0


def cyclictest_command(
    cpus: frozenset[int],
    *,
    seconds: float,
    interval_us: int = 1000,
    housekeeping: frozenset[int] | None = None,
    fifo: bool | None = None,
    scratch: str | None = None,
) -> Command:
    """Runs cyclictest (rt-tests 2.4 and newer), one thread pinned to each of ``cpus``, waking every ``interval_us``.

    Its main thread wakes 100 times a second and is therefore kept on ``housekeeping`` (default: where this process may
    run, less ``cpus``). ``fifo`` None: SCHED_FIFO 80 if permitted, else SCHED_OTHER; without any real-time permission
    cyclictest refuses to start. ``--distance=0`` since each thread's interval would else be longer than the last one's.
    """
    if not cpus:
        raise ValueError("no CPU to work on")
    main = frozenset(os.sched_getaffinity(0) if housekeeping is None else housekeeping) - cpus
    real_time = fifo_permitted() if fifo is None else fifo
    argv = [
        *("cyclictest", "--quiet", f"--affinity={_list(cpus)}", f"--threads={len(cpus)}"),
        *(f"--interval={interval_us}", "--distance=0", f"--duration={math.ceil(seconds)}", "--default-system"),
        f"--json={RESULT}",
        *([f"--mainaffinity={_list(main)}"] if main else []),
        *([f"--priority={PRIORITY}"] if real_time else []),
    ]
    policy = f"SCHED_FIFO {PRIORITY}" if real_time else "SCHED_OTHER"
    return Command(
        argv=tuple(argv),
        cpus=cpus | main,
        max_s=float(math.ceil(seconds)),
        name="cyclictest",
        package=PACKAGE,
        scratch=scratch,
        result=RESULT,
        shared_file="/dev/shm/cyclictest{pid}",
        threads=len(cpus),
        timer_hz=1e6 / interval_us,
        note=f"cyclictest every {interval_us} µs, {policy}; it does not hold /dev/cpu_dma_latency (C-states stay)",
    )


def _list(cpus: frozenset[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))


@dataclass(frozen=True, kw_only=True, slots=True)
class CyclictestThread:
    """Wake-up latency of one thread, in microseconds; None if it never woke. ``index`` is not the CPU."""

    index: int
    cpu: int
    cycles: int
    min_us: float | None
    avg_us: float | None
    max_us: float | None


def parse_cyclictest_json(text: str) -> tuple[CyclictestThread, ...]:
    """Threads by index, from what ``cyclictest --json`` writes (rt-tests 2.0 to 2.8), whatever unit it was told to use.

    Raises ProbeError for anything else, also for the like of it from another tool of rt-tests.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _malformed("not JSON") from None
    document = _mapping(document, "document")
    line = document.get("cmdline:", document.get("cmdline"))  # the colon is part of the key up to 2.8 at least
    program = line.split(" ", 1)[0] if isinstance(line, str) else ""
    if os.path.basename(program) != "cyclictest":
        raise _malformed("not a result of cyclictest")
    per_us = 1000 if document.get("resolution_in_ns") == 1 else 1
    threads = _mapping(document.get("thread"), "thread")
    return tuple(sorted((_thread(*item, per_us) for item in threads.items()), key=lambda thread: thread.index))


def _thread(index: str, value: object, per_us: int) -> CyclictestThread:
    if not SMALL_NUMBER.fullmatch(index):
        raise _malformed(f"thread {index[:20]!r} is not a number")
    thread = _mapping(value, f"thread {index}")
    cycles = _integer(thread, "cycles")
    low, mean, high = (_number(thread, key) / per_us if cycles else None for key in ("min", "avg", "max"))
    cpu = _integer(thread, "cpu")
    return CyclictestThread(index=int(index), cpu=cpu, cycles=cycles, min_us=low, avg_us=mean, max_us=high)


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(f"{name} is not an object")
    return value


def _number(thread: Mapping[str, Any], key: str) -> float:
    value = thread.get(key)
    if (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MAX_VALUE
    ):  # also false for NaN
        raise _malformed(f"{key} is not a number")
    return float(value)


def _integer(thread: Mapping[str, Any], key: str) -> int:
    value = thread.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_VALUE:
        raise _malformed(f"{key} is not an integer")
    return value


def _malformed(reason: str) -> ProbeError:
    return ProbeError(RESULT, reason)
