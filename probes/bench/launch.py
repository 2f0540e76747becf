"""Becomes another program: run as a script, never imported by the tool.

It stands between the tool and its children because what it does must happen in the child before exec, and a
``preexec_fn`` may deadlock in a process with threads: ask the kernel to end the child with its parent, pin it, give it
clean signals.

Usage: launch.py PARENT-PID CPU,CPU,… CHANNEL-FD PROGRAM ARGUMENT…
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
FAILED = 126
GO = b"g"
GONE = "the tool that started this is gone"
RESET = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGCHLD)


def die_with(parent: int) -> None:
    """The kernel sends SIGTERM when the parent ends, however it ends. A parent that is gone already sends nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        raise ProcessLookupError(GONE)


def pin(cpus: set[int]) -> None:
    """Pins to exactly these CPUs: the kernel silently drops those that are offline or outside the cpuset."""
    os.sched_setaffinity(0, cpus)
    missing = cpus - os.sched_getaffinity(0)
    if missing:
        raise PermissionError(f"CPU {min(missing)} is offline or not allowed here")


def await_record(channel: int) -> None:
    """Waits until the tool has written down which process this is: what runs unrecorded can't be cleaned up."""
    if os.read(channel, 1) != GO:
        raise ProcessLookupError(GONE)


def main(arguments: list[str]) -> int:
    """Execs the program; on failure writes the reason to CHANNEL-FD, a socket that a successful exec closes."""
    parent, cpus, channel = int(arguments[0]), {int(cpu) for cpu in arguments[1].split(",")}, int(arguments[2])
    os.set_inheritable(channel, False)
    try:
        for number in RESET:  # an ignored SIGTERM would survive exec, and with it the child
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        await_record(channel)
        die_with(parent)
        pin(cpus)
        os.execvp(arguments[3], arguments[3:])
    except OSError as error:
        os.write(channel, str(error.strerror or error).encode())
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
