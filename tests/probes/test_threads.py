"""Threads: who exists, what they are, how often they ran; with every way they vanish, hide or pretend."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import threads as module
from probes.host import DictHost, ProbeError, SourceState, TreeHost
from probes.threads import (
    ThreadKey,
    ThreadRun,
    ThreadStatus,
    feeds_nothing,
    has_schedstat,
    is_service,
    list_threads,
    moved,
    parse_cgroup,
    parse_processor,
    parse_status,
    parse_thread_schedstat,
    read_cgroup,
    read_processor,
    read_run,
    read_runs,
    read_status,
    thread_irq,
)
from tests.probes.outcome import outcome

VM = "VmPeak:\t    3060 kB\nVmSize:\t    3060 kB\n"


def status(
    *,
    name: str = "nginx",
    state: str = "S (sleeping)",
    pid: int = 70,
    parent: int = 1,
    more: str = VM,
    allowed: str = "0-3",
) -> str:
    return (
        f"Name:\t{name}\nUmask:\t0022\nState:\t{state}\nTgid:\t{pid}\nNgid:\t0\nPid:\t{pid}\nPPid:\t{parent}\n"
        f"TracerPid:\t0\nGroups:\t \nNSpid:\t{pid}\n{more}Threads:\t1\nSigQ:\t1/96365\nCpus_allowed:\tf\n"
        f"Cpus_allowed_list:\t{allowed}\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t12\n"
        "nonvoluntary_ctxt_switches:\t3\nx86_Thread_features:\t\n"
    )


def key(pid: int, tid: int | None = None) -> ThreadKey:
    return ThreadKey(pid=pid, tid=pid if tid is None else tid)


def refused(value: object) -> tuple[SourceState, str]:
    assert isinstance(value, ProbeError)
    return value.state, value.reason


def test_status_of_a_user_thread() -> None:
    assert parse_status(status()) == ThreadStatus(
        name="nginx",
        state="S",
        kernel=False,
        parent_pid=1,
        allowed=frozenset({0, 1, 2, 3}),
        voluntary_switches=12,
        involuntary_switches=3,
    )


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        (status(pid=2, parent=0, more=""), True),  # kthreadd
        (status(pid=16, parent=2, more=""), True),
        (status(pid=16, parent=2, more="", state="P (parked)"), True),
        (status(pid=16, parent=2), False),  # a usermode helper is a child of kthreadd and has memory
        (status(pid=16, parent=2, more="", state="Z (zombie)"), False),
        (status(pid=16, parent=2, more="", state="X (dead)"), False),
        (status(pid=70, parent=1, more="", state="R (running)"), False),  # gave up its memory, not yet a zombie
        (status(pid=70, parent=1, more="", state="Z (zombie)"), False),  # leader that is gone, its threads live
        (status(pid=16, parent=2, more="Kthread:\t0\n", state="R (running)"), False),  # since 6.10
        (status(pid=16, parent=99, more="Kthread:\t1\n"), True),
        (status(pid=16, parent=2, more="Kthread:\tx\n"), True),
        (status(name="VmSize:", pid=16, parent=2, more=""), True),
        (status(name="x\\nVmSize:\\t1", pid=16, parent=2, more=""), True),  # line ends come escaped
        (status(name="kworker/1:0"), False),
    ],
)
def test_kernel_threads_are_told_from_user_threads(text: str, kernel: bool) -> None:
    assert parse_status(text).kernel is kernel


@pytest.mark.parametrize("name", ["", "a) R 1 (b", "tab\tin it", "\\xff\\xfe", "Name:\tx", "\r", "\x0b\x1c\x85\u2028"])
def test_a_name_may_be_anything(name: str) -> None:
    found = parse_status(status(name=name))
    assert (found.name, found.state, found.parent_pid) == (name.strip(" \t"), "S", 1)


def test_empty_mask_and_blank_padded_values() -> None:
    assert parse_status(status(allowed="")).allowed == frozenset()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cut, or longer than any status"),
        (status()[:-1], "cut, or longer than any status"),
        (status() + "x" * (2 << 20) + "\n", "cut, or longer than any status"),
        (status() + status(), "two fields Name: several snapshots in one file"),
        (status().replace("State:", "Stat:"), "no field State"),
        (status()[: status().index("nonvol")], "no field nonvoluntary_ctxt_switches"),
        (status().replace("PPid:\t1", "PPid:\t-1"), "PPid is not a number: '-1'"),
        (status().replace("switches:\t12", "switches:\t1_2"), "voluntary_ctxt_switches is not a number: '1_2'"),
        (status().replace("switches:\t3", "switches:\t" + "9" * 5000), None),
        (status().replace("switches:\t3", "switches:\t٣"), None),
        (status(allowed="3-0"), "no CPU list: '3-0' runs backwards"),
    ],
)
def test_status_that_is_none(text: str, reason: str | None) -> None:
    state, found = refused(outcome(lambda: parse_status(text, path="proc/1/status")))
    assert state is SourceState.MALFORMED
    assert reason is None or found == reason


def test_errors_of_a_shared_mask_name_their_own_file() -> None:
    for path in ("proc/1/status", "proc/2/status"):
        error = outcome(partial(parse_status, status(allowed="x"), path=path))
        assert isinstance(error, ProbeError)
        assert error.path == path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("224230594 43487166 481\n", ThreadRun(run_ns=224230594, switches=481)),
        ("0 0 0\n", ThreadRun(run_ns=0, switches=0)),
        ("18446744073709551615 0 1\n", ThreadRun(run_ns=18446744073709551615, switches=1)),
    ],
)
def test_thread_schedstat(text: str, expected: ThreadRun) -> None:
    assert parse_thread_schedstat(text) == expected


@pytest.mark.parametrize(
    "text", ["", "\n", "1 2\n", "1 2 3", "1 2 3 4\n", "1 2 -3\n", "1 2 ٣\n", f"1 2 {'9' * 5000}\n"]
)
def test_thread_schedstat_that_is_none(text: str) -> None:
    assert refused(outcome(lambda: parse_thread_schedstat(text))) == (
        SourceState.MALFORMED,
        "not a line of three numbers",
    )


def stat(comm: str, processor: object = 5) -> str:
    return f"77 ({comm}) S 1 77 77 0 -1 4194304" + " 0" * 29 + f" {processor} 0 0 0\n"


@pytest.mark.parametrize("comm", ["cat", "a) R 1 (b", "two\nlines", ")", "", "\\xff", "1 2 3 4) Z"])
def test_processor_behind_any_name(comm: str) -> None:
    assert parse_processor(stat(comm)) == 5


@pytest.mark.parametrize(
    "text", ["", "77 cat S" + " 0" * 50, stat("a", "x"), stat("a", "-1"), stat("a").split(" 5 ")[0], stat("a")[:-7]]
)
def test_processor_that_is_none(text: str) -> None:
    assert refused(outcome(lambda: parse_processor(text))) == (SourceState.MALFORMED, "no processor field")


@settings(deadline=None)
@given(st.text(max_size=300) | st.from_regex(r"([A-Z][a-zA-Z_]+:\t[0-9a-z]{0,9}\n){0,9}", fullmatch=True))
def test_no_text_crashes_a_parser(text: str) -> None:
    parsers: list[Callable[[str], object]] = [parse_status, parse_thread_schedstat, parse_processor, parse_cgroup]
    for parse in parsers:
        outcome(partial(parse, text))


@settings(deadline=None)
@given(st.text(st.characters(blacklist_characters="\n"), max_size=20), st.integers(0, 1 << 63))
def test_no_name_forges_a_field(name: str, switches: int) -> None:
    text = status(name=name).replace("switches:\t12", f"switches:\t{switches}")
    found = parse_status(text)
    assert (found.voluntary_switches, found.kernel, found.parent_pid) == (switches, False, 1)


@settings(deadline=None)
@given(st.text(max_size=40), st.integers(0, 1 << 16))
def test_no_name_moves_the_processor(comm: str, cpu: int) -> None:
    assert parse_processor(stat(comm, cpu)) == cpu


def test_threads_are_listed_by_number_and_other_names_are_none() -> None:
    names = ["1/task/1", "10/task/10", "9/task/9", "9/task/12", "self/task/1", "٣/task/3", "0/task/0", "007/task/7"]
    names += [f"{'9' * 5000}/task/1", "5/task/x", "-1/task/1", "11/no"]
    host = DictHost({f"proc/{name}/status": "x" for name in names})
    assert list_threads(host) == [key(1), key(9), key(9, 12), key(10)]


def test_no_visible_process_is_missing_evidence() -> None:
    host = DictHost({"proc/stat": "x", "proc/7/none": "y"})
    assert refused(outcome(lambda: list_threads(host))) == (SourceState.MISSING, "no process is visible")


def test_a_hidden_process_is_left_out() -> None:
    denied = ProbeError("proc/2/task", "permission denied", SourceState.DENIED)  # hidepid=1
    assert list_threads(DictHost({"proc/2/task": denied, "proc/9/task/9/status": "x"})) == [key(9)]


def test_too_many_threads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_THREADS", 2)
    host = DictHost({f"proc/{pid}/task/{pid}/status": "x" for pid in (1, 2, 3)})
    assert refused(outcome(lambda: list_threads(host))) == (SourceState.MALFORMED, "more than 2 threads")


def test_growth_from_schedstat_and_without() -> None:
    host = DictHost({"proc/7/task/8/schedstat": "9 8 7\n", "proc/7/task/8/status": status()})
    assert read_run(host, key(7, 8), schedstat=True) == ThreadRun(run_ns=9, switches=7)
    assert read_run(host, key(7, 8), schedstat=False) == ThreadRun(run_ns=None, switches=15)
    assert read_status(host, key(7, 8)).name == "nginx"


def test_what_ended_meanwhile_is_left_out() -> None:
    gone = ProbeError("proc/3/task/3/schedstat", "no such file", SourceState.MISSING)
    host = DictHost({"proc/1/task/1/schedstat": "9 8 7\n", "proc/3/task/3/schedstat": gone})
    assert read_runs(host, [key(1), key(3), key(4)], schedstat=True) == {key(1): ThreadRun(run_ns=9, switches=7)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/2/task/2/schedstat": "5 0 1\n", "proc/2/task/2/status": status()}, True),  # 1 ended meanwhile
        ({"proc/1/task/1/status": status()}, False),
        ({"proc/1/task/1/schedstat": "garbled", "proc/1/task/1/status": status()}, False),
        ({"proc/1/task/1/schedstat": "0 0 0\n", "proc/2/task/2/schedstat": "0 0 0\n"}, False),  # accounting is off
        ({"proc/1/task/1/schedstat": "0 0 0\n", "proc/2/task/2/schedstat": "5 0 1\n"}, True),  # 1 never ran
        ({"proc/self": "x"}, False),
    ],
)
def test_whether_the_kernel_keeps_schedstat(files: dict[str, str], expected: bool) -> None:
    assert has_schedstat(DictHost(files), [key(1), key(2)]) is expected


def test_moved_threads_are_new_ones_and_those_that_switched() -> None:
    run = ThreadRun(run_ns=1, switches=10)
    before = {key(1): run, key(2): run, key(3): run, key(4): run}
    after = {
        key(1): run,
        key(2): ThreadRun(run_ns=1, switches=11),
        key(3): ThreadRun(run_ns=1, switches=2),  # its id was given to another thread
        key(5): run,
    }
    assert moved(before, after) == [key(2), key(3), key(5)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0::/system.slice/ssh.service\n", "/system.slice/ssh.service"),
        ("9:name=systemd:/\n3:cpuset:/kubepods/pod1\n1:cpu,cpuacct:/x\n0::/\n", "/kubepods/pod1"),
        ("12:cpuset:/\n1:name=systemd:/user.slice\n0::/user.slice/user-0.slice\n", "/user.slice/user-0.slice"),
        ("12:cpuset,hugetlb:/\n1:name=systemd:/user.slice\n", "/user.slice"),
        ("9:name=systemd:/\n3:cpuset:/\n0::/\n", "/"),
        ("0::/a:b/c\u2028d\x85\n", "/a:b/c\u2028d\x85"),
        ("4:memory:/x\n", ""),
        ("", ""),
        ("garbled\n0:\n", ""),
    ],
)
def test_cgroup_of_a_process(text: str, expected: str) -> None:
    assert parse_cgroup(text) == expected
    assert read_cgroup(DictHost({"proc/7/cgroup": text}), 7) == expected


def test_cgroup_that_can_not_be_read() -> None:
    assert read_cgroup(DictHost({}), 7) == ""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc")
def test_this_machine() -> None:
    host = TreeHost()
    mine = next(found for found in list_threads(host) if host.readlink("proc/self") == str(found.pid))
    found = read_status(host, mine)
    assert (found.kernel, found.state) == (False, "R")
    assert read_processor(host, mine) in found.allowed


@pytest.mark.skipif("\nKthread:" not in Path("/proc/self/status").read_text(), reason="before 6.10, or no /proc")
def test_memory_and_parent_say_what_the_kernel_says_here() -> None:
    host = TreeHost()
    texts = [outcome(partial(host.read, f"{found.path}/status")) for found in list_threads(host)]
    for text in texts:
        if isinstance(text, str):  # else it ended meanwhile
            assert parse_status(re.sub(r"Kthread:.*\n", "", text)) == parse_status(text)


def test_five_thousand_threads_are_read_in_linear_time() -> None:
    files = {f"proc/{pid}/task/{pid * 100 + i}/status": status(pid=pid) for pid in range(1, 501) for i in range(10)}
    host = DictHost(files)
    start = time.process_time()
    keys = list_threads(host)
    found = [read_status(host, one) for one in keys]
    assert len(found) == 5000
    assert time.process_time() - start < 2
    assert len({id(one.allowed) for one in found}) == 1


@pytest.mark.parametrize(
    ("name", "kernel", "irq"),
    [
        ("irq/30-eth0", True, 30),
        ("irq/30-s-eth0", True, 30),
        ("irq/30-", True, 30),
        ("irq/30", True, None),
        ("xirq/30-eth0", True, None),
        ("irq/30-eth0", False, None),
    ],
)
def test_the_interrupt_of_a_thread(name: str, kernel: bool, irq: int | None) -> None:
    assert thread_irq(replace(parse_status(status(name=name)), kernel=kernel)) == irq


@pytest.mark.parametrize(
    ("name", "allowed", "kernel", "service"),
    [
        ("ktimers/1", "1", True, True),
        ("ksoftirqd/1", "1", True, True),
        ("rcuc/1", "1", True, True),
        ("migration/1", "1", True, True),
        ("irq_work/1", "1", True, True),
        ("ktimers/1", "0-1", True, False),
        ("ktimers/1", "1", False, False),
        ("kworker/1:0", "1", True, False),
        ("rcuop/1", "1", True, False),
        ("migration/1x", "1", True, False),
    ],
)
def test_services_of_a_cpu(name: str, allowed: str, kernel: bool, service: bool) -> None:
    assert is_service(replace(parse_status(status(name=name, allowed=allowed)), kernel=kernel)) is service


@pytest.mark.parametrize(
    ("name", "allowed", "kernel", "nothing"),
    [
        ("kworker/1:1H-kblockd", "1", True, True),
        ("kworker/1:1H+kblockd", "1", True, True),
        ("kworker/1:0", "1", True, True),
        ("ktimers/1", "1", True, True),
        ("kworker/1:1H-kblockd", "0-1", True, False),
        ("kworker/1:1H-kblockd", "1", False, False),
        ("kworker/u8:1", "1", True, False),
        ("kworker/1:1H-kblockd2", "1", True, False),
        ("kworker/1:0-events", "1", True, False),
    ],
)
def test_who_feeds_no_queue(name: str, allowed: str, kernel: bool, nothing: bool) -> None:
    assert feeds_nothing(replace(parse_status(status(name=name, allowed=allowed)), kernel=kernel)) is nothing
