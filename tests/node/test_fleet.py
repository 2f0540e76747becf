"""The fleet, with boots played by functions."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.node.errors import GuestDied
from tests.node.fleet import Fleet
from tests.node.node import NodeResult


def _result(job: Path, code: int = 0) -> NodeResult:
    return NodeResult(code=code, stdout="", stderr="", out=job / "out", console="", wall_s=1)


@dataclass(frozen=True)
class Played:
    name: str
    boot: Callable[[Path], NodeResult]
    kernel: str = "6.12-rt"

    def run(self, job: Path) -> NodeResult:
        return self.boot(job)


def test_no_guest_boots_while_a_test_replaces_parts_of_a_node(request: pytest.FixtureRequest) -> None:
    here = [item for item in request.session.items if item.path.parent == request.path.parent]
    booted = [item.get_closest_marker("scenario") is not None for item in here]
    assert booted == sorted(booted)


def test_each_scenario_boots_once_in_a_directory_of_its_name(tmp_path: Path) -> None:
    jobs: list[Path] = []

    def boot(job: Path) -> NodeResult:
        jobs.append(job)
        return _result(job, 3)

    fleet = Fleet(tmp_path)
    scenario = Played("a", boot)
    fleet.order([scenario, scenario])
    assert [fleet.result(scenario).code, fleet.result(scenario).code] == [3, 3]
    fleet.close()
    assert jobs == [tmp_path / "a"]


def test_two_run_side_by_side(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=30)

    def boot(job: Path) -> NodeResult:
        both.wait()
        return _result(job)

    fleet = Fleet(tmp_path)
    scenarios = [Played("a", boot), Played("b", boot)]
    fleet.order(scenarios)
    assert [fleet.result(scenario).code for scenario in scenarios] == [0, 0]
    fleet.close()


def test_a_dead_guest_is_an_error_of_every_test_that_looks_at_it(tmp_path: Path) -> None:
    def boot(job: Path) -> NodeResult:
        raise GuestDied("the guest died", _result(job, 125))

    fleet = Fleet(tmp_path)
    for _ in range(2):
        with pytest.raises(GuestDied):
            fleet.result(Played("a", boot))
    fleet.close()


def test_what_waits_when_the_session_ends_never_boots(tmp_path: Path) -> None:
    started, go_on, booted = threading.Event(), threading.Event(), []

    def first(job: Path) -> NodeResult:
        started.set()
        assert go_on.wait(30)
        return _result(job)

    def second(job: Path) -> NodeResult:
        booted.append(job)
        return _result(job)

    fleet = Fleet(tmp_path, guests=1)
    fleet.order([Played("a", first), Played("b", second)])
    assert started.wait(30)
    threading.Timer(0.2, go_on.set).start()
    fleet.close()
    assert booted == []
