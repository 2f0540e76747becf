"""Packets steered to audited CPUs: which masks, what to write, and what follows from them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, Outcome
from auditor.rules.rps import brings_packets
from probes.host import ProbeError, SourceState
from probes.rps import DEFAULT, NET_DIR, Rps
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, only, outcomes

DENIED = gone("x", SourceState.DENIED)


def queue(device: str, number: int = 0) -> str:
    return f"{NET_DIR}/{device}/queues/rx-{number}/rps_cpus"


def rps(masks: Mapping[str, frozenset[int] | ProbeError], **given: Any) -> Rps:
    return Rps(queues=masks, **{"default": None, **given})


def steered(masks: Mapping[str, frozenset[int] | ProbeError], **given: Any) -> Context:
    return context(rps=rps(masks), **given)


def test_masks_that_hold_the_cpu_are_named_with_the_value_to_write() -> None:
    found = only(steered({queue("eth0"): cpus(0, 1), queue("lo"): cpus()}), "CFG.RPS")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.WARN, 1, 0, "masks")
    assert found.detail == "in the mask of eth0 rx-0: packets that arrive elsewhere are handled here"
    assert found.evidence == (Evidence(path=f"/{queue('eth0')}", field="mask", value="3"),)
    assert found.fix is not None
    assert found.fix.commands == (f"echo 1 | sudo tee /{queue('eth0')}",)
    assert found.fix.undo == f"echo 3 | sudo tee /{queue('eth0')}"
    assert found.origin == ""


def test_each_cpu_by_itself_and_one_fix_for_all() -> None:
    ctx = steered({queue("a"): cpus(0, 1), queue("b"): cpus(5), queue("c"): cpus(0, 5)}, audited=(1, 5, 7))
    found = findings(ctx, "CFG.RPS")
    assert [finding.outcome for finding in found] == [Outcome.WARN, Outcome.WARN, Outcome.PASS]
    assert [finding.observed for finding in found] == [1, 2, None]
    assert found[0].fix == found[1].fix
    assert found[0].fix is not None
    assert found[0].fix.commands == (
        f"echo 1 | sudo tee /{queue('a')} /{queue('c')}",
        f"echo 0 | sudo tee /{queue('b')}",
    )


def test_many_queues_of_a_device_are_one_pattern_if_all_are_written() -> None:
    every = {queue("eth0", number): cpus(0, 1) for number in range(64)}
    found = only(steered({**every, queue("lo"): cpus(0, 1)}), "CFG.RPS")
    assert found.detail.startswith("in the mask of eth0 rx-0, eth0 rx-1, eth0 rx-2, eth0 rx-3 …: ")
    assert len(found.evidence) == 4
    assert found.fix is not None
    assert found.fix.commands == (f"echo 1 | sudo tee /{NET_DIR}/eth0/queues/rx-*/rps_cpus /{queue('lo')}",)
    some = only(steered({**every, queue("eth0", 64): cpus(0)}), "CFG.RPS").fix
    assert some is not None
    assert "*" not in some.commands[0]
    assert len(some.commands[0].split()) == 64 + 5


def test_names_of_devices_are_words_of_the_shell() -> None:
    name = "a';reboot;$(x)"
    found = only(steered({queue(name): cpus(1), queue(name, 1): cpus(1), queue("b c", 1): cpus(1)}), "CFG.RPS")
    assert found.fix is not None
    (command,) = found.fix.commands
    assert shlex.split(command)[5:] == [f"/{NET_DIR}/{name}/queues/rx-*/rps_cpus", f"/{queue('b c', 1)}"]


def test_the_default_for_new_devices_is_a_mask_that_brings_nothing_yet() -> None:
    ctx = context(rps=rps({queue("lo"): cpus()}, default=cpus(1, 0)), softirqs={"NET_RX": {1: 5}})
    found = only(ctx, "CFG.RPS")
    assert found.detail.startswith("in the mask of new devices (rps_default_mask): ")
    assert (found.outcome, found.origin) == (Outcome.WARN, "")
    assert found.fix is not None
    assert found.fix.commands == (f"echo 1 | sudo tee /{DEFAULT}",)
    assert brings_packets(ctx, 1) is False


def test_no_mask_and_no_device() -> None:
    assert outcomes(steered({queue("lo"): cpus(0)}), "CFG.RPS") == [Outcome.PASS]
    assert only(steered({}), "CFG.RPS").detail == "no network device has a receive queue"
    assert outcomes(steered({}), "CFG.RPS") == [Outcome.NOT_APPLICABLE]


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize(
    "value",
    [
        DENIED,
        rps({queue("lo"): DENIED}),
        rps({queue("lo"): cpus()}, default=DENIED),
        rps({queue("lo"): cpus()}, cut=True),
    ],
)
def test_what_is_not_read_may_hold_it(end: str, value: Any) -> None:
    ctx = edit(steered({queue("lo"): cpus()}), f"{end}.config.rps", value)
    assert outcomes(ctx, "CFG.RPS") == [Outcome.UNKNOWN]
    assert brings_packets(ctx, 1) is None


def test_what_is_found_outranks_what_is_not_read() -> None:
    ctx = steered({queue("lo"): DENIED, queue("eth0"): cpus(1)})
    assert outcomes(ctx, "CFG.RPS") == [Outcome.WARN]
    assert brings_packets(ctx, 1) is True


def test_one_cpu_may_be_known_and_the_other_not() -> None:
    found = findings(steered({queue("lo"): DENIED, queue("eth0"): cpus(1)}, audited=(1, 5)), "CFG.RPS")
    assert [(finding.cpus, finding.outcome) for finding in found] == [((1,), Outcome.WARN), ((5,), Outcome.UNKNOWN)]
    assert found[0].fix is not None
    assert found[0].fix.commands == (f"echo 0 | sudo tee /{queue('eth0')}",)


def test_a_mask_that_was_changed_meanwhile_is_shown_and_not_written_again() -> None:
    ctx = edit(steered({queue("eth0"): cpus(1)}), "after.config.rps", rps({queue("eth0"): cpus(0)}))
    found = only(ctx, "CFG.RPS")
    assert (found.outcome, found.evidence[0].value) == (Outcome.WARN, "1")
    assert found.fix is not None
    assert found.fix.commands == ()
    later = only(edit(ctx, "after.config.rps", DENIED), "CFG.RPS")
    assert (later.outcome, later.evidence[0].value) == (Outcome.WARN, "0")


@pytest.mark.parametrize(
    ("count", "control", "outcome"), [(1, 5000, Outcome.WARN), (16, 5000, Outcome.FAIL), (0, 5000, Outcome.PASS)]
)
def test_packets_that_came_have_the_mask_as_their_cause(count: int, control: int, outcome: Outcome) -> None:
    ctx = steered({queue("eth0"): cpus(1)}, softirqs={"NET_RX": {1: count, 0: control}})
    found, mask = only(ctx, "SIRQ.NET_RX"), only(ctx, "CFG.RPS")
    assert (found.outcome, found.origin) == (outcome, "rps")
    assert (found.fix is not None) is bool(count)
    assert not count or found.fix == mask.fix
    assert (mask.origin == "rps") is bool(count)


def test_packets_without_a_mask_have_another_cause() -> None:
    found = only(steered({queue("eth0"): cpus(0)}, softirqs={"NET_RX": {1: 99}}), "SIRQ.NET_RX")
    assert found.origin == "softirq:NET_RX"
    assert found.fix is not None
    assert found.fix.text.startswith("network packets are handled here")


def test_without_softirqs_nobody_knows_what_came() -> None:
    ctx = edit(steered({queue("eth0"): cpus(1)}), "after.counters.softirqs", gone())
    assert only(ctx, "CFG.RPS").origin == ""


def test_on_preempt_rt_a_thread_takes_the_packets() -> None:
    backlog = Thread(tid=60, name="backlog_napi/1", kernel=True, switches=99)
    ctx = steered({queue("eth0"): cpus(1)}, threads=[backlog], switches={1: 99})
    found, mask = only(ctx, "THR.KBOUND"), only(ctx, "CFG.RPS")
    assert (found.outcome, found.origin, mask.origin) == (Outcome.FAIL, "rps", "rps")
    assert found.fix == mask.fix
    other = only(steered({queue("eth0"): cpus(0)}, threads=[backlog], switches={1: 99}), "THR.KBOUND")
    assert other.origin == "kthreads"
