"""Reads the text of a tracefs ``trace`` file: what happened on a CPU, and who did something to one.

Format: kernel/trace/trace_output.c, the TP_printk() of include/trace/events/*.h.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from probes.cpulist import parse_cpumask

_LINE = re.compile(
    r"\s*(?P<comm>.+)-(?P<pid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<flags>\S+)\s+(?P<at>\d+\.\d+): (?P<name>\w+): ?(?P<text>.*)"
)
_LOST = re.compile(r"CPU:\d+ \[LOST (\d+) EVENTS\]")
_TARGET = {
    "sched_waking": re.compile(r"target_cpu=(\d+)"),
    "sched_migrate_task": re.compile(r"dest_cpu=(\d+)"),
    "ipi_send_cpu": re.compile(r"\bcpu=(\d+)"),
    "workqueue_queue_work": re.compile(r"\bcpu=(\d+)"),
}
_MASK = {"ipi_send_cpumask": re.compile(r"cpumask=([0-9a-f,]+)")}
_CHILD = re.compile(r"child_pid=(\d+)")
MARKER = "tracing_mark_write"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One line: ``pid`` and ``comm`` were current on ``cpu``, ``at_s`` by the trace clock."""

    comm: str
    pid: int
    cpu: int
    flags: str
    at_s: float
    name: str
    text: str

    @property
    def by_interrupt(self) -> bool:
        """Whether an interrupt did it, in whose time ever (third flag: h hard, s soft, H both, Z and z NMI)."""
        return self.flags[2:3] in tuple("hsHzZ")

    @property
    def targets(self) -> frozenset[int]:
        """CPUs that it sends something to: a wake-up, an interrupt, a thread, work."""
        if pattern := _TARGET.get(self.name):
            return frozenset(int(cpu) for cpu in pattern.findall(self.text))
        if (pattern := _MASK.get(self.name)) and (match := pattern.search(self.text)):
            return parse_cpumask(match[1])
        return frozenset()


class LostEventsError(Exception):
    """The buffer was too small: what is not in it can't be said not to have happened."""


def parse_trace(text: str) -> list[Event]:
    """Events in the order of the file. Raises LostEventsError, ValueError for a line that is none."""
    return list(_parse(text))


def _parse(text: str) -> Iterator[Event]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        if lost := _LOST.match(line):
            raise LostEventsError(f"line {number}: {lost[1]} events lost")
        match = _LINE.fullmatch(line)
        if not match:
            raise ValueError(f"line {number} is no event: {line[:80]!r}")
        yield Event(
            comm=match["comm"].strip(),
            pid=int(match["pid"]),
            cpu=int(match["cpu"]),
            flags=match["flags"],
            at_s=float(match["at"]),
            name=match["name"],
            text=match["text"],
        )


def between(events: Iterable[Event], start_s: float, end_s: float) -> list[Event]:
    """Events from ``start_s`` on and before ``end_s``, without what a marker wrote."""
    return [event for event in events if start_s <= event.at_s < end_s and event.name != MARKER]


def family(events: Iterable[Event], pid: int) -> frozenset[int]:
    """A process and everything that it and its children forked (sched:sched_process_fork)."""
    pids = {pid}
    for event in events:
        if event.name == "sched_process_fork" and event.pid in pids:
            pids.update(int(child) for child in _CHILD.findall(event.text))
    return frozenset(pids)


def happened(events: Iterable[Event], cpus: Collection[int]) -> Counter[str]:
    """How often what happened on these CPUs."""
    return Counter(event.name for event in events if event.cpu in cpus)


def caused(events: Iterable[Event], pids: Collection[int], cpus: Collection[int]) -> list[Event]:
    """What these threads did to these CPUs: ran there, or sent something there. Not what interrupted them."""
    wanted = frozenset(cpus)
    return [
        event
        for event in events
        if event.pid in pids and not event.by_interrupt and (event.cpu in wanted or event.targets & wanted)
    ]


def visits(events: Iterable[Event], cpu: int, gap_s: float = 0.02) -> int:
    """How often the CPU was disturbed: events that lie closer than ``gap_s`` are one interrupt and what followed."""
    times = sorted(event.at_s for event in events if event.cpu == cpu)
    return len(times[:1]) + sum(later - earlier > gap_s for earlier, later in pairwise(times))


def chance(without: int, seconds_without: float, with_: int, seconds_with: float) -> float:
    """How likely so many or more fall into the second time if nothing differs: of all visits each falls there with
    the probability of its share of the time (two Poisson counts of one rate, given their sum)."""
    total, share = without + with_, seconds_with / (seconds_without + seconds_with)
    return math.fsum(
        math.comb(total, count) * share**count * (1 - share) ** (total - count) for count in range(with_, total + 1)
    )


def shown(events: Sequence[Event], limit: int = 10) -> str:
    """The first of them, for the message of an assertion."""
    return "\n".join(f"{e.at_s:.6f} [{e.cpu}] {e.comm}-{e.pid} {e.flags} {e.name}: {e.text}" for e in events[:limit])
