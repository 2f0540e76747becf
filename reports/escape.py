"""Makes text that others chose harmless: names of threads, interrupts, pods, cgroups and hosts.

A thread may call itself ``ESC ]0;…`` and rewrite the terminal, or hide behind characters that reverse the line. What
comes out of ``printable`` is one visible column per character, read from left to right, so that a table stays a table.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_VISIBLE = frozenset("LNPS")  # letters, numbers, punctuation, symbols; not marks, separators, controls, unassigned
MAX_TEXT = 2000  # characters of one text in a report; the JSON document keeps the whole


def printable(text: str) -> str:
    """The text with everything but one-column, left-to-right characters as hexadecimal escapes (``u202e``).

    That covers control characters and escape sequences (C0, C1), line ends, bidirectional controls and letters,
    combining and invisible characters, and wide ones.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def bounded(text: str, limit: int = MAX_TEXT) -> str:
    """``printable`` of at most ``limit`` characters of the text, with an ellipsis where something is left out."""
    return printable(text) if len(text) <= limit else printable(text[: limit - 1]) + "…"


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    if char == " " or (
        unicodedata.category(char)[0] in _VISIBLE
        and unicodedata.east_asian_width(char) not in "WF"
        and unicodedata.bidirectional(char) not in _RIGHT_TO_LEFT
    ):
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
