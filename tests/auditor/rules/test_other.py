"""Interrupts that no other rule judges: none goes unnamed."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Evidence, Outcome
from tests.auditor.build import context, edit, gone, only, outcomes


@pytest.mark.parametrize(
    ("count", "outcome"), [(0, Outcome.PASS), (2, Outcome.PASS), (3, Outcome.WARN), (30, Outcome.FAIL)]
)
def test_few_are_information_and_many_are_noise(count: int, outcome: Outcome) -> None:
    found = only(context(rows={"TRM": {1: count, 0: 5000}}), "IRQ.OTHER")
    assert (found.outcome, found.observed) == (outcome, count / 10)
    assert found.detail == (f"TRM {count}" if count else "none counted")


def test_none_without_load_proves_nothing() -> None:
    assert outcomes(context(rows={"NMI": {1: 0}}), "IRQ.OTHER") == [Outcome.NOT_EXERCISED]


def test_an_nmi_of_the_pmu_counts_once() -> None:
    found = only(context(rows={"NMI": {1: 6}, "PMI": {1: 5}, "MCP": {1: 1}}), "IRQ.OTHER")
    assert (found.observed, found.detail) == (0.7, "NMI 6, PMI 5, MCP 1")
    assert [item.field for item in found.evidence] == ["NMI CPU1", "PMI CPU1", "MCP CPU1"]
    assert found.evidence[0] == Evidence(path="/proc/interrupts", field="NMI CPU1", value="+6")


def test_no_column_and_no_table() -> None:
    rows: dict[str, Any] = {"NMI": {1: None}}
    assert outcomes(context(rows=rows), "IRQ.OTHER") == [Outcome.UNKNOWN]
    for end in ("before", "after"):
        assert outcomes(edit(context(), f"{end}.counters.interrupts", gone()), "IRQ.OTHER") == [Outcome.UNKNOWN]
