"""How guests run the command, without a guest: forked from an interpreter that has loaded it from a bundle."""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.drivers import bundle
from tests.node.fleet import PRELUDE
from tests.node.node import CHECKOUT

END = "trap 'kill $!' EXIT\n"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the command as it is."""
    target = tmp_path_factory.mktemp("bundle") / "modules"
    subprocess.run([sys.executable, "-m", "tests.node.drivers.bundle", str(target)], cwd=CHECKOUT, check=True)
    return target


def run(argv: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=CHECKOUT, env=os.environ | env, capture_output=True, text=True, check=False)


def test_the_command_comes_from_the_bundle_and_so_do_its_dataclasses(packed: Path) -> None:
    program = """import sys
from tests.node.drivers.forks import load
load()
import dataclasses, auditor.model, typer
told = [auditor.model, typer, sys.modules["probes.snapshot"]]
print([type(module.__spec__.loader).__name__ for module in told], auditor.model.__file__)
print(dataclasses.exec.compiled.__len__() == int(sys.argv[1]))"""
    _, compiled = marshal.loads(packed.read_bytes())
    shown = run([sys.executable, "-c", program, str(len(compiled))], BUNDLE=str(packed))
    assert shown.stdout == f"['Finder', 'Finder', 'Finder'] {CHECKOUT}/auditor/model.py\nTrue\n", shown.stderr


def test_what_is_not_in_a_bundle_is_left_to_others() -> None:
    assert bundle.Finder({}).find_spec("auditor") is None


@pytest.mark.parametrize("use", [True, False])
def test_the_shell_function_is_the_command(packed: Path, tmp_path: Path, use: bool) -> None:
    script = """cpu_audit rules TICK.LOC >$TMPDIR/rules; echo $?
cpu_audit run --cpus 'a b' 2>$TMPDIR/errors; echo $?
cpu_audit --version; echo $?"""
    env = {"TMPDIR": str(tmp_path), "PYTHON": sys.executable, "BUNDLE": str(packed) if use else ""}
    shown = run(["bash", "-c", PRELUDE + END + script], **env)
    plain = [run([sys.executable, "-m", "auditor", *words]) for words in (["rules", "TICK.LOC"], ["--version"])]
    assert shown.stdout.splitlines() == ["0", "2", plain[1].stdout.strip(), "0"], shown.stderr
    assert (tmp_path / "rules").read_text() == plain[0].stdout
    errors = run([sys.executable, "-m", "auditor", "run", "--cpus", "a b"]).stderr
    assert (tmp_path / "errors").read_text() == errors != ""


def test_a_fork_ends_as_the_process_would(tmp_path: Path) -> None:
    program = """import os, signal, subprocess, sys, time
from tests.node.drivers.forks import Fork, load
load()
out = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
quick = Fork(["--version"], out, out)
print(quick.wait(), quick.wait(1), quick.poll())
slow = Fork(["run", "--cpus", "0", "--window", "60s"], out, out)
print(slow.poll())
try:
    slow.wait(0.01)
except subprocess.TimeoutExpired:
    print("late")
slow.send_signal(signal.SIGKILL)
print(slow.wait(30))
slow.send_signal(signal.SIGTERM)"""
    shown = run([sys.executable, "-c", program, str(tmp_path / "out")])
    assert shown.stdout == f"0 0 0\nNone\nlate\n{-signal.SIGKILL}\n", shown.stderr
