"""Who shares the core: judged by what the sibling did and for whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.causes import rank
from auditor.context import Context
from auditor.model import Evidence, Finding, FixKind, Kind, Outcome, Status
from auditor.own import OwnRule
from auditor.rules import RULES
from auditor.verdict import judge_cpu
from probes.cpustat import CpuStat
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, only

ISOLATED: dict[str, Any] = {"domains": {0: [cpus(0, 2)], 2: [cpus(0, 2)]}}
"""CPU 5 is in no domain, as CPU 1."""
BALANCED: dict[str, Any] = {"domains": {0: [cpus(0, 2, 5)], 2: [cpus(0, 2, 5)], 5: [cpus(0, 2, 5)]}}
CORE = cpus(1, 5)
NEIGHBOUR = Thread(tid=600, name="neighbour", on=cpus(5), switches=50, run_ms=9000)
OWN = Thread(tid=700, name="app", on=cpus(5), switches=0, run_ms=9000)


def ctx(busy: float = 0.0, **given: Any) -> Context:
    values: dict[str, Any] = {
        "control": (0, 2, 5),
        "siblings": {1: CORE, 5: CORE},
        "busy": {5: busy},
        **ISOLATED,
        **given,
    }
    return context(**values)


def smt(busy: float = 0.0, **given: Any) -> Finding:
    return only(ctx(busy, **given), "CFG.SMT")


def owned(*threads: Thread, busy: float, **given: Any) -> Finding:
    return smt(busy, own_rule=OwnRule(audited=cpus(1), workload="app"), threads=threads, **given)


def test_one_thread_per_core() -> None:
    found = only(context(), "CFG.SMT")
    assert (found.outcome, found.detail) == (Outcome.PASS, "no other thread of its core is online")
    assert found.evidence == (
        Evidence(path="/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", field="list", value="1"),
    )
    guest = only(context(hypervisor="kvm"), "CFG.SMT")
    assert guest.detail == "no other thread of its core is online, as the hypervisor shows it"


def test_cores_that_are_not_told_are_unknown() -> None:
    found = only(context(siblings={0: cpus(0)}), "CFG.SMT")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == (
        "which CPUs share its core is not told: /sys/devices/system/cpu/cpu1/topology/thread_siblings_list"
    )


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_cpu_that_came_online_may_be_a_sibling(end: str) -> None:
    alone = edit(context(), f"{end}.config.online", cpus(0, 1, 7))
    found = only(alone, "CFG.SMT")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "CPU 7 came online within the window, perhaps in its core",
    )
    assert only(edit(context(), f"{end}.config.online", gone()), "CFG.SMT").outcome is Outcome.UNKNOWN


def test_one_that_was_online_between_the_ends_may_be_a_sibling_too() -> None:
    ctx_ = context()
    seen = tuple(replace(sample, online=cpus(0, 1, 7)) for sample in ctx_.observation.samples[:1])
    assert only(edit(ctx_, "samples", seen), "CFG.SMT").outcome is Outcome.UNKNOWN


def test_a_busy_neighbour_fails_and_is_the_first_cause() -> None:
    given: dict[str, Any] = {"threads": [NEIGHBOUR], "rows": {"RES": {1: 400}}, "release": "6.12.1"}
    busy = ctx(0.9, **given)
    found = only(busy, "CFG.SMT")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.FAIL, 90.0, 10.0, "%")
    assert found.detail == (
        "CPU 5 shares its core: busy 90.0%, 90.0% of the time with others' work (seen there: neighbour)"
    )
    assert found.evidence == (Evidence(path="/proc/stat", field="cpu5 busy", value="9.00 s"),)
    assert (found.origin, round(found.cost_us_per_s)) == ("smt", 270_000)
    every = [finding for rule in RULES for finding in findings(busy, rule.id)]
    causes = rank(every)
    assert (causes[0].rules, causes[0].fix) == (("CFG.SMT",), found.fix)
    assert judge_cpu(busy, every, 1).status is Status.NOT_ISOLATED


@pytest.mark.parametrize(
    ("busy", "outcome"), [(0.009, Outcome.PASS), (0.011, Outcome.WARN), (0.10, Outcome.WARN), (0.102, Outcome.FAIL)]
)
def test_limits(busy: float, outcome: Outcome) -> None:
    # /proc/stat has a grain of a tick: 100 s make these shares exact
    found = smt(busy, window_s=100.0)
    assert (found.outcome, found.kind) == (outcome, Kind.MEASURED)


def test_a_lone_name_is_not_needed() -> None:
    assert smt(0.5).detail == "CPU 5 shares its core: busy 50.0%, 50.0% of the time with others' work"
    seen = [Thread(tid=600 + n, name=f"n{n}", on=cpus(0, 5), seen={5: 1}, run_ms=n) for n in range(5)]
    assert smt(0.5, threads=seen).detail.endswith("(seen there: n4, n3, n2)")


def test_isolated_and_idle_passes() -> None:
    found = smt()
    assert (found.outcome, found.detail) == (Outcome.PASS, "CPU 5 shares its core: isolated and idle (busy 0.0%)")


def test_idle_but_anyones_is_a_risk_and_no_cause() -> None:
    found = smt(**BALANCED)
    assert (found.outcome, found.kind, found.origin) == (Outcome.WARN, Kind.RISK, "")
    assert found.detail == (
        "CPU 5 shares its core: idle in this window (busy 0.0%), but any thread may be placed there"
    )
    assert found.fix is not None
    idle = ctx(**BALANCED)
    every = [finding for rule in RULES for finding in findings(idle, rule.id)]
    assert judge_cpu(idle, every, 1).status is Status.ISOLATED


def test_own_work_there_is_no_noise() -> None:
    found = owned(OWN, busy=0.9)
    assert (found.outcome, found.detail) == (Outcome.PASS, "CPU 5 shares its core: busy 90.0% with own threads")
    lagging = owned(replace(OWN, run_ms=8000), busy=0.9)  # run time of a thread that never leaves is a second old
    assert (lagging.outcome, lagging.observed) == (Outcome.PASS, 0.0)


def test_beside_own_work_the_rest_is_others_as_far_as_it_is_proved() -> None:
    short = replace(OWN, run_ms=3000)
    assert owned(short, busy=0.9).outcome is Outcome.FAIL
    assert owned(short, busy=0.9).observed == pytest.approx(40)  # 9 s less 3 s, less what may lag behind
    lag = replace(OWN, run_ms=8000)
    mixed = owned(lag, busy=0.9, switches={5: 5})
    assert (mixed.outcome, mixed.observed) == (Outcome.UNKNOWN, 10.0)
    uncounted = owned(lag, busy=0.9, switches={5: None})
    assert uncounted.outcome is Outcome.UNKNOWN


def test_own_threads_that_may_run_elsewhere_leave_it_open() -> None:
    found = owned(replace(OWN, on=cpus(0, 5)), busy=0.9)
    assert (found.outcome, found.observed) == (Outcome.UNKNOWN, 90.0)
    assert found.detail.endswith("own threads may have run there all of the time, or none of it")


def test_without_run_times_of_ours_it_stays_open() -> None:
    assert owned(OWN, busy=0.9, schedstat=False).outcome is Outcome.UNKNOWN
    assert owned(replace(OWN, ended=True), busy=0.9).outcome is Outcome.UNKNOWN


def test_where_ours_are_hidden_it_stays_open_but_by_affinity_they_are_elsewhere() -> None:
    nobody = smt(0.9, own_rule=OwnRule(audited=cpus(1), workload="app"), complete=False)
    assert nobody.outcome is Outcome.UNKNOWN
    assert smt(0.9, complete=False).outcome is Outcome.FAIL
    both = findings(ctx(0.9, audited=(1, 5), control=(0, 2), complete=False), "CFG.SMT")
    assert [item.outcome for item in both] == [Outcome.PASS, Outcome.PASS]


def test_a_sibling_that_is_audited_too_is_judged_by_itself() -> None:
    own = Thread(on=cpus(5), run_ms=9000)
    pair: dict[str, Any] = {"audited": (1, 5), "control": (0, 2)}
    found = findings(ctx(0.9, own=[own], **pair), "CFG.SMT")
    assert [(item.cpus, item.outcome) for item in found] == [((1,), Outcome.PASS), ((5,), Outcome.PASS)]
    assert found[0].detail == "CPU 5 shares its core: audited itself, its own findings judge it (busy 90.0%)"
    taken = findings(ctx(0.9, **pair), "CFG.SMT")
    assert [(item.cpus, item.outcome) for item in taken] == [((1,), Outcome.FAIL), ((5,), Outcome.PASS)]
    assert taken[0].fix is not None
    assert (taken[0].fix.kind, taken[0].fix.commands) == (FixKind.WORKLOAD, ())


def test_how_busy_it_was_must_be_known() -> None:
    blind = edit(ctx(0.9), "after.counters.cpustat", gone())
    found = only(blind, "CFG.SMT")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == ("CPU 5 shares its core; how busy it was is not known: /proc/stat has no row for the window")
    stat = ctx().observation.after.counters.cpustat
    assert isinstance(stat, CpuStat)
    lost = replace(stat, cpus={cpu: times for cpu, times in stat.cpus.items() if cpu != 5})
    assert only(edit(ctx(), "after.counters.cpustat", lost), "CFG.SMT").outcome is Outcome.UNKNOWN


def test_the_fix_names_this_sibling() -> None:
    fix = smt(0.9).fix
    assert fix is not None
    assert fix.kind is FixKind.RUNTIME
    assert fix.text == (
        "give both threads of a core to the workload, or leave one of them empty: isolate CPU 5 as well, "
        "or take offline (nosmt at boot: all such threads)"
    )
    assert fix.commands == ("echo 0 | sudo tee /sys/devices/system/cpu/cpu5/online",)
    assert fix.undo == "echo 1 | sudo tee /sys/devices/system/cpu/cpu5/online"


def test_one_fix_for_all_siblings() -> None:
    given: dict[str, Any] = {"audited": (1, 3), "control": (0, 2, 5, 7)}
    cores = {1: CORE, 5: CORE, 3: cpus(3, 7), 7: cpus(3, 7)}
    both = findings(context(**given, siblings=cores, busy={5: 0.9, 7: 0.9}), "CFG.SMT")
    assert both[0].fix == both[1].fix
    assert both[0].fix is not None
    assert both[0].fix.commands == tuple(f"echo 0 | sudo tee /sys/devices/system/cpu/cpu{cpu}/online" for cpu in (5, 7))


def test_the_kubelet_hands_out_whole_cores() -> None:
    kubelet = Thread(tid=900, name="kubelet", on=cpus(0))
    fix = smt(0.9, threads=[kubelet]).fix
    assert fix is not None
    assert (fix.kind, fix.commands) == (FixKind.KUBELET, ())
    assert "full-pcpus-only=true" in fix.text
    blind = only(edit(ctx(0.9, threads=[kubelet]), "after.census", gone()), "CFG.SMT").fix
    assert blind is not None
    assert blind.kind is FixKind.RUNTIME


@pytest.mark.parametrize(
    ("siblings", "control", "busy"),
    [
        ({1: cpus(0, 1), 0: cpus(0, 1)}, (0, 2), {0: 0.9}),  # the boot CPU stays
        ({1: cpus(1, 2), 2: cpus(1, 2)}, (2,), {2: 0.9}),  # the host needs one
    ],
)
def test_what_can_not_be_given_up(siblings: Any, control: Any, busy: Any) -> None:
    fix = only(context(siblings=siblings, control=control, busy=busy), "CFG.SMT").fix
    assert fix is not None
    assert (fix.kind, fix.commands) == (FixKind.WORKLOAD, ())
    assert "can't be given up here, choose CPUs of other cores" in fix.text


def test_of_several_the_boot_cpu_stays() -> None:
    core = cpus(0, 1, 4, 5)
    given: dict[str, Any] = {"siblings": dict.fromkeys(core, core), "control": (0, 2, 4, 5)}
    found = findings(context(**given, busy={0: 0.9, 4: 0.9}), "CFG.SMT")
    assert [item.outcome for item in found] == [Outcome.FAIL, Outcome.FAIL, Outcome.WARN]
    fix = found[0].fix
    assert fix is not None
    assert fix.commands == tuple(f"echo 0 | sudo tee /sys/devices/system/cpu/cpu{cpu}/online" for cpu in (4, 5))
    assert fix.text.endswith("; CPU 0 can't: leave its core to the host")
