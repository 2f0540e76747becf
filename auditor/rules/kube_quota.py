"""CPU limits of containers with exclusive CPUs: on which level, and whether the kubelet set them."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.kubelet_view import ExclusiveContainer, KubeletView
from auditor.model import Axis, Finding, Kind, Outcome
from auditor.policy import Thresholds
from auditor.quotas import LIMIT_FILES, Quota
from auditor.rules.base import Rule
from auditor.rules.keepers import in_nohz_full, limit_evidence
from auditor.rules.kube import (
    CONFIG_FILES,
    CPUSETS,
    STATE_FILES,
    cpus_of,
    held,
    in_hierarchy,
    judged,
    of_kubelets,
    renew_fix,
    settings,
)
from auditor.rules.quota_fix import lift_fix
from probes.cgroup_cpu import CpuGroup, levels

GATE = "DisableCPUQuotaWithExclusiveCPUs"


@of_kubelets
def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.QUOTA: a finding for each limit above a container with audited CPUs."""
    found, gaps = held(ctx)
    groups = ctx.observation.after.limits.cgroups.groups
    bad: list[Finding] = []
    for view, item in found:
        path = in_hierarchy(item.cgroup or "")
        limits = [quota for quota in ctx.quotas.finite if quota.group.path in levels(path)]
        bad += [_limited(ctx, rule, view, item, path, quota) for quota in limits]
        if path not in groups and not limits:
            gaps.append(f"limits of {item.label} are not read: no own thread is in its cgroup")
    if found and not bad:
        bad += [found_off for view in ctx.kubelets for found_off in _gate_off(ctx, rule, view)]
        gaps += [str(error) for error in ctx.quotas.unknown]
    yield from judged(ctx, rule, bad, found, gaps, "no limit on the containers with these CPUs, nor above them")


def _limited(ctx: Context, rule: Rule, view: KubeletView, item: ExclusiveContainer, path: str, quota: Quota) -> Finding:
    throttled = (quota.ran_out and not quota.spared) or (quota.grown is None and bool(quota.waited_us))
    cpus = item.cpus & ctx.targets.audited
    return rule.finding(
        Outcome.FAIL if throttled else Outcome.WARN,
        cpus,
        observed=None if quota.grown is None else quota.grown.throttled,
        limit=None if quota.grown is None else 0,
        unit="throttled periods",
        title=f"{rule.title}: {item.label}",
        detail="; ".join(_sentences(ctx, view, cpus, path, quota)),
        evidence=[limit_evidence(quota)],
        fix=lift_fix([quota]),
    )


def _sentences(ctx: Context, view: KubeletView, cpus: frozenset[int], path: str, quota: Quota) -> Iterator[str]:
    yield f"{quota.limit.cpus:.4g} CPUs {_where(path, quota.group)}"
    config = settings(view)
    gate = config.gate(GATE, None) if config else None
    if config and not config.cpu_cfs_quota:
        yield "cpuCFSQuota is false: the kubelet did not set it, or before it was started last"
    elif gate is False:
        yield f"feature gate {GATE} is off: the kubelet limits containers with exclusive CPUs"
    elif gate:
        yield f"feature gate {GATE} is on: another agent set it, or it was so before"
    else:
        yield "kubelets before 1.33 limit containers with exclusive CPUs (since then only with the feature gate off)"
    if any(in_nohz_full(ctx, cpu) for cpu in cpus):
        yield "on nohz_full CPUs run time is accounted late: even less than the limit may be throttled"


def _where(path: str, group: CpuGroup) -> str:
    """Words for the level of a limit. crun left one on the scope of a container whose own cgroup has none."""
    if group.path == path:
        return "on the container itself"
    if path == f"{group.path}/container":
        return "on the scope above the container's own cgroup, where older versions of crun left it"
    return f"on {group.path} above it"


def _gate_off(ctx: Context, rule: Rule, view: KubeletView) -> Iterator[Finding]:
    config = settings(view)
    if config is None or not config.cpu_cfs_quota or config.gate(GATE, None) is not False:
        return
    here = cpus_of((view, item) for item in view.exclusive) & ctx.targets.audited
    if here:
        yield rule.finding(
            Outcome.WARN,
            here,
            detail=f"no limit now, but feature gate {GATE} is off: the next container with these CPUs gets one",
            fix=renew_fix(ctx, view, f"take {GATE}: false out of featureGates, or set cpuCFSQuota: false"),
        )


KUBE_QUOTA = Rule(
    id="KUBE.QUOTA",
    title="CPU limit beside exclusive CPUs",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""A limit of as many CPUs as a container has for itself throttles it all the same: a period is over before
the time of every CPU is accounted. Since 1.33 the kubelet sets none beside exclusive CPUs (feature gate
DisableCPUQuotaWithExclusiveCPUs); other levels, runtimes and agents may. CFG.QUOTA judges own threads alike.""",
    sources=(*STATE_FILES, *CPUSETS, *CONFIG_FILES, *LIMIT_FILES),
    warns="at any finite limit on a container with exclusive CPUs or above it; where the feature gate is off",
    fails="at any period in which it was throttled",
    cure="a kubelet from 1.33 on, or cpuCFSQuota: false; lift what others set",
    thresholds=lambda _: Thresholds(fail=0, unit="periods"),
    check=check,
)
