"""What the own workload does decides what can be judged: a spinner, a sleeper, a poller, an idle CPU, two threads."""

from __future__ import annotations

import pytest

from tests.node.audits import ISOLATED, NOISE, audit, in_background
from tests.node.fleet import Scenario

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
# An event loop on CPU 1, woken through a pipe two hundred times a second by a process that is kept off it.
SLEEPER = """import os, select, sys, time
read, write = os.pipe()
if os.fork():
    os.sched_setaffinity(0, [1])
    wait = select.epoll(); wait.register(read, select.EPOLLIN)
    while True: wait.poll(); os.read(read, 1)
os.sched_setaffinity(0, [0])
while True: time.sleep(0.005); os.write(write, b"x")"""
# Seven of ten milliseconds busy.
POLLER = """import time
while True:
    start = time.monotonic()
    while time.monotonic() < start + 0.007: pass
    time.sleep(0.003)"""
# hashlib lets go of the interpreter lock: both threads want a CPU all the time.
TWO = """import hashlib, os, threading
def work(cpus):
    os.sched_setaffinity(0, cpus)
    while True: hashlib.pbkdf2_hmac("sha256", b"p", b"s", 200000)
threading.Thread(target=work, args=({first},)).start()
work({second})"""


def with_workload(name: str, program: str, cpus: str = "") -> str:
    """The audit of a workload that runs already."""
    return "\n".join(
        [in_background(program, cpus), "own=$!; sleep 2", audit(name, "--workload", "$own"), "kill -9 $own; wait $own"]
    )


def scenario(kernel: str) -> Scenario:
    lines = [
        NOISE,
        audit("idle"),
        audit("spinner", "--work", "spin"),
        with_workload("sleeper", SLEEPER),
        with_workload("poller", POLLER, "1"),
        with_workload("two", TWO.format(first="[1]", second="[3]")),
        with_workload("stacked", TWO.format(first="[1, 3]", second="[1, 3]"), "1,3"),
    ]
    return Scenario(name=f"regimes-{kernel}", kernel=kernel, append=ISOLATED, script="\n".join(lines))


SCENARIOS = [scenario(kernel) for kernel in KERNELS]
