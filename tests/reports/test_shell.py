"""A wrapped command is the same command."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.shell import shell_lines


def test_a_short_command_stays_one_line() -> None:
    assert shell_lines("echo 0-3 > /proc/irq/9/smp_affinity_list", "    ", 60) == [
        "    echo 0-3 > /proc/irq/9/smp_affinity_list"
    ]


def test_cut_at_blanks_outside_quotes() -> None:
    assert shell_lines("one 'two three' four five", "  ", 20) == ["  one 'two three' \\", "    four five"]


def test_long_words_are_cut_without_a_blank() -> None:
    assert shell_lines("abcdefghijklmnop", "  ", 10) == ["  abcde\\", "fghijkl\\", "mnop"]
    assert shell_lines("'abcdefghijklmn'", "  ", 10) == ["  'abcd'\\", "'efghij'\\", "'klmn'"]


def test_an_escaped_character_is_not_torn() -> None:
    assert shell_lines("abcd\\ efghijkl", "", 8) == ["abcd\\", "\\ efg\\", "hijkl"]


def test_a_comment_stays_a_comment() -> None:
    assert shell_lines("ls # aaaaaaa; rm -rf x", "  ", 16) == ["  ls \\", "    # aaaaaaa", "  # ; rm -rf x"]


def test_control_characters_are_visible() -> None:
    assert shell_lines("echo 'a\nb\x1b'", "", 40) == ["echo 'a\\x0ab\\x1b'"]


words = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40)


def arguments(script: str) -> list[str]:
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    return run.stdout.split("\0")[:-1]


@settings(max_examples=40, deadline=None)
@given(st.lists(words, min_size=1, max_size=4), st.integers(12, 60))
def test_a_shell_reads_the_same_arguments(args: list[str], width: int) -> None:
    command = "printf %s\\\\0 " + " ".join(map(shlex.quote, args))
    lines = shell_lines(command, "    ", width)
    assert max(map(len, lines)) <= width
    assert arguments("\n".join(lines)) == args


@pytest.mark.parametrize("quote", ["'", '"', "#", "\\"])
def test_open_quotes_end(quote: str) -> None:
    lines = shell_lines("echo " + quote + "a" * 200, "    ", 40)
    assert max(map(len, lines)) <= 40
    assert sum(line.count("a") for line in lines) == 200
