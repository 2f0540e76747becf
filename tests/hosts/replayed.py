"""Recordings judged as ``cpu-audit run --from`` judges them."""

from __future__ import annotations

from pathlib import Path

from auditor.model import Audit, Finding, Outcome
from auditor.policy import Policy
from auditor.recordings import replay
from auditor.session import judge


def audit_of(
    path: Path, *, cpus: str | None = None, workload: str | None = None, window_s: float | None = None
) -> Audit:
    """The audit of a recording on disk."""
    return judge(replay(str(path), cpus, workload, window_s), Policy())


def found(audit: Audit, rule: str, cpu: int) -> list[Finding]:
    """Findings of one rule on one CPU."""
    return [finding for finding in audit.findings if finding.rule == rule and cpu in finding.cpus]


def one(audit: Audit, rule: str, cpu: int) -> Finding:
    """The only finding of one rule on one CPU."""
    (finding,) = found(audit, rule, cpu)
    return finding


def rules_with(audit: Audit, cpu: int, *outcomes: Outcome) -> set[str]:
    """Rules that say one of these of a CPU."""
    return {finding.rule for finding in audit.findings if cpu in finding.cpus and finding.outcome in outcomes}
