"""The kubelet's sets against the kernel's: it knows nothing of isolated CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.kubelet_cpus import KubeletCpus
from auditor.kubelet_view import KubeletView
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.kube import (
    CPUSETS,
    STATE_FILES,
    conclude,
    is_static,
    label_of,
    listed,
    of_kubelets,
    policy_evidence,
    pool_leaves,
    renew_fix,
    state_evidence,
    state_gap,
)
from auditor.rules.presence import users_on
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState
from probes.pod_cgroups import in_pod

BOOT = "/sys/devices/system/cpu/isolated"


@of_kubelets
def check_pool(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.POOL."""
    isolated, hidden = isolated_cpus(ctx)
    bad: list[Finding] = []
    gaps = [hidden] if hidden else []
    for view in ctx.kubelets:
        gaps += state_gap(view)
        if isinstance(view.cpus, KubeletCpus):
            bad += _isolated_in_pool(ctx, rule, view, view.cpus.shared & isolated & ctx.targets.audited)
            bad += [] if hidden else _not_isolated(ctx, rule, view, view.cpus, isolated)
        elif not isinstance(view.state, ProbeError):
            gaps.append(str(view.cpus))
    text = (
        "the kernel isolates no CPU" if not isolated else "none of these CPUs is both isolated and in the shared pool"
    )
    otherwise = rule.finding(Outcome.PASS if isolated else Outcome.NOT_APPLICABLE, ctx.audited, detail=text)
    yield from conclude(ctx, rule, bad, gaps, otherwise)


def isolated_cpus(ctx: Context) -> tuple[frozenset[int], str]:
    """CPUs that the kernel isolates at the end of the window, and why there may be more."""
    isolation = ctx.observation.after.config.isolation
    known = isolation.partitioned() | (frozenset() if isinstance(isolation.boot, ProbeError) else isolation.boot)
    if isinstance(isolation.boot, ProbeError):
        return known, str(isolation.boot)
    if isinstance(isolation.cgroup_isolated, frozenset):
        return known, ""
    partitions = isolation.partitions
    if isinstance(partitions, ProbeError) and partitions.state is not SourceState.MISSING:
        return known, str(partitions)
    return known, "not all cgroups were visited for partitions" if isolation.walk_cut else ""


def _isolated_in_pool(ctx: Context, rule: Rule, view: KubeletView, cpus: frozenset[int]) -> list[Finding]:
    if not cpus:
        return []
    ran = [runner for runner in users_on(ctx, cpus) if in_pod(runner.cgroup)]
    names = listed(runner.status.name for runner in ran)
    seen = f"threads of pods ran there: {names}" if ran else _may_run(ctx, view, cpus)
    return [
        rule.finding(
            Outcome.FAIL if ran else Outcome.WARN,
            cpus,
            observed=len(ran),
            limit=0,
            unit="threads",
            title=f"{rule.title}: isolated CPUs",
            detail=f"isolated CPUs {format_cpulist(cpus)} are in the kubelet's shared pool: nothing moves a thread "
            f"away that gets there; {seen}",
            evidence=[
                state_evidence(view, "defaultCpuSet", cpus) if is_static(view) else policy_evidence(view),
                Evidence(path=BOOT, field="list", value=format_cpulist(cpus)),
            ],
            fix=Fix(
                kind=FixKind.KUBELET,
                text="isolate without `domain` at boot and let the runtime take pinned containers out of the domains "
                "(CRI-O: cpu-load-balancing.crio.io), or give every isolated CPU away; CPUs that are for none of the "
                "pods belong into reservedSystemCPUs with strict-cpu-reservation",
            ),
        )
    ]


def _may_run(ctx: Context, view: KubeletView, cpus: frozenset[int]) -> str:
    leaves = pool_leaves(view)
    if isinstance(leaves, ProbeError):
        return "which containers may run there is not known"
    there = [leaf for leaf in leaves if isinstance(leaf.effective, frozenset) and leaf.effective & cpus]
    if not there:
        return "no container has them now"
    return f"{len(there)} containers may run there ({listed(label_of(ctx, leaf) for leaf in there)}), none was seen"


def _not_isolated(
    ctx: Context, rule: Rule, view: KubeletView, cpus: KubeletCpus, isolated: frozenset[int]
) -> list[Finding]:
    """Exclusive CPUs that the kernel does not isolate, while isolated ones are left."""
    here, left = (view.live() - isolated) & ctx.targets.audited, isolated - cpus.exclusive
    if not here or not left:
        return []
    rest = format_cpulist((ctx.targets.housekeeping | ctx.targets.audited) - isolated)
    return [
        rule.finding(
            Outcome.WARN,
            here,
            observed=len(here),
            limit=0,
            unit="CPUs",
            title=f"{rule.title}: exclusive CPUs",
            detail=f"exclusive CPUs {format_cpulist(here)} are not isolated, isolated ones ({format_cpulist(left)}) "
            "are not given away",
            evidence=[Evidence(path=BOOT, field="list", value=format_cpulist(isolated))],
            fix=renew_fix(ctx, view, f"reserve what the kernel does not isolate: reservedSystemCPUs: '{rest}'"),
        )
    ]


KUBE_POOL = Rule(
    id="KUBE.POOL",
    title="shared pool and isolated CPUs",
    kind=Kind.RISK,
    why="""The kubelet knows nothing of isolated CPUs. Those that no container has exclusively are in the cpuset of all
others: what starts there stays there, for isolated CPUs are not balanced. And it gives CPUs away that are not isolated,
unless all these are reserved.""",
    sources=(*STATE_FILES, *CPUSETS, BOOT, "/sys/fs/cgroup/**/cpuset.cpus.partition", "/proc/*/task/*/stat"),
    warns="where an isolated CPU is in the shared pool; where an exclusive one is not isolated, and isolated ones are "
    "left",
    fails="where threads of pods ran on an isolated CPU of the shared pool",
    cure="reservedSystemCPUs with all that is not isolated; isolation by the runtime, container by container",
    thresholds=lambda _: Thresholds(fail=0, unit="threads"),
    check=check_pool,
)
