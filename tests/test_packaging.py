"""The wheel holds the program with its data, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import auditor

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the source archive, built without network."""
    target = tmp_path_factory.mktemp("dist")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(target)]
    subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return target


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(dist.glob("*.whl")))


def test_wheel_holds_every_module_and_the_schema(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    modules = {str(p.relative_to(ROOT)) for d in ("auditor", "probes", "reports") for p in (ROOT / d).rglob("*.py")}
    assert modules <= names
    assert "reports/schema/audit-v1.schema.json" in names


def test_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"auditor", "probes", "reports", f"cpu_audit-{auditor.__version__}.dist-info"}
    assert [name for name in wheel.namelist() if name.endswith((".pyc", ".orig", "~"))] == []


def test_metadata(wheel: zipfile.ZipFile) -> None:
    info = f"cpu_audit-{auditor.__version__}.dist-info"
    metadata = message_from_string(wheel.read(f"{info}/METADATA").decode())
    assert (metadata["Name"], metadata["Version"]) == ("cpu-audit", auditor.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    assert "cpu-audit = auditor.__main__:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_source_archive_holds_the_tests_and_documents(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "tests/conftest.py"} <= names
