"""One instant of a host: what is read of whom, and what a sample may cost the audited CPUs."""

from __future__ import annotations

import pytest

from probes.host import DictHost, ProbeError, SourceState, TreeHost, attempt
from probes.snapshot import (
    Census,
    Sample,
    attempt_list,
    read_balancers,
    read_census,
    read_config,
    read_counters,
    read_facts,
    read_sample,
)
from probes.threads import ThreadKey, ThreadRun
from tests.hosts import kernel_text as kernel
from tests.probes.outcome import outcome

CPU = "sys/devices/system/cpu"


class Counting(DictHost):
    """Remembers what was read, in order."""

    def __init__(self, files: dict[str, str | ProbeError]) -> None:
        super().__init__(files)
        self.reads: list[str] = []

    def read(self, path: str) -> str:
        self.reads.append(path)
        return super().read(path)


def thread(
    pid: int, switches: int = 1, *, cpu: int = 3, kernel_thread: bool = False, name: str = "x"
) -> dict[str, str]:
    folder = f"proc/{pid}/task/{pid}"
    return {
        f"{folder}/status": kernel.thread_status(
            pid=pid,
            tid=pid,
            name=name,
            state="S",
            parent=0 if pid == 2 else 1,
            kernel=kernel_thread,
            allowed=[0, 1],
            voluntary=switches,
            involuntary=0,
        ),
        f"{folder}/schedstat": kernel.thread_schedstat(5000, switches),
        f"{folder}/stat": kernel.thread_stat(pid, name, "S", 1, cpu),
        f"proc/{pid}/cgroup": f"0::/group{pid}\n",
    }


def key(pid: int) -> ThreadKey:
    return ThreadKey(pid=pid, tid=pid)


def without(files: dict[str, str], *paths: str) -> dict[str, str | ProbeError]:
    return {path: text for path, text in files.items() if path not in paths}


KTHREADD = thread(2, kernel_thread=True, name="kthreadd")


def test_attempt_makes_a_value_of_an_error() -> None:
    def fail() -> int:
        raise ProbeError("x", "no")

    assert attempt(lambda: 3) == 3
    assert isinstance(attempt(fail), ProbeError)


def test_facts_need_the_online_cpus_and_nothing_else() -> None:
    found = read_facts(DictHost({f"{CPU}/online": "0-1\n"}), arch="x86_64")
    assert found.topology.online == {0, 1}
    assert found.kernel.arch == "x86_64"
    assert isinstance(found.cmdline, ProbeError)
    assert isinstance(found.idle_driver, ProbeError)
    assert isinstance(outcome(lambda: read_facts(DictHost({}))), ProbeError)


def test_config_never_raises() -> None:
    found = read_config(DictHost({}))
    assert isinstance(found.online, ProbeError)
    assert isinstance(found.affinity, ProbeError)
    assert read_config(DictHost({f"{CPU}/online": "0\n"})).online == frozenset({0})


def test_counters_are_values_or_errors_for_each_cpu() -> None:
    found = read_counters(DictHost({"proc/stat": "cpu0 1 2 3 4 5 6 7 8\n"}), {1, 0}, 99)
    assert found.taken_ns == 99
    assert list(found.cpuidle) == [0, 1]
    assert not isinstance(found.cpustat, ProbeError)
    for absent in (found.interrupts, found.softirqs, found.schedstat, *found.cpuidle.values()):
        assert isinstance(absent, ProbeError)
        assert absent.state is SourceState.MISSING


def test_a_schedstat_that_was_read_is_not_read_again() -> None:
    host = Counting({})
    given = ProbeError("proc/schedstat", "given")
    assert read_counters(host, {0}, 1, given).schedstat is given
    assert "proc/schedstat" not in host.reads
    assert read_counters(host, {0}, 1).schedstat != given


def test_census_of_a_whole_host() -> None:
    found = read_census(DictHost({**KTHREADD, **thread(70, name="nginx")}))
    assert {one.pid: status.name for one, status in found.statuses.items()} == {2: "kthreadd", 70: "nginx"}
    assert found.cgroups == {2: "/group2", 70: "/group70"}
    assert found.schedstat
    assert found.complete


@pytest.mark.parametrize(
    "files",
    [
        thread(70),  # kthreadd is hidden
        thread(2, name="bash"),  # the second process of a container
        thread(2, kernel_thread=True, name="bash"),  # and it gave up its memory
        thread(2, name="kthreadd"),  # and it has a good name
    ],
)
def test_what_does_not_show_kthreadd_is_not_the_whole_machine(files: dict[str, str]) -> None:
    assert not read_census(DictHost(files)).complete


@pytest.mark.parametrize(("state", "complete"), [(SourceState.DENIED, False), (SourceState.MISSING, True)])
def test_a_thread_that_hides_leaves_the_census_incomplete_one_that_ended_does_not(
    state: SourceState, complete: bool
) -> None:
    path = "proc/70/task/70/status"
    files: dict[str, str | ProbeError] = {**KTHREADD, **thread(70), path: ProbeError(path, "why", state)}
    found = read_census(DictHost(files))
    assert list(found.statuses) == [key(2)]
    assert found.complete is complete
    assert found.unread == (not complete)


def test_no_census_where_no_process_is_visible() -> None:
    assert isinstance(outcome(lambda: read_census(DictHost({}))), ProbeError)
    assert attempt_list(DictHost({})) == []


def test_census_without_schedstat() -> None:
    files = without({**KTHREADD}, "proc/2/task/2/schedstat")
    assert read_census(DictHost(files)) == Census(
        statuses=read_census(DictHost(dict(KTHREADD))).statuses, cgroups={2: "/group2"}, schedstat=False
    )


def test_only_threads_that_moved_are_asked_for_their_cpu_and_own_ones_never() -> None:
    files: dict[str, str | ProbeError] = {**thread(7, 9), **thread(8, 9), **thread(9, 9, cpu=1), **thread(10, 9)}
    stays = ThreadRun(run_ns=5000, switches=9)
    less = ThreadRun(run_ns=4000, switches=8)
    host = Counting(files)
    found = read_sample(host, {key(7): less, key(8): stays, key(9): less}, [key(7)], 5, schedstat=True)
    assert found == Sample(
        taken_ns=5, runs=dict.fromkeys([key(7), key(8), key(9), key(10)], stays), processors={key(9): 1, key(10): 3}
    )
    assert [path for path in host.reads if path.endswith("/stat")] == ["proc/9/task/9/stat", "proc/10/task/10/stat"]


@pytest.mark.parametrize(("known", "order"), [(None, [8, 7, 9]), ({}, [7, 9])])
def test_threads_near_the_counters_are_read_first_or_elsewhere(
    known: dict[ThreadKey, ThreadRun] | None, order: list[int]
) -> None:
    host = Counting({**thread(7), **thread(8), **thread(9)})
    read_sample(host, {}, [key(8)], 5, known=known, schedstat=True)
    seen = [int(path.split("/")[1]) for path in host.reads if path.endswith("/schedstat")]
    assert seen == order


def test_what_is_known_of_them_is_kept() -> None:
    known = {key(8): ThreadRun(switches=3, run_ns=4)}
    assert read_sample(DictHost({}), {}, [key(8)], 5, known=known, schedstat=True).runs == known


def test_a_thread_that_ends_before_its_cpu_is_read_is_left_out() -> None:
    host = DictHost(without(thread(7), "proc/7/task/7/stat"))
    found = read_sample(host, {}, [], 5, schedstat=True)
    assert list(found.runs) == [key(7)]
    assert found.processors == {}


def test_own_threads_that_ended_and_a_host_without_processes() -> None:
    assert read_sample(DictHost({}), {}, [key(8)], 5, schedstat=True) == Sample(taken_ns=5, runs={})


@pytest.mark.parametrize(("text", "online"), [("0,2-3\n", {0, 2, 3}), ("", None), ("x\n", None)])
def test_a_sample_looks_who_is_online(text: str, online: set[int] | None) -> None:
    host = DictHost({**thread(7), "sys/devices/system/cpu/online": text})
    assert read_sample(host, {}, [], 5, schedstat=True).online == online


def test_this_machine() -> None:
    census = read_census(TreeHost())
    assert census.statuses
    assert set(census.cgroups) == {one.pid for one in census.statuses}


def test_only_processes_of_that_name_are_asked_what_irqbalance_is_told() -> None:
    files = {
        **KTHREADD,
        **thread(70, name="irqbalance"),
        **thread(72, name="nginx"),
    }
    host = Counting({**files, "proc/70/environ": "A=b\0"})
    (found,) = read_balancers(host, read_census(host))
    assert (found.pid, isinstance(found.environment, ProbeError)) == (70, False)
    assert [path for path in host.reads if path.endswith("environ")] == ["proc/70/environ"]
    assert read_balancers(host, ProbeError("proc", "none")) == ()


@pytest.mark.parametrize(("state", "unread"), [(SourceState.DENIED, 1), (SourceState.MISSING, 0)])
def test_a_process_whose_threads_are_not_listed_hides_them(state: SourceState, unread: int) -> None:
    folder = "proc/70/task"
    files: dict[str, str | ProbeError] = {**KTHREADD, **thread(70), folder: ProbeError(folder, "why", state)}
    assert read_census(DictHost(files)).unread == unread
