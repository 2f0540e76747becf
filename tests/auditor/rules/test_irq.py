"""Device interrupts: which device, whose queue, how many, and what a pass needs."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, FixKind, Outcome
from auditor.own import OwnRule
from auditor.rules.irq import device_of
from probes.host import SourceState
from probes.interrupts import InterruptRow
from tests.auditor.build import context, cpus, edit, findings, gone, irq, only, outcomes, row


@pytest.mark.parametrize(
    ("actions", "device"),
    [
        ("nvme0q3", "nvme0"),
        ("nvme0q0", "nvme0"),
        ("virtio1-req.2", "virtio1"),
        ("virtio3-output.0", "virtio3"),
        ("virtio3-input.0", "virtio3"),
        ("virtio1-config", "virtio1"),
        ("eth0-TxRx-7", "eth0"),
        ("enp3s0f0-TxRx-1", "enp3s0f0"),
        ("ens5-Tx-Rx-0", "ens5"),
        ("eth0-rx-1", "eth0"),
        ("eth0", "eth0"),
        ("iwlwifi:queue_1", "iwlwifi"),
        ("iwlwifi:default_queue", "iwlwifi:default"),
        ("mlx5_comp3@pci:0000:3b:00.0", "mlx5"),
        ("xhci_hcd", "xhci_hcd"),
        ("i8042", "i8042"),
        ("i915", "i915"),
        ("ahci[0000:00:17.0]", "ahci[0000:00:17.0]"),
        ("i801_smbus, ehci_hcd:usb1", "i801_smbus"),
        ("ttyS0", "ttyS0"),
        ("rtc0", "rtc0"),
        ("acpi", "acpi"),
        ("mpt3sas0-msix12", "mpt3sas0"),
        ("megasas0-msix3", "megasas0"),
        ("ACPI:Ged", "ACPI:Ged"),
        ("q3", "q3"),
        ("", ""),
    ],
)
def test_the_device_behind_a_queue(actions: str, device: str) -> None:
    assert device_of(actions) == device


QUIET = {"30 eth0": {0: 0}}
LOADED = {"30 eth0": {0: 10}}


@pytest.mark.parametrize(
    ("control", "affinity", "outcome", "detail"),
    [
        (0, irq(30, cpus(0)), Outcome.PASS, "none fired here"),
        (9, irq(30, cpus(0, 1)), Outcome.NOT_EXERCISED, "none fired here; few fired elsewhere, so nothing is proved"),
        (10, irq(30, cpus(0, 1)), Outcome.PASS, "none fired here"),
    ],
)
def test_silence_passes_behind_a_shut_door_or_under_load(
    control: int, affinity: Any, outcome: Outcome, detail: str
) -> None:
    found = only(context(rows={"30 eth0": {0: control}}, affinity={30: affinity}), "IRQ.DEVICE")
    assert (found.outcome, found.detail, found.observed, found.limit) == (outcome, detail, 0, 0)


@pytest.mark.parametrize("door", ["before.config.affinity", "after.config.affinity"])
def test_silence_without_a_known_door_and_without_load_proves_nothing(door: str) -> None:
    assert outcomes(edit(context(rows=QUIET, affinity={30: irq(30, cpus(0))}), door, gone()), "IRQ.DEVICE") == [
        Outcome.NOT_EXERCISED
    ]


@pytest.mark.parametrize(
    ("count", "outcome", "limit"), [(1, Outcome.WARN, 0), (15, Outcome.WARN, 0), (17, Outcome.FAIL, 1)]
)
def test_one_event_warns_and_more_than_one_a_second_fails(count: int, outcome: Outcome, limit: float) -> None:
    found = only(context(rows={"30 eth0-rx-1": {1: count, 0: 500}}, affinity={30: irq(30, cpus(1))}), "IRQ.DEVICE")
    assert (found.outcome, found.observed, found.limit, found.unit) == (outcome, count / 10, limit, "/s")
    assert (found.title, found.origin) == ("device interrupts: eth0", "irq:eth0")
    assert found.detail == f"eth0-rx-1 fired {count} times; eth0: at most 50/s on a control CPU"
    assert found.evidence == (Evidence(path="/proc/interrupts", field="30 CPU1", value=f"+{count}"),)
    assert (found.per_second, found.cost_us_per_s) == (count / 10, count)
    assert found.fix is not None
    assert found.fix.commands == ("echo 0 | sudo tee /proc/irq/30/smp_affinity_list",)


def test_events_behind_a_shut_door_are_shown_not_explained() -> None:
    ctx = context(rows={"30 eth0": {1: 1, 0: 500}}, affinity={30: irq(30, cpus(0))})
    assert outcomes(ctx, "IRQ.AFFINITY") == [Outcome.PASS]
    assert outcomes(ctx, "IRQ.DEVICE") == [Outcome.WARN]


def test_every_row_that_fired_is_a_finding_of_the_outcome_of_all() -> None:
    ctx = context(
        rows={"30 eth0-rx-1": {1: 16}, "31 eth0-tx-1": {1: 16}, "32 ttyS0": {1: 1}, "33 quiet": {1: 0}},
        affinity={n: irq(n, cpus(1)) for n in (30, 31, 32, 33)},
    )
    assert [(f.outcome, f.title, f.observed) for f in findings(ctx, "IRQ.DEVICE")] == [
        (Outcome.FAIL, "device interrupts: eth0", 1.6),
        (Outcome.FAIL, "device interrupts: eth0", 1.6),
        (Outcome.FAIL, "device interrupts: ttyS0", 0.1),
    ]


def test_per_cpu_interrupts_are_no_devices() -> None:
    assert outcomes(context(rows={"LOC": {1: 9999}, "RES": {1: 9999}, "CAL": {1: 9999}}), "IRQ.DEVICE") == [
        Outcome.PASS
    ]


def test_an_interrupt_freed_in_the_window_is_unknown() -> None:
    ctx = context(rows=LOADED, affinity={30: irq(30, cpus(0))})
    later = context().observation.after.counters.interrupts
    found = only(edit(ctx, "after.counters.interrupts", later), "IRQ.DEVICE")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == "30 (eth0): freed, re-created or without this CPU's column in the window"


def with_row(ctx: Context, end: str, added: InterruptRow) -> Context:
    """One row more at one end."""
    interrupts = getattr(ctx.observation, end).counters.interrupts
    return edit(ctx, f"{end}.counters.interrupts.rows", (*interrupts.rows, added))


def test_an_interrupt_that_came_with_events_is_unknown_and_without_any_is_none() -> None:
    for count, outcome in ((5, Outcome.UNKNOWN), (0, Outcome.PASS)):
        ctx = with_row(context(), "after", row("31 eth1", {0: 9, 1: count}))
        assert outcomes(edit(ctx, "after.config.affinity.irqs.31", irq(31, cpus(0))), "IRQ.DEVICE") == [outcome]


def test_a_counter_that_fell_is_unknown() -> None:
    ctx = with_row(context(), "before", row("30 eth0", {0: 0, 1: 9999}))
    assert outcomes(with_row(ctx, "after", row("30 eth0", {0: 0, 1: 99})), "IRQ.DEVICE") == [Outcome.UNKNOWN]


def test_a_row_without_this_cpu_is_unknown_but_what_fails_fails() -> None:
    rows: dict[str, Any] = {"30 eth0": {0: 500, 1: None}, "31 eth1": {1: 0}}
    affinity = {30: irq(30, cpus(0)), 31: irq(31, cpus(0))}
    assert outcomes(context(rows=rows, affinity=affinity), "IRQ.DEVICE") == [Outcome.UNKNOWN]
    rows["31 eth1"] = {1: 17}
    assert outcomes(context(rows=rows, affinity=affinity), "IRQ.DEVICE") == [Outcome.FAIL]


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("rule", ["IRQ.DEVICE", "IRQ.MANAGED"])
@pytest.mark.parametrize("state", [SourceState.MISSING, SourceState.MASKED, SourceState.DENIED, SourceState.MALFORMED])
def test_without_the_table_nothing_is_known(end: str, rule: str, state: SourceState) -> None:
    ctx = edit(context(rows=LOADED), f"{end}.counters.interrupts", gone("proc/interrupts", state))
    found = only(ctx, rule)
    assert (found.outcome, found.cpus) == (Outcome.UNKNOWN, (1,))
    assert found.detail == f"/proc/interrupts: {state.value} for this test"


def test_managed_queues_are_counted_apart_with_advice_of_their_own() -> None:
    ctx = context(
        rows={"40 nvme0q3": {1: 17, 0: 0}, "30 eth0": {0: 50}}, affinity={40: irq(40, cpus(1)), 30: irq(30, cpus(0))}
    )
    assert outcomes(ctx, "IRQ.DEVICE") == [Outcome.PASS]
    found = only(ctx, "IRQ.MANAGED")
    assert (found.outcome, found.title, found.origin) == (Outcome.FAIL, "managed device interrupts: nvme0", "irq:nvme0")
    assert found.fix is not None
    assert "the kernel owns this queue's affinity" in found.fix.text
    assert found.fix.commands == ()


def declared(*names: str, **given: Any) -> Context:
    values: dict[str, Any] = {
        "rows": {"30 eth0-rx-1": {1: 500, 0: 50}, "31 usb1": {1: 0, 0: 50}},
        "affinity": {30: irq(30, cpus(1)), 31: irq(31, cpus(0))},
        "own_rule": OwnRule(audited=cpus(1), irqs=names),
    }
    return context(**{**values, **given})


def test_a_named_interrupt_is_shown_and_no_noise() -> None:
    ctx = declared("eth0-*")
    own, others = findings(ctx, "IRQ.DEVICE")
    assert (own.outcome, own.observed, own.title, own.fix) == (
        Outcome.NOT_APPLICABLE,
        50,
        "own interrupts: eth0",
        None,
    )
    assert own.detail == "eth0-rx-1 fired 500 times: own (named with --own-irq)"
    assert (others.outcome, others.observed, others.detail) == (Outcome.PASS, 0, "no other fired here")
    door = only(ctx, "IRQ.AFFINITY")
    assert (door.outcome, door.detail) == (Outcome.PASS, "routed here are only own interrupts: 30 (eth0-rx-1)")


def test_what_is_not_named_is_noise_as_ever() -> None:
    ctx = declared("eth0-*", rows={"30 eth0-rx-1": {1: 500}, "31 usb1": {1: 17}})
    assert [(f.outcome, f.title) for f in findings(ctx, "IRQ.DEVICE")] == [
        (Outcome.NOT_APPLICABLE, "own interrupts: eth0"),
        (Outcome.FAIL, "device interrupts: usb1"),
    ]
    ctx = declared("eth0-*", affinity={30: irq(30, cpus(1)), 31: irq(31, cpus(1))})
    assert only(ctx, "IRQ.AFFINITY").detail == "routed here: 31 (usb1)"
    assert outcomes(declared("usb1"), "IRQ.AFFINITY") == [Outcome.FAIL]


def test_queues_of_one_device_may_be_own_in_part() -> None:
    rows = {"30 eth0-rx-1": {1: 500}, "31 eth0-rx-2": {1: 500}}
    ctx = declared("eth0-rx-1", rows=rows, affinity={30: irq(30, cpus(1)), 31: irq(31, cpus(1))})
    _, noise = findings(ctx, "IRQ.DEVICE")
    assert (noise.outcome, noise.fix and noise.fix.commands) == (
        Outcome.FAIL,
        ("echo 0 | sudo tee /proc/irq/31/smp_affinity_list",),
    )


def test_a_named_one_that_never_fired_has_nothing_to_show() -> None:
    ctx = declared("eth0-*", rows={"30 eth0-rx-1": {1: 0, 0: 500}})
    assert only(ctx, "IRQ.DEVICE").detail == "no other fired here"


def test_a_named_number_that_was_given_away_is_unknown() -> None:
    ctx = declared("30")
    later = declared("30", rows={"30 usb1": {1: 9, 0: 3}}).observation.after.counters.interrupts
    found = findings(edit(ctx, "after.counters.interrupts", later), "IRQ.DEVICE")
    assert [finding.outcome for finding in found] == [Outcome.UNKNOWN]


def test_modes_outrank_names_where_they_tell() -> None:
    rows = {"40 nvme0q3": {1: 17}, "30 eth0": {1: 17}}
    affinity = {40: irq(40, cpus(1), settable=True), 30: irq(30, cpus(1), settable=False)}
    ctx = context(rows=rows, affinity=affinity, modes_tell=True)
    assert [f.title for f in findings(ctx, "IRQ.DEVICE")] == ["device interrupts: nvme0"]
    assert [f.title for f in findings(ctx, "IRQ.MANAGED")] == ["managed device interrupts: eth0"]
    ctx = context(rows=rows, affinity=affinity, modes_tell=False)
    assert [f.title for f in findings(ctx, "IRQ.DEVICE")] == ["device interrupts: eth0"]
    assert [f.title for f in findings(ctx, "IRQ.MANAGED")] == ["managed device interrupts: nvme0"]


def test_without_proc_irq_all_is_counted_and_none_called_managed() -> None:
    ctx = edit(context(rows={"40 nvme0q3": {1: 17}}), "after.config.affinity", gone("proc/irq"))
    found = only(ctx, "IRQ.DEVICE")
    assert found.outcome is Outcome.FAIL
    assert found.fix is not None
    assert found.fix.kind is FixKind.BOOT
    assert outcomes(ctx, "IRQ.MANAGED") == [Outcome.UNKNOWN]


def test_armed_queues_are_named_up_to_three() -> None:
    rows = {f"{n} nvme0q{n}": {0: 0} for n in range(40, 44)}
    found = only(context(rows=rows, affinity={n: irq(n, cpus(1)) for n in range(40, 44)}), "CFG.MIRQ")
    assert (found.outcome, found.observed, found.unit) == (Outcome.WARN, 4, "queues")
    assert found.detail == (
        "armed: 40 (nvme0q40), 41 (nvme0q41), 42 (nvme0q42) …; each fires here when I/O is submitted from this CPU; "
        "isolcpus=managed_irq is in force for this CPU"
    )


def test_no_armed_queue_and_an_unreadable_one() -> None:
    rows = {"40 nvme0q1": {0: 0}}
    assert outcomes(context(rows=rows, affinity={40: irq(40, cpus(0))}), "CFG.MIRQ") == [Outcome.PASS]
    assert outcomes(context(rows=rows, affinity={40: gone()}), "CFG.MIRQ") == [Outcome.UNKNOWN]


@pytest.mark.parametrize(
    ("default", "outcome"),
    [(cpus(0), Outcome.PASS), (cpus(0, 1), Outcome.WARN), (gone(), Outcome.UNKNOWN)],
)
def test_where_new_interrupts_will_go(default: Any, outcome: Outcome) -> None:
    found = only(context(default_affinity=default), "CFG.IRQAFF")
    assert found.outcome is outcome
    assert (found.fix is not None) is (outcome is Outcome.WARN)


def test_where_new_interrupts_will_go_is_unknown_without_proc_irq() -> None:
    assert outcomes(edit(context(), "after.config.affinity", gone()), "CFG.IRQAFF") == [Outcome.UNKNOWN]


def test_an_irqaffinity_that_names_the_cpu_is_told_as_the_reason() -> None:
    given: dict[str, Any] = {
        "default_affinity": cpus(0, 1),
        "cmdline": "isolcpus=domain,managed_irq,1 nohz_full=1 irqaffinity=0-1",
    }
    found = only(context(**given), "CFG.IRQAFF")
    assert found.detail == "new interrupts may go to CPUs 0-1: irqaffinity=0-1 at boot names this CPU"
    assert found.origin == "door:irq"
    for line in ("irqaffinity=0", "quiet", gone("proc/cmdline")):
        told = only(context(**{**given, "cmdline": line}), "CFG.IRQAFF")
        assert (told.outcome, told.detail) == (Outcome.WARN, "new interrupts may go to CPUs 0-1")
