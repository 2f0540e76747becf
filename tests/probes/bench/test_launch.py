from __future__ import annotations

import ctypes
import os
import signal
import socket
from types import SimpleNamespace

import pytest

from probes.bench import launch


class ExecutedError(Exception):
    pass


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    seen: dict[str, object] = {"prctl": [], "allowed": None}

    def prctl(*arguments: int) -> int:
        seen["prctl"] = arguments
        return 0

    def execvp(program: str, argv: list[str]) -> None:
        seen["exec"] = (program, argv)
        raise ExecutedError

    def setaffinity(pid: int, cpus: set[int]) -> None:
        seen["allowed"] = cpus & {0, 1}

    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: SimpleNamespace(prctl=prctl))
    monkeypatch.setattr(signal, "signal", lambda number, action: seen.setdefault(number.name, action))
    monkeypatch.setattr(signal, "pthread_sigmask", lambda how, mask: seen.setdefault("mask", (how, mask)))
    monkeypatch.setattr(os, "sched_setaffinity", setaffinity)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: seen["allowed"])
    monkeypatch.setattr(os, "execvp", execvp)
    return seen


def run(*arguments: str, word: bytes = launch.GO) -> tuple[int, str]:
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(word)
        ours.shutdown(socket.SHUT_WR)
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            code = launch.main([arguments[0], arguments[1], str(theirs.fileno()), *arguments[2:]])
            assert not theirs.get_inheritable()
        return code, ours.recv(1000).decode()


def test_execs_with_parent_death_signal_affinity_and_default_signals(calls: dict[str, object]) -> None:
    with pytest.raises(ExecutedError):
        run(str(os.getppid()), "0,1", "/bin/prog", "--option")
    assert calls["prctl"] == (launch.PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    assert calls["allowed"] == {0, 1}
    assert calls["exec"] == ("/bin/prog", ["/bin/prog", "--option"])
    assert calls["SIGTERM"] is signal.SIG_DFL
    assert calls["mask"] == (signal.SIG_SETMASK, ())


def test_refuses_when_the_parent_is_gone(calls: dict[str, object]) -> None:
    assert run("1999999999", "0", "/bin/prog") == (launch.FAILED, "the tool that started this is gone")
    assert "exec" not in calls


def test_refuses_when_the_kernel_dropped_a_cpu(calls: dict[str, object]) -> None:
    assert run(str(os.getppid()), "1,7", "/bin/prog") == (launch.FAILED, "CPU 7 is offline or not allowed here")
    assert "exec" not in calls


def test_refuses_without_parent_death_signal(calls: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: SimpleNamespace(prctl=lambda *args: -1))
    assert run(str(os.getppid()), "0", "/bin/prog") == (launch.FAILED, "prctl(PR_SET_PDEATHSIG) failed")
    assert "exec" not in calls


def test_refuses_when_the_tool_died_before_it_wrote_the_record(calls: dict[str, object]) -> None:
    assert run(str(os.getppid()), "0", "/bin/prog", word=b"") == (launch.FAILED, "the tool that started this is gone")
    assert calls["prctl"] == []
    assert "exec" not in calls
