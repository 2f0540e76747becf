"""A run directory of the test's own, and the choice of CPUs and tools."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from probes.bench import leftovers

ALLOWED = sorted(os.sched_getaffinity(0))


def need_tool(name: str) -> None:
    """Skips without the tool, unless REQUIRE_TOOLS says that it has to be there."""
    if shutil.which(name) is None:
        if os.environ.get("REQUIRE_TOOLS"):
            pytest.fail(f"{name} is not installed, and REQUIRE_TOOLS is set")
        pytest.skip(f"{name} is not installed")


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "run"
    monkeypatch.setattr(leftovers, "run_directory_path", lambda environ, uid: str(path))
    return path


@pytest.fixture
def first_cpu() -> int:
    return ALLOWED[0]


@pytest.fixture
def last_cpu() -> int:
    return ALLOWED[-1]
