"""The commands that move threads of others: for these threads, safe for a shell, and none that can't work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Fix, FixKind, Outcome
from auditor.own import OwnRule
from auditor.rules.thread_fix import BOUND, GENERIC, bound_fix, thread_fix
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, only, outcomes, queues

ANYWHERE = cpus(0, 1, 2, 3)
PINNED = Thread(tid=500, name="noise", cgroup="/system.slice/noise.service", switches=50, run_ms=90)
STUCK = Thread(tid=600, name="hog", cgroup="/user.slice", on=ANYWHERE, run_ms=9_900)
SHORT = Thread(tid=650, name="brief", cgroup="/user.slice", on=ANYWHERE, switches=99, run_ms=110, seen={1: 5})
KWORKER = Thread(
    tid=22, name="kworker/u8:1-events_unbound", kernel=True, on=cpus(0, 1, 2, 3), switches=430, seen={1: 4}
)
BOUND_WORKER = Thread(tid=21, name="kworker/1:0-events", kernel=True, switches=3)
OPEN = {"domains": {1: [cpus(0, 1)]}, "isolated": cpus(), "nohz_full": cpus(), "cmdline": "quiet"}


def ctx(*threads: Thread, **given: Any) -> Context:
    """CPUs 1 and 3 belong to someone named, so that what is pinned there as well is foreign."""
    rule = OwnRule(audited=cpus(1, 3), workload="app")
    values: dict[str, Any] = {
        "audited": (1, 3),
        "control": (0, 2),
        "switches": {1: sum(thread.switches for thread in threads)},
        **given,
    }
    return context(own_rule=rule, own=[Thread(name="app", on=cpus(3))], threads=threads, **values)


def held(*threads: Thread, **given: Any) -> Context:
    return ctx(*threads, **{"switches": {1: 0}, "busy": {1: 0.99}, **given})


def test_a_pinned_thread_is_moved_now_and_its_unit_for_good() -> None:
    fix = only_fix(ctx(PINNED))
    assert fix.kind is FixKind.RUNTIME
    assert fix.text == "move noise (500) away, pinned here: taskset for now, AllowedCPUs= for good"
    assert fix.commands == (
        "sudo taskset -pc 0,2 500",
        "sudo systemctl set-property noise.service AllowedCPUs=0,2",
    )
    assert fix.undo == "sudo taskset -pc 1 500; sudo systemctl set-property noise.service AllowedCPUs="


def only_fix(seen: Context) -> Fix:
    """The fix of THR.FOREIGN, which THR.USER shares: they are one cause."""
    bad = (Outcome.WARN, Outcome.FAIL)
    fixes = [item.fix for rule in ("THR.FOREIGN", "THR.USER") for item in findings(seen, rule) if item.outcome in bad]
    assert fixes
    assert fixes[0] is not None
    assert all(fix == fixes[0] for fix in fixes)
    return fixes[0]


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("/system.slice/a.service", "a.service"),
        ("/system.slice/a.service/sub", "a.service"),
        ("/system.slice/$(reboot) ;x.service", "'$(reboot) ;x.service'"),
        ("/system.slice/dev-disk\\x2d1.service", "'dev-disk\\x2d1.service'"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/b.service", ""),
        ("/user.slice/user-1000.slice/session-3.scope", ""),
        ("/kubepods.slice/kubepods-pod1.slice/x.service", ""),
        ("/", ""),
        ("", ""),
    ],
)
def test_units_of_the_system_only_and_quoted(cgroup: str, unit: str) -> None:
    fix = thread_fix(ctx(replace(PINNED, cgroup=cgroup)))
    assert fix.commands[1:] == ((f"sudo systemctl set-property {unit} AllowedCPUs=0,2",) if unit else ())


def test_without_cgroup_v2_a_unit_has_no_allowed_cpus() -> None:
    assert thread_fix(ctx(PINNED, partitions=gone())).commands == ("sudo taskset -pc 0,2 500",)


def test_a_thread_that_holds_the_cpu_is_named_and_does_not_leave_by_itself() -> None:
    seen = held(STUCK)
    user = findings(seen, "THR.USER")[0]
    assert (user.outcome, user.cpus, user.title) == (Outcome.FAIL, (1,), "foreign user threads: hog")
    assert user.detail == "hog: held the CPU throughout, 9900.0 ms, free to run on CPUs 0-3"
    assert (user.observed, user.limit, user.unit) == (9900, 10, "ms")
    assert user.evidence[0].value == "+9900000000"
    assert round(user.cost_us_per_s) == 990_000
    foreign = findings(seen, "THR.FOREIGN")[0]
    assert (foreign.outcome, foreign.cost_us_per_s) == (Outcome.FAIL, 0.0)
    fix = only_fix(seen)
    assert fix.text == (
        "move hog (600) away: allowed on CPUs 0-3, but nothing balances an isolated CPU: it does not leave by itself"
    )
    assert (fix.commands, fix.undo) == (("sudo taskset -pc 0,2 600",), "sudo taskset -pc 0-3 600")


def test_one_that_sampling_finds_there_and_nowhere_else_is_stuck_too() -> None:
    seen = ctx(SHORT, busy={1: 0.02}, ran_s={1: 0.11})
    user = findings(seen, "THR.USER")[0]
    assert user.detail == "brief: seen in 5 samples and nowhere else, 110.0 ms, free to run on CPUs 0-3"
    assert (user.outcome, user.observed, user.limit, user.unit) == (Outcome.FAIL, 5, 3, "runs")
    assert round(user.cost_us_per_s) == 11_000
    assert only_fix(seen).commands == ("sudo taskset -pc 0,2 650",)
    elsewhere = ctx(replace(SHORT, seen={1: 3, 2: 1}))
    assert findings(elsewhere, "THR.USER")[0].detail == "brief: seen in 3 samples"
    assert thread_fix(elsewhere).commands == ()


def test_who_it_was_stays_open_between_two() -> None:
    seen = held(STUCK, replace(STUCK, tid=601, name="other"))
    found = findings(seen, "THR.USER")[0]
    assert (found.outcome, found.cpus) == (Outcome.UNKNOWN, (1,))
    assert found.detail == "none was seen here; who held the CPU throughout, if anyone did, can't be told"
    foreign = findings(seen, "THR.FOREIGN")[0]
    assert foreign.detail.endswith("another thread held the CPU; it may be hog, other")
    assert round(foreign.cost_us_per_s) == 990_000
    assert thread_fix(seen).text == GENERIC


def test_two_threads_on_two_held_cpus_are_both_guilty() -> None:
    pair = [STUCK, replace(STUCK, tid=601)]
    rule = OwnRule(audited=cpus(1, 3), workload="app")
    seen = context(
        audited=(1, 3), control=(0, 2), own_rule=rule, own=[Thread(name="app")], threads=pair, busy={1: 1.0, 3: 1.0}
    )
    found = findings(seen, "THR.USER")
    assert [(item.outcome, item.cpus) for item in found] == [(Outcome.FAIL, (1,)), (Outcome.FAIL, (3,))]
    assert [round(item.cost_us_per_s) for item in found] == [1_000_000, 1_000_000]
    assert thread_fix(seen).commands == ("sudo taskset -pc 0,2 600", "sudo taskset -pc 0,2 601")


@pytest.mark.parametrize(
    "given",
    [
        {"complete": False},  # a hidden thread may have held it
        {"busy": {1: 0.6}},  # it ran longer than the CPU was busy: elsewhere
    ],
)
def test_a_suspect_is_no_culprit(given: dict[str, Any]) -> None:
    found = findings(held(STUCK, **given), "THR.USER")[0]
    assert (found.outcome, found.cpus) == (Outcome.UNKNOWN, (1,))


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [
        (Thread(name="app", on=cpus(1, 3), switches=1, run_ms=8500), Outcome.UNKNOWN),
        (Thread(name="app", on=cpus(1, 3), switches=1, ended=True), Outcome.UNKNOWN),
        (Thread(name="app", on=cpus(1, 3), switches=1, run_ms=3000), Outcome.FAIL),
    ],
)
def test_where_ours_may_have_held_it_nobody_is_named(ours: Thread, outcome: Outcome) -> None:
    rule = OwnRule(audited=cpus(1, 3), workload="app")
    given: dict[str, Any] = {"busy": {1: 0.99}, "switches": {3: 1}, "threads": [STUCK]}
    seen = context(audited=(1, 3), control=(0, 2), own_rule=rule, own=[ours], **given)
    assert [(item.outcome, item.cpus) for item in findings(seen, "THR.USER")] == [
        (outcome, (1,)),
        (Outcome.PASS, (3,)),
    ]


def test_a_kernel_thread_may_have_held_it_as_well() -> None:
    kernel = Thread(tid=30, name="kswapd0", kernel=True, on=ANYWHERE, run_ms=9_900)
    assert findings(held(STUCK, kernel), "THR.USER")[0].outcome is Outcome.UNKNOWN
    alone = findings(held(kernel), "THR.KUNBOUND")[0]
    assert (alone.outcome, alone.title) == (Outcome.FAIL, "unbound kernel threads: kswapd0")
    assert alone.fix is not None
    assert alone.fix.commands == ("sudo taskset -pc 0,2 30",)


def test_who_was_there_at_the_start_was_not_nobody() -> None:
    late = Thread(name="app", switches=1, run_ms=5000)
    seen = context(switches={1: 1}, busy={1: 1.0}, own=[late])
    found = only(seen, "THR.USER")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == (
        "none was seen here; yet busy 5.0 s more than own threads ran: another was there at the start"
    )


def test_most_first_and_at_most_three() -> None:
    many = [replace(PINNED, tid=500 + n, name=f"n{n}", cgroup="/", run_ms=n) for n in range(5)]
    fix = thread_fix(ctx(*many))
    assert fix.commands == tuple(f"sudo taskset -pc 0,2 {tid}" for tid in (504, 503, 502))
    assert fix.text == "move n4 (504), n3 (503), n2 (502) and 2 more threads away, pinned here: taskset for now"
    assert "n2 (502) and 1 more thread away" in thread_fix(ctx(*many[1:])).text


def test_no_command_for_one_that_is_gone_or_has_left() -> None:
    ended = replace(PINNED, ended=True, least=50)
    assert thread_fix(ctx(ended)).text == GENERIC
    left = replace(PINNED, on=cpus(0), on_before=cpus(1))
    assert thread_fix(ctx(left, busy={1: 0.02})).commands == ()
    blind = edit(ctx(PINNED), "after.census", gone())
    assert thread_fix(blind).commands == ()


def test_threads_of_pods_come_back() -> None:
    pod = replace(SHORT, cgroup="/kubepods.slice/kubepods-pod1.slice/cri-x.scope")
    text = thread_fix(ctx(pod, replace(pod, tid=651))).text
    assert text == (
        "move brief (650), brief (651) away: allowed on CPUs 0-3, but nothing balances an isolated CPU: they do not "
        "leave by themselves; they belong to pods: isolate only CPUs that the kubelet hands out exclusively, "
        "or reserve them"
    )


def test_kernel_threads_that_taskset_can_not_move_get_no_command() -> None:
    irq = Thread(tid=40, name="irq/30-eth0", kernel=True, on=cpus(0, 1), switches=9, seen={1: 4})
    for thread in (BOUND_WORKER, irq, KWORKER):
        assert thread_fix(ctx(thread, workqueues=queues(cpus(0, 2)))).commands == ()


def test_of_bound_threads_alone_it_says_that_they_stay() -> None:
    seen = ctx(BOUND_WORKER)
    assert thread_fix(seen) == bound_fix(seen) == Fix(kind=FixKind.RUNTIME, text=BOUND)
    assert only_fix(seen) == findings(seen, "THR.KBOUND")[0].fix
    assert thread_fix(ctx(BOUND_WORKER, KWORKER, workqueues=queues(cpus(0)))).text == GENERIC


def test_an_unbound_worker_is_kept_out_by_the_mask() -> None:
    seen = ctx(KWORKER, workqueues=queues(ANYWHERE))
    fix = findings(seen, "THR.KUNBOUND")[0].fix
    assert fix is not None
    assert fix.text == "let unbound work run on CPUs 0,2 only"
    assert fix.commands == ("echo 5 | sudo tee /sys/devices/virtual/workqueue/cpumask",)
    assert fix.undo == "echo f | sudo tee /sys/devices/virtual/workqueue/cpumask"
    assert findings(seen, "THR.FOREIGN")[0].fix == fix
    worker = findings(ctx(replace(KWORKER, run_ms=37), busy={1: 0.2}, workqueues=queues(ANYWHERE)), "THR.KUNBOUND")[0]
    assert round(worker.cost_us_per_s) == 3_700  # found nowhere else: the time ranks its cause
    both = thread_fix(ctx(KWORKER, PINNED, workqueues=queues(ANYWHERE)))
    assert both.commands[0] == "sudo taskset -pc 0,2 500"
    assert both.commands[-1] == "echo 5 | sudo tee /sys/devices/virtual/workqueue/cpumask"
    unknown = ctx(KWORKER, workqueues=gone())
    assert thread_fix(unknown).text == GENERIC


def test_with_the_domain_open_the_boot_line_comes_first_and_what_is_pinned_is_moved_as_well() -> None:
    fix = thread_fix(ctx(PINNED, SHORT, KWORKER, workqueues=queues(ANYWHERE), **OPEN))
    assert (fix.kind, fix.reboot) == (FixKind.BOOT, True)
    assert fix.text == (
        "keep other threads off: isolate these CPUs at boot: isolcpus=domain,managed_irq,1,3 nohz_full=1,3 "
        "rcu_nocbs=1,3 irqaffinity=0,2; move noise (500) away, pinned here: taskset for now, AllowedCPUs= for good"
    )
    assert fix.commands[0] == "sudo taskset -pc 0,2 500"
    assert fix.undo.endswith("AllowedCPUs=; remove the parameters and reboot")
    plain = ctx(BOUND_WORKER, **OPEN)
    assert bound_fix(plain) == thread_fix(plain)
    assert (thread_fix(plain).kind, thread_fix(plain).commands) == (FixKind.BOOT, ())


def test_a_quiet_host_needs_no_fix() -> None:
    assert [item.fix for rule in ("THR.USER", "THR.KBOUND", "THR.KUNBOUND") for item in findings(ctx(), rule)] == [
        None
    ] * 6
    assert outcomes(ctx(), "THR.USER") == [Outcome.PASS, Outcome.PASS]


def test_without_nohz_full_the_tick_is_what_keeps_bound_threads_at_work() -> None:
    """rcuc/N of a CPU that only isolcpus=domain covers: the boot line has the parameter that is missing."""
    rcuc = Thread(tid=31, name="rcuc/1", kernel=True, switches=56, run_ms=30)
    line = "isolcpus=domain,managed_irq,1 rcu_nocbs=1 irqaffinity=0"
    ctx = context(switches={1: 56}, threads=[rcuc], nohz_full=cpus(), cmdline=line)
    for rule in ("THR.KBOUND", "THR.FOREIGN"):
        fix = findings(ctx, rule)[0].fix
        assert fix is not None
        assert fix.text.startswith("nohz_full stops the tick and what it brings to the CPU's own threads")
        assert fix.boot["nohz_full"] == "1"
    in_force = findings(context(switches={1: 56}, threads=[rcuc]), "THR.KBOUND")[0].fix
    assert in_force is not None
    assert in_force.text.startswith("kernel threads bound to a CPU can't be moved")


VMSTAT_WORKER = replace(BOUND_WORKER, name="kworker/1:2-mm_percpu_wq")


@pytest.mark.parametrize(
    ("thread", "release", "commands"),
    [
        (VMSTAT_WORKER, "6.1.0-13-amd64", ("sudo sysctl -w vm.stat_interval=120",)),
        (VMSTAT_WORKER, "6.5.0", ()),  # leaves out isolated CPUs by itself
        (BOUND_WORKER, "6.1.0-13-amd64", ()),
    ],
)
def test_vmstat_work_is_made_rare_where_the_kernel_queues_it(thread: Thread, release: str, commands: Any) -> None:
    fix = bound_fix(ctx(thread, release=release))
    assert (fix.kind, fix.commands) == (FixKind.RUNTIME, commands)
    assert fix.text.startswith(BOUND)
    assert ("vm.stat_interval" in fix.text, fix.undo) == (
        (True, "sudo sysctl -w vm.stat_interval=1") if commands else (False, "")
    )
