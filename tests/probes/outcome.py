"""A parse as a value: what it returned, or the ProbeError. Any other exception fails the test that asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from probes.host import ProbeError

T = TypeVar("T")


def outcome(parse: Callable[[], T]) -> T | ProbeError:
    """The value, or the ProbeError raised."""
    try:
        return parse()
    except ProbeError as error:
        return error
