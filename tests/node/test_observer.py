"""The observer effect: what the tool does to the CPUs that it audits, seen by tracepoints in a private instance.

How it is bounded. The events of ``drivers/observer.py`` are on before the first window and off after the last, so that
switching them disturbs none. Two kinds of evidence, from one boot without any other work:

- Caused: every wake-up, migration, interrupt or work item that the tool's own threads send to an audited CPU, from exec
  to exit, and everything they do there. It must be none. None in N seconds bounds the rate at 3/N with 95 % confidence;
  the test's own windows make N at least 45 s, so below 0.07/s.
- Happened: windows of ten seconds with and without the tool alternate. What happens on an audited CPU comes in bursts
  (an interrupt and what follows): those are counted, and if nothing differed, the tool's windows would hold as many as
  they do with a probability above 0.001 (two Poisson counts of one rate, given their sum).

Interrupts that merely arrive while the tool is running are the second kind, not the first. That the method sees
anything is shown by a program on CPU 1 and by wake-ups that the driver itself sends there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.node.audits import ISOLATED, PYTHON
from tests.node.fleet import Scenario
from tests.node.node import NodeResult
from tests.node.trace import Event, between, caused, chance, family, happened, parse_trace, shown, visits

OBSERVER = Scenario(
    name="observer",
    append=ISOLATED,
    tcg="single",  # tracepoints are switched: see LATE_CPUS in machine.py
    script=f"{PYTHON} -m tests.node.drivers.observer $OUT",
)
pytestmark = [pytest.mark.node, pytest.mark.scenario(OBSERVER)]

AUDITED = frozenset({1, 3})
TOOL = ("with-0", "with-1", "own")
UNLIKELY = 0.001


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of the trace: from ``start_s`` to ``end_s`` by the trace clock; of a run also its window."""

    start_s: float
    end_s: float
    pid: int
    code: int
    window: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Traced:
    """Both traces, their parts by name."""

    sent: list[Event]
    """Who sent something to a CPU, on all CPUs."""
    there: list[Event]
    """What happened on the audited CPUs."""
    phases: dict[str, Phase]
    facts: dict[str, Any]

    def during(self, name: str) -> list[Event]:
        """All events of a phase."""
        phase = self.phases[name]
        return between([*self.sent, *self.there], phase.start_s, phase.end_s)

    def within(self, name: str) -> tuple[list[Event], float]:
        """What happened on the audited CPUs in a window, and its length in seconds."""
        start, end = self.phases[name].window
        return between(self.there, start, end), end - start


def window_of(out: Path, facts: dict[str, Any]) -> tuple[float, float]:
    """From the tool's own report, by the trace clock; a window without the tool is the whole phase."""
    report = out / f"{facts['name']}.json"
    if not report.exists():
        return facts["start_s"], facts["end_s"]
    told = json.loads(report.read_text())["window"]
    start = datetime_s(told["started"]) - facts["wall_less_monotonic_s"]
    return start, start + told["window_ms"] / 1000


def datetime_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@cache
def read(out: Path) -> Traced:
    facts = json.loads((out / "facts.json").read_text())
    phases = {
        phase["name"]: Phase(
            start_s=phase["start_s"],
            end_s=phase["end_s"],
            pid=phase.get("pid", 0),
            code=phase.get("code", 0),
            window=window_of(out, phase),
        )
        for phase in facts["phases"]
    }
    sent, there = (parse_trace((out / f"{name}.txt").read_text()) for name in ("sent", "there"))
    return Traced(sent=sent, there=there, phases=phases, facts=facts)


@pytest.fixture
def traced(guest: NodeResult) -> Traced:
    assert guest.code == 0, guest.stderr
    return read(guest.out)


@pytest.mark.parametrize("name", ["sent", "there"])
def test_nothing_is_lost_and_everything_was_on(traced: Traced, name: str) -> None:
    for cpu, stats in traced.facts[name]["stats"].items():
        assert "\noverrun: 0\n" in stats, cpu
    wanted = {
        "sent": {"sched/sched_waking", "sched/sched_migrate_task", "ipi/ipi_send_cpu", "ipi/ipi_send_cpumask"},
        "there": {"irq", "irq_vectors", "sched/sched_switch", "timer/hrtimer_expire_entry", "timer/tick_stop"},
    }
    assert wanted[name] <= set(traced.facts[name]["events"])


@pytest.mark.parametrize("name", TOOL)
def test_the_window_lies_within_its_phase(traced: Traced, name: str) -> None:
    phase = traced.phases[name]
    assert phase.start_s < phase.window[0] < phase.window[1] < phase.end_s
    assert phase.window[1] - phase.window[0] >= 10
    assert phase.code in (0, 4), "isolated, disturbed, or not exercised on a quiet machine"


@pytest.mark.parametrize("name", TOOL)
def test_the_tool_causes_nothing_on_the_audited_cpus(traced: Traced, name: str) -> None:
    """From exec to exit: its start and its report as well."""
    pids = family(traced.sent, traced.phases[name].pid)
    during = traced.during(name)
    assert sum(event.pid in pids for event in during) > 100, "its own events are in the trace"
    found = caused(during, pids, AUDITED)
    assert found == [], shown(found)


@pytest.mark.parametrize("cpu", sorted(AUDITED))
def test_as_much_happens_with_the_tool_as_without(traced: Traced, cpu: int) -> None:
    without = [traced.within(name) for name in ("without-0", "without-1")]
    with_ = [traced.within(name) for name in ("with-0", "with-1")]
    counts = [sum(visits(events, cpu) for events, _ in windows) for windows in (without, with_)]
    seconds = [sum(length for _, length in windows) for windows in (without, with_)]
    kinds = [
        sum((happened(events, {cpu}) for events, _ in windows), start=happened([], ())) for windows in (without, with_)
    ]
    assert chance(counts[0], seconds[0], counts[1], seconds[1]) > UNLIKELY, f"{counts} in {seconds} s: {kinds}"


def test_reading_the_own_workload_does_not_wake_it(traced: Traced) -> None:
    """It wakes on CPU 1 all the time, by its own timer: the timer's thread or interrupt, on whichever CPU."""
    events, _ = traced.within("own")
    own = traced.facts["own"]
    assert sum(event.pid == own and event.name == "sched_switch" for event in events) > 50
    start, end = traced.phases["own"].window
    woken = [e for e in between(traced.sent, start, end) if e.name == "sched_waking" and f"pid={own} " in e.text]
    assert len(woken) > 50
    others = [e for e in woken if not (e.by_interrupt or e.pid in (0, own) or e.comm.startswith("ktimers/"))]
    assert others == [], shown(others)


def test_the_method_sees_a_program_on_an_audited_cpu(traced: Traced) -> None:
    events = traced.during("control")
    found = caused(events, {traced.phases["control"].pid}, {1})
    assert {"sched_switch", "sched_migrate_task"} & {event.name for event in found}, shown(events)
    assert visits(events, 1) > 0


def test_the_method_sees_a_wake_up_from_another_cpu(traced: Traced) -> None:
    found = caused(traced.during("wakes"), {traced.phases["wakes"].pid}, {1})
    assert "sched_waking" in {event.name for event in found}
    assert all(event.cpu in (0, 2) for event in found)
