"""Where unbound work may run, and the lines that take audited CPUs out of its mask."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, FixKind, Outcome
from auditor.rules.workqueue import mask_fix
from probes.host import SourceState
from tests.auditor.build import context, cpus, edit, findings, gone, only, outcomes, queues

PATH = "/sys/devices/virtual/workqueue/cpumask"
MASK = "/sys/devices/virtual/workqueue/cpumask"


def ctx(mask: frozenset[int], *, audited: tuple[int, ...] = (1,), asked: Any = None, **given: Any) -> Context:
    return context(audited=audited, control=(0, 2), workqueues=queues(mask, **given), **(asked or {}))


def test_out_of_the_mask_it_passes() -> None:
    found = only(ctx(cpus(0, 2)), "CFG.WQ")
    assert (found.outcome, found.detail) == (Outcome.PASS, "unbound work may run on CPUs 0,2")
    assert found.evidence == (Evidence(path=PATH, field="mask", value="5"),)
    assert found.fix is None


def test_inside_it_warns_with_the_line_that_takes_it_out() -> None:
    found = only(ctx(cpus(0, 1, 2), queues={"writeback": cpus(0, 1, 2), "nvme-wq": cpus(0)}), "CFG.WQ")
    assert (found.outcome, found.detail) == (
        Outcome.WARN,
        "unbound work may run on CPUs 0-2; queues that may come here: writeback",
    )
    assert found.fix is not None
    assert found.fix.kind is FixKind.RUNTIME
    assert found.fix.commands == (f"echo 5 | sudo tee {MASK}",)
    assert found.fix.undo == f"echo 7 | sudo tee {MASK}"
    assert found.fix.text == "let unbound work run on CPUs 0,2 only"  # the boot line is in force


def test_queues_are_named_up_to_three() -> None:
    many = {name: cpus(1) for name in "abcde"}
    assert only(ctx(cpus(1), queues=many), "CFG.WQ").detail.endswith("may come here: a, b, c and 2 more")


def test_on_a_plain_host_the_boot_line_does_it_too() -> None:
    plain = {"isolated": cpus(), "nohz_full": cpus(), "cmdline": "root=/dev/vda1"}
    found = only(ctx(cpus(0, 1, 2), asked=plain), "CFG.WQ")
    assert found.fix is not None
    assert found.fix.boot["isolcpus"] == "domain,managed_irq,1"
    assert found.fix.text.endswith("; isolcpus=domain or nohz_full does it from boot on")
    old = only(ctx(cpus(0, 1, 2), asked={**plain, "release": "4.14.0"}), "CFG.WQ")
    assert old.fix is not None
    assert (old.fix.boot, old.fix.text) == ({}, "let unbound work run on CPUs 0,2 only")


def test_isolated_and_let_in_again() -> None:
    found = only(ctx(cpus(0, 1, 2), isolated=cpus(1)), "CFG.WQ")
    assert (
        found.detail == "unbound work may run on CPUs 0-2, though 1 are isolated: a write to the mask let them in again"
    )


def test_cpus_that_are_alike_share_a_finding() -> None:
    found = findings(ctx(cpus(0, 1, 2), audited=(1, 3, 4)), "CFG.WQ")
    assert [(item.cpus, item.outcome) for item in found] == [((1,), Outcome.WARN), ((3, 4), Outcome.PASS)]


def test_a_mask_that_changed_within_the_window() -> None:
    before, after = queues(cpus(0, 1)), queues(cpus(0))
    left = edit(context(), "before.config.workqueues", before)
    found = only(edit(left, "after.config.workqueues", after), "CFG.WQ")
    assert (found.outcome, found.fix) == (Outcome.WARN, None)
    assert found.detail == "unbound work may run on CPUs 0; CPU 1 was taken out within the window"
    came = edit(edit(context(), "before.config.workqueues", after), "after.config.workqueues", before)
    assert only(came, "CFG.WQ").detail == "unbound work may run on CPUs 0-1; CPU 1 was let in within the window"


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("state", [SourceState.MISSING, SourceState.DENIED, SourceState.MASKED])
def test_a_mask_that_is_not_known_at_either_end_is_unknown(end: str, state: SourceState) -> None:
    blind = edit(context(), f"{end}.config.workqueues", gone("x", state))
    assert outcomes(blind, "CFG.WQ") == [Outcome.UNKNOWN]


def test_a_mask_of_audited_cpus_alone_becomes_that_of_the_housekeeping_ones() -> None:
    assert mask_fix(ctx(cpus(1))).commands == (f"echo 5 | sudo tee {MASK}",)
    blind = edit(context(), "after.config.workqueues", gone())
    assert (mask_fix(blind).commands, mask_fix(blind).undo) == ((f"echo 1 | sudo tee {MASK}",), "")


def test_masks_of_many_cpus_are_written_as_the_kernel_reads_them() -> None:
    wide = context(audited=(1,), control=(0, 40), workqueues=queues(cpus(0, 1, 40)))
    assert mask_fix(wide).commands == (f"echo 100,00000001 | sudo tee {MASK}",)
