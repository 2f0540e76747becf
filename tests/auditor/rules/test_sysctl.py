"""Periodic work: whom vmstat leaves out on which kernel, and who balances what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Axis, Evidence, Kind, Outcome
from probes.isolation import Partition
from tests.auditor.build import context, cpus, edit, findings, gone, kernel_settings, only, outcomes

OFTEN = kernel_settings(cpus(0), stat_interval=1)
BALANCED = kernel_settings(cpus(0), numa_balancing=1)
PARTITION = Partition(path="/p", state="isolated", cpus=cpus(1))


def nodes(ctx: Context, *of_cpu: int) -> Context:
    return edit(ctx, "facts.topology", replace(ctx.observation.facts.topology, node=dict(enumerate(of_cpu))))


def test_before_6_5_each_cpu_is_visited() -> None:
    found = only(context(sysctls=OFTEN), "CFG.SYSCTL")
    assert (found.outcome, found.axis, found.kind) == (Outcome.WARN, Axis.ISOLATION, Kind.RISK)
    assert found.detail == "vm.stat_interval 1 s: that often a kworker of the CPU may run vmstat_update"
    assert found.evidence[0] == Evidence(path="/proc/sys/vm/stat_interval", field="vm.stat_interval", value="1")
    assert found.fix is not None
    assert found.fix.commands == ("sudo sysctl -w vm.stat_interval=10",)
    assert found.fix.undo == "sudo sysctl -w vm.stat_interval=1"


@pytest.mark.parametrize(
    ("release", "given", "outcome"),
    [
        ("6.4.0-1", {}, Outcome.WARN),
        ("6.5.0-1", {}, Outcome.PASS),
        ("6.5.0-1", {"isolated": cpus()}, Outcome.PASS),  # nohz_full
        ("6.12.0-1", {"isolated": cpus(), "nohz_full": cpus()}, Outcome.WARN),
        ("6.12.0-1", {"isolated": gone(), "nohz_full": gone()}, Outcome.WARN),
        ("6.12.0-1", {"isolated": cpus(), "nohz_full": cpus(), "partitions": (PARTITION,)}, Outcome.PASS),
        ("6.7.0-1", {"isolated": cpus(), "nohz_full": cpus(), "partitions": (PARTITION,)}, Outcome.WARN),
        ("7.0.0-1", {"isolated": cpus()}, Outcome.WARN),
        ("7.0.0-1", {}, Outcome.PASS),
        ("?", {}, Outcome.WARN),
    ],
)
def test_whom_the_kernel_leaves_out(release: str, given: dict[str, Any], outcome: Outcome) -> None:
    assert outcomes(context(sysctls=OFTEN, release=release, **given), "CFG.SYSCTL") == [outcome]


@pytest.mark.parametrize(("seconds", "outcome"), [(9, Outcome.WARN), (10, Outcome.PASS), (120, Outcome.PASS)])
def test_seldom_enough(seconds: int, outcome: Outcome) -> None:
    assert outcomes(context(sysctls=kernel_settings(cpus(0), stat_interval=seconds)), "CFG.SYSCTL") == [outcome]


@pytest.mark.parametrize(("of_cpu", "outcome"), [((), Outcome.PASS), ((0, 0), Outcome.PASS), ((0, 1), Outcome.WARN)])
def test_numa_balancing_takes_several_nodes(of_cpu: tuple[int, ...], outcome: Outcome) -> None:
    found = only(nodes(context(sysctls=BALANCED), *of_cpu), "CFG.SYSCTL")
    assert found.outcome is outcome
    assert (found.fix.commands if found.fix else ()) == (
        ("sudo sysctl -w kernel.numa_balancing=0",) if outcome is Outcome.WARN else ()
    )


@pytest.mark.parametrize("end", ["before", "after"])
def test_either_end_counts(end: str) -> None:
    ctx = nodes(context(audited=(1, 5)), 0, 1)
    for settings in (OFTEN, BALANCED):
        (found,) = findings(edit(ctx, f"{end}.config.sysctls", settings), "CFG.SYSCTL")
        assert (found.cpus, found.outcome, found.fix is not None) == ((1, 5), Outcome.WARN, end == "after")


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (gone(), Outcome.UNKNOWN),
        (kernel_settings(cpus(0), stat_interval=gone()), Outcome.UNKNOWN),
        (kernel_settings(cpus(0), numa_balancing=gone("x")), Outcome.PASS),
        (kernel_settings(gone()), Outcome.PASS),
    ],
)
def test_what_is_not_known(end: str, value: Any, outcome: Outcome) -> None:
    ctx = nodes(context(), 0, 1)
    assert outcomes(edit(ctx, f"{end}.config.sysctls", value), "CFG.SYSCTL") == [outcome]
