"""Judges the reports and puts them into a table."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from auditor.model import BAD, Audit, Cause, Finding
from tests.hosts.build import write
from tests.hosts.replayed import audit_of
from tests.reports_cases.cases import NOT_BUILT, REPORTS, Report

PAGE = Path(__file__).parents[2] / "docs" / "reports.md"
HEAD = """# Public reports, judged

Written by `python -m tests.reports_cases`; a test compares it. Each report is rebuilt as a recording from the few
figures that were posted, on a node that is otherwise quiet, and judged as any recording is. *Rank* is the place of the
stated cause among the ranked causes; what only risks disturbance has none. Only figures are cited; what was not posted
is said to be assumed.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A report and what became of it. ``rank``: None where the cause is not among those found."""

    report: Report
    audit: Audit
    rank: int | None

    @property
    def cause(self) -> Cause | None:
        """The cause that is the stated one."""
        return None if self.rank is None else self.audit.causes[self.rank - 1]

    @property
    def risk(self) -> Finding | None:
        """The finding that lists what is stated as a risk."""
        found = [f for f in self.audit.findings if f.rule == self.report.risk and f.outcome in BAD]
        return found[0] if found else None


def judge(report: Report, directory: Path) -> Row:
    """The row of a report; its recording is written below the directory."""
    host = write(report.build(), directory / "recording")
    audit = audit_of(host, cpus=report.cpus, workload=report.workload)
    ranks = [rank for rank, cause in enumerate(audit.causes, 1) if _is(report, cause)]
    return Row(report=report, audit=audit, rank=ranks[0] if ranks else None)


def _is(report: Report, cause: Cause) -> bool:
    told = cause.title + " " + (cause.fix.text if cause.fix else "")
    return bool(report.rule) and report.rule in cause.rules and report.names in told


def rows() -> list[Row]:
    """Every row, from recordings in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        return [judge(report, Path(directory) / str(number)) for number, report in enumerate(REPORTS)]


def page(found: list[Row]) -> str:
    """docs/reports.md."""
    lines = ["| report | source | stated cause | verdict, readiness | rank | cause found | note |"]
    lines += ["| - | - | - | - | -: | - | - |", *map(_line, found)]
    missed = ["| source | stated cause | why there is no recording |", "| - | - | - |"]
    missed += [f"| {item.source} | {item.stated} | {item.reason} |" for item in NOT_BUILT]
    parts = [HEAD, "\n".join(lines), "\n## Not built\n", "\n".join(missed)]
    return "\n".join(parts) + "\n"


def _line(row: Row) -> str:
    report, cause = row.report, row.cause
    found = f"{_short(cause)} ({', '.join(cause.rules)})" if cause else _instead(row)
    status = f"{row.audit.verdict.status.value}, {row.audit.readiness.status.value}"
    cells = (report.name, report.source, report.stated, status, _rank(row), found, report.note)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _rank(row: Row) -> str:
    return "-" if row.rank is None else f"{row.rank} of {len(row.audit.causes)}"


def _short(cause: Cause) -> str:
    return cause.title if len(cause.title) <= 160 else cause.title[:157] + "..."


def _instead(row: Row) -> str:
    causes, risk = row.audit.causes, row.risk
    known = f"only: {', '.join(map(_short, causes))}" if causes else "none"
    return f"{known}; a risk: {risk.title}: {risk.detail} ({risk.rule})" if risk else known
