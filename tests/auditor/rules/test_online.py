"""An audited CPU that left within the window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.context import Context
from auditor.engine import run
from auditor.model import Evidence, Outcome, Status
from auditor.rules import RULES
from auditor.verdict import judge_cpu
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, only, outcomes

PATH = "/sys/devices/system/cpu/online"


def seen(ctx: Context, *online: frozenset[int] | None) -> Context:
    """The same with what each of the samples found online."""
    samples = ctx.observation.samples
    assert len(online) == len(samples)
    return edit(ctx, "samples", tuple(replace(one, online=found) for one, found in zip(samples, online, strict=True)))


def hotplug(switches: int) -> Context:
    return context(threads=[Thread(tid=20, name="cpuhp/1", kernel=True, switches=switches)])


def test_the_choice_of_cpus() -> None:
    ctx = context(audited=(0, 1, 5), control=(2,), nohz_full=cpus())
    ctx = edit(ctx, "after.config.online", cpus(0, 1, 2))
    assert [(f.cpus, f.outcome, f.title, f.detail) for f in findings(ctx, "CFG.CPUS")] == [
        (
            (0,),
            Outcome.WARN,
            "choice of CPUs",
            "the boot CPU keeps the time: it can't be nohz_full, and irqaffinity always includes it",
        ),
        ((1,), Outcome.PASS, "choice of CPUs", "online, not the boot CPU"),
        (
            (5,),
            Outcome.FAIL,
            "offline CPU",
            "went offline within the window: its counters are lost",
        ),
    ]
    assert outcomes(edit(ctx, "after.config.online", gone("online")), "CFG.CPUS") == [Outcome.UNKNOWN]


def test_one_that_is_gone_is_brought_back_by_the_fix() -> None:
    found = only(edit(context(), "after.config.online", cpus(0, 2, 3)), "CFG.CPUS")
    assert found.evidence == (Evidence(path=PATH, field="list", value="0,2-3"),)
    assert found.fix is not None
    assert found.fix.commands == ("echo 1 > /sys/devices/system/cpu/cpu1/online",)


def test_one_that_came_back_was_seen_missing_in_a_sample() -> None:
    found = only(seen(context(), cpus(0, 1), cpus(0), cpus(0), None, cpus(0, 1)), "CFG.CPUS")
    assert (found.outcome, found.title) == (Outcome.FAIL, "offline CPU")
    assert found.detail == ("was offline in 2 of 5 samples and came back: its counters tell only a part of the window")
    assert found.evidence == (Evidence(path=PATH, field="samples without it", value="2"),)
    assert found.fix is not None


def test_samples_that_could_not_tell_say_nothing() -> None:
    assert outcomes(seen(context(), None, None, None, None, None), "CFG.CPUS") == [Outcome.PASS]


@pytest.mark.parametrize(
    ("switches", "outcome"), [(3, Outcome.PASS), (4, Outcome.UNKNOWN), (16, Outcome.UNKNOWN)], ids=str
)
def test_one_that_came_back_between_two_samples_left_the_runs_of_its_hotplug_thread(
    switches: int, outcome: Outcome
) -> None:
    found = only(hotplug(switches), "CFG.CPUS")
    assert found.outcome is outcome
    if outcome is Outcome.UNKNOWN:
        assert found.evidence == (Evidence(path="cpuhp/1", field="switches", value=f"+{switches}"),)
        assert found.detail.startswith(f"cpuhp/1 ran {switches} times: it went offline and came back, or drivers")


@pytest.mark.parametrize("name", ["cpuhp/5", "cpuhp/1x", "app"])
def test_threads_of_other_names_say_nothing(name: str) -> None:
    ctx = context(threads=[Thread(tid=20, name=name, kernel=True, switches=9)])
    assert outcomes(ctx, "CFG.CPUS") == [Outcome.PASS]


def test_a_user_thread_of_that_name_says_nothing() -> None:
    assert outcomes(context(threads=[Thread(tid=20, name="cpuhp/1", switches=9)]), "CFG.CPUS") == [Outcome.PASS]


@pytest.mark.parametrize(
    "ctx",
    [
        seen(context(), cpus(0, 1), cpus(0), cpus(0, 1), cpus(0, 1), cpus(0, 1)),
        edit(context(window_s=60), "after.config.online", cpus(0)),
        edit(context(), "after.config.online", gone("online")),
    ],
    ids=["came back", "gone", "can't tell"],
)
def test_it_is_never_told_isolated(ctx: Context) -> None:
    verdict = judge_cpu(ctx, run(RULES, ctx), 1)
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason.startswith("nothing failed, but not decided: ")


def test_the_verdict_names_it_first() -> None:
    ctx = edit(context(), "after.config.online", cpus(0))
    ctx = edit(ctx, "after.counters.schedstat.cpus", {})
    assert judge_cpu(ctx, run(RULES, ctx), 1).reason == (
        "nothing failed, but not decided: offline CPU, foreign switches"
    )
