"""The one door to a host: every file of the audited machine is opened here and nowhere else.

A host is a directory tree: the live machine (``/``), a node mounted into a pod (``/host``), or a recorded tree.
Paths are given without a leading slash (``proc/interrupts``).
"""

from __future__ import annotations

import errno
import importlib
import os
import stat
from collections.abc import Callable, Mapping
from enum import Enum
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
FIRST_READ = 16 << 10  # most files of /proc fit; a buffer of a mebibyte for each would cost more than the read
NEXT_READ = 1 << 20  # seq_file hands out at most what is asked for; large reads keep a /proc table in one piece
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # never waits, whatever lies in an image
KUBELET_SOCKET = "/pod-resources/kubelet.sock"
MAX_LINKS = 40  # as the kernel's own limit
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
        path = visible(path)
        super().__init__(f"/{path.lstrip('/')}: {reason}")
        self.path = path
        self.reason = reason
        self.state = state


def attempt(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | ProbeError:
    """What ``read`` returns, or the ProbeError that it raises, as a value."""
    try:
        return read(*args, **kwargs)
    except ProbeError as error:
        return error


def known(value: T | ProbeError) -> T:
    """The value; raises the ProbeError that stands in its place. The inverse of ``attempt``."""
    if isinstance(value, ProbeError):
        raise value
    return value


class Host(Protocol):
    """Read access to one machine. Every method raises ProbeError where the host gives no answer."""

    def read(self, path: str) -> str:
        """The whole file as text; bytes that are no UTF-8 come as visible escapes."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def readlink(self, path: str) -> str:
        """Where a symbolic link points."""
        ...

    def mode(self, path: str) -> int:
        """Permission bits (0o444 of an smp_affinity file means that user space may not set it, 6.12 and later)."""
        ...

    def mtime(self, path: str) -> int:
        """When a file was last written, nanoseconds since the epoch by the host's own clock."""
        ...


def os_error(path: str, error: OSError | ValueError) -> ProbeError:
    """Names the reason of a failed system call in the words of ``coverage[]``; ValueError: no file has such a name."""
    if isinstance(error, ValueError):  # NUL, or a lone surrogate that stands for no byte
        return ProbeError(path, "no such file", SourceState.MISSING)
    if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR, errno.ENODEV, errno.ENXIO):
        return ProbeError(path, "no such file", SourceState.MISSING)
    if error.errno in (errno.EACCES, errno.EPERM):
        return ProbeError(path, "permission denied", SourceState.DENIED)
    return ProbeError(path, os.strerror(error.errno or 0).lower(), SourceState.MALFORMED)


def decode(data: bytes) -> str:
    """Text that can be printed and stored anywhere: foreign bytes (a comm may hold any) become visible escapes."""
    return data.decode("utf-8", "backslashreplace")


def visible(name: str) -> str:
    """A name that can be printed and stored: os.listdir gives bytes that are no UTF-8 as lone surrogates."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


def follow(path: str, target_of: Callable[[list[str]], str | None]) -> list[str]:
    """The parts of where ``path`` leads for a process in another root directory: no link and no ``..`` leaves it.

    ``target_of`` gives where the link at these parts points, None where there is no link. OSError after 40 of them.
    """
    left, done, links = path.split("/")[::-1], list[str](), 0
    while left:
        part = left.pop()
        if part == "..":
            del done[-1:]
        if part in ("", ".", ".."):
            continue
        done.append(part)
        target = target_of(done)
        if target is None:
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, "too many links")
        del done[0 if target.startswith("/") else -1 :]
        left += target.split("/")[::-1]
    return done


def _follow(root: str, path: str) -> str:
    """Where ``path`` leads below ``root``."""

    def target_of(parts: list[str]) -> str | None:
        try:
            return os.readlink(os.path.join(root, *parts))
        except OSError:
            return None  # no link, or not there: opening it will tell

    return os.path.join(root, *follow(path, target_of))


class TreeHost:
    """A machine as the directory tree below ``root``.

    An image or a mounted node may hold absolute links (``/var/lib/kubelet``): they are followed below ``root``. /proc
    and /sys hold only the kernel's own links, and thousands of files to be read at little cost: opened as they are.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self._base = (root or ".").rstrip("/") + "/"

    def _full(self, path: str) -> str:
        path = path.lstrip("/")
        if self._base == "/" or path.startswith(("proc/", "sys/")):
            return self._base + path
        return _follow(self._base, path)

    def read(self, path: str) -> str:
        """Reads to the end, never trusting st_size (0 or 4096 in /proc and /sys). The kubelet's socket is asked."""
        try:
            handle = os.open(self._full(path), READ_FLAGS)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENXIO and path.endswith(KUBELET_SOCKET):
                return self._ask(path)
            raise os_error(path, error) from None
        try:
            return decode(_read_all(handle, path))
        except OSError as error:
            raise os_error(path, error) from None
        finally:
            os.close(handle)

    def _ask(self, path: str) -> str:
        try:
            return str(importlib.import_module("probes.pod_resources").ask(os.path.abspath(self._full(path))))
        except ProbeError as error:
            raise ProbeError(path, error.reason, error.state) from None

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        try:
            return sorted(os.listdir(self._full(path)))
        except (OSError, ValueError) as error:
            raise os_error(path, error) from None

    def readlink(self, path: str) -> str:
        """Where a symbolic link points."""
        try:
            folder, _, name = path.rpartition("/")
            return os.readlink(f"{self._full(folder + '/')}/{name}")
        except (OSError, ValueError) as error:
            raise os_error(path, error) from None

    def mode(self, path: str) -> int:
        """Permission bits of a file."""
        try:
            return stat.S_IMODE(os.stat(self._full(path)).st_mode)
        except (OSError, ValueError) as error:
            raise os_error(path, error) from None

    def mtime(self, path: str) -> int:
        """When a file was last written, nanoseconds since the epoch."""
        try:
            return os.stat(self._full(path)).st_mtime_ns
        except (OSError, ValueError) as error:
            raise os_error(path, error) from None


def _read_all(handle: int, path: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(handle, NEXT_READ if size >= FIRST_READ else FIRST_READ):
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
        mtimes: Mapping[str, int] | None = None,
    ) -> None:
        self.files = dict(files)
        self.links = dict(links or {})
        self.modes = dict(modes or {})
        self.mtimes = dict(mtimes or {})
        self._children: dict[str, set[str]] = {}
        for path in (*self.files, *self.links, *self.modes):
            self._add_parents(path)

    def _add_parents(self, path: str) -> None:
        while path:
            parent, _, name = path.rpartition("/")
            known = self._children.setdefault(parent, set())
            if name in known:
                return
            known.add(name)
            path = parent

    def read(self, path: str) -> str:
        """The text given for this path."""
        content = self.files.get(path.lstrip("/"))
        if isinstance(content, ProbeError):
            raise content
        if content is None:
            raise ProbeError(path, "no such file", SourceState.MISSING)
        return content

    def listdir(self, path: str) -> list[str]:
        """Names below a path, as all known paths imply them; an error given for the path is raised."""
        path = path.strip("/")
        failed = self.files.get(path)
        if isinstance(failed, ProbeError):
            raise failed
        names = self._children.get(path)
        if names is None:
            raise ProbeError(path, "no such file", SourceState.MISSING)
        return sorted(names)

    def readlink(self, path: str) -> str:
        """The target given for this link."""
        target = self.links.get(path.lstrip("/"))
        if target is None:
            raise ProbeError(path, "no such file", SourceState.MISSING)
        return target

    def mode(self, path: str) -> int:
        """The mode given for this path; unknown where none was given."""
        mode = self.modes.get(path.lstrip("/"))
        if mode is None:
            raise ProbeError(path, "mode not recorded", SourceState.MISSING)
        return mode

    def mtime(self, path: str) -> int:
        """The time given for this path; unknown where none was given."""
        mtime = self.mtimes.get(path.lstrip("/"))
        if mtime is None:
            raise ProbeError(path, "time of the last change not recorded", SourceState.MISSING)
        return mtime
