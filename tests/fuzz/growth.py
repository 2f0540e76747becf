"""How time grows with the size of an input: a parser whose time grows with the square hangs on a large file."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator

from tests.fuzz.mutate import PIECES
from tests.fuzz.targets import Target

SIZES = (1 << 13, 1 << 15)
TIMES_SLOWER = 10.0
"""Four times the size takes four times the time, eight with the noise of a busy machine; with its square, sixteen."""
LEAST_S = 0.05
"""Below, nothing is told: process time ticks in milliseconds."""


def units(target: Target) -> Iterator[str]:
    """What is repeated: each seed, its first and last line, each of its first words, and single characters."""
    for seed in target.seeds:
        lines = seed.split("\n")
        yield from (seed, lines[0] + "\n", lines[-2 if len(lines) > 1 else 0] + "\n")
        yield from (word for part in seed.split()[:12] for word in (part + " ", part + ",", part))
    yield from PIECES
    yield from ("a", "1", "9,", "1 ", "a,", "a=", "[[", "{{", '{"a":', "- ", "-", "\\x80", "&a [*a,", "a: &a\n")


def grown(target: Target, unit: str) -> tuple[float, float]:
    """CPU seconds for a text of the two sizes, the second in the best of three."""
    rng = random.Random(0)
    head = rng.choice(target.seeds)[:60]
    small, large = ((head + unit * (size // max(1, len(unit)) + 1))[:size] for size in SIZES)
    first = _seconds(target, small)
    second = _seconds(target, large)
    if second > max(LEAST_S, TIMES_SLOWER * first):
        first, second = max(first, _seconds(target, small)), min(second, _seconds(target, large))
    return first, second


def squares(target: Target) -> list[tuple[str, float, float]]:
    """The units for which time grows faster than the text."""
    found = []
    for unit in dict.fromkeys(units(target)):
        first, second = grown(target, unit)
        if second > max(LEAST_S, TIMES_SLOWER * first):
            found.append((unit, first, second))
    return found


def _seconds(target: Target, text: str) -> float:
    before = time.process_time()
    with contextlib.suppress(*target.allowed):
        target.parse(text)
    return time.process_time() - before
