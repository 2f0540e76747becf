"""The one door to a host: every file of the audited machine is opened here and nowhere else.

A host is a directory tree: the live machine (``/``), a node mounted into a pod (``/host``), or a recorded tree. Paths are
given without a leading slash (``proc/interrupts``).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePosixPath
from typing import Protocol

READ_CHUNK = 1 << 20  # seq_file hands out at most what is asked for; one large read keeps a /proc table in one piece
MAX_BYTES = 64 << 20  # no file of /proc or /sys that we read comes near; a recording may be hostile


class SourceState(str, Enum):
    """What became of one source, as ``coverage[]`` of an audit says it."""

    READ = "read"
    MISSING = "missing"
    DENIED = "denied"
    MASKED = "masked"
    MALFORMED = "malformed"


class ProbeError(Exception):
    """A source that gave no evidence. It is passed on as a value: absence is neither a zero nor a crash."""

    def __init__(self, path: str, reason: str, state: SourceState = SourceState.MALFORMED) -> None:
        super().__init__(f"/{path.lstrip('/')}: {reason}")
        self.path = path
        self.reason = reason
        self.state = state


class Host(Protocol):
    """Read access to one machine. Every method raises ProbeError where the host gives no answer."""

    def read(self, path: str) -> str:
        """The whole file as text; bytes that are no UTF-8 come as ``\\xNN`` escapes."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def readlink(self, path: str) -> str:
        """Where a symbolic link points."""
        ...

    def mode(self, path: str) -> int:
        """Permission bits (0o444 of an smp_affinity file means that user space may not set it, since 6.2)."""
        ...


def os_error(path: str, error: OSError) -> ProbeError:
    """Names the reason of a failed system call in the words of ``coverage[]``."""
    if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR, errno.ENODEV, errno.ENXIO):
        return ProbeError(path, "no such file", SourceState.MISSING)
    if error.errno in (errno.EACCES, errno.EPERM):
        return ProbeError(path, "permission denied", SourceState.DENIED)
    return ProbeError(path, os.strerror(error.errno or 0).lower(), SourceState.MALFORMED)


def decode(data: bytes) -> str:
    """Text that can be printed and stored anywhere: foreign bytes (a comm may hold any) become visible escapes."""
    return data.decode("utf-8", "backslashreplace")


class TreeHost:
    """A machine as the directory tree below ``root``."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str:
        """Reads to the end, never trusting st_size (0 or 4096 in /proc and /sys)."""
        try:
            handle = os.open(self._full(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise os_error(path, error) from None
        try:
            return decode(_read_all(handle, path))
        except OSError as error:
            raise os_error(path, error) from None
        finally:
            os.close(handle)

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        try:
            return sorted(os.listdir(self._full(path)))
        except OSError as error:
            raise os_error(path, error) from None

    def readlink(self, path: str) -> str:
        """Where a symbolic link points."""
        try:
            return os.readlink(self._full(path))
        except OSError as error:
            raise os_error(path, error) from None

    def mode(self, path: str) -> int:
        """Permission bits of a file."""
        try:
            return stat.S_IMODE(os.stat(self._full(path)).st_mode)
        except OSError as error:
            raise os_error(path, error) from None


def _read_all(handle: int, path: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(handle, READ_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise ProbeError(path, f"larger than {MAX_BYTES >> 20} MiB")
    return b"".join(chunks)


class DictHost:
    """A machine made of texts, for tests and for what a recording keeps in one bundle."""

    def __init__(
        self,
        files: Mapping[str, str | ProbeError],
        links: Mapping[str, str] | None = None,
        modes: Mapping[str, int] | None = None,
    ) -> None:
        self.files = dict(files)
        self.links = dict(links or {})
        self.modes = dict(modes or {})
        self._children: dict[str, set[str]] = {}
        for path in (*self.files, *self.links):
            for parent in PurePosixPath(path).parents:
                self._children.setdefault(str(parent), set()).add(PurePosixPath(path).relative_to(parent).parts[0])

    def read(self, path: str) -> str:
        """The text given for this path."""
        content = self.files.get(path)
        if isinstance(content, ProbeError):
            raise content
        if content is None:
            raise ProbeError(path, "no such file", SourceState.MISSING)
        return content

    def listdir(self, path: str) -> list[str]:
        """Names below a path, as the paths of files and links imply them."""
        names = self._children.get(path.rstrip("/") or ".")
        if names is None:
            raise ProbeError(path, "no such file", SourceState.MISSING)
        return sorted(names)

    def readlink(self, path: str) -> str:
        """The target given for this link."""
        if path not in self.links:
            raise ProbeError(path, "no such file", SourceState.MISSING)
        return self.links[path]

    def mode(self, path: str) -> int:
        """The mode given for this path; unknown where none was given."""
        if path not in self.modes:
            raise ProbeError(path, "mode not recorded", SourceState.MISSING)
        return self.modes[path]
