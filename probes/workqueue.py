"""Where work may run that is bound to no CPU: the masks of unbound workqueues.

The kernel runs the work of a queue on the CPUs of its own mask that lie in the global one, and where none does, on
those of the global one (kernel/workqueue.c wqattrs_actualize_cpumask, since 4.2). So the global mask decides who is
kept free; a queue's mask only narrows it. At boot the global mask lacks the CPUs of isolcpus=domain and nohz_full
(since 4.15), later those of isolated partitions too (6.8); a write replaces it, isolated CPUs included (booted 6.12).
Source: Documentation/core-api/workqueue.rst (Affinity Scopes, WQ_SYSFS).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from probes.cpulist import read_cpumask
from probes.host import Host, ProbeError, SourceState, visible

WORKQUEUE_DIR = "sys/devices/virtual/workqueue"
MAX_QUEUES = 1000
"""A kernel has a handful that are shown (WQ_SYSFS)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workqueues:
    """CPU sets, offline and merely possible CPUs among them."""

    cpumask: frozenset[int]
    """The global mask: outside of it no unbound work runs."""
    isolated: frozenset[int] | None
    """cpumask_isolated (since 6.8): what boot and partitions keep out of the global mask; None where it isn't told."""
    queues: Mapping[str, frozenset[int] | ProbeError]
    """What each shown queue asks for, before the global mask narrows it."""

    def inside(self, cpu: int) -> list[str]:
        """Shown queues whose work may run on this CPU; one whose mask can't be read may."""
        if cpu not in self.cpumask:
            return []
        return [name for name, asked in self.queues.items() if isinstance(asked, ProbeError) or self._runs(asked, cpu)]

    def _runs(self, asked: frozenset[int], cpu: int) -> bool:
        return cpu in asked or not asked & self.cpumask


def read_workqueues(host: Host) -> Workqueues:
    """Raises ProbeError where the global mask can't be told."""
    return Workqueues(cpumask=_mask(host, "cpumask"), isolated=_isolated(host), queues=_queues(host))


def _mask(host: Host, name: str) -> frozenset[int]:
    return read_cpumask(host, f"{WORKQUEUE_DIR}/{name}")


def _isolated(host: Host) -> frozenset[int] | None:
    try:
        return _mask(host, "cpumask_isolated")
    except ProbeError:
        return None


def _queues(host: Host) -> dict[str, frozenset[int] | ProbeError]:
    """Queues that are shown: directories with a cpumask. Those of bound queues, ``power`` and the like have none."""
    found: dict[str, frozenset[int] | ProbeError] = {}
    try:
        names = host.listdir(WORKQUEUE_DIR)
    except ProbeError:
        return found  # only names for the report: the global mask decides
    for name in names[:MAX_QUEUES]:
        if name.startswith("cpumask"):
            continue
        try:
            found[visible(name)] = _mask(host, f"{name}/cpumask")
        except ProbeError as error:
            if error.state is not SourceState.MISSING:
                found[visible(name)] = error
    return found
