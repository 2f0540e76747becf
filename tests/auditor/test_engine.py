"""A rule whose source is absent finds that it does not know; nothing else is caught."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from auditor.context import Context
from auditor.engine import run
from auditor.model import Finding, Kind, Outcome
from auditor.rules import BY_ID, RULES
from auditor.rules.base import Rule
from probes.snapshot import Kubernetes
from tests.auditor.build import context, gone, node


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


@pytest.mark.parametrize("kubernetes", [None, node()], ids=["no-kubelet", "kubelet"])
def test_every_rule_says_something_of_every_audited_cpu(kubernetes: Kubernetes | None) -> None:
    """But those about kubelets where there is none: KUBE.STATE alone says so, or that one may be hidden."""
    readable = context(audited=(1, 5), kubernetes=kubernetes)
    blind = context(audited=(1, 5), kubernetes=kubernetes, complete=False, release="x", hypervisor="KVM")
    silent = set() if kubernetes else {name for name in BY_ID if name.startswith("KUBE.")} - {"KUBE.STATE"}
    for ctx, outcome in ((readable, Outcome.NOT_APPLICABLE), (blind, Outcome.UNKNOWN)):
        found = run(RULES, ctx)
        told = {name: {cpu for f in found if f.rule == name for cpu in f.cpus} for name in BY_ID}
        assert {name for name, cpus in told.items() if not cpus} == silent
        assert {name for name, cpus in told.items() if cpus != {1, 5}} == silent
        if not kubernetes:
            assert [f.outcome for f in found if f.rule == "KUBE.STATE"] == [outcome]
