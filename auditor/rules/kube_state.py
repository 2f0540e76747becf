"""The state of the CPU manager: whether it makes sense, and whether all that it gave away is still had by someone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.context import Context
from auditor.kubelet_cpus import KubeletCpus
from auditor.kubelet_view import ExclusiveContainer, KubeletView, Pinning
from auditor.model import Evidence, Finding, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.kube import (
    CONFIG_FILES,
    CPUSETS,
    STATE_FILES,
    conclude,
    gives_none,
    is_absent,
    listed,
    lost,
    of_kubelets,
    renew_fix,
    restart_fix,
    settings,
    state_evidence,
    state_gap,
    unsettled,
    who,
)
from probes.cpu_manager_state import Checksum, CpuManagerState
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState, known


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What is wrong with a state; CPUs where it is about some."""

    outcome: Outcome
    text: str
    evidence: Evidence
    cpus: frozenset[int] | None = None


def check_state(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.STATE: a finding for each problem; the one rule that says so where there is no kubelet."""
    if not ctx.kubelets:
        yield _no_kubelet(ctx, rule)
    for view in ctx.kubelets:
        yield from (
            _read(ctx, rule, view, view.state)
            if isinstance(view.state, CpuManagerState)
            else _unread(ctx, rule, view, view.state)
        )


def _no_kubelet(ctx: Context, rule: Rule) -> Finding:
    census = known(ctx.census)
    if not census.complete:
        text = "no kubelet is seen, but not all processes are: look from the host's PID namespace, as root"
        return rule.finding(Outcome.UNKNOWN, ctx.audited, detail=text)
    return rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="no kubelet runs here or is set up")


def _unread(ctx: Context, rule: Rule, view: KubeletView, error: ProbeError) -> Iterator[Finding]:
    """Torn is a warning: the kubelet may run on what it holds in memory. Everything else says nothing."""
    if gives_none(view):
        text = f"{who(view)} gives no CPUs away (policy none), and has written no state"
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail=text)
        return
    torn = error.state is SourceState.MALFORMED and error.path == view.kubelet.state_path
    absent = ": deleted under it, or it never started with the static policy" if is_absent(view) else ""
    yield rule.finding(
        Outcome.WARN if torn else Outcome.UNKNOWN,
        ctx.audited,
        detail=f"{error}{absent}" + ("; a kubelet that starts on it refuses to" if torn else ""),
        evidence=[Evidence(path=f"/{error.path}", field="content", value=error.reason)] if torn else [],
        fix=renew_fix(ctx, view, "a state that can't be read") if torn else None,
    )


def _read(ctx: Context, rule: Rule, view: KubeletView, state: CpuManagerState) -> Iterator[Finding]:
    problems, gaps = list(_problems(view, state)), list(_gaps(view, state))
    bad = [
        rule.finding(
            problem.outcome,
            ctx.audited,
            observed=None if problem.cpus is None else len(problem.cpus),
            limit=None if problem.cpus is None else 0,
            unit="" if problem.cpus is None else "CPUs",
            detail=problem.text,
            evidence=[problem.evidence],
            fix=renew_fix(ctx, view, "the state does not fit"),
        )
        for problem in problems
    ]
    text = f"that of {who(view)} makes sense: policy {state.policy}, {len(state.entries)} containers with CPUs"
    passed = rule.finding(Outcome.PASS, ctx.audited, detail=text)
    yield from conclude(ctx, rule, bad, gaps, passed)


def _problems(view: KubeletView, state: CpuManagerState) -> Iterator[Problem]:
    path, cpus = f"/{view.kubelet.state_path}", view.cpus
    if state.checksum is Checksum.WRONG:
        text = "its checksum is wrong: torn, or edited by hand; a kubelet that starts on it refuses to"
        yield Problem(
            outcome=Outcome.WARN, text=text, evidence=Evidence(path=path, field="checksum", value=state.checksum.value)
        )
    if not isinstance(cpus, KubeletCpus):
        return
    for found, words, field in (
        (cpus.overlap, "are both exclusive and in the shared pool", "defaultCpuSet, entries"),
        (cpus.given_twice, "were given to more than one pod", "entries"),
        (cpus.offline, "are not online", "defaultCpuSet, entries"),
        (cpus.nobodys or frozenset[int](), "are online and in no set", "defaultCpuSet, entries"),
    ):
        if found:
            yield _about(view, found, words, field)
    config = settings(view)
    if cpus.policy_differs and config is not None:
        yield Problem(
            outcome=Outcome.FAIL,
            text=f"it is of policy {state.policy}, configured is {config.cpu_manager_policy}: "
            "who starts with that did not write it, and refuses to start",
            evidence=Evidence(path=path, field="policyName", value=state.policy),
        )


def _about(view: KubeletView, cpus: frozenset[int], words: str, field: str) -> Problem:
    text = f"CPUs {format_cpulist(cpus)} {words}: a kubelet that starts on it refuses to"
    return Problem(outcome=Outcome.FAIL, text=text, evidence=state_evidence(view, field, cpus), cpus=cpus)


def _gaps(view: KubeletView, state: CpuManagerState) -> Iterator[str]:
    if state.checksum is Checksum.UNKNOWN:
        yield "how its checksum is made is not known"
    if not isinstance(view.cpus, KubeletCpus):
        yield str(view.cpus)
        return
    if view.cpus.policy_differs is None:
        yield f"whether its policy ({state.policy}) is the configured one is not told: {unsettled(view)}"
    if view.cpus.nobodys is None:
        yield "whether CPUs that are in no set are reserved is not told"


@of_kubelets
def check_stale(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.STALE."""
    bad: list[Finding] = []
    gaps: list[str] = []
    for view in ctx.kubelets:
        live = view.live()
        gaps += state_gap(view)
        gaps += [lost(view, item) for item in view.exclusive if item.pinning is Pinning.UNKNOWN and item.cpus - live]
        ended = [item for item in view.exclusive if item.pinning in (Pinning.STALE, Pinning.ENDED) and item.cpus - live]
        if ended:
            bad.append(_stale(ctx, rule, view, ended))
    passed = rule.finding(Outcome.PASS, ctx.audited, detail="every CPU that was given away has its container")
    yield from conclude(ctx, rule, bad, gaps, passed)


def _stale(ctx: Context, rule: Rule, view: KubeletView, ended: list[ExclusiveContainer]) -> Finding:
    cpus = frozenset[int]().union(*(item.cpus for item in ended)) - view.live()
    why = {Pinning.STALE: "nothing of its pod is there", Pinning.ENDED: "its container is not there"}
    names = listed(f"{item.label} ({why[item.pinning]})" for item in ended)
    return rule.finding(
        Outcome.WARN,
        ctx.audited,
        observed=len(cpus),
        limit=0,
        unit="CPUs",
        detail=f"CPUs {format_cpulist(cpus)} are held for {names}: nobody else gets them",
        evidence=[state_evidence(view, "entries", cpus)],
        fix=restart_fix(
            ctx,
            view,
            "init containers that ask for more than the others keep the rest until their pod goes: ask for no more; "
            "what no pod has is dropped when the kubelet starts"
            if any(item.pinning is Pinning.ENDED for item in ended)
            else "what no pod has is dropped when the kubelet starts; if it stays, drain the node and start without it",
        ),
    )


KUBE_STATE = Rule(
    id="KUBE.STATE",
    title="state of the CPU manager",
    kind=Kind.RISK,
    why="""The kubelet keeps on disk whom it gave CPUs, and checks that when it starts: sets that overlap, CPUs that
came or went, another policy or a wrong checksum, and it does not start, or hands out CPUs that are not there. A state
like that also says nothing reliable of who has which CPU.""",
    sources=(*STATE_FILES, *CONFIG_FILES, "/sys/devices/system/cpu/online"),
    warns="where it is torn, or its checksum is wrong",
    fails="where CPUs are both exclusive and shared, given to two pods, offline, or in no set; where its policy is not "
    "the configured one",
    cure="drain the node, stop the kubelet, move the state away, start it",
    thresholds=lambda _: Thresholds(fail=0, unit="CPUs"),
    check=check_state,
)
KUBE_STALE = Rule(
    id="KUBE.STALE",
    title="CPUs held for nobody",
    kind=Kind.RISK,
    why="""Entries of the state outlive their containers: after a reboot or a crash, by leaks of older kubelets, and by
design those of init containers that asked for more CPUs than the others of their pod. Such CPUs idle, and nobody else
gets them.""",
    sources=(*STATE_FILES, *CPUSETS),
    warns="at any CPU of an entry whose container is not there",
    cure="start the kubelet again; if they stay, drain the node and start it without its state",
    thresholds=lambda _: Thresholds(warn=0, unit="CPUs"),
    check=check_stale,
)
