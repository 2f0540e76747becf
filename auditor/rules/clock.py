"""The clock source: what reading the time costs, and whether the tick may stop with it."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.ends import both
from probes.clocksource import AVAILABLE, CURRENT, Clocksource
from probes.host import ProbeError

FAST = frozenset(
    {
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "xen",
        "arch_sys_counter",
        "timebase",
        "tod",
        "riscv_clocksource",
        "stable_counter",
    }
)
"""Read from a register or a shared page, in tens of nanoseconds."""
SLOW = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "hyperv_clocksource_msr"})
"""Read from a device or by leaving the guest, about a microsecond; or with the grain of a tick."""
TSC = "tsc"
BADNESS = (Outcome.PASS, Outcome.UNKNOWN, Outcome.FAIL)


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.CLOCK."""
    before, after = both(ctx, lambda config: config.clock)
    worst = max((after, before), key=lambda clock: BADNESS.index(_outcome(clock.current)))
    yield rule.finding(
        _outcome(worst.current),
        ctx.audited,
        detail=_text(ctx, before, after, worst),
        evidence=_evidence(after),
        fix=_fix(after) if _outcome(worst.current) is Outcome.FAIL else None,
    )


def _outcome(name: str) -> Outcome:
    if name in SLOW:
        return Outcome.FAIL
    return Outcome.PASS if name in FAST else Outcome.UNKNOWN


def _text(ctx: Context, before: Clocksource, after: Clocksource, worst: Clocksource) -> str:
    text = f"the clock source is {after.current[:40]}"
    if before.current != after.current:
        text = f"the clock source was changed within the window, from {before.current[:40]} to {after.current[:40]}"
    if worst.current in SLOW:
        text += f"; {worst.current} is read from a device: about a microsecond for each look at the time"
        if ctx.observation.facts.kernel.arch == "x86_64" and _lost(after):
            text += "; the TSC was found unstable, so the tick never stops on a nohz_full CPU"
    elif worst.current not in FAST:
        text += ", of which nothing is known here"
    return text


def _lost(clock: Clocksource) -> bool:
    """The kernel takes an unstable TSC off the list."""
    return not isinstance(clock.available, ProbeError) and TSC not in clock.available


def _evidence(clock: Clocksource) -> list[Evidence]:
    found = [Evidence(path=f"/{CURRENT}", field="name", value=clock.current[:40])]
    if not isinstance(clock.available, ProbeError):
        found.append(Evidence(path=f"/{AVAILABLE}", field="names", value=" ".join(clock.available)[:100]))
    return found


def _fix(clock: Clocksource) -> Fix | None:
    """The faster one that is there; an unstable TSC is for the firmware, or for whoever runs the hypervisor."""
    available = () if isinstance(clock.available, ProbeError) else clock.available
    faster = next((name for name in available if name in FAST), None)
    if faster is None or clock.current in FAST:
        return Fix(
            kind=FixKind.FIRMWARE,
            text="look for `clocksource: Marking clocksource` or `TSC unstable` in dmesg; where the TSC is known to be "
            "good, boot with tsc=reliable; in a guest give it an invariant TSC",
        )
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"switch to {faster} (every CPU stops for a moment), and take clocksource= off the boot line",
        commands=(f"echo {faster} | sudo tee /{CURRENT}",),
        undo=f"echo {clock.current} | sudo tee /{CURRENT}" if clock.current in SLOW else "",
    )


CFG_CLOCK = Rule(
    id="CFG.CLOCK",
    title="clock source",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""From hpet or acpi_pm each look at the time is a device access of about a microsecond. They are the kernel's
choice where it found the TSC unstable, and with an unstable clock the tick never stops, whatever nohz_full says.""",
    sources=(f"/{CURRENT}", f"/{AVAILABLE}"),
    fails="where it is hpet, acpi_pm or another that is no register",
    cure="find out why the TSC was given up; tsc=reliable where it is known to be good",
    check=check,
)
