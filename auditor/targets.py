"""Which CPUs are audited, which they are compared with, which the tool itself may use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.errors import UsageError
from auditor.kubelet_choice import kubelet_choice
from auditor.kubelet_view import KubeletView
from probes.cpulist import format_cpulist, parse_cpulist
from probes.host import ProbeError
from probes.isolation import Isolation
from probes.topology import Topology


@dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """Audited CPUs, every other online CPU, and those of the latter that may be compared."""

    audited: frozenset[int]
    housekeeping: frozenset[int]
    control: frozenset[int]
    roam: frozenset[int]
    """Housekeeping CPUs that the kernel does not isolate for someone else: where a load may run."""
    chosen_by: str
    siblings: frozenset[int] = frozenset()
    """Housekeeping CPUs that share a core with an audited one."""

    @property
    def counted(self) -> frozenset[int]:
        """CPUs whose counters are read."""
        return self.audited | self.control | self.siblings

    @property
    def seats(self) -> frozenset[int]:
        """Where this tool itself runs: beside no audited CPU, as long as there is another place."""
        return self.roam - self.siblings or self.roam


def choose(
    topology: Topology, isolation: Isolation, asked: str | None, kubelets: Sequence[KubeletView] = ()
) -> Targets:
    """``asked`` is the text of --cpus. Raises UsageError where no CPU or no housekeeping CPU is left.

    Without it: what a kubelet gave away exclusively and leaf cpusets confirm, else what the kernel isolates.
    """
    audited, chosen_by = (
        (parse_asked(asked), "--cpus") if asked is not None else _default(topology, isolation, kubelets)
    )
    online = format_cpulist(topology.online)
    if offline := audited - topology.online:
        raise UsageError(f"CPU {format_cpulist(offline)} is not online (online: {online}); choose others with --cpus")
    housekeeping = topology.online - audited
    if not housekeeping:
        raise UsageError(f"all online CPUs ({online}) are audited: none is left for the host and for this tool")
    control = frozenset(cpu for cpu in housekeeping if any(topology.like(cpu, other) for other in audited))
    beside = frozenset().union(*(topology.siblings.get(cpu, frozenset()) for cpu in audited))
    return Targets(
        audited=audited,
        housekeeping=housekeeping,
        control=control,
        roam=housekeeping - kept_free(isolation) or housekeeping,
        chosen_by=chosen_by,
        siblings=beside & housekeeping,
    )


def kept_free(isolation: Isolation) -> frozenset[int]:
    """CPUs that the kernel keeps free, whoever they are for."""
    sources = (isolation.boot, isolation.nohz_full)
    known = [source for source in sources if not isinstance(source, ProbeError)]
    return (isolation.partitioned() | isolation.unbalanced()).union(*known)


def parse_asked(text: str) -> frozenset[int]:
    """The value of --cpus; raises UsageError for what is no CPU list or names no CPU."""
    try:
        cpus = parse_cpulist(re.sub(r"\s*([,-])\s*", r"\1", text), path="--cpus")
    except ProbeError as error:
        raise UsageError(f"--cpus {text!r}: {error.reason}; write it as in 1,5 or 2-7") from None
    if not cpus:
        raise UsageError("--cpus names no CPU; write it as in 1,5 or 2-7")
    return cpus


def _default(topology: Topology, isolation: Isolation, kubelets: Sequence[KubeletView]) -> tuple[frozenset[int], str]:
    choice = kubelet_choice(kubelets)
    if choice.cpus:
        return choice.cpus, "; ".join((choice.whose, *choice.notes))
    boot = frozenset() if isinstance(isolation.boot, ProbeError) else isolation.boot
    cpus = (boot | isolation.partitioned() | isolation.unbalanced()) & topology.online
    if not cpus:
        reason = "; ".join(("the kernel isolates no CPU here, and no kubelet gave any away", *choice.notes))
        raise UsageError(f"{reason}: say which ones are meant to be exclusive, as in --cpus 1,5")
    return cpus, "; ".join(("isolated by the kernel", *choice.notes))
