"""Whose CPUs these are."""

from __future__ import annotations

import pytest

from auditor.errors import UsageError
from auditor.own import OwnRule, describe
from probes.snapshot import Census
from probes.threads import ThreadKey
from tests.auditor.build import Thread, cpus, observation

SLICE = "/kubepods.slice/pod1.slice/app.scope"
PEOPLE = [
    Thread(tid=100, name="app", on=cpus(1), cgroup=SLICE),
    Thread(tid=101, pid=100, name="worker", on=cpus(0, 1), cgroup=SLICE),
    Thread(tid=110, name="child", on=cpus(0, 1), parent=100, cgroup="/other"),
    Thread(tid=111, name="grandchild", on=cpus(0), parent=110, cgroup="/other"),
    Thread(tid=120, name="app", on=cpus(0), cgroup="/system.slice/app.service"),
    Thread(tid=130, name="sidecar", on=cpus(0), cgroup="/kubepods.slice/pod1.slicex"),
    Thread(tid=21, name="migration/1", on=cpus(1), kernel=True),
    Thread(tid=22, name="app", on=cpus(1), kernel=True),
    Thread(tid=140, name="nowhere", on=cpus()),
]


def census() -> Census:
    found = observation(threads=PEOPLE).after.census
    assert isinstance(found, Census)
    return found


def own(**given: object) -> set[int]:
    rule = OwnRule(audited=cpus(1), **given)  # type: ignore[arg-type]
    return {key.tid for key in rule.threads(census())}


@pytest.mark.parametrize(
    ("workload", "tids"),
    [
        (None, {100}),
        ("100", {100, 101, 110, 111}),
        ("110", {110, 111}),
        ("999", set()),
        ("app", {100, 101, 120}),
        ("worker", {100, 101}),
        ("migration/1", set()),
        ("app.service", {120}),
        ("app.scope", {100, 101}),
        ("pod1.slice", {100, 101}),
        ("/kubepods.slice/pod1.slice", {100, 101}),
        ("/kubepods.slice/pod1.slice/", {100, 101}),
        ("/other", {110, 111}),
        ("/", {100, 101, 110, 111, 120, 130, 140}),
        ("/pod1.slice", set()),
    ],
)
def test_who_is_meant(workload: str | None, tids: set[int]) -> None:
    assert own(workload=workload) == tids


def test_a_loop_of_parents_ends() -> None:
    people = [Thread(tid=100, parent=101), Thread(tid=101, parent=100)]
    found = observation(threads=people).after.census
    assert isinstance(found, Census)
    assert {key.tid for key in OwnRule(audited=cpus(1), workload="100").threads(found)} == {100, 101}


def test_what_this_run_started_is_own_as_well() -> None:
    assert own(work_pids=frozenset({110})) == {110}
    assert own(work_pids=frozenset({110}), workload="app.service") == {110, 120}


def test_where_the_ownership_comes_from() -> None:
    assert OwnRule(audited=cpus(1)).source == "affinity"
    assert OwnRule(audited=cpus(1), work_pids=frozenset({1})).source == "work"
    assert OwnRule(audited=cpus(1), work_pids=frozenset({1}), workload="x").source == "workload"


@pytest.mark.parametrize("workload", ["nothing", "999", "/nothing", "nothing.service", "", "migration/1"])
def test_a_workload_that_does_not_exist_is_refused(workload: str) -> None:
    with pytest.raises(UsageError, match="no such process, unit or cgroup is visible"):
        OwnRule(audited=cpus(1), workload=workload).check(census())


def test_a_workload_that_exists_or_none_is_fine() -> None:
    OwnRule(audited=cpus(1), workload="app").check(census())
    OwnRule(audited=cpus(1)).check(census())


def test_it_is_described_in_a_line() -> None:
    rule, keys = OwnRule(audited=cpus(1)), [ThreadKey(pid=100, tid=100), ThreadKey(pid=100, tid=101)]
    assert describe(rule, census(), keys) == "allowed only on these CPUs: app (100), worker (100)"
    assert describe(rule, census(), []) == "no thread"
    assert describe(rule, census(), [ThreadKey(pid=7, tid=7)]) == "no thread"
    assert describe(rule, census(), [*keys, ThreadKey(pid=120, tid=120)]) == (
        "2 unrelated owners: app (100), app (120); name yours with --workload"
    )
    work = OwnRule(audited=cpus(1), work_pids=frozenset({100}))
    assert describe(work, census(), keys[:1]) == "started by this run: app (100)"
    many = census()
    everyone = OwnRule(audited=cpus(1), workload="/")
    assert describe(everyone, many, everyone.threads(many)) == (
        "app (100), app (120), child (110), grandchild (111) and 3 more"
    )


@pytest.mark.parametrize("workload", ["/", "/init.scope", "init.scope", "1", "systemd"])
def test_a_workload_that_holds_init_is_the_whole_host(workload: str) -> None:
    with pytest.raises(UsageError, match=r"with PID 1 among it, it names the whole host: name the process, unit"):
        OwnRule(audited=cpus(1), workload=workload).check(with_init())


@pytest.mark.parametrize("workload", ["/user.slice", "user.slice", "600", "601", "cpu-audit"])
def test_a_workload_that_holds_this_tool_is_the_whole_host(workload: str) -> None:
    OwnRule(audited=cpus(1), workload=workload).check(with_init())
    with pytest.raises(UsageError, match="with this tool among it, it names the whole host"):
        OwnRule(audited=cpus(1), workload=workload, tool_pid=601).check(with_init())


def test_beside_init_and_this_tool_a_workload_is_fine() -> None:
    OwnRule(audited=cpus(1), workload="app", tool_pid=601).check(with_init())


def test_in_a_pid_namespace_process_1_may_be_the_workload() -> None:
    OwnRule(audited=cpus(1), workload="1").check(with_init(complete=False))


def with_init(*, complete: bool = True) -> Census:
    more = [
        Thread(tid=1, name="systemd", on=cpus(0), parent=0, cgroup="/init.scope"),
        Thread(tid=600, name="bash", on=cpus(0), cgroup="/user.slice/session-1.scope"),
        Thread(tid=601, name="cpu-audit", on=cpus(0), parent=600, cgroup="/user.slice/session-1.scope"),
    ]
    found = observation(threads=[*PEOPLE, *more], complete=complete).after.census
    assert isinstance(found, Census)
    return found
