"""The clock that timestamps are read from: /sys/devices/system/clocksource (kernel/time/clocksource.c)."""

from __future__ import annotations

from dataclasses import dataclass

from probes.host import Host, ProbeError, SourceState

CLOCK_DIR = "sys/devices/system/clocksource/clocksource0"
CURRENT = f"{CLOCK_DIR}/current_clocksource"
AVAILABLE = f"{CLOCK_DIR}/available_clocksource"


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocksource:
    """The one in use, and those that the kernel could use."""

    current: str
    available: tuple[str, ...] | ProbeError


def read_clocksource(host: Host) -> Clocksource:
    """Raises ProbeError where the one in use can't be told."""
    found = _words(host, CURRENT)
    if len(found) != 1:
        raise ProbeError(CURRENT, f"not one name: {' '.join(found)[:40]!r}")
    try:
        available = _words(host, AVAILABLE)
    except ProbeError as error:
        return Clocksource(current=found[0], available=error)
    return Clocksource(current=found[0], available=available)


def _words(host: Host, path: str) -> tuple[str, ...]:
    found = tuple(host.read(path).split())
    if not found:
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    return found
