"""A tool that really dies: its children die with it, and the next run removes what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from probes.bench import leftovers
from tests.probes.bench.conftest import ALLOWED, need_tool

TOOL = """
import json, signal, sys, time
from probes.bench import leftovers, load, process, work
run, scratch, first, last, handle = sys.argv[1:]
leftovers.run_directory_path = lambda environ, uid: run
if handle == "handled":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(130))
stress = load.load_command(frozenset({int(first)}), seconds=40, scratch=scratch)
cyclic = work.cyclictest_command(frozenset({int(last)}), seconds=40, housekeeping=frozenset({int(first)}))
spin = work.spin_command(int(last), seconds=40)
with process.start(stress) as a, process.start(cyclic) as b, process.start(spin) as c:
    time.sleep(0.5)
    for one in (a, b, c):
        one.check()
    print(json.dumps([[one.pid, one.directory] for one in (a, b, c)]), flush=True)
    time.sleep(60)
"""
ROOT = Path(__file__).resolve().parents[3]


class Tool:
    """A tool process under load, and everything that it started."""

    def __init__(self, run_dir: Path, scratch: Path, handled: bool) -> None:
        arguments = (str(run_dir), str(scratch), str(ALLOWED[0]), str(ALLOWED[-1]), "handled" if handled else "")
        self.popen = subprocess.Popen(
            (sys.executable, "-W", "error", "-c", TOOL, *arguments), cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self.popen.stdout is not None
        children: list[tuple[int, str]] = json.loads(self.popen.stdout.readline())
        self.directories = [directory for _, directory in children]
        # stress-ng and its five, cyclictest, the spinner: a busy machine takes its time to start them
        assert leftovers.wait_until(lambda: len(self.find()) >= 8, 30.0)
        self.pids = self.find()
        assert {pid for pid, _ in children} < set(self.pids)

    def find(self) -> list[int]:
        return [process.pid for process in psutil.Process(self.popen.pid).children(recursive=True)]

    def end(self, number: signal.Signals) -> int:
        assert self.popen.stdout is not None
        self.popen.send_signal(number)
        self.popen.stdout.close()
        return self.popen.wait(10)

    def children_end(self) -> bool:
        return leftovers.wait_until(lambda: all(leftovers.process_id(pid) is None for pid in self.pids), 5.0)


@pytest.fixture
def tool(run_dir: Path, tmp_path: Path, request: Any) -> Tool:
    need_tool("stress-ng")
    need_tool("cyclictest")
    return Tool(run_dir, tmp_path, getattr(request, "param", False))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_die_with_the_tool(tool: Tool, run_dir: Path, tmp_path: Path, number: signal.Signals) -> None:
    assert tool.end(number) == -number
    assert tool.children_end()
    assert [os.path.exists(directory) for directory in tool.directories] == [True, True, True]
    assert sorted(leftovers.clean_leftovers()) == sorted(f"removed {name} of a killed run" for name in tool.directories)
    assert os.listdir(run_dir) == []
    assert os.listdir(tmp_path) == ["run"]
    assert not [name for name in os.listdir("/dev/shm") if name in {f"cyclictest{pid}" for pid in tool.pids}]


@pytest.mark.parametrize("tool", [True], indirect=True)
def test_a_tool_that_handles_sigterm_leaves_nothing(tool: Tool, run_dir: Path, tmp_path: Path) -> None:
    assert tool.end(signal.SIGTERM) == 130
    assert tool.children_end()
    assert os.listdir(run_dir) == []
    assert os.listdir(tmp_path) == ["run"]
    assert leftovers.clean_leftovers() == ()


def test_what_was_killed_together_with_the_tool_is_cleaned(tool: Tool, run_dir: Path, tmp_path: Path) -> None:
    """Whoever kills the children as well, as the OOM killer of a cgroup does, leaves shared memory behind."""
    for pid in tool.pids:
        if "cyclictest" in psutil.Process(pid).name():
            os.kill(pid, signal.SIGKILL)
            shared = f"/dev/shm/cyclictest{pid}"
    assert tool.end(signal.SIGKILL) == -signal.SIGKILL
    assert tool.children_end()
    assert os.path.exists(shared)
    assert f"removed {shared} of a killed run" in leftovers.clean_leftovers()
    assert not os.path.exists(shared)
    assert os.listdir(tmp_path) == ["run"]
