"""The kernel command line, split the way the kernel splits it (lib/cmdline.c ``next_arg``, kernel/params.c).

/proc/cmdline is what was asked for at boot, never proof that it is in force.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from probes.host import Host, ProbeError, SourceState

CMDLINE = "proc/cmdline"
MAX_BYTES = 16 << 10  # COMMAND_LINE_SIZE is 4096 at most on the architectures we know

_FIRST_WORD = "BOOT_IMAGE="  # grub's; again within a line it may be copied from another one
_ELLIPSES = ("...", "…", "....")
_BLANKS = rb"\t-\r \xa0"  # isspace() of the kernel is Latin-1: the 0xa0 of a pasted no-break space splits as well
_TOKEN = re.compile(rb'(?:"[^"]*(?:"|\Z)|[^"' + _BLANKS + rb"])+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Param:
    """One word of the line.

    ``name`` has ``_`` for ``-`` (the kernel takes them for the same), ``raw_name`` is as written. ``value`` is None
    without ``=``. ``token`` is the raw word with its quotes, ``end`` the byte offset behind it; ``quoted`` says that a
    quote was taken off.
    """

    name: str
    raw_name: str
    value: str | None
    token: str
    end: int
    quoted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Cmdline:
    """The words for the kernel, and after a bare ``--`` those for init, which the kernel does not look at."""

    line: bytes
    params: tuple[Param, ...]
    init_args: tuple[Param, ...]

    def find(self, name: str) -> tuple[Param, ...]:
        """Every occurrence of a parameter, in order; ``name`` with ``_``."""
        return tuple(param for param in self.params if param.name == name)

    def last_value(self, name: str) -> str | None:
        """The value of the last occurrence that has one."""
        return next((param.value for param in reversed(self.find(name)) if param.value is not None), None)

    def tail(self, param: Param) -> str:
        """The rest of the line behind a word and its blank: what lies in memory behind the NUL that ends the word."""
        return _text(self.line[param.end + 1 :])


def parse_cmdline(text: str, path: str = CMDLINE) -> Cmdline:
    """Splits the content of /proc/cmdline, or a line of a boot loader configuration.

    Blanks and newlines separate words outside double quotes; nothing escapes a quote, single quotes mean nothing.
    ProbeError for a NUL byte or more than 16 KiB, which no kernel has.
    """
    line = text.removesuffix("\n").encode("utf-8", "backslashreplace")
    if len(line) > MAX_BYTES:
        raise ProbeError(path, f"longer than {MAX_BYTES} bytes")
    if b"\0" in line:
        raise ProbeError(path, "a NUL byte inside the line")
    words = [_parse_word(found[0], found.end()) for found in _TOKEN.finditer(line)]
    dashes = next((at for at, word in enumerate(words) if word.raw_name == "--" and word.value is None), len(words))
    return Cmdline(line=line, params=tuple(words[:dashes]), init_args=tuple(words[dashes + 1 :]))


def _parse_word(token: bytes, end: int) -> Param:
    """Takes a word apart at its first ``=`` (but never at its first byte) and takes off the outer quotes."""
    body = token.removeprefix(b'"')
    quoted = body != token
    equals = body.find(b"=", 1)
    name, value = (body, None) if equals < 0 else (body[:equals], body[equals + 1 :])
    if value is not None and value.startswith(b'"'):
        value = value[1:].removesuffix(b'"')
        quoted = True
    elif quoted and value is not None:
        value = value.removesuffix(b'"')
    elif quoted:
        name = name.removesuffix(b'"')
    return Param(
        name=_text(name).replace("-", "_"),
        raw_name=_text(name),
        value=None if value is None else _text(value),
        token=_text(token),
        end=end,
        quoted=quoted,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def read_cmdline(host: Host) -> Cmdline:
    """The command line this kernel was booted with. The file always ends in a newline: empty means masked."""
    text = host.read(CMDLINE)
    if not text:
        raise ProbeError(CMDLINE, "empty", SourceState.MASKED)
    _check_whole(text)
    return parse_cmdline(text, CMDLINE)


def _check_whole(text: str) -> None:
    """Refuses what is not the file itself, with the line: half a list of CPUs is a list of CPUs as well."""
    lines = text.split("\n")
    if lines[-1]:
        raise ProbeError(CMDLINE, f"line {len(lines)}: no line end, the file is cut")
    for number, line in enumerate(lines, 1):
        if left_out := next((word for word in line.split() if word.strip("[]()") in _ELLIPSES), None):
            raise ProbeError(CMDLINE, f"line {number}: {left_out!r} stands for words that were left out")
        if number > 1 and line.startswith(_FIRST_WORD) and lines[0].startswith(_FIRST_WORD):
            raise ProbeError(CMDLINE, f"line {number}: a second command line: several snapshots in one file")
