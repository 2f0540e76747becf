"""What the next boot is to be started with: configuration of boot loaders, as far as it asks for isolation.

Sources: grub's /etc/default/grub (shell assignments; Debian and Ubuntu add /etc/default/grub.d/*.cfg), kernel-install's
/etc/kernel/cmdline, and the entries of the Boot Loader Specification in /boot/loader/entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from probes.cmdline import parse_cmdline
from probes.host import Host, ProbeError, SourceState, visible

GRUB = "etc/default/grub"
GRUB_DIR = "etc/default/grub.d"
KERNEL_CMDLINE = "etc/kernel/cmdline"
ENTRIES = "boot/loader/entries"
ISOLATION = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity")
MAX_FILES = 200
_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ \t]+)?GRUB_CMDLINE_LINUX(?:_DEFAULT)?\+?=(.*)", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One parameter of isolation in one file; ``path`` without a leading slash."""

    path: str
    name: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BootFiles:
    """The files that were read, those that were not although they are there, and what is asked for in them."""

    paths: tuple[str, ...]
    unread: tuple[ProbeError, ...]
    asked: tuple[Asked, ...]


def read_boot_files(host: Host, release: str) -> BootFiles:
    """Never raises. Of loader entries only those of this kernel release: others are left by other kernels."""
    paths: list[str] = []
    unread: list[ProbeError] = []
    asked: list[Asked] = []
    for path in _paths(host, unread):
        try:
            text = host.read(path)
        except ProbeError as error:
            unread += [error] if error.state is not SourceState.MISSING else []
            continue
        paths.append(visible(path))
        asked += [item for line in _lines(path, text, release) for item in parse_asked(line, path=visible(path))]
    return BootFiles(paths=tuple(paths), unread=tuple(unread), asked=tuple(dict.fromkeys(asked)))


def _paths(host: Host, unread: list[ProbeError]) -> Iterator[str]:
    yield GRUB
    yield from _listed(host, GRUB_DIR, ".cfg", unread)
    yield KERNEL_CMDLINE
    yield from _listed(host, ENTRIES, ".conf", unread)


def _listed(host: Host, directory: str, ending: str, unread: list[ProbeError]) -> list[str]:
    try:
        names = [name for name in host.listdir(directory) if name.endswith(ending)]
    except ProbeError as error:
        unread += [error] if error.state is not SourceState.MISSING else []
        return []
    if len(names) > MAX_FILES:
        unread.append(ProbeError(directory, f"more than {MAX_FILES} files: not all were read"))
    return [f"{directory}/{name}" for name in names[:MAX_FILES]]


def _lines(path: str, text: str, release: str) -> list[str]:
    """The command lines that a file holds."""
    if path.startswith("etc/default/"):
        return grub_lines(text)
    return entry_lines(text, release) if path.startswith(f"{ENTRIES}/") else [text]


def grub_lines(text: str) -> list[str]:
    """Values of GRUB_CMDLINE_LINUX and GRUB_CMDLINE_LINUX_DEFAULT, without the shell's quotes."""
    found = []
    for line in text.split("\n"):
        if match := _ASSIGNMENT.fullmatch(line):
            value = match[1].strip()
            quote = value[:1] if value[:1] in ("'", '"') else ""
            found.append(value[1:].rpartition(quote)[0] if quote else value.partition(" #")[0])
    return found


def entry_lines(text: str, release: str) -> list[str]:
    """``options`` of an entry whose ``version`` is this release."""
    pairs = [line.strip().partition(" ")[::2] for line in text.split("\n")]
    if ("version", release) not in [(key, value.strip()) for key, value in pairs]:
        return []
    return [value.strip() for key, value in pairs if key == "options"]


def parse_asked(line: str, *, path: str = "") -> list[Asked]:
    """The parameters of isolation in a command line, in order."""
    try:
        words = parse_cmdline(line, path)
    except ProbeError:
        return []
    return [
        Asked(path=path, name=param.name, value=param.value)
        for param in words.params
        if param.name in ISOLATION and param.value is not None and "$" not in param.value
    ]


def only_cmdlines(text: str) -> str:
    """The lines of a grub file that hold a command line, unchanged: others may hold passwords."""
    return "".join(f"{line}\n" for line in text.split("\n") if _ASSIGNMENT.fullmatch(line))
