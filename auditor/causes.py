"""Findings of one origin put together, ranked by their part of the disturbance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from auditor.model import BAD, Axis, Cause, Finding, Kind, Outcome


def rank(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """Causes of what failed or warned: most disturbance first, then what only readiness failed for, last open doors.

    ``share`` is the part of all time that these findings take from the CPUs, nominal (auditor/policy.py WEIGHT_US) or
    measured; None where nothing was measured, and for what disturbs no CPU: a limit stalls the own threads alone.
    ``per_second`` counts events.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.origin and _disturbs(finding):
            groups.setdefault(finding.origin, []).append(finding)
    # A risk tells why a door is open or a tick runs; where neither is so, it explains nothing.
    known = [members for members in groups.values() if any(map(_came_true, members))]
    # fsum: plain sum() rounds otherwise from Python 3.12 on, and a report must read the same everywhere.
    total = math.fsum(_taken_us(members) for members in known if not _only_readiness(members))
    causes = [(_rank(members), _cause(members, total)) for members in known]
    return tuple(cause for _, cause in sorted(causes, key=lambda item: (item[0], item[1].title)))


def _disturbs(finding: Finding) -> bool:
    """On the readiness axis only what failed: a limit that ran out stalls the own threads, one that did not may."""
    return finding.outcome in (BAD if finding.axis is Axis.ISOLATION else (Outcome.FAIL,))


def _came_true(finding: Finding) -> bool:
    return finding.kind is not Kind.RISK


def _isolates(finding: Finding) -> bool:
    """Whether it speaks of isolation, and came true."""
    return finding.axis is Axis.ISOLATION and _came_true(finding)


def _only_readiness(members: Iterable[Finding]) -> bool:
    """The CPUs are as isolated as without these: a verdict of isolation is not theirs."""
    return not any(map(_isolates, members))


def _judged(members: Sequence[Finding]) -> Sequence[Finding]:
    """Whose numbers are those of the cause: of isolation where it failed, else of readiness."""
    return members if _only_readiness(members) else [f for f in members if f.axis is Axis.ISOLATION]


def _taken_us(members: Sequence[Finding]) -> float:
    """Microseconds per second."""
    return math.fsum(finding.cost_us_per_s for finding in _judged(members))


def _rank(members: Sequence[Finding]) -> tuple[int, float, int]:
    """What was measured on the CPUs before what stalls the own threads, that before doors that nothing came through."""
    measured = any(finding.kind is Kind.MEASURED for finding in members if _isolates(finding))
    step = 0 if measured else 1 if _only_readiness(members) else 2
    return step, -_taken_us(members), min(BAD.index(finding.outcome) for finding in members)


def _cause(members: list[Finding], total: float) -> Cause:
    taken, only_readiness = _taken_us(members), _only_readiness(members)
    worst = sorted(members, key=_place)
    per_second = math.fsum(finding.per_second for finding in _judged(members))
    return Cause(
        title=("readiness: " if only_readiness else "") + _title(worst),
        rules=tuple(dict.fromkeys(finding.rule for finding in worst)),
        cpus=tuple(sorted({cpu for finding in members for cpu in finding.cpus})),
        share=taken / total if taken and not only_readiness else None,
        per_second=per_second or None,
        fix=next((finding.fix for finding in worst if finding.fix), None),
        waived=all(finding.waived for finding in members if _came_true(finding)),
    )


def _place(finding: Finding) -> tuple[bool, bool, bool, bool, int, float]:
    """The door before what came through it, the interrupt before the thread that handles it, the explanation last.

    What stalls the own threads alone comes after what disturbs the CPUs. Within these what failed comes first, then
    what takes most.
    """
    kind, bound, stalls = finding.kind, finding.rule == "THR.KBOUND", finding.axis is Axis.READINESS
    worst = BAD.index(finding.outcome), -finding.cost_us_per_s
    return kind is Kind.RISK, kind is not Kind.DOOR, stalls, bound, *worst


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
