"""/proc/uptime: seconds since the boot, or no number at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.uptime import PATH, parse_uptime, read_uptime
from tests.probes.outcome import outcome
from tests.probes.replay import replayed


@pytest.mark.parametrize(("text", "seconds"), [("350735.47 234388.90\n", 350735.47), ("0.00 0.00\n", 0.0)])
def test_the_first_number(text: str, seconds: float) -> None:
    assert read_uptime(DictHost({PATH: text})) == seconds


@pytest.mark.parametrize("text", ["", "\n", "350735.47 23", "350735.47\n", "-1.00 2.00\n", "nan 1.00\n", "1e9 1.00\n"])
def test_everything_else_is_damage(text: str) -> None:
    with pytest.raises(ProbeError) as caught:
        parse_uptime(text)
    assert caught.value.state is SourceState.MALFORMED


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_uptime(text)), float | ProbeError)


def test_a_recording_says_the_same(tmp_path: Path) -> None:
    live, later = replayed(tmp_path, {PATH: "12.34 5.00\n"}, read_uptime)
    assert (live, later) == (12.34, 12.34)
