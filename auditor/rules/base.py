"""What a rule is, and the arithmetic that all measured rules share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, Kind, Outcome
from auditor.policy import WEIGHT_US, Limit, Policy, Thresholds


def never(ctx: Context, cpu: int) -> bool:  # noqa: ARG001 - the signature of Rule.decisive
    """The rule never keeps a verdict open."""
    return False


def always(ctx: Context, cpu: int) -> bool:  # noqa: ARG001
    """Without this rule's pass there is no isolation."""
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A pure function from a context to findings, with its documentation (auditor/catalogue.py puts it into words).

    ``check`` raises ProbeError where its source is absent. ``warns`` and ``fails`` may name numbers of the policy as
    ``{foreign_run_ms}``, and its limits of this rule as ``{warn}`` and ``{fail}``.
    """

    id: str
    title: str
    axis: Axis = Axis.ISOLATION
    kind: Kind
    why: str
    check: Callable[[Context, Rule], Iterable[Finding]]
    decisive: Callable[[Context, int], bool] = never
    """Whether an unknown or unexercised outcome on this CPU keeps the verdict open."""
    decides: str = ""
    """When it is decisive, in words, where it is neither always nor never."""
    sources: tuple[str, ...] = ()
    """The files it reads, with * and ** as in shell patterns."""
    warns: str = ""
    fails: str = ""
    """From when on; without words: as the limits of the policy say, and without such limits never."""
    cure: str = ""
    """The typical fix; that of a finding is for its host."""
    thresholds: Callable[[Policy], Thresholds] | None = None
    """The numbers for the table; without it the limits of the policy, if it has any for this rule."""

    def finding(
        self,
        outcome: Outcome,
        cpus: Iterable[int],
        *,
        observed: float | None = None,
        limit: float | None = None,
        unit: str = "",
        title: str = "",
        detail: str = "",
        evidence: Iterable[Evidence] = (),
        fix: Fix | None = None,
        origin: str = "",
        per_second: float = 0.0,
        cost_us_per_s: float = 0.0,
    ) -> Finding:
        """A finding of this rule."""
        return Finding(
            rule=self.id,
            axis=self.axis,
            kind=self.kind,
            outcome=outcome,
            cpus=tuple(sorted(cpus)),
            observed=observed,
            limit=limit,
            unit=unit,
            title=title or self.title,
            detail=detail,
            evidence=tuple(evidence),
            fix=fix,
            origin=origin,
            per_second=per_second,
            cost_us_per_s=cost_us_per_s,
        )


def poisson_lower(count: int) -> float:
    """Lower end of the one-sided 95 % interval of a Poisson mean, by the Wilson-Hilferty cube root approximation.

    Within 0.02 of the exact chi-square quantile from 1 on (checked in the tests against exact sums).
    """
    if count <= 0:
        return 0.0
    return float(count * max(0.0, 1 - 1 / (9 * count) - 1.645 / (3 * math.sqrt(count))) ** 3)


def judge(count: float, window_s: float, limit: Limit) -> Outcome:
    """Fail only where the lower bound of the rate exceeds the limit, so that rare events do not flap between runs."""
    if poisson_lower(math.floor(count)) / window_s > limit.fail:
        return Outcome.FAIL
    return Outcome.WARN if count / window_s > limit.warn else Outcome.PASS


def judge_between(least: float, most: float, window_s: float, limit: Limit) -> Outcome:
    """For a count known only as an interval: its lower end may fail or warn, its upper end may pass, else: unknown."""
    worst = judge(most, window_s, limit)
    known = judge(least, window_s, limit)
    return Outcome.UNKNOWN if known is Outcome.PASS and worst is not Outcome.PASS else known


def maybe_own(outcome: Outcome) -> str:
    """The end of a sentence about a count that is unknown because own threads may have caused all of it, or none."""
    return "; the own threads may explain them all, or none" if outcome is Outcome.UNKNOWN else ""


def settle(outcome: Outcome, count: float, control: float | None, limit: Limit, *, shut: bool) -> Outcome:
    """A pass needs proof: load that a control CPU felt in the same window, or a shut door with the counter at 0."""
    if outcome is not Outcome.PASS:
        return outcome
    if control is not None and control >= max(limit.fail, limit.exercised):
        return Outcome.PASS
    if not shut:
        return Outcome.NOT_EXERCISED
    # A shut door and still an event: it contradicts the door, so it is shown rather than explained away.
    return Outcome.PASS if count == 0 else Outcome.WARN


def bound(outcome: Outcome, limit: Limit) -> float:
    """The limit that an outcome is measured against: a failure exceeded the one, a warning or a pass the other."""
    return limit.fail if outcome is Outcome.FAIL else limit.warn


def weight(family: str, per_second: float) -> float:
    """Nominal microseconds per second that events of this family take."""
    return WEIGHT_US[family] * per_second


def rate(count: float, window_s: float) -> float:
    """Events per second."""
    return count / window_s
