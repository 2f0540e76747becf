"""Device interrupts that fired on the audited CPUs, and those that are armed to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from auditor.bootline import boot_fix
from auditor.context import Context, total
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.own_irqs import Claim, OwnIrq
from auditor.rules.base import Rule, always, bound, judge, rate, settle, weight
from auditor.rules.doors import irq_door, steer_fix
from auditor.rules.managed import managed_fix, whose
from auditor.rules.origins import IRQ
from probes.cpulist import format_cpulist
from probes.delta import RowDelta
from probes.host import ProbeError, known
from probes.interrupts import InterruptKind
from probes.irq_affinity import IrqAffinity, is_managed

MAX_NAME = 64
SHUT = (Outcome.PASS, Outcome.WARN)
"""A door that only a last event of an interrupt on its way out passes is shut."""
WORD = r"(?:TxRx|rx|tx|input|output|req(?:uest)?s?|config|queue|comp|msix|q)"
QUEUE = re.compile(rf"(?:[-_.:@](?:{WORD})?[-_.:@]?\d+|[-_.:@]{WORD}|{WORD}[-_.:@]?\d+)$", re.IGNORECASE)
"""The end of a name that says which queue of the device; a bare number belongs to the device itself (eth0, i915)."""


@lru_cache(maxsize=4096)  # asked for every row on behalf of every row that fired
def device_of(actions: str) -> str:
    """The device behind a queue's name: nvme0q3 → nvme0, virtio1-req.2 → virtio1, eth0-rx-7 → eth0, w:queue_1 → w."""
    name = actions.split(",")[0].split("@")[0].strip()[:MAX_NAME]
    while (queue := QUEUE.search(name)) and queue.start():
        name = name[: queue.start()]
    return name


def _split(ctx: Context, *, managed: bool) -> list[RowDelta]:
    """Device rows that are managed, or that are not."""
    return [row for row in ctx.rows(InterruptKind.DEVICE) if _is_managed(ctx, row) is managed]


def _is_managed(ctx: Context, row: RowDelta) -> bool:
    affinity = ctx.observation.after.config.affinity
    if row.irq is None or isinstance(affinity, ProbeError):
        return False
    known = affinity.irqs.get(row.irq)
    return isinstance(known, IrqAffinity) and bool(is_managed(known, row.actions, affinity.modes_tell))


def check_device(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """IRQ.DEVICE."""
    yield from _check(ctx, rule, _split(ctx, managed=False))


def check_managed(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """IRQ.MANAGED. Without /proc/irq every device interrupt is judged by IRQ.DEVICE."""
    known(ctx.observation.after.config.affinity)
    yield from _check(ctx, rule, _split(ctx, managed=True))


def _check(ctx: Context, rule: Rule, rows: Sequence[RowDelta]) -> Iterator[Finding]:
    limit = ctx.policy.limits[rule.id]
    every = ctx.rows(InterruptKind.DEVICE)
    control = ctx.control_rate(lambda cpu: total(every, cpu))
    for cpu in ctx.audited:
        own = {row.irq: item for row in rows if (item := ctx.own_irq(row.irq, cpu))}
        counts = [(row, row.counts.get(cpu)) for row in rows if row.irq not in own]
        known = [(row, count) for row, count in counts if count is not None]
        events = sum(count for _, count in known)
        outcome = judge(events, ctx.window_s, limit)
        yield from (_own(ctx, rule, cpu, item) for item in own.values() if item.fired[cpu])
        if len(known) < len(counts) and outcome is not Outcome.FAIL:
            yield _unknown(rule, cpu, [row for row, count in counts if count is None])
            continue
        outcome = settle(outcome, events, control, limit, shut=irq_door(ctx, cpu) in SHUT)
        if events == 0:
            detail = ("no other fired here" if own else "none fired here") + (
                "" if outcome is Outcome.PASS else "; few fired elsewhere, so nothing is proved"
            )
            yield rule.finding(outcome, [cpu], observed=0, limit=limit.warn, unit="/s", detail=detail)
        for row, count in known:
            if count:
                yield _fired(ctx, rule, outcome, cpu, row, count)


def _own(ctx: Context, rule: Rule, cpu: int, item: OwnIrq) -> Finding:
    """No noise: shown with its count, and judged by nobody."""
    count = item.fired[cpu]
    avoid = Fix(kind=FixKind.WORKLOAD, text="own I/O; to avoid these interrupts submit it from another CPU")
    return rule.finding(
        Outcome.NOT_APPLICABLE,
        [cpu],
        observed=rate(count, ctx.window_s),
        unit="/s",
        title=f"{'allowed' if item.claim is Claim.ALLOWED else 'own'} interrupts: {device_of(item.name)}",
        detail=f"{item.name} fired {count} times: "
        + (item.claim.value if item.claim is Claim.ALLOWED else f"own ({item.claim.value})"),
        evidence=[Evidence(path="/proc/interrupts", field=f"{item.irq} CPU{cpu}", value=f"+{count}")],
        fix=avoid if item.claim is Claim.SUBMITTED else None,
    )


def _unknown(rule: Rule, cpu: int, rows: Sequence[RowDelta]) -> Finding:
    names = ", ".join(f"{row.label} ({row.name})" for row in rows[:3])
    return rule.finding(
        Outcome.UNKNOWN, [cpu], detail=f"{names}: freed, re-created or without this CPU's column in the window"
    )


def _fired(ctx: Context, rule: Rule, outcome: Outcome, cpu: int, row: RowDelta, count: int) -> Finding:
    per_second = rate(count, ctx.window_s)
    device = device_of(row.name)
    rows = [other for other in ctx.rows(InterruptKind.DEVICE) if device_of(other.name) == device]
    control = ctx.control_rate(lambda other: total(rows, other))
    managed = rule.id == "IRQ.MANAGED"
    return rule.finding(
        outcome,
        [cpu],
        observed=per_second,
        limit=bound(outcome, ctx.policy.limits[rule.id]),
        unit="/s",
        title=f"{rule.title}: {device}",
        detail=f"{row.name} fired {count} times"
        + (whose(ctx, row, cpu) if managed else "")
        + (f"; {device}: at most {control:.3g}/s on a control CPU" if control is not None else ""),
        evidence=[Evidence(path="/proc/interrupts", field=f"{row.label} CPU{cpu}", value=f"+{count}")],
        fix=managed_fix(ctx, row, cpu) if managed else _fix(ctx, rows),
        origin=f"irq:{device}",
        per_second=per_second,
        cost_us_per_s=weight("IRQ", per_second),
    )


def _fix(ctx: Context, rows: Iterable[RowDelta]) -> Fix:
    """One fix for all of a device's queues that fired on audited CPUs: a cause shows the fix of one finding."""
    affinity = ctx.observation.after.config.affinity
    if isinstance(affinity, ProbeError):
        return boot_fix(ctx)
    fired = [row for row in rows if not _is_managed(ctx, row) and _disturbed(ctx, row)]
    known = [affinity.irqs.get(row.irq) for row in fired if row.irq is not None]
    movable = [item for item in known if isinstance(item, IrqAffinity)]
    return steer_fix(ctx, movable) if movable else boot_fix(ctx)


def _disturbed(ctx: Context, row: RowDelta) -> bool:
    """Whether it fired on an audited CPU that it does not belong to."""
    return any(row.counts.get(cpu) and not ctx.own_irq(row.irq, cpu) for cpu in ctx.audited)


def check_default(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.IRQAFF."""
    affinity = known(ctx.observation.after.config.affinity)
    if isinstance(affinity.default, ProbeError):
        raise affinity.default
    for cpu in ctx.audited:
        inside = cpu in affinity.default
        value = format_cpulist(affinity.default)
        yield rule.finding(
            Outcome.WARN if inside else Outcome.PASS,
            [cpu],
            detail=f"new interrupts may go to CPUs {value}" + (_asked(ctx, cpu) if inside else ""),
            evidence=[Evidence(path="/proc/irq/default_smp_affinity", field="mask", value=value)],
            fix=boot_fix(ctx, "keep new interrupts on the housekeeping CPUs") if inside else None,
            origin=IRQ,
        )


def _asked(ctx: Context, cpu: int) -> str:
    """Whether the command line itself lets them: then its irqaffinity= is what is wrong."""
    wanted = None if isinstance(ctx.requested, ProbeError) else ctx.requested.asked_irqaffinity
    return f": irqaffinity={format_cpulist(wanted)} at boot names this CPU" if wanted and cpu in wanted else ""


IRQ_DEVICE = Rule(
    id="IRQ.DEVICE",
    title="device interrupts",
    kind=Kind.MEASURED,
    decisive=always,
    why="""Any device interrupt on an exclusive CPU proves that it is routable there; each costs microseconds, its
softirq more. Rows of /proc/interrupts that belong to a device, without per-CPU sources (timers, IPIs, PMU). Those named
with --own-irq are shown and not judged.""",
    sources=("/proc/interrupts", "/proc/irq/*/effective_affinity_list", "/proc/irq/*/smp_affinity_list"),
    cure="steer the interrupt to the housekeeping CPUs: smp_affinity_list now, irqaffinity= at boot",
    check=check_device,
)
IRQ_MANAGED = Rule(
    id="IRQ.MANAGED",
    title="managed device interrupts",
    kind=Kind.MEASURED,
    decisive=always,
    why="""Queues whose affinity the kernel manages (smp_affinity is read-only) follow the CPU that submits the I/O.
They can't be steered; isolcpus=managed_irq helps only while the queue's mask holds an online housekeeping CPU. A queue
of an NVMe or virtio disk that no other CPU feeds is own where only own threads were switched to there.""",
    sources=(
        "/proc/interrupts",
        "/proc/irq/*/effective_affinity_list",
        "/proc/irq/*/smp_affinity_list",
        "/proc/schedstat",
        "/proc/*/io",
    ),
    cure="isolcpus=managed_irq; keep threads of others that do I/O off the CPU; give the device fewer queues",
    check=check_managed,
)
CFG_IRQAFF = Rule(
    id="CFG.IRQAFF",
    title="default interrupt affinity",
    kind=Kind.RISK,
    why="Interrupts that are set up later start with /proc/irq/default_smp_affinity (irqaffinity= at boot).",
    sources=("/proc/irq/default_smp_affinity",),
    warns="where the mask holds the CPU",
    cure="irqaffinity= at boot with the housekeeping CPUs",
    check=check_default,
)
