"""C-states that are open: switched off, barred by PM QoS, or neither."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Axis, Evidence, Kind, Outcome
from auditor.policy import Policy
from probes.host import SourceState
from probes.pm_qos import PmQos
from tests.auditor.build import C1, C6, context, edit, findings, gone, only, outcomes

OFF = ("C6", 133, 0, 0, True)
DIR = "/sys/devices/system/cpu/cpu1"


def qos(resume: Any = None, dma: Any = None) -> PmQos:
    return PmQos(resume_us={0: None, 1: resume}, dma_latency_us=dma)


def test_a_deep_state_that_is_open() -> None:
    found = only(context(idle={1: (C1, C6)}), "CFG.CSTATE")
    assert (found.outcome, found.axis, found.kind) == (Outcome.WARN, Axis.READINESS, Kind.RISK)
    assert (found.observed, found.limit, found.unit) == (133, 20, " µs")
    assert found.detail == "C6 is open, which takes 133 µs to leave"
    assert found.evidence == (Evidence(path=f"{DIR}/cpuidle", field="C6 latency", value="133 µs"),)
    assert found.fix is not None
    assert "-gt 20 ] && echo 1 | sudo tee $s/disable" in found.fix.commands[0]


def test_cpus_that_are_alike_share_a_finding_and_its_fix() -> None:
    deep = context(audited=(1, 3, 5), idle={1: (C1, ("C6", 133, 7, 99, False)), 3: (C1,), 5: (C1, C6)})
    found = findings(deep, "CFG.CSTATE")
    assert [(item.cpus, item.outcome) for item in found] == [((1, 5), Outcome.WARN), ((3,), Outcome.PASS)]
    assert found[0].fix is not None
    assert [f"cpu{cpu}/" in line for cpu, line in zip((1, 5), found[0].fix.commands, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("states", "pm_qos", "outcome", "detail"),
    [
        ((C1, OFF), qos(), Outcome.PASS, "C1 is open, which takes 2 µs to leave"),
        ((C1, C6), qos(resume=100), Outcome.PASS, "C1 is open, which takes 2 µs to leave; PM QoS allows 100 µs"),
        ((C1, C6), qos(dma=132), Outcome.PASS, "C1 is open, which takes 2 µs to leave; PM QoS allows 132 µs"),
        ((C1, C6), qos(dma=133), Outcome.WARN, "C6 is open, which takes 133 µs to leave; PM QoS allows 133 µs"),
        ((C1, C6), qos(resume=0), Outcome.PASS, "no state but polling is open; PM QoS allows 0 µs"),
        ((OFF,), qos(), Outcome.PASS, "no state but polling is open"),
        ((C1, C6), qos(gone(), gone()), Outcome.WARN, "C6 is open, which takes 133 µs to leave"),
    ],
)
def test_what_bars_it(states: Any, pm_qos: PmQos, outcome: Outcome, detail: str) -> None:
    found = only(context(idle={1: states}, pm_qos=pm_qos), "CFG.CSTATE")
    assert (found.outcome, found.detail) == (outcome, detail)
    assert (found.fix is None) is (outcome is Outcome.PASS)


def test_what_bars_it_is_shown() -> None:
    found = only(context(idle={1: (C1, C6)}, pm_qos=qos(10, 5)), "CFG.CSTATE")
    assert found.evidence[1:] == (
        Evidence(path=f"{DIR}/power/pm_qos_resume_latency_us", field="µs", value="10"),
        Evidence(path="/dev/cpu_dma_latency", field="µs", value="5"),
    )


@pytest.mark.parametrize("end", ["before", "after"])
def test_the_deeper_end_counts(end: str) -> None:
    ctx = context(idle={1: (C1, C6)}, pm_qos=qos(dma=5))
    assert outcomes(ctx, "CFG.CSTATE") == [Outcome.PASS]
    assert outcomes(edit(ctx, f"{end}.config.pm_qos", qos()), "CFG.CSTATE") == [Outcome.WARN]
    assert outcomes(edit(ctx, f"{end}.config.pm_qos", gone()), "CFG.CSTATE") == [Outcome.WARN]


@pytest.mark.parametrize(("budget", "outcome"), [(132, Outcome.WARN), (133, Outcome.PASS)])
def test_the_budget_of_the_policy(budget: int, outcome: Outcome) -> None:
    found = only(context(idle={1: (C1, C6)}, policy=Policy(wakeup_budget_us=budget)), "CFG.CSTATE")
    assert (found.outcome, found.limit) == (outcome, budget)


@pytest.mark.parametrize(
    ("state", "driver", "hypervisor", "outcome"),
    [
        (SourceState.MISSING, "none", None, Outcome.PASS),
        (SourceState.MISSING, "intel_idle", None, Outcome.UNKNOWN),
        (SourceState.MISSING, "none", "KVM", Outcome.NOT_APPLICABLE),
        (SourceState.DENIED, "none", "KVM", Outcome.UNKNOWN),
    ],
)
@pytest.mark.parametrize("end", ["before", "after"])
def test_without_states(end: str, state: SourceState, driver: str, hypervisor: str | None, outcome: Outcome) -> None:
    ctx = context(idle_driver=driver, hypervisor=hypervisor)
    assert outcomes(edit(ctx, f"{end}.counters.cpuidle.1", gone("cpuidle", state)), "CFG.CSTATE") == [outcome]
