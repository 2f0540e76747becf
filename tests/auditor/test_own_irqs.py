"""Own interrupts: named ones, and managed queues that nobody but own threads can have fed. And who did the I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from auditor.context import Context
from auditor.own import OwnRule
from auditor.own_irqs import Claim, OwnIrq, allowances, fed_only_by
from tests.auditor.build import Thread, context, cpus, edit, gone, irq

QUEUE = "40 nvme0q2"
HANDLER = Thread(tid=60, name="irq/40-nvme0q2", kernel=True, switches=100, run_ms=5)
READER = Thread(tid=100, name="reader", switches=200)
GREW, STILL = {100: (0, 4096)}, {100: (4096, 4096)}


def reading(**given: Any) -> Context:
    """Own reads on CPU 1: 100 interrupts of its queue, handled in a thread, between 200 switches to the reader."""
    values: dict[str, Any] = {
        "rows": {QUEUE: {1: 100}},
        "affinity": {40: irq(40, cpus(1), settable=False)},
        "modes_tell": True,
        "own": [READER],
        "threads": [HANDLER],
        "switches": {1: 300},
        "io": GREW,
    }
    return context(**{**values, **given})


def own(ctx: Context) -> Mapping[int, OwnIrq]:
    return {item.irq: item for item in ctx.own_irqs}


def test_a_queue_that_only_own_threads_can_have_fed_is_own() -> None:
    ctx = reading()
    assert own(ctx) == {40: OwnIrq(irq=40, name="nvme0q2", claim=Claim.SUBMITTED, fired={1: 100})}
    assert not isinstance(ctx.balances, Exception)
    (balance,) = ctx.balances
    assert (balance.own_least, balance.own_most, balance.followed) == (300, 300, 100)
    assert (balance.foreign_least, balance.foreign_most) == (0, 0)
    assert ctx.own_io is True


@pytest.mark.parametrize(
    "given",
    [
        {"switches": {1: 301}},
        {"switches": None, "rows": {QUEUE: {1: 0}}},
        {"io": STILL},
        {"own": [], "switches": {1: 100}},
        {"own": [Thread(tid=100, name="reader", switches=200, least=199)]},
        {"affinity": {40: irq(40, cpus(0, 1), cpus(1), settable=False)}},
        {"affinity": {40: irq(40, cpus(1), settable=True)}},
        {"affinity": {40: gone()}},
        {"affinity": {}},
        {"rows": {"40 mpt3sas0-msix2": {1: 100}}},
        {"rows": {"40 hpet2": {1: 100}}},
        {"rows": {QUEUE: {1: 99}}},
        {"rows": {QUEUE: {1: None}}},
        {"complete": False},
        {
            "threads": [HANDLER, Thread(tid=200, name="hog", run_ms=3)],
            "own_rule": OwnRule(audited=cpus(1), workload="reader"),
        },
    ],
)
def test_what_leaves_a_doubt_leaves_it_a_noise(given: Any) -> None:
    assert own(reading(**given)) == {}


@pytest.mark.parametrize("path", ["before.config.affinity", "after.config.affinity", "before.counters.schedstat"])
def test_what_can_not_be_read_proves_nothing(path: str) -> None:
    assert own(edit(reading(), path, gone())) == {}


def test_without_interrupts_nothing_is_own() -> None:
    rule = OwnRule(audited=cpus(1), irqs=("40",))
    ctx = reading(own_rule=rule)
    assert own(edit(ctx, "after.counters.interrupts", gone()))[40].fired == {}


def test_services_of_the_cpu_submit_nothing() -> None:
    timers = Thread(tid=61, name="ktimers/1", kernel=True, switches=9)
    assert 40 in own(reading(threads=[HANDLER, timers], switches={1: 309}))
    assert own(reading(threads=[HANDLER, timers], switches={1: 310})) == {}


@pytest.mark.parametrize(
    ("name", "feeds"),
    [
        ("kworker/1:1H-kblockd", False),
        ("kworker/1:1H", False),
        ("kworker/1:1H-xfs-log/vda", True),
        ("kworker/1:0-events", True),
    ],
)
def test_kblockd_hands_on_what_was_submitted_here(name: str, feeds: bool) -> None:
    worker = Thread(tid=61, name=name, kernel=True, switches=9)
    assert (own(reading(threads=[HANDLER, worker], switches={1: 309})) == {}) is feeds


def test_unknown_accounting_is_no_argument_against_the_switches() -> None:
    assert 40 in own(reading(io={100: (None, None)}))


def test_a_cpu_that_is_offline_feeds_nothing() -> None:
    ctx = reading(affinity={40: irq(40, cpus(1, 9), cpus(1), settable=False)})
    assert 40 in own(ctx)
    assert not fed_only_by(edit(ctx, "after.config.online", gone()).observation, 40, "nvme0q2", {1})


def test_queues_of_several_cpus_need_all_of_them() -> None:
    values: dict[str, Any] = {
        "audited": (1, 5),
        "rows": {QUEUE: {1: 100, 5: 0}},
        "affinity": {40: irq(40, cpus(1, 5), cpus(1), settable=False)},
    }
    assert 40 in own(reading(**values, own=[READER, Thread(tid=101, pid=100, on=cpus(5), run_ms=1)]))
    assert own(reading(**values)) == {}  # nobody of the own is seen on CPU 5: who could have fed it there?
    assert own(reading(**values, switches={1: 300, 5: 1})) == {}


def declared(*names: str, **given: Any) -> Context:
    values: dict[str, Any] = {
        "rows": {"30 eth0-rx-1": {1: 50}, "31 eth0-tx-1": {0: 7}},
        "own_rule": OwnRule(audited=cpus(1), irqs=names),
    }
    return context(**{**values, **given})


def test_named_interrupts_with_their_counts() -> None:
    found = own(declared("eth0-*"))
    assert {number: (item.claim, item.fired) for number, item in found.items()} == {
        30: (Claim.DECLARED, {1: 50}),
        31: (Claim.DECLARED, {1: 0}),
    }
    assert [*own(declared("31"))] == [31]
    assert own(declared()) == {}


def test_a_named_queue_needs_no_proof() -> None:
    ctx = reading(own_rule=OwnRule(audited=cpus(1), irqs=("nvme*",)), switches={1: 999}, io=STILL)
    assert own(ctx)[40].claim is Claim.DECLARED


def test_a_number_that_went_to_another_device_is_nobodys() -> None:
    ctx = declared("30")
    later = declared("30", rows={"30 usb1": {1: 9}}).observation.after.counters.interrupts
    assert own(edit(ctx, "after.counters.interrupts", later)) == {}


def test_each_event_explains_one_switch_and_no_more() -> None:
    items = [OwnIrq(irq=30, name="eth0", claim=Claim.DECLARED, fired={1: 50, 5: 10})]
    threads = [
        Thread(tid=60, name="irq/30-eth0", kernel=True, switches=45),
        Thread(tid=61, name="irq/30-s-eth0", kernel=True, switches=45, on=cpus(5)),
        Thread(tid=62, name="irq/31-eth1", kernel=True, switches=45),
        Thread(tid=63, name="irq/30-forged", switches=45),
    ]
    ctx = context(audited=(1, 5), threads=threads)
    assert {key.tid: count for key, count in allowances(ctx.runners, items).items()} == {60: 45, 61: 10}
    ended = context(threads=[Thread(tid=60, name="irq/30-eth0", kernel=True, switches=45, ended=True)])
    assert {key.tid: count for key, count in allowances(ended.runners, items).items()} == {60: 50}


def test_switches_beyond_the_events_stay_foreign() -> None:
    handler = Thread(tid=60, name="irq/30-eth0-rx-1", kernel=True, switches=53)
    ctx = declared("30", threads=[handler], switches={1: 53})
    assert not isinstance(ctx.balances, Exception)
    (balance,) = ctx.balances
    assert (balance.followed, balance.foreign_least, balance.foreign_most) == (50, 3, 3)
    (runner,) = (runner for runner in ctx.runners if runner.key == handler.key)
    assert ctx.foreign_part(runner) == 3


@pytest.mark.parametrize(
    ("io", "known"),
    [
        (GREW, True),
        (STILL, False),
        ({100: (None, 5)}, None),
        ({100: (5, None)}, None),
        ({}, None),
    ],
)
def test_whether_own_processes_did_block_io(io: Any, known: bool | None) -> None:
    assert reading(io=io).own_io is known


def test_one_that_did_some_is_enough_and_one_unknown_leaves_it_open() -> None:
    both = [READER, Thread(tid=101, name="other", switches=1)]
    assert reading(own=both, io={**GREW, 101: (None, None)}).own_io is True
    assert reading(own=both, io={**STILL, 101: (None, None)}).own_io is None
    assert reading(own=both, io={**STILL, 101: (3, 3)}).own_io is False


@pytest.mark.parametrize(("end", "known"), [(0, False), (4096, True), (None, None)])
def test_a_process_that_began_counts_from_nothing(end: int | None, known: bool | None) -> None:
    assert reading(own=[Thread(tid=100, new=True, switches=3)], io={100: (None, end)}).own_io is known


def test_where_threads_may_hide_nobody_certainly_began() -> None:
    ctx = reading(own=[Thread(tid=100, new=True, switches=3)], io={100: (None, 4096)})
    assert edit(ctx, "before.census.unread", 1).own_io is None


def test_without_own_processes_there_is_no_own_io_unless_they_hide() -> None:
    assert context().own_io is False
    assert context(complete=False).own_io is None
