"""A rule whose source is absent finds that it does not know; nothing else is caught."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auditor.context import Context
from auditor.engine import run
from auditor.model import Finding, Kind, Outcome
from auditor.rules import RULES
from auditor.rules.base import Rule
from tests.auditor.build import context, gone


def fine(ctx: Context, rule: Rule) -> Iterator[Finding]:
    yield rule.finding(Outcome.PASS, ctx.audited)


def blind(ctx: Context, rule: Rule) -> Iterator[Finding]:
    yield rule.finding(Outcome.PASS, [1])
    raise gone("proc/x")


def broken(ctx: Context, rule: Rule) -> Iterator[Finding]:
    raise ValueError("ours")


def named(name: str, check: object) -> Rule:
    return Rule(id=name, title=name, kind=Kind.MEASURED, why="", check=check)  # type: ignore[arg-type]


def test_findings_come_in_the_order_of_the_rules() -> None:
    ctx = context(audited=(1, 5))
    found = run([named("B", fine), named("A", fine)], ctx)
    assert [(f.rule, f.cpus) for f in found] == [("B", (1, 5)), ("A", (1, 5))]


def test_a_source_that_gives_out_half_way_makes_the_rule_unknown_as_a_whole() -> None:
    ctx = context(audited=(1, 5))
    found = run([named("A", blind), named("B", fine)], ctx)
    assert [(f.rule, f.outcome, f.cpus, f.detail) for f in found] == [
        ("A", Outcome.UNKNOWN, (1, 5), "/proc/x: missing for this test"),
        ("B", Outcome.PASS, (1, 5), ""),
    ]


def test_our_own_mistakes_are_not_hidden() -> None:
    with pytest.raises(ValueError, match="ours"):
        run([named("A", broken)], context())


def test_every_rule_says_something_of_every_audited_cpu() -> None:
    for ctx in (context(audited=(1, 5)), context(audited=(1, 5), complete=False, release="x", hypervisor="KVM")):
        found = run(RULES, ctx)
        for rule in RULES:
            assert {cpu for f in found if f.rule == rule.id for cpu in f.cpus} == {1, 5}, rule.id
