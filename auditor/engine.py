"""Runs the rules. A source that is absent makes a rule's finding unknown, never a pass and never a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from auditor.context import Context
from auditor.model import Finding, Outcome
from auditor.rules.base import Rule
from probes.host import ProbeError


def run(rules: Iterable[Rule], ctx: Context) -> tuple[Finding, ...]:
    """Findings of all rules, in their order."""
    return tuple(finding for rule in rules for finding in _run_one(rule, ctx))


def _run_one(rule: Rule, ctx: Context) -> Iterator[Finding]:
    try:
        found = list(rule.check(ctx, rule))
    except ProbeError as error:
        found = [rule.finding(Outcome.UNKNOWN, ctx.audited, detail=str(error))]
    yield from found
