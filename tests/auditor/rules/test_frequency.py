"""Governors: which hold the frequency, and which of them can't be judged without an interrupt."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from auditor.model import Axis, Evidence, Kind, Outcome
from probes.cpufreq import FrequencyPolicy
from probes.host import SourceState
from tests.auditor.build import context, edit, findings, gone, only, outcomes

DIR = "sys/devices/system/cpu/cpufreq"


def policy(governor: str, driver: str = "acpi-cpufreq", low: int = 800_000, path: str = "policy1") -> FrequencyPolicy:
    return FrequencyPolicy(path=f"{DIR}/{path}", driver=driver, governor=governor, min_khz=low, max_khz=3_000_000)


def one(item: FrequencyPolicy) -> Any:
    return edit(edit(context(), "before.config.cpufreq", {1: item}), "after.config.cpufreq", {1: item})


def test_performance_holds() -> None:
    found = only(context(), "CFG.FREQ")
    assert (found.outcome, found.axis, found.kind) == (Outcome.PASS, Axis.READINESS, Kind.RISK)
    assert found.detail == "governor performance of acpi-cpufreq, 800 to 3000 MHz"
    assert found.evidence == (Evidence(path=f"/{DIR}/policy1/scaling_governor", field="governor", value="performance"),)
    assert found.fix is None


@pytest.mark.parametrize("governor", ["powersave", "ondemand", "schedutil", "conservative", "userspace"])
def test_others_are_a_warning(governor: str) -> None:
    found = only(context(governors={1: governor}), "CFG.FREQ")
    assert (found.outcome, found.detail) == (
        Outcome.WARN,
        f"governor {governor} of acpi-cpufreq, 800 to 3000 MHz: a CPU that wakes starts slow",
    )
    assert found.fix is not None
    assert found.fix.commands == (f"echo performance | sudo tee /{DIR}/policy1/scaling_governor",)
    assert found.fix.undo == f"echo {governor} | sudo tee /{DIR}/policy1/scaling_governor"


@pytest.mark.parametrize(
    ("driver", "governor", "outcome"),
    [
        ("intel_pstate", "powersave", Outcome.UNKNOWN),
        ("amd-pstate-epp", "powersave", Outcome.UNKNOWN),
        ("intel_pstate", "performance", Outcome.PASS),
        ("intel_cpufreq", "powersave", Outcome.WARN),
        ("amd-pstate", "powersave", Outcome.WARN),
    ],
)
def test_in_active_mode_the_hardware_chooses(driver: str, governor: str, outcome: Outcome) -> None:
    found = only(one(policy(governor, driver)), "CFG.FREQ")
    assert found.outcome is outcome
    assert ("energy_performance_preference" in found.detail) is (outcome is Outcome.UNKNOWN)
    assert (found.fix is not None) is (outcome is Outcome.WARN)


def test_a_frequency_without_a_range() -> None:
    found = only(one(policy("ondemand", low=3_000_000)), "CFG.FREQ")
    assert (found.outcome, found.detail) == (Outcome.WARN, "governor ondemand of acpi-cpufreq, 3000 to 3000 MHz")


def test_cpus_that_are_alike_share_a_finding() -> None:
    found = findings(context(audited=(1, 3, 5), governors={1: "schedutil", 5: "schedutil"}), "CFG.FREQ")
    assert [(item.cpus, item.outcome) for item in found] == [((1, 5), Outcome.WARN), ((3,), Outcome.PASS)]
    assert found[0].fix is not None
    assert len(found[0].fix.commands) == 2


def test_a_governor_of_a_strange_name_is_not_typed_into_a_shell() -> None:
    found = only(one(policy("$(reboot)")), "CFG.FREQ")
    assert found.fix is not None
    assert found.fix.undo == ""
    assert [shlex.split(line)[:2] for line in found.fix.commands] == [["echo", "performance"]]


@pytest.mark.parametrize("end", ["before", "after"])
def test_the_worse_end_counts(end: str) -> None:
    found = only(edit(context(), f"{end}.config.cpufreq", {1: policy("ondemand")}), "CFG.FREQ")
    assert found.outcome is Outcome.WARN
    assert found.fix is not None
    assert bool(found.fix.commands) is (end == "after")


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("value", [{}, {1: gone(state=SourceState.DENIED)}, gone(state=SourceState.DENIED)])
@pytest.mark.parametrize("hypervisor", [None, "KVM"])
def test_what_is_not_known(end: str, value: Any, hypervisor: str | None) -> None:
    ctx = edit(context(hypervisor=hypervisor), f"{end}.config.cpufreq", value)
    assert outcomes(ctx, "CFG.FREQ") == [Outcome.UNKNOWN]


@pytest.mark.parametrize(
    ("hypervisor", "outcome"),
    [("KVM", Outcome.NOT_APPLICABLE), (None, Outcome.UNKNOWN), ("unknown", Outcome.UNKNOWN)],
)
def test_without_a_driver(hypervisor: str | None, outcome: Outcome) -> None:
    assert outcomes(context(hypervisor=hypervisor, governors=gone()), "CFG.FREQ") == [outcome]
