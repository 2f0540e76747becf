"""Faults that a source alone has: counters that wrap or start again, rows and columns that go, threads that end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from auditor.model import Status
from tests.faults.faulty import Content, missing
from tests.faults.matrix import PHASES, base
from tests.faults.tables import WRAP, with_count, with_fields, with_line_behind, without_column, without_row
from tests.hosts.machine import CPU_DIR

INTERRUPTS, SOFTIRQS, SCHEDSTAT, STAT, ONLINE = (
    "proc/interrupts",
    "proc/softirqs",
    "proc/schedstat",
    "proc/stat",
    f"{CPU_DIR}/online",
)
Edit = Callable[[str], str]
OPEN = (Status.UNKNOWN,)
BAD = (Status.NOT_ISOLATED,)
BUSY = ("busy",)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Edits by phase and path, and what the verdict may be."""

    edits: Mapping[str, Mapping[str, Edit]] = field(default_factory=dict)
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Directories that are not there, by phase."""
    expected: tuple[Status, ...] = OPEN
    hosts: tuple[str, ...] = ("busy", "quiet")

    def contents(self, name: str) -> dict[str, dict[str, Content]]:
        """What is read instead, on the good host of this name."""
        found: dict[str, dict[str, Content]] = {
            phase: {path: edit(base(name)[phase].read(path)) for path, edit in edits.items()}
            for phase, edits in self.edits.items()
        }
        for phase, folders in self.gone.items():
            host = base(name)[phase]
            inside = [path for path in host.files if path.startswith(tuple(f"{folder}/" for folder in folders))]
            found.setdefault(phase, {}).update({path: missing(path, "") for path in (*inside, *folders)})
        return found

    def unlisted(self) -> dict[str, frozenset[str]]:
        """What no directory lists, by phase."""
        return {phase: frozenset(folders) for phase, folders in self.gone.items()}


def _both(path: str, first: Edit, last: Edit) -> dict[str, dict[str, Edit]]:
    return {"t0": {path: first}, "t1": {path: last}}


def _count(label: str, cpu: int, count: int) -> Edit:
    return lambda text: with_count(text, label, cpu, count)


def _row(label: str) -> Edit:
    return lambda text: without_row(text, label)


def _column(cpu: int) -> Edit:
    return lambda text: without_column(text, cpu)


def _offline(cpu: int) -> dict[str, Edit]:
    """What is there of a CPU that is offline."""
    online = ",".join(str(other) for other in range(4) if other != cpu) + "\n"
    return {
        INTERRUPTS: _column(cpu),
        STAT: _row(f"cpu{cpu}"),
        SCHEDSTAT: _row(f"cpu{cpu}"),
        ONLINE: lambda _: online,
    }


def _without_domains(text: str) -> str:
    return "".join(f"{line}\n" for line in text.split("\n")[:-1] if not line.startswith("domain"))


def _after(text: str) -> Edit:
    return lambda _: text


SPINNER, SLEEPER = "proc/5200", "proc/5300"
SCENARIOS: Mapping[str, Scenario] = {
    "a device's count wraps": Scenario(
        edits=_both(INTERRUPTS, _count("9", 1, WRAP - 100), _count("9", 1, 5000)), expected=BAD
    ),
    "a device's count falls": Scenario(edits=_both(INTERRUPTS, _count("9", 1, 900), _count("9", 1, 3))),
    "a device's row was freed and made again": Scenario(
        edits=_both(INTERRUPTS, _count("9", 0, 900_000_000), _count("9", 0, 3))
    ),
    "a device's row has another name": Scenario(edits={"t1": {INTERRUPTS: lambda text: text.replace("acpi", "eth9")}}),
    "a device's row goes": Scenario(edits={"t1": {INTERRUPTS: _row("9:")}}),
    "a device's row comes with events": Scenario(edits=_both(INTERRUPTS, _row("9:"), _count("9", 1, 40))),
    "the timer's count wraps": Scenario(
        edits=_both(INTERRUPTS, _count("LOC", 1, WRAP - 100), _count("LOC", 1, 9900)),
        expected=(*BAD, Status.ISOLATED),  # where CPU 1 idles its tick is not judged
    ),
    "the timer's count falls": Scenario(edits=_both(INTERRUPTS, _count("LOC", 1, 90_000), _count("LOC", 1, 3))),
    "the timer's row goes": Scenario(edits={"t1": {INTERRUPTS: _row("LOC:")}}),
    "a CPU's column of interrupts goes": Scenario(edits={"t1": {INTERRUPTS: _column(3)}}),
    "a CPU's column of interrupts comes": Scenario(edits={"t0": {INTERRUPTS: _column(3)}}),
    "a softirq's count wraps": Scenario(
        edits=_both(SOFTIRQS, _count("SCHED", 1, WRAP - 100), _count("SCHED", 1, 5000)), expected=BAD
    ),
    "a softirq's count falls": Scenario(edits=_both(SOFTIRQS, _count("SCHED", 1, 900), _count("SCHED", 1, 3))),
    "a softirq's row goes": Scenario(edits={"t1": {SOFTIRQS: _row("SCHED:")}}),
    "a softirq's row comes": Scenario(edits={"t0": {SOFTIRQS: _row("SCHED:")}}),
    "the switches wrap": Scenario(
        edits=_both(
            SCHEDSTAT,
            lambda text: with_fields(text, "cpu1", switches=WRAP - 100),
            lambda text: with_fields(text, "cpu1", switches=5000),
        ),
        expected=BAD,
    ),
    "the switches fall": Scenario(
        edits=_both(
            SCHEDSTAT,
            lambda text: with_fields(text, "cpu1", switches=900),
            lambda text: with_fields(text, "cpu1", switches=3),
        )
    ),
    "a CPU's switches go": Scenario(edits={"t1": {SCHEDSTAT: _row("cpu1")}}),
    "a domain comes": Scenario(
        edits={"t1": {SCHEDSTAT: lambda text: with_line_behind(text, "cpu1", "domain0 7" + " 0" * 36)}},
        expected=(Status.EXPOSED,),
    ),
    "all domains go": Scenario(
        edits={end: {SCHEDSTAT: _without_domains} for end in ("t0", "t1")},
        expected=(Status.ISOLATED,),  # sysfs tells that they were isolated at boot
    ),
    "a CPU's times go": Scenario(
        edits={"t1": {STAT: _row("cpu1")}},
    ),
    "an interrupt is steered here": Scenario(
        edits={
            "t1": {"proc/irq/9/effective_affinity_list": _after("1\n"), "proc/irq/9/smp_affinity_list": _after("1\n")}
        },
        expected=(Status.EXPOSED,),
    ),
    "an audited CPU is offline for a moment": Scenario(edits={"samples/0006": {ONLINE: _after("0-2\n")}}),
    "an audited CPU goes offline": Scenario(edits={"t1": _offline(3)}),
    "another CPU goes offline": Scenario(
        edits={"t1": {**_offline(2), SCHEDSTAT: lambda text: _without_domains(without_row(text, "cpu2"))}},
        expected=(Status.ISOLATED,),
    ),
    "the spinner ends": Scenario(gone={"t1": (SPINNER,)}, hosts=BUSY),
    "the sleeper ends": Scenario(
        gone={"t1": (SLEEPER,)},
        hosts=BUSY,
        expected=(Status.ISOLATED,),  # the last sample says how far it came
    ),
    "the spinner ends in the middle": Scenario(gone=dict.fromkeys(PHASES[2:], (SPINNER,)), hosts=BUSY),
    "the sleeper ends in the middle": Scenario(gone=dict.fromkeys(PHASES[2:], (SLEEPER,)), hosts=BUSY),
    "the spinner ends while it is read": Scenario(
        gone={"t1": (f"{SPINNER}/task/5200/status", f"{SPINNER}/task/5200/schedstat")}, hosts=BUSY
    ),
    "the sleeper is read in part": Scenario(
        gone={"t1": (f"{SLEEPER}/task/5300/schedstat",)}, hosts=BUSY, expected=(Status.ISOLATED,)
    ),
    "the sleeper is not read in the middle either": Scenario(
        gone=dict.fromkeys(PHASES[2:], (f"{SLEEPER}/task/5300/schedstat",)), hosts=BUSY
    ),
    "a foreign process ends": Scenario(gone=dict.fromkeys(PHASES[2:], ("proc/6001",)), expected=(Status.ISOLATED,)),
}
"""CPUs 0 and 2 are those of others; on the busy host 1 spins and 3 sleeps, on the quiet one both idle."""
