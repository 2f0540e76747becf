"""What the terminal report is laid out with: numbers, CPU lists, wrapped prose and tables within 100 columns.

Everything here makes the text it is given harmless (``reports.escape``); what comes out may be printed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from reports.escape import bounded, printable

WIDTH = 100
INDENT = "  "
MISSING = "-"
_TIE = "\0"  # stands for a blank that must not end a line; no harmless text contains it
GAP = 2  # columns between two table columns, as the plain format of tabulate prints them


def number(value: float) -> str:
    """Three significant digits, or all of a larger whole number below 10⁹: ``0.0333``, ``77.6``, ``12647``."""
    if 100 <= abs(value) < 1e9:
        return f"{value:.0f}"
    return f"{value:.3g}"


def quantity(value: float | None, unit: str) -> str:
    """A number with its unit: ``77.6/s``, ``0.1 %``; empty without a number."""
    if value is None:
        return ""
    return number(value) + ("" if not unit or unit.startswith("/") else " ") + printable(unit)


def seconds(ms: int) -> str:
    """Milliseconds as seconds: ``30 s``, ``12.2 s``."""
    return f"{number(round(ms / 1000, 1))} s"


def with_waivers(status: str, waivers: int) -> str:
    """A verdict that takes waivers into account says so in the same breath."""
    return f"{status} with {waivers} waiver{'' if waivers == 1 else 's'}" if waivers else status


def cpu_list(cpus: Iterable[int]) -> str:
    """CPU numbers in the kernel's list form: ``1,5`` or ``2-15,18``."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def cpus_named(listed: str) -> str:
    """``CPU 1`` or ``CPUs 1,5``, for a list in the kernel's form."""
    return f"CPU {listed}" if listed.isdigit() else f"CPUs {listed}"


def clip(text: str, width: int) -> str:
    """Harmless text of at most ``width`` columns; an ellipsis stands for the rest."""
    shown = bounded(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def clip_left(text: str, width: int) -> str:
    """As ``clip``, but the end is kept: the last part of a cgroup path tells most."""
    shown = printable(text[-width:])
    return shown if len(shown) <= width and len(text) <= width else "…" + shown[len(shown) - width + 1 :]


def prose(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """The text in lines of 100 columns; ``first`` opens the first, ``rest`` (default: blanks as wide) the others."""
    return _wrap(bounded(text), first, " " * len(first) if rest is None else rest)


def listing(parts: Iterable[str], first: str, rest: str) -> list[str]:
    """The parts with commas between them, wrapped as ``prose`` is, but not within a part."""
    text = ", ".join(bounded(part).replace(" ", _TIE) for part in parts)
    return [line.replace(_TIE, " ") for line in _wrap(text, first, rest)]


def _wrap(text: str, first: str, rest: str) -> list[str]:
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines or [first.rstrip()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a table. ``width`` is the widest it gets; without one it wraps into what the others leave."""

    head: str
    width: int | None = None
    right: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: str = INDENT) -> list[str]:
    """The lines of a table of at most 100 columns, if the widths of ``columns`` allow for it. No rows, no lines.

    A column with a width is clipped to one line, the one without is wrapped.
    """
    if not rows:
        return []
    fixed = [i for i, column in enumerate(columns) if column.width is not None]
    heads = [column.head for column in columns]
    cells = [heads, *([_clipped(c, cell) for c, cell in zip(columns, row, strict=True)] for row in rows)]
    room = WIDTH - len(indent) - sum(max(len(row[i]) for row in cells) + GAP for i in fixed)
    text = tabulate(
        # heads go in as a row: tabulate widens a column by two for a head of its own
        [[cell if i in fixed else _wrapped(cell, room) for i, cell in enumerate(row)] for row in cells],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["right" if column.right else "left" for column in columns],
    )
    return [(indent + line).rstrip() for line in text.splitlines()]


def _clipped(column: Column, cell: str) -> str:
    return cell if column.width is None else clip(cell, column.width)


def _wrapped(cell: str, width: int) -> str:
    parts = [textwrap.wrap(bounded(line), width, break_on_hyphens=False) for line in cell.split("\n")]
    return "\n".join(line for part in parts for line in part)
