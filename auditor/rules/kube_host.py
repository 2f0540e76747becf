"""Daemons of the host on CPUs that containers have exclusively."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.doors import domain_state
from auditor.rules.kube import (
    CPUSETS,
    MOUNTS,
    STATE_FILES,
    cpus_of,
    held,
    in_hierarchy,
    judged,
    listed,
    of_kubelets,
)
from auditor.rules.presence import users_on
from auditor.switches import Runner
from probes.cpulist import format_cpulist
from probes.host import ProbeError, known
from probes.pod_cgroups import in_pod
from probes.snapshot import Census
from probes.threads import ThreadKey, ThreadStatus

SLICES = ("system.slice", "user.slice", "init.scope")
"""What systemd keeps everything of the host in; pods are beside them."""


@of_kubelets
def check_host(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.HOST."""
    census = known(ctx.census)
    found, gaps = held(ctx)
    here = cpus_of(found) & ctx.targets.audited
    ran = _ran(ctx, here)
    reached = frozenset(cpu for cpu in here if domain_state(ctx, cpu)[0] is not Outcome.PASS)
    may = _may(ctx, census, reached)
    bad = [_there(ctx, rule, here, ran)] if ran else []
    bad += [_allowed(ctx, rule, census, reached, may)] if may else []
    if here and not ctx.observation.everyone_seen:
        gaps.append("not all threads of the host are visible from here")
    yield from judged(ctx, rule, bad, found, gaps, "no daemon of the host ran there, nor is sent there")


def _ran(ctx: Context, cpus: Iterable[int]) -> list[Runner]:
    """User threads of no pod that were there."""
    return [runner for runner in users_on(ctx, cpus) if not in_pod(runner.cgroup)]


def _may(ctx: Context, census: Census, cpus: frozenset[int]) -> list[tuple[ThreadKey, ThreadStatus]]:
    """User threads of no pod that may run on these CPUs."""
    return [
        (key, status)
        for key, status in census.statuses.items()
        if not status.kernel
        and key not in ctx.own
        and status.allowed & cpus
        and not in_pod(census.cgroups.get(key.pid, ""))
    ]


def _there(ctx: Context, rule: Rule, here: frozenset[int], ran: list[Runner]) -> Finding:
    names = listed(f"{runner.status.name} ({runner.cgroup or '?'})" for runner in ran)
    return rule.finding(
        Outcome.FAIL,
        frozenset().union(*(runner.allowed for runner in ran)) & here,
        observed=len(ran),
        limit=0,
        unit="threads",
        detail=f"ran on CPUs that containers have exclusively: {names}; the kubelet keeps off other pods only",
        evidence=[
            Evidence(
                path=f"/{runner.key.path}/status", field="Cpus_allowed_list", value=format_cpulist(runner.ends[-1])
            )
            for runner in ran[:3]
        ],
        fix=_keep_off(ctx, [runner.cgroup for runner in ran]),
    )


def _allowed(
    ctx: Context,
    rule: Rule,
    census: Census,
    cpus: frozenset[int],
    may: list[tuple[ThreadKey, ThreadStatus]],
) -> Finding:
    pids = {view.kubelet.pid for view in ctx.kubelets}
    names = Counter(status.name for _, status in may)
    ordered = sorted(names, key=lambda name: (-names[name], name))
    kubelet = ", the kubelet among them" if any(key.pid in pids for key, _ in may) else ""
    return rule.finding(
        Outcome.WARN,
        cpus,
        observed=len(may),
        limit=0,
        unit="threads",
        detail=f"{len(may)} threads of the host may run there{kubelet}: {listed(ordered)}; reservedSystemCPUs keeps "
        "CPUs for the host, and the host off no other",
        evidence=[
            Evidence(path=f"/{key.path}/status", field="Cpus_allowed_list", value=format_cpulist(status.allowed))
            for key, status in may[:3]
        ],
        fix=_keep_off(ctx, [census.cgroups.get(key.pid, "") for key, _ in may]),
    )


def _keep_off(ctx: Context, cgroups: Iterable[str]) -> Fix:
    """AllowedCPUs= needs cgroup v2, and must hit no slice that pods are in (nodes of kind)."""
    tops = {group.strip("/").split("/")[0] for group in cgroups}
    leaves = [leaf for view in ctx.kubelets if not isinstance(view.containers, ProbeError) for leaf in view.containers]
    barred = {in_hierarchy(leaf.path).split("/")[1] for leaf in leaves}
    v1 = any(leaf.path.startswith(MOUNTS[0]) for leaf in leaves)
    slices = [] if v1 else [name for name in SLICES if name in tops and name not in barred]
    cpus = format_cpulist(ctx.targets.housekeeping)
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"keep the host's slices on CPUs {cpus}: AllowedCPUs= there, or CPUAffinity= in /etc/systemd/system.conf; "
        "or isolate the exclusive CPUs at boot",
        commands=tuple(f"sudo systemctl set-property -- {name} AllowedCPUs={cpus}" for name in slices),
        undo="; ".join(f"sudo systemctl set-property -- {name} AllowedCPUs=" for name in slices),
    )


KUBE_HOST = Rule(
    id="KUBE.HOST",
    title="host daemons on exclusive CPUs",
    kind=Kind.RISK,
    why="""Exclusive means: no other container. Daemons of the host, the kubelet itself, and kernel threads run there as
they please, unless systemd or the kernel keeps them off; reservedSystemCPUs moves nobody. What they did in this window
is judged by THR.USER; here it is put beside whom the CPUs were given to.""",
    sources=(*STATE_FILES, *CPUSETS, "/proc/*/task/*/status", "/proc/*/cgroup", "/proc/schedstat"),
    warns="where user threads of no pod may run there, and the CPU is not known to be out of all scheduler domains",
    fails="where they ran there",
    cure="AllowedCPUs= for system.slice, user.slice and init.scope, CPUAffinity= of systemd, or isolcpus",
    thresholds=lambda _: Thresholds(warn=0, fail=0, unit="threads"),
    check=check_host,
)
