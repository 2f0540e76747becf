"""Where the exclusive CPUs of a container are: beside whom in their core, and on how many NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.kubelet_cpus import KubeletCpus
from auditor.kubelet_view import ExclusiveContainer, KubeletView, Pinning
from auditor.model import Axis, Evidence, Finding, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.kube import CONFIG_FILES, CPUSETS, STATE_FILES, held, judged, of_kubelets, renew_fix, settings
from probes.cpulist import format_cpulist
from probes.topology import CPU_DIR, NODE_DIR

OPTION = "full-pcpus-only"


@of_kubelets
def check_smt(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.SMT: a finding for each audited CPU with a neighbour."""
    found, gaps = held(ctx)
    cores = ctx.observation.facts.topology.siblings
    bad: list[Finding] = []
    for view, item in found:
        for cpu in sorted(item.cpus & ctx.targets.audited):
            if cpu not in cores:
                gaps.append(f"which CPUs share the core of CPU {cpu} is not told")
            elif beside := _beside(view, item, cores[cpu]):
                bad.append(_shared(ctx, rule, view, item, cpu, beside))
    yield from judged(ctx, rule, bad, found, gaps, "no other container may run in the same core")


def _beside(view: KubeletView, item: ExclusiveContainer, core: frozenset[int]) -> dict[int, str]:
    """Other threads of a core that belong to others, with their owners. Containers of a pod share among themselves."""
    owners: dict[int, str] = {}
    for other in view.exclusive:
        if other.pod != item.pod or not item.pod:
            gone = "" if other.pinning is Pinning.LIVE else f" ({other.pinning.value})"
            owners |= dict.fromkeys(other.cpus, f"{other.label}{gone}")
    if isinstance(view.cpus, KubeletCpus):
        owners |= dict.fromkeys(view.cpus.reserved or (), "reserved for the host")
        owners |= dict.fromkeys(view.cpus.shared, "the shared pool")
    return {cpu: owners[cpu] for cpu in sorted(core - item.cpus) if cpu in owners}


def _shared(
    ctx: Context, rule: Rule, view: KubeletView, item: ExclusiveContainer, cpu: int, beside: dict[int, str]
) -> Finding:
    path = f"/{CPU_DIR}/cpu{cpu}/topology/thread_siblings_list"
    config = settings(view)
    whole = config is not None and config.cpu_manager_policy_options.get(OPTION) == "true"
    text = f"{OPTION} is set: it holds for containers that start from now on, start this one anew"
    return rule.finding(
        Outcome.WARN,
        [cpu],
        observed=len(beside),
        limit=0,
        unit="CPUs",
        title=f"{rule.title}: {item.label}",
        detail="its core is shared: " + ", ".join(f"CPU {other} is {whose}" for other, whose in beside.items()),
        evidence=[Evidence(path=path, field="list", value=format_cpulist({cpu, *beside}))],
        fix=renew_fix(
            ctx, view, text if whole else f"set cpuManagerPolicyOptions {OPTION}: 'true', and ask for whole cores"
        ),
    )


@of_kubelets
def check_numa(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.NUMA: a finding for each container on several nodes."""
    found, gaps = held(ctx)
    node = ctx.observation.facts.topology.node
    bad: list[Finding] = []
    for view, item in found:
        nodes = sorted({node[cpu] for cpu in item.cpus if cpu in node})
        if len(nodes) > 1:
            bad.append(_split(ctx, rule, view, item, nodes))
        elif not item.cpus <= node.keys():
            gaps.append(f"to which NUMA node CPUs {format_cpulist(item.cpus - node.keys())} belong is not told")
    yield from judged(ctx, rule, bad, found, gaps, "the CPUs of each container are of one NUMA node")


def _split(ctx: Context, rule: Rule, view: KubeletView, item: ExclusiveContainer, nodes: list[int]) -> Finding:
    config, node = settings(view), ctx.observation.facts.topology.node
    today = f" (now {config.topology_manager_policy})" if config else ""
    by_node = {number: [cpu for cpu in sorted(item.cpus) if node.get(cpu) == number] for number in nodes}
    return rule.finding(
        Outcome.WARN,
        item.cpus & ctx.targets.audited,
        observed=len(nodes),
        limit=1,
        unit="nodes",
        title=f"{rule.title}: {item.label}",
        detail="; ".join(f"CPUs {format_cpulist(cpus)} on node {number}" for number, cpus in by_node.items()),
        evidence=[
            Evidence(path=f"/{NODE_DIR}/node{number}/cpulist", field="list", value=format_cpulist(cpus))
            for number, cpus in by_node.items()
        ],
        fix=renew_fix(
            ctx,
            view,
            f"set topologyManagerPolicy: single-numa-node{today}, and memoryManagerPolicy: Static for its memory; "
            "ask for no more CPUs than a node has left",
        ),
    )


KUBE_SMT = Rule(
    id="KUBE.SMT",
    title="core shared with another container",
    kind=Kind.RISK,
    why="""The static policy gives single threads of a core away: the other one stays in the shared pool, or goes to
another pod. What such a neighbour did in this window is judged by CFG.SMT; who may come next is told here.""",
    sources=(*STATE_FILES, *CPUSETS, *CONFIG_FILES, "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list"),
    warns="where another thread of the core is in the shared pool, reserved for the host, or another pod's",
    cure="cpuManagerPolicyOptions full-pcpus-only, and whole cores in every request",
    thresholds=lambda _: Thresholds(warn=0, unit="CPUs"),
    check=check_smt,
)
KUBE_NUMA = Rule(
    id="KUBE.NUMA",
    title="exclusive CPUs on several NUMA nodes",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""CPUs of one container on several NUMA nodes reach a part of its memory over the interconnect, and share no
last-level cache. The static policy takes them where it finds them unless the topology manager forbids it.""",
    sources=(*STATE_FILES, *CPUSETS, *CONFIG_FILES, "/sys/devices/system/node/node*/cpulist"),
    warns="where the exclusive CPUs of a container are of more than one node",
    cure="topologyManagerPolicy single-numa-node",
    thresholds=lambda _: Thresholds(warn=1, unit="nodes"),
    check=check_numa,
)
