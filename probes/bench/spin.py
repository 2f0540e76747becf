"""A thread that never leaves user space: the workload of ``--work spin``. Run as a script: spin.py SECONDS."""

from __future__ import annotations

import gc
import sys
from itertools import repeat
from time import monotonic

TURNS = 1_000_000  # 10 to 100 ms between two looks at the clock, which costs a system call where the vDSO can't read it


def spin(seconds: float) -> None:
    """Loops for this many seconds. The loop allocates nothing, so that it makes no system call either."""
    end = monotonic() + seconds
    while monotonic() < end:
        for _ in repeat(None, TURNS):
            pass


if __name__ == "__main__":
    gc.disable()
    spin(float(sys.argv[1]))
