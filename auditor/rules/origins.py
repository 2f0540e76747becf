"""Origins that rules of several files share: their findings are one cause (auditor/causes.py)."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.quotas import Quota

DOMAIN, IRQ = "door:domain", "door:irq"
"""A door, what came through it for certain, and what tells why it is open."""
THREADS = "threads"
"""Threads of others that no open door let in: pinned, moved or stuck there."""
TICK = "tick"
"""The tick where nothing is known to keep it."""


def limits_name(limits: Iterable[Quota]) -> str:
    """These CPU limits in the name of a cause."""
    return " ".join(["quota", *(quota.group.path for quota in limits)])


def limits_origin(limits: Iterable[Quota]) -> str:
    """CPU limits: the tick that they keep, the timer threads that refill them, the time that they cost."""
    return f"{TICK}:{limits_name(limits)}"
