"""From an observation to an audit: judge, put together, name what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from auditor import __version__
from auditor.activity import activity
from auditor.bootline import boot_line
from auditor.causes import rank
from auditor.context import Context
from auditor.coverage import coverage
from auditor.engine import run
from auditor.model import (
    BAD,
    Audit,
    Axis,
    CpuSets,
    Finding,
    HostFacts,
    Outcome,
    Overhead,
    OwnFacts,
    OwnInterrupt,
    Status,
    WindowFacts,
)
from auditor.own import describe
from auditor.rules import BY_ID, RULES
from auditor.rules.config import settings
from auditor.verdict import judge_cpu, overall, readiness
from auditor.waivers import counted, waive
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState

AS_ROOT = ("sudo", "env", '"PATH=$PATH"')
"""sudo has a path of its own, on which no virtual environment lies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """What the run knows of itself: when, for how long it was meant to be, what it started, what it cost."""

    started: str
    requested_ms: int
    load: str | None
    work: str | None
    overhead: Overhead
    interrupted: bool
    workload: str | None = None


def audit(ctx: Context, facts: RunFacts) -> Audit:
    """Runs every rule over the context and puts the document together."""
    findings, policy = waive(run(RULES, ctx), ctx.policy, facts.started)
    cpu_verdicts = {cpu: judge_cpu(ctx, findings, cpu) for cpu in ctx.audited}
    verdict = replace(overall(list(cpu_verdicts.values())), waivers=counted(findings, Axis.ISOLATION))
    return Audit(
        tool=f"cpu-audit {__version__}",
        host=_host(ctx),
        window=_window(ctx, facts),
        cpus=_cpus(ctx),
        own=_own(ctx),
        verdict=verdict,
        readiness=readiness(findings),
        cpu_verdicts=cpu_verdicts,
        causes=rank(findings),
        boot_line=_boot_line(findings),
        findings=findings,
        activity=activity(ctx),
        config=settings(ctx),
        coverage=coverage(ctx),
        overhead=facts.overhead,
        next_command=next_command(ctx, facts, findings) if verdict.status is Status.UNKNOWN else None,
        interrupted=facts.interrupted,
        policy=policy,
    )


def _host(ctx: Context) -> HostFacts:
    kernel = ctx.observation.facts.kernel
    return HostFacts(
        name=kernel.name,
        kernel=kernel.release,
        arch=kernel.arch,
        cpu_model=kernel.cpu_model,
        hypervisor=kernel.hypervisor,
        hz=kernel.hz,
        online=format_cpulist(ctx.observation.facts.topology.online),
        boot_id=kernel.boot_id,
    )


def _window(ctx: Context, facts: RunFacts) -> WindowFacts:
    return WindowFacts(
        started=facts.started,
        window_ms=round(ctx.window_s * 1000),
        requested_ms=facts.requested_ms,
        samples=len(ctx.observation.samples),
        load=facts.load,
        work=facts.work,
    )


def _cpus(ctx: Context) -> CpuSets:
    targets = ctx.targets
    return CpuSets(
        audited=format_cpulist(targets.audited),
        control=format_cpulist(targets.control),
        housekeeping=format_cpulist(targets.housekeeping),
        chosen_by=targets.chosen_by,
    )


def _own(ctx: Context) -> OwnFacts:
    census = ctx.census
    interrupts = tuple(
        OwnInterrupt(irq=item.irq, name=item.name, claim=item.claim.value, fired=item.fired) for item in ctx.own_irqs
    )
    if isinstance(census, ProbeError):
        return OwnFacts(source="none", description="no thread is visible", threads=0, interrupts=interrupts)
    return OwnFacts(
        source=ctx.own_rule.source if ctx.own else "none",
        description=describe(ctx.own_rule, census, ctx.own),
        threads=len(ctx.own),
        interrupts=interrupts,
    )


def _boot_line(findings: tuple[Finding, ...]) -> str | None:
    """The line where a fix needs one: null when everything it would ask for is in force."""
    found = [f for f in findings if f.outcome in BAD and not f.waived]
    wanted: list[Mapping[str, str]] = [f.fix.boot for f in found if f.fix and f.fix.boot]
    return boot_line(wanted[0]) if wanted else None


def next_command(ctx: Context, facts: RunFacts, findings: tuple[Finding, ...]) -> str:
    """What to type after an unknown: the same CPUs as root, through the host's root, with load and work, or longer."""
    online = ctx.observation.after.config.online
    left = ctx.targets.audited if isinstance(online, ProbeError) else ctx.targets.audited & online
    words = ["cpu-audit", "run", "--cpus", format_cpulist(left or ctx.targets.audited)]
    if facts.workload is not None:
        words += ["--workload", shlex.quote(facts.workload)]
    for name in ctx.own_rule.irqs:
        words += ["--own-irq", shlex.quote(name)]
    if ctx.policy.source:
        words += ["--policy", shlex.quote(ctx.policy.source)]
    states = {line.state for line in coverage(ctx) if line.source.startswith("/proc/")}
    if SourceState.DENIED.value in states:
        words[:0] = AS_ROOT
    if SourceState.MASKED.value in states:
        words += ["--root", "/host"]
    quiet = any(f.outcome is Outcome.NOT_EXERCISED and BY_ID[f.rule].decisive(ctx, f.cpus[0]) for f in findings)
    if quiet or not states & {SourceState.DENIED.value, SourceState.MASKED.value}:
        words += _livelier(ctx, facts, quiet=quiet)
    return " ".join(words)


def _livelier(ctx: Context, facts: RunFacts, *, quiet: bool) -> list[str]:
    """Under load, with the workload there was or one where there is none; for longer where load did not do."""
    words = ["--load"]
    if facts.work is not None or not ctx.own:
        words += ["--work", facts.work or "spin"]
    if facts.load is not None and quiet:
        words += ["--window", f"{max(60, round(ctx.window_s) * 2)}s"]
    return words
