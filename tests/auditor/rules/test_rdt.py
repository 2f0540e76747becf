"""A part of the caches for the audited CPUs alone, or shared with others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.coverage import coverage
from auditor.model import Axis, Evidence, Outcome
from probes.host import ProbeError, SourceState
from probes.resctrl import ROOT, Group, Resctrl
from tests.auditor.build import Thread, context, cpus, edit, gone, only

APP = Thread(tid=100)


ONE = cpus(1)


def group(mask: int | None, on: Any = ONE, other: int = 0) -> Group:
    return Group(cpus=on, masks={} if mask is None else {"L3": {0: mask, 1: other}})


def divided(**groups: Any) -> Resctrl:
    """The default group has the low ways of both domains."""
    default = group(0x0F, cpus(0), 0xFF)
    return Resctrl(groups={"/": default, **groups}, domains={(3, 1): 0})


def made(resctrl: Resctrl | ProbeError | None, groups: dict[int, str | ProbeError] | None = None) -> Context:
    return context(resctrl=resctrl, task_groups=groups or {100: "/"}, threads=[APP])


@pytest.mark.parametrize("resctrl", [None, Resctrl(groups={"/": group(0xFF)})])
def test_where_nothing_is_divided_nothing_is_judged(resctrl: Resctrl | None) -> None:
    found = only(context(resctrl=resctrl), "CFG.RDT")
    assert (found.outcome, found.axis) == (Outcome.NOT_APPLICABLE, Axis.READINESS)
    assert found.detail == "caches are not divided here (resctrl): who else fills them is not seen by this tool"


@pytest.mark.parametrize("groups", [{100: "/"}, {100: "mine"}])
def test_a_part_of_its_own(groups: dict[int, str | ProbeError]) -> None:
    found = only(made(divided(mine=group(0xF0)), groups), "CFG.RDT")
    assert (found.outcome, found.fix) == (Outcome.PASS, None)
    assert found.detail == "in group mine, whose part of the caches nobody else may fill"
    assert found.evidence == (Evidence(path=f"/{ROOT}/mine/schemata", field="L3", value="0=f0;1=0"),)


def test_ways_of_another_domain_do_not_matter_unless_the_domain_is_not_known() -> None:
    known = only(made(divided(mine=group(0xF0, other=0xF0))), "CFG.RDT")
    assert known.outcome is Outcome.PASS
    found = only(made(replace(divided(mine=group(0xF0, other=0xF0)), domains={})), "CFG.RDT")
    assert (found.outcome, found.detail) == (Outcome.WARN, "group / may fill 4 of its ways of L3 (domain 1)")


def test_ways_that_others_may_fill_too() -> None:
    others = {"it's": group(0xC0, cpus()), "b": group(0x3C, cpus())}
    found = only(made(divided(mine=group(0xF0), **others)), "CFG.RDT")
    assert (found.outcome, found.detail) == (
        Outcome.WARN,
        "group it's may fill 2 of its ways of L3 (domain 0); group b may fill 2 of its ways of L3 (domain 0)",
    )
    assert [item.path for item in found.evidence] == [f"/{ROOT}/{name}/schemata" for name in ("mine", "b", "it's")]
    assert found.fix is not None
    assert found.fix.commands == (f"echo L3:0=c | sudo tee /{ROOT}/b/schemata",)  # of the other nothing would be left
    assert found.fix.undo == f"echo L3:0=3c | sudo tee /{ROOT}/b/schemata"


def test_what_is_left_in_two_pieces_is_no_mask() -> None:
    found = only(made(divided(mine=group(0x30), b=group(0xFF, cpus()))), "CFG.RDT")
    assert found.fix is not None
    assert found.fix.commands == ()


def test_names_of_groups_are_quoted() -> None:
    found = only(made(divided(mine=group(0xF0), **{"a b": group(0x1F, cpus())})), "CFG.RDT")
    assert found.fix is not None
    assert found.fix.commands == (f"echo L3:0=f | sudo tee '/{ROOT}/a b/schemata'",)


@pytest.mark.parametrize("threads", [[], [APP]])
def test_in_the_default_group_with_everybody(threads: list[Thread]) -> None:
    ctx = context(resctrl=divided(be=group(0x01, cpus())), threads=threads)
    found = only(ctx, "CFG.RDT")
    assert (found.outcome, found.detail) == (
        Outcome.WARN,
        "in the default group, with everybody who is in no other",
    )
    assert found.fix is not None


def test_a_group_with_other_cpus_and_one_without_a_cache() -> None:
    found = only(made(divided(mine=group(0xF0, cpus(1, 7)))), "CFG.RDT")
    assert (found.outcome, found.detail) == (Outcome.WARN, "group mine is that of CPUs 7 too")
    found = only(made(divided(mine=group(None))), "CFG.RDT")
    assert (found.outcome, found.detail) == (Outcome.WARN, "group mine has no part of a cache of its own")


def test_either_end_counts() -> None:
    ctx = edit(made(divided(mine=group(0xF0))), "before.config.resctrl", divided(mine=group(0xF8)))
    assert only(ctx, "CFG.RDT").outcome is Outcome.WARN
    alone = edit(made(divided(mine=group(0xF0))), "before.config.resctrl", None)
    assert only(alone, "CFG.RDT").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("resctrl", "groups"),
    [
        (divided(mine=group(0xF0)), {100: gone()}),
        (divided(mine=group(0xF0)), {100: "away"}),
        (divided(mine=group(0xF0), b=gone()), {100: "/"}),
        (divided(mine=group(0xF0), b=gone()), {100: "mine"}),
        (divided(mine=group(0xF0), b=gone()), {100: "b"}),
        (divided(mine=group(0xF0), b=Group(cpus=cpus(), masks=gone())), {100: "/"}),
        (divided(mine=Group(cpus=gone(), masks={})), {100: "/"}),
        (gone(state=SourceState.DENIED), {100: "/"}),
    ],
)
def test_what_is_not_known(resctrl: Any, groups: dict[int, str | ProbeError]) -> None:
    assert only(made(resctrl, groups), "CFG.RDT").outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("end", ["before", "after"])
def test_coverage(end: str) -> None:
    assert "/sys/fs/resctrl" not in {line.source for line in coverage(context())}
    good = made(divided(mine=group(0xF0)))
    assert {line.source: line.state for line in coverage(good)}["/sys/fs/resctrl"] == "read"
    for bad in (gone(), divided(mine=gone()), divided(mine=Group(cpus=gone(), masks={}))):
        lines = {line.source: line.state for line in coverage(edit(good, f"{end}.config.resctrl", bad))}
        assert lines["/sys/fs/resctrl"] == "missing"
