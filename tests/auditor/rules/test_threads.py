"""Foreign switches, and the names behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, FixKind, Outcome
from auditor.own import OwnRule
from auditor.rules.presence import balance_of
from probes.host import SourceState
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, irq, only, outcomes

SLEEPER = Thread(switches=10_000, run_ms=300)
SPINNER = Thread(switches=0, run_ms=9900)
FIFO = Thread(tid=300, name="rogue", cgroup="/rogue", on=cpus(0, 1), run_ms=9900)


def foreign(**given: Any) -> tuple[Outcome, float | None]:
    found = only(context(**given), "THR.FOREIGN")
    return found.outcome, found.observed


@pytest.mark.parametrize(
    ("switches", "outcome"), [(0, Outcome.PASS), (1, Outcome.WARN), (15, Outcome.WARN), (16, Outcome.FAIL)]
)
def test_any_foreign_switch_warns_and_more_than_one_a_second_fails(switches: int, outcome: Outcome) -> None:
    assert foreign(switches={1: switches}) == (outcome, switches / 10)


def test_what_is_shown() -> None:
    found = only(context(switches={1: 10_017}, own=[SLEEPER]), "THR.FOREIGN")
    assert (found.outcome, found.detail) == (Outcome.FAIL, "10017 switches, 10000 own, 17 foreign")
    assert found.evidence == (Evidence(path="/proc/schedstat", field="cpu1 field 9", value="+10017"),)
    assert (found.limit, found.unit, found.origin, found.per_second) == (1, "/s", "threads", 1.7)
    assert found.fix is not None


def test_own_switches_are_subtracted_exactly_where_they_are_exact() -> None:
    assert foreign(switches={1: 10_000}, own=[SLEEPER]) == (Outcome.PASS, 0)
    assert foreign(switches={1: 10_001}, own=[SLEEPER]) == (Outcome.WARN, 0.1)


@pytest.mark.parametrize(
    ("least", "total", "outcome", "detail"),
    [
        (9_990, 10_000, Outcome.PASS, "10000 switches, 9990 to 10000 own, 0 to 10 foreign"),
        (9_989, 10_000, Outcome.UNKNOWN, "10000 switches, 9989 to 10000 own, 0 to 11 foreign"),
        (9_986, 10_001, Outcome.WARN, "10001 switches, 9986 to 10000 own, 1 to 15 foreign"),
        (9_985, 10_001, Outcome.UNKNOWN, "10001 switches, 9985 to 10000 own, 1 to 16 foreign"),
        (5_000, 10_017, Outcome.FAIL, "10017 switches, 5000 to 10000 own, 17 to 5017 foreign"),
    ],
)
def test_an_interval_that_reaches_the_limit_is_unknown(least: int, total: int, outcome: Outcome, detail: str) -> None:
    found = only(context(switches={1: total}, own=[Thread(switches=10_000, least=least)]), "THR.FOREIGN")
    assert (found.outcome, found.detail) == (outcome, detail)


def test_an_own_thread_that_ended_leaves_no_upper_bound() -> None:
    found = only(context(switches={1: 100}, own=[Thread(switches=100, ended=True)]), "THR.FOREIGN")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == "100 switches, 75 to ? own, 0 to 25 foreign"


def test_an_own_thread_that_began_counts_from_nothing() -> None:
    assert foreign(switches={1: 100}, own=[Thread(switches=100, new=True)]) == (Outcome.PASS, 0)


def test_two_cpus_that_an_own_thread_shares_are_balanced_together() -> None:
    ctx = context(audited=(1, 5), switches={1: 700, 5: 320}, own=[Thread(switches=1000, on=cpus(1, 5))])
    found = only(ctx, "THR.FOREIGN")
    assert (found.cpus, found.outcome, found.observed) == ((1, 5), Outcome.FAIL, 2)
    assert balance_of(ctx, 1) == balance_of(ctx, 5)
    assert balance_of(ctx, 0) is None


def test_cpus_that_no_own_thread_shares_are_balanced_apart() -> None:
    ctx = context(audited=(1, 5), switches={1: 0, 5: 17})
    assert [(f.cpus, f.outcome) for f in findings(ctx, "THR.FOREIGN")] == [((1,), Outcome.PASS), ((5,), Outcome.FAIL)]


def test_where_own_threads_may_be_hidden_a_switch_is_unknown_and_none_is_none() -> None:
    assert foreign(complete=False, switches={1: 17}) == (Outcome.UNKNOWN, 0)
    assert foreign(complete=False, switches={1: 0}) == (Outcome.PASS, 0)


def test_the_soft_lockup_watchdog_is_no_foreigner_up_to_its_rate() -> None:
    watchdog = Thread(tid=20, name="migration/1", kernel=True, switches=3)
    found = only(context(switches={1: 3}, threads=[watchdog]), "THR.FOREIGN")
    assert found.outcome is Outcome.PASS
    assert found.detail == "3 switches, 0 own, 3 foreign, 3 of them the soft-lockup watchdog"
    assert foreign(switches={1: 5}, threads=[replace(watchdog, switches=5)]) == (Outcome.WARN, 0.2)
    user = replace(watchdog, kernel=False, on=cpus(0, 1))
    assert foreign(switches={1: 3}, threads=[user]) == (Outcome.WARN, 0.3)


def test_where_a_thread_came_or_left_no_switch_is_the_watchdogs() -> None:
    watchdog = Thread(tid=20, name="migration/1", kernel=True, switches=1)
    mover = Thread(tid=30, name="mover", on=cpus(0), on_before=cpus(0, 1), switches=5)
    assert foreign(switches={1: 1}, threads=[watchdog]) == (Outcome.PASS, 0)
    assert foreign(switches={1: 1}, threads=[watchdog, mover]) == (Outcome.WARN, 0.1)
    assert foreign(switches={1: 1}, threads=[watchdog, replace(mover, on_before=cpus(0, 5))]) == (Outcome.PASS, 0)


def test_without_proof_of_isolation_and_without_load_silence_proves_nothing() -> None:
    quiet: dict[str, Any] = {"domains": {1: [cpus(0, 1)]}}
    assert foreign(**quiet) == (Outcome.NOT_EXERCISED, 0)
    assert foreign(**quiet, switches={0: 9}) == (Outcome.NOT_EXERCISED, 0)
    assert foreign(**quiet, switches={0: 10}) == (Outcome.PASS, 0)


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("state", [SourceState.MISSING, SourceState.DENIED])
def test_without_schedstat_it_is_unknown(end: str, state: SourceState) -> None:
    found = only(edit(context(), f"{end}.counters.schedstat", gone("proc/schedstat", state)), "THR.FOREIGN")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, f"/proc/schedstat: {state.value} for this test")


def test_a_cpu_without_a_row_is_unknown_and_the_other_is_not() -> None:
    ctx = context(audited=(1, 5), switches={1: 0, 5: None})
    assert [(f.cpus, f.outcome) for f in findings(ctx, "THR.FOREIGN")] == [
        ((1,), Outcome.PASS),
        ((5,), Outcome.UNKNOWN),
    ]


def test_without_schedstat_of_threads_own_switches_can_not_be_told() -> None:
    found = only(context(own=[SLEEPER], schedstat=False), "THR.FOREIGN")
    assert found.outcome is Outcome.UNKNOWN
    assert "CONFIG_SCHED_INFO" in found.detail
    assert foreign(schedstat=False, switches={1: 17}) == (Outcome.FAIL, 1.7)


def test_a_spinner_of_ours_explains_a_busy_cpu_without_a_switch() -> None:
    assert foreign(busy={1: 1.0}, own=[SPINNER]) == (Outcome.PASS, 0)
    assert foreign(busy={1: 1.0}, own=[replace(SPINNER, run_ms=8_000)]) == (Outcome.PASS, 0)


@pytest.mark.parametrize("window_s", [1.0, 3.0, 10.0, 60.0])
def test_a_busy_cpu_without_a_switch_and_without_us_is_someone_elses(window_s: float) -> None:
    ctx = context(window_s=window_s, busy={1: 1.0}, threads=[replace(FIFO, run_ms=window_s * 1000)])
    found = only(ctx, "THR.FOREIGN")
    assert (found.outcome, found.cpus) == (Outcome.FAIL, (1,))
    assert found.detail == (
        f"busy {window_s:.1f} s more than own threads here ran, without a switch: another thread held the CPU; "
        "it may be rogue"
    )
    assert found.fix is not None
    assert foreign(window_s=window_s, busy={1: 1.0}) == (Outcome.UNKNOWN, None)


def test_ours_is_never_the_suspect() -> None:
    found = only(context(busy={1: 1.0}, own=[replace(SPINNER, run_ms=1000)]), "THR.FOREIGN")
    assert (found.outcome, "it may be" in found.detail) == (Outcome.UNKNOWN, False)


def test_ours_that_moved_here_excuses_as_far_as_it_ran_but_proves_nothing() -> None:
    moved = Thread(switches=1, run_ms=9000, on=cpus(1, 5))
    ctx = context(audited=(1, 5), switches={1: 0, 5: 1}, busy={1: 1.0}, own=[moved], threads=[FIFO])
    assert [(f.cpus, f.outcome) for f in findings(ctx, "THR.FOREIGN")] == [
        ((1,), Outcome.UNKNOWN),
        ((1, 5), Outcome.PASS),
    ]


def test_of_eight_cpus_one_is_not_ours() -> None:
    numbers = tuple(range(1, 9))
    own = [Thread(tid=100 + n, on=frozenset(numbers), run_ms=9_500) for n in range(8)]
    busy = dict.fromkeys(numbers, 1.0)
    assert foreign(audited=numbers, busy=busy, own=own) == (Outcome.PASS, 0)
    assert foreign(audited=numbers, busy=busy, own=own[:7]) == (Outcome.UNKNOWN, None)


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_cpu_without_a_switch_is_idle_or_held_and_only_proc_stat_tells(end: str) -> None:
    ctx = edit(context(), f"{end}.counters.cpustat", gone())
    found = only(ctx, "THR.FOREIGN")
    assert (found.outcome, found.cpus) == (Outcome.UNKNOWN, (1,))
    assert found.detail == "no switch, and /proc/stat does not tell whether the CPU was idle or one thread held it"
    assert outcomes(edit(context(own=[SPINNER]), f"{end}.counters.cpustat", gone()), "THR.FOREIGN") == [Outcome.PASS]


def test_who_held_the_cpu_until_ours_came_was_never_switched_to() -> None:
    late = [Thread(switches=1, run_ms=5000)]
    found = only(context(switches={1: 1}, busy={1: 1.0}, own=late), "THR.FOREIGN")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == (
        "1 switches, 1 own, 0 foreign, yet busy 5.0 s more than own threads ran: another was there at the start"
    )
    assert foreign(switches={1: 1}, busy={1: 0.5}, own=late) == (Outcome.PASS, 0)
    blind = edit(context(switches={1: 1}, busy={1: 0.5}, own=late), "after.counters.cpustat", gone())
    assert only(blind, "THR.FOREIGN").detail == (
        "1 switches, 1 own, 0 foreign, and /proc/stat does not tell whether another thread was there at the start"
    )


def test_many_switches_need_no_look_at_the_clock() -> None:
    assert foreign(switches={1: 10_000}, busy={1: 1.0}, own=[replace(SLEEPER, run_ms=1)]) == (Outcome.PASS, 0)


KWORKER = Thread(tid=21, name="kworker/1:0-events", kernel=True)
UNBOUND = Thread(tid=22, name="kworker/u8:1", kernel=True, on=cpus(0, 1))
DAEMON = Thread(tid=400, name="containerd", cgroup="/system.slice", on=cpus(0, 1))
PINNED = Thread(tid=500, name="noise", cgroup="/noise", on=cpus(1))


def owned(*threads: Thread, **given: Any) -> Context:
    """The CPU belongs to someone named, so that what is pinned there as well is foreign."""
    rule = OwnRule(audited=cpus(1), workload="app")
    values: dict[str, Any] = {"switches": {1: sum(thread.switches for thread in threads)}, **given}
    return context(own_rule=rule, own=[Thread(name="app")], threads=threads, **values)


@pytest.mark.parametrize(
    ("name", "given", "rule", "outcome"),
    [
        ("one switch", replace(PINNED, switches=1, run_ms=0.1), "THR.USER", Outcome.WARN),
        ("just below a tick", replace(PINNED, switches=1, run_ms=9.99), "THR.USER", Outcome.WARN),
        ("one tick", replace(PINNED, switches=1, run_ms=10), "THR.USER", Outcome.FAIL),
        ("two sightings", replace(DAEMON, switches=50, seen={1: 2}), "THR.USER", Outcome.WARN),
        ("three sightings", replace(DAEMON, switches=50, seen={1: 3}), "THR.USER", Outcome.FAIL),
        ("a run", replace(KWORKER, switches=1), "THR.KBOUND", Outcome.WARN),
        ("more than one a second", replace(KWORKER, switches=17), "THR.KBOUND", Outcome.FAIL),
        ("never left", replace(KWORKER, run_ms=5000), "THR.KBOUND", Outcome.FAIL),
        ("a sighting", replace(UNBOUND, switches=500, seen={1: 1}), "THR.KUNBOUND", Outcome.WARN),
        ("confined", replace(UNBOUND, switches=17, on=cpus(1, 5)), "THR.KUNBOUND", Outcome.FAIL),
    ],
)
def test_who_it_was(name: str, given: Thread, rule: str, outcome: Outcome) -> None:
    given_cpus: dict[str, Any] = {"audited": (1, 5), "switches": {1: given.switches, 5: 0}} if 5 in given.on else {}
    found = findings(owned(given, **given_cpus), rule)[0]
    assert (found.outcome, found.title) == (outcome, f"{found.title.partition(':')[0]}: {given.name}")


def test_none_ran_here_is_known_only_where_all_are_seen() -> None:
    for rule in ("THR.USER", "THR.KBOUND", "THR.KUNBOUND"):
        found = only(context(), rule)
        assert (found.outcome, found.detail, found.observed) == (Outcome.PASS, "none ran here", 0)
        hidden = only(context(complete=False), rule)
        assert (hidden.outcome, "hidepid" in hidden.detail) == (Outcome.UNKNOWN, True)
        assert outcomes(edit(context(), "after.census", gone("proc")), rule) == [Outcome.UNKNOWN]


@pytest.mark.parametrize("rule", ["THR.USER", "THR.KBOUND", "THR.KUNBOUND"])
def test_without_either_census_none_is_unknown(rule: str) -> None:
    blind = only(edit(context(), "before.census", gone("proc")), rule)
    assert blind.outcome is Outcome.UNKNOWN
    assert blind.detail == "who was there is not known at both ends: /proc: missing for this test"
    ctx = context()
    hidden = replace(ctx.observation.before.census, unread=1)  # type: ignore[type-var]
    assert outcomes(edit(ctx, "before.census", hidden), rule) == [Outcome.UNKNOWN]


def test_switches_that_no_thread_accounts_for_are_not_nobody() -> None:
    left = only(context(switches={1: 39}), "THR.USER")
    assert (left.outcome, left.detail) == (Outcome.UNKNOWN, "none was seen here; 39 switches remain unnamed")
    assert outcomes(context(switches={1: 39}), "THR.KBOUND") == [Outcome.PASS]
    named = context(switches={1: 3}, threads=[replace(KWORKER, switches=3)])
    assert only(named, "THR.USER").detail == "none ran here"
    blind = only(edit(context(), "after.counters.schedstat", gone()), "THR.USER")
    assert blind.outcome is Outcome.UNKNOWN
    assert blind.detail == "none was seen here; samples alone miss most short runs"


def test_what_an_exact_and_a_sampled_finding_say() -> None:
    exact = only(owned(replace(PINNED, switches=5, run_ms=7)), "THR.USER")
    assert (exact.detail, exact.observed, exact.unit, exact.limit) == ("noise: 5 switches, 7.0 ms", 5, "runs", 3)
    assert exact.evidence == (Evidence(path="/proc/500/task/500", field="switches", value="+5"),)
    assert (exact.per_second, round(exact.cost_us_per_s)) == (0.5, 700)
    sampled = only(owned(replace(DAEMON, switches=50, seen={1: 3}), switches={1: 3}), "THR.USER")
    assert (sampled.observed, sampled.per_second) == (3, 0)
    assert sampled.detail == "containerd: seen in 3 samples and nowhere else, free to run on CPUs 0-1"
    seen_only = only(owned(replace(DAEMON, switches=50, least=0, seen={1: 3}), switches={1: 3}), "THR.USER")
    assert seen_only.evidence == (Evidence(path="/proc/400/task/400", field="processor", value="1"),)
    stayed = only(owned(replace(KWORKER, run_ms=5000)), "THR.KBOUND")
    assert stayed.evidence == (Evidence(path="/proc/21/task/21", field="run_ns", value="+5000000000"),)


def test_one_that_ended_unseen_shows_what_is_certain() -> None:
    found = only(owned(replace(PINNED, switches=0, ended=True), switches={1: 1}), "THR.USER")
    assert (found.outcome, found.detail) == (Outcome.WARN, "noise: 0 switches")
    assert found.evidence == (Evidence(path="/proc/500/task/500", field="switches", value="+0"),)


def test_threads_of_one_name_are_put_together_most_time_first() -> None:
    ctx = owned(
        replace(PINNED, tid=501, switches=2, run_ms=3),
        replace(PINNED, tid=502, switches=3, run_ms=4),
        replace(PINNED, tid=503, name="other", switches=1, run_ms=8),
        switches={1: 6},
    )
    assert [f.detail for f in findings(ctx, "THR.USER")] == [
        "other: 1 switches, 8.0 ms",
        "noise: 5 switches, 7.0 ms",
    ]


def test_a_thread_that_merely_ended_there_is_not_accused_where_no_switch_was_foreign() -> None:
    assert outcomes(owned(replace(DAEMON, switches=50, seen={1: 3}), switches={1: 0}), "THR.USER") == [Outcome.PASS]


@pytest.mark.parametrize(("switches", "outcome"), [(3, Outcome.PASS), (4, Outcome.WARN), (17, Outcome.FAIL)])
def test_the_watchdogs_thread(switches: int, outcome: Outcome) -> None:
    thread = replace(KWORKER, name="migration/1", switches=switches)
    assert outcomes(owned(thread), "THR.KBOUND") == [outcome]


def test_the_thread_of_an_interrupt_is_the_interrupts_cause() -> None:
    thread = replace(KWORKER, name="irq/30-eth0", switches=17)
    ctx = owned(thread, rows={"30 eth0-rx-1": {1: 17}}, affinity={30: irq(30, cpus(1))})
    assert only(ctx, "THR.KBOUND").origin == "irq:eth0"
    assert only(owned(replace(thread, name="irq/31-eth1")), "THR.KBOUND").origin == "kthreads"
    assert only(owned(replace(KWORKER, switches=17)), "THR.KBOUND").origin == "kthreads"
    blind = edit(ctx, "after.counters.interrupts", gone())
    assert only(blind, "THR.KBOUND").origin == "kthreads"


def test_the_fix_follows_the_door() -> None:
    thread = replace(PINNED, switches=5)
    shut = only(owned(thread), "THR.USER").fix
    assert shut is not None
    assert (shut.kind, "taskset" in shut.text) == (FixKind.RUNTIME, True)
    opened = only(owned(thread, domains={1: [cpus(0, 1)]}, isolated=cpus()), "THR.USER").fix
    assert opened is not None
    assert opened.boot["isolcpus"] == "domain,managed_irq,1"


def test_owners() -> None:
    assert only(context(), "THR.OWNERS").detail == "no own thread"
    one = only(context(own=[Thread(), Thread(tid=101, pid=100, name="worker")]), "THR.OWNERS")
    assert (one.outcome, one.detail, one.observed) == (Outcome.PASS, "app (/app.slice)", 1)
    two = context(
        own=[Thread(), Thread(tid=200, name="db", cgroup="/db.slice"), Thread(tid=201, name="sh", cgroup="/")]
    )
    found = only(two, "THR.OWNERS")
    assert (found.outcome, found.observed, found.limit) == (Outcome.WARN, 3, 1)
    assert found.detail == (
        "app (/app.slice), db (/db.slice), sh (process 201): name the one that these CPUs belong to with --workload"
    )
    assert outcomes(edit(two, "after.census", gone("proc")), "THR.OWNERS") == [Outcome.UNKNOWN]
    ended = context(own=[Thread(ended=True)])
    assert only(ended, "THR.OWNERS").detail == "no own thread"


def test_without_schedstat_names_are_named_all_the_same() -> None:
    ctx = edit(owned(replace(PINNED, switches=5, run_ms=7), KWORKER), "after.counters.schedstat", gone())
    assert outcomes(ctx, "THR.FOREIGN") == [Outcome.UNKNOWN]
    assert balance_of(ctx, 1) is None
    assert only(ctx, "THR.USER").detail == "noise: 5 switches, 7.0 ms"


def test_each_kind_has_its_rule() -> None:
    ctx = owned(replace(PINNED, switches=1), replace(KWORKER, switches=1), replace(UNBOUND, switches=1, seen={1: 1}))
    names = {rule: [f.title for f in findings(ctx, rule)] for rule in ("THR.USER", "THR.KBOUND", "THR.KUNBOUND")}
    assert names == {
        "THR.USER": ["foreign user threads: noise"],
        "THR.KBOUND": ["bound kernel threads: kworker/1:0-events"],
        "THR.KUNBOUND": ["unbound kernel threads: kworker/u8:1"],
    }


def test_a_control_cpu_without_a_row_is_no_comparison() -> None:
    quiet: dict[str, Any] = {"domains": {1: [cpus(0, 1)]}, "control": (0, 2)}
    assert foreign(**quiet, switches={0: None, 2: 10}) == (Outcome.PASS, 0)
    assert foreign(**quiet, switches={0: None, 2: 9}) == (Outcome.NOT_EXERCISED, 0)


OPEN_DOMAIN = {"domains": {1: [cpus(0, 1)]}, "isolated": cpus()}
ROAMING = Thread(tid=800, name="daemon", on=cpus(0, 1), switches=500, run_ms=200, seen={0: 2, 1: 3})


@pytest.mark.parametrize(
    ("thread", "given", "user", "foreign"),
    [
        (ROAMING, OPEN_DOMAIN, "door:domain", "door:domain"),
        (ROAMING, {}, "threads", "threads"),
        # Pinned here: it would be here without a door as well, and accounts for every switch.
        (replace(ROAMING, on=cpus(1), seen={}), OPEN_DOMAIN, "threads", "threads"),
    ],
    ids=["placed", "door shut", "pinned"],
)
def test_who_was_placed_here_is_part_of_the_open_domain(thread: Thread, given: Any, user: str, foreign: str) -> None:
    rule = OwnRule(audited=cpus(1), workload="app")
    ctx = context(threads=[thread], switches={1: 500}, own=[Thread()], own_rule=rule, **given)
    assert only(ctx, "THR.USER").origin == user
    assert only(ctx, "THR.FOREIGN").origin == foreign
