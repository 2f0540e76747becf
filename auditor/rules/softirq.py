"""Softirqs that ran on the audited CPUs (kernel/softirq.c; /proc/softirqs counts handler runs, not raises)."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.bootline import boot_fix, nohz_words
from auditor.context import Context
from auditor.model import BAD, Evidence, Finding, Fix, Kind, Outcome
from auditor.rules.base import Rule, always, bound, judge_between, maybe_own, never, rate, settle, weight
from auditor.rules.doors import balanced_inside, domain_state
from auditor.rules.origins import DOMAIN
from auditor.rules.rps import ORIGIN as RPS
from auditor.rules.rps import brings_packets, rps_fix
from probes.host import ProbeError
from probes.irq_affinity import is_block_queue

TIMERS = ("TIMER", "HRTIMER")
"""Raised by the own threads' timers as well: on PREEMPT_RT sleeps of ordinary threads expire in HRTIMER. How many of
their wake-ups came so is never known: most timers expire in the interrupt itself."""
BLOCK, NET = ("BLOCK",), ("NET_RX", "NET_TX")
"""What device interrupts of the CPU bring: at most one for each of them."""


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """One rule for every softirq; the rule's id says which."""
    name = rule.id.removeprefix("SIRQ.")
    if not isinstance(ctx.delta.softirqs, ProbeError) and name not in ctx.delta.softirqs:
        raise ProbeError("proc/softirqs", f"no row {name}")
    counts = {cpu: count for cpu in ctx.audited if (count := ctx.softirq(name, cpu)) is not None}
    limit = ctx.policy.limits[rule.id]
    control = ctx.control_rate(lambda cpu: ctx.softirq(name, cpu))
    for cpu in ctx.audited:
        if cpu not in counts:
            yield rule.finding(Outcome.UNKNOWN, [cpu], detail="no column for this CPU at both ends of the window")
            continue
        if name == "SCHED" and balanced_inside(ctx, cpu) and _own_at_work(ctx):
            yield _inside(rule, cpu, counts[cpu], ctx.window_s)
            continue
        least = max(0, counts[cpu] - _own(ctx, name, cpu))
        most = least if _followed(ctx, name, cpu) else counts[cpu]
        shut = name == "SCHED" and domain_state(ctx, cpu)[0] is Outcome.PASS
        outcome = settle(judge_between(least, most, ctx.window_s, limit), most, control, limit, shut=shut)
        yield _finding(ctx, rule, outcome, cpu, counts[cpu], least, control)


def _own_at_work(ctx: Context) -> bool:
    """Whether there is own work to balance.

    Else the balancer comes from outside: that of idle CPUs knows no partitions, and asks an idle CPU of a root
    partition to balance for the whole machine (find_new_ilb in kernel/sched/fair.c).
    """
    return any(runner.key in ctx.own and runner.growth.run_ns for runner in ctx.runners)


def _own(ctx: Context, name: str, cpu: int) -> int:
    """How many of them the own threads' timers or the own interrupts may have brought."""
    if name in TIMERS:
        return ctx.wakeups(cpu)[1]
    own = [item for item in ctx.own_irqs if name in (BLOCK if is_block_queue(item.name) else BLOCK + NET)]
    return sum(item.fired.get(cpu, 0) for item in own)


def _followed(ctx: Context, name: str, cpu: int) -> bool:
    """Whether what own interrupts may have brought, they did bring: packets may also come by RPS."""
    return name in BLOCK + NET and (name != "NET_RX" or brings_packets(ctx, cpu) is False)


def _inside(rule: Rule, cpu: int, count: int, window_s: float) -> Finding:
    """In a root partition of audited CPUs only, their balancer is the workload's own."""
    return rule.finding(
        Outcome.NOT_APPLICABLE,
        [cpu],
        observed=rate(count, window_s),
        unit="/s",
        detail=f"{count} ran: the audited CPUs are balanced among themselves (cpuset root partition)",
        evidence=[Evidence(path="/proc/softirqs", field=f"SCHED CPU{cpu}", value=f"+{count}")],
    )


def _finding(
    ctx: Context, rule: Rule, outcome: Outcome, cpu: int, raw: int, net: int, control: float | None
) -> Finding:
    name = rule.id.removeprefix("SIRQ.")
    limit = ctx.policy.limits[rule.id]
    what = "timers" if name in TIMERS else "interrupts"
    detail = f"{raw} ran" + (f", less up to {raw - net} for own {what}" if raw != net else "")
    steered = name == "NET_RX" and bool(brings_packets(ctx, cpu))
    if control is not None and net:
        detail += f"; at most {control:.3g}/s on a control CPU"
    detail += maybe_own(outcome)
    return rule.finding(
        outcome,
        [cpu],
        observed=rate(net, ctx.window_s),
        limit=bound(outcome, limit),
        unit="/s",
        detail=detail,
        evidence=[Evidence(path="/proc/softirqs", field=f"{name} CPU{cpu}", value=f"+{raw}")],
        fix=(rps_fix(ctx) if steered else _fix(ctx, cpu, name)) if outcome in BAD else None,
        origin=_origin(ctx, name, cpu, steered=steered),
        per_second=rate(net, ctx.window_s),
        cost_us_per_s=weight("SIRQ", rate(net, ctx.window_s)),
    )


def _origin(ctx: Context, name: str, cpu: int, *, steered: bool) -> str:
    """What the load balancer runs on a CPU in a scheduler domain comes through the open door."""
    if name == "SCHED" and domain_state(ctx, cpu)[0] is Outcome.FAIL:
        return DOMAIN
    return RPS if steered else f"softirq:{name}"


def _fix(ctx: Context, cpu: int, name: str) -> Fix:
    timers = (
        nohz_words(ctx, "nohz_full offloads timers")
        + "; a timer armed before isolation stays until the CPU was offline once"
    )
    packets = "network packets are handled here: steer the NIC's interrupts, take the CPU out of the rps_cpus masks"
    texts = {
        "SCHED": _sched_fix(ctx, cpu),
        "TIMER": timers,
        "HRTIMER": timers,
        "RCU": "rcu_nocbs (or nohz_full) offloads the callbacks",
        "NET_RX": packets,
        "NET_TX": packets,
    }
    return boot_fix(ctx, texts.get(name, "follows a device interrupt: steer that to the housekeeping CPUs"))


def _sched_fix(ctx: Context, cpu: int) -> str:
    if balanced_inside(ctx, cpu):
        return "an idle CPU of a root partition is asked to balance for the whole machine: nohz_full keeps that away"
    if domain_state(ctx, cpu)[0] is not Outcome.PASS:
        return "the load balancer runs here because the CPU is in a scheduler domain: isolate it"
    # trigger_load_balance() in kernel/sched/fair.c ends early where there is no domain, and with it what would take the
    # CPU out of nohz.idle_cpus_mask; going offline does (sched_cpu_deactivate).
    return (
        "a CPU that was idle when it left the scheduler domains may stay on the list of those asked to balance for the "
        "whole machine: nohz_full keeps that away, and so does taking it offline and online once, before its workload "
        "starts"
    )


STEER = "it follows a device interrupt: steer that to the housekeeping CPUs"
OFFLOAD = "nohz_full moves timers to the housekeeping CPUs; one armed before stays until the CPU was offline once"
PACKETS = "steer the NIC's interrupts, take the CPU out of the rps_cpus masks"


def _rule(name: str, title: str, why: str, cure: str = STEER) -> Rule:
    sched = name == "SCHED"
    return Rule(
        id=f"SIRQ.{name}",
        title=title,
        kind=Kind.MEASURED,
        decisive=always if sched else never,
        why=why,
        sources=("/proc/softirqs", "/proc/schedstat") if sched else ("/proc/softirqs",),
        cure=cure,
        check=check,
    )


SIRQ_RULES = (
    _rule(
        "SCHED",
        "SCHED softirqs (load balancer)",
        """The tick raises SCHED only on a CPU with a scheduler domain, and only such a CPU becomes the idle balancer. A
count of 0 supports isolation only together with the proof that there is no domain: a stopped tick shows 0 as well.""",
        "take the CPU out of the scheduler domains (CFG.DOMAIN); in a root partition add nohz_full",
    ),
    _rule("TIMER", "TIMER softirqs", "Expired timer-wheel timers of the kernel or of the own threads.", OFFLOAD),
    _rule(
        "HRTIMER",
        "HRTIMER softirqs",
        "Soft-expiring high-resolution timers; on PREEMPT_RT also sleeps of ordinary threads.",
        OFFLOAD,
    ),
    _rule(
        "RCU",
        "RCU softirqs",
        "RCU callbacks and quiescent states; on PREEMPT_RT this work is in rcuc/N.",
        "nohz_full or rcu_nocbs offloads the callbacks",
    ),
    _rule(
        "NET_RX",
        "NET_RX softirqs",
        "Packets received here: a NIC's interrupt, RPS, or loopback traffic of threads here.",
        PACKETS,
    ),
    _rule("NET_TX", "NET_TX softirqs", "Completed transmissions.", PACKETS),
    _rule("BLOCK", "BLOCK softirqs", "Completed block requests, also those sent here from another CPU."),
    _rule("IRQ_POLL", "IRQ_POLL softirqs", "Polling of block and InfiniBand devices."),
    _rule("TASKLET", "TASKLET softirqs", "Deferred work of drivers."),
    _rule("HI", "HI softirqs", "Urgent deferred work of drivers."),
)
