"""``python -m tests.fuzz``: damaged inputs through every parser; exit 1 where one did anything but parse or refuse."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.archives import Archives
from tests.fuzz.growth import squares
from tests.fuzz.run import Result, fuzz
from tests.fuzz.targets import TARGETS

RECORDINGS = {"tar": 0.01, "bundle": 0.005, "whole": 0.0005}
"""Parts of all inputs: a recorded host takes a second."""


def say(text: str) -> None:
    """A line on stdout, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in total, over all parsers")
    parser.add_argument("--seconds", type=float, help="end earlier")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="PARSER", action="append", help="names as this prints them; repeatable")
    parser.add_argument("--growth", action="store_true", help="look for times that grow with the square of the input")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="write inputs that show a bug here")
    return parser.parse_args()


def main() -> int:
    """Runs the fuzzing and prints a line for each parser."""
    asked = arguments()
    chosen = [one for one in TARGETS if not asked.only or one.name in asked.only]
    started = time.monotonic()
    until = started + asked.seconds if asked.seconds else None
    each = -(-asked.inputs // len(chosen))
    total, bugs = 0, 0
    for number, target in enumerate(chosen):
        share = until and time.monotonic() + (until - time.monotonic()) / (len(chosen) - number)
        result = fuzz(target, seed=asked.seed, inputs=each, until=share)
        total, bugs = total + result.inputs, bugs + len(result.bugs)
        report(result, asked.keep)
        if asked.growth:
            for unit, first, second in squares(target):
                bugs += 1
                say(f"  grows: {unit[:60]!r} {first:.3f} s, four times as much {second:.3f} s")
    if not asked.only:
        more, found = recordings(asked.inputs, asked.seed, until)
        total, bugs = total + more, bugs + found
    took = time.monotonic() - started
    say(f"{total} inputs in {took:.0f} s, {total / took:.0f}/s, {bugs} bugs, seed {asked.seed}")
    return 1 if bugs else 0


def report(result: Result, keep: Path | None) -> None:
    """A line for a parser, and one for each bug."""
    say(
        f"{result.target:18} {result.inputs:7} inputs {result.inputs / max(result.seconds, 1e-9):7.0f}/s, "
        f"{result.accepted:6} parsed, {len(result.outcomes):4} kinds of outcome, "
        f"slowest {result.slowest_s * 1000:5.0f} ms ({len(result.slowest)} characters), {result.digest:08x}"
    )
    for number, bug in enumerate(result.bugs):
        say(f"  BUG {bug.problem}: {bug.text[:200]!r}")
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{bug.target}-{number}").write_bytes(bug.text.encode("utf-8", "surrogatepass"))


def recordings(inputs: int, seed: int, until: float | None) -> tuple[int, int]:
    """Hostile recordings: how many, and how many bugs."""
    with tempfile.TemporaryDirectory() as directory:
        archives = Archives(Path(directory), seed)
        counts: dict[str, int] = {}
        for kind, part in RECORDINGS.items():
            counts[kind] = 0
            while counts[kind] < inputs * part and (until is None or time.monotonic() < until):
                getattr(archives, kind)()
                counts[kind] += 1
    for bug in archives.bugs:
        say(f"  BUG {bug[:600]}")
    say(f"recordings         {counts}, {archives.accepted} read")
    return sum(counts.values()), len(archives.bugs)


if __name__ == "__main__":
    sys.exit(main())
