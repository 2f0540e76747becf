"""A newc cpio archive (Documentation/driver-api/early-userspace/buffer-format.rst), the format of an initramfs."""

import gzip
import stat
from collections.abc import Mapping
from pathlib import PurePosixPath

TRAILER = "TRAILER!!!"
DIRECTORY = stat.S_IFDIR | 0o755
EXECUTABLE = stat.S_IFREG | 0o755


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _entry(inode: int, name: str, mode: int, data: bytes) -> bytes:
    # inode, mode, uid, gid, links, mtime, size, device and rdevice (major, minor), length of the name, checksum
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name.encode() + b"\0") + _padded(data)


def archive(files: Mapping[str, bytes]) -> bytes:
    """A gzipped archive of ``files`` (name without a leading slash → content), all executable, with their directories.

    The same files give the same bytes.
    """
    directories = sorted({str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."})
    entries = [(name, DIRECTORY, b"") for name in directories]
    entries += [(name, EXECUTABLE, files[name]) for name in sorted(files)]
    entries.append((TRAILER, 0, b""))
    raw = b"".join(_entry(inode, *entry) for inode, entry in enumerate(entries, start=1))
    return gzip.compress(raw, compresslevel=1, mtime=0)
