"""``--help`` answers at once: nothing heavy is imported for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"psutil", "jinja2", "tabulate", "yaml", "rich", "pydantic", "tomli", "grpc"}


def imported(*args: str) -> set[str]:
    """Top-level packages that ``python -m auditor ARGS`` imports."""
    argv = [sys.executable, "-X", "importtime", "-m", "auditor", *args]
    run = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    times = [line for line in run.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().split(".")[0] for line in times}


@pytest.mark.parametrize(
    "args", [("--help",), ("run", "--help"), ("record", "--help"), ("rules", "--help"), ("policy", "--help")]
)
def test_help_imports_nothing_heavy(args: tuple[str, ...]) -> None:
    names = imported(*args)
    assert "typer" in names
    assert names & HEAVY == set()
    assert "reports" not in names
