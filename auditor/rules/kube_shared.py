"""Nodes that share a kernel, with each other or with a machine that is no node: kind, minikube."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.kubelet_cpus import KubeletCpus
from auditor.kubelet_view import KubeletView
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.kube import STATE_FILES, conclude, of_kubelets, untold, who
from probes.cpulist import format_cpulist
from probes.snapshot import Census


@of_kubelets
def check_shared(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.SHARED."""
    bad = [_contained(ctx, rule, view) for view in ctx.kubelets if view.kubelet.root]
    bad += [found for view in ctx.kubelets for found in _beside(ctx, rule, view)]
    census = ctx.census
    gaps = [] if isinstance(census, Census) and census.complete else ["other kubelets of this kernel may be hidden"]
    several = ctx.kubelets[1:]
    gaps += [gap for view in ctx.kubelets if several for gap in untold(view)]
    text = (
        f"none of {len(ctx.kubelets)} kubelets uses these CPUs where another gave them away"
        if several
        else f"{who(ctx.kubelets[0])} is the only one of this kernel, and no container itself"
    )
    yield from conclude(ctx, rule, bad, gaps, rule.finding(Outcome.PASS, ctx.audited, detail=text))


def _contained(ctx: Context, rule: Rule, view: KubeletView) -> Finding:
    return rule.finding(
        Outcome.WARN,
        ctx.audited,
        title=f"{rule.title}: PID {view.kubelet.pid}",
        detail="this kubelet runs in a container (kind, minikube): its own pods alone respect whom it gives CPUs, not "
        "the rest of the machine",
        evidence=[Evidence(path=f"/proc/{view.kubelet.pid}/ns/mnt", field="link", value="not that of process 1")],
        fix=Fix(
            kind=FixKind.WORKLOAD,
            text="audit from the host, and keep the host and other nodes off these CPUs there (docker: --cpuset-cpus "
            "for each node)",
        ),
    )


def _beside(ctx: Context, rule: Rule, view: KubeletView) -> Iterator[Finding]:
    """CPUs of this kubelet's containers that another one of the kernel uses too."""
    here = view.live() & ctx.targets.audited
    for other in ctx.kubelets:
        if other is view or not isinstance(other.cpus, KubeletCpus):
            continue
        given, pool = here & other.cpus.exclusive, here & other.cpus.shared
        if given or pool:
            text = f"exclusive to its pods too: {format_cpulist(given)}; " if given else ""
            yield rule.finding(
                Outcome.FAIL if given else Outcome.WARN,
                given | pool,
                observed=len(given | pool),
                limit=0,
                unit="CPUs",
                title=f"{rule.title}: {len(ctx.kubelets)} kubelets",
                detail=f"{who(other)} uses CPUs that {who(view)} gave away; {text}in its shared pool: "
                f"{format_cpulist(pool) or 'none'}",
                evidence=[
                    Evidence(
                        path=f"/{other.kubelet.state_path}",
                        field="defaultCpuSet, entries",
                        value=format_cpulist(given | pool),
                    )
                ],
                fix=Fix(kind=FixKind.WORKLOAD, text="give each node CPUs of its own (docker: --cpuset-cpus)"),
            )


KUBE_SHARED = Rule(
    id="KUBE.SHARED",
    title="node shares its kernel",
    kind=Kind.RISK,
    why="""A node that is a container (kind, minikube) shares its kernel with the machine and with other nodes. Each
kubelet counts all CPUs as its own: what one gives away, the others know nothing of.""",
    sources=(*STATE_FILES, "/proc/*/ns/mnt"),
    warns="where a kubelet runs in a container, or CPUs that it gave away are in the shared pool of another",
    fails="where two kubelets gave the same CPU away",
    cure="audit from the host, and give each node CPUs of its own there",
    thresholds=lambda _: Thresholds(warn=0, fail=0, unit="CPUs"),
    check=check_shared,
)
