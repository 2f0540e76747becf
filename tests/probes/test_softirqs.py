from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.softirqs import parse_softirqs, read_softirqs
from tests.probes.outcome import outcome

FOUR_POSSIBLE = """\
                    CPU0       CPU1       CPU2       CPU3       
          HI:         29          0          0          0
       TIMER:      41380       7501       3748       2241
      NET_TX:         30          0          0          0
    IRQ_POLL:          0          0          0          0
       SCHED:       4152          0 4294967295       1332

"""  # noqa: W291 the kernel pads the header


def test_columns_are_possible_cpus() -> None:
    found = parse_softirqs(FOUR_POSSIBLE)
    assert found.cpus == (0, 1, 2, 3)
    assert list(found.rows) == ["HI", "TIMER", "NET_TX", "IRQ_POLL", "SCHED"]
    assert found.rows["SCHED"] == {0: 4152, 1: 0, 2: 4294967295, 3: 1332}


def test_only_wanted_columns() -> None:
    found = parse_softirqs(FOUR_POSSIBLE, [2, 9])
    assert found.cpus == (0, 1, 2, 3)
    assert found.rows["TIMER"] == {2: 3748}


def test_reading_takes_the_file_of_the_host() -> None:
    assert read_softirqs(DictHost({"proc/softirqs": FOUR_POSSIBLE}), {1}) == parse_softirqs(FOUR_POSSIBLE, {1})


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_empty_is_masked(text: str) -> None:
    with pytest.raises(ProbeError, match="masked by a container runtime") as caught:
        parse_softirqs(text)
    assert caught.value.state is SourceState.MASKED


HEADER = "  CPU0       CPU1\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEADER + " HI:  1  2", "line 2: no line end"),
        (HEADER, "line 1: no rows"),
        (HEADER + " HI:  1\n", "line 2: not 2 counts"),
        (HEADER + " HI:  1 2 3\n", "line 2: not 2 counts"),
        (HEADER + " HI:  1 x\n", "line 2: not 2 counts"),
        (HEADER + " HI:  1 2\n HI:  1 2\n", "line 3: no row of this file, or its second: 'HI"),
        (HEADER + " HI:  1 2\n...\n", "line 3: no row of this file"),
        (HEADER + " HI:  1 2\n" + HEADER, "line 3: no row of this file"),
        ("CPU0 CPU0\n HI:  1 2\n", "line 1: no plain CPU header"),
        ("CPU0 =20\n HI:  1 2\n", "line 1: no plain CPU header"),
        (" HI:  1 2\n", "line 1: no plain CPU header"),
    ],
)
def test_damage_is_refused_with_the_line(text: str, reason: str) -> None:
    with pytest.raises(ProbeError, match=f"^/proc/softirqs: {reason}") as caught:
        parse_softirqs(text)
    assert caught.value.state is SourceState.MALFORMED


@settings(deadline=None)
@given(st.text() | st.text(alphabet="CPU01 :\n9HISCED_").map(lambda text: text + "\n"))
def test_any_text_is_a_value_or_a_probe_error(text: str) -> None:
    found = outcome(lambda: parse_softirqs(text, path="some/path"))
    if isinstance(found, ProbeError):
        assert found.path == "some/path"
    else:
        assert found.rows
        assert all(set(row) == set(found.cpus) for row in found.rows.values())


@settings(deadline=None)
@given(st.integers(0, len(FOUR_POSSIBLE) - 1))
def test_a_cut_file_is_refused_or_only_lacks_whole_rows(size: int) -> None:
    found = outcome(lambda: parse_softirqs(FOUR_POSSIBLE[:size]))
    whole = parse_softirqs(FOUR_POSSIBLE)
    assert isinstance(found, ProbeError) or found.rows.items() <= whole.rows.items()
