"""SIGINT and SIGTERM end the window early, not the program: what was measured is still judged and written."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Stop:
    """Set by the first signal; ``wait`` returns at once from then on. Further ones change nothing.

    It stays until the result is written: what is asked for before is told in it, what comes later is too late.
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def __enter__(self) -> Stop:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is Python's
        self._event.set()

    @property
    def asked(self) -> bool:
        """Whether a signal came."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleeps; True where a signal came before or meanwhile."""
        return self._event.wait(seconds)
