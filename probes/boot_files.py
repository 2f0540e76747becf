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
_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ \t]+)?(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)(\+?)=(.*)", re.ASCII)
_BLS = re.compile(r"[ \t]*(?:export[ \t]+)?GRUB_ENABLE_BLSCFG=(.*)", re.ASCII)


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
    by_entries: bool = False
    """GRUB_ENABLE_BLSCFG=true (Red Hat): grub boots the entries, /etc/default/grub alone changes nothing."""


def read_boot_files(host: Host, release: str) -> BootFiles:
    """Never raises. Of loader entries only those of this kernel release: others are left by other kernels."""
    paths: list[str] = []
    unread: list[ProbeError] = []
    asked: list[Asked] = []
    by_entries = False
    for path in _paths(host, unread):
        try:
            text = host.read(path)
        except ProbeError as error:
            unread += [error] if error.state is not SourceState.MISSING else []
            continue
        paths.append(visible(path))
        asked += [item for line in _lines(path, text, release) for item in parse_asked(line, path=visible(path))]
        by_entries = uses_entries(text, by_entries) if path.startswith("etc/default/") else by_entries
    return BootFiles(paths=tuple(paths), unread=tuple(unread), asked=tuple(dict.fromkeys(asked)), by_entries=by_entries)


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
    """What GRUB_CMDLINE_LINUX and GRUB_CMDLINE_LINUX_DEFAULT hold at the end of the file, without the shell's quotes.

    An assignment replaces the ones before it, unless it names the variable or is a ``+=``. Nothing is executed.
    """
    found: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if match := _ASSIGNMENT.fullmatch(line):
            name, value = match[1], _unquoted(match[3])
            appends = match[2] or re.search(rf"\$\{{?{name}\b", value, re.ASCII)
            found[name] = [*(found.get(name, []) if appends else []), value]
    return [value for values in found.values() for value in values]


def _unquoted(text: str) -> str:
    value = text.strip()
    quote = value[:1] if value[:1] in ("'", '"') else ""
    return value[1:].rpartition(quote)[0] if quote else value.partition(" #")[0]


def uses_entries(text: str, before: bool = False) -> bool:
    """Whether grub boots the entries of the Boot Loader Specification, by the last assignment of a file."""
    for line in text.split("\n"):
        if match := _BLS.fullmatch(line):
            before = _unquoted(match[1]).strip() == "true"
    return before


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
    """The lines of a grub file that are read here, unchanged: others may hold passwords."""
    return "".join(f"{line}\n" for line in text.split("\n") if _ASSIGNMENT.fullmatch(line) or _BLS.fullmatch(line))
