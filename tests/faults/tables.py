"""Faults of single rows and columns, in the files that have them."""

from __future__ import annotations

import re

WRAP = 1 << 32


def with_count(text: str, label: str, cpu: int, count: int) -> str:
    """/proc/interrupts or /proc/softirqs with another count; the columns are CPUs 0 to 3."""
    lines = text.split("\n")
    at = _line_of(lines, f"{label}:")
    fields = list(re.finditer(r"\d+", lines[at].partition(":")[2]))
    start = lines[at].index(":") + 1
    found = fields[cpu]
    lines[at] = lines[at][: start + found.start()] + str(count) + lines[at][start + found.end() :]
    return "\n".join(lines)


def without_row(text: str, label: str) -> str:
    """Without one row: ``9:``, ``SCHED:``, or ``cpu1`` with the domains behind it."""
    lines = text.split("\n")
    at = _line_of(lines, label)
    end = at + 1
    while lines[end].startswith("domain"):
        end += 1
    return "\n".join(lines[:at] + lines[end:])


def without_column(text: str, cpu: int) -> str:
    """/proc/interrupts as it is while a CPU is offline: its column is gone. The columns are CPUs 0 to 3."""
    lines = text.split("\n")
    found = [re.sub(rf"CPU{cpu}\s*", "", lines[0])]
    for line in lines[1:]:
        label, colon, rest = line.partition(":")
        counts = rest.split(None, 4)
        whole = len(counts) >= 4 and all(count.isdigit() for count in counts[:4])
        found.append(f"{label}: {' '.join(counts[:cpu] + counts[cpu + 1 :])}" if whole else label + colon + rest)
    return "\n".join(found)


def with_fields(text: str, label: str, **fields: int) -> str:
    """/proc/schedstat with other fields of a CPU: ``run_ns``, ``wait_ns``, ``switches``."""
    lines = text.split("\n")
    at = _line_of(lines, label)
    words = lines[at].split()
    for name, value in fields.items():
        words[{"run_ns": 7, "wait_ns": 8, "switches": 9}[name]] = str(value)
    lines[at] = " ".join(words)
    return "\n".join(lines)


def with_line_behind(text: str, label: str, line: str) -> str:
    """One line more."""
    lines = text.split("\n")
    at = _line_of(lines, label)
    return "\n".join([*lines[: at + 1], line, *lines[at + 1 :]])


def _line_of(lines: list[str], label: str) -> int:
    return next(at for at, line in enumerate(lines) if line.split()[:1] == [label])
