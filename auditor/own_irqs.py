"""Interrupts of the own workload: those that the user names, and managed queues that only own threads can have fed.

A managed queue fires on an audited CPU for I/O that was submitted there. Where no CPU but audited ones feeds it, and on
these no thread of others was switched to, the I/O was the own threads'.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from auditor.irq_names import device_rows, is_named
from auditor.switches import Balance, Runner
from auditor.window import Observation
from probes.delta import Delta
from probes.host import ProbeError
from probes.irq_affinity import IrqAffinities, IrqAffinity, feeds_from_its_cpus, is_managed
from probes.snapshot import Census, Snapshot
from probes.threads import ThreadKey, feeds_nothing, thread_irq


class Claim(str, Enum):
    """Why an interrupt is own."""

    DECLARED = "named with --own-irq"
    POLICY = "named by the policy"
    ALLOWED = "not own, allowed by the policy"
    SUBMITTED = "own I/O"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnIrq:
    """One interrupt of the own workload, with what is known of how often it fired on each audited CPU."""

    irq: int
    name: str
    claim: Claim
    fired: Mapping[int, int]


def declared(
    patterns: Sequence[str],
    observation: Observation,
    delta: Delta,
    cpus: Collection[int],
    claim: Claim = Claim.DECLARED,
) -> list[OwnIrq]:
    """What --own-irq or the policy names. A number that went to another device within the window is nobody's."""
    named: dict[int, str] = {}
    for end in (observation.before, observation.after):
        interrupts = end.counters.interrupts
        for row in [] if isinstance(interrupts, ProbeError) else device_rows(interrupts):
            if row.irq is not None and is_named(patterns, row):
                named[row.irq] = row.actions if named.get(row.irq, row.actions) == row.actions else ""
    fired = _fired(delta, cpus)
    return [
        OwnIrq(irq=irq, name=name, claim=claim, fired=fired.get(irq, {})) for irq, name in sorted(named.items()) if name
    ]


def _fired(delta: Delta, cpus: Collection[int]) -> dict[int, dict[int, int]]:
    """Growth by interrupt and CPU, as far as it is known: a number that two rows share is not."""
    rows = [] if isinstance(delta.interrupts, ProbeError) else delta.interrupts
    found: dict[int, dict[int, int]] = {}
    for row in rows:
        if row.irq is not None:
            counts = {cpu: count for cpu in cpus if (count := row.counts.get(cpu)) is not None}
            found[row.irq] = counts if row.irq not in found else {}
    return found


def fed_here(observation: Observation, delta: Delta, audited: frozenset[int]) -> list[OwnIrq]:
    """Managed queues that fired, and that no CPU but audited ones feeds: own, if nobody else was on those."""
    rows = [] if isinstance(delta.interrupts, ProbeError) else delta.interrupts
    found = []
    for row in rows:
        counts = {cpu: count for cpu in audited if (count := row.counts.get(cpu)) is not None}
        if row.irq is not None and any(counts.values()) and fed_only_by(observation, row.irq, row.actions, audited):
            found.append(OwnIrq(irq=row.irq, name=row.actions, claim=Claim.SUBMITTED, fired=counts))
    return found


def fed_only_by(observation: Observation, irq: int, actions: str, cpus: Collection[int]) -> bool:
    """Whether, at both ends, this is a managed queue that serves only I/O submitted on these CPUs."""
    ends = (observation.before, observation.after)
    feeders = [_feeders(end, irq, actions) for end in ends]
    return all(known is not None and known <= set(cpus) for known in feeders)


def _feeders(end: Snapshot, irq: int, actions: str) -> frozenset[int] | None:
    """The online CPUs of its mask; None where it is no such queue or can't be read."""
    affinity, online = end.config.affinity, end.config.online
    if not isinstance(affinity, IrqAffinities) or not feeds_from_its_cpus(actions):
        return None
    known = affinity.irqs.get(irq)
    if not isinstance(known, IrqAffinity) or not is_managed(known, actions, affinity.modes_tell):
        return None
    return (known.requested if isinstance(online, ProbeError) else known.requested & online) or None


def submitted(
    queues: Iterable[OwnIrq],
    observation: Observation,
    balances: tuple[Balance, ...] | ProbeError,
    runners: Iterable[Runner],
    own: Collection[ThreadKey],
) -> list[OwnIrq]:
    """The queues that only own threads can have fed: no one else was switched to on any CPU that feeds them.

    But for the threads of these queues (the balance counts them as own), and those that feed no queue.
    """
    if not observation.everyone_seen or isinstance(balances, ProbeError) or own_io(observation, own) is False:
        return []
    everyone = list(runners)
    alone: set[int] = set()
    for balance in balances:
        if balance.foreign_most <= _feeding_nothing(balance, everyone) and _only_own(balance, everyone, own):
            alone |= set(balance.cpus)
    return [queue for queue in queues if fed_only_by(observation, queue.irq, queue.name, alone)]


def _feeding_nothing(balance: Balance, runners: Iterable[Runner]) -> int:
    """Switches to threads that submit nothing, beyond doubt."""
    here = [runner for runner in runners if feeds_nothing(runner.status) and runner.allowed <= set(balance.cpus)]
    return sum(runner.growth.least for runner in here if runner.growth.bracketed)


def _only_own(balance: Balance, runners: Sequence[Runner], own: Collection[ThreadKey]) -> bool:
    """Whether own threads ran there, and no user thread of others that was there already when the window began."""
    here = [runner for runner in runners if runner.allowed & set(balance.cpus) and not runner.status.kernel]
    confined = [runner for runner in here if runner.key not in own and runner.allowed <= set(balance.cpus)]
    return any(runner.key in own for runner in here) and not confined


def own_io(observation: Observation, own: Collection[ThreadKey]) -> bool | None:
    """Whether own processes read or wrote block devices around the window; None where that is not known.

    Who may be hidden is not asked here: see ``Context.own_visible``.
    """
    before, after = observation.before, observation.after
    unknown = False
    for pid in {key.pid for key in own}:
        start = before.own_io.get(pid, ProbeError(f"proc/{pid}/io", "not read"))
        end = after.own_io.get(pid, ProbeError(f"proc/{pid}/io", "not read"))
        if isinstance(end, ProbeError) or (isinstance(start, ProbeError) and _there(before, pid)):
            unknown = True
        elif isinstance(start, ProbeError):  # it began within the window
            if end.read_bytes or end.write_bytes:
                return True
        elif start != end:
            return True
    return None if unknown else False


def _there(end: Snapshot, pid: int) -> bool:
    """Whether the process may have been there at this end."""
    census = end.census
    return not isinstance(census, Census) or bool(census.unread) or any(key.pid == pid for key in census.statuses)


def allowances(runners: Iterable[Runner], irqs: Iterable[OwnIrq]) -> dict[ThreadKey, int]:
    """How many switches to the threads of own interrupts (irq/N-…) these explain at most: one for each event."""
    fired = {item.irq: dict(item.fired) for item in irqs}
    left = {irq: sum(counts.values()) for irq, counts in fired.items()}
    found: dict[ThreadKey, int] = {}
    for runner in sorted(runners, key=lambda runner: runner.key):
        irq = thread_irq(runner.status)
        if irq is not None and irq in fired:
            here = sum(count for cpu, count in fired[irq].items() if cpu in runner.allowed)
            most = here if runner.growth.most is None else runner.growth.most
            found[runner.key] = min(left[irq], here, most)
            left[irq] -= found[runner.key]
    return found
