"""/proc/softirqs: how often each softirq handler ran (not: was raised) on each CPU; format: fs/proc/softirqs.c."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from probes.counters import parse_count
from probes.host import Host, ProbeError, SourceState

PATH = "proc/softirqs"
_CPU = re.compile(r"CPU(\d{1,7})", re.ASCII)
_LABEL = re.compile(r"[A-Z][A-Z0-9_]{0,31}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Softirqs:
    """Handler runs since boot by name (HI TIMER …; IRQ_POLL was BLOCK_IOPOLL before 4.5) and CPU; 32-bit."""

    cpus: tuple[int, ...]
    """POSSIBLE CPUs in the order of the columns: one that never was online counts 0 and is no idle CPU."""
    rows: Mapping[str, Mapping[int, int]]
    fingerprint: int | None = field(default=None, compare=False, repr=False)
    """Of the whole text, every column: the same a second later means that the file stands still."""


def read_softirqs(host: Host, cpus: Collection[int] | None = None) -> Softirqs:
    """The counts of these CPUs (all possible ones for None); raises ProbeError."""
    return parse_softirqs(host.read(PATH), cpus)


def parse_softirqs(text: str, cpus: Collection[int] | None = None, *, path: str = PATH) -> Softirqs:
    """Text of /proc/softirqs to rows; a wanted CPU without a column is in none of them.

    Raises ProbeError: MASKED for an empty file, else MALFORMED with the line number, as every row must have exactly one
    count for every column.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line and not line.isspace()]
    if not lines:
        raise ProbeError(path, "empty: masked by a container runtime", SourceState.MASKED)
    if not text.endswith("\n"):
        raise ProbeError(path, f"line {lines[-1][0]}: no line end, the file is cut")
    possible = _parse_header(lines[0], path)
    wanted = [(cpu, index) for index, cpu in enumerate(possible) if cpus is None or cpu in cpus]
    rows: dict[str, Mapping[int, int]] = {}
    for number, line in lines[1:]:
        label, _, rest = line.partition(":")
        label = label.strip()
        if not _LABEL.fullmatch(label) or label in rows:
            raise ProbeError(path, f"line {number}: no row of this file, or its second: {line.strip()[:40]!r}")
        counts = [parse_count(token) for token in rest.split()]
        if len(counts) != len(possible) or None in counts:
            raise ProbeError(path, f"line {number}: not {len(possible)} counts, one per CPU of the header")
        rows[label] = {cpu: count for cpu, index in wanted if (count := counts[index]) is not None}
    if not rows:
        raise ProbeError(path, f"line {lines[0][0]}: no rows behind the header, the file is cut")
    return Softirqs(cpus=possible, rows=rows, fingerprint=hash(text))


def _parse_header(line: tuple[int, str], path: str) -> tuple[int, ...]:
    number, header = line
    cpus = [int(match[1]) for token in header.split() if (match := _CPU.fullmatch(token))]
    if not cpus or len(cpus) != len(header.split()) or len(set(cpus)) < len(cpus):
        raise ProbeError(path, f"line {number}: no plain CPU header: {header.strip()[:40]!r}")
    return tuple(cpus)
