"""The signature of the fair server: triples of tick, reschedule and call, about one a second, without a switch."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, Outcome
from auditor.rules.fair_server import triples
from tests.auditor.build import context, edit, gone, only, outcomes


def counted(loc: int, res: int, cal: int, **given: Any) -> Context:
    values: dict[str, Any] = {"release": "6.12.0", "busy": {1: 1.0}, **given}
    return context(rows={"LOC": {1: loc}, "RES": {1: res}, "CAL": {1: cal}}, **values)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ((11, 11, 11), 11),
        ((11, 11, 13), 11),
        ((11, 11, 14), 0),
        ((15, 15, 15), 15),
        ((16, 16, 16), 0),  # more than one and a half a second
        ((10, 12, 11), 10),
        ((15, 10, 10), 10),  # seen on a booted node: five ticks are something else's
        ((21, 10, 10), 0),
        ((7, 10, 10), 0),
        ((10, 10, 13), 0),
        ((11, 0, 11), 0),
        ((0, 0, 0), 0),
        ((2500, 11, 11), 0),
    ],
)
def test_the_signature(counts: tuple[int, int, int], found: int) -> None:
    ctx = counted(*counts)
    assert triples(ctx, 1) == found
    assert outcomes(ctx, "FAIRSRV") == [Outcome.WARN if found else Outcome.PASS]


def test_a_fifth_of_many_is_alike() -> None:
    assert triples(counted(110, 100, 120, window_s=100), 1) == 100
    assert triples(counted(110, 100, 121, window_s=100), 1) == 0


def test_foreign_switches_may_have_come_with_triples_of_their_own() -> None:
    assert triples(counted(11, 11, 11, switches={1: 4}), 1) == 7
    assert triples(counted(11, 11, 11, switches={1: 11}), 1) == 0


def test_what_is_shown() -> None:
    found = only(counted(11, 11, 11), "FAIRSRV")
    assert (found.observed, found.limit, found.unit, found.origin) == (1.1, 0, "/s", "fair-server")
    assert found.detail == "11 triples of tick, reschedule and function call without a switch"
    assert found.evidence == tuple(
        Evidence(path="/proc/interrupts", field=f"{label} CPU1", value="+11") for label in ("LOC", "RES", "CAL")
    )
    assert found.per_second == pytest.approx(3.3)
    assert found.cost_us_per_s == pytest.approx(5.5)
    assert found.fix is not None
    assert found.fix.commands == ("echo 0 | sudo tee /sys/kernel/debug/sched/fair_server/cpu1/runtime",)
    assert "starve" in found.fix.text


def test_none_seen() -> None:
    found = only(counted(0, 0, 0), "FAIRSRV")
    assert (found.detail, found.fix, found.evidence) == ("no such triple", None, ())


@pytest.mark.parametrize("release", ["6.11.0", "5.10.0", "4.18.0-394.el8.x86_64"])
def test_kernels_before_6_12_have_none(release: str) -> None:
    ctx = counted(11, 11, 11, release=release)
    assert triples(ctx, 1) == 0
    assert outcomes(ctx, "FAIRSRV") == [Outcome.NOT_APPLICABLE]


def test_what_can_not_be_known() -> None:
    ctx = counted(11, 11, 11)
    for path in ("after.counters.schedstat", "before.counters.interrupts"):
        blind = edit(ctx, path, gone())
        assert outcomes(blind, "FAIRSRV") == [Outcome.UNKNOWN]
    assert triples(edit(ctx, "after.counters.schedstat", gone()), 1) == 0
    unnamed = counted(11, 11, 11, release="custom")
    assert outcomes(unnamed, "FAIRSRV") == [Outcome.UNKNOWN]
    assert triples(unnamed, 1) == 0


def test_a_cpu_without_a_column() -> None:
    ctx = context(rows={"RES": {1: None}}, release="6.12.0")
    assert outcomes(ctx, "FAIRSRV") == [Outcome.UNKNOWN]


def test_a_cpu_without_a_balance() -> None:
    ctx = counted(11, 11, 11, switches={1: None})
    assert outcomes(ctx, "FAIRSRV") == [Outcome.UNKNOWN]
