"""Where the tool meets trouble: a full disk, a directory that goes, racing threads and pids, a clock that steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.node.audits import ISOLATED, PYTHON
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

HOSTILE = Scenario(
    name="hostile", append=ISOLATED, script=f"{PYTHON} -m tests.node.drivers.hostile $OUT", timeout_s=900
)
pytestmark = [pytest.mark.node, pytest.mark.scenario(HOSTILE)]

QUIET = ("isolated", "disturbed")


@pytest.fixture
def facts(guest: NodeResult) -> dict[str, Any]:
    assert guest.code == 0, guest.stderr
    told: dict[str, Any] = json.loads((guest.out / "facts.json").read_text())
    return told


def document(guest: NodeResult, name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((guest.out / f"{name}.json").read_text())
    return told


def errors(guest: NodeResult, name: str) -> str:
    return (guest.out / f"{name}.err").read_text()


def test_a_full_disk_costs_one_file_and_leaves_no_part_of_it(facts: dict[str, Any], guest: NodeResult) -> None:
    assert facts["full"] == {"code": 1, "left": []}
    assert errors(guest, "full") == "cpu-audit: /run/tmp/small/a.json: No space left on device\n"
    assert document(guest, "full")["verdict"]["status"] in QUIET


def test_a_directory_that_goes_costs_one_file(facts: dict[str, Any], guest: NodeResult) -> None:
    assert facts["removed"] == {"running": True, "code": 1, "left": False}
    assert errors(guest, "removed") == "cpu-audit: /run/tmp/removed/a.json: No such file or directory\n"
    assert document(guest, "removed")["verdict"]["status"] in QUIET


def test_threads_that_come_and_go_by_the_thousand(facts: dict[str, Any], guest: NodeResult) -> None:
    """They are kept off the audited CPUs: nothing may be blamed on those, however the reads race."""
    audit = document(guest, "crowd")
    assert facts["crowd"]["code"] == 0
    assert errors(guest, "crowd") == ""
    assert audit["verdict"]["status"] in QUIET
    assert audit["overhead"]["on_audited_cpus"] is False


def test_pids_that_are_given_out_again(facts: dict[str, Any], guest: NodeResult) -> None:
    audit = document(guest, "recycled")
    assert facts["recycled"]["forks"] > 200, "every free pid was given out more than once"
    assert facts["recycled"]["code"] == 0
    assert errors(guest, "recycled") == ""
    assert audit["verdict"]["status"] in QUIET


def test_a_clock_that_steps_changes_no_window(facts: dict[str, Any], guest: NodeResult) -> None:
    audit, told = document(guest, "stepped"), facts["stepped"]
    assert (told["running"], told["code"]) == (True, 0)
    assert 6000 <= audit["window"]["window_ms"] <= 1000 * (told["at_most_s"] + 6)
    assert audit["verdict"]["status"] in QUIET
    assert errors(guest, "stepped") == ""
