"""/proc/interrupts: what interrupted each online CPU, row by row.

Format: kernel/irq/proc.c, arch/*/kernel/irq.c; counts are ``unsigned int`` and wrap (see probes.counters). Two layouts
are read: the old one, and that after 7.1 with a gap before left-aligned chips and with per-CPU ERR and MIS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile

from probes.counters import parse_count
from probes.host import Host, ProbeError, SourceState
from probes.interrupt_text import InterruptKind as InterruptKind
from probes.interrupt_text import actions_of, kind_of

PATH = "proc/interrupts"
MASKED_HINT = "container runtimes mask this file: read it on the host, or through a mount of the host's /proc"
MACHINE_WIDE = frozenset({"ERR", "MIS", "Err", "BAD"})
"""One number for the machine: with one CPU online only the label tells. After 7.1 ERR and MIS have text and columns."""

_CPU = re.compile(r"CPU(\d{1,7})", re.ASCII)
_HEADER = re.compile(r"\s*CPU\d{1,7}(?:\s+CPU\d{1,7})*\s*", re.ASCII)
# The layout after 7.1 has a blank less before the text. NMI is the first named row, and no x86 kernel lacks it.
_OLD_LAYOUT = re.compile(r"^ *NMI:(?: +\d+)+ {3}Non-maskable interrupts$", re.ASCII | re.MULTILINE)
_X86_CHIP = re.compile(r"IO-APIC|XT-PIC|xen-percpu|xen-pirq|(\d|MSI)-(edge|fasteoi)\b", re.ASCII)
_X86_LABELS = frozenset({"RTR", "TRM", "THR", "DFR", "MCP", "MIS", "PIN"})  # ppc has SPU, MCE, PMI and NMI as well
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,15}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptRow:
    """One row. Its identity is label and text together: numbers are recycled, and ppc has two rows called LOC."""

    label: str
    text: str
    """Everything behind the counts, runs of blanks collapsed."""
    kind: InterruptKind
    actions: str
    """Handlers of a numbered row, joined by ``, ``; "" where the row names none."""
    counts: Mapping[int, int]
    """Events since boot by CPU; a wanted CPU without a column (offline) is not in it."""

    @property
    def irq(self) -> int | None:
        """The Linux interrupt number, None for named rows."""
        return int(self.label) if self.label.isdigit() else None

    @property
    def name(self) -> str:
        """What to call the row: its actions, else its text, else its label."""
        return self.actions or self.text or self.label


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupts:
    """The whole file at one instant (not atomic: the kernel makes it row by row)."""

    cpus: tuple[int, ...]
    """Online CPUs in the order of the columns."""
    rows: tuple[InterruptRow, ...]
    totals: Mapping[str, int]
    """Error counters of the whole machine, by label."""
    fingerprint: int | None = field(default=None, compare=False, repr=False)
    """Of the whole text, every column: the same a second later means that the file stands still."""


def read_interrupts(host: Host, cpus: Collection[int] | None = None) -> Interrupts:
    """The counts of these CPUs (all online ones for None); raises ProbeError, also where its last rows are lost."""
    text = host.read(PATH)
    found = parse_interrupts(text, cpus)
    if lost := lost_row(text, found):
        raise ProbeError(PATH, f"no row {lost}, which this kernel always prints: the file is cut")
    return found


def lost_row(text: str, found: Interrupts) -> str | None:
    """A row that every such kernel prints and that is not there: the file was cut at a line end. None where all are.

    Everywhere the numbered rows, those of the devices, come first: named ones behind them say that none is lost. x86
    (arch/x86/kernel/irq.c) ends with ERR and MIS, after 7.1 only from their first event on; arm and arm64 end with Err,
    s390 with RST. A kernel built for one CPU has fewer rows.
    """
    labels = {row.label for row in found.rows} | found.totals.keys()
    needed: tuple[str, ...] = ()
    if any(row.irq is not None and row.text.startswith("GIC") for row in found.rows):
        needed = ("Err",)
    elif {"EXT", "I/O"} & labels:
        needed = ("EXT", "I/O", "CLK", "EXC", "NMI", "RST")
    elif _is_x86(text, labels, found):
        needed = ("NMI", "LOC", "RES", "CAL", "TLB") if len(found.cpus) > 1 else ("NMI",)
        needed += ("ERR", "MIS") if _OLD_LAYOUT.search(text) else ()
    elif len(found.cpus) > 1 and all(label.isdigit() for label in labels):
        return "with a name behind the numbers"
    return next((label for label in needed if label not in labels), None)


def _is_x86(text: str, labels: Collection[str], found: Interrupts) -> bool:
    chips = any(row.irq is not None and _X86_CHIP.search(row.text) for row in found.rows)
    return chips or not _X86_LABELS.isdisjoint(labels) or bool(_OLD_LAYOUT.search(text))


def parse_interrupts(text: str, cpus: Collection[int] | None = None, *, path: str = PATH) -> Interrupts:
    """Text of /proc/interrupts to rows; only the columns of ``cpus`` are converted.

    Raises ProbeError: MASKED for an empty or header-less file, else MALFORMED with the line number, as every row must
    have a count for every column and no row may come twice.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if not _blank(line)]
    online = _parse_header(lines, path)
    if not text.endswith("\n"):
        raise ProbeError(path, f"line {lines[-1][0]}: no line end, the file is cut")
    if len(lines) < 2:
        raise ProbeError(path, f"line {lines[0][0]}: no rows behind the header, the file is cut")
    wanted = [(cpu, index) for index, cpu in enumerate(online) if cpus is None or cpu in cpus]
    rows: list[InterruptRow] = []
    totals: dict[str, int] = {}
    seen: dict[tuple[str, str], int] = {}
    for number, line in lines[1:]:
        try:
            row = _parse_row(line, online, wanted, totals)
        except ValueError as error:
            raise ProbeError(path, f"line {number}: {error}") from None
        if row:
            first = seen.setdefault((row.label, "" if row.label.isdigit() else row.text), number)  # ppc: LOC twice
            if first != number:
                raise ProbeError(path, f"line {number}: row {row.label} again, as in line {first}: no plain snapshot")
            rows.append(row)
    return Interrupts(cpus=online, rows=tuple(rows), totals=totals, fingerprint=hash(text))


def _blank(line: str) -> bool:
    return not line or line.isspace()


def _parse_header(lines: list[tuple[int, str]], path: str) -> tuple[int, ...]:
    if not lines:
        raise ProbeError(path, f"empty; {MASKED_HINT}", SourceState.MASKED)
    number, line = lines[0]
    tokens = line.split()
    found = [_CPU.fullmatch(token) for token in tokens]
    if not found[0]:
        for later, text in lines:
            if _HEADER.fullmatch(text):
                raise ProbeError(path, f"line {number}: not the CPU header, that is line {later}: no plain snapshot")
        raise ProbeError(path, f"line {number}: no CPU header; {MASKED_HINT}", SourceState.MASKED)
    cpus = []
    for token, match in zip(tokens, found, strict=True):
        if not match:
            raise ProbeError(path, f"line {number}: the CPU header holds {token[:20]!r}")
        cpus.append(int(match[1]))
    if len(set(cpus)) < len(cpus):
        raise ProbeError(path, f"line {number}: the CPU header names a CPU twice")
    return tuple(cpus)


def _parse_row(
    line: str, online: tuple[int, ...], wanted: list[tuple[int, int]], totals: dict[str, int]
) -> InterruptRow | None:
    """One line to its row, or None where it is machine-wide (then its number goes to ``totals``); raises ValueError."""
    label, colon, rest = line.partition(":")  # the first colon: action and chip names hold more
    label = label.strip()
    if not colon or not _LABEL.fullmatch(label):
        raise ValueError(_complaint(line))
    fields = rest.split(None, len(online))
    if label == "FIQ" and parse_count("".join(fields[:1])) is None:
        return None  # arm: names the handler, counts nothing
    if label in MACHINE_WIDE and len(fields) == 1:
        if label in totals:
            raise ValueError(f"row {label} again: no plain snapshot")
        totals[label] = _count(fields[0])
        return None
    counts = fields[: len(online)]
    digits = "".join(counts)
    if len(counts) < len(online) or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"fewer than {len(online)} counts, one per CPU of the header")
    text = fields[len(online)] if len(fields) > len(online) else ""
    if not text and label.isdigit():
        raise ValueError("no chip and no name behind the counts: the line is cut")  # "-" or "None" at least
    if text[:1].isdigit() and parse_count(text.split(None, 1)[0]) is not None:
        text, wanted = _more_counts(label, text, online, wanted)
    collapsed = " ".join(text.split())
    actions = actions_of(text) if label.isdigit() else ""
    return InterruptRow(
        label=label,
        text=collapsed,
        kind=kind_of(label, collapsed, actions),
        actions=actions,
        counts={cpu: _count(counts[index]) for cpu, index in wanted},
    )


def _complaint(line: str) -> str:
    if _HEADER.fullmatch(line):
        return "a second CPU header: several snapshots in one file, or a wrapped header"
    return f"no row of this file: {line.strip()[:40]!r}"


def _count(token: str) -> int:
    count = parse_count(token)
    if count is None:
        raise ValueError(f"no count: {token[:40]!r}")
    return count


def _more_counts(
    label: str, text: str, online: tuple[int, ...], wanted: list[tuple[int, int]]
) -> tuple[str, list[tuple[int, int]]]:
    """IPI rows of old arm kernels have a column for every present CPU: only those before the first gap are sure."""
    if not label.startswith("IPI"):
        raise ValueError(f"more than {len(online)} counts, one per CPU of the header")
    words = dropwhile(lambda word: parse_count(word) is not None, text.split())
    return " ".join(words), [(cpu, index) for cpu, index in wanted if online[index] == index]
