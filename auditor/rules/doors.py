"""The two doors: the scheduler domain, and where active device interrupts may fire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.own_irqs import Claim
from auditor.policy import Thresholds
from auditor.rules.base import Rule, always
from auditor.rules.domain_v1 import by_cpusets_v1
from auditor.rules.irqbalance import keep_off_fixes
from auditor.rules.origins import DOMAIN, IRQ
from probes.cpulist import format_cpulist
from probes.cpuset_v1 import BALANCE, V1_ROOT
from probes.host import ProbeError, SourceState
from probes.interrupts import InterruptKind, Interrupts
from probes.irq_affinity import IrqAffinity, is_managed
from probes.schedstat import SchedStat
from probes.snapshot import Config, Counters


def domain_state(ctx: Context, cpu: int) -> tuple[Outcome, str, list[Evidence]]:
    """Whether the CPU is out of the load balancer's reach, at both ends.

    By schedstat, then partitions, then sysfs; last by the flags of cgroup v1, which are what a domain is made of there.
    """
    for prove in (_by_schedstat, _by_isolation, by_cpusets_v1):
        if found := prove(ctx, cpu):
            return found
    return Outcome.UNKNOWN, "neither /proc/schedstat nor sysfs tells of scheduler domains", []


def _ends(ctx: Context) -> tuple[Counters, Counters]:
    return ctx.observation.before.counters, ctx.observation.after.counters


def _by_schedstat(ctx: Context, cpu: int) -> tuple[Outcome, str, list[Evidence]] | None:
    spans = _spans(ctx, cpu)
    known = [span for span in spans if span is not None]
    if open_to := [span for span in known if not span <= ctx.targets.audited]:
        widest = max(open_to, key=len)
        listed = format_cpulist(widest)
        text = f"in a scheduler domain with CPUs {listed}: any thread may be placed here"
        return Outcome.FAIL, text, [_schedstat(cpu, f"domain over CPUs {listed}")]
    if len(known) < len(spans):
        return None
    if not known:
        if not all(_shows_domains(end.schedstat) for end in _ends(ctx)):
            return None
        return Outcome.PASS, "in no scheduler domain", [_schedstat(cpu, "no domain line")]
    widest = max(known, key=len)
    listed = format_cpulist(widest)
    text = f"balanced only among the audited CPUs {listed} (cpuset root partition)"
    return Outcome.PASS, text, [_schedstat(cpu, f"domain over CPUs {listed}")]


def _spans(ctx: Context, cpu: int) -> list[frozenset[int] | None]:
    """Every domain of the CPU at both ends; None for an end that does not tell."""
    spans: list[frozenset[int] | None] = []
    for end in _ends(ctx):
        if isinstance(end.schedstat, ProbeError) or cpu not in end.schedstat.cpus:
            spans.append(None)
        else:
            spans += end.schedstat.cpus[cpu].domains
    return spans


def _shows_domains(schedstat: SchedStat | ProbeError) -> bool:
    """Whether any CPU has a domain line: without one, no domain here says nothing.

    The lines may be lost, the kernel may have no CONFIG_SMP, or a lone housekeeping CPU has nobody to share load with.
    """
    return not isinstance(schedstat, ProbeError) and any(cpu.domains for cpu in schedstat.cpus.values())


def balanced_inside(ctx: Context, cpu: int) -> bool:
    """Whether the CPU is balanced, but only among the audited ones: by a cpuset root partition."""
    spans = _spans(ctx, cpu)
    return bool(spans) and all(span is not None and span <= ctx.targets.audited for span in spans)


def _schedstat(cpu: int, value: str) -> Evidence:
    return Evidence(path="/proc/schedstat", field=f"cpu{cpu}", value=value)


def _by_isolation(ctx: Context, cpu: int) -> tuple[Outcome, str, list[Evidence]] | None:
    """Only a proof of isolation: an empty sysfs list says nothing of partitions or of what a runtime did."""
    ends = (ctx.observation.before.config, ctx.observation.after.config)
    if all(cpu in end.isolation.partitioned() for end in ends):
        evidence = Evidence(path="/sys/fs/cgroup", field="cpuset.cpus.partition", value="isolated")
        return Outcome.PASS, "in an isolated cpuset partition", [evidence]
    if all(_boot_isolated(end, cpu) for end in ends):
        evidence = Evidence(path="/sys/devices/system/cpu/isolated", field="list", value=str(cpu))
        return Outcome.PASS, "isolated at boot", [evidence]
    return None


def _boot_isolated(config: Config, cpu: int) -> bool:
    boot = config.isolation.boot
    return not isinstance(boot, ProbeError) and cpu in boot


def check_domain(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.DOMAIN."""
    for cpu in ctx.audited:
        outcome, detail, evidence = domain_state(ctx, cpu)
        fix = boot_fix(ctx, _partition_hint(ctx)) if outcome is Outcome.FAIL else None
        yield rule.finding(outcome, [cpu], detail=detail, evidence=evidence, fix=fix, origin=DOMAIN)


def _partition_hint(ctx: Context) -> str:
    if ctx.since(6, 8):
        return (
            "take the CPUs out of the scheduler domains at boot (or, without a reboot, by an isolated cpuset partition)"
        )
    return "take the CPUs out of the scheduler domains at boot"


def active_irqs(ctx: Context) -> tuple[dict[int, str], frozenset[int]]:
    """Interrupts that a driver has requested, with its name, at either end; and the numbers of those at both.

    They have an action. Others may keep any mask, they can't fire. Raises ProbeError.
    """
    ends: list[dict[int, str]] = []
    for end in _ends(ctx):
        if isinstance(end.interrupts, ProbeError):
            raise end.interrupts
        devices = [row for row in end.interrupts.rows if row.kind is InterruptKind.DEVICE]
        ends.append({row.irq: row.actions for row in devices if row.irq is not None and row.actions})
    return ends[0] | ends[1], frozenset(ends[0].keys() & ends[1].keys())


def routed(ctx: Context, cpu: int, *, managed: bool) -> list[tuple[int, str, IrqAffinity]]:
    """Active interrupts programmed to fire on this CPU at either end, managed or not; without those named as own.

    Raises ProbeError where there is none among those that can be read, and not all can.
    """
    return [found for found in _routed(ctx, cpu, managed=managed) if found[0] not in _declared(ctx)]


def _declared(ctx: Context) -> frozenset[int]:
    return frozenset(item.irq for item in ctx.own_irqs if item.claim is not Claim.SUBMITTED)


def _routed(ctx: Context, cpu: int, *, managed: bool) -> list[tuple[int, str, IrqAffinity]]:
    found: dict[int, tuple[int, str, IrqAffinity]] = {}
    unread: list[ProbeError] = []
    names, always_there = active_irqs(ctx)
    fired = _fired(ctx)
    if not managed:
        unread += [error for end in _ends(ctx) if (error := _unsteered(end.interrupts))]
    for config in (ctx.observation.before.config, ctx.observation.after.config):
        if isinstance(config.affinity, ProbeError):
            unread.append(config.affinity)
            continue
        for irq, actions in names.items():
            affinity = config.affinity.irqs.get(irq) or (_not_there(irq) if irq in always_there else None)
            if isinstance(affinity, ProbeError):
                unread.append(affinity)
            elif (
                affinity
                and (affinity.effective or irq in fired)
                and cpu in _fires_on(affinity, actions, config.affinity.modes_tell, managed=managed)
            ):
                found[irq] = (irq, actions, affinity)
    if unread and not found:
        raise unread[0]
    return [found[irq] for irq in sorted(found)]


def _unsteered(interrupts: Interrupts | ProbeError) -> ProbeError | None:
    """Devices whose interrupts have no number, as the channels of s390: the machine brings them to any CPU."""
    rows = () if isinstance(interrupts, ProbeError) else interrupts.rows
    found = next((row for row in rows if row.kind is InterruptKind.DEVICE and row.irq is None), None)
    if found is None:
        return None
    return ProbeError("proc/interrupts", f"row {found.label} has no number: its interrupts go to any CPU")


def _fired(ctx: Context) -> frozenset[int]:
    """Interrupts that fired since boot, or whose chip tells where they would: the rest can't be said to be active.

    A GPIO line that never fired has an empty effective list and the default mask; it is no open door yet.
    """
    fired: set[int] = set()
    for counters, config in zip(_ends(ctx), (ctx.observation.before.config, ctx.observation.after.config), strict=True):
        if not isinstance(counters.interrupts, ProbeError):
            fired |= {row.irq for row in counters.interrupts.rows if row.irq is not None and any(row.counts.values())}
        if not isinstance(config.affinity, ProbeError):
            known = [item for item in config.affinity.irqs.values() if not isinstance(item, ProbeError)]
            fired |= {item.irq for item in known if item.effective is None}
    return frozenset(fired)


def _not_there(irq: int) -> ProbeError:
    """An interrupt set up or freed meanwhile may lack its directory; one that was there all the time does not."""
    return ProbeError(f"proc/irq/{irq}", "not there, though the interrupt is in use", SourceState.MISSING)


def _fires_on(affinity: IrqAffinity, actions: str, modes_tell: bool, *, managed: bool) -> frozenset[int]:
    if bool(is_managed(affinity, actions, modes_tell)) is not managed:
        return frozenset()
    return fires_on(affinity, managed=managed)


def fires_on(affinity: IrqAffinity, *, managed: bool = False) -> frozenset[int]:
    """Where the chip was told to deliver; where the kernel does not say (s390), everything that was requested.

    Chips that can't be told (those behind another interrupt: GPIO, demultiplexed MSI) show an empty effective list.
    What was requested may still be pending: the next event lands where the last ones did. But a managed interrupt whose
    CPUs are all offline is shut down and yet shows an effective CPU: there only what was requested counts as well.
    """
    if managed and affinity.effective is not None:
        return affinity.effective & affinity.requested
    return affinity.effective or affinity.requested


def irq_door(ctx: Context, cpu: int) -> Outcome:
    """Pass where no active unmanaged interrupt may fire on this CPU; warn where all that may are on their way."""
    try:
        here = routed(ctx, cpu, managed=False)
    except ProbeError:
        return Outcome.UNKNOWN
    if not here:
        return Outcome.PASS
    return Outcome.WARN if all(leaving(ctx, cpu, affinity) for _, _, affinity in here) else Outcome.FAIL


def leaving(ctx: Context, cpu: int, affinity: IrqAffinity) -> bool:
    """Whether the interrupt was steered away and moves with its next event (IRQD_SETAFFINITY_PENDING).

    smp_affinity shows a mask that waits as if it were in force (kernel/irq/proc.c). A mask without an online CPU is no
    such thing: there the kernel chose another one. Nor is one that fired here meanwhile and is here still.
    """
    online = ctx.observation.after.config.online
    wanted = affinity.requested - ctx.targets.audited
    if affinity.effective is None or isinstance(online, ProbeError) or wanted != affinity.requested:
        return False
    return bool(wanted & online) and (_silent(ctx, cpu, affinity.irq) or _moved(ctx, cpu, affinity.irq))


def _silent(ctx: Context, cpu: int, irq: int) -> bool:
    rows = () if isinstance(ctx.delta.interrupts, ProbeError) else ctx.delta.interrupts
    return any(row.irq == irq and row.counts.get(cpu) == 0 for row in rows)


def _moved(ctx: Context, cpu: int, irq: int) -> bool:
    """Whether the chip delivers it elsewhere at the end of the window."""
    known = ctx.observation.after.config.affinity
    after = None if isinstance(known, ProbeError) else known.irqs.get(irq)
    return isinstance(after, IrqAffinity) and bool(after.effective) and cpu not in (after.effective or ())


def check_affinity(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """IRQ.AFFINITY."""
    for cpu in ctx.audited:
        here = routed(ctx, cpu, managed=False)
        if not here:
            yield rule.finding(Outcome.PASS, [cpu], detail=_none_here(ctx, cpu), origin=IRQ)
            continue
        outcome = irq_door(ctx, cpu)
        staying = [item for item in here if not leaving(ctx, cpu, item[2])] or here
        names = ", ".join(f"{irq} ({actions})" for irq, actions, _ in staying[:4]) + (" …" if len(staying) > 4 else "")
        yield rule.finding(
            outcome,
            [cpu],
            observed=len(staying),
            limit=0,
            unit="interrupts",
            detail=f"routed here: {names}"
            if outcome is Outcome.FAIL
            else f"steered away, and each moves with its next event, which still lands here: {names}",
            evidence=[affinity_evidence(affinity) for _, _, affinity in staying],
            fix=steer_fix(ctx, [affinity for _, _, affinity in staying]) if outcome is Outcome.FAIL else None,
            origin=IRQ,
        )


def _none_here(ctx: Context, cpu: int) -> str:
    own = [f"{irq} ({name})" for irq, name, _ in _routed(ctx, cpu, managed=False) if irq in _declared(ctx)]
    allowed = any(item.claim is Claim.ALLOWED for item in ctx.own_irqs)
    kind = "own or allowed" if allowed else "own"
    return (
        f"routed here are only {kind} interrupts: {', '.join(own)}"
        if own
        else "no active device interrupt is routed here"
    )


def affinity_evidence(affinity: IrqAffinity) -> Evidence:
    """Which file says where an interrupt goes."""
    name = "effective_affinity_list" if affinity.effective else "smp_affinity_list"
    return Evidence(path=f"/proc/irq/{affinity.irq}/{name}", field="list", value=format_cpulist(fires_on(affinity)))


def steer_fix(ctx: Context, affinities: Iterable[IrqAffinity]) -> Fix:
    """Moves interrupts to the housekeeping CPUs now; the boot line keeps later ones away.

    An irqbalance that does not keep off the audited CPUs would move them back: it is told first.
    """
    target = format_cpulist(ctx.targets.housekeeping)
    chosen = sorted(affinities, key=lambda affinity: affinity.irq)
    first = keep_off_fixes(ctx)
    steer = [f"echo {target} | sudo tee /proc/irq/{item.irq}/smp_affinity_list" for item in chosen]
    back = [
        f"echo {format_cpulist(item.requested)} | sudo tee /proc/irq/{item.irq}/smp_affinity_list" for item in chosen
    ]
    return Fix(
        kind=FixKind.RUNTIME,
        text="".join(f"{fix.text}; " for fix in first) + f"steer these interrupts to the housekeeping CPUs {target}; "
        f"irqaffinity={target} at boot keeps new ones there",
        commands=(*(command for fix in first for command in fix.commands), *steer),
        boot=boot_fix(ctx).boot,
        undo="; ".join([*back, *(fix.undo for fix in first)]),
    )


CFG_DOMAIN = Rule(
    id="CFG.DOMAIN",
    title="scheduler domain",
    kind=Kind.DOOR,
    decisive=always,
    why="""A CPU in a scheduler domain is balanced: any thread may be placed on it, and its own tick runs the balancer.
Evidence in this order: domain lines of /proc/schedstat, an exact `isolated` cpuset partition, sysfs cpu/isolated; on
cgroup v1 the cpusets with sched_load_balance that have the CPU. A root partition whose domains stay within the audited
CPUs is valid isolation.""",
    sources=(
        "/proc/schedstat",
        "/sys/fs/cgroup/**/cpuset.cpus.partition",
        "/sys/devices/system/cpu/isolated",
        f"/{V1_ROOT}/**/{BALANCE}",
    ),
    fails="where the CPU is in a domain that reaches beyond the audited CPUs",
    cure="isolcpus=domain at boot; since 6.8 an isolated cpuset partition does it without a reboot",
    check=check_domain,
)
IRQ_AFFINITY = Rule(
    id="IRQ.AFFINITY",
    title="where device interrupts may fire",
    kind=Kind.DOOR,
    decisive=always,
    why="""The effective affinity of an interrupt with a handler says which CPU its next event lands on. One that was
steered away and has not fired since still lands here once: a warning.
Managed queues (their affinity is the kernel's) are listed by CFG.MIRQ: they fire only for I/O submitted from here.""",
    sources=("/proc/irq/*/effective_affinity_list", "/proc/irq/*/smp_affinity_list", "/proc/interrupts"),
    warns="where each of them was steered away and moves with its next event",
    fails="at any active device interrupt that is routed to the CPU",
    cure="write the housekeeping CPUs to the smp_affinity_list of each; irqaffinity= at boot keeps new ones there",
    thresholds=lambda _: Thresholds(fail=0, unit="interrupts"),
    check=check_affinity,
)
