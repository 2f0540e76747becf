"""Runs in a guest: kills the tool at moments drawn from a seed and writes down what is left of it; leaves facts.json.

Usage: signals OUT SEED. The command is forked, and started where the moment is the start of its interpreter.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.node.drivers.forks import Fork, load, started

HOUSEKEEPING = {0, 2}
RUN_DIRECTORY = Path("/run/cpu-audit")
PLACES = (RUN_DIRECTORY, Path("/scratch"), Path("/dev/shm"), Path("/run/tmp"))
KILLS = {
    "SIGINT": ("start", "window"),
    "SIGTERM": ("load", "end"),
    "SIGKILL": ("load", "window", "end"),
}
"""Both polite signals have one handler; before its first child the tool has nothing that could be left."""
MOMENTS = {"start": 2.0, "load": 3.0, "window": 3.0, "end": 1.0}
"""After which event, and at most how many seconds later."""
CHILDREN = 3
"""stress-ng and a spinner on each of two CPUs."""
PATIENCE_S = 240.0
GONE_S = 15.0
OURS = ("stress-ng", "spin.py", "launch.py")


def tool(out: str, name: str, *options: str, fork: bool = True) -> Fork | subprocess.Popen[bytes]:
    """A run of a second."""
    argv = ["run", "--cpus", "1,3", "--window", "1s", "-o", f"{out}/{name}.json", *options]
    if fork:
        return started(out, name, argv)
    with open(f"{out}/{name}.txt", "wb") as report, open(f"{out}/{name}.err", "wb") as errors:
        return subprocess.Popen([sys.executable, "-m", "auditor", *argv], stdout=report, stderr=errors)


def records(pid: int) -> int:
    """How many children the tool has written down."""
    try:
        names = os.listdir(RUN_DIRECTORY)
        return sum(name.startswith(f"record-{pid}-") and name.endswith(".json") for name in names)
    except FileNotFoundError:
        return 0


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal: before, the interpreter itself starts."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1)


def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def reach(moment: str, child: Fork | subprocess.Popen[bytes]) -> bool:
    """Waits for the event of a moment; whether it came."""
    if moment == "start":
        return until(lambda: handles(child.pid, signal.SIGTERM), PATIENCE_S)
    if moment == "load":
        return until(lambda: records(child.pid) > 0, PATIENCE_S)
    if moment == "window":  # under its own load the tool goes ahead of it, as the last thing before
        return until(lambda: os.getpriority(os.PRIO_PROCESS, child.pid) < 0, PATIENCE_S)
    everyone = until(lambda: records(child.pid) >= CHILDREN, PATIENCE_S)
    return everyone and until(lambda: records(child.pid) < CHILDREN, PATIENCE_S)


def processes() -> dict[int, str]:
    """Command lines of all processes."""
    found = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            found[int(pid)] = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found


def children() -> list[str]:
    """What the tool starts, of whichever run."""
    return [line for line in processes().values() if any(name in line for name in OURS)]


def left(out: str) -> list[str]:
    """Files of ours that lie about, apart from complete results."""
    found = [str(path) for place in PLACES if place.is_dir() for path in place.iterdir()]
    found += [str(path) for path in Path(out).iterdir() if path.name.startswith(".")]
    return sorted(path for path in found if "lost+found" not in path)


def others() -> dict[str, list[Any]]:
    """Where every process of user space may run, and how nice it is."""
    found = {}
    for pid, line in processes().items():
        if not line:
            continue
        try:
            found[f"{pid} {line}"] = [sorted(os.sched_getaffinity(pid)), os.getpriority(os.PRIO_PROCESS, pid)]
        except OSError:
            continue
    return found


def kill(out: str, seed: int, name: str, number: signal.Signals, moment: str, *, twice: bool = False) -> dict[str, Any]:
    """One run that is not let end by itself."""
    draw = random.Random(f"{seed} {name}")
    delay_s = draw.uniform(0, MOMENTS[moment])
    child = tool(out, name, "--load", "--work", "spin", fork=moment != "start")
    reached = reach(moment, child)
    time.sleep(delay_s)
    before = records(child.pid)
    ended_before = child.poll() is not None
    sent = time.monotonic()
    child.send_signal(number)
    if twice:
        time.sleep(draw.uniform(0, 3))
        child.send_signal(number)
    code = child.wait(timeout=PATIENCE_S)
    took_s = time.monotonic() - sent
    alone = until(lambda: not children(), GONE_S)
    return {
        "delay_s": delay_s,
        "reached": reached,
        "children_before": before,
        "ended_before": ended_before,
        "code": code,
        "took_s": took_s,
        "alone_after_s": time.monotonic() - sent if alone else None,
        "children": children(),
        "left": left(out),
    }


def next_run(out: str, name: str) -> dict[str, Any]:
    """A run that nobody disturbs, without load."""
    child = tool(out, name)
    return {"code": child.wait(timeout=PATIENCE_S), "left": left(out), "children": children()}


def main(out: str, seed: int) -> None:
    """One after the other."""
    os.sched_setaffinity(0, HOUSEKEEPING)
    load()
    bystander = subprocess.Popen(["nice", "-n", "5", "taskset", "-c", "2", "sleep", "100000"])
    time.sleep(1)
    facts: dict[str, Any] = {"seed": seed, "others_before": others(), "next": {"first": next_run(out, "first")}}
    kills = {}
    for signal_name, moments in KILLS.items():
        for moment in moments:
            name = f"{signal_name}-{moment}"
            kills[name] = kill(out, seed, name, signal.Signals[signal_name], moment)
            if signal_name == "SIGKILL":
                facts["next"][name] = next_run(out, f"after-{name}")
    kills["twice"] = kill(out, seed, "twice", signal.SIGINT, "window", twice=True)
    facts["next"]["others"] = next_run(out, "after-others")
    facts |= {"kills": kills, "others_after": others()}
    bystander.kill()
    bystander.wait()
    Path(out, "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
