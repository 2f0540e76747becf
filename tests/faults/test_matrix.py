"""Source × fault × end of the window: never isolated unless other evidence decides, never a crash."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations as pairs
from itertools import product

import pytest

from auditor.errors import UsageError
from auditor.model import Audit, Status
from tests.faults.faulty import Content
from tests.faults.hosts import MACHINES
from tests.faults.matrix import ENDS, FAULTS, Combination, audit_of, base, combinations, faulty, sources
from tests.faults.scenarios import SCENARIOS
from tests.faults.spared import PAIRS, SPARED

DECISIVE = (
    "proc/interrupts",
    "proc/softirqs",
    "proc/schedstat",
    "proc/stat",
    "proc/cmdline",
    "proc/irq/*/effective_affinity_list",
    "proc/irq/*/smp_affinity_list",
    "list proc/irq",
    "list proc",
    "proc/<own>/task/*/schedstat",
    "proc/<own>/task/*/status",
    "proc/<bound>/task/*/status",
    "sys/devices/system/cpu/isolated",
    "sys/devices/system/cpu/nohz_full",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu*/cpuidle/state*/usage",
)
PAIRED = ("missing", "empty", "denied")


def isolated(found: Audit | UsageError) -> bool:
    """A refusal is none."""
    return isinstance(found, Audit) and found.verdict.status is Status.ISOLATED


def spared(item: Combination) -> bool:
    return any(entry.covers(item.host, item.source.name, item.fault, item.end) for entry in SPARED)


def report(what: str, count: int, started: float) -> None:
    print(f"fault matrix, {what}: {count} combinations in {time.process_time() - started:.0f} s")  # noqa: T201


@pytest.mark.parametrize("name", MACHINES)
def test_without_a_fault_every_decisive_rule_passes(name: str) -> None:
    found = audit_of(name, base(name))
    assert isolated(found)
    assert isinstance(found, Audit)
    assert {line.source for line in found.coverage if line.state != "read"} == set()


@pytest.mark.parametrize("name", ["busy", pytest.param("quiet", marks=pytest.mark.slow)])
def test_one_source_with_one_fault(name: str) -> None:
    started = time.process_time()
    tested = combinations(name)
    every = sum(len(FAULTS[source.operation]) * len(ENDS) for source in sources(name))
    survived = [item for item in tested if isolated(item.run())]
    report(name, len(tested), started)
    assert len(tested) + unchanged(name) == every
    assert {item.source.name for item in tested} == {source.name for source in sources(name)}
    wrong = Counter((item.source.name, item.fault, item.end) for item in survived if not spared(item))
    assert not wrong, "\n".join(map(str, sorted(wrong)))
    assert not needless(name, survived)


def unchanged(name: str) -> int:
    """Faults that change nothing: at an end at which the source is not asked for, or is what the fault makes of it."""
    return sum(
        not Combination(host=name, source=source, fault=fault, end=end).contents
        for source in sources(name)
        for fault in FAULTS[source.operation]
        for end in ENDS
    )


def needless(name: str, survived: Iterable[Combination]) -> list[str]:
    """Patterns of sources, faults and ends that nothing needs."""
    seen = [(item.host, item.source.name, item.fault, item.end) for item in survived]
    found = []
    for entry in SPARED:
        if (entry.hosts and name not in entry.hosts) or (not entry.hosts and name != "busy"):
            continue
        each = [replace(entry, sources=(pattern,)) for pattern in entry.sources]
        each += [replace(entry, faults=(fault,)) for fault in entry.faults]
        each += [replace(entry, ends=(end,)) for end in entry.ends]
        found += [str(one) for one in each if not any(one.covers(*item) for item in seen)]
    return found


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_fault_of_its_own(name: str, scenario: str) -> None:
    case = SCENARIOS[scenario]
    if name not in case.hosts:
        return
    found = faulty(name, case.contents(name), case.unlisted())
    assert isinstance(found, Audit)
    assert found.verdict.status in case.expected, found.verdict


@pytest.mark.parametrize("name", ["busy", pytest.param("quiet", marks=pytest.mark.slow)])
def test_two_sources_with_a_fault_each(name: str) -> None:
    """Isolated only where each of them is spared alone: what decides instead is then in neither."""
    started = time.process_time()
    chosen = [source for source in sources(name) if source.name in DECISIVE]
    tested = 0
    wrong = []
    for one, other in pairs(chosen, 2):
        for first, second in product(PAIRED, repeat=2):
            items = [
                Combination(host=name, source=source, fault=fault, end="both")
                for source, fault in ((one, first), (other, second))
                if fault in FAULTS[source.operation]
            ]
            if len(items) < 2 or not all(item.contents for item in items):
                continue
            tested += 1
            found = faulty(name, merged(items), {})
            if isolated(found) and not all(map(spared, items)) and not bounded(found, one.name, other.name):
                wrong.append((one.name, first, other.name, second))
    report(f"pairs of {name}", tested, started)
    assert tested > 500
    assert not wrong, "\n".join(map(str, wrong))


def bounded(found: Audit | UsageError, *names: str) -> bool:
    """Whether the verdict says itself what these two leave open."""
    said = PAIRS.get(frozenset(names))
    return isinstance(found, Audit) and said is not None and said in found.verdict.bounds


def merged(items: Iterable[Combination]) -> dict[str, dict[str, Content]]:
    found: dict[str, dict[str, Content]] = {}
    for item in items:
        for phase, contents in item.contents.items():
            found.setdefault(phase, {}).update(contents)
    return found
