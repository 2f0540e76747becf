"""Which CPU is what to a kubelet: exclusive, shared, reserved, or free to be given away.

Its state says who has what, its configuration what is reserved; neither says whether it is still so.
Source: pkg/kubelet/cm/cpumanager/policy_static.go (validateState, GetAvailableCPUs).
"""

from __future__ import annotations

from dataclasses import dataclass

from probes.cpu_manager_state import CpuManagerState
from probes.host import ProbeError
from probes.kubelet_config import KubeletConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletCpus:
    """The CPUs of a node by what the kubelet does with them. None: can't be told."""

    exclusive: frozenset[int]
    """Given to containers or pods, whether they still run or not."""
    shared: frozenset[int]
    """Where all other containers run now; with policy none that is every online CPU."""
    reserved: frozenset[int] | None
    """Never given away. Other containers run there all the same, unless reservation is strict."""
    free: frozenset[int] | None
    """Shared, and may become exclusive. With policy none nothing may."""
    allocatable: frozenset[int] | None
    """All that is not reserved, given away or not: GetAllocatableResources of podresources."""
    offline: frozenset[int]
    """In the state and not online: the kubelet refuses to start on it, or hands out what is not there."""
    overlap: frozenset[int]
    """Both exclusive and shared."""
    given_twice: frozenset[int]
    """Given to more than one pod."""
    reserved_given: frozenset[int] | None
    """Both reserved and exclusive."""
    nobodys: frozenset[int] | None
    """Online and in no set. Not known where the reserved ones are not: they may be those."""
    policy_differs: bool | None
    """The state is of another policy than the configuration: this kubelet can't have written it."""


def kubelet_cpus(
    state: CpuManagerState,
    config: KubeletConfig | ProbeError,
    online: frozenset[int],
    *,
    flags_seen: bool = True,
    allocatable: frozenset[int] | None = None,
) -> KubeletCpus:
    """Joins a state with the configuration of the same kubelet. Without all of its flags none is certainly reserved.

    ``allocatable`` is what the kubelet says itself, if it was asked: that outranks what it was told.
    """
    known = config if isinstance(config, KubeletConfig) and flags_seen else None
    static = state.policy != "none"
    exclusive = state.exclusive()
    shared = state.default if static else online
    reserved = online - allocatable if static and allocatable else _reserved(known, online - exclusive - shared)
    return KubeletCpus(
        exclusive=exclusive,
        shared=shared,
        reserved=reserved,
        free=_free(shared, reserved, static=static),
        allocatable=None if reserved is None else online - reserved,
        offline=(exclusive | shared) - online,
        overlap=exclusive & shared if static else frozenset(),
        given_twice=state.shared_by_pods(),
        reserved_given=None if reserved is None else exclusive & reserved,
        nobodys=_nobodys(online - exclusive - shared, reserved),
        policy_differs=None if known is None else known.cpu_manager_policy != state.policy,
    )


def _reserved(config: KubeletConfig | None, left: frozenset[int]) -> frozenset[int] | None:
    """Named ones. Of a mere quantity the kubelet chooses which; with strict reservation they are those left over."""
    if config is None:
        return None
    if config.reserved_system_cpus is not None:
        return config.reserved_system_cpus
    if not config.reserves_cpus():
        return frozenset()
    count = -(-(config.kube_reserved_millis + config.system_reserved_millis) // 1000)
    return left if config.strict_reservation and len(left) == count else None


def _free(shared: frozenset[int], reserved: frozenset[int] | None, *, static: bool) -> frozenset[int] | None:
    if not static:
        return frozenset()
    return None if reserved is None else shared - reserved


def _nobodys(left: frozenset[int], reserved: frozenset[int] | None) -> frozenset[int] | None:
    if not left:
        return left
    return None if reserved is None else left - reserved
