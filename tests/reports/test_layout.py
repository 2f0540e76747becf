"""Numbers, lists, wrapping, and harmless text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.escape import bounded, printable
from reports.layout import (
    Column,
    clip,
    clip_left,
    cpu_list,
    cpus_named,
    listing,
    number,
    prose,
    quantity,
    seconds,
    table,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nvme0q2", "nvme0q2"),
        ("ö µs ≤ …", "ö µs ≤ …"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\r\n\tb", "a\\x0d\\x0a\\x09b"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\u202egnp\u2066", "\\u202egnp\\u2066"),
        ("א", "\\u05d0"),
        ("e\u0301", "e\\u0301"),
        ("\u200b\ufeff\u2028", "\\u200b\\ufeff\\u2028"),
        ("漢", "\\u6f22"),
        ("\U0001f600", "\\U0001f600"),
        ("\ud800", "\\ud800"),
        ("\xa0", "\\xa0"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


@given(st.text())
def test_printable_keeps_one_column_left_to_right(text: str) -> None:
    for char in printable(text):
        assert unicodedata.category(char)[0] in "LNPSZ"
        assert unicodedata.east_asian_width(char) not in "WF"
        assert unicodedata.bidirectional(char) not in ("R", "AL", "AN", "RLE", "RLO", "LRE", "LRO", "PDF")


def test_bounded_says_that_something_is_left_out() -> None:
    assert bounded("x" * 2001) == "x" * 1999 + "…"
    assert bounded("x" * 2000) == "x" * 2000


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.0333, "0.0333"), (77.64, "77.6"), (99.96, "100"), (316.175, "316"), (12_647, "12647"),
     (1e9, "1e+09"), (1e-9, "1e-09"), (-3.0, "-3")],
)  # fmt: skip
def test_number(value: float, shown: str) -> None:
    assert number(value) == shown


def test_quantity() -> None:
    assert quantity(77.6, "/s") == "77.6/s"
    assert quantity(0.1, "%") == "0.1 %"
    assert quantity(3, "") == "3"
    assert quantity(None, "/s") == ""
    assert quantity(3, "\n") == "3 \\x0a"
    assert seconds(12_204) == "12.2 s"


@pytest.mark.parametrize(
    ("cpus", "listed"), [((), ""), ((1,), "1"), ((5, 1), "1,5"), ((2, 3, 4, 7, 8), "2-4,7-8"), ((1, 1, 2), "1-2")]
)
def test_cpu_list(cpus: tuple[int, ...], listed: str) -> None:
    assert cpu_list(cpus) == listed


def test_cpus_named() -> None:
    assert cpus_named("1") == "CPU 1"
    assert cpus_named("1-3") == "CPUs 1-3"


def test_clip() -> None:
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdefg", 6) == "abcde…"
    assert clip_left("/a/b/c", 6) == "/a/b/c"
    assert clip_left("/system.slice/x", 6) == "…ice/x"
    assert clip_left("ab\x1b", 5) == "…\\x1b"


def test_prose_and_listing() -> None:
    assert prose("", "  why: ") == ["  why:"]
    assert prose("x" * 120, "> ", "  ") == ["> " + "x" * 98, "  " + "x" * 22]
    lines = listing([f"RULE.{i} 0/s (≤1/s)" for i in range(8)], "  pass: ", "    ")
    assert lines[0] == "  pass: " + ", ".join(f"RULE.{i} 0/s (≤1/s)" for i in range(4)) + ","
    assert lines[1] == "    " + ", ".join(f"RULE.{i} 0/s (≤1/s)" for i in range(4, 8))


def test_table() -> None:
    columns = [Column(head="a", width=4), Column(head="b", width=3, right=True), Column(head="c")]
    rows = [["1e5", "1.50", "word " * 30], ["abcdef", "2", "x\ny"]]
    assert table(columns, rows) == [
        "  a       b  c",
        "  1e5   1.…  " + ("word " * 17).rstrip(),
        "             " + ("word " * 13).rstrip(),
        "  abc…    2  x",
        "             y",
    ]
    assert table(columns, []) == []
