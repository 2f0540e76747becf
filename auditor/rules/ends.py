"""Settings that were read at both ends of the window: known only where both ends tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, Outcome
from auditor.rules.base import Rule
from probes.host import ProbeError
from probes.snapshot import Config

T = TypeVar("T")


def both(ctx: Context, pick: Callable[[Config], T | ProbeError]) -> tuple[T, T]:
    """The setting before and after the window. Raises ProbeError where either is not known."""
    before, after = (pick(end.config) for end in (ctx.observation.before, ctx.observation.after))
    if isinstance(before, ProbeError):
        raise before
    if isinstance(after, ProbeError):
        raise after
    return before, after


def alike(
    ctx: Context,
    rule: Rule,
    judge: Callable[[int], tuple[Outcome, str]],
    *,
    evidence: Callable[[list[int]], Iterable[Evidence]] = lambda _: (),
    fix: Callable[[list[int]], Fix | None] = lambda _: None,
) -> Iterator[Finding]:
    """One finding for all audited CPUs of which the same is said; a fix where that is a warning or worse."""
    said: dict[tuple[Outcome, str], list[int]] = {}
    for cpu in ctx.audited:
        said.setdefault(_said(judge, cpu), []).append(cpu)
    for (outcome, text), cpus in said.items():
        shown = tuple(evidence(cpus))
        bad = outcome in (Outcome.WARN, Outcome.FAIL)
        yield rule.finding(outcome, cpus, detail=text, evidence=shown, fix=fix(cpus) if bad else None)


def _said(judge: Callable[[int], tuple[Outcome, str]], cpu: int) -> tuple[Outcome, str]:
    try:
        return judge(cpu)
    except ProbeError as error:
        return Outcome.UNKNOWN, str(error)
