"""The clock source: one name in use, several to choose from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.clocksource import AVAILABLE, CURRENT, Clocksource, read_clocksource
from probes.host import DictHost, ProbeError, SourceState
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

FILES: dict[str, str | ProbeError] = {CURRENT: "tsc\n", AVAILABLE: "tsc hpet acpi_pm \n"}


def test_a_full_host() -> None:
    assert read_clocksource(DictHost(FILES)) == Clocksource(current="tsc", available=("tsc", "hpet", "acpi_pm"))


@pytest.mark.parametrize(
    ("text", "state"),
    [("", SourceState.MASKED), ("\n", SourceState.MASKED), ("tsc hpet\n", SourceState.MALFORMED)],
)
def test_no_one_name(text: str, state: SourceState) -> None:
    error = outcome(lambda: read_clocksource(DictHost({**FILES, CURRENT: text})))
    assert isinstance(error, ProbeError)
    assert (error.path, error.state) == (CURRENT, state)


@pytest.mark.parametrize("text", ["\n", ProbeError("x", "permission denied", SourceState.DENIED)])
def test_the_choice_may_be_unknown(text: str | ProbeError) -> None:
    found = read_clocksource(DictHost({**FILES, AVAILABLE: text}))
    assert found.current == "tsc"
    assert isinstance(found.available, ProbeError)


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_an_error(text: str) -> None:
    found = outcome(lambda: read_clocksource(DictHost({CURRENT: text, AVAILABLE: text})))
    assert isinstance(found, Clocksource | ProbeError)


def test_a_recording_says_the_same(tmp_path: Path) -> None:
    live, later = replayed(tmp_path, FILES, read_clocksource)
    assert live == later == Clocksource(current="tsc", available=("tsc", "hpet", "acpi_pm"))
