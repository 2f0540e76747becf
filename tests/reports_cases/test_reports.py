"""Each report's stated cause has the rank that docs/reports.md says, and it is among the first three."""

from __future__ import annotations

import pytest

from auditor.model import Kind, Outcome
from tests.hosts.replayed import found
from tests.reports_cases import table
from tests.reports_cases.cases import FIRST, FIVE, NOT_BUILT, REPORTS, Report
from tests.reports_cases.table import PAGE, Row

BY_NAME = {report.name: report for report in REPORTS}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    where = tmp_path_factory.mktemp("reports")
    return {name: table.judge(report, where / str(n)) for n, (name, report) in enumerate(BY_NAME.items())}


def test_no_name_is_given_twice() -> None:
    assert len(BY_NAME) == len(REPORTS)


@pytest.mark.parametrize("report", [report for report in REPORTS if report.rule], ids=lambda report: report.name)
def test_the_stated_cause_has_its_rank(report: Report, judged: dict[str, Row]) -> None:
    row = judged[report.name]
    assert row.rank == report.rank, [cause.title for cause in row.audit.causes]
    assert (row.rank or len(row.audit.causes)) <= FIRST or report.note == FIVE
    assert row.cause is not None
    assert row.cause.fix is not None


@pytest.mark.parametrize("report", [report for report in REPORTS if not report.rule], ids=lambda report: report.name)
def test_where_none_is_stated_or_counted_none_is_made_up(report: Report, judged: dict[str, Row]) -> None:
    assert tuple(cause.title for cause in judged[report.name].audit.causes) == report.others


def test_the_page_is_up_to_date(request: pytest.FixtureRequest, judged: dict[str, Row]) -> None:
    text = table.page(list(judged.values()))
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


def test_a_state_that_names_an_offline_cpu_is_a_risk_and_so_is_the_cpuset_that_stays(judged: dict[str, Row]) -> None:
    row = judged["a CPU that went offline"]
    assert row.risk is not None
    assert (row.risk.outcome, row.risk.kind, row.risk.cpus) == (Outcome.FAIL, Kind.RISK, (2, 3))
    assert row.risk.detail == "CPUs 7 are not online: a kubelet that starts on it refuses to"
    (drift,) = found(row.audit, "KUBE.DRIFT", 2)
    assert (drift.outcome, drift.cpus) == (Outcome.FAIL, (2, 3))
    assert drift.detail.startswith("it may run on CPUs 2-3, which another container has exclusively")


def test_only_what_is_no_cause_is_looked_for_among_the_risks(judged: dict[str, Row]) -> None:
    assert [name for name, row in judged.items() if row.risk] == ["a CPU that went offline"]


def test_what_latency_alone_shows_is_not_called_isolated_without_its_bound(judged: dict[str, Row]) -> None:
    for name in ("contaminated run, 1.9 ms", "pinned and isolated"):
        assert judged[name].audit.verdict.bounds.endswith("not seen: SMI, cache and memory contention")


def test_residual_interrupts_are_listed_with_their_rates(judged: dict[str, Row]) -> None:
    audit = judged["clean run, 75 µs"].audit
    rates = {cpu: found(audit, "IRQ.MANAGED", cpu)[0].observed for cpu in range(6, 12)}
    assert rates == {cpu: count / 1800 for cpu, count in zip(range(6, 12), (309, 641, 62, 5, 60, 499), strict=True)}
    assert found(audit, "IPI.CAL", 8)[0].evidence[0].value == "+2"


def test_the_ban_of_64_cpus_is_read_as_8_to_63(judged: dict[str, Row]) -> None:
    audit = judged["irqbalance mask for 64 CPUs"].audit
    outcomes = {cpu: found(audit, "CFG.IRQBALANCE", cpu)[0].outcome for cpu in range(8, 64)}
    assert outcomes == dict.fromkeys(range(8, 64), Outcome.PASS)
    (told, *_) = found(audit, "CFG.IRQBALANCE", 8)
    assert told.detail.endswith("replaces its default: kept free are CPUs 8-63")


def test_the_override_leaves_the_isolated_cpus_open(judged: dict[str, Row]) -> None:
    row = judged["irqbalance, one more CPU banned"]
    (told, *_) = found(row.audit, "CFG.IRQBALANCE", 0)
    assert told.detail.endswith("kept free are CPUs 4, not 0")
    assert row.cause is not None
    assert row.cause.fix is not None
    assert row.cause.fix.commands[:2] == (
        "echo IRQBALANCE_BANNED_CPULIST=0-4 | sudo tee -a /etc/default/irqbalance",
        "sudo systemctl restart irqbalance",
    )


def test_the_fixes_say_what_the_reports_ended_with(judged: dict[str, Row]) -> None:
    ends = {
        "vmstat work keeps the tick": "vm.stat_interval",
        "fair server keeps the tick": "fair_server",
        "bound to one CPU, throttled": "cpu.cfs_quota_us",
        "irqaffinity over all CPUs": "irqaffinity=0-3",
        "a vCPU preempted": "pin this vCPU",
    }
    for name, word in ends.items():
        cause = judged[name].cause
        assert cause is not None
        assert cause.fix is not None
        assert word in " ".join((cause.fix.text, *cause.fix.commands)), name


def test_every_report_has_a_line_on_the_page() -> None:
    """``python -m tests.reports_cases`` prints it."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for report in REPORTS:
        assert sum(line.startswith(f"| {report.name} | {report.source} |") for line in lines) == 1
    assert sum(line.startswith("| ") for line in lines) == len(REPORTS) + len(NOT_BUILT) + 4
