"""The command line, loaded once: each audit is a fork of this process.

To load it takes an emulated CPU eight seconds, to start it once more as long; what it does apart from the window takes
three. What runs in the fork is the command's own main(), from the first word of its arguments to its exit code.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.node.drivers import bundle

# What a run has imported when it ends.
MODULES = (
    *("auditor.cli", "auditor.session", "auditor.policy_file", "auditor.output", "auditor.document"),
    *("reports.text", "reports.json_report", "typer._click.decorators", "psutil", "tabulate"),
)


def load() -> None:
    """Imports the command. Without the freeze each fork would copy most of the heap at its first collection."""
    gc.disable()
    if file := os.environ.get("BUNDLE"):
        bundle.use(Path(file))
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()
    gc.enable()


class Fork:
    """A run of the command, as far as it needs to look like a subprocess.Popen."""

    def __init__(self, argv: Sequence[str], stdout: int, stderr: int, stdin: int | None = None) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(argv, {0: stdin, 1: stdout, 2: stderr})

    def _reap(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code (negative: a signal), None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        if timeout is None:
            self._reap(0)
        end = time.monotonic() + (timeout or 0)
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("cpu-audit", timeout or 0)
            time.sleep(0.05)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """As long as it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)


def started(out: str, name: str, argv: Sequence[str], cpus: Collection[int] | None = None) -> Fork:
    """A run that leaves NAME.txt and NAME.err; it may run on ``cpus`` until it pins itself, which can be seen then."""
    before = os.sched_getaffinity(0)
    with open(f"{out}/{name}.txt", "wb") as report, open(f"{out}/{name}.err", "wb") as errors:
        os.sched_setaffinity(0, cpus or before)
        try:
            return Fork(argv, report.fileno(), errors.fileno())
        finally:
            os.sched_setaffinity(0, before)


def _become(argv: Sequence[str], files: dict[int, int | None]) -> None:
    """Never returns: nothing that the caller would do at its end is done twice."""
    code = 1
    try:
        for number, file in files.items():
            if file is not None:
                os.dup2(file, number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["cpu-audit", *argv]
        importlib.import_module("auditor.__main__").main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except Exception:
        logging.exception("the command broke off")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
