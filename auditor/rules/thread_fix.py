"""What to do about threads of others: a command for each of them, as far as it can be moved at all."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Fix, FixKind, Outcome
from auditor.requested import BOOT_CPU
from auditor.rules.doors import domain_state
from auditor.rules.presence import confined, foreign_runners, stuck
from auditor.rules.workqueue import lets_in, mask_fix
from auditor.switches import Runner
from probes.cpulist import format_cpulist
from probes.host import ProbeError

MAX_MOVED = 3
"""Threads that get a command; the others are counted."""
UNIT = re.compile(r"/([^/]+\.service)(?=/|$)")
GENERIC = (
    "the CPU is out of the scheduler domains: what runs here was pinned or inherited it; move user threads "
    "with taskset -pc or their unit's AllowedCPUs=, find what queues the kernel work"
)
BOUND = (
    "kernel threads bound to a CPU can't be moved: keep off what gives them work, as the name tells (kworker: the "
    "queue behind the dash, ktimers and ksoftirqd: timers and softirqs, irq: an interrupt)"
)
VMSTAT = "-mm_percpu_wq"
NO_TICK = "nohz_full stops the tick and what it brings to the CPU's own threads (rcuc, ktimers, ksoftirqd, migration)"
ISOLATE = "keep other threads off: isolate these CPUs at boot"


@dataclass(frozen=True, kw_only=True, slots=True)
class Culprits:
    """Threads of others on audited CPUs by what can be done about them, those that took most first."""

    stuck: tuple[Runner, ...]
    """They may run elsewhere too, and were only found here."""
    pinned: tuple[Runner, ...]
    """They may run on audited CPUs only."""
    unbound_work: bool
    """A kworker of an unbound workqueue ran where the mask lets it in."""
    others: bool
    """Someone was there who is not a kernel thread bound to the CPU, or nobody is known."""


def culprits(ctx: Context) -> Culprits:
    """Of those that are still there: an id may be given to another thread, a command for it would hit that one."""
    stuck_here: dict[int, Runner] = {}
    pinned: dict[int, Runner] = {}
    unbound_work, bound = False, set()
    for cpu in ctx.audited:
        for runner in foreign_runners(ctx, cpu):
            bound.add(runner.status.kernel and len(runner.allowed) == 1)
            unbound_work |= is_unbound_work(runner) and lets_in(ctx, cpu)
            if not _movable(ctx, runner):
                continue
            if confined(ctx, runner):
                pinned[runner.key.tid] = runner
            elif stuck(ctx, runner, cpu):
                stuck_here[runner.key.tid] = runner
    return Culprits(
        stuck=_most_first(stuck_here),
        pinned=_most_first(pinned),
        unbound_work=unbound_work,
        others=bound != {True},
    )


def is_unbound_work(runner: Runner) -> bool:
    """Whether it is a worker that is bound to no CPU; the kernel sets where it may run by the mask of its queue."""
    return runner.status.kernel and runner.status.name.startswith("kworker/u")


def _most_first(runners: dict[int, Runner]) -> tuple[Runner, ...]:
    return tuple(sorted(runners.values(), key=lambda runner: (-(runner.growth.run_ns or 0), runner.key.tid)))


def _movable(ctx: Context, runner: Runner) -> bool:
    """Whether taskset may move it, and it still may run here. PF_NO_SETAFFINITY bars bound threads and workers."""
    census, status = ctx.census, runner.status
    if isinstance(census, ProbeError) or runner.key not in census.statuses or not runner.ends[-1] & ctx.targets.audited:
        return False
    return not (status.kernel and (len(runner.allowed) == 1 or status.name.startswith(("kworker/", "irq/"))))


def thread_fix(ctx: Context) -> Fix:
    """Threads keep off by themselves once the CPU is out of the domains; what is pinned or stuck there must be moved.

    One fix for all audited CPUs: what ran on several of them is one cause.
    """
    found = culprits(ctx)
    if any(domain_state(ctx, cpu)[0] is not Outcome.PASS for cpu in ctx.audited):
        return _with_moves(ctx, boot_fix(ctx, ISOLATE), replace(found, stuck=(), unbound_work=False))
    return _with_moves(ctx, Fix(kind=FixKind.RUNTIME, text="") if found.others else _unbind(ctx), found)


def bound_fix(ctx: Context) -> Fix:
    """For kernel threads bound to a CPU."""
    if any(domain_state(ctx, cpu)[0] is not Outcome.PASS for cpu in ctx.audited):
        return thread_fix(ctx)
    return _unbind(ctx)


def _unbind(ctx: Context) -> Fix:
    """Without nohz_full the tick of the CPU is what gives most of them work (booted 6.1 and 6.12)."""
    nohz = ctx.observation.after.config.isolation.nohz_full
    if not isinstance(nohz, ProbeError) and not ctx.targets.audited - {BOOT_CPU} <= nohz:
        return boot_fix(ctx, NO_TICK)
    return _vmstat_fix() if _vmstat_ran(ctx) else Fix(kind=FixKind.RUNTIME, text=BOUND)


def _vmstat_ran(ctx: Context) -> bool:
    """Whether a worker of the queue that folds the VM counters of a CPU ran. Isolated CPUs are skipped since 6.5."""
    here = [runner for cpu in ctx.audited for runner in foreign_runners(ctx, cpu)]
    return not ctx.since(6, 5) and any(runner.status.name.endswith(VMSTAT) for runner in here)


def _vmstat_fix() -> Fix:
    """mm/vmstat.c: vmstat_shepherd queues vmstat_update on every CPU whose counters changed, once per interval."""
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"{BOUND}; {VMSTAT[1:]} folds the VM counters of each CPU every vm.stat_interval seconds: make that rare "
        "(kernels from 6.5 on leave out isolated CPUs)",
        commands=("sudo sysctl -w vm.stat_interval=120",),
        undo="sudo sysctl -w vm.stat_interval=1",
    )


def _with_moves(ctx: Context, fix: Fix, found: Culprits) -> Fix:
    """The fix with the commands for these threads; generic words where there is none to name."""
    moved = (*found.stuck, *found.pinned)[:MAX_MOVED]
    units = _units(ctx, [runner for runner in found.pinned if runner in moved])
    texts = [fix.text, _stuck_text(found.stuck), _pinned_text(found.pinned, units)]
    target = format_cpulist(ctx.targets.roam)
    commands = [f"sudo taskset -pc {target} {runner.key.tid}" for runner in moved]
    commands += [f"sudo systemctl set-property {unit} AllowedCPUs={target}" for unit in units]
    undo = [f"sudo taskset -pc {format_cpulist(runner.ends[-1])} {runner.key.tid}" for runner in moved]
    undo += [f"sudo systemctl set-property {unit} AllowedCPUs=" for unit in units]
    if found.unbound_work:
        mask = mask_fix(ctx)
        texts.append(mask.text)
        commands += mask.commands
        undo.append(mask.undo)
    return replace(
        fix,
        text="; ".join(text for text in texts if text) or GENERIC,
        commands=tuple(commands),
        undo="; ".join([*undo, *([fix.undo] if fix.undo else [])]),
    )


def _units(ctx: Context, pinned: Sequence[Runner]) -> list[str]:
    """System services of these threads, quoted for a shell. AllowedCPUs= takes cgroup v2.

    Users' own services are out of reach for the system's systemctl; pods belong to the kubelet.
    """
    if isinstance(ctx.observation.after.config.isolation.partitions, ProbeError):
        return []
    found = {_unit(runner.cgroup) for runner in pinned}
    return [shlex.quote(unit) for unit in sorted(found) if unit]


def _unit(cgroup: str) -> str:
    services = UNIT.findall(cgroup)
    if not services or "kubepods" in cgroup or any(name.startswith("user@") for name in services):
        return ""
    return str(services[-1])


def _stuck_text(runners: Sequence[Runner]) -> str:
    if not runners:
        return ""
    allowed = format_cpulist(frozenset().union(*(runner.ends[-1] for runner in runners)))
    leave = "it does not leave by itself" if len(runners) == 1 else "they do not leave by themselves"
    where = f"allowed on CPUs {allowed}, but nothing balances an isolated CPU: {leave}"
    return f"move {_listed(runners)} away: {where}{_of_pods(runners)}"


def _pinned_text(runners: Sequence[Runner], units: Sequence[str]) -> str:
    if not runners:
        return ""
    lasting = ", AllowedCPUs= for good" if units else ""
    return f"move {_listed(runners)} away, pinned here: taskset for now{lasting}{_of_pods(runners)}"


def _of_pods(runners: Sequence[Runner]) -> str:
    """A pod's threads come back with the pod, as long as the kubelet may use these CPUs for its shared pool."""
    if not any("kubepods" in runner.cgroup for runner in runners):
        return ""
    return "; they belong to pods: isolate only CPUs that the kubelet hands out exclusively, or reserve them"


def _listed(runners: Sequence[Runner]) -> str:
    names = ", ".join(f"{runner.status.name} ({runner.key.tid})" for runner in runners[:MAX_MOVED])
    more = len(runners) - MAX_MOVED
    return names + (f" and {more} more thread{'s' * (more > 1)}" if more > 0 else "")
