"""What a kubelet is configured to do with CPUs: whether it gives any away, and which it keeps for the host."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.kubelet_cpus import KubeletCpus
from auditor.kubelet_view import KubeletView
from auditor.model import Evidence, Finding, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from auditor.rules.kube import (
    CHOSEN,
    CONFIG_FILES,
    CPUSETS,
    STATE_FILES,
    conclude,
    effective_evidence,
    is_static,
    label_of,
    listed,
    of_kubelets,
    pool_leaves,
    renew_fix,
    settings,
    state_evidence,
    unsettled,
    untold,
    who,
)
from probes.cpulist import format_cpulist
from probes.host import ProbeError
from probes.kubelet_config import KubeletConfig

STRICT = "set cpuManagerPolicyOptions strict-cpu-reservation: 'true' (from 1.33 on without a feature gate)"


def check_policy(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.POLICY: a finding for each kubelet."""
    for view in ctx.kubelets:
        config = settings(view)
        yield _unknown(ctx, rule, view) if config is None else _policy(ctx, rule, view, config)


def _unknown(ctx: Context, rule: Rule, view: KubeletView) -> Finding:
    """Containers that have what the state says prove that some kubelet gave it to them."""
    if live := view.live():
        text = f"containers have CPUs {format_cpulist(live)} from it, so it is static ({unsettled(view)})"
        return rule.finding(Outcome.PASS, ctx.audited, detail=f"{who(view)}: {text}")
    return rule.finding(Outcome.UNKNOWN, ctx.audited, detail=unsettled(view))


def _policy(ctx: Context, rule: Rule, view: KubeletView, config: KubeletConfig) -> Finding:
    outcome, text = _judged(config)
    cpus = format_cpulist(ctx.targets.housekeeping)
    fix = renew_fix(ctx, view, f"set cpuManagerPolicy: static and reservedSystemCPUs: '{cpus}', without other options")
    return rule.finding(
        outcome,
        ctx.audited,
        detail=f"{who(view)}: {text}",
        evidence=list(_set(config, "cpuManagerPolicy", config.cpu_manager_policy)),
        fix=None if outcome is Outcome.PASS else fix,
    )


def _judged(config: KubeletConfig) -> tuple[Outcome, str]:
    if config.cpu_manager_policy == "none":
        if options := ", ".join(sorted(config.cpu_manager_policy_options)):
            return Outcome.FAIL, f"policy none does not take the options {options}: it refuses to start"
        return Outcome.WARN, "policy none gives no container CPUs of its own: pods may run on all of them"
    if not config.reserves_cpus():
        return Outcome.FAIL, "policy static, and no CPU is reserved: it refuses to start"
    return Outcome.PASS, "policy static, with CPUs reserved for the host"


def _set(config: KubeletConfig, key: str, value: str) -> Iterator[Evidence]:
    """Where a key was set; nothing where its default holds."""
    if path := config.origins.get(key):
        yield Evidence(path=f"/{path}", field=key, value=value)


@of_kubelets
def check_reserved(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """KUBE.RESERVED."""
    bad: list[Finding] = []
    gaps: list[str] = []
    static = False
    for view in ctx.kubelets:
        cpus = view.cpus
        if not isinstance(cpus, KubeletCpus):
            gaps += untold(view)
        elif is_static(view):
            static = True
            config = settings(view)
            if config is None or cpus.reserved is None:
                gaps.append(CHOSEN if config else unsettled(view))
            else:
                bad += _given(ctx, rule, view, cpus) + _audited(ctx, rule, view, config, cpus.reserved)
                pool = _pool(ctx, rule, view, config, cpus.reserved)
                bad += [pool] if isinstance(pool, Finding) else []
                gaps += [pool] if isinstance(pool, str) else []
    outcome = Outcome.PASS if static else Outcome.NOT_APPLICABLE
    text = "no container runs on reserved CPUs" if static else "no CPU can be given away here"
    yield from conclude(ctx, rule, bad, gaps, rule.finding(outcome, ctx.audited, detail=text))


def _given(ctx: Context, rule: Rule, view: KubeletView, cpus: KubeletCpus) -> list[Finding]:
    if not (given := cpus.reserved_given):
        return []
    text = f"CPUs {format_cpulist(given)} are reserved for the host and exclusive: the state is older than that"
    return [
        rule.finding(
            Outcome.FAIL,
            ctx.audited,
            observed=len(given),
            limit=0,
            unit="CPUs",
            detail=text,
            evidence=[state_evidence(view, "entries", given)],
            fix=renew_fix(ctx, view, "the state does not fit the reservation"),
        )
    ]


def _audited(
    ctx: Context, rule: Rule, view: KubeletView, config: KubeletConfig, reserved: frozenset[int]
) -> list[Finding]:
    here = ctx.targets.audited & reserved
    if not here:
        return []
    return [
        rule.finding(
            Outcome.WARN,
            here,
            observed=len(here),
            limit=0,
            unit="CPUs",
            detail="the kubelet reserves this CPU for the host: no container ever gets it exclusively",
            evidence=list(_set(config, "reservedSystemCPUs", format_cpulist(reserved))),
            fix=renew_fix(ctx, view, f"reserve CPUs {format_cpulist(ctx.targets.housekeeping)} instead"),
        )
    ]


def _pool(
    ctx: Context, rule: Rule, view: KubeletView, config: KubeletConfig, reserved: frozenset[int]
) -> Finding | str | None:
    """Containers that may run on reserved CPUs; a sentence where that is not known."""
    leaves = pool_leaves(view)
    if isinstance(leaves, ProbeError):
        return str(leaves)
    there = [leaf for leaf in leaves if isinstance(leaf.effective, frozenset) and leaf.effective & reserved]
    if not there:
        return next((str(leaf.effective) for leaf in leaves if isinstance(leaf.effective, ProbeError)), None)
    return rule.finding(
        Outcome.WARN,
        ctx.audited,
        observed=len(there),
        limit=0,
        unit="containers",
        detail=f"containers of the shared pool run on the reserved CPUs {format_cpulist(reserved)}, beside the host's "
        f"daemons: {listed(label_of(ctx, leaf) for leaf in there)}",
        evidence=[effective_evidence(leaf) for leaf in there[:3]],
        fix=renew_fix(
            ctx,
            view,
            "it is set already: the kubelet's next pass takes them off" if config.strict_reservation else STRICT,
        ),
    )


KUBE_POLICY = Rule(
    id="KUBE.POLICY",
    title="policy of the CPU manager",
    kind=Kind.RISK,
    why="""Only the static policy gives containers CPUs of their own, and it starts only where CPUs are reserved for the
host; policy none refuses options of the other. Settings that are not in force give nobody an exclusive CPU.""",
    sources=(*CONFIG_FILES, *STATE_FILES),
    warns="where the policy is none",
    fails="where the kubelet refuses to start: static without a reservation, none with options",
    cure="cpuManagerPolicy: static with reservedSystemCPUs; drain, and move the state away, for the change",
    check=check_policy,
)
KUBE_RESERVED = Rule(
    id="KUBE.RESERVED",
    title="CPUs reserved for the host",
    kind=Kind.RISK,
    why="""Reserved CPUs are never exclusive, and that is all: containers of the shared pool run there too, beside the
daemons that the CPUs are meant for, unless the reservation is strict.""",
    sources=(*CONFIG_FILES, *STATE_FILES, *CPUSETS),
    warns="where containers may run on reserved CPUs; where an audited CPU is reserved",
    fails="where a reserved CPU is exclusive",
    cure="cpuManagerPolicyOptions strict-cpu-reservation",
    thresholds=lambda _: Thresholds(warn=0, fail=0, unit="CPUs"),
    check=check_reserved,
)
