"""Interrupts of the PMU and those that no other rule judges: each row is judged by one rule."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.activity import activity
from auditor.model import Evidence, Outcome
from auditor.rules.hardware import HARDWARE
from auditor.rules.other import JUDGED_ELSEWHERE, KINDS, NMI
from probes.interrupts import InterruptKind
from tests.auditor.build import context, edit, findings, gone, only, outcomes

RULES = ("IRQ.OTHER", "NMI.PMI", "MCE")


def test_each_kind_is_judged_once() -> None:
    groups = [*JUDGED_ELSEWHERE, *KINDS, *NMI, *HARDWARE]
    assert sorted(groups) == sorted(InterruptKind)


@pytest.mark.parametrize(
    ("label", "rule"),
    [
        ("NMI", "NMI.PMI"),
        ("PMI", "NMI.PMI"),
        ("MCE", "MCE"),
        ("MCP", "MCE"),
        ("DFR", "MCE"),
        ("THR", "MCE"),
        ("TRM", "MCE"),
        ("SPU", "IRQ.OTHER"),
        ("HYP", "IRQ.OTHER"),
        ("PMN", "IRQ.OTHER"),
        ("NEW", "IRQ.OTHER"),
        ("TMR", "IRQ.OTHER"),
    ],
)
def test_each_row_is_named_by_one_rule(label: str, rule: str) -> None:
    ctx = context(rows={label: {1: 50}})
    named = [name for name in RULES for finding in findings(ctx, name) if finding.evidence]
    assert named == [rule]


@pytest.mark.parametrize("label", ["EXT", "I/O", "AIO", "MSI", "PCF"])
def test_the_sums_of_s390_are_no_interrupts_of_their_own(label: str) -> None:
    ctx = context(rows={label: {1: 50}})
    assert all(finding.evidence == () for name in RULES for finding in findings(ctx, name))
    (one,) = [seen for cpu, seen in activity(ctx).cpus.items() if cpu == 1]
    assert label not in {seen.name for seen in one.interrupts}


@pytest.mark.parametrize(("rule", "label"), [("IRQ.OTHER", "HYP"), ("NMI.PMI", "NMI")])
@pytest.mark.parametrize(
    ("count", "outcome"), [(0, Outcome.PASS), (2, Outcome.PASS), (3, Outcome.WARN), (30, Outcome.FAIL)]
)
def test_few_are_information_and_many_are_noise(rule: str, label: str, count: int, outcome: Outcome) -> None:
    found = only(context(rows={label: {1: count, 0: 5000}}), rule)
    assert (found.outcome, found.observed) == (outcome, count / 10)
    assert found.detail == (f"{label} {count}" if count else "none counted")


def test_none_without_load_proves_nothing() -> None:
    ctx = context(rows={"NMI": {1: 0}})
    assert [outcomes(ctx, rule) for rule in RULES[:2]] == [[Outcome.NOT_EXERCISED]] * 2


def test_an_nmi_of_the_pmu_counts_once() -> None:
    found = only(context(rows={"NMI": {1: 6}, "PMI": {1: 5}}), "NMI.PMI")
    assert (found.observed, found.detail, found.origin) == (0.6, "NMI 6, PMI 5", "nmi")
    assert [item.field for item in found.evidence] == ["NMI CPU1", "PMI CPU1"]
    assert found.evidence[0] == Evidence(path="/proc/interrupts", field="NMI CPU1", value="+6")


@pytest.mark.parametrize(("rule", "label"), [("IRQ.OTHER", "HYP"), ("NMI.PMI", "NMI"), ("MCE", "MCP")])
def test_no_column_and_no_table(rule: str, label: str) -> None:
    rows: dict[str, Any] = {label: {1: None}}
    assert outcomes(context(rows=rows), rule) == [Outcome.UNKNOWN]
    for end in ("before", "after"):
        assert outcomes(edit(context(), f"{end}.counters.interrupts", gone()), rule) == [Outcome.UNKNOWN]
