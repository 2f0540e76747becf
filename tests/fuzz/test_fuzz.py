"""Every parser is fuzzed, a little here and a million inputs by ``python -m tests.fuzz``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.record import RecordingError, load_recording
from tests.fuzz.archives import Archives, bomb
from tests.fuzz.run import LIMIT_S, Result, fuzz, outcome
from tests.fuzz.targets import EXCLUDED, TARGETS, Target

ROOT = Path(__file__).parents[2]
NAMES = [target.name for target in TARGETS]
TRACED_S = 15.0
"""Coverage traces every line: an input takes many times its time. The command holds to a second."""
INPUTS = 300
"""For each parser: some 17 000 in all."""


def parsers() -> Iterator[str]:
    """Public functions of ``probes`` that take a text: by their name, or by that of their first argument."""
    for path in sorted((ROOT / "probes").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                first = node.args.args[0].arg if node.args.args else ""
                if node.name.startswith("parse_") or first == "text":
                    yield f"{module}.{node.name}"


def test_no_parser_is_left_out() -> None:
    covered = {f"{one.__module__}.{one.__qualname__}" for target in TARGETS for one in target.covers}
    assert sorted(set(parsers()) - covered - EXCLUDED.keys()) == []
    assert EXCLUDED.keys() <= set(parsers())
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_seeds_are_valid(target: Target) -> None:
    for text in target.seeds:
        target.parse(text)


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_damage(target: Target) -> None:
    assert fuzz(target, seed=7, inputs=INPUTS, limit_s=TRACED_S).bugs == []


@given(st.sampled_from(TARGETS), st.text(max_size=200))
@settings(max_examples=300)
def test_any_text(target: Target, text: str) -> None:
    result = Result(target=target.name)
    outcome(target, text, result)
    assert result.bugs == []


def test_the_same_seed_is_the_same_run() -> None:
    one, two = (fuzz(TARGETS[0], seed=5, inputs=100) for _ in range(2))
    assert (one.digest, one.outcomes, one.accepted) == (two.digest, two.outcomes, two.accepted)
    assert fuzz(TARGETS[0], seed=6, inputs=100).digest != one.digest


def test_what_is_no_refusal_is_noted() -> None:
    calls: list[str] = []

    def moody(text: str) -> object:
        calls.append(text)
        return len(calls)

    def broken(text: str) -> object:
        raise KeyError(text)

    for parse, problem in ((moody, "then"), (broken, "KeyError")):
        found = fuzz(Target(name="x", parse=parse, seeds=("1\n",), covers=()), seed=1, inputs=3).bugs
        assert problem in found[0].problem
    assert LIMIT_S == 1.0


def test_hostile_recordings(tmp_path: Path) -> None:
    archives = Archives(tmp_path, seed=1)
    for _ in range(60):
        archives.tar()
        archives.bundle()
    archives.whole()
    assert archives.bugs == []
    assert archives.accepted > 10


def test_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "r.tar.gz"
    path.write_bytes(bomb())
    assert path.stat().st_size < 1 << 17
    with pytest.raises(RecordingError, match="larger than 64 MiB"):
        load_recording(str(path))
