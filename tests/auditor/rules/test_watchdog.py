"""The lockup detectors: where they run, what that costs, what to write."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Axis, Evidence, Kind, Outcome
from probes.host import ProbeError, SourceState
from tests.auditor.build import context, cpus, edit, findings, gone, kernel_settings, only, outcomes

PATH = "/proc/sys/kernel/watchdog_cpumask"


def test_a_mask_that_holds_the_cpu() -> None:
    found = only(context(sysctls=kernel_settings(cpus(0, 1))), "CFG.WATCHDOG")
    assert (found.outcome, found.axis, found.kind) == (Outcome.WARN, Axis.ISOLATION, Kind.RISK)
    assert found.detail == (
        "the lockup detectors run here: a timer every 4 s wakes migration/N, "
        "the hard-lockup detector comes as an NMI or a timer"
    )
    assert found.evidence[0] == Evidence(path="/proc/sys/kernel/watchdog", field="kernel.watchdog", value="1")
    assert found.evidence[-1] == Evidence(path=PATH, field="kernel.watchdog_cpumask", value="0-1")
    assert found.fix is not None
    assert found.fix.commands == (f"echo 0 | sudo tee {PATH}",)
    assert found.fix.undo == f"echo 0-1 | sudo tee {PATH}"
    assert found.fix.text.endswith("; nohz_full does so from boot on")


def test_cpus_that_are_alike_share_a_finding() -> None:
    found = findings(context(audited=(1, 3, 5), sysctls=kernel_settings(cpus(0, 1, 5))), "CFG.WATCHDOG")
    assert [(item.cpus, item.outcome) for item in found] == [((1, 5), Outcome.WARN), ((3,), Outcome.PASS)]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"nmi_watchdog": 0}, "the lockup detectors run here: a timer every 4 s wakes migration/N"),
        ({"watchdog_thresh": 20}, "a timer every 8 s wakes"),
        ({"watchdog_thresh": gone()}, "a timer every few seconds wakes"),
        ({"soft_watchdog": 0}, "the lockup detectors run here: the hard-lockup detector comes as an NMI or a timer"),
        ({"soft_watchdog": 0, "nmi_watchdog": 0}, "here: within the window they were switched"),
    ],
)
def test_what_runs(given: dict[str, Any], text: str) -> None:
    found = only(context(sysctls=kernel_settings(cpus(0, 1), **given)), "CFG.WATCHDOG")
    assert found.outcome is Outcome.WARN
    assert text in found.detail


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (kernel_settings(cpus(0)), "the lockup detectors run on CPUs 0 only"),
        (kernel_settings(cpus(0, 1), watchdog=0), "the lockup detectors are off"),
        (kernel_settings(cpus(0, 1), watchdog_thresh=0), "the lockup detectors are off"),
        (kernel_settings(gone(), watchdog=0), "the lockup detectors are off"),
    ],
)
def test_where_they_do_not_run(settings: Any, text: str) -> None:
    found = only(context(sysctls=settings), "CFG.WATCHDOG")
    assert (found.outcome, found.detail, found.fix) == (Outcome.PASS, text, None)


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize(
    "value",
    [
        gone(),
        kernel_settings(gone()),
        kernel_settings(cpus(0), watchdog=gone(state=SourceState.DENIED)),
        kernel_settings(cpus(0), watchdog=gone()),  # the other end has it
    ],
)
def test_what_is_not_known_at_either_end(end: str, value: Any) -> None:
    assert outcomes(edit(context(), f"{end}.config.sysctls", value), "CFG.WATCHDOG") == [Outcome.UNKNOWN]


@pytest.mark.parametrize("end", ["before", "after"])
def test_either_end_counts(end: str) -> None:
    ctx = edit(context(), f"{end}.config.sysctls", kernel_settings(cpus(0, 1)))
    assert outcomes(ctx, "CFG.WATCHDOG") == [Outcome.WARN]


def test_a_kernel_without_them() -> None:
    found = only(context(sysctls=kernel_settings(gone(), watchdog=gone())), "CFG.WATCHDOG")
    assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "the kernel has no lockup detector")


def test_a_mask_of_audited_cpus_only_gives_way_to_the_others() -> None:
    nohz = ProbeError("x", "no", SourceState.MISSING)
    found = only(context(sysctls=kernel_settings(cpus(1)), nohz_full=nohz), "CFG.WATCHDOG")
    assert found.fix is not None
    assert found.fix.text == "let the lockup detectors run on CPUs 0 only"
    assert (found.fix.commands, found.fix.undo) == ((f"echo 0 | sudo tee {PATH}",), f"echo 1 | sudo tee {PATH}")
