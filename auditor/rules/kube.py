"""What the KUBE rules share: whose exclusive CPUs are audited, what is not known of that, how a kubelet starts anew."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import wraps

from auditor.context import Context
from auditor.kubelet_cpus import KubeletCpus
from auditor.kubelet_view import ExclusiveContainer, KubeletView, Pinning
from auditor.model import Evidence, Finding, Fix, FixKind, Outcome
from auditor.rules.base import Rule
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState
from probes.kubelet_config import KubeletConfig
from probes.pod_cgroups import PodCgroup

Check = Callable[[Context, Rule], Iterable[Finding]]
Held = tuple[KubeletView, ExclusiveContainer]
STATE_FILES = ("/var/**/cpu_manager_state", "/proc/*/root/**/cpu_manager_state")
CONFIG_FILES = ("/var/**/config.yaml", "/etc/kubernetes/**", "/etc/**/*.conf", "/proc/*/cmdline")
CPUSETS = (
    "/sys/fs/cgroup/**/cpuset.cpus",
    "/sys/fs/cgroup/**/cpuset.cpus.effective",
    "/sys/fs/cgroup/**/cpuset.effective_cpus",
)
MOUNTS = ("sys/fs/cgroup/cpuset/", "sys/fs/cgroup/")
NAMED = 3
"""What a sentence names; of more it tells how many."""
CHOSEN = "which CPUs are reserved is not told: of a mere quantity the kubelet chooses them, and names them in its log"


def who(view: KubeletView) -> str:
    """The kubelet, for people."""
    pid = view.kubelet.pid
    return "the kubelet (not running)" if pid is None else f"the kubelet (PID {pid})"


def settings(view: KubeletView) -> KubeletConfig | None:
    """What it certainly runs with: None where its files can't be read, or flags that outrank them may be missing."""
    config = view.kubelet.config
    return config if isinstance(config, KubeletConfig) and view.kubelet.flags_seen else None


def unsettled(view: KubeletView) -> str:
    """Why ``settings`` gives nothing."""
    config = view.kubelet.config
    return str(config) if isinstance(config, ProbeError) else f"the flags of {who(view)} are not known"


def gives_none(view: KubeletView) -> bool:
    """Whether nothing is exclusive, for certain, though no state says so."""
    config = settings(view)
    return config is not None and config.cpu_manager_policy == "none" and is_absent(view)


def is_absent(view: KubeletView) -> bool:
    """Whether there is no state."""
    state = view.state
    return isinstance(state, ProbeError) and (state.state, state.path) == (SourceState.MISSING, view.kubelet.state_path)


def state_gap(view: KubeletView) -> list[str]:
    """Why it is not known whom this kubelet gave CPUs; empty where it is."""
    return [str(view.state)] if isinstance(view.state, ProbeError) and not gives_none(view) else []


def of_kubelets(check: Check) -> Check:
    """Of a rule that says nothing where there is no kubelet: KUBE.STATE alone says so."""

    @wraps(check)
    def checked(ctx: Context, rule: Rule) -> Iterable[Finding]:
        return check(ctx, rule) if ctx.kubelets else ()

    return checked


def untold(view: KubeletView) -> list[str]:
    """Why it is not known which CPUs a kubelet uses; empty where it is."""
    if isinstance(view.cpus, KubeletCpus):
        return []
    return state_gap(view) if isinstance(view.state, ProbeError) else [str(view.cpus)]


def held(ctx: Context) -> tuple[list[Held], list[str]]:
    """Containers that certainly have audited CPUs for themselves, and what keeps others from being told."""
    found: list[Held] = []
    gaps: list[str] = []
    for view in ctx.kubelets:
        gaps += state_gap(view)
        live = view.live()
        for item in view.exclusive:
            if item.pinning is Pinning.LIVE and item.cpus & ctx.targets.audited:
                found.append((view, item))
            elif item.pinning is Pinning.UNKNOWN and (item.cpus - live) & ctx.targets.audited:
                gaps.append(lost(view, item))
    return found, gaps


def lost(view: KubeletView, item: ExclusiveContainer) -> str:
    """Why an entry can't be compared with its cgroup."""
    reason = f": {view.containers}" if isinstance(view.containers, ProbeError) else ""
    return f"which cgroup is that of {item.label}, or what it says, can't be told{reason}"


def conclude(
    ctx: Context, rule: Rule, bad: Collection[Finding], gaps: Iterable[str], otherwise: Finding
) -> Iterator[Finding]:
    """What is bad, then that something is not known, else that of all other CPUs there is nothing.

    CPUs that ``otherwise`` does not name either are exclusive to no container.
    """
    unknown = list(dict.fromkeys(gaps))
    yield from bad
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        yield rule.finding(Outcome.UNKNOWN, ctx.audited, detail=f"{unknown[0]}{more}")
        return
    left = frozenset(ctx.audited) - {cpu for finding in bad for cpu in finding.cpus}
    if fine := left & frozenset(otherwise.cpus):
        yield replace(otherwise, cpus=tuple(sorted(fine)))
    if free := left - frozenset(otherwise.cpus):
        yield rule.finding(Outcome.NOT_APPLICABLE, free, detail="no container has these CPUs exclusively")


def judged(
    ctx: Context, rule: Rule, bad: Collection[Finding], found: Collection[Held], gaps: Iterable[str], text: str
) -> Iterator[Finding]:
    """``conclude`` of a rule about containers that have audited CPUs: a pass for those, if there are any."""
    passed = rule.finding(Outcome.PASS, cpus_of(found) & ctx.targets.audited, detail=text)
    yield from conclude(ctx, rule, bad, gaps, passed)


def cpus_of(found: Iterable[Held]) -> frozenset[int]:
    """All CPUs of these containers."""
    return frozenset().union(*(item.cpus for _, item in found))


def listed(names: Iterable[str]) -> str:
    """Some names, and how many more."""
    known = list(dict.fromkeys(names))
    return ", ".join(known[:NAMED]) + (f" and {len(known) - NAMED} more" if len(known) > NAMED else "")


def in_hierarchy(directory: str) -> str:
    """A cgroup's directory as /proc/PID/cgroup names it."""
    root = next((mount for mount in MOUNTS if directory.startswith(mount)), "")
    return "/" + directory[len(root) :]


def label_of(ctx: Context, leaf: PodCgroup) -> str:
    """A container as people name it."""
    cgroups = ctx.observation.after.kubernetes.cgroups
    names = None if isinstance(cgroups, ProbeError) else cgroups.pods.get(leaf.pod)
    return f"{'/'.join(names) if names else leaf.pod}/{leaf.name or leaf.container_id[:12]}"


def pool_leaves(view: KubeletView) -> list[PodCgroup] | ProbeError:
    """Leaf cgroups that no entry is joined with, without sandboxes: they sleep, and have no cpuset on cgroup v2.

    A container whose name is not known and that has no cpuset can't be told from a sandbox.
    """
    if isinstance(view.containers, ProbeError):
        return view.containers
    exclusive = {item.cgroup for item in view.exclusive if item.cgroup}
    return [leaf for leaf in view.containers if leaf.path not in exclusive and (leaf.cpus or leaf.name)]


def effective_evidence(leaf: PodCgroup) -> Evidence:
    """The CPUs that a container may use."""
    name = "cpuset.effective_cpus" if leaf.path.startswith(MOUNTS[0]) else "cpuset.cpus.effective"
    value = None if isinstance(leaf.effective, ProbeError) else format_cpulist(leaf.effective)
    return Evidence(path=f"/{leaf.path}/{name}", field="list", value=value)


def is_static(view: KubeletView) -> bool:
    """Whether the state is of a policy that gives CPUs away."""
    return not isinstance(view.state, ProbeError) and view.state.policy != "none"


def state_evidence(view: KubeletView, field: str, cpus: Iterable[int]) -> Evidence:
    """Some CPUs of the state."""
    return Evidence(path=f"/{view.kubelet.state_path}", field=field, value=format_cpulist(cpus))


def policy_evidence(view: KubeletView) -> Evidence:
    """The policy of the state."""
    value = None if isinstance(view.state, ProbeError) else view.state.policy
    return Evidence(path=f"/{view.kubelet.state_path}", field="policyName", value=value)


def unit_of(ctx: Context, view: KubeletView) -> str | None:
    """The system unit that a kubelet runs in; None where that is another system's, or can't be told."""
    census, kubelet = ctx.census, view.kubelet
    if isinstance(census, ProbeError) or kubelet.pid is None or kubelet.root:
        return None
    name = census.cgroups.get(kubelet.pid, "").rpartition("/")[2]
    return name if name.endswith(".service") else None


def restart_fix(ctx: Context, view: KubeletView, text: str) -> Fix:
    """The kubelet is started again: it then drops what no pod has any more."""
    unit = unit_of(ctx, view)
    commands = (f"sudo systemctl restart -- {shlex.quote(unit)}",) if unit else ()
    return Fix(kind=FixKind.KUBELET, text=text, commands=commands)


def renew_fix(ctx: Context, view: KubeletView, text: str) -> Fix:
    """The kubelet starts without its old state, as after a change of its policy, options or reservation."""
    unit, path = unit_of(ctx, view), f"/{view.kubelet.state_path}"
    away = f"sudo mv {shlex.quote(path)} {shlex.quote(path + '.bak')}"
    commands: tuple[str, ...] = ()
    if unit:
        name = shlex.quote(unit)
        commands = (f"sudo systemctl stop -- {name}", away, f"sudo systemctl start -- {name}")
    elif view.kubelet.pid is None:
        commands = (away,)
    return Fix(
        kind=FixKind.KUBELET,
        text=f"{text}; drain the node, stop the kubelet, move its state away, start it",
        commands=commands,
        undo=f"sudo mv {shlex.quote(path + '.bak')} {shlex.quote(path)}" if commands else "",
    )
