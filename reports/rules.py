"""The catalogue of rules: for a terminal, as JSON, and as the page docs/rules.md."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from auditor.catalogue import AT_TIMES, NO, YES, Entry
from auditor.model import Axis, Kind
from auditor.policy import Thresholds
from reports.layout import INDENT, MISSING, Column, number, prose, table

SCHEMA = "cpu-audit/rules/v1"
COLUMNS = (
    Column(head="rule", width=14),
    Column(head="axis", width=9),
    Column(head="kind", width=8),
    Column(head="decisive", width=8),
    Column(head="warns >", width=10, right=True),
    Column(head="fails >", width=12, right=True),
    Column(head="title"),
)
MEANING = {
    YES: "decisive: without its pass there is no `isolated`",
    AT_TIMES: "decisive at times",
    NO: "not decisive: what it can't tell keeps no verdict open",
}
NEVER = "never"
PAGE = """# Rules

What `cpu-audit run` judges, in the order of its report. `cpu-audit rules` prints this table, `cpu-audit rules ID` one
rule. This page is generated from `auditor/rules/`; after a change there,
`python -m pytest tests/reports/test_rules.py --update-golden` writes it anew.

**Axis**: isolation decides the verdict, readiness the second line. **Kind**: measured in the window, a door that keeps
others out, or a risk that may become noise later and is only listed. **Decisive**: unknown or not exercised, it keeps
the verdict from `isolated`. The limits are defaults of this tool; only the mechanisms behind them are the kernel's.
"""


def table_text(entries: Sequence[Entry]) -> str:
    """One line per rule, at most 100 columns."""
    return "\n".join([*table(COLUMNS, [_cells(entry) for entry in entries], indent=""), ""])


def _cells(entry: Entry) -> list[str]:
    warn, fail = _limits(entry.thresholds)
    return [entry.id, entry.axis.value, entry.kind.value, entry.decisive, warn, fail, entry.title]


def _limits(thresholds: Thresholds | None) -> tuple[str, str]:
    """Both numbers with their unit."""
    if thresholds is None:
        return MISSING, MISSING
    blank = "" if thresholds.unit.startswith("/") else " "
    warn, fail = (
        MISSING if limit is None else f"{number(limit)}{blank}{thresholds.unit}"
        for limit in (thresholds.warn, thresholds.fail)
    )
    return warn, fail


def entry_text(entry: Entry) -> str:
    """One rule, at most 100 columns."""
    parts = (
        ("why", entry.why),
        ("reads", ", ".join(entry.sources)),
        ("warns", entry.warns or NEVER),
        ("fails", entry.fails or NEVER),
        ("fix", entry.fix),
    )
    lines = [*prose(f"{entry.id}  {entry.title}"), *prose(_standing(entry), INDENT), ""]
    for head, text in parts:
        lines += prose(text, f"{INDENT}{head:<7}")
    return "\n".join([*lines, ""])


def _standing(entry: Entry) -> str:
    """What it has a say in."""
    if entry.axis is Axis.READINESS:
        part = "it has no part in the isolation verdict"
    elif entry.kind is Kind.RISK and entry.decisive == NO:
        part = "listed, it has no part in the verdict"
    else:
        part = MEANING[entry.decisive] + (f": {entry.decides}" if entry.decides else "")
    return f"{entry.axis.value}, {entry.kind.value}; {part}"


def to_json(entries: Sequence[Entry]) -> str:
    """The document ``cpu-audit/rules/v1``: each rule with the names of ``Entry``; ``limit`` is null without one."""
    document = {"schema": SCHEMA, "rules": [_object(entry) for entry in entries]}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _object(entry: Entry) -> dict[str, object]:
    limit = entry.thresholds
    return {
        "id": entry.id,
        "title": entry.title,
        "axis": entry.axis.value,
        "kind": entry.kind.value,
        "decisive": entry.decisive,
        "decides": entry.decides,
        "limit": None if limit is None else {"warn": limit.warn, "fail": limit.fail, "unit": limit.unit},
        "warns": entry.warns,
        "fails": entry.fails,
        "why": entry.why,
        "sources": list(entry.sources),
        "fix": entry.fix,
    }


def page(entries: Sequence[Entry]) -> str:
    """docs/rules.md, whole."""
    heads = [column.head for column in COLUMNS]
    lines = [PAGE, _row(heads), _row(["---"] * len(heads))]
    for entry in entries:
        first, *rest = _cells(entry)
        lines.append(_row([f"[{first}](#{_anchor(entry)})", *map(_escaped, rest)]))
    return "\n".join([*lines, "", "\n".join(map(_section, entries))])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _anchor(entry: Entry) -> str:
    """As GitHub makes it of the heading."""
    return re.sub(r"[^a-z0-9_-]", "", entry.id.lower())


def _section(entry: Entry) -> str:
    items = (
        ("Reads", ", ".join(f"`{source}`" for source in entry.sources)),
        ("Warns", _escaped(entry.warns or NEVER)),
        ("Fails", _escaped(entry.fails or NEVER)),
        ("Fix", _escaped(entry.fix)),
    )
    lines = [
        f"## {entry.id}",
        "",
        f"{_escaped(entry.title)}: {_escaped(_standing(entry))}.",
        "",
        _escaped(entry.why),
        "",
    ]
    return "\n".join([*lines, *(f"- **{head}**: {text}" for head, text in items), ""])


def _escaped(text: str) -> str:
    """For Markdown; what stands between backticks is left alone."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*<|\[\]])", r"\\\1", part) for part in parts)
