"""Cgroups of pods and their containers, and what these are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.host import ProbeError


@dataclass(frozen=True, kw_only=True, slots=True)
class PodCgroup:
    """The leaf cgroup of one container: where the runtime sets its cpuset. Levels above have none."""

    pod: str
    """UID as the kubelet's state writes it: with dashes, or 32 digits of a static pod."""
    container_id: str
    """64 digits."""
    name: str | None
    """From /var/log/containers; None where that does not tell: a sandbox is never named there."""
    path: str
    """Directory without a leading slash."""
    cpus: frozenset[int] | ProbeError
    """cpuset.cpus; empty: not set, then every CPU is allowed. A sandbox has none set."""
    effective: frozenset[int] | ProbeError


@dataclass(frozen=True, kw_only=True, slots=True)
class PodCgroups:
    """All that are there at one instant."""

    containers: tuple[PodCgroup, ...] = ()
    pods: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Namespace and name by UID, from /var/log/pods."""
    cut: bool = False
    """There are more cgroups than were visited."""
