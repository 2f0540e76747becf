"""Runs in a guest: takes CPUs away while the tool measures; leaves its files and facts.json.

Usage: hotplug.py OUT. Every window is audited and recorded at once, by two processes side by side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EVERYWHERE, HOUSEKEEPING = {0, 1, 2, 3}, {0, 2}
AUDITED = "1,3"
WINDOW_S = 16
PATIENCE_S = 200.0
SLEEPER = "import time\nwhile True: time.sleep(0.01)"


def tool(out: str, name: str, command: str, result: str, *options: str) -> subprocess.Popen[bytes]:
    """The tool, allowed everywhere until it pins itself."""
    argv = [sys.executable, "-m", "auditor", command, "--cpus", AUDITED, *options]
    with open(f"{out}/{name}.txt", "wb") as report, open(f"{out}/{name}.err", "wb") as errors:
        return everywhere([*argv, "-o", f"{out}/{result}"], stdout=report, stderr=errors)


def everywhere(argv: list[str], **files: Any) -> subprocess.Popen[bytes]:
    """Starts it allowed on all CPUs: that it has pinned itself can be seen then."""
    os.sched_setaffinity(0, EVERYWHERE)
    try:
        return subprocess.Popen(argv, **files)
    finally:
        os.sched_setaffinity(0, HOUSEKEEPING)


def measures(child: subprocess.Popen[bytes]) -> bool:
    """Waits until it has pinned itself and sleeps between two samples; false where it ended instead."""
    seen: list[list[str] | None] = []
    end = time.monotonic() + PATIENCE_S
    while child.poll() is None and time.monotonic() < end:
        status = Path(f"/proc/{child.pid}/status").read_text()
        pinned = os.sched_getaffinity(child.pid) == HOUSEKEEPING
        switches = [line for line in status.splitlines() if "ctxt_switches" in line]
        seen.append(switches if pinned and "State:\tS" in status else None)
        if seen[-1] and seen[-6:] == [seen[-1]] * 6:
            return True
        time.sleep(0.08)
    return False


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
    """One window in which something happens, two seconds after both have begun to measure."""
    options = ("--window", f"{WINDOW_S}s")
    runs = tool(out, name, "run", f"{name}.json", *options), tool(out, f"{name}-rec", "record", f"{name}-rec", *options)
    began = [measures(child) for child in runs]
    time.sleep(2)
    acted = [time.time()]
    act()
    acted.append(time.time())
    codes = [child.wait() for child in runs]
    Path(out, f"{name}.code").write_text(str(codes[0]))
    return {"began": began, "acted": acted, "codes": codes}


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
