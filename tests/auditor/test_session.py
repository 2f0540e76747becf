"""A live run, step by step: what it starts, whom it refuses, when it waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from auditor import session
from auditor.errors import Interrupted, ResourceError, UsageError
from auditor.model import Readiness
from auditor.overhead import Meter
from auditor.policy import Policy
from auditor.session import (
    Options,
    commands,
    interrupted,
    judge,
    keep_pace,
    mean_busy,
    measure,
    own_rule,
    pin_early,
    refuse_owned,
    wait_for_load,
)
from auditor.stop import Stop
from auditor.targets import Targets
from probes.bench.errors import ToolError
from probes.bench.process import Command
from probes.host import DictHost
from tests.auditor.build import cpus

STATUS = """Name:\tapp
State:\tS (sleeping)
Pid:\t100
PPid:\t1
VmSize:\t100 kB
Cpus_allowed_list:\t{allowed}
voluntary_ctxt_switches:\t5
nonvoluntary_ctxt_switches:\t0
"""
TARGETS = Targets(audited=cpus(1, 5), housekeeping=cpus(0, 2), control=cpus(0), roam=cpus(0), chosen_by="--cpus")


@pytest.fixture(autouse=True)
def _stay() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def options(**given: Any) -> Options:
    return Options(**{"cpus": "1,5", "window_s": 10, **given})


@dataclass
class Child:
    """What a run sees of a process that it started."""

    command: Command
    pid: int = 777
    checked: int = 0

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.checked -= 100

    def check(self) -> None:
        self.checked += 1


def command(name: str, **given: Any) -> Command:
    return Command(argv=("true",), cpus=cpus(0), max_s=5, name=name, note=f"{name} note", **given)


def test_a_spinner_on_each_audited_cpu() -> None:
    log: list[str] = []
    found = list(commands(options(work="spin"), TARGETS, log.append))
    assert [item.cpus for item in found] == [cpus(1), cpus(5)]
    assert log[0] == "starting on CPUs 1 for at most 62 s: spin: one thread that never leaves user space"


def test_one_cyclictest_over_all_with_its_main_thread_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def made(audited: frozenset[int], **values: Any) -> Command:
        given.update(values, audited=audited)
        return command("cyclictest")

    monkeypatch.setattr(session, "cyclictest_command", made)
    assert [item.name for item in commands(options(work="cyclictest"), TARGETS, lambda text: None)] == ["cyclictest"]
    assert given == {"audited": cpus(1, 5), "seconds": 62, "housekeeping": cpus(0)}


@pytest.mark.parametrize("note", ["", "careful"])
def test_the_load_goes_where_nobody_is_isolated(monkeypatch: pytest.MonkeyPatch, note: str) -> None:
    monkeypatch.setattr(session, "scratch_dir", lambda: "/scratch")
    monkeypatch.setattr(session, "scratch_note", lambda scratch: note)
    where: list[Any] = []

    def made(roam: frozenset[int], *, seconds: float, scratch: str) -> Command:
        where.append((roam, seconds, scratch))
        return command("stress-ng")

    monkeypatch.setattr(session, "load_command", made)
    log: list[str] = []
    assert [item.name for item in commands(options(load=True), TARGETS, log.append)] == ["stress-ng"]
    assert where == [(cpus(0), 62, "/scratch")]
    assert log == [note] * bool(note) + ["starting on CPUs 0 for at most 5 s: stress-ng note"]


def test_nothing_is_started_unasked() -> None:
    assert list(commands(options(), TARGETS, lambda text: None)) == []


@pytest.mark.parametrize("allowed", ["1", "5", "1,5"])
def test_work_is_refused_where_someone_is_pinned(allowed: str) -> None:
    host = DictHost({"proc/100/task/100/status": STATUS.format(allowed=allowed)})
    with pytest.raises(UsageError, match=r"would disturb what runs on CPUs 1,5: .*app \(100\)"):
        refuse_owned(host, TARGETS)


def test_work_is_allowed_where_nobody_is_and_refused_where_nobody_can_tell() -> None:
    refuse_owned(DictHost({"proc/100/task/100/status": STATUS.format(allowed="0-5")}), TARGETS)
    with pytest.raises(UsageError, match="who owns these CPUs can't be told"):
        refuse_owned(DictHost({}), TARGETS)


def test_own_is_what_is_named_and_what_was_started() -> None:
    running: list[Any] = [Child(command("stress-ng"), 1), Child(command("cyclictest", timer_hz=1000), 2)]
    rule = own_rule(options(workload="app"), TARGETS, running)
    assert (rule.audited, rule.workload, rule.work_pids, rule.work_timer_hz) == (cpus(1, 5), "app", cpus(2), 1000)
    assert own_rule(options(), TARGETS, running[:1]).work_timer_hz is None


@dataclass
class Busy:
    """A host whose CPU 0 is busy for so much of each look."""

    share: float
    ticks: int = 0

    def read(self, path: str) -> str:
        self.ticks += 100
        busy = int(self.ticks * self.share)
        return DictHost({path: f"cpu0 {busy} 0 0 {self.ticks - busy} 0 0 0 0 0 0\n"}).read(path)

    def listdir(self, path: str) -> list[str]:
        return []

    def readlink(self, path: str) -> str:
        return ""

    def mode(self, path: str) -> int:
        return 0

    def mtime(self, path: str) -> int:
        return 0


@dataclass
class NoWait:
    """A stop that does not sleep."""

    asked: bool = False
    waits: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self.asked


def test_how_busy_the_load_keeps_its_cpus() -> None:
    stop: Any = NoWait()
    assert mean_busy(Busy(0.8), cpus(0), stop) == pytest.approx(0.8, abs=0.02)
    assert mean_busy(Busy(0.8), cpus(7), stop) == 0
    assert mean_busy(DictHost({}), cpus(0), stop) == 1
    assert stop.waits == [1, 1, 1]


@pytest.mark.parametrize(
    ("share", "asked", "waits", "log"),
    [
        (0.9, False, 1, []),
        (0.2, False, 20, ["the load keeps CPUs 0 only 20% busy"]),
        (0.2, True, 1, ["the load keeps CPUs 0 only 20% busy"]),
    ],
)
def test_it_waits_for_the_load_but_not_for_ever(share: float, asked: bool, waits: int, log: list[str]) -> None:
    stop: Any = NoWait(asked=asked)
    said: list[str] = []
    wait_for_load(Busy(share), cpus(0), stop, said.append)
    assert (len(stop.waits), said) == (waits, log)


def test_ahead_of_its_own_load_where_the_user_may(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []

    def denied(which: int, who: int, nice: int) -> None:
        asked.append((which, who, nice))
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", denied)
    keep_pace()
    assert asked == [(os.PRIO_PROCESS, 0, -10)]


def test_it_leaves_the_named_cpus_before_it_reads_anything() -> None:
    here = os.sched_getaffinity(0)
    pin_early(None)
    pin_early(",".join(str(cpu) for cpu in here))
    assert os.sched_getaffinity(0) == here
    if len(here) > 1:
        pin_early(str(max(here)))
        assert os.sched_getaffinity(0) == here - {max(here)}


def test_a_root_that_is_no_host_is_refused(tmp_path: Any) -> None:
    with Stop() as stop, pytest.raises(UsageError, match="the CPUs of this host can't be told"):
        measure(Options(cpus=None, window_s=1, root=str(tmp_path)), stop, lambda text: None)


TWO = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to audit and another one to run on")


@TWO
def test_a_tool_that_is_missing_is_5(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(command: Command) -> Any:
        raise ToolError("spin is not installed")

    monkeypatch.setattr(session, "start", missing)
    last = str(max(os.sched_getaffinity(0)))
    with Stop() as stop, pytest.raises(ResourceError, match="spin is not installed") as caught:
        measure(Options(cpus=last, window_s=1, work="spin", force=True), stop, lambda text: None)
    assert int(caught.value.exit_code) == 5


@TWO
def test_a_run_with_load_and_work_starts_settles_checks_and_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[Child] = []

    def started(item: Command) -> Child:
        children.append(Child(item, pid=os.getpid()))
        return children[-1]

    monkeypatch.setattr(session, "start", started)
    monkeypatch.setattr(session, "SETTLE_S", 0.01)
    monkeypatch.setattr(session, "load_command", lambda roam, **_: command("stress-ng"))
    monkeypatch.setattr(session, "mean_busy", lambda host, cpus, stop: 1.0)
    monkeypatch.setattr(session, "keep_pace", lambda: None)
    monkeypatch.setattr(session, "clean_leftovers", lambda: ["an old directory"])
    log: list[str] = []
    last = str(max(os.sched_getaffinity(0)))
    with Stop() as stop:
        asked = Options(cpus=last, window_s=1, load=True, work="spin", force=True)
        measured = measure(asked, stop, log.append)
    assert [child.command.name for child in children] == ["stress-ng", f"spin on CPU {last}"]
    assert [child.checked for child in children] == [-99, -99]
    assert log[0] == "left behind by an earlier run: an old directory"
    assert (measured.run.load, measured.run.work, measured.run.interrupted) == ("stress-ng note", "spin", False)
    assert measured.own.work_pids == {os.getpid()}
    audit = judge(measured, Policy())
    assert audit.own.source == "work"
    assert audit.readiness.status in Readiness


@pytest.mark.parametrize("when", ["load", "settle", "failed"])
def test_a_signal_before_the_window_ends_it_with_nothing_to_write(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    children: list[Child] = []

    def started(item: Command) -> Child:
        children.append(Child(item))
        if when != "settle":
            os.kill(os.getpid(), signal.SIGTERM)
        if when == "failed":  # the signal was for the whole service
            raise ToolError("stress-ng failed (signal 15)")
        return children[-1]

    def wait(seconds: float) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return True

    monkeypatch.setattr(session, "start", started)
    monkeypatch.setattr(session, "load_command", lambda roam, **_: command("stress-ng"))
    monkeypatch.setattr(session, "mean_busy", lambda host, cpus, stop: 1.0)
    last = str(max(os.sched_getaffinity(0)))
    with Stop() as stop:
        if when == "settle":
            monkeypatch.setattr(stop, "wait", wait)
        with pytest.raises(Interrupted, match="interrupted before there was anything to write") as ended:
            measure(Options(cpus=last, window_s=1, load=True), stop, lambda text: None)
    assert ended.value.exit_code == 130
    assert len(children) == 1
    assert children[0].checked == (0 if when == "failed" else -100)


def test_a_load_that_the_signal_ended_as_well_costs_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    child = Child(command("stress-ng"))

    def phase(meter: Any, name: str) -> None:
        if name == "t0":
            os.kill(os.getpid(), signal.SIGTERM)
        mark(meter, name)

    mark = Meter.mark
    monkeypatch.setattr(Meter, "mark", phase)
    monkeypatch.setattr(session, "start", lambda item: child)
    monkeypatch.setattr(session, "load_command", lambda roam, **_: child.command)
    monkeypatch.setattr(session, "SETTLE_S", 0.01)
    monkeypatch.setattr(session, "mean_busy", lambda host, cpus, stop: 1.0)
    monkeypatch.setattr(session, "keep_pace", lambda: None)
    with Stop() as stop:
        asked = Options(cpus=str(max(os.sched_getaffinity(0))), window_s=30, load=True)
        measured = measure(asked, stop, lambda text: None)
    assert measured.run.interrupted
    assert child.checked == -100  # ended, never asked how it fared


def test_a_signal_after_the_window_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stop() as stop:
        measured = measure(Options(cpus=str(max(os.sched_getaffinity(0))), window_s=1), stop, lambda text: None)
        assert not interrupted(measured, stop).run.interrupted
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted(measured, stop).run.interrupted


def test_the_tool_sits_beside_no_audited_cpu_if_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = replace(TARGETS, roam=cpus(0, 2), siblings=cpus(2))
    pinned: list[frozenset[int]] = []
    refused: list[frozenset[int]] = []

    def pin(roam: frozenset[int], audited: frozenset[int]) -> None:
        pinned.append(roam)
        if roam in refused:
            raise UsageError("may not")

    monkeypatch.setattr(session, "pin", pin)
    session.take_seat(targets)
    assert pinned == [cpus(0)]
    refused.append(cpus(0))
    session.take_seat(targets)
    assert pinned[1:] == [cpus(0), cpus(0, 2)]
    refused.append(cpus(0, 2))
    with pytest.raises(UsageError, match="may not"):
        session.take_seat(targets)
