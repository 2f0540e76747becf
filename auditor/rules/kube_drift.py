"""Cpusets that are not what the kubelet's state says: of containers with exclusive CPUs, and of others there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from auditor.context import Context
from auditor.kubelet_view import ExclusiveContainer, KubeletView, Pinning, views
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.kube import (
    CONFIG_FILES,
    CPUSETS,
    STATE_FILES,
    effective_evidence,
    held,
    in_hierarchy,
    is_static,
    judged,
    label_of,
    of_kubelets,
    pool_leaves,
    restart_fix,
    settings,
)
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState
from probes.pod_cgroups import PodCgroup

Cpus = frozenset[int] | ProbeError | None


@of_kubelets
def check_drift(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.DRIFT."""
    bad: list[Finding] = []
    pinned, gaps = held(ctx)
    for view in ctx.kubelets:
        bad += [_drifted(ctx, rule, view, item) for item in view.exclusive if _touches(ctx, item)]
        found, unknown = _others(ctx, rule, view)
        bad += found
        gaps += unknown
        bad += _own_in_pool(ctx, rule, view)
    text = "containers have the cpusets that the kubelet gave them, and nobody else has these CPUs"
    yield from judged(ctx, rule, bad, pinned, gaps, text)


def _touches(ctx: Context, item: ExclusiveContainer) -> bool:
    """Whether a contradicted entry is about audited CPUs: those it should have, or those it has."""
    return item.pinning is Pinning.CONTRADICTED and bool((item.cpus | _has(item)) & ctx.targets.audited)


def _has(item: ExclusiveContainer) -> frozenset[int]:
    known = [cpus for cpus in (item.effective, item.cpuset) if isinstance(cpus, frozenset) and cpus]
    return known[0] if known else frozenset()


def _drifted(ctx: Context, rule: Rule, view: KubeletView, item: ExclusiveContainer) -> Finding:
    outcome, text, period_s = _lasts(ctx, view, stays=item in _before(ctx, view))
    return rule.finding(
        outcome,
        (item.cpus | _has(item)) & ctx.targets.audited,
        observed=ctx.window_s,
        limit=period_s,
        unit="s",
        title=f"{rule.title}: {item.label}",
        detail=f"the kubelet gave it CPUs {format_cpulist(item.cpus)}, its cgroup says {_said(item)}{text}",
        evidence=[Evidence(path=f"/{item.cgroup}/cpuset.cpus", field="list", value=_told(item.cpuset))],
        fix=_write_back(item),
    )


def _before(ctx: Context, view: KubeletView) -> list[ExclusiveContainer]:
    """What was so at the start of the window already."""
    start = ctx.observation.before
    same = [old for old in views(start.kubernetes, start.config.online) if old.kubelet.pid == view.kubelet.pid]
    return [item for old in same for item in old.exclusive]


def _lasts(ctx: Context, view: KubeletView, *, stays: bool) -> tuple[Outcome, str, float | None]:
    """What holds longer than the kubelet takes to set it right is wrong: it writes what changed once in a period."""
    config = settings(view)
    period_s = config.reconcile_ns / 1e9 if config else None
    if stays and period_s is not None and ctx.window_s >= period_s:
        return Outcome.FAIL, ", at both ends of the window: the kubelet does not set it right", period_s
    return Outcome.WARN, "; the kubelet may be about to set it right", period_s


def _said(item: ExclusiveContainer) -> str:
    asked, left = _told(item.cpuset), _told(item.effective)
    if item.cpuset == item.cpus:
        return f"the same, but its ancestors leave it {left}"
    return asked


def _told(cpus: Cpus) -> str:
    return "nothing that can be read" if not isinstance(cpus, frozenset) else format_cpulist(cpus) or "all CPUs"


def _write_back(item: ExclusiveContainer) -> Fix:
    """The kubelet compares with what it wrote last, never with the cgroup: what another wrote stays."""
    if item.cpuset == item.cpus:
        text = "leave cpuset.cpus of the cgroups above containers empty, as the kubelet does"
        return Fix(kind=FixKind.KUBELET, text=text)
    path = shlex.quote(f"/{item.cgroup}/cpuset.cpus")
    plain = str(item.cgroup).isascii() and isinstance(item.cpuset, frozenset)
    old = format_cpulist(item.cpuset) if isinstance(item.cpuset, frozenset) else ""
    return Fix(
        kind=FixKind.KUBELET,
        text="start the pod anew, and end what else writes cpusets (systemctl daemon-reload, other agents): the "
        "kubelet compares with what it wrote last, not with the cgroup; by hand",
        commands=(f"echo {format_cpulist(item.cpus)} | sudo tee {path}",) if plain else (),
        undo=f"echo {old} | sudo tee {path}" if plain and old else "",
    )


def _others(ctx: Context, rule: Rule, view: KubeletView) -> tuple[list[Finding], list[str]]:
    """Containers of other pods that may run on CPUs which someone has exclusively."""
    here = view.live() & ctx.targets.audited
    leaves = pool_leaves(view) if here else []
    if isinstance(leaves, ProbeError):
        return [], [str(leaves)]
    owners = {item.pod for item in view.exclusive if item.pinning is Pinning.LIVE and item.cpus & here}
    owned = {item.container for item in view.exclusive if not item.pod}
    strange = [leaf for leaf in leaves if leaf.pod not in owners and leaf.container_id not in owned]
    told = [(leaf, leaf.effective) for leaf in strange]
    bad = [
        _other(ctx, rule, view, leaf, cpus & here) for leaf, cpus in told if isinstance(cpus, frozenset) and cpus & here
    ]
    gaps = [str(cpus) for _, cpus in told if isinstance(cpus, ProbeError) and cpus.state is not SourceState.MISSING]
    cgroups = ctx.observation.after.kubernetes.cgroups
    cut = here and not isinstance(cgroups, ProbeError) and cgroups.cut
    return bad, gaps + (["not all cgroups of pods may have been found"] if cut else [])


def _other(ctx: Context, rule: Rule, view: KubeletView, leaf: PodCgroup, cpus: frozenset[int]) -> Finding:
    start = ctx.observation.before.kubernetes.cgroups
    stays = not isinstance(start, ProbeError) and leaf in start.containers
    outcome, text, period_s = _lasts(ctx, view, stays=stays)
    return rule.finding(
        outcome,
        cpus,
        observed=ctx.window_s,
        limit=period_s,
        unit="s",
        title=f"{rule.title}: {label_of(ctx, leaf)}",
        detail=f"it may run on CPUs {format_cpulist(cpus)}, which another container has exclusively{text}",
        evidence=[effective_evidence(leaf)],
        fix=restart_fix(ctx, view, "when it starts, the kubelet writes the cpusets of all containers"),
    )


def _own_in_pool(ctx: Context, rule: Rule, view: KubeletView) -> list[Finding]:
    """Own threads in a container that has no entry: it lost its CPUs, or never asked for whole ones."""
    leaves = pool_leaves(view)
    if isinstance(leaves, ProbeError) or isinstance(ctx.census, ProbeError) or not is_static(view):
        return []
    doubtful = {item.pod for item in view.exclusive if item.pinning in (Pinning.UNKNOWN, Pinning.CONTRADICTED)}
    groups = {ctx.census.cgroups.get(key.pid) for key in ctx.own}
    own = [leaf for leaf in leaves if in_hierarchy(leaf.path) in groups and leaf.pod not in doubtful]
    return [
        rule.finding(
            Outcome.WARN,
            ctx.audited,
            title=f"{rule.title}: {label_of(ctx, leaf)}",
            detail="the workload runs in it, and the kubelet gave it no CPUs of its own: others share them",
            evidence=[effective_evidence(leaf)],
            fix=Fix(
                kind=FixKind.WORKLOAD,
                text="whole CPUs as request and limit of the container, memory limits equal to requests for all "
                "containers of the pod (QoS Guaranteed); start the pod anew where that is so already",
            ),
        )
        for leaf in own
    ]


KUBE_DRIFT = Rule(
    id="KUBE.DRIFT",
    title="cpuset is not the kubelet's",
    kind=Kind.RISK,
    why="""The state says whom the kubelet gave CPUs, the leaf cgroup of the container where it may run. Another agent,
`systemctl daemon-reload` or a runtime that starts a container anew may write other CPUs there; the kubelet compares
with what it wrote itself and does not notice. Containers of the shared pool leave CPUs that became exclusive within
a period of the kubelet (cpuManagerReconcilePeriod, 10 s by default).""",
    sources=(*STATE_FILES, *CPUSETS, *CONFIG_FILES),
    warns="where a cpuset differs from the entry, or a container of another pod may run on exclusive CPUs; where own "
    "threads are in a container without CPUs of its own",
    fails="where it does at both ends of a window that is as long as the kubelet's period",
    cure="start the pod anew, and end what else writes cpusets",
    thresholds=lambda _: Thresholds(unit="s"),
    check=check_drift,
)
