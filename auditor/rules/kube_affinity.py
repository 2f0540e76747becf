"""Containers whose threads may not use all of their exclusive CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.kubelet_view import ExclusiveContainer
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.kube import CPUSETS, STATE_FILES, held, in_hierarchy, judged, of_kubelets
from probes.cpulist import format_cpulist
from probes.host import known
from probes.snapshot import Census
from probes.threads import ThreadKey


@of_kubelets
def check_affinity(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.AFFINITY: a finding for each container whose threads may not use all of its CPUs."""
    census = known(ctx.census)
    found, gaps = held(ctx)
    bad: list[Finding] = []
    for _, item in found:
        inside = _inside(census, item)
        used = frozenset[int]().union(*inside.values())
        if not inside or (item.cpus - used and not census.complete):
            gaps.append(f"not all threads of {item.label} are visible from here")
        elif item.cpus - used:
            bad.append(_narrow(ctx, rule, item, inside, used))
    yield from judged(ctx, rule, bad, found, gaps, "every CPU of the containers may be used by their threads")


def _inside(census: Census, item: ExclusiveContainer) -> dict[ThreadKey, frozenset[int]]:
    """Where the threads of a container may run."""
    path = in_hierarchy(item.cgroup or "")
    pids = {pid for pid, group in census.cgroups.items() if group == path or group.startswith(f"{path}/")}
    return {key: status.allowed for key, status in census.statuses.items() if key.pid in pids}


def _narrow(
    ctx: Context,
    rule: Rule,
    item: ExclusiveContainer,
    inside: dict[ThreadKey, frozenset[int]],
    used: frozenset[int],
) -> Finding:
    return rule.finding(
        Outcome.WARN,
        item.cpus & ctx.targets.audited,
        observed=len(item.cpus & used),
        limit=len(item.cpus),
        unit="CPUs",
        title=f"{rule.title}: {item.label}",
        detail=f"of its CPUs {format_cpulist(item.cpus)} its {len(inside)} threads may use "
        f"{format_cpulist(item.cpus & used) or 'none'} only",
        evidence=[
            Evidence(path=f"/{key.path}/status", field="Cpus_allowed_list", value=format_cpulist(inside[key]))
            for key in sorted(inside)[:3]
        ],
        fix=Fix(
            kind=FixKind.WORKLOAD,
            text="start it with a runtime that sets the affinity of what it starts (newer runc of 1.2 and 1.3): since "
            "6.2 the kernel keeps one that was inherited; or the workload pinned itself",
        ),
    )


KUBE_AFFINITY = Rule(
    id="KUBE.AFFINITY",
    title="affinity narrower than the cpuset",
    kind=Kind.RISK,
    why="""Since 6.2 a thread keeps the affinity that it inherited when it joins a cpuset: containers of a runtime that
is itself pinned may use a part of their CPUs only, or one. A workload that pins all its threads looks the same.""",
    sources=(*STATE_FILES, *CPUSETS, "/proc/*/task/*/status", "/proc/*/status", "/proc/*/cgroup"),
    warns="where none of the container's threads may use one of its exclusive CPUs",
    cure="a runtime that sets the affinity of what it starts; let the workload pin its threads to all of its CPUs",
    check=check_affinity,
)
