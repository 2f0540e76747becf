"""Starts and ends the children of the tool: pinned, bounded in time, in sessions of their own, and never outliving it.

A child ends by its own time limit, by ``stop()``, or by SIGTERM from the kernel when the tool ends (launch.py),
however that came about. What even that leaves behind is written down (leftovers.py) for the next run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType

from probes.bench import launch, leftovers
from probes.bench.errors import ToolError
from probes.host import ProbeError, TreeHost

__all__ = ["Command", "Running", "ToolError", "find_tool", "start"]

LOG = "output.txt"
TAIL_CHARS = 600
EARLY_S = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A program to run on ``cpus``, which by its own arguments ends after ``max_s`` seconds.

    ``scratch`` is where its private working directory is made (the run directory if None), ``result`` a file that it
    writes there. ``package`` is what apt calls it. ``threads`` of it set off timers of their own, each ``timer_hz``
    times a second. ``shared_file`` is what it leaves in /dev/shm when killed; ``{pid}`` stands for its pid. ``note``
    says in one line what it does, for the announcement and the report.
    """

    argv: tuple[str, ...]
    cpus: frozenset[int]
    max_s: float
    name: str
    package: str = ""
    scratch: str | None = None
    result: str = ""
    shared_file: str = ""
    threads: int = 1
    timer_hz: float = 0.0
    note: str = ""


def find_tool(program: str, package: str) -> str:
    """Absolute path of a program. Raises ToolError that says how to install it."""
    path = shutil.which(program)
    if path is None:
        raise ToolError(f"{program} is not installed" + (f": apt install {package}" if package else ""))
    return path


class Running:
    """A started child. Use it as a context manager, or call ``stop()`` in a ``finally``."""

    def __init__(self, command: Command, popen: subprocess.Popen[bytes], directory: str, record: str) -> None:
        self.command = command
        self.name = command.name
        self.pid = popen.pid
        self.directory = directory
        self.shared_file = command.shared_file.format(pid=popen.pid)
        self.output: str | None = None
        """Text of ``command.result``, once stopped; None if it was never written."""
        self._popen = popen
        self._record = record
        self._started = time.monotonic()
        self._stopped = False

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _ended(self) -> str | None:
        """How it ended, or None while it runs. It stays a zombie until stop(), so that its pid is not recycled."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return f"exit code {found.si_status}" if found.si_code == os.CLD_EXITED else f"signal {found.si_status}"

    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._stopped and self._ended() is None

    def wait(self, timeout_s: float) -> bool:
        """Waits for its own end; whether that came in time."""
        return leftovers.wait_until(lambda: not self.alive(), timeout_s)

    def check(self) -> None:
        """Raises ToolError, with the last lines it printed, if it failed or ended before its time."""
        ended = None if self._stopped else self._ended()
        if ended is None:
            return
        elapsed = time.monotonic() - self._started
        if ended != "exit code 0":
            raise ToolError(f"{self.name} failed ({ended}): {self._tail()}")
        if elapsed < self.command.max_s - EARLY_S:
            raise ToolError(f"{self.name} ended after {elapsed:.1f} of {self.command.max_s:g} s: {self._tail()}")

    def _tail(self) -> str:
        return (self._text(LOG) or "")[-TAIL_CHARS:].strip() or "it printed nothing"

    def _text(self, name: str) -> str | None:
        try:
            return TreeHost(self.directory).read(name)
        except ProbeError:
            return None

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, grace_s: float = leftovers.GRACE_S) -> None:
        """SIGTERM, after ``grace_s`` SIGKILL, to the whole group; reaps it and removes its directory. Idempotent.

        SIGINT and SIGTERM wait meanwhile (at most about 2 × ``grace_s`` + 1 s): an impatient user must not cut it
        short. Raises ToolError if the child can't be ended or cleaned up; the next run tries again.
        """
        if self._stopped:
            return
        with _signals_held():
            self._signal(signal.SIGTERM)
            if not self.wait(grace_s):
                self._signal(signal.SIGKILL)
                if not self.wait(grace_s):
                    raise ToolError(f"{self.name} (pid {self.pid}) can't be ended: it is stuck in the kernel")
            self._signal(signal.SIGKILL)  # members of the group that outlived their leader
            self._clean()

    def _clean(self) -> None:
        leftovers.remove_shared_file(self.shared_file)
        if self.command.result:
            self.output = self._text(self.command.result)
        self._stopped = True
        self._popen.wait()
        if not leftovers.remove_directory(self.directory):
            raise ToolError(f"{self.directory} can't be removed")
        leftovers.forget(self._record)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(command: Command) -> Running:
    """Starts a child, pinned to ``command.cpus``. When this returns, the program itself runs.

    Only from the main thread: the kernel ends a child with the *thread* that started it (prctl(2), PR_SET_PDEATHSIG).
    Raises ToolError if the program is missing, may not run on these CPUs, or nothing can be written.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a child must be started by the main thread: it ends with the thread that started it")
    program = find_tool(command.argv[0], command.package)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        record, path = _prepare(command)
        popen = _spawn(command, program, record, path, theirs)
        theirs.close()
        running = Running(command, popen, record.directory, path)
        try:
            child = leftovers.process_id(popen.pid)
            leftovers.write_record(replace(record, child=child, shared_file=running.shared_file), path)
            _let_go(ours, command.name)
        except BaseException:  # an interrupt too: a child that the caller never got can't be stopped by the caller
            running.stop()
            raise
    return running


def _prepare(command: Command) -> tuple[leftovers.Record, str]:
    """The private directory of a child; written down before it is made."""
    boot_id, namespace = leftovers.boot_and_namespace()
    record = leftovers.Record(
        tool=leftovers.this_process(),
        boot_id=boot_id,
        namespace=namespace,
        name=command.name,
        child=None,
        directory=leftovers.new_directory_name(os.path.abspath(command.scratch or leftovers.run_directory())),
        shared_file="",
    )
    try:
        path = leftovers.write_record(record)
    except OSError as error:
        raise _not_started(command, error) from None
    try:
        os.mkdir(record.directory, 0o700)
    except OSError as error:
        leftovers.forget(path)
        raise _not_started(command, error) from None
    return record, path


def _not_started(command: Command, error: OSError) -> ToolError:
    return ToolError(f"{command.name} can't be started: {error.strerror} ({error.filename})")


def _spawn(
    command: Command, program: str, record: leftovers.Record, path: str, channel: socket.socket
) -> subprocess.Popen[bytes]:
    """The launcher as a process, waiting for the word to go. Undoes what ``_prepare`` did if there is none."""
    cpus = ",".join(str(cpu) for cpu in sorted(command.cpus))
    own = (sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), cpus, str(channel.fileno()), program)
    try:
        with open(os.path.join(record.directory, LOG), "wb") as log:
            return subprocess.Popen(
                (*own, *command.argv[1:]),
                cwd=record.directory,
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(channel.fileno(),),
            )
    except OSError as error:
        leftovers.remove_directory(record.directory)
        leftovers.forget(path)
        raise _not_started(command, error) from None


def _let_go(channel: socket.socket, name: str) -> None:
    """Lets the launcher become the program and waits for that. Raises ToolError with the reason if it could not."""
    try:
        channel.sendall(launch.GO)
        with channel.makefile("rb") as answer:
            reason = answer.read().decode("utf-8", "replace")
    except OSError:  # it was gone before it heard the word
        reason = "its launcher failed"
    if reason:
        raise ToolError(f"{name} can't be started: {reason}")
