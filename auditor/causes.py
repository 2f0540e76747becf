"""Findings of one origin put together, ranked by their part of the disturbance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from auditor.model import BAD, Axis, Cause, Finding, Kind, Outcome


def rank(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """Causes of what failed or warned: most disturbance first, last what is only an open door.

    ``share`` is the part of all time that these findings take from the CPUs or from the own threads, nominal
    (auditor/policy.py WEIGHT_US) or measured; None where nothing was measured. ``per_second`` counts events.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.origin and _disturbs(finding):
            groups.setdefault(finding.origin, []).append(finding)
    # A risk tells why a door is open or a tick runs; where neither is so, it explains nothing.
    groups = {origin: members for origin, members in groups.items() if any(map(_came_true, members))}
    # fsum: plain sum() rounds otherwise from Python 3.12 on, and a report must read the same everywhere.
    total = math.fsum(finding.cost_us_per_s for members in groups.values() for finding in members)
    causes = [(_severity(members), _cause(members, total)) for members in groups.values()]
    return tuple(cause for _, cause in sorted(causes, key=lambda item: (-(item[1].share or 0), item[0], item[1].title)))


def _disturbs(finding: Finding) -> bool:
    """On the readiness axis only what failed: a limit that ran out stalls the own threads, one that did not may."""
    return finding.outcome in (BAD if finding.axis is Axis.ISOLATION else (Outcome.FAIL,))


def _came_true(finding: Finding) -> bool:
    return finding.kind is not Kind.RISK


def _severity(members: Sequence[Finding]) -> int:
    return min(BAD.index(finding.outcome) for finding in members)


def _cause(members: list[Finding], total: float) -> Cause:
    taken = math.fsum(finding.cost_us_per_s for finding in members)
    worst = sorted(members, key=_place)
    per_second = math.fsum(finding.per_second for finding in members)
    return Cause(
        title=_title(worst),
        rules=tuple(dict.fromkeys(finding.rule for finding in worst)),
        cpus=tuple(sorted({cpu for finding in members for cpu in finding.cpus})),
        share=taken / total if total and taken else None,
        per_second=per_second or None,
        fix=next((finding.fix for finding in worst if finding.fix), None),
        waived=all(finding.waived for finding in members if _came_true(finding)),
    )


def _place(finding: Finding) -> tuple[bool, bool, bool, int, float]:
    """The door before what came through it, the interrupt before the thread that handles it, the explanation last.

    Within these what failed comes first, then what takes most.
    """
    kind, bound = finding.kind, finding.rule == "THR.KBOUND"
    return kind is Kind.RISK, kind is not Kind.DOOR, bound, BAD.index(finding.outcome), -finding.cost_us_per_s


def _title(members: Sequence[Finding]) -> str:
    """The titles without repetition: "foreign user thread: containerd, kubelet; foreign switches"."""
    subjects: dict[str, list[str]] = {}
    for finding in members:
        head, _, tail = finding.title.partition(": ")
        names = subjects.setdefault(head, [])
        if tail and tail not in names:
            names.append(tail)
    parts = [f"{head}: {_listed(names)}" if names else head for head, names in subjects.items()]
    return "; ".join(parts)


def _listed(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
