from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from probes.bench import launch, leftovers, process
from probes.bench.process import Command, Running, ToolError, find_tool, start

IGNORES_SIGTERM = (
    "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up',flush=True); time.sleep(60)"
)


def command(*argv: str, max_s: float = 60.0, cpu: int | None = None) -> Command:
    cpus = frozenset({min(os.sched_getaffinity(0)) if cpu is None else cpu})
    return Command(argv=argv, cpus=cpus, max_s=max_s, name=argv[0])


def printed(running: Running, text: str) -> bool:
    return leftovers.wait_until(lambda: text in Path(running.directory, process.LOG).read_text(), 5.0)


def is_gone(pid: int) -> bool:
    return leftovers.wait_until(lambda: leftovers.process_id(pid) is None, 5.0)


def test_a_child_is_pinned_in_its_own_session_and_leaves_nothing(run_dir: Path, last_cpu: int) -> None:
    with start(command("sleep", "60", cpu=last_cpu)) as running:
        assert running.alive()
        running.check()
        assert psutil.Process(running.pid).name() == "sleep"
        assert os.sched_getaffinity(running.pid) == {last_cpu}
        assert os.getsid(running.pid) == running.pid
        assert os.readlink(f"/proc/{running.pid}/fd/0") == "/dev/null"
        assert os.readlink(f"/proc/{running.pid}/cwd") == running.directory
        # While sleep itself starts, it has a library open.
        assert leftovers.wait_until(lambda: sorted(os.listdir(f"/proc/{running.pid}/fd")) == ["0", "1", "2"], 5.0)
        assert len(os.listdir(run_dir)) == 2
    assert not running.alive()
    assert not psutil.pid_exists(running.pid)
    assert os.listdir(run_dir) == []
    running.stop()
    running.check()


def test_a_child_is_stopped_when_the_caller_fails(run_dir: Path) -> None:
    with pytest.raises(KeyError), start(command("sleep", "60")) as running:
        raise KeyError
    assert not psutil.pid_exists(running.pid)


def test_arguments_meet_no_shell(run_dir: Path) -> None:
    with start(command("echo", "$(id); `id`", "*", max_s=0.0)) as running:
        assert running.wait(5.0)
        running.check()
        assert Path(running.directory, process.LOG).read_text() == "$(id); `id` *\n"


def test_check_quotes_what_a_failed_child_printed(run_dir: Path) -> None:
    with start(command("sh", "-c", "echo no such device >&2; exit 3")) as running:
        assert running.wait(5.0)
        with pytest.raises(ToolError, match=r"^sh failed \(exit code 3\): no such device$"):
            running.check()


def test_check_tells_a_child_that_was_killed(run_dir: Path) -> None:
    with start(command("sleep", "60")) as running:
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait(5.0)
        with pytest.raises(ToolError, match=r"^sleep failed \(signal 9\): it printed nothing$"):
            running.check()


def test_check_tells_a_child_that_ended_before_its_time(run_dir: Path) -> None:
    with start(command("true")) as running:
        assert running.wait(5.0)
        with pytest.raises(ToolError, match=r"^true ended after 0\.\d of 60 s: it printed nothing$"):
            running.check()


def test_wait_gives_up(run_dir: Path) -> None:
    with start(command("sleep", "60")) as running:
        assert not running.wait(0.05)


def test_stop_kills_what_ignores_sigterm(run_dir: Path) -> None:
    running = start(command(sys.executable, "-c", IGNORES_SIGTERM))
    assert printed(running, "up")
    running.stop(grace_s=0.1)
    assert not psutil.pid_exists(running.pid)


def test_stop_kills_the_group_that_outlived_its_leader(run_dir: Path) -> None:
    running = start(command("sh", "-c", f'{sys.executable} -c "{IGNORES_SIGTERM}" & echo $!; wait'))
    assert printed(running, "up")
    grandchild = int(Path(running.directory, process.LOG).read_text().split()[0])
    running.stop()
    assert is_gone(grandchild)


def test_a_tool_that_ignores_sigterm_does_not_pass_that_on(run_dir: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        running = start(command("sleep", "60"))
        started = time.monotonic()
        running.stop(grace_s=10.0)
        assert time.monotonic() - started < 5.0
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_waits_until_the_child_is_stopped(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(command("sleep", "60"))
    seen: list[bool] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(running.alive()))
    monkeypatch.setattr(leftovers, "remove_shared_file", lambda path: os.kill(os.getpid(), signal.SIGINT))
    try:
        running.stop()
        assert seen == [False]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_stuck_child_is_reported_and_stays_recorded(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(command("sleep", "60"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda group, number: None)
        with pytest.raises(ToolError, match="stuck in the kernel"):
            running.stop(grace_s=0.05)
    assert len(os.listdir(run_dir)) == 2
    running.stop()
    assert os.listdir(run_dir) == []


def test_a_directory_that_stays_is_reported(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(command("sleep", "60"))
    monkeypatch.setattr(leftovers, "remove_directory", lambda path: False)
    with pytest.raises(ToolError, match="can't be removed"):
        running.stop()
    assert not psutil.pid_exists(running.pid)


def test_result_and_scratch(run_dir: Path, tmp_path: Path) -> None:
    wanted = replace(command("sh", "-c", "echo 42 > part; mv part out; sleep 60"), scratch=str(tmp_path), result="out")
    with start(wanted) as running:
        assert os.path.dirname(running.directory) == str(tmp_path)
        assert leftovers.wait_until(Path(running.directory, "out").exists, 5.0)
        assert running.output is None
    assert running.output == "42\n"
    assert not os.path.exists(running.directory)


def test_no_result_is_none(run_dir: Path) -> None:
    with start(replace(command("true", max_s=0.0), result="out")) as running:
        running.wait(5.0)
    assert running.output is None


def test_a_missing_tool_says_how_to_install_it() -> None:
    with pytest.raises(ToolError, match=r"^no-such-tool is not installed: apt install a-package$"):
        start(replace(command("no-such-tool"), package="a-package"))
    with pytest.raises(ToolError, match=r"^no-such-tool is not installed$"):
        find_tool("no-such-tool", "")


def test_a_cpu_that_does_not_exist(run_dir: Path) -> None:
    with pytest.raises(ToolError, match=r"^sleep can't be started: Invalid argument$"):
        start(command("sleep", "60", cpu=100_000))
    assert os.listdir(run_dir) == []


def test_a_program_that_cannot_be_executed(run_dir: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\0\0\0")
    program.chmod(0o755)
    with pytest.raises(ToolError, match="can't be started: Exec format error"):
        start(command(str(program)))
    assert os.listdir(run_dir) == []


def test_a_scratch_that_does_not_exist(run_dir: Path) -> None:
    with pytest.raises(ToolError, match=r"^sleep can't be started: No such file or directory \(/no/such/cpu-audit-"):
        start(replace(command("sleep", "60"), scratch="/no/such"))
    assert os.listdir(run_dir) == []


def test_a_run_directory_that_is_full(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(record: leftovers.Record, path: str | None = None) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", str(run_dir))

    monkeypatch.setattr(leftovers, "write_record", full)
    with pytest.raises(ToolError, match=r"^sleep can't be started: No space left on device \("):
        start(command("sleep", "60"))


def test_no_process_can_be_made(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ToolError, match=r"^sleep can't be started: No such file or directory \(/no/such/python\)$"):
        start(command("sleep", "60"))
    assert os.listdir(run_dir) == []


def test_a_launcher_that_breaks(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import os; os.read(int(__import__('sys').argv[3]), 0); raise SystemExit(1)")
    monkeypatch.setattr(launch, "__file__", str(broken))
    with pytest.raises(ToolError, match=r"^sleep can't be started: its launcher failed$"):
        start(command("sleep", "60"))
    assert os.listdir(run_dir) == []


def test_only_the_main_thread_may_start(run_dir: Path) -> None:
    caught: list[BaseException] = []

    def attempt() -> None:
        try:
            start(command("sleep", "60"))
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert [str(error) for error in caught] == [
        "a child must be started by the main thread: it ends with the thread that started it"
    ]
