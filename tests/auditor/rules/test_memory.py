"""Transparent huge pages and KSM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.model import Axis, Evidence, Kind, Outcome
from probes.host import SourceState
from probes.memory_settings import COLLAPSED, KSM, THP, MemorySettings
from tests.auditor.build import BASE, context, edit, gone, only, outcomes

PLAIN = MemorySettings(thp="madvise", collapsed=BASE, ksm_run=0)
ALWAYS = replace(PLAIN, thp="always")


@pytest.mark.parametrize("word", ["madvise", "never"])
def test_only_for_those_who_ask(word: str) -> None:
    found = only(context(memory=replace(PLAIN, thp=word)), "CFG.THP")
    assert (found.outcome, found.detail, found.fix) == (Outcome.PASS, f"transparent huge pages: {word}", None)
    assert found.evidence == (
        Evidence(path=f"/{THP}", field="in brackets", value=word),
        Evidence(path=f"/{COLLAPSED}", field="pages", value="+0"),
    )


@pytest.mark.parametrize(
    ("release", "text"),
    [("6.1.0-13-amd64", "interrupts every online CPU"), ("5.10.0-26-amd64", "page faults may zero")],
)
def test_always_is_a_warning(release: str, text: str) -> None:
    found = only(context(memory=ALWAYS, release=release, audited=(1, 5)), "CFG.THP")
    assert (found.outcome, found.axis, found.kind, found.cpus) == (Outcome.WARN, Axis.READINESS, Kind.RISK, (1, 5))
    assert text in found.detail
    assert found.detail.endswith("; 0 made in the window")
    assert found.fix is not None
    assert found.fix.commands == (f"echo madvise | sudo tee /{THP}",)
    assert found.fix.undo == f"echo always | sudo tee /{THP}"


@pytest.mark.parametrize(("grown", "text"), [(BASE + 3, "; 3 made in the window"), (gone(), "(since 6.1)")])
def test_what_khugepaged_made(grown: Any, text: str) -> None:
    found = only(edit(context(memory=ALWAYS), "after.config.memory", replace(ALWAYS, collapsed=grown)), "CFG.THP")
    assert found.detail.endswith(text)


@pytest.mark.parametrize(("end", "fixed"), [("before", False), ("after", True)])
def test_either_end_counts(end: str, fixed: bool) -> None:
    found = only(edit(context(), f"{end}.config.memory", ALWAYS), "CFG.THP")
    assert (found.outcome, found.fix is not None) == (Outcome.WARN, fixed)
    runs = only(edit(context(), f"{end}.config.memory", replace(PLAIN, ksm_run=1)), "CFG.KSM")
    assert (runs.outcome, runs.fix is not None) == (Outcome.WARN, fixed)


@pytest.mark.parametrize("rule", ["CFG.THP", "CFG.KSM"])
def test_a_kernel_without(rule: str) -> None:
    ctx = context(memory=MemorySettings(thp=None, collapsed=gone(), ksm_run=None))
    assert outcomes(ctx, rule) == [Outcome.NOT_APPLICABLE]


@pytest.mark.parametrize("rule", ["CFG.THP", "CFG.KSM"])
@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("state", [SourceState.MISSING, SourceState.DENIED, SourceState.MASKED])
def test_what_is_not_known(rule: str, end: str, state: SourceState) -> None:
    error = gone(state=state)
    nothing = MemorySettings(thp=error, collapsed=error, ksm_run=error)
    for value in (error, nothing):
        assert outcomes(edit(context(), f"{end}.config.memory", value), rule) == [Outcome.UNKNOWN]


@pytest.mark.parametrize(("run", "outcome"), [(0, Outcome.PASS), (1, Outcome.WARN), (2, Outcome.PASS)])
def test_ksm(run: int, outcome: Outcome) -> None:
    found = only(context(memory=replace(PLAIN, ksm_run=run)), "CFG.KSM")
    assert (found.outcome, found.axis) == (outcome, Axis.READINESS)
    assert found.evidence == (Evidence(path=f"/{KSM}", field="run", value=str(run)),)
    assert (found.fix.commands if found.fix else ()) == ((f"echo 2 | sudo tee /{KSM}",) if run == 1 else ())
