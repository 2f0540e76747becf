"""Softirqs: limits, what own timers may excuse, and what proves that SCHED keeps off."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Evidence, Outcome
from auditor.own import OwnRule
from auditor.rules.softirq import SIRQ_RULES
from probes.host import SourceState
from probes.rps import Rps
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, irq, only, outcomes

QUEUE = "sys/class/net/eth0/queues/rx-0/rps_cpus"
NAMES = [rule.id.removeprefix("SIRQ.") for rule in SIRQ_RULES]
ANY = ("HI", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET")
CASES = [
    *[(name, count, outcome) for name in ANY for count, outcome in ((1, Outcome.WARN), (16, Outcome.FAIL))],
    ("SCHED", 2, Outcome.WARN),
    ("SCHED", 15, Outcome.WARN),
    ("SCHED", 17, Outcome.FAIL),
    ("TIMER", 21, Outcome.WARN),
    ("TIMER", 117, Outcome.WARN),
    ("TIMER", 118, Outcome.FAIL),
    ("HRTIMER", 21, Outcome.WARN),
    ("HRTIMER", 118, Outcome.FAIL),
    ("RCU", 11, Outcome.WARN),
    ("RCU", 118, Outcome.FAIL),
]


def test_every_softirq_of_the_kernel_has_its_rule() -> None:
    assert sorted(NAMES) == sorted(
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]
    )


@pytest.mark.parametrize(("name", "count", "outcome"), CASES)
def test_above_its_limit(name: str, count: int, outcome: Outcome) -> None:
    found = only(context(softirqs={name: {1: count, 0: 5000}}), f"SIRQ.{name}")
    assert (found.outcome, found.observed, found.unit) == (outcome, count / 10, "/s")
    assert found.detail == f"{count} ran; at most 500/s on a control CPU"
    assert found.evidence == (Evidence(path="/proc/softirqs", field=f"{name} CPU1", value=f"+{count}"),)
    assert (found.origin, found.per_second, found.cost_us_per_s) == (f"softirq:{name}", count / 10, count / 5)
    assert found.fix is not None


@pytest.mark.parametrize("name", NAMES)
def test_none_passes_under_load_only(name: str) -> None:
    assert outcomes(context(softirqs={name: {0: 5000}}), f"SIRQ.{name}") == [Outcome.PASS]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "SCHED"])
def test_none_without_load_proves_nothing(name: str) -> None:
    found = only(context(softirqs={name: {0: 1}}), f"SIRQ.{name}")
    assert (found.outcome, found.fix) == (Outcome.NOT_EXERCISED, None)


def test_no_load_balancer_and_no_domain_is_proof_without_load() -> None:
    assert outcomes(context(), "SIRQ.SCHED") == [Outcome.PASS]


def test_no_load_balancer_in_a_domain_proves_nothing_without_load() -> None:
    for domains in ({1: [cpus(0, 1)]}, {}):
        ctx = context(domains=domains, isolated=cpus())
        if not domains:
            ctx = edit(ctx, "after.counters.schedstat", gone())
        assert outcomes(ctx, "SIRQ.SCHED") == [Outcome.NOT_EXERCISED]


def test_one_balancer_run_behind_a_shut_door_is_shown() -> None:
    assert outcomes(context(window_s=30, softirqs={"SCHED": {1: 1}}), "SIRQ.SCHED") == [Outcome.WARN]


def test_audited_cpus_that_balance_among_themselves_do_so_for_the_workload() -> None:
    ctx = context(
        audited=(1, 5),
        domains={1: [cpus(1, 5)], 5: [cpus(1, 5)]},
        softirqs={"SCHED": {1: 5000, 5: 0, 0: 5000}},
        own=[Thread(on=cpus(1, 5), switches=9, run_ms=5000)],
    )
    assert [(f.outcome, f.cpus, f.observed) for f in findings(ctx, "SIRQ.SCHED")] == [
        (Outcome.NOT_APPLICABLE, (1,), 500),
        (Outcome.NOT_APPLICABLE, (5,), 0),
    ]


def test_without_own_work_they_balance_for_the_rest_of_the_machine() -> None:
    ctx = context(
        audited=(1, 5), domains={1: [cpus(1, 5)], 5: [cpus(1, 5)]}, softirqs={"SCHED": {1: 1700, 5: 180, 0: 90}}
    )
    found = findings(ctx, "SIRQ.SCHED")
    assert [f.outcome for f in found] == [Outcome.FAIL, Outcome.FAIL]
    assert found[0].fix is not None
    assert found[0].fix.text.startswith("an idle CPU of a root partition is asked to balance for the whole machine")


@pytest.mark.parametrize(
    ("domains", "text"),
    [
        ({1: [cpus(0, 1, 2, 3)]}, "the load balancer runs here because the CPU is in a scheduler domain: isolate it"),
        ({}, "a CPU that was idle when it left the scheduler domains may stay on the list of those asked to balance"),
    ],
)
def test_a_balancer_outside_all_domains_is_one_that_the_list_of_idle_cpus_kept(
    domains: dict[int, list[frozenset[int]]], text: str
) -> None:
    found = only(context(domains=domains, softirqs={"SCHED": {1: 480, 0: 900}}), "SIRQ.SCHED")
    assert found.outcome is Outcome.FAIL
    assert found.fix is not None
    assert found.fix.text.startswith(text)


@pytest.mark.parametrize("name", ["TIMER", "HRTIMER"])
@pytest.mark.parametrize(
    ("raw", "wakeups", "outcome", "observed"),
    [
        (5000, 5000, Outcome.UNKNOWN, 0),
        (5000, 4900, Outcome.WARN, 10),
        (5000, 4800, Outcome.FAIL, 20),
        (20, 5000, Outcome.PASS, 0),
    ],
)
def test_own_wake_ups_may_have_been_timers_but_prove_nothing(
    name: str, raw: int, wakeups: int, outcome: Outcome, observed: float
) -> None:
    ctx = context(softirqs={name: {1: raw, 0: 5000}}, own=[Thread(switches=wakeups)])
    found = only(ctx, f"SIRQ.{name}")
    assert (found.outcome, found.observed) == (outcome, observed)
    assert f"{raw} ran, less up to {min(raw, wakeups)} for own timers" in found.detail
    assert ("may explain them all" in found.detail) is (outcome is Outcome.UNKNOWN)


def test_wake_ups_excuse_no_other_softirq() -> None:
    assert outcomes(context(softirqs={"RCU": {1: 5000}}, own=[Thread(switches=5000)]), "SIRQ.RCU") == [Outcome.FAIL]


def test_where_own_threads_are_hidden_no_timer_softirq_fails() -> None:
    ctx = context(softirqs={"TIMER": {1: 5000}}, complete=False)
    assert outcomes(ctx, "SIRQ.TIMER") == [Outcome.UNKNOWN]


def test_a_cpu_without_a_column_is_unknown_and_the_other_is_not() -> None:
    counts: dict[str, Any] = {"BLOCK": {0: 50, 1: None, 5: 0}}
    assert [(f.cpus, f.outcome) for f in findings(context(audited=(1, 5), softirqs=counts), "SIRQ.BLOCK")] == [
        ((1,), Outcome.UNKNOWN),
        ((5,), Outcome.PASS),
    ]


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("state", [SourceState.MISSING, SourceState.MASKED])
def test_without_the_table_nothing_is_known(end: str, name: str, state: SourceState) -> None:
    found = only(edit(context(), f"{end}.counters.softirqs", gone("proc/softirqs", state)), f"SIRQ.{name}")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, f"/proc/softirqs: {state.value} for this test")


def test_a_row_that_is_not_there_is_unknown() -> None:
    ctx = context()
    rows = dict(ctx.observation.after.counters.softirqs.rows)  # type: ignore[union-attr]
    del rows["IRQ_POLL"]
    found = only(edit(ctx, "after.counters.softirqs.rows", rows), "SIRQ.IRQ_POLL")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "/proc/softirqs: no row IRQ_POLL")


def test_no_control_cpu_is_no_comparison() -> None:
    found = only(context(control=(), softirqs={"RCU": {1: 118}}), "SIRQ.RCU")
    assert (found.outcome, found.detail) == (Outcome.FAIL, "118 ran")


def named(name: str, count: int, handler: str = "eth0", **given: Any) -> Any:
    """So many softirqs beside 100 interrupts of a named device."""
    values: dict[str, Any] = {
        "rows": {f"30 {handler}": {1: 100, 0: 900}},
        "softirqs": {name: {1: count, 0: 5000}},
        "own_rule": OwnRule(audited=cpus(1), irqs=("30",)),
        "affinity": {30: irq(30, cpus(1))},
        "rps": Rps(queues={QUEUE: cpus(0)}, default=None),
    }
    return only(context(**{**values, **given}), f"SIRQ.{name}")


@pytest.mark.parametrize("name", ["NET_RX", "NET_TX", "BLOCK"])
@pytest.mark.parametrize(
    ("count", "outcome", "net"),
    [(100, Outcome.PASS, 0), (99, Outcome.PASS, 0), (101, Outcome.WARN, 0.1), (200, Outcome.FAIL, 10)],
)
def test_what_own_interrupts_bring_is_subtracted(name: str, count: int, outcome: Outcome, net: float) -> None:
    found = named(name, count)
    assert (found.outcome, found.observed) == (outcome, net)
    assert found.detail.startswith(f"{count} ran, less up to {min(count, 100)} for own interrupts")


@pytest.mark.parametrize("rps", [Rps(queues={QUEUE: cpus(1)}, default=None), gone()])
def test_packets_that_may_have_come_by_rps_are_not_surely_own(rps: Any) -> None:
    assert named("NET_RX", 100, rps=rps).outcome is Outcome.UNKNOWN
    assert named("NET_TX", 100, rps=rps).outcome is Outcome.PASS


def test_a_disk_brings_no_packets_and_no_device_the_rest() -> None:
    assert named("NET_RX", 100, handler="nvme0q2").outcome is Outcome.FAIL
    assert named("BLOCK", 100, handler="nvme0q2").outcome is Outcome.PASS
    assert named("TASKLET", 100).outcome is Outcome.FAIL


def test_the_balancer_is_part_of_the_open_domain() -> None:
    open_domain: dict[str, Any] = {"domains": {1: [cpus(0, 1)]}, "isolated": cpus()}
    assert only(context(softirqs={"SCHED": {1: 300}}, **open_domain), "SIRQ.SCHED").origin == "door:domain"
    assert only(context(softirqs={"SCHED": {1: 300}}), "SIRQ.SCHED").origin == "softirq:SCHED"
    assert only(context(softirqs={"RCU": {1: 300}}, **open_domain), "SIRQ.RCU").origin == "softirq:RCU"
