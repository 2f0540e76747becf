"""The clock source."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Axis, Evidence, FixKind, Kind, Outcome
from auditor.rules.clock import FAST, SLOW
from probes.clocksource import AVAILABLE, CURRENT, Clocksource
from tests.auditor.build import context, edit, gone, only, outcomes


def clock(current: str, *available: str) -> Clocksource:
    return Clocksource(current=current, available=available or (current,))


@pytest.mark.parametrize("name", sorted(FAST))
def test_a_register_is_fast(name: str) -> None:
    found = only(context(clock=clock(name)), "CFG.CLOCK")
    assert (found.outcome, found.detail, found.fix) == (Outcome.PASS, f"the clock source is {name}", None)
    assert (found.axis, found.kind) == (Axis.READINESS, Kind.RISK)


@pytest.mark.parametrize("name", sorted(SLOW))
@pytest.mark.parametrize("hypervisor", [None, "QEMU"])
def test_a_device_is_slow_and_the_tsc_was_given_up(name: str, hypervisor: str | None) -> None:
    found = only(context(clock=clock(name, name, "acpi_pm"), hypervisor=hypervisor), "CFG.CLOCK")
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith(f"the clock source is {name}; {name} is read from a device")
    assert found.detail.endswith("so the tick never stops on a nohz_full CPU")
    assert found.evidence == (
        Evidence(path=f"/{CURRENT}", field="name", value=name),
        Evidence(path=f"/{AVAILABLE}", field="names", value=f"{name} acpi_pm"),
    )
    assert found.fix is not None
    assert (found.fix.kind, found.fix.commands) == (FixKind.FIRMWARE, ())


def test_a_tsc_that_is_there_can_be_chosen() -> None:
    found = only(context(clock=clock("hpet", "tsc", "hpet")), "CFG.CLOCK")
    assert (found.outcome, "unstable" in found.detail) == (Outcome.FAIL, False)
    assert found.fix is not None
    assert found.fix.commands == (f"echo tsc | sudo tee /{CURRENT}",)
    assert found.fix.undo == f"echo hpet | sudo tee /{CURRENT}"


def test_where_the_choice_is_not_known_nothing_is_said_of_the_tsc() -> None:
    found = only(context(clock=Clocksource(current="hpet", available=gone())), "CFG.CLOCK")
    assert (found.outcome, "unstable" in found.detail, len(found.evidence)) == (Outcome.FAIL, False, 1)


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_clock_that_was_changed_meanwhile(end: str) -> None:
    found = only(edit(context(), f"{end}.config.clock", clock("hpet", "tsc", "hpet")), "CFG.CLOCK")
    assert found.outcome is Outcome.FAIL
    assert "was changed within the window" in found.detail
    assert "hpet is read from a device" in found.detail


def test_a_name_that_nobody_knows() -> None:
    found = only(context(clock=clock("sundial")), "CFG.CLOCK")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "the clock source is sundial, of which nothing is known here",
    )


@pytest.mark.parametrize(("first", "then"), [("sundial", "hpet"), ("hpet", "sundial"), ("tsc", "hpet")])
def test_the_worse_one_counts(first: str, then: str) -> None:
    ctx = edit(context(clock=clock(first)), "after.config.clock", clock(then))
    assert outcomes(ctx, "CFG.CLOCK") == [Outcome.FAIL]


@pytest.mark.parametrize("end", ["before", "after"])
def test_without_its_file(end: str) -> None:
    value: Any = gone()
    assert outcomes(edit(context(), f"{end}.config.clock", value), "CFG.CLOCK") == [Outcome.UNKNOWN]
