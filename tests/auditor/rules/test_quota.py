"""CPU limits: found on any level, judged by their counters, lifted where they are set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.causes import rank
from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, FixKind, Outcome
from auditor.own import OwnRule
from probes.cgroup_cpu import CgroupCpu
from probes.host import ProbeError, SourceState
from probes.snapshot import OwnLimits
from tests.auditor.build import Limited, Thread, context, cpus, edit, findings, gone, group, only

APP = Thread(run_ms=9900, cgroup="/low/pod/app")
TWICE = "such a limit keeps the tick of a nohz_full CPU while an ordinary thread runs (since 6.6)"


def limited(own: Thread = APP, *, nohz: bool = False, **given: Limited) -> Context:
    """A spinner below /low; ``low=`` and the like name a level by its last part."""
    names = {"low": "/low", "pod": "/low/pod", "app": "/low/pod/app", "pods": "/kubepods.slice"}
    levels = {names.get(name, name): value for name, value in given.items()}
    return context(own=[own], limited=levels, nohz_full=None if nohz else cpus())


def cgroups(ctx: Context, **changes: Any) -> Context:
    """The same with other limits read at both ends."""
    for end in ("before", "after"):
        known = getattr(ctx.observation, end).limits
        ctx = edit(ctx, f"{end}.limits", replace(known, cgroups=replace(known.cgroups, **changes)))
    return ctx


def test_no_limit_anywhere() -> None:
    found = only(limited(), "CFG.QUOTA")
    assert (found.outcome, found.axis, found.cpus) == (Outcome.PASS, Axis.READINESS, (1,))
    assert found.detail == "no limit on any of 3 cgroups from the own threads up"


def test_the_root_cgroup_has_none() -> None:
    found = only(limited(replace(APP, cgroup="/")), "CFG.QUOTA")
    assert (found.outcome, found.detail) == (Outcome.PASS, "in the root cgroup: no limit")


def test_a_limit_of_an_ancestor_that_ran_out() -> None:
    low = Limited(quota_us=30_000, periods=107, throttled=106, throttled_us=7_747_834)
    found = only(limited(low=low, app=Limited(waited_us=7_747_834)), "CFG.QUOTA")
    assert (found.outcome, found.title) == (Outcome.FAIL, "CPU limit: /low")
    assert (found.observed, found.limit, found.unit) == (106, 0, "throttled periods")
    assert found.detail == (
        "0.3 CPUs: 30000 µs in each 100000 µs; 106 of 107 periods throttled, 7748 ms summed over CPUs; "
        "the own cgroups waited 7748 ms"
    )
    path = "/sys/fs/cgroup/low"
    assert found.evidence == (
        Evidence(path=f"{path}/cpu.max", field="quota period", value="30000 100000"),
        Evidence(path=f"{path}/cpu.stat", field="nr_periods", value="+107"),
        Evidence(path=f"{path}/cpu.stat", field="nr_throttled", value="+106"),
        Evidence(path=f"{path}/cpu.stat", field="throttled_usec", value="+7747834 µs"),
    )
    assert found.fix is not None
    assert (found.fix.kind, found.fix.commands) == (
        FixKind.RUNTIME,
        ("echo max | sudo tee /sys/fs/cgroup/low/cpu.max",),
    )
    assert found.fix.undo == "echo '30000 100000' | sudo tee /sys/fs/cgroup/low/cpu.max"


def test_before_6_6_the_counters_of_the_level_decide() -> None:
    low = Limited(quota_us=30_000, throttled=1, throttled_us=4_321)
    found = only(limited(low=low, app=Limited(waited_us=None)), "CFG.QUOTA")
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith("1 of 100 periods throttled, 4.32 ms summed over CPUs")


@pytest.mark.parametrize(
    ("throttled", "throttled_us", "waited_us", "outcome"),
    [
        (0, 0, 0, Outcome.WARN),
        (1, 0, 0, Outcome.FAIL),  # throttling that has not ended: nobody's time is counted yet
        (0, 5, 5, Outcome.FAIL),
        (5, 900, 900, Outcome.FAIL),
        (5, 900, 0, Outcome.WARN),  # of others below the same limit
        (5, 900, None, Outcome.FAIL),
    ],
)
def test_when_it_ran_out(throttled: int, throttled_us: int, waited_us: int | None, outcome: Outcome) -> None:
    low = Limited(quota_us=200_000, throttled=throttled, throttled_us=throttled_us)
    found = only(limited(low=low, app=Limited(waited_us=waited_us)), "CFG.QUOTA")
    assert found.outcome is outcome
    spared = "others below that limit, not the own threads" in found.detail
    assert spared == (throttled_us == 900 and waited_us == 0)


def test_each_finite_level_is_told_the_outermost_first() -> None:
    found = findings(
        limited(low=Limited(quota_us=400_000), app=Limited(quota_us=100_000, throttled=3, waited_us=9)), "CFG.QUOTA"
    )
    assert [(f.title, f.outcome) for f in found] == [
        ("CPU limit: /low", Outcome.WARN),
        ("CPU limit: /low/pod/app", Outcome.FAIL),
    ]


def test_on_a_nohz_full_cpu_the_tick_is_a_risk() -> None:
    assert only(limited(nohz=True, low=Limited(quota_us=400_000)), "CFG.QUOTA").detail.endswith(f"throttled; {TWICE}")
    assert TWICE not in only(limited(low=Limited(quota_us=400_000)), "CFG.QUOTA").detail


def test_a_limit_that_was_set_or_lifted_within_the_window() -> None:
    """Finite at one end is finite; a level that counted nothing before counts from 0."""
    ctx = limited(low=Limited(quota_us=30_000, throttled=4, throttled_us=4), app=Limited(waited_us=4))
    for end, kept in (("before", "after"), ("after", "before")):
        known = getattr(ctx.observation, end).limits.cgroups.groups
        lifted = {**known, "/low": replace(known["/low"], limit=None)}
        changed = edit(ctx, f"{end}.limits.cgroups.groups", lifted)
        assert only(changed, "CFG.QUOTA").outcome is Outcome.FAIL, kept
    known = ctx.observation.before.limits.cgroups.groups
    fresh = {**known, "/low": replace(known["/low"], limit=None, throttling=None)}
    found = only(edit(ctx, "before.limits.cgroups.groups", fresh), "CFG.QUOTA")
    assert found.observed == 1004


@pytest.mark.parametrize("value", [gone(state=SourceState.DENIED), None])
def test_counters_that_can_not_be_read_leave_how_often_open(value: ProbeError | None) -> None:
    ctx = limited(low=Limited(quota_us=30_000, throttled=4))
    known = ctx.observation.after.limits.cgroups.groups
    ctx = edit(ctx, "after.limits.cgroups.groups", {**known, "/low": replace(known["/low"], throttling=value)})
    found = only(ctx, "CFG.QUOTA")
    assert (found.outcome, found.observed, found.limit) == (Outcome.WARN, None, None)
    assert found.detail.endswith("how often it ran out is not told")
    known = {**known, "/low": replace(known["/low"], throttling=value)}
    waited = {**known, "/low/pod/app": replace(known["/low/pod/app"], waited_us=5000)}
    found = only(edit(ctx, "after.limits.cgroups.groups", waited), "CFG.QUOTA")
    assert found.outcome is Outcome.FAIL


def test_counters_that_fell_are_those_of_another_cgroup() -> None:
    ctx = limited(low=Limited(quota_us=30_000, throttled=4))
    ends = ctx.observation
    ctx = edit(ctx, "before.limits.cgroups", ends.after.limits.cgroups)
    ctx = edit(ctx, "after.limits.cgroups", ends.before.limits.cgroups)
    assert only(ctx, "CFG.QUOTA").observed is None


def test_what_waited_for_a_limit_that_a_namespace_hides() -> None:
    hidden = ProbeError("proc/self/ns/cgroup", "read from a cgroup namespace", SourceState.MASKED)
    ctx = cgroups(limited(app=Limited(waited_us=12_345)), hidden=hidden)
    found = only(ctx, "CFG.QUOTA")
    assert (found.outcome, found.observed, found.limit) == (Outcome.FAIL, 12.345, 0)
    assert found.title == "CPU limit: above /low/pod/app"
    assert found.detail.startswith("cgroup /low/pod/app waited 12 ms, summed over CPUs, for a limit that can't be seen")
    both = cgroups(limited(app=Limited(quota_us=400_000, waited_us=5)), hidden=hidden)
    assert [f.outcome for f in findings(both, "CFG.QUOTA")] == [Outcome.WARN, Outcome.FAIL]


def test_a_gap_anywhere_keeps_it_from_passing() -> None:
    ctx = limited()
    hidden = ProbeError("proc/self/ns/cgroup", "read from a cgroup namespace", SourceState.MASKED)
    denied = ProbeError("sys/fs/cgroup/low/cpu.max", "permission denied", SourceState.DENIED)
    groups = ctx.observation.after.limits.cgroups.groups
    cases = (
        cgroups(ctx, hidden=hidden),
        edit(ctx, "before.limits.cgroups.hidden", hidden),
        edit(ctx, "after.limits.cgroups.groups", {**groups, "/low": replace(groups["/low"], limit=denied)}),
        cgroups(ctx, paths={APP.key: denied}),
        edit(ctx, "after.limits.cgroups.paths", {APP.key: denied}),
        cgroups(ctx, paths={}, groups={}),
    )
    for case in cases:
        found = only(case, "CFG.QUOTA")
        assert found.outcome is Outcome.UNKNOWN
        assert found.detail.startswith("no limit is seen, but not all is: /")


def test_a_finite_limit_is_told_whatever_else_is_hidden() -> None:
    hidden = ProbeError("proc/self/ns/cgroup", "read from a cgroup namespace", SourceState.MASKED)
    assert only(cgroups(limited(pod=Limited(quota_us=1000)), hidden=hidden), "CFG.QUOTA").outcome is Outcome.WARN


def test_a_thread_that_ended_is_where_its_process_is() -> None:
    ended = Thread(tid=101, pid=100, run_ms=5, cgroup="/low/pod/app", ended=True)
    ctx = context(own=[APP, ended])
    paths = dict(ctx.observation.before.limits.cgroups.paths)
    missing = ProbeError("proc/100/task/101/cgroup", "no such file", SourceState.MISSING)
    assert only(edit(ctx, "before.limits.cgroups.paths", {**paths, ended.key: missing}), "CFG.QUOTA").outcome is (
        Outcome.PASS
    )
    lone = edit(ctx, "before.limits.cgroups.paths", {**paths, ended.key: gone(state=SourceState.DENIED)})
    assert only(lone, "CFG.QUOTA").outcome is Outcome.UNKNOWN


def test_a_thread_that_was_moved_below_a_limit_within_the_window() -> None:
    """How often it ran out since then is not told by its totals."""
    free = context(own=[replace(APP, cgroup="/free")]).observation.before.limits
    ctx = edit(limited(low=Limited(quota_us=30_000, throttled=9)), "before.limits", free)
    found = only(ctx, "CFG.QUOTA")
    assert (found.outcome, found.observed, found.title) == (Outcome.WARN, None, "CPU limit: /low")


def test_cpus_of_nobody_and_of_somebody() -> None:
    two = replace(APP, tid=200, on=cpus(5), cgroup="/other")
    given: dict[str, Any] = {"own": [APP, two], "limited": {"/low": Limited(quota_us=1000)}}
    found = findings(context(audited=(1, 3, 5), **given), "CFG.QUOTA")
    assert [(f.cpus, f.outcome) for f in found] == [
        ((1,), Outcome.WARN),
        ((3,), Outcome.NOT_APPLICABLE),
        ((5,), Outcome.PASS),
    ]
    assert found[1].detail == "no own thread may run here"


def test_own_threads_beside_the_audited_cpus_are_not_judged() -> None:
    """A helper of the workload that runs on housekeeping CPUs only."""
    helper = replace(APP, tid=200, on=cpus(0), cgroup="/helper")
    rule = OwnRule(audited=cpus(1), workload="app")
    given: dict[str, Any] = {"own": [replace(APP, cgroup="/"), helper], "own_rule": rule}
    limits = {"/helper": Limited(quota_us=1000, throttled=1, waited_us=9)}
    assert [(f.cpus, f.outcome) for f in findings(context(limited=limits, **given), "CFG.QUOTA")] == [
        ((1,), Outcome.PASS)
    ]
    unseen = {"/helper": Limited(waited_us=9)}
    assert [f.outcome for f in findings(context(limited=unseen, **given), "CFG.QUOTA")] == [Outcome.PASS]


def test_where_own_threads_may_be_hidden_nothing_passes() -> None:
    assert [f.outcome for f in findings(context(complete=False), "CFG.QUOTA")] == [Outcome.UNKNOWN]
    found = only(context(own=[APP], complete=False), "CFG.QUOTA")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == "no limit is seen, but not all is: not all own threads are visible"


def fix_of(path: str, version: int = 2, *, quota_us: int = 250_000, period_us: int = 100_000) -> Finding:
    """What is found where one level is limited."""
    ctx = context(own=[replace(APP, cgroup=path)])
    given = Limited(quota_us=quota_us, period_us=period_us)
    for end in ("before", "after"):
        levels = {path: group(path, given, after=end == "after", version=version)}
        limits = OwnLimits(cgroups=CgroupCpu(paths={APP.key: path}, groups=levels))
        ctx = edit(ctx, f"{end}.limits", limits)
    return only(ctx, "CFG.QUOTA")


@pytest.mark.parametrize(
    ("path", "version", "command", "undo"),
    [
        (
            "/a b;$(x)",
            2,
            "echo max | sudo tee '/sys/fs/cgroup/a b;$(x)/cpu.max'",
            "echo '250000 100000' | sudo tee '/sys/fs/cgroup/a b;$(x)/cpu.max'",
        ),
        (
            "/docker/9f",
            1,
            "echo -1 | sudo tee /sys/fs/cgroup/cpu/docker/9f/cpu.cfs_quota_us",
            "echo 250000 | sudo tee /sys/fs/cgroup/cpu/docker/9f/cpu.cfs_quota_us",
        ),
        (
            "/system.slice/app\\x2d1.service",
            2,
            "sudo systemctl set-property -- 'app\\x2d1.service' CPUQuota=",
            "sudo systemctl set-property -- 'app\\x2d1.service' CPUQuota=250%",
        ),
        (
            "/user.slice/user@1000.service/app.slice",
            2,
            "echo max | sudo tee /sys/fs/cgroup/user.slice/user@1000.service/app.slice/cpu.max",
            "echo '250000 100000' | sudo tee /sys/fs/cgroup/user.slice/user@1000.service/app.slice/cpu.max",
        ),
        (
            "/kubepods.slice/kubepods-pod1.slice",
            2,
            "echo max | sudo tee /sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cpu.max",
            "echo '250000 100000' | sudo tee /sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cpu.max",
        ),
    ],
)
def test_a_limit_is_lifted_where_it_was_set(path: str, version: int, command: str, undo: str) -> None:
    fix = fix_of(path, version).fix
    assert fix is not None
    assert (fix.commands, fix.undo) == ((command,), undo)
    assert (fix.kind is FixKind.KUBELET) == ("kubepods" in path)
    assert ("from 1.33 on for Guaranteed pods with exclusive CPUs" in fix.text) == ("kubepods" in path)


def test_another_period_is_restored_too() -> None:
    fix = fix_of("/system.slice/app.service", quota_us=12_345, period_us=20_000).fix
    assert fix is not None
    assert fix.undo == "sudo systemctl set-property -- app.service CPUQuota=61.725% CPUQuotaPeriodSec=20000us"


def test_the_field_of_v1() -> None:
    assert [item.field for item in fix_of("/docker/9f", 1).evidence][-1] == "throttled_time"


def test_what_ran_out_is_a_cause_of_its_own_and_no_share_of_the_disturbance() -> None:
    low = Limited(quota_us=30_000, periods=107, throttled=106, throttled_us=7_000_000)
    found = only(limited(low=low, app=Limited(waited_us=6_000_000)), "CFG.QUOTA")
    assert (found.origin, found.per_second, found.cost_us_per_s) == ("tick:quota /low", 10.6, 600_000)
    untold = only(limited(low=low, app=Limited(waited_us=None)), "CFG.QUOTA")
    assert untold.cost_us_per_s == 700_000
    assert [(cause.title, cause.share) for cause in rank([found])] == [("readiness: CPU limit: /low", None)]


def test_what_did_not_run_out_is_none() -> None:
    found = only(limited(low=Limited(quota_us=30_000)), "CFG.QUOTA")
    assert (found.outcome, found.per_second, found.cost_us_per_s) == (Outcome.WARN, 0, 0)
    assert rank([found]) == ()


def test_a_limit_that_is_not_seen_is_a_cause_as_well() -> None:
    found = only(limited(app=Limited(waited_us=50_000)), "CFG.QUOTA")
    assert (found.origin, found.cost_us_per_s) == ("quota above /low/pod/app", 5_000)
    assert found.fix is not None
    assert found.fix.text == "find the limit above /low/pod/app on the host, and lift it there"
