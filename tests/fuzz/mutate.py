"""Damage: a text or file of a parser's own kind, changed a little so that it gets past the first check."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

NUMBERS = (
    "0",
    "-1",
    "+1",
    "00",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "9" * 400,
    "9" * 5000,  # int() refuses more than 4300 digits
    "-" + "9" * 30,
    "1e9",
    "1e400",
    "nan",
    "0x1f",
    "1_0",
    "٣",  # ARABIC-INDIC DIGIT THREE: str.isdigit() says yes
    "²",  # isdigit() says yes, int() raises
    "1",
    "0-65535",
    "0-4294967295",
)
PIECES = (
    "\0",
    "\r",
    "\r\n",
    "\n",
    "\n\n",
    "\t",
    " ",
    "\x0b",
    "\x0c",
    "\x85",  # str.splitlines() breaks here, the kernel does not
    "\u2028",
    "\ufeff",
    "\u0130",  # lower() makes two characters of it
    "é",
    "…",
    "...",
    ":",
    "::",
    ",",
    "-",
    "=",
    "/",
    "..",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "\\",
    "\\n",
    "%s",
    "$(id)",
    "#",
    "CPU",
    "CPU0",
    "cpu",
    "all",
    "N",
    "(null)",
    "n/a",
    "max",
    "null",
    "true",
    "~",
    "---",
    "&a",
    "*a",
    "<<: *a",
    "!!binary",
    "!!python/object:os.system",
    "domain",
    "invalid",
)
BYTES = (b"\xff", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x80", b"\x00" * 8, b"\x1b[2J")
TOKEN = re.compile(r"\d+|[^\W\d]+|\s+|[^\w\s]")
MAX_CHARS = 100_000
"""A text that grows by copying itself stops here: what large inputs cost is measured by tests/fuzz/growth.py."""


def mutate(rng: random.Random, seed: str, pool: Sequence[str]) -> bytes:
    """A seed with one to five changes, as the bytes of a file."""
    text = seed
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        text = rng.choice(_TEXT)(rng, text, pool)[:MAX_CHARS]
    data = text.encode("utf-8", "surrogatepass")
    return rng.choice(_RAW)(rng, data) if rng.random() < 0.1 else data


def _tokens(rng: random.Random, text: str, change: str) -> str:
    """Replaces one token."""
    found = list(TOKEN.finditer(text[:20_000]))
    if not found:
        return text + change
    one = rng.choice(found)
    return text[: one.start()] + change + text[one.end() :]


def _number(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    found = list(re.finditer(r"\d+", text[:20_000]))
    if not found:
        return _piece(rng, text, pool)
    one = rng.choice(found)
    return text[: one.start()] + rng.choice(NUMBERS) + text[one.end() :]


def _digit(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    """One character of a number: counts that are merely different."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice("0123456789-,:") + text[at + rng.randrange(2) :]


def _piece(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(PIECES) + text[at + rng.choice((0, 0, 1, 4)) :]


def _replace(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    return _tokens(rng, text, rng.choice(PIECES))


def _cut(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _drop(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    first = rng.randrange(len(text) + 1)
    return text[:first] + text[first + rng.randrange(1 + min(40, len(text) - first)) :]


def _lines(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    """Drops, doubles, swaps or joins lines, or takes one of another seed."""
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(other, lines[at])
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 3:
        lines[at : at + 2] = ["".join(lines[at : at + 2])]
    else:
        lines.insert(at, rng.choice(rng.choice(pool).split("\n")))
    return "\n".join(lines)


def _repeat(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    """A slice many times over: long lines, deep nesting, many rows."""
    first = rng.randrange(len(text) + 1)
    part = text[first : first + rng.choice((1, 1, 2, 4, 16, 100))]
    return text[:first] + part * rng.choice((2, 3, 10, 100, 1000)) + text[first:]


def _splice(rng: random.Random, text: str, pool: Sequence[str]) -> str:
    other = rng.choice(pool)
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return rng.choice(BYTES)
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _foreign(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(BYTES) + data[at:]


_TEXT = (_number, _number, _digit, _digit, _piece, _replace, _cut, _drop, _lines, _lines, _repeat, _splice)
_RAW = (_flip, _foreign)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """A binary file with a few bytes flipped, taken away, doubled or added."""
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        first = rng.randrange(len(data) + 1)
        part = data[first : first + rng.choice((1, 4, 512))]
        what = rng.randrange(5)
        if what == 0:
            data = _flip(rng, data)
        elif what == 1:
            data = data[:first]
        elif what == 2:
            data = data[:first] + part + data[first:]
        elif what == 3:
            data = data[:first] + data[first + len(part) :]
        else:
            data = data[:first] + rng.randbytes(len(part)) + data[first + len(part) :]
    return data
