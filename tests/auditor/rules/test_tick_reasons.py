"""What keeps the tick: named only where the tick runs, sure only where the kernel is known to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.causes import rank
from auditor.context import Context
from auditor.engine import run
from auditor.model import Evidence, FixKind, Outcome
from auditor.policy import Policy
from auditor.rules import RULES
from probes.cpu_timers import CpuTimer, CpuTimers
from probes.host import ProbeError, SourceState
from tests.auditor.build import Limited, Thread, context, cpus, edit, findings, gone, only

APP = Thread(run_ms=9900, cgroup="/high/app", name="spin")
GENEROUS = {"/high": Limited(quota_us=4_000_000, period_us=1_000_000)}
NEW = "6.12.117+deb12-rt-amd64"
SELF = CpuTimer(pid=0, per_thread=True)
RLIMIT = CpuTimers(limit_s=5000, timers=())
TIMER = CpuTimers(limit_s=None, timers=(SELF,))


def spinning(loc: int = 2500, **given: Any) -> Context:
    """One own thread that never sleeps, for ten seconds, on a nohz_full CPU."""
    given = {"release": NEW, "own": [APP], **given}
    return context(rows={"LOC": {1: loc}}, busy={1: 1.0}, **given)


def test_a_limit_keeps_the_tick() -> None:
    ctx = spinning(limited=GENEROUS)
    found = only(ctx, "QUOTA-TICK")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.FAIL, 250, 10, "/busy s")
    assert found.detail == "kept by the limit of 4 CPUs on /high"
    assert found.evidence == (
        Evidence(path="/sys/fs/cgroup/high/cpu.max", field="quota period", value="4000000 1000000"),
    )
    tick = only(ctx, "TICK.LOC")
    assert tick.detail == (
        "2500 ticks in 10.0 busy seconds: the periodic tick at 250 Hz; nohz_full covers CPU 1, yet the tick runs: "
        "kept by the limit of 4 CPUs on /high"
    )
    assert tick.fix == found.fix
    assert tick.origin == found.origin == "tick:quota /high"


def test_they_are_one_cause_whose_fix_lifts_the_limit() -> None:
    (cause,) = [item for item in rank(run(RULES, spinning(limited=GENEROUS))) if "TICK.LOC" in item.rules]
    assert (cause.rules, cause.title) == (("TICK.LOC", "QUOTA-TICK"), "timer tick; tick kept by a CPU limit")
    assert cause.fix is not None
    assert cause.fix.commands == ("echo max | sudo tee /sys/fs/cgroup/high/cpu.max", "sudo taskset -c 1 true")


def test_two_limits_are_both_lifted() -> None:
    both = {**GENEROUS, "/high/app": Limited(quota_us=100_000)}
    fix = only(spinning(limited=both), "TICK.LOC").fix
    assert fix is not None
    assert fix.commands == (
        "echo max | sudo tee /sys/fs/cgroup/high/cpu.max",
        "echo max | sudo tee /sys/fs/cgroup/high/app/cpu.max",
        "sudo taskset -c 1 true",
    )
    assert only(spinning(limited=both), "QUOTA-TICK").detail == (
        "kept by the limit of 4 CPUs on /high and the limit of 1 CPUs on /high/app"
    )


@pytest.mark.parametrize(
    ("release", "hypervisor", "loc", "outcome"),
    [
        (NEW, None, 2500, Outcome.FAIL),
        (NEW, None, 1250, Outcome.FAIL),
        (NEW, None, 1249, Outcome.WARN),  # a kept tick comes HZ times a second
        (NEW, "KVM", 400, Outcome.FAIL),  # unless a hypervisor ran others meanwhile
        ("6.5.0", None, 2500, Outcome.WARN),
        ("5.14.0-503.el9.x86_64", None, 2500, Outcome.WARN),  # may have it backported
        ("odd", None, 2500, Outcome.WARN),
    ],
)
def test_when_a_limit_is_the_sure_reason(release: str, hypervisor: str | None, loc: int, outcome: Outcome) -> None:
    ctx = spinning(loc, limited=GENEROUS, release=release, hypervisor=hypervisor)
    assert only(ctx, "TICK.LOC").outcome is Outcome.FAIL
    found = only(ctx, "QUOTA-TICK")
    assert found.outcome is outcome
    sure = outcome is Outcome.FAIL
    assert found.detail.startswith("kept by" if sure else "may be kept by")
    tick = only(ctx, "TICK.LOC")
    assert ("; it may be kept by the limit of 4 CPUs" in tick.detail) != sure
    assert tick.fix is not None
    assert ("if the tick goes on without: more than one runnable thread" in tick.fix.text) != sure


def test_without_hz_half_of_the_slowest_is_enough() -> None:
    assert only(spinning(500, limited=GENEROUS, hz=None), "QUOTA-TICK").outcome is Outcome.FAIL
    assert only(spinning(499, limited=GENEROUS, hz=None), "QUOTA-TICK").outcome is Outcome.WARN


@pytest.mark.parametrize("rule", ["QUOTA-TICK", "TICK.POSIX"])
@pytest.mark.parametrize(
    "given",
    [
        {"loc": 0},
        {"nohz_full": cpus()},
        {"nohz_full": cpus(), "policy": Policy(busy_poll=True)},
    ],
)
def test_where_no_tick_runs_or_may_run_there_is_nothing_to_explain(rule: str, given: dict[str, Any]) -> None:
    found = only(spinning(limited=GENEROUS, timers={100: RLIMIT}, **given), rule)
    assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "no tick to explain on a nohz_full CPU")
    assert found.origin == ""


def test_no_limit_is_no_reason() -> None:
    found = only(spinning(), "QUOTA-TICK")
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert found.detail == "the tick runs; no finite limit above the own threads"
    tick = only(spinning(), "TICK.LOC")
    assert tick.origin == "tick"
    assert tick.detail.endswith("yet the tick runs")
    assert tick.fix is not None
    assert tick.fix.kind is FixKind.WORKLOAD
    assert tick.fix.text.startswith("something keeps the tick: a finite cpu.max on the cgroup or an ancestor")


def test_a_limit_on_threads_of_other_cpus_is_no_reason() -> None:
    other = replace(APP, tid=200, on=cpus(5), cgroup="/high/app")
    ctx = context(
        audited=(1, 5),
        release=NEW,
        rows={"LOC": {1: 2500, 5: 2500}},
        busy={1: 1.0, 5: 1.0},
        own=[replace(APP, cgroup="/free"), other],
        limited=GENEROUS,
    )
    assert [(f.cpus, f.outcome) for f in findings(ctx, "QUOTA-TICK")] == [
        ((1,), Outcome.NOT_APPLICABLE),
        ((5,), Outcome.FAIL),
    ]
    causes = [cause for cause in rank(run(RULES, ctx)) if "TICK.LOC" in cause.rules]
    assert sorted((cause.cpus, cause.rules) for cause in causes) == [
        ((1,), ("TICK.LOC",)),
        ((5,), ("TICK.LOC", "QUOTA-TICK")),
    ]


def test_limits_that_are_hidden_may_be_the_reason() -> None:
    hidden = ProbeError("proc/self/ns/cgroup", "read from a cgroup namespace", SourceState.MASKED)
    found = only(edit(spinning(), "after.limits.cgroups.hidden", hidden), "QUOTA-TICK")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "the tick runs; /proc/self/ns/cgroup: read from a cgroup namespace",
    )
    for rule in ("QUOTA-TICK", "TICK.POSIX"):
        found = only(spinning(complete=False), rule)
        assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "the tick runs; not all own threads are visible")


def test_a_limit_of_cpu_time() -> None:
    ctx = spinning(timers={100: RLIMIT})
    found = only(ctx, "TICK.POSIX")
    assert found.outcome is Outcome.WARN
    assert found.detail == (
        "may be kept by RLIMIT_CPU of 5000 s, unless spin (100) inherited it by fork, which arms no timer"
    )
    assert found.evidence == (Evidence(path="/proc/100/limits", field="Max cpu time", value="5000 seconds"),)
    assert found.fix is not None
    assert found.fix.text == (
        "start spin (100) without a limit of CPU time (LimitCPU=infinity in its unit, no ulimit -t): "
        "lifting it later does not stop the timer behind it"
    )
    tick = only(ctx, "TICK.LOC")
    assert tick.origin == found.origin == "tick:rlimit 100"
    assert tick.detail.endswith("yet the tick runs; it may be kept by " + found.detail.removeprefix("may be kept by "))
    assert tick.fix is not None
    assert tick.fix.text.startswith(found.fix.text + "; if the tick goes on without: more than one runnable thread")


@pytest.mark.parametrize(
    ("timers", "text", "clocks"),
    [
        ((SELF,), "1 POSIX CPU timer of spin (100), if armed", "thread"),
        (
            (SELF, CpuTimer(pid=100, per_thread=False), CpuTimer(pid=9, per_thread=False)),
            "2 POSIX CPU timers of spin (100), if armed",
            "process, thread",
        ),
    ],
)
def test_timers_on_cpu_clocks(timers: tuple[CpuTimer, ...], text: str, clocks: str) -> None:
    found = only(spinning(timers={100: CpuTimers(limit_s=None, timers=timers)}), "TICK.POSIX")
    assert (found.outcome, found.detail) == (Outcome.WARN, f"may be kept by {text}")
    assert found.evidence == (Evidence(path="/proc/100/timers", field="ClockID", value=f"CPU time: {clocks}"),)
    assert found.fix is not None
    assert found.fix.text.startswith("have spin (100) disarm its timers on CPU-time clocks")


def test_no_timer_is_never_a_pass() -> None:
    other = CpuTimers(limit_s=None, timers=(CpuTimer(pid=9, per_thread=False),))
    for timers in ({}, {100: other}):
        found = only(spinning(timers=timers), "TICK.POSIX")
        assert found.outcome is Outcome.NOT_APPLICABLE
        assert found.detail == (
            "the tick runs; no RLIMIT_CPU and no timer on a CPU clock; "
            "setitimer(ITIMER_PROF, ITIMER_VIRTUAL) is told by no file"
        )


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (None, "not read"),
        (CpuTimers(limit_s=gone("proc/100/limits"), timers=()), "/proc/100/limits: missing for this test"),
        (CpuTimers(limit_s=None, timers=gone("proc/100/timers")), "/proc/100/timers: missing for this test"),
    ],
)
def test_timers_that_can_not_be_read(known: CpuTimers | None, reason: str) -> None:
    ctx = edit(spinning(), "after.limits.timers", {} if known is None else {100: known})
    found = only(ctx, "TICK.POSIX")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        f"the tick runs; limits and timers of process 100: {reason}",
    )


def test_a_sure_reason_outranks_a_possible_one() -> None:
    both = CpuTimers(limit_s=60, timers=(SELF,))
    ctx = spinning(limited=GENEROUS, timers={100: both})
    assert [f.outcome for f in findings(ctx, "TICK.POSIX")] == [Outcome.WARN, Outcome.WARN]
    tick = only(ctx, "TICK.LOC")
    assert tick.detail.endswith("yet the tick runs: kept by the limit of 4 CPUs on /high")
    assert tick.origin == "tick:quota /high:rlimit 100:timer 100"
    assert tick.fix == only(ctx, "QUOTA-TICK").fix


def test_a_process_that_ended_has_the_name_it_had() -> None:
    ended = replace(APP, ended=True)
    ctx = edit(spinning(own=[ended]), "before.limits.timers", {100: RLIMIT})
    assert "spin (100)" in only(ctx, "TICK.POSIX").detail
    assert only(spinning(timers={100: TIMER}), "TICK.POSIX").detail.endswith("of spin (100), if armed")


def test_without_the_timers_row_neither_says_anything() -> None:
    ctx = edit(spinning(limited=GENEROUS), "after.counters.interrupts", gone())
    for rule in ("QUOTA-TICK", "TICK.POSIX"):
        assert only(ctx, rule).outcome is Outcome.UNKNOWN


def test_refills_that_wake_the_timer_thread_are_the_limits_work() -> None:
    """On PREEMPT_RT the period timer expires in ktimers/N: it joins the cause whose fix lifts the limit."""
    thread = Thread(tid=177, name="ktimers/1", kernel=True, switches=100, run_ms=26)
    given: dict[str, Any] = {"threads": [thread], "switches": {1: 100}, "limited": GENEROUS}
    found = only(spinning(**given), "THR.KBOUND")
    assert (found.outcome, found.origin) == (Outcome.FAIL, "tick:quota /high")
    assert found.fix is not None
    assert found.fix.commands == ("echo max | sudo tee /sys/fs/cgroup/high/cpu.max",)
    few = {"/high": replace(GENEROUS["/high"], periods=49)}
    assert only(spinning(**{**given, "limited": few}), "THR.KBOUND").origin == "kthreads"
    assert only(spinning(**{**given, "limited": {}}), "THR.KBOUND").origin == "kthreads"
    rcuc = replace(thread, name="rcuc/1")
    assert only(spinning(**{**given, "threads": [rcuc]}), "THR.KBOUND").origin == "kthreads"


def test_own_threads_that_share_the_cpu_keep_the_tick_themselves() -> None:
    """Two threads of the workload take turns: a warning, whose fix pins them apart."""
    pair = [Thread(tid=tid, name="worker", on=cpus(1, 5), switches=400, run_ms=4900) for tid in (100, 101)]
    given: dict[str, Any] = {"audited": (1, 5), "switches": {1: 800, 5: 0}, "waited_s": {1: 9.8}, "own": pair}
    tick = next(f for f in findings(spinning(**given), "TICK.LOC") if f.cpus == (1,))
    assert tick.outcome is Outcome.WARN
    assert tick.detail.endswith("yet the tick runs: kept by 2 own threads that share this CPU")
    assert tick.fix is not None
    assert tick.fix.commands == ("sudo taskset -pc 1 100", "sudo taskset -pc 5 101")
    polling = next(f for f in findings(spinning(policy=Policy(busy_poll=True), **given), "TICK.LOC") if f.cpus == (1,))
    assert polling.outcome is Outcome.FAIL


@pytest.mark.parametrize(("release", "named"), [(NEW, True), ("6.11.0", False), ("odd", False)])
def test_the_fair_server_is_among_what_may_keep_it(release: str, named: bool) -> None:
    fix = only(spinning(release=release), "TICK.LOC").fix
    assert fix is not None
    assert fix.text.startswith("something keeps the tick: ")
    assert ("the fair server (a fault of some kernels" in fix.text) is named
