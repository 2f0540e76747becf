"""What a run started, written down so that the next run can undo it if this one is killed.

Every child and its private directory is one small file in the run directory. A leftover is such a file whose writer is
gone. Nothing else is ever touched: a process only with the start time that was recorded, a directory only with our
prefix and owner.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from probes.bench.errors import ToolError
from probes.host import Host, ProbeError, TreeHost

PREFIX = "cpu-audit-"
RECORD_NAME = re.compile(r"record-(\d{1,9})-(\d{1,19})-[0-9a-f]{16}\.json(?:\.new)?")
SHARED_FILE = re.compile(r"/dev/shm/cyclictest\d{1,9}")
GRACE_S = 2.0
POLL_S = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessId:
    """A process for certain: ``start_ticks`` (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One child: who started it, where (boot and pid namespace), and what must be gone after it."""

    tool: ProcessId
    boot_id: str
    namespace: str
    name: str
    child: ProcessId | None
    directory: str
    shared_file: str


def parse_start_ticks(text: str) -> int | None:
    """Start time of a process, clock ticks since boot; None for a zombie (/proc/PID/stat, fields 3 and 22; proc(5))."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or not (fields[19].isascii() and fields[19].isdigit() and len(fields[19]) < 20):
        raise ProbeError("proc/PID/stat", "no start time")
    return None if fields[0] in "ZXx" else int(fields[19])


def process_id(pid: int, host: Host | None = None) -> ProcessId | None:
    """The process that has this pid now; None if there is none, or only a zombie."""
    try:
        ticks = parse_start_ticks((host or TreeHost()).read(f"proc/{pid}/stat"))
    except ProbeError:
        return None
    return None if ticks is None else ProcessId(pid=pid, start_ticks=ticks)


def alive(process: ProcessId) -> bool:
    """Whether this very process still runs."""
    return process_id(process.pid) == process


def this_process() -> ProcessId:
    """Ourselves. Raises ToolError where /proc does not show us."""
    own = process_id(os.getpid())
    if own is None:
        raise ToolError("/proc does not show this process: mount /proc to run a load or a workload")
    return own


def boot_and_namespace() -> tuple[str, str]:
    """Which boot and which pid namespace a pid belongs to; empty where /proc does not say."""
    host = TreeHost()
    try:
        return host.read("proc/sys/kernel/random/boot_id").strip(), host.readlink("proc/self/ns/pid")
    except ProbeError:
        return "", ""


def run_directory_path(environ: Mapping[str, str], uid: int) -> str:
    """Where this user's records live."""
    if uid == 0 and os.access("/run", os.W_OK):
        return "/run/cpu-audit"
    if uid != 0 and environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(environ["XDG_RUNTIME_DIR"], "cpu-audit")
    return os.path.join(tempfile.gettempdir(), f"{PREFIX}{uid}")


def run_directory() -> str:
    """The run directory, made if need be. Raises ToolError unless it is a real directory that only we may enter."""
    path = run_directory_path(os.environ, os.getuid())
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = os.lstat(path)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ToolError(f"{path} is not a directory that only this user may enter: remove it")
    return path


def new_directory_name(parent: str) -> str:
    """A name below ``parent`` that nobody has guessed."""
    return os.path.join(parent, f"{PREFIX}{secrets.token_hex(8)}")


def write_record(record: Record, path: str | None = None) -> str:
    """Writes or replaces a record and returns its path. Complete or not there, never half."""
    owner = f"{record.tool.pid}-{record.tool.start_ticks}"
    path = path or os.path.join(run_directory(), f"record-{owner}-{secrets.token_hex(8)}.json")
    handle = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, json.dumps(asdict(record)).encode())
    finally:
        os.close(handle)
    os.replace(f"{path}.new", path)
    return path


def parse_record(text: str) -> Record:
    """Reads a record back. Raises ProbeError for anything that ``write_record`` does not write."""
    try:
        raw = json.loads(text)
        child = ProcessId(**raw["child"]) if raw["child"] else None
        record = Record(**{**raw, "tool": ProcessId(**raw["tool"]), "child": child})
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ProbeError("record", "not a record of cpu-audit") from None
    texts = (record.boot_id, record.namespace, record.name, record.directory, record.shared_file)
    numbers = [number for one in (record.tool, record.child) if one for number in (one.pid, one.start_ticks)]
    if not all(isinstance(text, str) for text in texts) or not all(type(n) is int and n > 0 for n in numbers):
        raise ProbeError("record", "not a record of cpu-audit")
    return record


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Looks every 20 ms; whether the condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def remove_directory(path: str) -> bool:
    """Removes a private directory; whether nothing is left. Its writers may die late: it is tried for a second."""

    def gone() -> bool:
        if is_private_directory(path):
            shutil.rmtree(path, ignore_errors=True)
        return not os.path.lexists(path)

    return wait_until(gone, 1.0)


def is_private_directory(path: str) -> bool:
    """A real directory with our prefix and our owner: all that is ever removed."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return os.path.basename(path).startswith(PREFIX) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def remove_shared_file(path: str) -> bool:
    """Removes the shared memory that cyclictest leaves in /dev/shm when it is killed; whether there was any."""
    try:
        found = os.lstat(path)
        if SHARED_FILE.fullmatch(path) and stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid():
            os.unlink(path)
            return True
    except (OSError, ValueError):
        pass
    return False


def end_process(process: ProcessId) -> bool:
    """SIGTERM, then SIGKILL, to the session of a recorded child; whether it is gone. Never a recycled pid."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if alive(process):
            with contextlib.suppress(OSError):  # gone meanwhile, or not ours to end
                os.killpg(process.pid, number)
            wait_until(lambda: not alive(process), GRACE_S)
    return not alive(process)


def clean_leftovers() -> tuple[str, ...]:
    """Undoes what killed runs of this user left behind; returns what was undone, or could not be, one sentence each.

    A passive run calls it as well: it makes nothing, and a run directory that is not ours stops no audit.
    """
    if not os.path.lexists(run_directory_path(os.environ, os.getuid())):
        return ()
    try:
        directory = run_directory()
    except ToolError as error:
        return (str(error),)
    done: list[str] = []
    for name in sorted(os.listdir(directory)):
        match = RECORD_NAME.fullmatch(name)
        if match and not alive(ProcessId(pid=int(match[1]), start_ticks=int(match[2]))):
            done += clean_record(os.path.join(directory, name))
    return tuple(done)


def clean_record(path: str) -> list[str]:
    """Undoes one record whose writer is gone, and forgets it once nothing of it is left."""
    try:
        record = parse_record(TreeHost().read(path))
    except ProbeError:  # killed while it was written: nothing had been started yet
        forget(path)
        return []
    boot_id, namespace = boot_and_namespace()
    if record.boot_id != boot_id:
        record = replace(record, child=None, shared_file="")  # processes and shared memory did not outlive their boot
    elif record.namespace != namespace:
        return []  # another container shares our run directory: its pids mean nothing here
    if record.child is None or not alive(record.child):
        return _clean_files(record, path)
    child = f"{record.name} (pid {record.child.pid}) of a killed run"
    if not end_process(record.child):
        return [f"{child} can't be ended: it is stuck in the kernel"]
    return [f"ended {child}", *_clean_files(record, path)]


def _clean_files(record: Record, path: str) -> list[str]:
    done: list[str] = []
    free = record.child is not None and process_id(record.child.pid) is None  # else another cyclictest has this name
    if free and remove_shared_file(record.shared_file):
        done.append(f"removed {record.shared_file} of a killed run")
    if is_private_directory(record.directory):
        if not remove_directory(record.directory):
            return [*done, f"{record.directory} of a killed run can't be removed"]
        done.append(f"removed {record.directory} of a killed run")
    forget(path)
    return done


def forget(path: str) -> None:
    """Removes a record: everything it names is undone. If it stays, the next run finds nothing left of it."""
    with contextlib.suppress(OSError):
        os.unlink(path)
