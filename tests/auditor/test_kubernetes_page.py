"""docs/kubernetes.md tells of every reported problem which rule judges it, or why none does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditor.rules import BY_ID

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \| (.*) \|$", re.MULTILINE)
ROWS = {int(row[0]): row[1:] for row in ROW.findall((DOCS / "kubernetes.md").read_text(encoding="utf-8"))}
HEADINGS = {
    "#" + line[3:].lower().replace(".", "")
    for line in (DOCS / "rules.md").read_text(encoding="utf-8").split("\n")
    if line.startswith("## ")
}


def rules_of(number: int) -> list[str]:
    return re.findall(r"\[([A-Z.0-9-]+)\]\(rules\.md", ROWS[number][2])


def test_all_39_are_there_in_order() -> None:
    assert list(ROWS) == list(range(1, 40))


@pytest.mark.parametrize("number", ROWS)
def test_every_rule_exists_or_there_is_a_reason(number: int) -> None:
    reported, problem, rules, remarks = ROWS[number]
    named = rules_of(number)
    assert reported
    assert problem
    assert set(named) <= BY_ID.keys()
    assert set(re.findall(r"\(rules\.md(#[^)]*)\)", rules)) <= HEADINGS
    assert named or (rules == "-" and remarks)


def test_every_rule_about_kubelets_is_for_a_reported_problem() -> None:
    named = {name for number in ROWS for name in rules_of(number)}
    assert {name for name in BY_ID if name.startswith("KUBE.")} <= named
