"""Everything that rules may look at, prepared once: values only, never a host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditor.kubelet_view import KubeletView, views
from auditor.model import Regime
from auditor.own import OwnRule
from auditor.own_irqs import Claim, OwnIrq, allowances, declared, fed_here, own_io, submitted
from auditor.policy import Policy
from auditor.quotas import Quotas, quotas
from auditor.requested import interpret
from auditor.switches import Balance, Runner, balances, runners
from auditor.targets import Targets
from auditor.window import Observation
from probes.delta import BusyDelta, Delta, RowDelta, SchedDelta, diff
from probes.host import ProbeError
from probes.interrupts import InterruptKind
from probes.isolation_params import Requested
from probes.kernel_version import KernelVersion, parse_kernel_version
from probes.snapshot import Census
from probes.threads import ThreadKey

IDLE_BUSY = 0.01
SPINNER_BUSY = 0.90
ENDLESS = sys.maxsize


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """One observation with its targets, policy, and what follows from them."""

    observation: Observation
    targets: Targets
    policy: Policy
    own_rule: OwnRule
    own: frozenset[ThreadKey]
    delta: Delta
    runners: tuple[Runner, ...]
    own_irqs: tuple[OwnIrq, ...]
    """Interrupts of the own workload, by number."""
    allowances: Mapping[ThreadKey, int]
    """Switches to threads of own interrupts that these explain at most."""
    balances: tuple[Balance, ...] | ProbeError
    version: KernelVersion | None
    """None where the release can't be read or parsed."""
    requested: Requested | ProbeError
    """What the command line asks of this kernel."""
    quotas: Quotas
    """CPU limits above the own threads."""
    kubelets: tuple[KubeletView, ...] = ()
    """At the end of the window: those that run, else what one would be started with; none: no Kubernetes node."""

    @property
    def audited(self) -> list[int]:
        """Audited CPUs, ascending."""
        return sorted(self.targets.audited)

    @property
    def window_s(self) -> float:
        """Seconds between the two reads of the counters."""
        return self.delta.window_s

    @property
    def census(self) -> Census | ProbeError:
        """Who exists, at the end of the window."""
        return self.observation.after.census

    @property
    def own_visible(self) -> bool:
        """Whether all own threads are known."""
        return own_visible(self.observation, self.own_rule)

    def own_on(self, cpu: int) -> frozenset[ThreadKey]:
        """Own threads that were allowed on this CPU at either end of the window."""
        allowed = [end.statuses for end in self.observation.censuses if isinstance(end, Census)]
        return frozenset(key for key in self.own for end in allowed if key in end and cpu in end[key].allowed)

    def own_runners(self, cpus: Collection[int]) -> list[Runner]:
        """Own threads that may have run on any of these CPUs."""
        here = frozenset(cpus)
        return [runner for runner in self.runners if runner.key in self.own and runner.allowed & here]

    @property
    def own_io(self) -> bool | None:
        """Whether own processes did block I/O in the window; None where that is not known."""
        return own_io(self.observation, self.own) if self.own_visible else None

    def own_irq(self, irq: int | None, cpu: int) -> OwnIrq | None:
        """The own interrupt of this number, if it is known how often it fired on this CPU."""
        return next((item for item in self.own_irqs if item.irq == irq and cpu in item.fired), None)

    def foreign_part(self, runner: Runner) -> int | None:
        """Switches to a thread, at most, that no own interrupt explains; None where its switches are not known."""
        most = runner.growth.most
        return None if most is None else most - self.allowances.get(runner.key, 0)

    def since(self, major: int, minor: int) -> bool:
        """Whether the kernel is known to be at least this release."""
        return self.version is not None and self.version.at_least(major, minor)

    def busy(self, cpu: int) -> BusyDelta | None:
        """How the CPU spent the window, None where /proc/stat does not tell."""
        return None if isinstance(self.delta.busy, ProbeError) else self.delta.busy.get(cpu)

    def sched(self, cpu: int) -> SchedDelta | None:
        """What the scheduler counted on the CPU, None where /proc/schedstat does not tell."""
        return None if isinstance(self.delta.sched, ProbeError) else self.delta.sched.get(cpu)

    def regime(self, cpu: int) -> Regime:
        """Idle below 1 % busy, spinner from 90 %."""
        busy = self.busy(cpu)
        if busy is None:
            return Regime.UNKNOWN
        if busy.busy < IDLE_BUSY:
            return Regime.IDLE
        return Regime.SPINNER if busy.busy >= SPINNER_BUSY else Regime.SLEEPER

    def rows(self, *kinds: InterruptKind) -> list[RowDelta]:
        """Interrupt rows of these kinds; raises ProbeError where /proc/interrupts gave nothing."""
        if isinstance(self.delta.interrupts, ProbeError):
            raise self.delta.interrupts
        return [row for row in self.delta.interrupts if row.kind in kinds]

    def softirq(self, name: str, cpu: int) -> int | None:
        """Growth of one softirq; None where the row or the CPU is missing. Raises ProbeError without /proc/softirqs."""
        if isinstance(self.delta.softirqs, ProbeError):
            raise self.delta.softirqs
        return self.delta.softirqs.get(name, {}).get(cpu)

    def control_rate(self, count: Callable[[int], int | None]) -> float | None:
        """The highest rate among control CPUs, None where there is none to compare with."""
        counts = [value for cpu in sorted(self.targets.control) if (value := count(cpu)) is not None]
        return max(counts) / self.window_s if counts else None

    def wakeups(self, cpu: int) -> tuple[int, int]:
        """At least and at most how many wake-ups of own threads fell on this CPU in the window.

        A thread that may run on several audited CPUs counts for none of them at least, for each at most. Where own
        threads may be hidden, or ended unseen, there is no upper bound.
        """
        if not self.own_visible:
            return 0, ENDLESS
        least = most = 0
        for runner in self.own_runners([cpu]):
            at_least, at_most = self._wakeups_of(runner)
            most += at_most
            least += at_least if runner.allowed == {cpu} else 0
        return least, most

    def _wakeups_of(self, runner: Runner) -> tuple[int, int]:
        """Each switch to a thread follows a wake-up or, where it had to leave the CPU (involuntary), none."""
        most = ENDLESS if runner.growth.most is None else runner.growth.most
        statuses = [{} if isinstance(end, ProbeError) else end.statuses for end in self.observation.censuses]
        before, after = (known.get(runner.key) for known in statuses)
        if after is None:
            return 0, most
        voluntary = after.voluntary_switches - (before.voluntary_switches if before else 0)
        involuntary = after.involuntary_switches - (before.involuntary_switches if before else 0)
        if voluntary < 0 or involuntary < 0:
            return 0, most
        most = min(most, voluntary)
        return min(most, max(0, runner.growth.least - involuntary)), most


def total(rows: Iterable[RowDelta], cpu: int) -> int | None:
    """Sum of rows on one CPU; None where one of them can't be known."""
    counts = [row.counts.get(cpu) for row in rows]
    return None if None in counts else sum(count for count in counts if count is not None)


def prepare(
    observation: Observation, targets: Targets, policy: Policy, own_rule: OwnRule, *, ticks_per_s: int = 100
) -> Context:
    """Draws from an observation what several rules need."""
    delta = diff(observation.before.counters, observation.after.counters, targets.counted, ticks_per_s=ticks_per_s)
    own = own_threads(observation, own_rule)
    everyone = runners(observation)
    visible = own_visible(observation, own_rule)
    version = _version(observation.facts.kernel.release)

    def balanced(irqs: Sequence[OwnIrq]) -> tuple[Balance, ...] | ProbeError:
        explained = allowances(everyone, irqs)
        return _balances(observation, delta, targets, everyone, own, visible=visible, allowances=explained)

    named = _named(observation, delta, targets, policy, own_rule)
    irqs = _own_irqs(observation, delta, targets, named, everyone, own, balanced)
    return Context(
        observation=observation,
        targets=targets,
        policy=policy,
        own_rule=own_rule,
        own=own,
        delta=delta,
        runners=everyone,
        own_irqs=irqs,
        allowances=allowances(everyone, irqs),
        balances=balanced(irqs),
        version=version,
        requested=interpret(observation.facts, observation.after.config, version),
        quotas=quotas(observation, own),
        kubelets=views(
            observation.after.kubernetes, observation.after.config.online, observation.after.counters.cpustat
        ),
    )


def _version(release: str) -> KernelVersion | None:
    try:
        return parse_kernel_version(release)
    except ProbeError:
        return None


def _named(observation: Observation, delta: Delta, targets: Targets, policy: Policy, rule: OwnRule) -> list[OwnIrq]:
    """Interrupts that are named: as own by the user or the policy, or as allowed; the first claim on a number holds."""
    claims = (
        (Claim.DECLARED, rule.irqs),
        (Claim.POLICY, policy.own_interrupts),
        (Claim.ALLOWED, policy.allowed_interrupts),
    )
    found: dict[int, OwnIrq] = {}
    for claim, patterns in claims:
        for item in declared(patterns, observation, delta, targets.audited, claim):
            found.setdefault(item.irq, item)
    return list(found.values())


def _own_irqs(
    observation: Observation,
    delta: Delta,
    targets: Targets,
    named: Sequence[OwnIrq],
    everyone: tuple[Runner, ...],
    own: frozenset[ThreadKey],
    balanced: Callable[[Sequence[OwnIrq]], tuple[Balance, ...] | ProbeError],
) -> tuple[OwnIrq, ...]:
    """The named ones, and the queues that turn out to be own when their threads are not counted as foreign."""
    numbers = {item.irq for item in named}
    queues = [queue for queue in fed_here(observation, delta, targets.audited) if queue.irq not in numbers]
    mine = submitted(queues, observation, balanced([*named, *queues]), everyone, own) if queues else []
    return tuple(sorted([*named, *mine], key=lambda item: item.irq))


def _balances(
    observation: Observation,
    delta: Delta,
    targets: Targets,
    everyone: tuple[Runner, ...],
    own: frozenset[ThreadKey],
    *,
    visible: bool,
    allowances: Mapping[ThreadKey, int],
) -> tuple[Balance, ...] | ProbeError:
    census = observation.after.census
    if own and isinstance(census, Census) and not census.schedstat:
        return ProbeError("proc/*/task/*/schedstat", "the kernel keeps no switches per thread (CONFIG_SCHED_INFO)")
    return balances(delta.sched, targets.audited, everyone, own, visible=visible, allowances=allowances)


def own_threads(observation: Observation, rule: OwnRule) -> frozenset[ThreadKey]:
    """Own threads of the window. By affinity: at both ends, or at the one end at which the thread was there.

    A thread that was allowed elsewhere at the other end came here or left within the window: it is someone else's.
    """
    before, after = observation.own_before, observation.own_after
    if rule.source != "affinity":
        return before | after
    was, still = (end.statuses.keys() if isinstance(end, Census) else set() for end in observation.censuses)
    return (before & after) | (before - still) | (after - was)


def own_visible(observation: Observation, rule: OwnRule) -> bool:
    """Whether all own threads are known: told by affinity, they are only where the whole machine is seen."""
    named = rule.source != "affinity" and bool(observation.own_before)
    return all(isinstance(census, Census) and (census.complete or named) for census in observation.censuses)
