"""What was asked for against what is in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.model import Evidence, Outcome, Setting
from auditor.rules.config import settings
from probes.host import SourceState
from probes.kernel_config import KernelConfig
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, only, outcomes

RCUO = Thread(tid=30, name="rcuop/1", kernel=True, on=cpus(0))


def test_what_is_asked_for_is_in_force() -> None:
    found = only(context(), "CFG.CMDLINE")
    assert (found.outcome, found.detail) == (Outcome.PASS, "what the command line asks for is in force")


def test_nothing_is_asked_for() -> None:
    found = only(context(cmdline="root=/dev/vda1 quiet", isolated=cpus(), nohz_full=cpus()), "CFG.CMDLINE")
    assert (found.outcome, found.detail) == (Outcome.PASS, "the command line asks for no isolation")


def test_a_parameter_that_is_lost_fails_with_the_reason_and_the_line() -> None:
    ctx = context(audited=(1, 5), control=(0, 2), cmdline="isolcpus=managed-irq,1,5", isolated=cpus(), nohz_full=cpus())
    found = findings(ctx, "CFG.CMDLINE")[0]
    assert (found.outcome, found.cpus, found.title) == (Outcome.FAIL, (1, 5), "kernel command line: isolcpus")
    assert found.evidence == (Evidence(path="/proc/cmdline", field="isolcpus", value="managed-irq,1,5"),)
    assert found.fix is not None
    assert found.fix.boot["isolcpus"] == "domain,managed_irq,1,5"


def test_a_loss_that_does_not_touch_the_audited_cpus_is_a_warning() -> None:
    """The boot CPU is taken out of nohz_full; the audited one is not concerned."""
    found = [
        f
        for f in findings(context(cmdline="isolcpus=1 nohz_full=0-1 irqaffinity=0", nohz_full=cpus(1)), "CFG.CMDLINE")
        if "nohz_full" in f.title
    ]
    assert [(f.outcome, f.cpus, f.fix) for f in found] == [(Outcome.WARN, (1,), None)]


@pytest.mark.parametrize(
    ("given", "name", "path"),
    [
        ({"isolated": cpus()}, "isolcpus", "/sys/devices/system/cpu/isolated"),
        ({"nohz_full": cpus(2)}, "nohz_full", "/sys/devices/system/cpu/nohz_full"),
    ],
)
def test_effects_outrank_what_the_line_should_have_done(given: dict[str, Any], name: str, path: str) -> None:
    found = only(context(**given), "CFG.CMDLINE")
    in_force = "2" if name == "nohz_full" else "none"
    assert (found.outcome, found.cpus) == (Outcome.FAIL, (1,))
    assert found.detail == f"{name} asks for CPUs 1, in force are {in_force}"
    assert found.evidence[0].path == path
    assert found.fix is not None


@pytest.mark.parametrize("given", [{"isolated": gone()}, {"nohz_full": gone(state=SourceState.DENIED)}])
def test_an_effect_that_can_not_be_read_accuses_nobody(given: dict[str, Any]) -> None:
    assert outcomes(context(**given), "CFG.CMDLINE") == [Outcome.PASS]


def test_isolation_of_other_cpus_only_is_a_warning() -> None:
    ctx = context(control=(0, 2), cmdline="isolcpus=2", isolated=cpus(2), nohz_full=cpus())
    found = findings(ctx, "CFG.CMDLINE")[-1]
    assert (found.outcome, found.detail) == (
        Outcome.WARN,
        "the command line isolates CPUs 2, none of the audited ones",
    )


@pytest.mark.parametrize("given", [{"cmdline": gone("proc/cmdline")}, {"release": "custom"}])
def test_without_the_line_or_the_release_it_is_unknown(given: dict[str, Any]) -> None:
    assert outcomes(context(**given), "CFG.CMDLINE") == [Outcome.UNKNOWN]


@pytest.mark.parametrize(
    ("nohz", "cmdline", "outcome", "detail", "fix"),
    [
        (cpus(1), None, Outcome.PASS, "in force for 1", False),
        (cpus(), "quiet", Outcome.WARN, "in force for no CPU; the tick interrupts a spinning workload here", True),
        (cpus(2), None, Outcome.FAIL, "in force for 2; the tick interrupts a spinning workload here", True),
        (
            gone(),
            "quiet",
            Outcome.WARN,
            "the kernel has no CONFIG_NO_HZ_FULL; the tick interrupts a spinning workload here",
            False,
        ),
        (
            gone(),
            None,
            Outcome.FAIL,
            "the kernel has no CONFIG_NO_HZ_FULL; the tick interrupts a spinning workload here",
            False,
        ),
        (gone(state=SourceState.DENIED), None, Outcome.UNKNOWN, "/x: denied for this test", False),
        (cpus(), gone(), Outcome.WARN, "in force for no CPU; the tick interrupts a spinning workload here", True),
    ],
)
def test_nohz_full(nohz: Any, cmdline: Any, outcome: Outcome, detail: str, fix: bool) -> None:
    found = only(context(nohz_full=nohz, cmdline=cmdline), "CFG.NOHZ")
    assert (found.outcome, found.detail, found.fix is not None) == (outcome, detail, fix)


@pytest.mark.parametrize(
    ("given", "outcome", "detail"),
    [
        ({}, Outcome.PASS, "nohz_full offloads the callbacks of this CPU"),
        ({"nohz_full": cpus(), "threads": [RCUO]}, Outcome.PASS, "its rcuo thread is active"),
        (
            {"nohz_full": cpus(), "threads": [replace(RCUO, name="rcuos/1"), replace(RCUO, tid=31, name="rcuop/0")]},
            Outcome.PASS,
            "its rcuo thread is active",
        ),
        (
            {"nohz_full": cpus(), "threads": [replace(RCUO, state="P")]},
            Outcome.WARN,
            "RCU callbacks run on this CPU",
        ),
        ({"nohz_full": cpus()}, Outcome.WARN, "RCU callbacks run on this CPU"),
        (
            {"nohz_full": cpus(), "threads": [RCUO], "cmdline": "rcu_nocbs=0"},
            Outcome.WARN,
            "RCU callbacks run on this CPU",
        ),
        (
            {"nohz_full": cpus(), "threads": [replace(RCUO, kernel=False)]},
            Outcome.WARN,
            "RCU callbacks run on this CPU",
        ),
        ({"nohz_full": cpus(), "complete": False}, Outcome.UNKNOWN, "the kernel threads can't tell from here"),
        (
            {"nohz_full": gone(), "threads": [RCUO], "cmdline": gone()},
            Outcome.UNKNOWN,
            "the kernel threads can't tell from here",
        ),
    ],
)
def test_offloading_of_rcu_callbacks(given: dict[str, Any], outcome: Outcome, detail: str) -> None:
    found = only(context(**given), "CFG.RCU")
    assert (found.outcome, found.detail) == (outcome, detail)
    assert (found.fix is not None) is (outcome is Outcome.WARN)


def test_offloading_is_unknown_without_threads() -> None:
    ctx = edit(context(nohz_full=cpus()), "after.census", gone("proc"))
    assert outcomes(ctx, "CFG.RCU") == [Outcome.UNKNOWN]


def test_settings_that_are_in_force() -> None:
    assert settings(context()) == (
        Setting(name="isolcpus (domain)", requested="1", effective="1", path="/sys/devices/system/cpu/isolated"),
        Setting(name="isolcpus (managed_irq)", requested="1", effective="not visible", path="/proc/cmdline"),
        Setting(name="nohz_full", requested="1", effective="1", path="/sys/devices/system/cpu/nohz_full"),
        Setting(name="rcu_nocbs", requested="1", effective="none", path="/proc/*/status (rcuop/N)"),
        Setting(name="irqaffinity", requested="0", effective="0", path="/proc/irq/default_smp_affinity"),
    )


def test_settings_that_nobody_asked_for_or_nobody_can_read() -> None:
    ctx = context(cmdline="quiet", isolated=cpus(), nohz_full=gone(), complete=False)
    found = {
        item.name: (item.requested, item.effective) for item in settings(edit(ctx, "after.config.affinity", gone()))
    }
    assert found == {
        "isolcpus (domain)": ("-", "none"),
        "isolcpus (managed_irq)": ("-", "not visible"),
        "nohz_full": ("-", "unknown (missing for this test)"),
        "rcu_nocbs": ("-", "not visible"),
        "irqaffinity": ("-", "unknown (missing for this test)"),
    }
    assert settings(context(cmdline=gone("proc/cmdline"))) == (
        Setting(name="command line", requested="unknown (missing for this test)", effective="", path="/proc/cmdline"),
    )


@pytest.mark.parametrize(
    ("config", "version", "expected"),
    [
        (None, "#1 SMP", []),
        (None, "#1 SMP PREEMPT_RT Debian", [("PREEMPT_RT", "/proc/sys/kernel/version")]),
        (KernelConfig(path="boot/config-6", hz=None, flags=frozenset()), "#1", []),
        (
            KernelConfig(path="boot/config-6", hz=250, flags=frozenset({"RCU_NOCB_CPU", "NO_HZ_FULL"})),
            "#1 SMP PREEMPT_RT",
            [("HZ 250, NO_HZ_FULL, PREEMPT_RT, RCU_NOCB_CPU", "/boot/config-6")],
        ),
    ],
)
def test_what_the_kernel_was_built_with(
    config: KernelConfig | None, version: str, expected: list[tuple[str, str]]
) -> None:
    ctx = edit(edit(context(), "facts.kernel.config", config), "facts.kernel.version", version)
    assert [(item.effective, item.path) for item in settings(ctx) if item.name == "kernel"] == expected


def test_a_parameter_that_is_not_in_force_is_part_of_what_it_lets_in() -> None:
    asks: dict[str, Any] = {"cmdline": "isolcpus=managed-irq,1 nohz_full=1-99", "isolated": cpus(), "nohz_full": cpus()}
    found = {f.title.partition(": ")[2]: f.origin for f in findings(context(**asks), "CFG.CMDLINE")}
    assert found == {"isolcpus": "door:domain", "nohz_full": "tick"}
    (lost,) = findings(context(cmdline="isolcpus=1", isolated=cpus(), nohz_full=cpus()), "CFG.CMDLINE")
    assert (lost.outcome, lost.origin) == (Outcome.FAIL, "door:domain")
    assert only(context(), "CFG.CMDLINE").origin == ""
