"""Every answer of the collected cases holds, and nothing is left out: no family, file or answer, no idle assertion."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.cases import (
    test_cmdline,
    test_cpu_manager_state,
    test_cpuidle,
    test_cpustat,
    test_grub,
    test_interrupts,
    test_kubelet_config,
    test_softirqs,
    test_threads,
)
from tests.cases.claims import Claim, claimed_by, hold
from tests.probes.collected import CASES, case_names, right_lines

FAMILIES: tuple[ModuleType, ...] = (
    test_cmdline,
    test_cpu_manager_state,
    test_cpuidle,
    test_cpustat,
    test_grub,
    test_interrupts,
    test_kubelet_config,
    test_softirqs,
    test_threads,
)
ELSEWHERE = {"reports", "cyclictest", "rtla"}
"""Posted audits, and results of benchmarks: whole stories, not files that a probe reads."""
by_kind = pytest.mark.parametrize("family", FAMILIES, ids=lambda module: module.KIND)
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="no collected inputs beside the repository")


def lines(kind: str) -> list[tuple[str, str]]:
    return [(name, line) for name in case_names(kind) for line in right_lines(kind, name)]


@pytest.mark.parametrize(
    ("family", "name", "number"),
    [
        pytest.param(family, name, number, id=f"{family.KIND}-{name}-{number}")
        for family in FAMILIES
        for name in case_names(family.KIND)
        for number in range(len(right_lines(family.KIND, name)))
    ],
)
def test_the_answer_holds(family: ModuleType, name: str, number: int) -> None:
    hold(family.KIND, family.CLAIMS, name, number)


def test_every_family_is_here() -> None:
    there = {path.name for path in CASES.iterdir() if path.is_dir()}
    assert there == {module.KIND for module in FAMILIES} | ELSEWHERE


@by_kind
def test_every_file_belongs_to_a_case_with_an_answer(family: ModuleType) -> None:
    files = {path.name for path in (CASES / family.KIND).iterdir()}
    for name in case_names(family.KIND):
        assert right_lines(family.KIND, name), name
        stems = (name, name.replace(".before", ".after"))
        data = {file for file in files if file.startswith(tuple(f"{stem}." for stem in stems))} - {f"{name}.md"}
        assert len(data) == len(set(stems)), name
        files -= data | {f"{name}.md"}
    assert files == set()


@by_kind
def test_every_answer_is_claimed_once_or_an_exception(family: ModuleType) -> None:
    claims: tuple[Claim, ...] = family.CLAIMS
    assert [line for name, line in lines(family.KIND) if len(claimed_by(claims, name, line)) != 1] == []


@by_kind
def test_an_answer_of_an_unknown_form_is_noticed(family: ModuleType) -> None:
    assert claimed_by(family.CLAIMS, case_names(family.KIND)[0], "an answer that nobody knows") == []


@by_kind
def test_no_assertion_is_idle(family: ModuleType) -> None:
    used = [item for name, line in lines(family.KIND) for item in claimed_by(family.CLAIMS, name, line)]
    assert [item.form for item in family.CLAIMS if item not in used] == []
    for item in family.CLAIMS:
        assert item.only is None or {name for name, line in lines(family.KIND) if item.match(name, line)} == item.only
