"""Periodic work of the kernel that a sysctl makes rarer."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.ends import alike, both
from probes.host import ProbeError
from probes.snapshot import Config
from probes.sysctls import NUMA_BALANCING, STAT_INTERVAL, Sysctls, path_of

SELDOM_S = 10
"""What tuned's profiles for isolated CPUs set; the kernel's default is a second."""


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.SYSCTL."""
    before, after = both(ctx, lambda config: config.sysctls)

    def judge(cpu: int) -> tuple[Outcome, str]:
        problems = [*_vmstat(ctx, cpu, before, after), *_numa(ctx, before, after)]
        return (Outcome.WARN, "; ".join(problems)) if problems else (Outcome.PASS, "nothing that they would make rarer")

    yield from alike(ctx, rule, judge, evidence=lambda _: _evidence(after), fix=lambda _: _fix(ctx, after))


def _vmstat(ctx: Context, cpu: int, before: Sysctls, after: Sysctls) -> Iterator[str]:
    seconds = min(sysctls.number(STAT_INTERVAL) for sysctls in (before, after))
    if seconds < SELDOM_S and not _spared(ctx, cpu):
        yield f"vm.stat_interval {seconds} s: that often a kworker of the CPU may run vmstat_update"


def _spared(ctx: Context, cpu: int) -> bool:
    """From 6.5 on the shepherd leaves out isolated CPUs (mm/vmstat.c cpu_is_isolated)."""
    if not ctx.since(6, 5):
        return False
    return all(_isolated(ctx, end.config, cpu) for end in (ctx.observation.before, ctx.observation.after))


def _isolated(ctx: Context, config: Config, cpu: int) -> bool:
    """By the boot line; before 7.0 by nohz_full too; by a partition since 6.8."""
    isolation = config.isolation
    sets = [isolation.boot, *([] if ctx.since(7, 0) else [isolation.nohz_full])]
    sets += [isolation.partitioned()] if ctx.since(6, 8) else []
    return any(not isinstance(known, ProbeError) and cpu in known for known in sets)


def _numa(ctx: Context, before: Sysctls, after: Sysctls) -> Iterator[str]:
    """Where memory has one node only, or the kernel no such setting, there is nothing to balance."""
    if len(set(ctx.observation.facts.topology.node.values())) < 2:
        return
    if any(not sysctls.lacks(NUMA_BALANCING) and sysctls.number(NUMA_BALANCING) for sysctls in (before, after)):
        yield "kernel.numa_balancing unmaps pages of running threads, which then fault and may be moved"


def _evidence(sysctls: Sysctls) -> list[Evidence]:
    return [
        Evidence(path=f"/{path_of(name)}", field=name, value=str(value))
        for name in (STAT_INTERVAL, NUMA_BALANCING)
        if isinstance(value := sysctls.numbers.get(name), int)
    ]


def _fix(ctx: Context, after: Sysctls) -> Fix | None:
    """What is set otherwise now."""
    several = len(set(ctx.observation.facts.topology.node.values())) > 1
    wanted = [(STAT_INTERVAL, SELDOM_S, after.number(STAT_INTERVAL) < SELDOM_S)]
    wanted += [(NUMA_BALANCING, 0, several and after.numbers.get(NUMA_BALANCING) not in (0, None))]
    due = [(name, value) for name, value, is_due in wanted if is_due and isinstance(after.numbers.get(name), int)]
    if not due:
        return None
    return Fix(
        kind=FixKind.RUNTIME,
        text="write the same lines to a file below /etc/sysctl.d to keep them",
        commands=tuple(f"sudo sysctl -w {name}={value}" for name, value in due),
        undo="; ".join(f"sudo sysctl -w {name}={after.numbers[name]}" for name, _ in due),
    )


CFG_SYSCTL = Rule(
    id="CFG.SYSCTL",
    title="periodic kernel work",
    kind=Kind.RISK,
    why="""Every vm.stat_interval seconds a kworker of the CPU folds its memory counters into the global ones, if they
changed; from 6.5 on isolated CPUs are left out. kernel.numa_balancing takes pages of running threads away to see who
uses them, on machines of several memory nodes.""",
    sources=(f"/{path_of(STAT_INTERVAL)}", f"/{path_of(NUMA_BALANCING)}"),
    warns=f"where vm.stat_interval is below {SELDOM_S} s and the kernel does not leave the CPU out, or NUMA balancing "
    "is on and there are several nodes",
    cure=f"vm.stat_interval={SELDOM_S}, kernel.numa_balancing=0",
    check=check,
)
