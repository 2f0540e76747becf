"""What --own-irq may say: the number of an interrupt, or a shell pattern over the names of its handlers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from auditor.errors import UsageError
from probes.host import ProbeError
from probes.interrupts import InterruptKind, InterruptRow, Interrupts

NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
MAX_CLOSE = 4


def check_named(patterns: Sequence[str], interrupts: Interrupts | ProbeError) -> None:
    """Raises UsageError for a --own-irq that names no interrupt, or only a part of the handlers on a shared line."""
    if isinstance(interrupts, ProbeError):
        return
    rows = device_rows(interrupts)
    for pattern in patterns:
        touched = [row for row in rows if _touches(pattern, row)]
        if not touched:
            raise UsageError(f"--own-irq {pattern!r}: {_close(pattern, rows)}")
        if not any(is_named(patterns, row) for row in touched):
            row = touched[0]
            raise UsageError(
                f"--own-irq {pattern!r}: interrupt {row.label} is shared by {row.actions}: name all of them, "
                f"or the number {row.label}"
            )


def _close(pattern: str, rows: Sequence[InterruptRow]) -> str:
    names = {action: row.label for row in rows for action in _actions(row)}
    close = get_close_matches(pattern, names, n=MAX_CLOSE, cutoff=0.4) or list(names)[:MAX_CLOSE]
    listed = ", ".join(f"{name} ({names[name]})" for name in close) or "none at all"
    return f"no device interrupt has this number or name; /proc/interrupts has {listed}"


def device_rows(interrupts: Interrupts) -> list[InterruptRow]:
    """Rows of interrupts that belong to devices."""
    return [row for row in interrupts.rows if row.kind is InterruptKind.DEVICE]


def _actions(row: InterruptRow) -> list[str]:
    return row.actions.split(", ") if row.actions else []


def _matches(pattern: str, action: str) -> bool:
    """As a shell would; a name that holds brackets (``ahci[0000:00:17.0]``) also by itself."""
    return action == pattern or fnmatchcase(action, pattern)


def _touches(pattern: str, row: InterruptRow) -> bool:
    if NUMBER.fullmatch(pattern):
        return row.irq == int(pattern)
    return any(_matches(pattern, action) for action in _actions(row))


def is_named(patterns: Sequence[str], row: InterruptRow) -> bool:
    """By its number, or by the names of all handlers on its line: its count says not which of them it was for."""
    if any(NUMBER.fullmatch(pattern) and row.irq == int(pattern) for pattern in patterns):
        return True
    actions = _actions(row)
    return bool(actions) and all(any(_matches(pattern, action) for pattern in patterns) for action in actions)
