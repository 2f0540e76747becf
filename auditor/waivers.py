"""Waivers: what a site puts up with, and what that may do to a verdict.

A waiver names a rule, CPUs, a reason and a last day. It applies to a finding that failed or warned, if it names all of
the finding's CPUs: switches that are counted over several CPUs together can't be told apart. The finding keeps its
outcome, its numbers and its place among the causes, and says why it is waived. What becomes of the verdict:

- ``not-isolated``, ``exposed``: waived failures and doors no longer decide. What else there is decides, and
  ``disturbed`` is the best that remains: neither is a waived disturbance gone, nor a waived door closed.
- ``unknown`` stays: evidence that is missing or was not exercised can't be waived, nor can a CPU that was offline. A
  door that is waived is still open to the rules behind it: with their counters at 0 they need exercise to pass.
- ``disturbed`` stays, also if all of its warnings are waived (``--fail-on warn`` counts them too).
- ``isolated`` never rests on a waiver.
- ``not-ready`` becomes ``limited``, never ``ready``.
- Risks decide nothing; waived, they are still listed.

An expired waiver has no effect and is reported, one that meets no finding is reported as well. The day is that on
which the window began (UTC), so that a recording gets the same verdict whenever it is judged; without that day no
waiver holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date

from auditor.model import BAD, Axis, Finding, Kind, PolicyFacts, WaiverState, WaiverUse
from auditor.policy import LIMITS, Policy, Waiver
from probes.cpulist import format_cpulist


def waive(findings: Iterable[Finding], policy: Policy, started: str) -> tuple[tuple[Finding, ...], PolicyFacts]:
    """The findings with what is waived marked, and what became of each waiver; ``started`` is ISO 8601."""
    today = day_of(started)
    valid = [waiver for waiver in policy.waivers if state(waiver, today) is WaiverState.IN_EFFECT]
    met: dict[Waiver, int] = {}
    marked = []
    for finding in findings:
        found = next((waiver for waiver in valid if _covers(waiver, finding)), None)
        if found:
            met[found] = met.get(found, 0) + 1
        marked.append(replace(finding, waived=_words(found)) if found else finding)
    uses = tuple(_use(waiver, state(waiver, today), met.get(waiver, 0)) for waiver in policy.waivers)
    return tuple(marked), PolicyFacts(source=policy.source, changes=changes(policy), waivers=uses)


def day_of(started: str) -> date | None:
    """The day of a time in ISO 8601; None where there is none."""
    try:
        return date.fromisoformat(started[:10])
    except ValueError:
        return None


def state(waiver: Waiver, today: date | None) -> WaiverState:
    """In effect up to and including its last day."""
    if today is None:
        return WaiverState.UNDATED
    return WaiverState.IN_EFFECT if today <= waiver.expires else WaiverState.EXPIRED


def _covers(waiver: Waiver, finding: Finding) -> bool:
    cpus = frozenset(finding.cpus)
    return waiver.rule == finding.rule and finding.outcome in BAD and bool(cpus) and cpus <= waiver.cpus


def _words(waiver: Waiver) -> str:
    return f"until {waiver.expires.isoformat()}: {waiver.reason}"


def _use(waiver: Waiver, known: WaiverState, findings: int) -> WaiverUse:
    return WaiverUse(
        rule=waiver.rule,
        cpus=format_cpulist(waiver.cpus),
        reason=waiver.reason,
        expires=waiver.expires.isoformat(),
        state=WaiverState.UNUSED if known is WaiverState.IN_EFFECT and not findings else known,
        findings=findings,
    )


def counted(findings: Iterable[Finding], axis: Axis) -> int:
    """How many waivers a verdict takes into account: those of risks change nothing."""
    return len({(f.rule, f.waived) for f in findings if f.waived and f.axis is axis and f.kind is not Kind.RISK})


def changes(policy: Policy) -> tuple[str, ...]:
    """What the policy has other than the defaults, without its waivers."""
    default = Policy()
    found = []
    for rule, limit in policy.limits.items():
        was = LIMITS[rule]
        if (limit.warn, limit.fail) != (was.warn, was.fail):
            found.append(
                f"{rule} warns above {limit.warn:g} (not {was.warn:g}), fails above {limit.fail:g} (not {was.fail:g})"
            )
    if policy.busy_poll != default.busy_poll:
        found.append("busy-poll: the tick is decisive")
    if policy.wakeup_budget_us is not None:
        found.append(f"a wake-up may cost {policy.wakeup_budget_us} µs")
    found += _listed("own interrupts", policy.own_interrupts)
    return (*found, *_listed("allowed interrupts", policy.allowed_interrupts))


def _listed(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what}: {', '.join(names)}"] if names else []
