"""/proc/softirqs of real machines: columns are possible CPUs, whichever are online."""

from __future__ import annotations

import re
from functools import cache

import pytest

from auditor.errors import UsageError
from auditor.targets import choose
from probes.delta import diff
from probes.host import ProbeError
from probes.interrupts import parse_interrupts
from probes.isolation import Isolation
from probes.snapshot import Counters
from probes.softirqs import Softirqs, parse_softirqs
from probes.topology import Topology
from tests.cases.claims import claim, cpus
from tests.probes.collected import case_file, text_of

KIND = "softirqs"
UNREAD = ProbeError("x", "not read here")
ONLINE = {
    "arm-mt6589-4possible": "arm-mt6589-1of4-online",
    "haswell-16-possible-a": "x86-8cpu-single-irq-cpu",
    "haswell-16-possible-b": "x86-8cpu-iwi-heavy",
    "vmware-128-possible": "vmware-2cpu",
    "x86-64cpu-cpu10-missing": "x86-64cpu-cpu10-offline",
}
"""The interrupts of the same machine: their columns are the online CPUs."""


@cache
def parsed(name: str) -> Softirqs:
    return parse_softirqs(text_of(case_file(KIND, name)))


@cache
def online(name: str) -> frozenset[int]:
    return frozenset(parse_interrupts(text_of(case_file("interrupts", ONLINE[name]))).cpus)


def columns(name: str, match: re.Match[str]) -> None:
    assert len(parsed(name).cpus) == int(match[1])
    assert set(parsed(name).cpus) == cpus(match[2])
    assert list(parsed(name).rows) == match[3].split(", ")


def totals(name: str, match: re.Match[str]) -> None:
    said = re.findall(r"(\w+) total (\d+) \((.*?)\)", match[0])
    assert [row for row, *_ in said] == ["TIMER", "NET_RX", "SCHED", "RCU"]
    for row, total, cells in said:
        assert sum(parsed(name).rows[row].values()) == int(total)
        for cpu, count in re.findall(r"CPU(\d+)=(\d+)", cells):
            assert parsed(name).rows[row][int(cpu)] == int(count)


def active(name: str, match: re.Match[str]) -> None:
    there = {cpu for row in parsed(name).rows.values() for cpu, count in row.items() if count}
    assert there == cpus(match[1])


def absent_are_refused(name: str, match: re.Match[str]) -> None:
    """A CPU that only has a column here can't be audited, so that none is ever called isolated."""
    topology = Topology(
        online=online(name),
        possible=frozenset(parsed(name).cpus),
        present=online(name),
        siblings={},
        node={},
        core_type={},
    )
    isolation = Isolation(boot=frozenset(), nohz_full=frozenset(), partitions=(), cgroup_isolated=frozenset())
    absent = sorted(frozenset(parsed(name).cpus) - online(name))
    assert absent
    for cpu in absent:
        with pytest.raises(UsageError, match=f"CPU {cpu} is not online"):
            choose(topology, isolation, str(cpu))


def stale_columns(name: str, match: re.Match[str]) -> None:
    assert online(name) == {int(match[1])}
    assert match[2] == ONLINE[name]
    absent_are_refused(name, match)


def named_absent(name: str, match: re.Match[str]) -> None:
    assert frozenset(parsed(name).cpus) - online(name) == cpus(match[1])
    absent_are_refused(name, match)


def same_cpus(name: str, match: re.Match[str]) -> None:
    assert match[1] == ONLINE[name]
    assert frozenset(parsed(name).cpus) == online(name)
    assert len(online(name)) == int(match[2])


def one_number(name: str, match: re.Match[str]) -> None:
    assert list(parsed(name).rows)[int(match[3])] == match[1]
    end = Counters(taken_ns=0, interrupts=UNREAD, softirqs=parsed(name), cpustat=UNREAD, schedstat=UNREAD, cpuidle={})
    found = diff(end, end, parsed(name).cpus).softirqs
    assert not isinstance(found, ProbeError)
    assert match[1] not in found
    assert found[match[2]] == dict.fromkeys(parsed(name).cpus, 0)


CLAIMS = (
    claim(r"(\d+) CPU columns: ([\d,-]+); rows in order: (.*); rows with fewer values: none", columns),
    claim(r"TIMER total .*\); NET_RX total .*\); SCHED total .*\); RCU total \d+ \(.*\)", totals),
    claim(r"CPUs with any non-zero softirq: ([\d,-]+)", active),
    claim(r"only CPU(\d+) is online in interrupts/(\S+); the other columns are stale .*", stale_columns),
    claim(r"CPU([\d-]+) are possible but absent(?:; .*)?", named_absent),
    claim(r"columns without any count are possible-but-absent CPUs, .*", absent_are_refused),
    claim(r"pairs with interrupts/(\S+): both have the same (\d+) CPUs", same_cpus),
    claim(r"(BLOCK_IOPOLL) and (IRQ_POLL) are the same softirq number \((\d+)\)", one_number),
)
