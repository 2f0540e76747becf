"""irqbalance, which moves interrupts every ten seconds: does it keep them off the audited CPUs?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.origins import IRQ
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState, known
from probes.irqbalance import FILES, LIST, VARIABLES, Ban, Irqbalance

EDITED = FILES[1]
"""The file to edit where none is there (Debian's; Red Hat's package always brings its own)."""


def check_irqbalance(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.IRQBALANCE."""
    census = known(ctx.census)
    running = ctx.observation.after.irqbalance
    if not running:
        if not census.complete:
            raise ProbeError("proc", "not all processes are visible: irqbalance may be among them", SourceState.MASKED)
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="no irqbalance is running")
    for balancer in running:
        for cpu in ctx.audited:
            yield _judged(ctx, rule, balancer, cpu)


def _judged(ctx: Context, rule: Rule, balancer: Irqbalance, cpu: int) -> Finding:
    known, outcome, text = _told(ctx, balancer, cpu)
    return rule.finding(
        outcome,
        [cpu],
        detail=f"process {balancer.pid}: {text}",
        evidence=[] if isinstance(known, ProbeError) else [_evidence(known)],
        fix=_fix(ctx, balancer) if outcome is Outcome.WARN else None,
        origin=IRQ,
    )


def _told(ctx: Context, balancer: Irqbalance, cpu: int) -> tuple[Ban | ProbeError, Outcome, str]:
    known = balancer.environment if isinstance(balancer.environment, Ban) else balancer.file
    outcome, text = (Outcome.UNKNOWN, str(known)) if isinstance(known, ProbeError) else _keeps_off(ctx, known, cpu)
    if isinstance(balancer.environment, ProbeError):
        text = f"its environment can't be read ({balancer.environment}); what would start it next: {text}"
        outcome = Outcome.UNKNOWN if outcome is Outcome.PASS else outcome  # the file may be newer than the process
    return known, outcome, text


def keep_off_fixes(ctx: Context) -> list[Fix]:
    """For each running irqbalance that is known not to keep off: it would move back what was steered away."""
    return [
        _fix(ctx, balancer)
        for balancer in ctx.observation.after.irqbalance
        if any(_told(ctx, balancer, cpu)[1] is Outcome.WARN for cpu in ctx.audited)
    ]


def _evidence(ban: Ban) -> Evidence:
    return Evidence(path=f"/{ban.path}", field=" ".join(VARIABLES), value=ban.setting or "not set")


def _keeps_off(ctx: Context, ban: Ban, cpu: int) -> tuple[Outcome, str]:
    if isinstance(ban.cpus, ProbeError):
        return Outcome.UNKNOWN, f"{ban.setting} is no CPU set: {ban.cpus.reason}"
    if ban.cpus is not None:
        listed = format_cpulist(ban.cpus) or "none"
        text = f"{ban.setting} replaces its default: kept free are CPUs {listed}"
        return (Outcome.PASS, text) if cpu in ban.cpus else (Outcome.WARN, f"{text}, not {cpu}")
    default = _default(ctx)
    if isinstance(default, ProbeError):
        return (
            Outcome.UNKNOWN,
            f"by default it keeps off isolated and nohz_full CPUs, and these are not known: {default}",
        )
    text = f"by default it keeps off the CPUs that the boot line isolates ({format_cpulist(default) or 'none'})"
    if cpu not in default:
        more = "; it knows no cpuset partition" if cpu in ctx.observation.after.config.isolation.partitioned() else ""
        return Outcome.WARN, f"{text}, not {cpu}{more}"
    if ban.empty:
        return Outcome.UNKNOWN, f"{ban.setting} is empty: some versions then keep off no CPU, others: {text}"
    return Outcome.PASS, text


def _default(ctx: Context) -> frozenset[int] | ProbeError:
    """CPUs that sysfs calls isolated or nohz_full. A kernel without the latter has no such CPU."""
    isolation = ctx.observation.after.config.isolation
    cpus = frozenset[int]()
    for source in (isolation.boot, isolation.nohz_full):
        if not isinstance(source, ProbeError):
            cpus |= source
        elif source is isolation.boot or source.state is not SourceState.MISSING:
            return source
    return cpus


def _fix(ctx: Context, balancer: Irqbalance) -> Fix:
    """Takes out what is set, and sets a list only where the default would not do."""
    file = EDITED if isinstance(balancer.file, ProbeError) else balancer.file.path
    file = EDITED if file == FILES[0] else file  # a package's own file is not for editing
    path = shlex.quote(f"/{file}")
    default, banned = _default(ctx), _banned(balancer)
    enough = not isinstance(default, ProbeError) and ctx.targets.audited | banned <= default
    wanted = format_cpulist(ctx.targets.audited | banned)
    there = not isinstance(balancer.file, ProbeError) and file == balancer.file.path
    commands = [f"sudo sed -i.bak '/IRQBALANCE_BANNED_CPU/s/^[^#]/#&/' {path}"] if there else []
    commands += [] if enough else [f"echo {LIST}={wanted} | sudo tee -a {path}"]
    back = f"sudo mv {path}.bak {path}" if there else f"sudo rm {path}"
    return Fix(
        kind=FixKind.RUNTIME,
        text="let irqbalance keep off these CPUs"
        + (
            ": its default does, what is set replaces it"
            if enough
            else f" (irqbalance before 1.8 takes {VARIABLES[0]})"
        ),
        commands=(*commands, "sudo systemctl restart irqbalance"),
        undo=f"{back}; sudo systemctl restart irqbalance",
    )


def _banned(balancer: Irqbalance) -> frozenset[int]:
    """What is kept free today, and is to stay so."""
    known = balancer.environment if isinstance(balancer.environment, Ban) else balancer.file
    cpus = known.cpus if isinstance(known, Ban) else None
    return cpus if isinstance(cpus, frozenset) else frozenset()


CFG_IRQBALANCE = Rule(
    id="CFG.IRQBALANCE",
    title="irqbalance",
    kind=Kind.RISK,
    why="""A running irqbalance steers interrupts anew every ten seconds. By default it spares the CPUs that sysfs calls
isolated or nohz_full; IRQBALANCE_BANNED_CPULIST (or _CPUS) in its environment replaces that default, and it knows no
cpuset partition. What was told it later over its socket is not seen.""",
    sources=("/proc/*/environ", *(f"/{name}" for name in FILES)),
    warns="where a running irqbalance does not keep off the CPU",
    cure="IRQBALANCE_BANNED_CPULIST with the CPUs, and restart it",
    check=check_irqbalance,
)
