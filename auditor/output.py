"""Result files: complete or absent. Written beside the target, synced, then renamed over it.

The name of what is written beside tells who writes: what a killed run left is removed by the next that writes there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterable

from auditor.errors import AuditError, UsageError
from probes.bench.leftovers import ProcessId, alive, boot_and_namespace, process_id

PREFIX = ".cpu-audit-"
BESIDE = re.compile(r"\.cpu-audit-([0-9a-f]{8})-(\d{1,9})-(\d{1,19})-\w+", re.ASCII)


class OutputError(AuditError):
    """The disk is full or went away while a result was written: exit code 1."""


def check_writable(path: str) -> None:
    """Refuses an output that can't be written before anything is measured. Raises UsageError."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise UsageError(f"-o {path}: is a directory; name a file in it")
    if not os.path.isdir(folder):
        raise UsageError(f"-o {path}: there is no directory {folder}")
    try:
        handle, beside = tempfile.mkstemp(prefix=_prefix(), dir=folder)
    except OSError as error:  # tried, not asked: access(2) tells root that even /proc is writable
        raise UsageError(f"-o {path}: {folder} is not writable ({error.strerror})") from None
    os.close(handle)
    os.unlink(beside)


def _machine() -> str:
    """Which boot and pid namespace a pid belongs to, in eight digits: others may write to the same directory."""
    return f"{zlib.crc32(' '.join(boot_and_namespace()).encode()):08x}"


def _prefix() -> str:
    own = process_id(os.getpid())
    return f"{PREFIX}{_machine()}-{own.pid}-{own.start_ticks}-" if own else PREFIX


def clean_beside(path: str) -> list[str]:
    """Removes what killed runs of this user were writing beside ``path``; returns the names."""
    folder = os.path.dirname(os.path.abspath(path))
    machine, removed = _machine(), []
    for name in sorted(os.listdir(folder)):
        match = BESIDE.fullmatch(name)
        if match and match[1] == machine and not alive(ProcessId(pid=int(match[2]), start_ticks=int(match[3]))):
            removed += [name] * _remove(os.path.join(folder, name))
    return removed


def _remove(path: str) -> bool:
    """Whether this was ours, and is gone."""
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if found.st_uid == os.getuid():
            shutil.rmtree(path) if stat.S_ISDIR(found.st_mode) else os.unlink(path)
            return True
    return False


def write_file(path: str, data: bytes) -> None:
    """Writes a whole file, or leaves what was there. Raises OutputError."""
    target = os.path.abspath(path)
    try:
        handle, beside = tempfile.mkstemp(prefix=_prefix(), dir=os.path.dirname(target))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if not isinstance(error, OSError):
            raise
        raise OutputError(f"{path}: {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_stdout(text: str) -> None:
    """Prints. Nobody reading to the end is no error; a full disk is: raises OutputError.

    What the terminal's encoding lacks is printed as an escape.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, KeyboardInterrupt) as error:
        # What is left in the buffer would be tried again, and fail or wait again, when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, KeyboardInterrupt):
            raise
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"stdout: {error.strerror}") from None


def tar_gz(name: str, entries: Iterable[tuple[str, bytes]]) -> bytes:
    """A .tar.gz with these files below one directory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in entries:
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def write_tree(path: str, entries: Iterable[tuple[str, bytes]]) -> None:
    """A directory with these files, made beside and renamed; the target must not exist. Raises OutputError."""
    target = os.path.abspath(path)
    try:
        beside = tempfile.mkdtemp(prefix=_prefix(), dir=os.path.dirname(target))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    try:
        for name, data in entries:
            full = os.path.join(beside, name)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(data)
        os.chmod(beside, 0o777 & ~_umask())
        os.rename(beside, target)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise OutputError(f"{path}: {error.strerror}") from None
