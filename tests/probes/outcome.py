"""A parse as a value: what it returned, or the ProbeError. Any other exception fails the test that asked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from probes.host import ProbeError

T = TypeVar("T")


def outcome(parse: Callable[[], T]) -> T | ProbeError:
    """The value, or the ProbeError raised."""
    try:
        return parse()
    except ProbeError as error:
        return error


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to read everything, where the tests run as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)
