"""Runs in a guest: takes CPUs away while the tool measures; leaves its files and facts.json.

Usage: hotplug OUT. Every window is audited and recorded at once, by two processes side by side.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.node.drivers.forks import Fork, load, started

EVERYWHERE, HOUSEKEEPING = {0, 1, 2, 3}, {0, 2}
AUDITED = "1,3"
WINDOW_S = 16
PATIENCE_S = 200.0
TRIES = 3
SLEEPER = "import time\nwhile True: time.sleep(0.01)"


def tool(out: str, name: str, command: str, result: str, *options: str) -> Fork:
    """The tool, allowed everywhere until it pins itself: that it has done so can be seen then."""
    argv = [command, "--cpus", AUDITED, *options, "-o", f"{out}/{result}"]
    return started(out, name, argv, EVERYWHERE)


class Watched:
    """A run, and since when it measures: it has pinned itself and sleeps between two samples."""

    def __init__(self, child: Fork) -> None:
        self.child = child
        self.since: float | None = None
        self._seen: list[list[str] | None] = []

    def look(self) -> bool:
        """Whether it is known to measure."""
        if self.since is None and self.child.poll() is None:
            status = Path(f"/proc/{self.child.pid}/status").read_text()
            pinned = os.sched_getaffinity(self.child.pid) == HOUSEKEEPING
            switches = [line for line in status.splitlines() if "ctxt_switches" in line]
            self._seen.append(switches if pinned and "State:\tS" in status else None)
            if self._seen[-1] and self._seen[-6:] == [self._seen[-1]] * 6:
                self.since = time.monotonic()
        return self.since is not None


def together(runs: list[Watched]) -> bool:
    """Waits until all measure; whether the first of them has most of its window still before it."""
    end = time.monotonic() + PATIENCE_S
    while sum(run.look() for run in runs) < len(runs) and time.monotonic() < end:
        if any(run.child.poll() is not None for run in runs):
            return False
        time.sleep(0.08)
    return all(run.since is not None and time.monotonic() - run.since < WINDOW_S / 3 for run in runs)


def online(cpu: int, value: int) -> None:
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(str(value))


def away(cpu: int, seconds: float | None) -> Callable[[], None]:
    """Takes a CPU away, for good or for a while."""

    def act() -> None:
        online(cpu, 0)
        if seconds is not None:
            time.sleep(seconds)
            online(cpu, 1)

    return act


def window(out: str, name: str, act: Callable[[], None]) -> dict[str, Any]:
    """One window in which something happens, soon after both have begun to measure; tried again where one was late."""
    options = ("--window", f"{WINDOW_S}s")
    for _ in range(TRIES):
        shutil.rmtree(f"{out}/{name}-rec", ignore_errors=True)
        runs = [
            Watched(tool(out, name, "run", f"{name}.json", *options)),
            Watched(tool(out, f"{name}-rec", "record", f"{name}-rec", *options)),
        ]
        if together(runs):
            break
        for run in runs:
            run.child.wait()
    time.sleep(2)
    acted = [time.time()]
    act()
    acted.append(time.time())
    codes = [run.child.wait() for run in runs]
    Path(out, f"{name}.code").write_text(str(codes[0]))
    return {"acted": acted, "codes": codes}


def refused(out: str) -> dict[str, Any]:
    """Both commands where an audited CPU is offline from the start."""
    options = ("--window", "2s")
    runs = {
        command: tool(out, f"offline-{command}", command, f"offline-{command}", *options) for command in ("record",)
    }
    runs["run"] = tool(out, "offline-run", "run", "offline-run.json", *options)
    return {command: child.wait() for command, child in runs.items()}


def main(out: str) -> None:
    """One window after the other."""
    os.sched_setaffinity(0, HOUSEKEEPING)
    load()
    own = subprocess.Popen(["taskset", "-c", "3", sys.executable, "-S", "-c", SLEEPER])
    time.sleep(2)
    facts: dict[str, Any] = {"gone": window(out, "gone", away(3, None))}
    facts["refused"] = refused(out)
    own.kill()
    own.wait()
    online(3, 1)
    time.sleep(1)
    facts["back"] = window(out, "back", away(3, 2.5))
    time.sleep(1)
    facts["blink"] = window(out, "blink", away(3, 0))
    time.sleep(1)
    facts["control"] = window(out, "control", away(2, None))
    online(2, 1)
    Path(out, "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
