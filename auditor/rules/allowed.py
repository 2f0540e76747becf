"""Threads of others that the scheduler may send to an audited CPU at any time, whether or not one came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from auditor.bootline import boot_fix
from auditor.context import Context
from auditor.model import Finding, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.doors import domain_state
from auditor.rules.ends import alike
from probes.host import ProbeError, SourceState, known
from probes.snapshot import Census

MAX_NAMED = 4
HIDDEN = ProbeError("proc", "not all threads are visible", SourceState.MASKED)


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """THR.ALLOWED."""
    census = known(ctx.census)

    def judge(cpu: int) -> tuple[Outcome, str]:
        if domain_state(ctx, cpu)[0] is Outcome.PASS:
            return Outcome.PASS, "the load balancer sends nobody here"
        names = _names(ctx, census, cpu)
        if not names:
            if not census.complete:
                raise HIDDEN
            return Outcome.PASS, "no user thread of others may run here"
        return Outcome.WARN, f"{names.total()} user threads of others may run here: {_listed(names)}"

    yield from alike(ctx, rule, judge, fix=lambda _: boot_fix(ctx, "keep threads of others away"))


def _names(ctx: Context, census: Census, cpu: int) -> Counter[str]:
    """User threads by name that are not own and may run on this CPU, at the end of the window."""
    return Counter(
        status.name
        for key, status in census.statuses.items()
        if not status.kernel and key not in ctx.own and cpu in status.allowed
    )


def _listed(names: Counter[str]) -> str:
    """The most frequent names, of equal ones in order of the alphabet."""
    ordered = sorted(names, key=lambda name: (-names[name], name))
    more = f" and {len(ordered) - MAX_NAMED} more" if len(ordered) > MAX_NAMED else ""
    return ", ".join(ordered[:MAX_NAMED]) + more


THR_ALLOWED = Rule(
    id="THR.ALLOWED",
    title="threads that may come",
    kind=Kind.RISK,
    why="""Where the CPU is in a scheduler domain, every user thread whose Cpus_allowed holds it may be woken or moved
here at any time. Without a domain only those come that were put here by name.""",
    sources=("/proc/*/task/*/status", "/proc/schedstat", "/sys/devices/system/cpu/isolated", "/sys/fs/cgroup"),
    warns="where the CPU is not known to be out of all scheduler domains, and a user thread of others may run on it",
    cure="isolcpus=domain or an isolated cpuset partition; CPUAffinity= of systemd or AllowedCPUs= of slices",
    check=check,
)
