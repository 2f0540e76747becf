"""Where the kernel may run work that is bound to no CPU."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from probes.cpulist import format_cpulist, format_cpumask
from probes.host import ProbeError
from probes.workqueue import WORKQUEUE_DIR, Workqueues

PATH = f"/{WORKQUEUE_DIR}/cpumask"


def workqueues(ctx: Context) -> tuple[Workqueues, Workqueues]:
    """The masks at both ends of the window. Raises ProbeError where either is not known."""
    before, after = (end.config.workqueues for end in (ctx.observation.before, ctx.observation.after))
    if isinstance(before, ProbeError):
        raise before
    if isinstance(after, ProbeError):
        raise after
    return before, after


def lets_in(ctx: Context, cpu: int) -> bool:
    """Whether the mask is known to let unbound work run on this CPU."""
    masks = ctx.observation.after.config.workqueues
    return not isinstance(masks, ProbeError) and cpu in masks.cpumask


def check_workqueue(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.WQ."""
    before, after = workqueues(ctx)
    either = before.cpumask | after.cpumask
    alike: dict[tuple[bool, str], list[int]] = {}
    for cpu in ctx.audited:
        alike.setdefault((cpu in either, _describe(before, after, cpu)), []).append(cpu)
    for (inside, text), cpus in alike.items():
        yield rule.finding(
            Outcome.WARN if inside else Outcome.PASS,
            cpus,
            detail=text,
            evidence=[Evidence(path=PATH, field="mask", value=format_cpumask(after.cpumask))],
            fix=mask_fix(ctx) if after.cpumask.intersection(cpus) else None,
        )


def _describe(before: Workqueues, after: Workqueues, cpu: int) -> str:
    text = f"unbound work may run on CPUs {format_cpulist(after.cpumask)}"
    if cpu not in after.cpumask:
        return text + (f"; CPU {cpu} was taken out within the window" if cpu in before.cpumask else "")
    if cpu not in before.cpumask:
        text += f"; CPU {cpu} was let in within the window"
    elif after.isolated is not None and cpu in after.isolated:
        text += f", though {format_cpulist(after.isolated)} are isolated: a write to the mask let them in again"
    names = after.inside(cpu)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return text + (f"; queues that may come here: {', '.join(names[:3])}{more}" if names else "")


def mask_fix(ctx: Context) -> Fix:
    """Takes the audited CPUs out of the global mask: no queue's own mask reaches beyond it. Kept until a reboot."""
    masks = ctx.observation.after.config.workqueues
    old = frozenset() if isinstance(masks, ProbeError) else masks.cpumask
    new = old - ctx.targets.audited or ctx.targets.roam
    boot = boot_fix(ctx).boot if ctx.since(4, 15) else {}
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"let unbound work run on CPUs {format_cpulist(new)} only"
        + ("; isolcpus=domain or nohz_full does it from boot on" if boot else ""),
        commands=(f"echo {format_cpumask(new)} | sudo tee {PATH}",),
        boot=boot,
        undo=f"echo {format_cpumask(old)} | sudo tee {PATH}" if old else "",
    )


CFG_WQ = Rule(
    id="CFG.WQ",
    title="unbound workqueues",
    kind=Kind.RISK,
    why="""Kernel work that is bound to no CPU (writeback, events_unbound …) runs in kworker/u* threads on the CPUs of
one global mask; a queue's own mask only narrows it. The kernel takes isolated CPUs out at boot; a write to the mask
lets them in again.""",
    sources=("/sys/devices/virtual/workqueue/cpumask",),
    warns="where the mask holds the CPU",
    cure="write the housekeeping CPUs to the mask; isolcpus=domain or nohz_full does so at boot",
    check=check_workqueue,
)
