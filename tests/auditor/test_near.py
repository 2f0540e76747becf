"""CPUs between two readings of the threads: read again while one of them was switched to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from auditor.near import FEW, TRIES, Between, Near, kernel_threads
from probes.host import DictHost, Host, ProbeError
from probes.snapshot import Counters, read_counters
from probes.threads import ThreadKey
from tests.auditor.build import Thread, cpus, gone, observation

PATH = "proc/7/task/7/schedstat"
KEY = ThreadKey(pid=7, tid=7)
CPUS = "version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 1 1 {n}\n"


class Phases:
    """A thread whose switches are the next ones of a list at each look, the last one from then on."""

    def __init__(self, *switches: int) -> None:
        self.phases: list[str] = []
        self._next: Iterator[int] = iter([*switches, *[switches[-1]] * 99])

    def host(self, phase: str) -> Host:
        self.phases.append(phase)
        if phase == "cpus":
            return DictHost({"proc/schedstat": CPUS.format(n=len(self.phases))})
        return DictHost({PATH: f"1 0 {next(self._next)}\n"})


def read(host: Callable[[str], Host], keys: list[ThreadKey], *, schedstat: bool) -> Between:
    return Near(host=host, threads=keys, schedstat=schedstat).read(("a", "cpus", "b"))


def test_once_where_nothing_moved() -> None:
    phases = Phases(5, 5)
    found = read(phases.host, [KEY], schedstat=True)
    assert (found.before[KEY].switches, found.after[KEY].switches) == (5, 5)
    assert phases.phases == ["a", "cpus", "b"]
    assert not isinstance(found.schedstat, ProbeError)


def test_again_until_nothing_moves_and_the_last_readings_are_kept() -> None:
    phases = Phases(5, 6, 6, 8, 8)
    found = read(phases.host, [KEY], schedstat=True)
    assert (found.before[KEY].switches, found.after[KEY].switches) == (8, 8)
    assert phases.phases == ["a", "cpus", "b"] * 3
    assert not isinstance(found.schedstat, ProbeError)
    assert found.schedstat.cpus[0].switches == 8


def test_other_counters_are_read_anew_right_before_the_last_readings() -> None:
    phases, empty = Phases(5, 6, 6, 6), DictHost({})

    def counters() -> Counters:
        phases.phases.append("counters")
        return read_counters(empty, [], len(phases.phases))

    near = Near(host=phases.host, threads=[KEY], schedstat=True)
    first, found = near.read_behind(counters, ("a", "cpus", "b"))
    assert phases.phases == ["counters", "a", "cpus", "b"] * 2
    assert first.taken_ns == 5
    assert found.before[KEY].switches == 6


def test_a_thread_that_never_rests_is_an_interval() -> None:
    phases = Phases(*range(100))
    found = read(phases.host, [KEY], schedstat=True)
    assert found.after[KEY].switches - found.before[KEY].switches == 1
    assert len(phases.phases) == 3 * TRIES


def test_many_threads_are_read_once() -> None:
    phases, keys = Phases(*range(2000)), [ThreadKey(pid=7, tid=7) for _ in range(FEW + 1)]
    read(phases.host, keys, schedstat=True)
    assert phases.phases == ["a", "cpus", "b"]


def test_the_last_of_them_are_read_nearest_to_the_cpus() -> None:
    log: list[str] = []

    class Logged(DictHost):
        def read(self, path: str) -> str:
            log.append(path)
            return super().read(path)

    keys = [ThreadKey(pid=tid, tid=tid) for tid in (1, 2)]
    read(lambda _: Logged({}), keys, schedstat=True)
    one, two = (f"{key.path}/schedstat" for key in keys)
    assert log == [one, two, "proc/schedstat", two, one]


def test_whom_of_the_kernel_it_takes() -> None:
    counter = count(100)
    names = {
        ("irq/30-eth0", cpus(1)): True,
        ("irq/31-eth1", cpus(0, 1)): False,
        ("irq/32-eth2", cpus()): False,
        ("ktimers/1", cpus(1)): True,
        ("rcuc/0", cpus(0)): False,
        ("kworker/1:0", cpus(1)): False,
        ("migration/1", cpus(1)): True,
    }
    threads = {next(counter): (name, on, wanted) for (name, on), wanted in names.items()}
    seen = observation(
        threads=[Thread(tid=tid, name=name, on=on, kernel=True) for tid, (name, on, _) in threads.items()]
    )
    found = {key.tid for key in kernel_threads(seen.before.census, cpus(1))}
    assert found == {tid for tid, (_, _, wanted) in threads.items() if wanted}
    forged = observation(threads=[Thread(tid=9, name="irq/30-eth0", on=cpus(1))])
    assert kernel_threads(forged.before.census, cpus(1)) == frozenset()
    assert kernel_threads(gone(), cpus(1)) == frozenset()


@pytest.mark.parametrize("schedstat", [True, False])
def test_without_threads_the_cpus_are_read_once(schedstat: bool) -> None:
    phases = Phases(1)
    found = read(phases.host, [], schedstat=schedstat)
    assert (found.before, found.after, phases.phases) == ({}, {}, ["a", "cpus", "b"])
