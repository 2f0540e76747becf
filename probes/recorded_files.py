"""The files of a recording, read from a directory or a .tar.gz. Nothing in it is trusted, nothing is ever extracted.

No name leaves the recording, links and devices are refused, and sizes and counts have bounds: a header may claim any
size, and gzip makes gigabytes of kilobytes.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO

from probes.host import MAX_BYTES

MAX_FILES = 500_000
MAX_TOTAL_BYTES = 1 << 30
MAX_STREAM_BYTES = MAX_TOTAL_BYTES + 1024 * MAX_FILES
"""An unpacked archive: the contents, and a header and padding for each."""
META = "recording.json"
PHASES = ("t0", "t1", "samples")
MAX_HEADER_BYTES = 1 << 20
"""What tarfile may ask for at once: long names and pax headers."""
GZIP_MAGIC = b"\x1f\x8b"
_DIGITS = re.compile(rb"\d{200}")
"""No header holds such a number, and tarfile before 3.11.10 takes quadratic time to look for its end."""


class RecordingError(Exception):
    """A recording that can't be used; the message says where and why."""


def recorded_files(path: str) -> Iterator[tuple[str, bytes]]:
    """``recording.json`` and what lies below t0, t1 and samples, by name. Raises RecordingError, also in between."""
    try:
        yield from _walk(path) if os.path.isdir(path) else _untar(path)
    except (OSError, EOFError, ValueError, OverflowError, RecursionError, zlib.error, tarfile.TarError) as error:
        raise RecordingError(f"{path}: not a recording, or damaged: {error}") from None


def _walk(root: str) -> Iterator[tuple[str, bytes]]:
    """Only below the known names: a recording may share its directory, and ``/`` is none."""
    folders: list[str] = []
    for name in sorted(set(os.listdir(root)) & {META, *PHASES}):
        if name != META and stat.S_ISDIR(os.lstat(os.path.join(root, name)).st_mode):
            folders.append(name)
        else:
            yield name, _read_plain(os.path.join(root, name))
    for count, folder in enumerate(folders):
        if count >= MAX_FILES:
            raise RecordingError(f"{root}: more than {MAX_FILES} directories")
        with os.scandir(os.path.join(root, folder)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
            else:
                yield name, _read_plain(entry.path)


def _read_plain(full: str) -> bytes:
    if not stat.S_ISREG(os.lstat(full).st_mode):
        raise RecordingError(f"{full}: a recording holds only plain files")
    handle = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise RecordingError(f"{full}: larger than {MAX_BYTES >> 20} MiB")
    return data


class _Bounded(io.BufferedIOBase):
    """A stream that is read once, forwards, and only so far."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        """A header; refuses what none of a recording asks for."""
        if size is None or not 0 <= size <= MAX_HEADER_BYTES:
            raise RecordingError(f"an archive header claims {size} bytes")
        data = self._file.read(size)
        if _DIGITS.search(data):
            raise RecordingError("an archive header holds an endless number")
        return data

    def content(self, member: tarfile.TarInfo) -> bytes:
        """What a member holds."""
        if not 0 <= member.size <= MAX_BYTES:
            raise RecordingError(f"{member.name!r} is larger than {MAX_BYTES >> 20} MiB")
        self.seek(member.offset_data)
        data = self._file.read(member.size)
        if len(data) < member.size:
            raise RecordingError(f"{member.name!r} is cut")
        return data

    def tell(self) -> int:
        """Position in the unpacked archive."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Forwards only: going back would unpack everything again."""
        if whence != os.SEEK_SET or not self.tell() <= offset <= MAX_STREAM_BYTES:
            raise RecordingError(f"an archive header leads to byte {offset}")
        return self._file.seek(offset)


def _untar(path: str) -> Iterator[tuple[str, bytes]]:
    if os.path.exists(path) and not os.path.isfile(path):
        raise RecordingError(f"{path}: neither a directory nor a plain file")
    with open(path, "rb") as file:
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        stream = _Bounded(gzip.GzipFile(fileobj=file) if packed else file)
        try:
            with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
                yield from _members(archive, stream)
        except RecordingError as error:
            raise RecordingError(f"{path}: {error}") from None


def _members(archive: tarfile.TarFile, stream: _Bounded) -> Iterator[tuple[str, bytes]]:
    """Member by member into memory. The recording may lie in one directory of the archive."""
    prefix: tuple[str, ...] | None = None
    for count, member in enumerate(archive):
        if count >= MAX_FILES:
            raise RecordingError(f"more than {MAX_FILES} files")
        if member.isdir():
            continue
        parts = PurePosixPath(member.name).parts
        if not member.isreg() or member.issparse() or ".." in parts or parts[:1] == ("/",):
            raise RecordingError(f"{member.name!r}: a recording holds only plain files below its directory")
        if prefix is None:
            prefix = _prefix(parts)
        if prefix is not None and parts[: len(prefix)] == prefix:
            yield "/".join(parts[len(prefix) :]), stream.content(member)


def _prefix(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """The directory of the recording, by the first file that is known to lie in one; None where this one is not."""
    if parts[1:] == (META,):  # before the phases: the directory may have the name of one
        return parts[:1]
    if parts == (META,) or parts[:1] in [(phase,) for phase in PHASES]:
        return ()
    return parts[:1] if parts[1:2] in [(phase,) for phase in PHASES] else None
