"""Managed queues: the kernel places their interrupts, and they fire where the I/O is submitted. Whose I/O was it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Finding, Fix, FixKind, Kind, Outcome
from auditor.own_irqs import fed_only_by
from auditor.policy import Thresholds
from auditor.requested import requested
from auditor.rules.base import Rule
from auditor.rules.doors import domain_state, routed
from auditor.rules.presence import foreign_runners
from auditor.switches import Runner
from probes.cpulist import format_cpulist
from probes.delta import RowDelta
from probes.host import ProbeError
from probes.irq_affinity import IrqAffinity
from probes.threads import is_service, thread_irq

MAX_NAMED = 4
SHARED = (
    "the kernel owns this queue's affinity: isolcpus=managed_irq moves a queue while a housekeeping CPU shares it, "
    "as one does here"
)
ALONE = (
    "the kernel owns this queue's affinity, and no housekeeping CPU shares it: submit no I/O from these CPUs, or give "
    "the device fewer queues (driver parameter)"
)


def whose(ctx: Context, row: RowDelta, cpu: int) -> str:
    """For I/O of whom a managed queue fired that is not own, as the end of a sentence; "" where nothing tells."""
    if ctx.own_io is not False:
        return "" if ctx.own_io is None else "; for I/O of own threads or of others: both may have submitted some"
    there = ", ".join(_called(runner) for runner in submitters(ctx, row, cpu)[:MAX_NAMED])
    here = f"; submitted here, where {there} ran" if there and _fed_here(ctx, row) else ""
    return "; for I/O of others: own processes did none" + here


def _fed_here(ctx: Context, row: RowDelta) -> bool:
    return row.irq is not None and fed_only_by(ctx.observation, row.irq, row.actions, ctx.targets.audited)


def submitters(ctx: Context, row: RowDelta, cpu: int) -> list[Runner]:
    """Threads of others that ran here and may have submitted what the queue served: user threads first."""
    found = [
        runner
        for runner in foreign_runners(ctx, cpu)
        if thread_irq(runner.status) != row.irq and not is_service(runner.status)
    ]
    return sorted(found, key=lambda runner: (runner.status.kernel, -(runner.growth.run_ns or 0), runner.key))


def _called(runner: Runner) -> str:
    return f"{runner.status.name} ({runner.key.tid})"


def managed_fix(ctx: Context, row: RowDelta, cpu: int) -> Fix:
    """What keeps this queue quiet here."""
    if not _fed_here(ctx, row):
        return boot_fix(ctx, SHARED) if _shared(ctx, row.irq) else Fix(kind=FixKind.WORKLOAD, text=ALONE)
    if ctx.own_io is False and (found := submitters(ctx, row, cpu)):
        return _move(ctx, found)
    return Fix(kind=FixKind.WORKLOAD, text=f"{ALONE}; if it is the workload's own, name it with --own-irq")


def _shared(ctx: Context, irq: int | None) -> bool:
    affinity = ctx.observation.after.config.affinity
    known = None if isinstance(affinity, ProbeError) or irq is None else affinity.irqs.get(irq)
    return isinstance(known, IrqAffinity) and bool(known.requested & ctx.targets.housekeeping)


def _move(ctx: Context, runners: Sequence[Runner]) -> Fix:
    """Threads of others that submit I/O here belong on the housekeeping CPUs; where the balancer brings them, all."""
    target = format_cpulist(ctx.targets.housekeeping)
    census = ctx.census
    there = {} if isinstance(census, ProbeError) else census.statuses
    movable = [runner for runner in runners if not runner.status.kernel and runner.key in there][:MAX_NAMED]
    names = ", ".join(_called(runner) for runner in runners[:MAX_NAMED])
    text = f"it is I/O of others, submitted here by some of {names}"
    if any(domain_state(ctx, cpu)[0] is not Outcome.PASS for cpu in ctx.audited):
        return boot_fix(
            ctx, f"{text}: keep other threads off, and give the device fewer queues where that is not enough"
        )
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"{text}: move them to the housekeeping CPUs {target}",
        commands=tuple(f"sudo taskset -pc {target} {runner.key.tid}" for runner in movable),
        undo="; ".join(
            f"sudo taskset -pc {format_cpulist(there[runner.key].allowed)} {runner.key.tid}" for runner in movable
        ),
    )


def check_armed(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.MIRQ."""
    for cpu in ctx.audited:
        armed = routed(ctx, cpu, managed=True)
        asked = _asked(ctx, cpu)
        if not armed:
            yield rule.finding(Outcome.PASS, [cpu], detail=f"no managed queue is routed here; {asked}")
            continue
        names = ", ".join(f"{irq} ({actions})" for irq, actions, _ in armed[:3]) + (" …" if len(armed) > 3 else "")
        shared = [affinity for _, _, affinity in armed if affinity.requested & ctx.targets.housekeeping]
        more = f"; {len(shared)} of them could fire on a housekeeping CPU instead" if shared else ""
        yield rule.finding(
            Outcome.WARN,
            [cpu],
            observed=len(armed),
            limit=0,
            unit="queues",
            detail=f"armed: {names}; each fires here when I/O is submitted from this CPU; {asked}{more}",
            fix=boot_fix(ctx, "isolcpus=managed_irq moves queues that a housekeeping CPU shares")
            if shared
            else Fix(kind=FixKind.WORKLOAD, text="submit no I/O from these CPUs, or give the device fewer queues"),
        )


def _asked(ctx: Context, cpu: int) -> str:
    try:
        covered = requested(ctx).managed_irq or frozenset()
    except ProbeError as error:
        return f"whether isolcpus=managed_irq is asked for is unknown ({error.reason})"
    return f"isolcpus=managed_irq is {'in force' if cpu in covered else 'not asked'} for this CPU"


CFG_MIRQ = Rule(
    id="CFG.MIRQ",
    title="armed managed queues",
    kind=Kind.RISK,
    why="A managed queue whose whole mask is isolated stays on the CPU and fires there once I/O is submitted from it.",
    sources=("/proc/irq/*/effective_affinity_list", "/proc/irq/*/smp_affinity_list", "/proc/cmdline"),
    warns="at any managed queue that is routed to the CPU",
    cure="isolcpus=managed_irq where a housekeeping CPU shares the queue; else no I/O from this CPU, or fewer queues",
    thresholds=lambda _: Thresholds(warn=0, unit="queues"),
    check=check_armed,
)
