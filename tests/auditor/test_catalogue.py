"""The catalogue says of every rule what the rule does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.catalogue import Entry, UnknownRuleError, catalogue, find
from auditor.model import Axis, Finding, Kind, Outcome
from auditor.policy import LIMITS, Limit, Policy, Thresholds
from auditor.rules import BY_ID, RULES
from tests.hosts.build import HERE, write
from tests.hosts.lab import HOSTS
from tests.hosts.replayed import audit_of
from tests.hosts.test_variations import CASES

ENTRIES = {entry.id: entry for entry in catalogue(Policy())}


def test_every_rule_has_an_entry_in_order() -> None:
    assert [entry.id for entry in catalogue(Policy())] == [rule.id for rule in RULES]
    assert len(ENTRIES) == len(RULES)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_every_rule_is_documented(entry: Entry) -> None:
    assert entry.title
    assert entry.why.endswith(".")
    assert entry.fix
    assert entry.sources
    assert all(
        source.startswith(("/proc/", "/sys/", "/etc/", "/usr/lib/", "/dev/", "/boot/", "/var/"))
        for source in entry.sources
    )
    assert entry.warns or entry.fails
    assert (entry.decisive == "at times") is bool(entry.decides)
    assert "{" not in entry.warns + entry.fails


def test_every_limit_belongs_to_a_rule() -> None:
    assert LIMITS.keys() <= BY_ID.keys()


def test_what_is_decisive() -> None:
    assert [entry.id for entry in ENTRIES.values() if entry.decisive == "yes"] == [
        "CFG.DOMAIN",
        "IRQ.AFFINITY",
        "THR.FOREIGN",
        "IRQ.DEVICE",
        "IRQ.MANAGED",
        "SIRQ.SCHED",
        "CFG.CPUS",
    ]
    assert [entry.id for entry in ENTRIES.values() if entry.decisive == "at times"] == ["TICK.LOC"]


def test_an_entry_whole() -> None:
    assert ENTRIES["IRQ.OTHER"] == Entry(
        id="IRQ.OTHER",
        title="other interrupts",
        axis=Axis.ISOLATION,
        kind=Kind.MEASURED,
        decisive="no",
        decides="",
        thresholds=Thresholds(warn=0.2, fail=1, unit="/s"),
        warns="above 0.2/s",
        fails="above 1/s, by the lower 95 % bound of the rate",
        why="Interrupts that no other rule judges: posted and hypervisor interrupts, spurious ones, IPIs that share a "
        "row. Few are information; a stream of them is noise.",
        sources=("/proc/interrupts",),
        fix="see which row grows; posted and hypervisor interrupts come of virtual machines on this CPU",
    )


def test_numbers_come_from_the_policy() -> None:
    limits = {**LIMITS, "THR.FOREIGN": Limit(warn=0.5, fail=7), "TICK.LOC": Limit(warn=0, fail=25)}
    policy = replace(Policy(), limits=limits, foreign_run_ms=2.5, sibling_warn=0.02, sibling_fail=0.3, steal_fail=0.02)
    foreign = find("THR.FOREIGN", policy)
    assert foreign.thresholds == Thresholds(warn=0.5, fail=7, unit="/s")
    assert foreign.warns == "above 0.5/s"
    assert foreign.fails == ("above 7/s, by the lower 95 % bound of the rate; or from 2.5 ms of CPU time of others on")
    tick = find("TICK.LOC", policy)
    assert tick.thresholds == Thresholds(warn=0, fail=25, unit="/busy s")
    assert tick.warns == "at any event"
    assert tick.fails.startswith("above 25/busy s, ")
    smt = find("CFG.SMT", policy)
    assert smt.thresholds == Thresholds(warn=2, fail=30, unit="%")
    assert smt.fails == "above 30% of the window"
    assert find("STEAL", policy).thresholds == Thresholds(warn=0, fail=2, unit="%")


def test_a_rule_without_a_number_has_no_limit() -> None:
    assert ENTRIES["CFG.DOMAIN"].thresholds is None
    assert ENTRIES["CFG.DOMAIN"].warns == ""


@pytest.mark.parametrize("name", ["IRQ.DEVICE", "irq.device"])
def test_a_rule_is_found_in_capitals_or_not(name: str) -> None:
    assert find(name, Policy()) == ENTRIES["IRQ.DEVICE"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("IRQ.DEVIC", "no rule 'IRQ.DEVIC': there is IRQ.DEVICE"),
        ("tick.lco", "no rule 'tick.lco': there is TICK.LOC"),
        ("irq", "no rule 'irq': there is IRQ.AFFINITY, IRQ.DEVICE, IRQ.MANAGED, IRQ.OTHER"),
        ("sched", "no rule 'sched': there is SIRQ.SCHED"),
        ("", "no rule '': `cpu-audit rules` lists them"),
        ("%%%%", "no rule '%%%%': `cpu-audit rules` lists them"),
        ("\x1b[31m\u202e", "no rule '\\x1b[31m\\u202e': `cpu-audit rules` lists them"),
        ("Q" * 99, f"no rule '{'Q' * 40}': `cpu-audit rules` lists them"),
    ],
)
def test_an_unknown_rule_names_those_like_it(name: str, message: str) -> None:
    with pytest.raises(UnknownRuleError) as caught:
        find(name, Policy())
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def pattern(source: str) -> str:
    """As a regular expression: * within a name, ** over any number of directories."""
    return re.escape(source).replace(r"/\*\*", "(/.+)?").replace(r"\*", "[^/]+")


def reads(entry: Entry, path: str) -> bool:
    """Whether the path is one of the rule's sources, or a directory above one that says more than /proc/PID."""
    parts = [source.split("/") for source in entry.sources]
    known = ["/".join(each[:n]) for each in parts for n in range(4, len(each))]
    patterns = [*entry.sources, *(above for above in known if not above.endswith("**"))]
    return any(re.fullmatch(pattern(each), path) for each in patterns)


@pytest.mark.parametrize(
    ("rule", "path", "expected"),
    [
        ("THR.USER", "/proc/7/task/9", True),
        ("THR.USER", "/proc/interrupts", False),
        ("IRQ.DEVICE", "/proc/interrupts", True),
        ("IRQ.DEVICE", "/proc/stat", False),
        ("CFG.QUOTA", "/sys/fs/cgroup/a/b/cpu.max", True),
        ("CFG.QUOTA", "/sys/fs/cgroup/a/b/cpu.weight", False),
        ("CFG.DOMAIN", "/sys/fs/cgroup", True),
    ],
)
def test_what_a_rule_reads(rule: str, path: str, expected: bool) -> None:
    assert reads(ENTRIES[rule], path) is expected


def check(findings: tuple[Finding, ...]) -> None:
    """Only rules that say so warn and fail, and evidence is of the files that the entry names."""
    for finding in findings:
        entry = ENTRIES[finding.rule]
        assert finding.outcome is not Outcome.WARN or entry.warns, finding
        assert finding.outcome is not Outcome.FAIL or entry.fails, finding
        assert [item.path for item in finding.evidence if not reads(entry, item.path)] == [], finding.rule


@pytest.mark.parametrize("name", HOSTS)
def test_findings_of_recorded_hosts_agree_with_the_catalogue(name: str) -> None:
    check(audit_of(HERE / name).findings)


@pytest.mark.parametrize("name", CASES)
def test_findings_of_variations_agree_with_the_catalogue(tmp_path: Path, name: str) -> None:
    write(CASES[name].make(), tmp_path)
    check(audit_of(tmp_path, cpus="1,5", workload=CASES[name].workload).findings)
