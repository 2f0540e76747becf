"""The lockup detectors: on each CPU of kernel.watchdog_cpumask a timer, and with perf an NMI."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.bootline import has_nohz_full
from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.ends import alike, both
from probes.cpulist import format_cpulist
from probes.host import ProbeError, known
from probes.sysctls import (
    NMI_WATCHDOG,
    SOFT_WATCHDOG,
    WATCHDOG,
    WATCHDOG_CPUMASK,
    WATCHDOG_THRESH,
    Sysctls,
    path_of,
)

PATH = f"/{path_of(WATCHDOG_CPUMASK)}"
SAMPLE = 2 / 5
"""Of the threshold: how often the soft-lockup timer fires (kernel/watchdog.c set_sample_period)."""


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.WATCHDOG."""
    before, after = both(ctx, lambda config: config.sysctls)
    if before.lacks(WATCHDOG) and after.lacks(WATCHDOG):
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="the kernel has no lockup detector")
        return

    def judge(cpu: int) -> tuple[Outcome, str]:
        ends = [_visits(end, cpu) for end in (before, after)]
        return (Outcome.WARN, _cost(after)) if any(ends) else (Outcome.PASS, _why_not(after))

    yield from alike(ctx, rule, judge, evidence=lambda _: _evidence(after), fix=lambda _: _fix(ctx, after))


def _visits(sysctls: Sysctls, cpu: int) -> bool:
    """Whether the detectors run on this CPU. Raises ProbeError where that can't be told."""
    if not sysctls.number(WATCHDOG) or sysctls.numbers.get(WATCHDOG_THRESH) == 0:
        return False
    mask = known(sysctls.watchdog_cpumask)
    return cpu in mask


def _cost(sysctls: Sysctls) -> str:
    threshold = sysctls.numbers.get(WATCHDOG_THRESH)
    soft = f"{SAMPLE * threshold:g} s" if isinstance(threshold, int) and threshold else "few seconds"
    parts = [f"a timer every {soft} wakes migration/N"] if sysctls.numbers.get(SOFT_WATCHDOG) != 0 else []
    parts += ["the hard-lockup detector comes as an NMI or a timer"] if sysctls.numbers.get(NMI_WATCHDOG) != 0 else []
    return f"the lockup detectors run here: {', '.join(parts) or 'within the window they were switched'}"


def _why_not(sysctls: Sysctls) -> str:
    if not sysctls.number(WATCHDOG) or sysctls.numbers.get(WATCHDOG_THRESH) == 0:
        return "the lockup detectors are off"
    return f"the lockup detectors run on CPUs {_listed(sysctls)} only"


def _listed(sysctls: Sysctls) -> str:
    mask = sysctls.watchdog_cpumask
    return "" if isinstance(mask, ProbeError) else format_cpulist(mask)


def _evidence(sysctls: Sysctls) -> list[Evidence]:
    found = [
        Evidence(path=f"/{path_of(name)}", field=name, value=str(value))
        for name in (WATCHDOG, SOFT_WATCHDOG, NMI_WATCHDOG, WATCHDOG_THRESH)
        if isinstance(value := sysctls.numbers.get(name), int)
    ]
    if isinstance(sysctls.watchdog_cpumask, frozenset):
        found.append(Evidence(path=PATH, field=WATCHDOG_CPUMASK, value=_listed(sysctls) or "none"))
    return found


def _fix(ctx: Context, sysctls: Sysctls) -> Fix:
    """Takes the audited CPUs out of the mask and leaves the detectors on elsewhere."""
    mask = sysctls.watchdog_cpumask
    old = frozenset[int]() if isinstance(mask, ProbeError) else mask
    new = old - ctx.targets.audited or ctx.targets.roam
    boot = "; nohz_full does so from boot on" if has_nohz_full(ctx) else ""
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"let the lockup detectors run on CPUs {format_cpulist(new)} only{boot}",
        commands=(f"echo {format_cpulist(new)} | sudo tee {PATH}",),
        undo=f"echo {format_cpulist(old)} | sudo tee {PATH}" if old else "",
    )


CFG_WATCHDOG = Rule(
    id="CFG.WATCHDOG",
    title="lockup detectors",
    kind=Kind.RISK,
    why="""On every CPU of kernel.watchdog_cpumask the soft-lockup detector keeps a timer that wakes migration/N, and
the hard-lockup detector sends an NMI about every kernel.watchdog_thresh seconds of work (since 6.5 it may watch the
neighbour by timer instead). The mask leaves out nohz_full CPUs, not those of isolcpus or a partition.""",
    sources=tuple(
        f"/{path_of(name)}" for name in (WATCHDOG, SOFT_WATCHDOG, NMI_WATCHDOG, WATCHDOG_THRESH, WATCHDOG_CPUMASK)
    ),
    warns="where a detector is on and the mask holds the CPU",
    cure="write the housekeeping CPUs to kernel.watchdog_cpumask; nohz_full does so at boot",
    check=check,
)
