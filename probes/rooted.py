"""Files as a process in another root directory sees them: /proc/PID/root, with its links followed below it.

The kernel follows an absolute link there from the reader's own root: a link in a container would lead to a file of the
host that has nothing to do with it.
"""

from __future__ import annotations

from probes.host import MAX_LINKS, Host, ProbeError


class RootedHost:
    """A host whose paths below ``root`` (``proc/7/root``) are those of a process; other paths are not its business."""

    def __init__(self, host: Host, root: str) -> None:
        self.host = host
        self.root = root

    def read(self, path: str) -> str:
        """The whole file as text."""
        return self.host.read(follow(self.host, self.root, path))

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        host = self.host
        return host.listdir(follow(host, self.root, path))

    def readlink(self, path: str) -> str:
        """Where a symbolic link points; only links on the way to it are followed."""
        host, (parent, _, name) = self.host, path.rpartition("/")
        return host.readlink(f"{follow(host, self.root, parent)}/{name}")

    def mode(self, path: str) -> int:
        """Permission bits."""
        return self.host.mode(follow(self.host, self.root, path))


def follow(host: Host, root: str, path: str) -> str:
    """Where ``path``, which begins with ``root``, leads for a process with this root. ProbeError after 40 links."""
    left, done, links = path.removeprefix(root).split("/")[::-1], list[str](), 0
    while left:
        part = left.pop()
        if part == "..":
            del done[-1:]
        if part in ("", ".", ".."):
            continue
        done.append(part)
        try:
            target = host.readlink("/".join((root, *done)))
        except ProbeError:
            continue  # no link, or not there: reading it will tell
        links += 1
        if links > MAX_LINKS:
            raise ProbeError(path, "too many links")
        del done[0 if target.startswith("/") else -1 :]
        left += target.split("/")[::-1]
    return "/".join((root, *done))
