"""Every rule in words: what `cpu-audit rules` and docs/rules.md say, with the limits of a policy."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields

from auditor.errors import UsageError
from auditor.model import Axis, Kind
from auditor.policy import Limit, Policy, Thresholds
from auditor.rules import RULES
from auditor.rules.base import Rule, always, never

YES, NO, AT_TIMES = "yes", "no", "at times"
ALIKE = 0.75
"""How much of two names agrees where one may be meant for the other: a letter or two are wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One rule. ``warns`` and ``fails`` are "" where it never does; ``sources`` are files, with * and **."""

    id: str
    title: str
    axis: Axis
    kind: Kind
    decisive: str
    """yes, no, at times"""
    decides: str
    """When, of those that are decisive at times."""
    thresholds: Thresholds | None
    warns: str
    fails: str
    why: str
    sources: tuple[str, ...]
    fix: str


class UnknownRuleError(UsageError):
    """A rule that there is none of; the message gives names like it."""


def catalogue(policy: Policy) -> tuple[Entry, ...]:
    """All rules, in the order of the report."""
    return tuple(_entry(rule, policy) for rule in RULES)


def find(name: str, policy: Policy) -> Entry:
    """The rule with this id, in capitals or not. Raises UnknownRuleError."""
    entries = {entry.id: entry for entry in catalogue(policy)}
    if name.upper() in entries:
        return entries[name.upper()]
    raise UnknownRuleError(f"no rule {name[:40]!a}: {_like(name.upper()[:40], entries)}")


def _like(name: str, entries: Mapping[str, Entry]) -> str:
    """Names that begin with it, look like it, or have it as a part."""
    begin = [known for known in entries if name and known.startswith(name)]
    parts = [known for known in entries if name and name in known]
    found = list(dict.fromkeys([*begin, *difflib.get_close_matches(name, entries, cutoff=ALIKE), *parts]))[:4]
    return f"there is {', '.join(found)}" if found else "`cpu-audit rules` lists them"


def _entry(rule: Rule, policy: Policy) -> Entry:
    limit = policy.limits.get(rule.id)
    thresholds = rule.thresholds(policy) if rule.thresholds else Thresholds.of(limit) if limit else None
    numbers = {field.name: getattr(policy, field.name) for field in fields(policy)}
    if limit and thresholds:
        numbers |= {"warn": _warn(limit, thresholds.unit), "fail": _fail(limit, thresholds.unit)}
    return Entry(
        id=rule.id,
        title=rule.title,
        axis=rule.axis,
        kind=rule.kind,
        decisive=YES if rule.decisive is always else NO if rule.decisive is never else AT_TIMES,
        decides=rule.decides,
        thresholds=thresholds,
        warns=(rule.warns or ("{warn}" if limit else "")).format_map(numbers),
        fails=(rule.fails or ("{fail}" if limit else "")).format_map(numbers),
        why=" ".join(rule.why.split()),
        sources=rule.sources,
        fix=rule.cure,
    )


def _warn(limit: Limit, unit: str) -> str:
    return f"above {limit.warn:g}{unit}" if limit.warn else "at any event"


def _fail(limit: Limit, unit: str) -> str:
    return f"above {limit.fail:g}{unit}, by the lower 95 % bound of the rate"
