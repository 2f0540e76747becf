"""Runs in a guest: the tool where the disk is full, its directory goes, threads and pids race, the clock steps.

Usage: hostile OUT. Leaves the tool's files and facts.json.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.node.drivers.forks import Fork, load, started

EVERYWHERE, HOUSEKEEPING = {0, 1, 2, 3}, {0, 2}
PATIENCE_S = 200.0
THREADS = 2000
PIDS = 450
"""Of which the kernel gives out those from 300 on, once they were all given out."""
# Sleepers that stay, and others that come and go as fast as they can.
CROWD = """import os, sys, threading, time
threading.stack_size(65536)
os.nice(19)
stay = threading.Event()
for _ in range(int(sys.argv[1])): threading.Thread(target=stay.wait, daemon=True).start()
open(sys.argv[2], "w").close()
end = time.monotonic() + 300
while time.monotonic() < end:
    some = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(20)]
    for one in some: one.start()
    for one in some: one.join()"""
SHORT = "end=$(($(date +%s) + 300)); while [ $(date +%s) -lt $end ]; do for i in 1 2 3 4 5 6 7 8 9; do (:); done; done"


def tool(out: str, name: str, window: str, *outputs: str) -> Fork:
    argv = ["run", "--cpus", "1,3", "--window", window]
    for path in outputs:
        argv += ["-o", path]
    return started(out, name, argv, EVERYWHERE)


def measuring(child: Fork) -> bool:
    """Waits until it has pinned itself: its outputs are checked then, its window begins."""
    end = time.monotonic() + PATIENCE_S
    while os.sched_getaffinity(child.pid) != HOUSEKEEPING and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1)
    return child.poll() is None


def full(out: str) -> dict[str, Any]:
    """A disk that holds a part of the document."""
    small = Path("/run/tmp/small")
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "small", str(small)], check=True)
    code = tool(out, "full", "1s", f"{small}/a.json", f"{out}/full.json").wait()
    return {"code": code, "left": os.listdir(small)}


def removed(out: str) -> dict[str, Any]:
    """A directory that goes while the tool measures."""
    folder = Path("/run/tmp/removed")
    folder.mkdir()
    child = tool(out, "removed", "5s", f"{folder}/a.json", f"{out}/removed.json")
    running = measuring(child)
    shutil.rmtree(folder)
    return {"running": running, "code": child.wait(), "left": folder.exists()}


@contextmanager
def beside(*argv: str) -> Iterator[None]:
    """Runs something meanwhile."""
    other = subprocess.Popen(argv, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(other.pid, 9)
        other.wait()


def crowd(out: str) -> dict[str, Any]:
    """Thousands of threads, some of which live for a millisecond."""
    ready = Path(out, "ready")
    with beside(sys.executable, "-S", "-c", CROWD, str(THREADS), str(ready)):
        while not ready.exists():
            time.sleep(0.1)
        return {"code": tool(out, "crowd", "1s", f"{out}/crowd.json").wait()}


def recycled(out: str) -> dict[str, Any]:
    """Few pids and many short processes: every free one is given out again within the window."""
    limit = Path("/proc/sys/kernel/pid_max")
    before = limit.read_text()
    limit.write_text(str(PIDS))
    with beside("/bin/sh", "-c", SHORT):
        forks = forked()
        code = tool(out, "recycled", "10s", f"{out}/recycled.json").wait()
        forks = forked() - forks
    limit.write_text(before)
    return {"code": code, "forks": forks}


def forked() -> int:
    """Processes and threads since boot (/proc/stat)."""
    (line,) = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("processes ")]
    return int(line.split()[1])


def stepped(out: str) -> dict[str, Any]:
    """The wall clock leaps an hour and back."""
    child = tool(out, "stepped", "6s", f"{out}/stepped.json")
    running = measuring(child)
    start = time.monotonic()
    time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600)
    time.sleep(1)
    time.clock_settime(time.CLOCK_REALTIME, time.time() - 7200)
    code = child.wait()
    time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600)
    return {"running": running, "code": code, "at_most_s": time.monotonic() - start + 2}


CASES: tuple[Callable[[str], dict[str, Any]], ...] = (full, removed, crowd, recycled, stepped)


def main(out: str) -> None:
    """One after the other."""
    os.sched_setaffinity(0, HOUSEKEEPING)
    load()
    facts = {case.__name__: case(out) for case in CASES}
    Path(out, "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
