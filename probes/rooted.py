"""Files as a process in another root directory sees them: /proc/PID/root, with its links followed below it.

The kernel follows an absolute link there from the reader's own root: a link in a container would lead to a file of the
host that has nothing to do with it.
"""

from __future__ import annotations

from probes.host import Host, ProbeError, follow


class RootedHost:
    """A host whose paths below ``root`` (``proc/7/root``) are those of a process; other paths are not its business."""

    def __init__(self, host: Host, root: str) -> None:
        self.host = host
        self.root = root

    def read(self, path: str) -> str:
        """The whole file as text."""
        return self.host.read(_below(self.host, self.root, path))

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        host = self.host
        return host.listdir(_below(host, self.root, path))

    def readlink(self, path: str) -> str:
        """Where a symbolic link points; only links on the way to it are followed."""
        host, (parent, _, name) = self.host, path.rpartition("/")
        return host.readlink(f"{_below(host, self.root, parent)}/{name}")

    def mode(self, path: str) -> int:
        """Permission bits."""
        return self.host.mode(_below(self.host, self.root, path))

    def mtime(self, path: str) -> int:
        """When a file was last written, nanoseconds since the epoch."""
        return self.host.mtime(_below(self.host, self.root, path))


def _below(host: Host, root: str, path: str) -> str:
    """Where ``path``, which begins with ``root``, leads for a process with this root. ProbeError after 40 links."""

    def target_of(parts: list[str]) -> str | None:
        try:
            return host.readlink("/".join((root, *parts)))
        except ProbeError:
            return None  # no link, or not there: reading it will tell

    try:
        return "/".join((root, *follow(path.removeprefix(root), target_of)))
    except OSError as error:
        raise ProbeError(path, str(error.strerror)) from None
