"""CPUs that are audited where nobody names any: those that a kubelet gave away, as far as leaf cpusets confirm it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.errors import UsageError
from auditor.kubelet_view import ExclusiveContainer, KubeletView, Pinning
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState
from probes.kubelet_config import KubeletConfig

NAMED = 3
"""Containers that a line names; of more it tells how many."""
HOW = "say which CPUs are meant, as in --cpus 1,5"


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletChoice:
    """What the kubelets of a host say to it."""

    cpus: frozenset[int] = frozenset()
    """Exclusive and live; empty: no kubelet tells."""
    whose: str = ""
    """The kubelet and its containers."""
    notes: tuple[str, ...] = ()
    """What was left out, or could not be read."""


def kubelet_choice(kubelets: Sequence[KubeletView]) -> KubeletChoice:
    """Raises UsageError where the state and the cgroups don't agree, or several kubelets of one kernel have given CPUs.

    Entries without a container (stale, or of an init container that is done) are left out, and named.
    """
    giving = [view for view in kubelets if _may_give(view)]
    if len(giving) > 1:
        names = ", ".join(_named(view) for view in giving)
        raise UsageError(f"several kubelets on this kernel have exclusive CPUs ({names}): {HOW}")
    for view in kubelets:
        _check(view)
    notes = tuple(note for view in kubelets for note in _notes(view))
    chosen = next((view for view in giving if view.live()), None)
    if chosen is None:
        return KubeletChoice(notes=notes)
    whose = f"{_who(chosen)}, exclusive to {_containers(chosen)}"
    return KubeletChoice(cpus=chosen.live(), whose=whose, notes=notes)


def _may_give(view: KubeletView) -> bool:
    """Whether it has live exclusive CPUs, or may have some."""
    return any(item.pinning not in (Pinning.STALE, Pinning.ENDED) for item in view.exclusive)


def _check(view: KubeletView) -> None:
    live = view.live()
    for item in view.exclusive:
        given = f"{_who(view)} says CPUs {format_cpulist(item.cpus)} are {item.label}'s"
        if item.pinning is Pinning.CONTRADICTED:
            raise UsageError(f"{given}, its cgroup /{item.cgroup} says {_said(item)}: {HOW}")
        if item.pinning is Pinning.UNKNOWN and not item.cpus <= live:
            reason = f" ({view.containers})" if isinstance(view.containers, ProbeError) else ""
            raise UsageError(f"{given}, its cgroup can't be told{reason}: {HOW}")


def _said(item: ExclusiveContainer) -> str:
    sets = [item.cpuset, item.effective]
    told = [format_cpulist(found) or "nothing" for found in sets if isinstance(found, frozenset)]
    return " (effective ".join(dict.fromkeys(told)) + (")" if len(set(told)) > 1 else "")


def _notes(view: KubeletView) -> list[str]:
    state = view.state
    if isinstance(state, ProbeError):
        none_yet = state.state is SourceState.MISSING and state.path == view.kubelet.state_path
        silent = none_yet or (
            isinstance(view.kubelet.config, KubeletConfig)
            and view.kubelet.flags_seen
            and view.kubelet.config.cpu_manager_policy == "none"
        )
        return [] if silent else [f"{_who(view)} may have given CPUs away: {state}"]
    live = view.live()
    gone = [item for item in view.exclusive if item.pinning in (Pinning.STALE, Pinning.ENDED)]
    return [
        f"left out: CPUs {format_cpulist(item.cpus - live)} of {item.label}, whose container is not there "
        f"({item.pinning.value}{_since(view, item)})"
        for item in gone
        if not item.cpus <= live
    ]


def _since(view: KubeletView, item: ExclusiveContainer) -> str:
    """How long ago a stale state was written, and whether the machine was booted since."""
    if item.pinning is not Pinning.STALE or view.state_age_s is None:
        return ""
    before = ", before this boot" if view.of_this_boot is False else ""
    return f"; the state was written {_duration(view.state_age_s)} ago{before}"


def _duration(seconds: float) -> str:
    """In the largest unit that there are two of, rounded down."""
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _who(view: KubeletView) -> str:
    pid, version = view.kubelet.pid, view.kubelet.version
    name = f"the kubelet {version}" if version else "the kubelet"
    return f"{name} (not running)" if pid is None else f"{name} (PID {pid})"


def _named(view: KubeletView) -> str:
    given = frozenset().union(*(item.cpus for item in view.exclusive))
    return f"PID {view.kubelet.pid}: CPUs {format_cpulist(given)}"


def _containers(view: KubeletView) -> str:
    labels = [item.label for item in view.exclusive if item.pinning is Pinning.LIVE]
    return ", ".join(labels) if len(labels) <= NAMED else f"{len(labels)} containers"
