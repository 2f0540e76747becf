"""Options of the static CPU manager policy: since which kubelet, and behind which feature gate.

Source: pkg/kubelet/cm/cpumanager/policy_options.go of 1.28 to 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

Version = tuple[int, int]


class Stage(str, Enum):
    """How ripe an option is: behind which gate, if any."""

    ABSENT = "absent"
    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"


GATE_OF: Mapping[Stage, str] = {
    Stage.ALPHA: "CPUManagerPolicyAlphaOptions",
    Stage.BETA: "CPUManagerPolicyBetaOptions",
}
"""The first is off by default, the second on. Without its gate the kubelet refuses to start with the option."""

SINCE: Mapping[str, tuple[tuple[Version, Stage], ...]] = {
    "full-pcpus-only": (((1, 22), Stage.ALPHA), ((1, 23), Stage.BETA), ((1, 33), Stage.STABLE)),
    "distribute-cpus-across-numa": (((1, 23), Stage.ALPHA), ((1, 33), Stage.BETA)),
    "align-by-socket": (((1, 25), Stage.ALPHA),),
    "distribute-cpus-across-cores": (((1, 31), Stage.ALPHA),),
    "strict-cpu-reservation": (((1, 32), Stage.ALPHA), ((1, 33), Stage.BETA), ((1, 35), Stage.STABLE)),
    "prefer-align-cpus-by-uncorecache": (((1, 32), Stage.ALPHA), ((1, 34), Stage.BETA), ((1, 36), Stage.STABLE)),
}
CONFLICTS: tuple[frozenset[str], ...] = (
    frozenset(("full-pcpus-only", "distribute-cpus-across-cores")),
    frozenset(("distribute-cpus-across-numa", "distribute-cpus-across-cores")),
    frozenset(("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores")),
    frozenset(("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa")),
)
"""Pairs that no kubelet accepts together. ``align-by-socket`` conflicts with the topology policy single-numa-node."""


def stage_of(option: str, version: Version) -> Stage | None:
    """The stage of an option in a kubelet of this version; None for an option that is not known here."""
    if option not in SINCE:
        return None
    return next((stage for since, stage in reversed(SINCE[option]) if version >= since), Stage.ABSENT)
