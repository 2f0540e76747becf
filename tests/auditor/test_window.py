"""The window: what is read when, live and replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from auditor.errors import UsageError
from auditor.near import TRIES
from auditor.own import OwnRule
from auditor.replay import ReplayTimeline
from auditor.targets import Targets
from auditor.window import MAX_SAMPLES, LiveTimeline, observe
from probes.host import DictHost, Host, ProbeError
from probes.record import Recording, Tree
from probes.snapshot import Census, read_facts
from probes.threads import ThreadKey
from tests.auditor.build import cpus

SECOND = 1_000_000_000
TARGETS = Targets(audited=cpus(1), housekeeping=cpus(0), control=cpus(0), roam=cpus(0), chosen_by="--cpus")
STATUS = """Name:\t{name}
State:\tS (sleeping)
Pid:\t{tid}
PPid:\t1
VmSize:\t100 kB
Cpus_allowed_list:\t{allowed}
voluntary_ctxt_switches:\t{n}
nonvoluntary_ctxt_switches:\t0
"""


def files(n: int, *tids: int) -> dict[str, str]:
    """A host on which every counter stands at ``n``; thread 100 may run on CPU 1 only."""
    found = {
        "sys/devices/system/cpu/online": "0-1\n",
        "proc/interrupts": f"           CPU0       CPU1\nLOC: {n} {n}   Local timer interrupts\n",
        "proc/softirqs": f"      CPU0 CPU1\nSCHED: {n} {n}\n",
        "proc/schedstat": f"version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 1 1 {n}\ncpu1 0 0 0 0 0 0 1 1 {n}\n",
        "proc/stat": f"cpu0 {n} 0 0 0 0 0 0 0 0 0\ncpu1 {n} 0 0 0 0 0 0 0 0 0\n",
    }
    for tid in tids or (100, 200):
        found[f"proc/{tid}/task/{tid}/status"] = STATUS.format(
            name=f"t{tid}", tid=tid, allowed="1" if tid == 100 else "0-1", n=n
        )
        found[f"proc/{tid}/task/{tid}/schedstat"] = f"{n} 0 {n}\n"
        found[f"proc/{tid}/task/{tid}/stat"] = f"{tid} (t) S " + "0 " * 35 + "1 0 0\n"
    return found


@dataclass
class Logged:
    """A host that writes down what is read of it."""

    host: DictHost
    log: list[str]

    def read(self, path: str) -> str:
        self.log.append(path)
        return self.host.read(path)

    def listdir(self, path: str) -> list[str]:
        return self.host.listdir(path)

    def readlink(self, path: str) -> str:
        return self.host.readlink(path)

    def mode(self, path: str) -> int:
        return self.host.mode(path)

    def mtime(self, path: str) -> int:
        return self.host.mtime(path)


@dataclass
class Steps:
    """Phases whose counters stand at 10, 20, 30 …"""

    sizes: int = 2
    log: list[str] = field(default_factory=list)
    interrupted: bool = False
    tids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=lambda: {"t0": 10, "samples/0001": 10, "samples/0002": 90, "t1": 90})
    """Switches of the own thread, where they are not those of everyone."""

    def host(self, phase: str) -> Host:
        self.log.append(f"[{phase}]")
        n = {"t0": 10, "t1": 90}.get(phase) or 20 + int(phase[-1])
        own = {OWN: f"{self.own[phase]} 0 {self.own[phase]}\n"} if phase in self.own else {}
        texts = files(n, *self.tids.get(phase, ()))
        return Logged(DictHost(texts | {path: text for path, text in own.items() if path in texts}), self.log)

    def now_ns(self, phase: str) -> int:
        self.log.append("clock")
        return {"t0": 0, "t1": 10 * SECOND}.get(phase, SECOND)

    def samples(self) -> Iterator[tuple[str, bool]]:
        for number in range(1, self.sizes + 1):
            yield f"samples/000{number}", number == self.sizes


def phases(log: list[str]) -> dict[str, list[str]]:
    """What is read in each phase, in order."""
    found: dict[str, list[str]] = {}
    for line in log:
        if line.startswith("["):
            current = found.setdefault(line.strip("[]"), [])
        else:
            current.append(line)
    return found


OWN, OTHER, CPUS = "proc/100/task/100/schedstat", "proc/200/task/200/schedstat", "proc/schedstat"


def test_own_threads_are_read_right_around_the_cpus() -> None:
    steps = Steps()
    observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    read = phases(steps.log)
    counted = [path for path in read["t0"] if not path.startswith("sys/")]
    assert counted[-2:] == [OWN, CPUS]
    assert counted.index("proc/interrupts") > counted.index("clock") > len(counted) - 8
    assert counted.index(OTHER) < counted.index("clock")
    assert [path for path in read["samples/0001"] if path.endswith("schedstat")] == [OWN, OTHER]
    assert [path for path in read["samples/0002"] if path.endswith("schedstat")] == [OTHER, OWN]
    after = [path for path in read["t1"] if not path.startswith("sys/")]
    assert after[:3] == ["clock", CPUS, OWN]
    assert after.index("proc/interrupts") < after.index(OTHER) < after.index("proc/200/task/200/status")


def test_limits_of_the_own_threads_are_read_outside_of_the_counters() -> None:
    steps = Steps()
    observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    read = phases(steps.log)
    for path in ("proc/100/task/100/cgroup", "proc/100/limits", "proc/100/timers"):
        assert read["t0"].index("proc/100/task/100/status") < read["t0"].index(path) < read["t0"].index(OTHER)
        assert read["t1"].index(path) > read["t1"].index("proc/100/task/100/status")
        assert steps.log.count(path) == 2
    assert not [path for path in steps.log if path in ("proc/200/limits", "proc/200/task/200/cgroup")]


def test_while_an_own_thread_moves_both_are_read_again() -> None:
    steps = Steps(own={})
    seen = observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    read = phases(steps.log)
    assert [path for path in read["t0"] if path in (OWN, CPUS)][-2 * TRIES :] == [OWN, CPUS] * TRIES
    assert [path for path in read["samples/0001"] if path in (OWN, OTHER)] == [OWN] * TRIES + [OTHER]
    assert [path for path in read["t1"] if path in (OWN, CPUS)][: 2 * TRIES] == [CPUS, OWN] * TRIES
    own = ThreadKey(pid=100, tid=100)
    assert [sample.runs[own].switches for sample in seen.samples] == [21, 22]
    assert (seen.before.runs[own].switches, seen.after.runs[own].switches) == (10, 90)


def test_one_sample_has_both_readings() -> None:
    own = ThreadKey(pid=100, tid=100)
    seen = observe(Steps(sizes=1), read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    assert len(seen.samples) == 1
    assert seen.samples[0].runs[own].switches == 10


def test_a_recording_without_samples_has_none() -> None:
    seen = observe(Steps(sizes=0), read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    assert seen.samples == ()
    assert seen.after.runs[ThreadKey(pid=100, tid=100)].switches == 90


def test_an_own_interrupt_that_is_not_there_is_refused_before_the_window() -> None:
    steps = Steps()
    with pytest.raises(UsageError, match="--own-irq '30': no device interrupt"):
        observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1), irqs=("30",)))
    assert "[samples/0002]" not in steps.log


def test_the_io_of_own_processes_is_read_outside_of_the_counters() -> None:
    steps = Steps()
    seen = observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    read = phases(steps.log)
    assert read["t0"].index("proc/100/io") < read["t0"].index("proc/interrupts")
    assert read["t1"].index("proc/100/io") > read["t1"].index("proc/interrupts")
    assert "proc/200/io" not in steps.log
    assert isinstance(seen.before.own_io[100], ProbeError)
    assert isinstance(seen.after.own_io[100], ProbeError)


def test_the_stat_of_own_threads_is_never_read() -> None:
    steps = Steps()
    observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    assert "proc/200/task/200/stat" in steps.log
    assert "proc/100/task/100/stat" not in steps.log


def test_what_an_observation_holds() -> None:
    seen = observe(Steps(), read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    own, other = ThreadKey(pid=100, tid=100), ThreadKey(pid=200, tid=200)
    assert seen.own_before == seen.own_after == {own}
    assert (seen.before.counters.taken_ns, seen.after.counters.taken_ns) == (0, 10 * SECOND)
    assert [seen.before.runs[own].switches, seen.after.runs[own].switches] == [10, 90]
    assert [sample.runs[other].switches for sample in seen.samples] == [21, 22]
    assert [dict(sample.processors) for sample in seen.samples] == [{other: 1}, {other: 1}]
    assert not isinstance(seen.before.counters.schedstat, ProbeError)
    assert seen.before.counters.schedstat.cpus[1].switches == 10


def test_threads_that_come_and_go_are_own_at_the_end_where_they_are() -> None:
    steps = Steps(tids={"t0": (200,), "t1": (100,)})
    seen = observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1)))
    assert seen.own_before == frozenset()
    assert seen.own_after == {ThreadKey(pid=100, tid=100)}


def test_a_workload_that_is_not_there_is_refused_before_the_window() -> None:
    steps = Steps()
    with pytest.raises(UsageError, match="no such process"):
        observe(steps, read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1), workload="nothing"))
    assert "proc/interrupts" not in steps.log


def test_where_no_process_is_visible_the_rest_is_observed() -> None:
    @dataclass
    class Blind(Steps):
        def host(self, phase: str) -> Host:
            return DictHost(
                {path: text for path, text in files(10).items() if not path.startswith(("proc/1", "proc/2"))}
            )

    seen = observe(Blind(), read_facts(DictHost(files(1))), TARGETS, OwnRule(audited=cpus(1), workload="x"))
    assert isinstance(seen.before.census, ProbeError)
    assert not isinstance(seen.after.census, Census)
    assert (seen.own_before, dict(seen.after.runs), seen.samples[0].runs) == (frozenset(), {}, {})


@dataclass
class Clock:
    """A clock that only sleeping moves."""

    now: int = 0
    slept: list[float] = field(default_factory=list)
    stop_after: int = 10_000

    def wait(self, seconds: float) -> bool:
        self.slept.append(round(seconds, 3))
        self.now += round(seconds * SECOND)
        return len(self.slept) >= self.stop_after

    def live(self, window_s: float, on: Callable[[str], None] | None = None) -> LiveTimeline:
        return LiveTimeline(live=DictHost({}), window_s=window_s, clock_ns=lambda: self.now, wait=self.wait)


def test_a_sample_at_both_ends_and_one_a_second_between() -> None:
    clock = Clock()
    assert list(clock.live(2.5).samples()) == [
        ("samples/0001", False),
        ("samples/0002", False),
        ("samples/0003", False),
        ("samples/0004", True),
    ]
    assert clock.slept == [1, 1, 0.5]


def test_a_signal_ends_the_window_with_a_last_sample() -> None:
    clock = Clock(stop_after=2)
    timeline = clock.live(30)
    assert list(timeline.samples()) == [("samples/0001", False), ("samples/0002", False), ("samples/0003", True)]
    assert timeline.interrupted


def test_long_windows_are_thinned() -> None:
    clock = Clock()
    assert clock.live(MAX_SAMPLES * 3).period_s == 3
    assert len(list(clock.live(MAX_SAMPLES * 3).samples())) == MAX_SAMPLES + 1


def test_the_window_begins_with_the_last_reading_at_its_start() -> None:
    clock = Clock()
    timeline = clock.live(3)
    steps = timeline.samples()
    next(steps)  # names the phase; the counters of t0 are read behind it, and again
    clock.wait(5)
    timeline.now_ns("t0")
    assert len(list(steps)) == 3


def test_phases_and_times_can_be_followed() -> None:
    followed: list[str] = []
    timeline = LiveTimeline(
        live=DictHost({}),
        window_s=1,
        clock_ns=lambda: 7,
        wait=lambda seconds: False,
        on_phase=lambda phase: followed.append(f"phase {phase}"),
        on_time=lambda phase: followed.append(f"time {phase}"),
    )
    assert isinstance(timeline.host("t0"), DictHost)
    assert timeline.now_ns("t1") == 7
    assert followed == ["phase t0", "time t1"]
    silent = Clock().live(1)
    silent.host("t0")
    assert silent.now_ns("t0") == 0


def recording(**meta: object) -> Recording:
    trees = {name: Tree(files={"x": name}) for name in ("t0", "samples/0002", "samples/0001", "t1")}
    return Recording(trees=trees, meta=meta)


def test_a_replay_has_the_recorded_phases_and_times() -> None:
    timeline = ReplayTimeline(recording=recording(times_ns={"t0": 5, "t1": 9, "samples/0001": 6}))
    assert list(timeline.samples()) == [("samples/0001", False), ("samples/0002", True)]
    assert timeline.host("samples/0001").read("x") == "samples/0001"
    assert [timeline.now_ns(phase) for phase in ("t0", "samples/0001", "t1")] == [5, 6, 9]
    with pytest.raises(ProbeError):
        timeline.host("samples/0009").read("x")


def test_one_made_by_hand_has_the_window_that_was_given() -> None:
    timeline = ReplayTimeline(recording=recording(), window_s=2.5)
    assert [timeline.now_ns(phase) for phase in ("t0", "t1")] == [0, 2_500_000_000]
    with pytest.raises(UsageError, match="--window"):
        ReplayTimeline(recording=recording()).now_ns("t1")
