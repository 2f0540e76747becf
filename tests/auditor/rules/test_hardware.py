"""Machine checks, polls, thresholds, heat."""

from __future__ import annotations

import pytest

from auditor.model import Axis, Evidence, Kind, Outcome
from tests.auditor.build import context, only, outcomes


@pytest.mark.parametrize(
    ("label", "count", "outcome"),
    [
        ("MCE", 0, Outcome.PASS),
        ("MCE", 1, Outcome.FAIL),
        ("DFR", 1, Outcome.FAIL),
        ("THR", 1, Outcome.WARN),
        ("THR", 500, Outcome.WARN),
        ("TRM", 1, Outcome.WARN),
        ("TRM", 15, Outcome.WARN),
        ("TRM", 16, Outcome.FAIL),
        ("MCP", 1, Outcome.PASS),
        ("MCP", 2, Outcome.PASS),
        ("MCP", 3, Outcome.WARN),
        ("MCP", 4, Outcome.FAIL),
    ],
)
def test_each_row(label: str, count: int, outcome: Outcome) -> None:
    found = only(context(rows={label: {1: count}}), "MCE")
    assert (found.outcome, found.axis, found.kind) == (outcome, Axis.ISOLATION, Kind.MEASURED)
    assert (found.observed, found.unit, found.origin) == (count / 10, "/s", "hardware")
    assert found.detail == (f"{label} {count}" if count else "none counted")
    assert (found.fix is not None) is (outcome in (Outcome.WARN, Outcome.FAIL))
    if count:
        assert found.evidence == (Evidence(path="/proc/interrupts", field=f"{label} CPU1", value=f"+{count}"),)


@pytest.mark.parametrize(("count", "outcome"), [(4, Outcome.PASS), (5, Outcome.WARN)])
def test_a_long_window_holds_more_polls(count: int, outcome: Outcome) -> None:
    assert outcomes(context(window_s=900, rows={"MCP": {1: count}}), "MCE") == [outcome]


def test_the_worst_row_decides() -> None:
    found = only(context(rows={"MCP": {1: 1}, "TRM": {1: 2}, "MCE": {1: 1}}), "MCE")
    assert (found.outcome, found.detail) == (Outcome.FAIL, "MCP 1, TRM 2, MCE 1")


def test_a_machine_check_outranks_a_row_without_a_column() -> None:
    assert outcomes(context(rows={"MCE": {1: 1}, "TRM": {1: None}}), "MCE") == [Outcome.FAIL]
    assert outcomes(context(rows={"MCE": {1: 0}, "TRM": {1: None}}), "MCE") == [Outcome.UNKNOWN]


def test_a_machine_without_such_rows() -> None:
    found = only(context(), "MCE")
    assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "/proc/interrupts has no such row here")
