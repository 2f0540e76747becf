"""C-states and stolen time."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Axis, Evidence, Outcome
from auditor.policy import Policy
from probes.host import SourceState
from tests.auditor.build import C1, context, edit, findings, gone, only, outcomes

BUDGET = Policy(wakeup_budget_us=50)


def c6(entries: int, time_us: int = 0, *, disabled: bool = False) -> dict[int, Any]:
    return {1: (C1, ("C6", 133, entries, time_us, disabled))}


@pytest.mark.parametrize(
    ("entries", "time_us", "policy", "outcome"),
    [
        (1, 0, Policy(), Outcome.WARN),
        (5000, 9_000_000, Policy(), Outcome.WARN),  # an idle exclusive CPU in C6 is isolated
        (1, 0, BUDGET, Outcome.WARN),
        (15, 0, BUDGET, Outcome.WARN),
        (16, 0, BUDGET, Outcome.FAIL),
        (1, 100_000, BUDGET, Outcome.WARN),  # one percent of ten seconds
        (1, 100_001, BUDGET, Outcome.FAIL),
    ],
)
def test_deep_states(entries: int, time_us: int, policy: Policy, outcome: Outcome) -> None:
    found = only(context(idle=c6(entries, time_us), policy=policy), "CST.DEEP")
    assert (found.outcome, found.axis, found.observed) == (outcome, Axis.READINESS, entries / 10)
    assert found.detail == f"C6 (133 µs) {entries} times; {time_us / 1e7:.1%} of the time"
    assert found.evidence == (
        Evidence(path="/sys/devices/system/cpu/cpu1/cpuidle", field="C6 usage", value=f"+{entries}"),
    )
    assert found.fix is not None
    assert "echo 1 | sudo tee $s/disable" in found.fix.commands[0]
    assert "echo 0 | sudo tee $s/disable" in found.fix.undo


@pytest.mark.parametrize(
    ("busy", "disabled", "outcome"),
    [
        (0.0, False, Outcome.NOT_EXERCISED),  # it may lie in C6 through the whole window
        (0.49, False, Outcome.NOT_EXERCISED),
        (0.51, False, Outcome.PASS),
        (0.0, True, Outcome.PASS),
    ],
)
def test_a_deep_state_that_was_not_entered(busy: float, disabled: bool, outcome: Outcome) -> None:
    found = only(context(idle=c6(0, disabled=disabled), busy={1: busy}), "CST.DEEP")
    assert (found.outcome, found.fix) == (outcome, None)


def test_where_busy_is_not_known_no_entry_proves_nothing() -> None:
    ctx = edit(context(idle=c6(0), busy={1: 1.0}), "after.counters.cpustat", gone())
    assert outcomes(ctx, "CST.DEEP") == [Outcome.NOT_EXERCISED]


@pytest.mark.parametrize(
    ("latency", "policy", "deep"),
    [
        (20, Policy(), False),
        (21, Policy(), True),
        (50, BUDGET, False),
        (51, BUDGET, True),
        (0, Policy(wakeup_budget_us=0), False),
        (1, Policy(wakeup_budget_us=0), True),
    ],
)
def test_what_is_deep(latency: int, policy: Policy, deep: bool) -> None:
    found = only(context(idle={1: (("C", latency, 5, 0, False),)}, policy=policy), "CST.DEEP")
    assert (found.outcome is Outcome.WARN) is deep
    if not deep:
        budget = policy.deep_latency_us if policy.wakeup_budget_us is None else policy.wakeup_budget_us
        assert found.detail == f"no state takes longer than {budget} µs to leave"


@pytest.mark.parametrize(
    ("state", "driver", "hypervisor", "outcome"),
    [
        (SourceState.MISSING, "none", None, Outcome.PASS),
        (SourceState.MISSING, "intel_idle", None, Outcome.UNKNOWN),
        (SourceState.MISSING, gone(), None, Outcome.UNKNOWN),
        (SourceState.MISSING, "none", "KVM", Outcome.NOT_APPLICABLE),
        (SourceState.MISSING, "none", "unknown", Outcome.UNKNOWN),
        (SourceState.DENIED, "none", None, Outcome.UNKNOWN),
        (SourceState.MALFORMED, "none", "KVM", Outcome.UNKNOWN),
    ],
)
@pytest.mark.parametrize("end", ["before", "after"])
def test_without_states(end: str, state: SourceState, driver: Any, hypervisor: str | None, outcome: Outcome) -> None:
    ctx = context(idle_driver=driver, hypervisor=hypervisor)
    assert outcomes(edit(ctx, f"{end}.counters.cpuidle.1", gone("cpuidle", state)), "CST.DEEP") == [outcome]


def test_bare_metal_is_stolen_from_by_nobody() -> None:
    assert outcomes(context(steal={1: 50}), "STEAL") == [Outcome.NOT_APPLICABLE]


@pytest.mark.parametrize(
    ("ticks", "outcome"), [(0, Outcome.UNKNOWN), (1, Outcome.WARN), (10, Outcome.WARN), (11, Outcome.FAIL)]
)
def test_stolen_time(ticks: int, outcome: Outcome) -> None:
    found = only(context(window_s=100, hypervisor="KVM", steal={1: ticks}), "STEAL")
    assert found.outcome is outcome
    if ticks:
        assert found.detail == f"{ticks} ticks of 10 ms were taken by the hypervisor"
        assert (found.observed, found.limit, found.unit) == (ticks / 100, 0.1, "%")
        assert (found.cost_us_per_s, found.origin) == (ticks * 100, "steal")
        assert found.evidence == (Evidence(path="/proc/stat", field="cpu1 steal", value=f"+{ticks}"),)
    else:
        assert found.detail == "no steal reported: the hypervisor stole nothing or does not tell"


@pytest.mark.parametrize("end", ["before", "after"])
def test_stolen_time_is_unknown_without_proc_stat(end: str) -> None:
    ctx = edit(context(audited=(1, 5), hypervisor="KVM", steal={1: 99}), f"{end}.counters.cpustat", gone())
    assert [(f.cpus, f.outcome) for f in findings(ctx, "STEAL")] == [((1,), Outcome.UNKNOWN), ((5,), Outcome.UNKNOWN)]
