"""The part of the terminal report that goes CPU by CPU: what each rule says, and what was counted.

CPUs about which the rules say the same share one table: sixty-four quiet CPUs are one table, the odd one has its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.model import Audit, Axis, Evidence, Finding, Kind, Outcome
from reports.layout import INDENT, Column, cpu_list, cpus_named, listing, number, prose, quantity, table, with_waivers
from reports.text_activity import activity_lines

IN_TABLE = (Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN)
IN_SHORT = (Outcome.PASS, Outcome.NOT_EXERCISED, Outcome.NOT_APPLICABLE)
TO_CHECK = (Outcome.FAIL, Outcome.UNKNOWN)  # rows that name where to look by hand
MAX_ALIKE = 3  # rows of one rule and outcome, worst first; the JSON document has all

RULE_COLUMNS = (
    Column(head="outcome", width=7),
    Column(head="rule", width=18),
    Column(head="observed", width=16, right=True),
    Column(head="limit", width=13, right=True),
    Column(head="what"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """CPUs with the same outcome of every rule, and their findings."""

    cpus: tuple[int, ...]
    findings: tuple[Finding, ...]


def cpu_sections(audit: Audit) -> list[list[str]]:
    """One section of lines per group of CPUs, in order of their first CPU."""
    return [_section(audit, group) for group in groups(audit)]


def groups(audit: Audit) -> list[Group]:
    """Audited CPUs by what was found on them; findings about no audited CPU come last, as those of the host."""
    judged = [f for f in audit.findings if f.kind is not Kind.RISK]
    cpus = sorted({*audit.cpu_verdicts, *audit.activity.cpus})
    by_signature: dict[frozenset[tuple[str, Outcome, str]], list[int]] = {}
    for cpu in cpus:
        signature = frozenset((f.rule, f.outcome, f.waived) for f in judged if cpu in f.cpus)
        by_signature.setdefault(signature, []).append(cpu)
    result = [
        Group(cpus=tuple(members), findings=tuple(f for f in judged if not set(members).isdisjoint(f.cpus)))
        for members in by_signature.values()
    ]
    others = tuple(f for f in judged if set(cpus).isdisjoint(f.cpus))
    return [*result, Group(cpus=(), findings=others)] if others else result


def _section(audit: Audit, group: Group) -> list[str]:
    return [*_heading(audit, group), *rule_lines(group), *activity_lines(audit, group.cpus)]


def _heading(audit: Audit, group: Group) -> list[str]:
    if not group.cpus:
        return ["The host as a whole"]
    verdict = audit.cpu_verdicts.get(group.cpus[0])
    regimes = sorted({audit.activity.cpus[cpu].regime.value for cpu in group.cpus if cpu in audit.activity.cpus})
    name = f"{cpus_named(cpu_list(group.cpus))} ({', '.join(regimes)})" if regimes else cpus_named(cpu_list(group.cpus))
    if verdict is None:
        return prose(name, rest=INDENT)
    reason = f"; {verdict.reason}" if verdict.reason != audit.verdict.reason else ""
    return prose(f"{name}: {with_waivers(verdict.status.value, verdict.waivers)}{reason}", rest=INDENT)


def rule_lines(group: Group) -> list[str]:
    """The table of what does not pass, then the rest in a paragraph for each outcome; numbers beside their limits."""
    rows = _rows(group)
    lines = table(RULE_COLUMNS, [_cells(group, same) for same in _first_alike(rows)])
    more = Counter((row[0].outcome.value, row[0].rule) for row in rows)
    cut = [f"{n - MAX_ALIKE} {outcome} {rule}" for (outcome, rule), n in more.items() if n > MAX_ALIKE]
    lines += listing(cut, f"{INDENT}more in the JSON document: ", INDENT * 2) if cut else []
    for outcome in IN_SHORT:
        lines += _in_short(outcome, [f for f in group.findings if f.outcome is outcome])
    return lines


def _rows(group: Group) -> list[list[Finding]]:
    """Findings that make one row (same rule, outcome, title and waiver), isolation before readiness, worst first."""
    same: dict[tuple[str, Outcome, str, str], list[Finding]] = {}
    for finding in group.findings:
        if finding.outcome in IN_TABLE:
            same.setdefault((finding.rule, finding.outcome, finding.title, finding.waived), []).append(finding)
    return sorted(same.values(), key=_badness)


def _first_alike(rows: Sequence[list[Finding]]) -> list[list[Finding]]:
    seen: Counter[tuple[str, Outcome]] = Counter()
    kept = []
    for row in rows:
        seen[row[0].rule, row[0].outcome] += 1
        if seen[row[0].rule, row[0].outcome] <= MAX_ALIKE:
            kept.append(row)
    return kept


def _badness(same: Sequence[Finding]) -> tuple[bool, int, bool, float, str]:
    first = same[0]
    weight = max(f.cost_us_per_s for f in same)
    return (
        first.axis is Axis.READINESS,
        IN_TABLE.index(first.outcome),
        first.kind is not Kind.DOOR,
        -weight,
        first.rule,
    )


def _cells(group: Group, same: Sequence[Finding]) -> list[str]:
    worst = max(same, key=lambda f: f.observed or 0.0)
    here = {cpu for finding in same for cpu in finding.cpus}.intersection(group.cpus)
    where = f"{cpus_named(cpu_list(here))}: " if here != set(group.cpus) else ""
    axis = "readiness: " if worst.axis is Axis.READINESS else ""
    what = with_detail(worst)
    seen = [evidence_text(worst.evidence[0])] if worst.evidence and worst.outcome in TO_CHECK else []
    limit = (
        "≤" + quantity(worst.limit, worst.unit if worst.unit[:1] in ("/", "%") else "")
        if worst.limit is not None
        else ""
    )
    return [worst.outcome.value, worst.rule, _range(same), limit, "\n".join([where + axis + what, *seen])]


def with_detail(finding: Finding) -> str:
    """Title and detail as one sentence; a detail that starts with the subject the title ends in does not repeat it."""
    subject = finding.title.rpartition(": ")[2]
    repeated = finding.detail.startswith((f"{subject}: ", f"{subject} "))
    detail = finding.detail[len(subject) :].lstrip(": ") if repeated else finding.detail
    waived = f"; waived {finding.waived}" if finding.waived else ""
    return ": ".join(part for part in (finding.title, detail) if part) + waived


def evidence_text(evidence: Evidence) -> str:
    """What to look at by hand: ``/proc/interrupts 127 CPU1: 120011 → 122379``."""
    place = " ".join(part for part in ("/" + evidence.path.lstrip("/"), evidence.field) if part)
    if evidence.value is not None:
        return f"{place}: {evidence.value}"
    ends = " → ".join(str(end) for end in (evidence.before, evidence.after) if end is not None)
    return f"{place}: {ends}" if ends else place


def _range(same: Sequence[Finding]) -> str:
    values = sorted(f.observed for f in same if f.observed is not None)
    if not values:
        return ""
    low, high = number(values[0]), number(values[-1])
    return ("" if low == high else f"{low}…") + quantity(values[-1], same[0].unit)


def _in_short(outcome: Outcome, findings: Sequence[Finding]) -> list[str]:
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    parts = []
    for rule, same in by_rule.items():
        observed, limit = _range(same), same[0].limit
        beside = f" (≤{quantity(limit, same[0].unit)})" if limit is not None else ""
        parts.append(f"{rule} {observed}{beside}" if observed else rule)
    return listing(parts, f"{INDENT}{outcome.value.replace('-', ' ')}: ", INDENT * 2) if parts else []
