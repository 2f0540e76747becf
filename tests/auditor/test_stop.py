"""The first signal ends the window, not the program."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from auditor.stop import Stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_remembered(number: signal.Signals) -> None:
    with Stop() as stop:
        assert not stop.asked
        assert not stop.wait(0.001)
        os.kill(os.getpid(), number)
        assert stop.asked
        started = time.monotonic()
        assert stop.wait(60)
        assert time.monotonic() - started < 5


def test_a_signal_ends_a_wait() -> None:
    with Stop() as stop:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        assert stop.wait(60)
        timer.join()


def test_signals_have_their_old_meaning_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Stop():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
