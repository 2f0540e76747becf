"""Whether the audited CPUs were there throughout: a CPU that left is not judged by what its counters still show."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.requested import BOOT_CPU
from auditor.rules.base import Rule, always
from probes.cpulist import format_cpulist
from probes.host import known

PATH = "/sys/devices/system/cpu/online"
LEFT = "offline CPU"
HOTPLUG_RUNS = 4
"""Switches to cpuhp/N from which on the CPU may have left and come back: a driver that registers callbacks takes one or
two, leaving and coming back took 16 (6.12-rt, booted)."""


def check_cpus(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.CPUS."""
    online = known(ctx.observation.after.config.online)
    for cpu in ctx.audited:
        if cpu not in online:
            yield _gone(rule, cpu, online)
        elif looks := _looks_without(ctx, cpu):
            yield _back(ctx, rule, cpu, looks)
        elif (runs := _hotplug_runs(ctx, cpu)) >= HOTPLUG_RUNS:
            yield _maybe(rule, cpu, runs)
        elif cpu == BOOT_CPU:
            text = "the boot CPU keeps the time: it can't be nohz_full, and irqaffinity always includes it"
            yield rule.finding(Outcome.WARN, [cpu], detail=text)
        else:
            yield rule.finding(Outcome.PASS, [cpu], detail="online, not the boot CPU")


def _looks_without(ctx: Context, cpu: int) -> int:
    """Samples that found the CPU offline; one that could not tell says nothing."""
    return sum(sample.online is not None and cpu not in sample.online for sample in ctx.observation.samples)


def _hotplug_runs(ctx: Context, cpu: int) -> int:
    """Certain switches to the thread that takes this CPU down and up (kernel/cpu.c)."""
    name = f"cpuhp/{cpu}"
    return sum(runner.growth.least for runner in ctx.runners if runner.status.kernel and runner.status.name == name)


def _gone(rule: Rule, cpu: int, online: frozenset[int]) -> Finding:
    return rule.finding(
        Outcome.FAIL,
        [cpu],
        title=LEFT,
        detail="went offline within the window: its counters are lost",
        evidence=[Evidence(path=PATH, field="list", value=format_cpulist(online))],
        fix=Fix(
            kind=FixKind.RUNTIME,
            text="bring it back, pin its workload again, and audit it again",
            commands=(f"echo 1 > /sys/devices/system/cpu/cpu{cpu}/online",),
            undo=f"echo 0 > /sys/devices/system/cpu/cpu{cpu}/online",
        ),
    )


def _back(ctx: Context, rule: Rule, cpu: int, looks: int) -> Finding:
    text = (
        f"was offline in {looks} of {len(ctx.observation.samples)} samples and came back: "
        "its counters tell only a part of the window"
    )
    return rule.finding(
        Outcome.FAIL,
        [cpu],
        title=LEFT,
        detail=text,
        evidence=[Evidence(path=PATH, field="samples without it", value=str(looks))],
        fix=_again(),
    )


def _maybe(rule: Rule, cpu: int, runs: int) -> Finding:
    text = f"cpuhp/{cpu} ran {runs} times: it went offline and came back, or drivers set up their hotplug callbacks"
    return rule.finding(
        Outcome.UNKNOWN,
        [cpu],
        title=LEFT,
        detail=text,
        evidence=[Evidence(path=f"cpuhp/{cpu}", field="switches", value=f"+{runs}")],
        fix=_again(),
    )


def _again() -> Fix:
    text = "find who takes CPUs offline, pin the workload again (the kernel moved it away), and audit again"
    return Fix(kind=FixKind.RUNTIME, text=text)


CFG_CPUS = Rule(
    id="CFG.CPUS",
    title="choice of CPUs",
    kind=Kind.RISK,
    decisive=always,
    why="""An audited CPU must stay online: one that left within the window, even for a moment, can't be told isolated.
The boot CPU can't be isolated fully on x86 and arm64.""",
    sources=("/sys/devices/system/cpu/online", "/proc/*/task/*/stat", "/proc/*/task/*/schedstat"),
    warns="at the boot CPU",
    fails="where the CPU was offline for a part of the window",
    cure="find who takes CPUs offline, pin the workload again, audit again; audit other CPUs than the boot CPU",
    check=check_cpus,
)
