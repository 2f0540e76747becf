"""Scenarios: a test names its boot by ``@pytest.mark.scenario(S)`` and finds the finished guest in ``guest``.

The boots of all selected tests are ordered together when the first of them asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import artifacts
from tests.node.fleet import Bootable, Fleet
from tests.node.node import NodeResult
from tests.node.require import available, require_node


def scenario_of(item: pytest.Item) -> Bootable | None:
    """The scenario that a test names."""
    marker = item.get_closest_marker("scenario")
    return marker.args[0] if marker else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Scenarios after all else of this folder: they boot in the background, and other tests replace parts of a node."""
    here = [at for at, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    ordered = sorted((items[at] for at in here), key=lambda item: scenario_of(item) is not None)
    for at, item in zip(here, ordered, strict=True):
        items[at] = item


@pytest.fixture(scope="session")
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """All guests of this session."""
    artifacts.bundle()  # it compiles what it imports, too: a guest could not keep that
    fleet = Fleet(tmp_path_factory.mktemp("guests"))
    wanted = [scenario for item in request.session.items if (scenario := scenario_of(item))]
    can = {kernel: available(kernel) is None for kernel in {scenario.kernel for scenario in wanted}}
    fleet.order(scenario for scenario in wanted if can[scenario.kernel])
    yield fleet
    fleet.close()


@pytest.fixture
def guest(request: pytest.FixtureRequest, fleet: Fleet) -> NodeResult:
    """The finished boot of the test's scenario."""
    scenario = scenario_of(request.node)
    assert scenario, "the test names no scenario"
    require_node(scenario.kernel)
    return fleet.result(scenario)
