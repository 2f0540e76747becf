"""What was counted on some CPUs, beside the mean of the control CPUs, and which threads ran there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from auditor.model import Audit, Counter, CpuActivity, ThreadSeen
from reports.layout import INDENT, MISSING, Column, clip, clip_left, cpu_list, number, prose, seconds, table

MAX_COUNTERS = 7  # rows of each kind, most events first
MAX_STATES = 3
MAX_THREADS = 8
ALWAYS = ("busy %", "switches")  # rows that stand there even if nobody knows the numbers
MAX_SIDE_BY_SIDE = 4  # CPUs with a column of their own; of more the mean and the most are shown

THREAD_COLUMNS = (
    Column(head="thread", width=18),
    Column(head="tid", width=11, right=True),
    Column(head="whose", width=7),
    Column(head="CPUs", width=9),
    Column(head="switches", width=9, right=True),
    Column(head="seen", width=6, right=True),
    Column(head="may run on", width=12),
    Column(head="cgroup"),
)
Value = Callable[[CpuActivity], "float | None"]


def activity_lines(audit: Audit, cpus: Sequence[int]) -> list[str]:
    """Counts in the window for these CPUs and the control CPUs' mean; empty where nothing was counted."""
    here = {cpu: audit.activity.cpus[cpu] for cpu in cpus if cpu in audit.activity.cpus}
    if not here:
        return []
    control = list(audit.activity.control.values())
    side_by_side = len(here) <= MAX_SIDE_BY_SIDE
    heads = [f"CPU {cpu}" for cpu in here] if side_by_side else ["mean", "most"]
    columns = [Column(head=f"in {seconds(audit.window.window_ms)}", width=40)]
    columns += [Column(head=head, width=11, right=True) for head in heads]
    columns += [Column(head="control CPU" if len(control) == 1 else "mean of control CPUs", right=True)]
    rows = []
    for label, value in _rows(list(here.values())):
        values = [value(cpu) for cpu in here.values()]
        cells = values if side_by_side else [_mean(values), max((v for v in values if v is not None), default=None)]
        cells = [*cells, _mean([value(cpu) for cpu in control])]
        if label in ALWAYS or any(cell is not None for cell in cells):
            rows.append([label, *(MISSING if cell is None else number(cell) for cell in cells)])
    return ["", *table(columns, rows), *_thread_lines(here)]


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _rows(here: Sequence[CpuActivity]) -> Iterator[tuple[str, Value]]:
    yield "busy %", lambda cpu: None if cpu.busy is None else 100 * cpu.busy
    yield "switches", lambda cpu: cpu.switches.total
    yield "switches to own threads", lambda cpu: cpu.switches.own
    yield "switches to foreign threads", lambda cpu: cpu.switches.foreign
    for label, name in _top([cpu.interrupts for cpu in here]):
        title = f"interrupt {label} {name}" if name != label else f"interrupt {label}"
        yield clip(title, 40), lambda cpu, label=label: _count(cpu.interrupts, label)  # type: ignore[misc]
    for label, _ in _top([cpu.softirqs for cpu in here]):
        yield clip(f"softirq {label}", 40), lambda cpu, label=label: _count(cpu.softirqs, label)  # type: ignore[misc]
    for name, latency_us in _deepest(here):
        title = f"entries into {name} ({latency_us} µs)"
        yield clip(title, 40), lambda cpu, name=name: _entries(cpu, name)  # type: ignore[misc]


def _top(rows: Sequence[Sequence[Counter]]) -> list[tuple[str, str]]:
    """Label and name of the counters that grew most on any of the CPUs, most first."""
    most: dict[tuple[str, str], int] = {}
    for counter in (counter for row in rows for counter in row):
        key = (counter.label, counter.name)
        most[key] = max(most.get(key, 0), counter.count or 0)
    return sorted((key for key in most if most[key]), key=lambda key: -most[key])[:MAX_COUNTERS]


def _count(counters: Sequence[Counter], label: str) -> int | None:
    """Growth of one row. A row that is not listed beside others did not grow; no rows at all is no evidence."""
    if not counters:
        return None
    return next((counter.count for counter in counters if counter.label == label), 0)


def _deepest(here: Sequence[CpuActivity]) -> list[tuple[str, int]]:
    """Idle states that were entered, the slowest to leave first."""
    entered = {(state.name, state.latency_us) for cpu in here for state in cpu.cpuidle if state.entries}
    return sorted(entered, key=lambda state: -state[1])[:MAX_STATES]


def _entries(cpu: CpuActivity, name: str) -> int | None:
    return next((state.entries for state in cpu.cpuidle if state.name == name), None)


def _thread_lines(here: Mapping[int, CpuActivity]) -> list[str]:
    """The threads that ran on the CPUs, those of one name and owner together: foreign ones first, then by switches."""
    alike: dict[tuple[bool, bool, str, str], list[tuple[int, ThreadSeen]]] = {}
    for cpu, activity in here.items():
        for thread in activity.threads:
            key = (thread.own, thread.kernel, thread.name, thread.cgroup)
            alike.setdefault(key, []).append((cpu, thread))
    rows = sorted(alike.items(), key=lambda item: (item[0][:2], *_most_seen(item[1]), item[0]))
    lines = table(THREAD_COLUMNS, [_thread_cells(same) for _, same in rows[:MAX_THREADS]])
    if len(rows) > MAX_THREADS:
        lines += prose(f"{len(rows) - MAX_THREADS} more rows of threads are in the JSON document", first=INDENT)
    return ["", *lines] if lines else []


def _switches(same: Sequence[tuple[int, ThreadSeen]]) -> int | None:
    known = [thread.switches for _, thread in same if thread.switches is not None]
    return sum(known) if known else None


def _most_seen(same: Sequence[tuple[int, ThreadSeen]]) -> tuple[int, int]:
    """Sort key: most switches first, then most sightings."""
    return (-(_switches(same) or 0), -sum(thread.sightings for _, thread in same))


def _thread_cells(same: Sequence[tuple[int, ThreadSeen]]) -> list[str]:
    thread, switches = same[0][1], _switches(same)
    tids = {thread.tid for _, thread in same}
    whose = "own" if thread.own else "kernel" if thread.kernel else "foreign"
    return [
        thread.name,
        str(thread.tid) if len(tids) == 1 else f"{len(tids)} threads",
        whose,
        cpu_list(cpu for cpu, _ in same),
        MISSING if switches is None else number(switches),
        number(sum(thread.sightings for _, thread in same)),
        thread.allowed,
        clip_left(thread.cgroup, 30),
    ]
