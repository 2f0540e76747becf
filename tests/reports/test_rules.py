"""The catalogue as text, JSON and page; docs/rules.md is what the registry says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.catalogue import catalogue, find
from auditor.model import Axis, Kind
from auditor.policy import Policy, Thresholds
from reports.rules import entry_text, page, table_text, to_json

ENTRIES = catalogue(Policy())
OTHER = find("IRQ.OTHER", Policy())
PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_docs_rules_md_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(ENTRIES), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(ENTRIES)


def test_the_table_whole(golden: Callable[[str, str], None]) -> None:
    golden("rules.txt", table_text(ENTRIES))


def test_every_rule_whole(golden: Callable[[str, str], None]) -> None:
    golden("rules-each.txt", "\n".join(map(entry_text, ENTRIES)))


def test_text_fits_in_100_columns() -> None:
    text = table_text(ENTRIES) + "".join(map(entry_text, ENTRIES))
    assert max(map(len, text.splitlines())) <= 100


def test_no_id_and_no_limit_is_cut() -> None:
    text = table_text(ENTRIES)
    assert "…" not in text
    assert [entry.id for entry in ENTRIES if not re.search(rf"^{re.escape(entry.id)} ", text, re.MULTILINE)] == []


def test_the_document_whole() -> None:
    assert to_json([replace(OTHER, why="Why.")]) == (
        "{\n"
        '  "schema": "cpu-audit/rules/v1",\n'
        '  "rules": [\n'
        "    {\n"
        '      "id": "IRQ.OTHER",\n'
        '      "title": "other interrupts",\n'
        '      "axis": "isolation",\n'
        '      "kind": "measured",\n'
        '      "decisive": "no",\n'
        '      "decides": "",\n'
        '      "limit": {\n'
        '        "warn": 0.2,\n'
        '        "fail": 1,\n'
        '        "unit": "/s"\n'
        "      },\n"
        '      "warns": "above 0.2/s",\n'
        '      "fails": "above 1/s, by the lower 95 % bound of the rate",\n'
        '      "why": "Why.",\n'
        '      "sources": [\n'
        '        "/proc/interrupts"\n'
        "      ],\n"
        '      "fix": "see which row grows; posted and hypervisor interrupts come of virtual machines on this CPU"\n'
        "    }\n"
        "  ]\n"
        "}\n"
    )


def test_the_document_of_all_has_null_where_there_is_no_limit() -> None:
    rules = {rule["id"]: rule for rule in json.loads(to_json(ENTRIES))["rules"]}
    assert list(rules) == [entry.id for entry in ENTRIES]
    assert rules["CFG.DOMAIN"]["limit"] is None
    assert rules["IRQ.AFFINITY"]["limit"] == {"warn": None, "fail": 0, "unit": "interrupts"}


@pytest.mark.parametrize(
    ("axis", "kind", "decisive", "line"),
    [
        (Axis.ISOLATION, Kind.DOOR, "yes", "isolation, door; decisive: without its pass there is no `isolated`"),
        (Axis.ISOLATION, Kind.MEASURED, "at times", "isolation, measured; decisive at times: when asked"),
        (Axis.ISOLATION, Kind.RISK, "no", "isolation, risk; listed, it has no part in the verdict"),
        (Axis.READINESS, Kind.MEASURED, "no", "readiness, measured; it has no part in the isolation verdict"),
    ],
)
def test_what_a_rule_has_a_say_in(axis: Axis, kind: Kind, decisive: str, line: str) -> None:
    decides = "when asked" if decisive == "at times" else ""
    entry = replace(OTHER, axis=axis, kind=kind, decisive=decisive, decides=decides)
    assert entry_text(entry).splitlines()[:2] == ["IRQ.OTHER  other interrupts", f"  {line}"]


def test_the_page_leads_to_every_section() -> None:
    text = page(ENTRIES)
    anchors = re.findall(r"^\| \[[^]]+\]\(#([^)]+)\)", text, re.MULTILINE)
    heads = [head.lower().replace(".", "") for head in re.findall(r"^## (.+)$", text, re.MULTILINE)]
    assert anchors == heads
    assert len(anchors) == len(ENTRIES)


def test_the_page_escapes_what_markdown_would_take() -> None:
    odd = replace(OTHER, title="a|b <c> *d*", why="rcu*, `x*y|z` [k]", thresholds=Thresholds(warn=3, unit="a|b"))
    text = page([odd])
    assert "| 3 a\\|b | - | a\\|b \\<c> \\*d\\* |\n" in text
    assert "\nrcu\\*, `x*y|z` \\[k\\]\n" in text
