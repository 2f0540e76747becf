"""Runs in a guest: traces windows with and without the tool in private instances; leaves facts.json and the traces
sent.txt and there.txt.

Usage: observer OUT. Every event is switched on before the first window and off after the last: that itself patches
code and interrupts all CPUs. Nothing of the trace is read before the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

INSTANCES = Path("/sys/kernel/tracing/instances")
SENDERS = (
    "sched/sched_waking",
    "sched/sched_migrate_task",
    "sched/sched_process_fork",
    "ipi/ipi_send_cpu",
    "ipi/ipi_send_cpumask",
    "workqueue/workqueue_queue_work",
)
"""Who sends something to a CPU: traced on all CPUs, in the instance ``sent``."""
THERE = (*SENDERS, "sched/sched_switch", "irq", "irq_vectors", "timer/hrtimer_expire_entry", "timer/tick_stop")
"""What happens on a CPU: traced on the audited ones only, in the instance ``there``."""
HOUSEKEEPING = {0, 2}
AUDITED = "1,3"
AUDITED_MASK = "a"
WINDOW_S = 10
REPEATS = 2
SLEEPER = "import sys, time\nopen(sys.argv[1], 'w').close()\nwhile True: time.sleep(0.01)"


class Instance:
    """A private trace buffer of some events on some CPUs."""

    def __init__(self, name: str, events: tuple[str, ...], cpumask: str) -> None:
        self.path = INSTANCES / name
        self.path.mkdir()
        (self.path / "buffer_size_kb").write_text("16384")
        (self.path / "trace_clock").write_text("mono")
        (self.path / "tracing_cpumask").write_text(cpumask)
        self.events = [event for event in events if (self.path / "events" / event / "enable").exists()]
        self._switch("1")

    def _switch(self, value: str) -> None:
        for event in self.events:
            (self.path / "events" / event / "enable").write_text(value)

    def end(self, out: str) -> dict[str, Any]:
        """Writes NAME.txt and removes the instance; what it traced, and whether anything was lost."""
        (self.path / "tracing_on").write_text("0")
        self._switch("0")
        stats = {path.parent.name: path.read_text() for path in sorted(self.path.glob("per_cpu/cpu*/stats"))}
        Path(out, f"{self.path.name}.txt").write_bytes((self.path / "trace").read_bytes())
        self.path.rmdir()
        return {"events": self.events, "stats": stats}


def phase(name: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``act`` returns, with the monotonic time of its begin and end and the wall clock's distance from it."""
    start = time.monotonic()
    distance = time.time() - start
    facts = act()
    return {"name": name, "start_s": start, "end_s": time.monotonic(), "wall_less_monotonic_s": distance, **facts}


def nothing() -> dict[str, Any]:
    """A window without the tool."""
    time.sleep(WINDOW_S)
    return {}


def audit(out: str, name: str, *options: str) -> dict[str, Any]:
    """A window with it."""
    argv = [sys.executable, "-m", "auditor", "run", "--cpus", AUDITED, "--window", f"{WINDOW_S}s", *options]
    with open(f"{out}/{name}.txt", "w") as report:
        child = subprocess.Popen([*argv, "-o", f"{out}/{name}.json"], stdout=report, stderr=report)
        return {"code": child.wait(), "pid": child.pid}


def pinned(*argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["taskset", "-c", "1", *argv])


def control() -> dict[str, Any]:
    """What the method must see: a short program on CPU 1."""
    child = pinned("true")
    child.wait()
    return {"pid": child.pid}


def wakes(pid: int) -> dict[str, Any]:
    """What it must see as well: a wake-up on CPU 1 that this process causes from another CPU."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        os.kill(pid, number)
        time.sleep(0.1)
    return {"pid": os.getpid()}


def settle() -> None:
    """Until what was started or ended before has calmed down."""
    time.sleep(2)


def main(out: str) -> None:
    """All windows, then the files."""
    os.sched_setaffinity(0, HOUSEKEEPING)
    sent, there = Instance("sent", SENDERS, "f"), Instance("there", THERE, AUDITED_MASK)
    phases = []
    settle()
    for repeat in range(REPEATS):
        phases.append(phase(f"without-{repeat}", nothing))
        phases.append(phase(f"with-{repeat}", lambda repeat=repeat: audit(out, f"with-{repeat}")))  # type: ignore[misc]
        settle()
    phases.append(phase("control", control))
    ready = Path(out, "ready")
    own = pinned(sys.executable, "-S", "-c", SLEEPER, str(ready))
    while not ready.exists():
        time.sleep(0.1)
    settle()
    phases.append(phase("own", lambda: audit(out, "own", "--workload", str(own.pid))))
    phases.append(phase("wakes", lambda: wakes(own.pid)))
    own.kill()
    own.wait()
    facts = {"phases": phases, "own": own.pid, "sent": sent.end(out), "there": there.end(out)}
    Path(out, "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
