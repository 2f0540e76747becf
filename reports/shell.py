"""Commands for the reader to copy: cut into lines of the report's width so that the shell still reads one command."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from reports.escape import printable

Atom = tuple[str, str]
"""Characters that stay together (``\\x``), and the quoting they stand in: none, ``'``, ``"`` or ``#`` (a comment)."""

_END = 3  # columns for "'\" or " \" at the end of a line


def shell_lines(command: str, indent: str, width: int) -> list[str]:
    """The command as lines of at most ``width`` columns that mean the same to a shell when they are pasted.

    A line ends in a backslash at a blank outside quotes. Where there is none the word is cut, and the next line starts
    in the first column, since a blank there would split the word. Control characters become visible escapes.
    """
    rest, lines, lead = list(_atoms(printable(command))), [], indent
    while len(rest) > 1 and len(lead) + sum(len(text) for text, _ in rest) > width:
        fitting = _fitting(rest, width - len(lead) - _END)
        blank = max((i for i in range(1, fitting + 1) if rest[i] == (" ", "")), default=0)
        if blank:
            lines.append(lead + _text(rest[:blank]) + " \\")
            rest, lead = rest[blank + 1 :], indent + "  "
            continue
        quoting = rest[fitting][1]
        lines.append(lead + _text(rest[:fitting]) + {"'": "'\\", "#": ""}.get(quoting, "\\"))
        rest = [*([("'", "")] if quoting == "'" else []), *rest[fitting:]]
        lead = indent + "# " if quoting == "#" else ""
    return [*lines, lead + _text(rest)]


def _text(atoms: list[Atom]) -> str:
    return "".join(text for text, _ in atoms)


def _fitting(atoms: list[Atom], room: int) -> int:
    """How many atoms fit into ``room`` columns; at least one."""
    return max(1, sum(used <= room for used in accumulate(len(text) for text, _ in atoms)))


def _atoms(command: str) -> Iterator[Atom]:
    """The command in pieces that must not be cut, each with its quoting (POSIX 2.2; ``$'…'`` is not known)."""
    quoting, position, word = "", 0, False
    while position < len(command):
        char = command[position]
        if char == "\\" and quoting in ("", '"') and position + 1 < len(command):
            yield command[position : position + 2], quoting
            position, word = position + 2, True
            continue
        if not quoting and char == "#" and not word:
            quoting = "#"
        yield char, quoting
        if quoting == char:
            quoting = "#" if char == "#" else ""
        elif not quoting and char in "'\"":
            quoting = char
        position, word = position + 1, char not in " ;|&("
