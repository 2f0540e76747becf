"""Managed queues: whose I/O they served, and what keeps them quiet."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, Finding, FixKind, Outcome
from auditor.own import OwnRule
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, irq, only
from tests.auditor.test_own_irqs import GREW, HANDLER, STILL, reading

APP = OwnRule(audited=cpus(1), workload="app")
VICTIM = Thread(tid=100, name="app", switches=10)
THIEF = Thread(tid=200, name="thief", switches=200, run_ms=50)


def stolen(**given: Any) -> Context:
    """The same I/O by another process, while the own one sleeps."""
    values: dict[str, Any] = {
        "own": [VICTIM],
        "threads": [HANDLER, THIEF],
        "own_rule": APP,
        "switches": {1: 310},
        "io": STILL,
    }
    return reading(**{**values, **given})


def fired(ctx: Context) -> Finding:
    return only(ctx, "IRQ.MANAGED")


def test_own_io_is_shown_and_is_no_noise() -> None:
    others, own = sorted(findings(reading(), "IRQ.MANAGED"), key=lambda finding: finding.observed or 0)
    assert (others.outcome, others.detail) == (Outcome.PASS, "no other fired here")
    assert (own.outcome, own.observed, own.unit, own.title) == (
        Outcome.NOT_APPLICABLE,
        10,
        "/s",
        "own interrupts: nvme0",
    )
    assert own.detail == "nvme0q2 fired 100 times: own (own I/O)"
    assert own.evidence == (Evidence(path="/proc/interrupts", field="40 CPU1", value="+100"),)
    assert own.fix is not None
    assert (own.fix.kind, own.fix.text) == (
        FixKind.WORKLOAD,
        "own I/O; to avoid these interrupts submit it from another CPU",
    )
    assert (own.origin, own.per_second, own.cost_us_per_s) == ("", 0, 0)


def test_the_handler_of_an_own_queue_is_no_foreign_thread() -> None:
    ctx = reading()
    assert only(ctx, "THR.FOREIGN").detail == "300 switches, 300 (100 of them threads of own interrupts) own, 0 foreign"
    assert only(ctx, "THR.FOREIGN").outcome is Outcome.PASS
    assert [finding.detail for finding in findings(ctx, "THR.KBOUND")] == ["none ran here"]


def test_io_of_others_is_named_and_moved() -> None:
    found = fired(stolen())
    assert (found.outcome, found.origin) == (Outcome.FAIL, "irq:nvme0")
    assert found.detail == (
        "nvme0q2 fired 100 times; for I/O of others: own processes did none; submitted here, where thief (200) ran; "
        "nvme0: at most 0/s on a control CPU"
    )
    assert found.fix is not None
    assert found.fix.text == (
        "it is I/O of others, submitted here by some of thief (200): move them to the housekeeping CPUs 0"
    )
    assert found.fix.commands == ("sudo taskset -pc 0 200",)
    assert found.fix.undo == "sudo taskset -pc 1 200"


def test_where_the_balancer_brings_them_the_boot_line_keeps_them_off() -> None:
    found = fired(stolen(domains={1: [cpus(0, 1)]}, isolated=cpus())).fix
    assert found is not None
    assert (found.kind, found.commands) == (FixKind.BOOT, ())
    assert "submitted here by some of thief (200): keep other threads off" in found.text


def test_kernel_threads_are_named_and_not_moved() -> None:
    worker = Thread(tid=201, name="kworker/1:1H", kernel=True, switches=3, run_ms=90)
    timers = Thread(tid=202, name="ktimers/1", kernel=True, switches=3, run_ms=90)
    found = fired(stolen(threads=[HANDLER, THIEF, worker, timers], switches={1: 316}))
    assert "where thief (200), kworker/1:1H (201) ran" in found.detail
    assert found.fix is not None
    assert found.fix.commands == ("sudo taskset -pc 0 200",)


def test_one_that_ended_can_not_be_moved() -> None:
    gone_thief = Thread(tid=200, name="thief", switches=200, run_ms=50, ended=True)
    found = fired(stolen(threads=[HANDLER, gone_thief])).fix
    assert found is not None
    assert (found.commands, found.undo) == ((), "")
    blind = fired(edit(stolen(), "after.census", gone())).fix
    assert blind is not None
    assert blind.commands == ()


def test_where_both_may_have_submitted_it_is_noise_as_ever() -> None:
    found = fired(stolen(io=GREW))
    assert found.outcome is Outcome.FAIL
    assert "; for I/O of own threads or of others: both may have submitted some" in found.detail
    assert found.fix is not None
    assert (found.fix.kind, found.fix.commands) == (FixKind.WORKLOAD, ())
    assert found.fix.text.endswith("; if it is the workload's own, name it with --own-irq")


def test_where_nothing_tells_nothing_is_said() -> None:
    found = fired(stolen(io={}))
    assert (found.outcome, "I/O of" in found.detail) == (Outcome.FAIL, False)


def test_a_queue_that_a_housekeeping_cpu_shares_can_be_moved_by_the_boot_line() -> None:
    shared = {40: irq(40, cpus(0, 1), cpus(1), settable=False)}
    found = fired(stolen(affinity=shared, cmdline="quiet"))
    assert found.fix is not None
    assert (found.fix.kind, found.fix.boot["isolcpus"]) == (FixKind.BOOT, "domain,managed_irq,1")
    assert "submitted here" not in found.detail


def test_a_queue_of_another_kind_is_left_alone() -> None:
    found = fired(stolen(rows={"40 mpt3sas0-msix2": {1: 100}})).fix
    assert found is not None
    assert (found.kind, "no housekeeping CPU shares it" in found.text) == (FixKind.WORKLOAD, True)


def test_nobody_seen_is_nobody_to_move() -> None:
    found = fired(reading(io=STILL, threads=[], switches={1: 200})).fix
    assert found is not None
    assert found.kind is FixKind.WORKLOAD


ARMED = {"40 nvme0q2": {0: 0}, "41 nvme0q3": {0: 0}}


@pytest.mark.parametrize(
    ("cmdline", "words"),
    [
        (None, "isolcpus=managed_irq is in force for this CPU"),
        ("isolcpus=domain,1", "isolcpus=managed_irq is not asked for this CPU"),
        ("isolcpus=managed_irq,0", "isolcpus=managed_irq is not asked for this CPU"),
        (gone(), "whether isolcpus=managed_irq is asked for is unknown (missing for this test)"),
    ],
)
def test_armed_queues_say_what_the_boot_line_asks(cmdline: Any, words: str) -> None:
    ctx = context(rows=ARMED, affinity={40: irq(40, cpus(1)), 41: irq(41, cpus(1))}, cmdline=cmdline)
    assert only(ctx, "CFG.MIRQ").detail == (
        f"armed: 40 (nvme0q2), 41 (nvme0q3); each fires here when I/O is submitted from this CPU; {words}"
    )
    assert only(context(cmdline=cmdline), "CFG.MIRQ").detail == f"no managed queue is routed here; {words}"


def test_armed_queues_that_could_be_moved() -> None:
    affinity = {40: irq(40, cpus(0, 1), cpus(1)), 41: irq(41, cpus(1))}
    found = only(context(rows=ARMED, affinity=affinity, cmdline="quiet"), "CFG.MIRQ")
    assert found.detail.endswith("not asked for this CPU; 1 of them could fire on a housekeeping CPU instead")
    assert found.fix is not None
    assert (found.fix.kind, found.fix.boot["isolcpus"]) == (FixKind.BOOT, "domain,managed_irq,1")
    alone = only(context(rows=ARMED, affinity={41: irq(41, cpus(1))}, cmdline="quiet"), "CFG.MIRQ").fix
    assert alone is not None
    assert alone.kind is FixKind.WORKLOAD
