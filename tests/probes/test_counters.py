from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.counters import counter_delta, parse_count


@pytest.mark.parametrize(
    ("before", "after", "delta"),
    [
        (0, 0, 0),
        (7, 12, 5),
        (2**32 - 1, 0, 1),
        (2**32 - 5, 3, 8),
        (2**31 + 1, 0, 2**31 - 1),
        (2**31, 0, None),  # not yet in the upper half: a row made again
        (7662, 7532, None),
        (2**32, 3, None),  # never was a 32-bit counter
        (2**32 + 5, 2**32 + 9, 4),
    ],
)
def test_growth_of_a_32_bit_counter(before: int, after: int, delta: int | None) -> None:
    assert counter_delta(before, after) == delta


def test_other_widths_wrap_at_their_own_end() -> None:
    assert counter_delta(2**64 - 2, 3, bits=64) == 5
    assert counter_delta(2**32 - 5, 3, bits=64) is None


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 2))
def test_every_wrap_from_the_upper_half_is_found(before: int, growth: int) -> None:
    after = (before + growth) % 2**32
    wrapped = after < before
    assert counter_delta(before, after) == (growth if not wrapped or before > 2**31 else None)


@pytest.mark.parametrize(
    ("token", "count"),
    [
        ("0", 0),
        ("4294967295", 4294967295),
        ("18446744073709551615", 2**64 - 1),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1_0", None),
        (" 1", None),
        ("²", None),
        ("٣", None),
        ("9" * 21, None),
        ("9" * 5000, None),
    ],
)
def test_counts_are_plain_decimals(token: str, count: int | None) -> None:
    assert parse_count(token) == count
