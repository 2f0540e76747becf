"""``python -m auditor``: a signal while it imports ends it as later."""

from __future__ import annotations

import builtins
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from auditor import __main__, cli
from auditor.model import ExitCode


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_an_interrupt_while_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def importing(name: str, *given: Any, **more: Any) -> Any:
        if name == "auditor":
            raise KeyboardInterrupt
        return real(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == ExitCode.INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler


def test_it_is_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended() -> None:
        raise SystemExit(7)

    monkeypatch.setattr(cli, "main", ended)
    with pytest.raises(SystemExit) as code:
        __main__.main()
    assert code.value.code == 7
