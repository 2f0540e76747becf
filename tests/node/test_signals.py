"""SIGINT, SIGTERM and SIGKILL at moments drawn from a seed: nothing is left behind, and the next run is clean.

The seed is in the message of every failure; ``SIGNALS_SEED`` in the environment repeats or varies the moments.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reports import json_report
from tests.node.audits import ISOLATED, PYTHON
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

SEED = int(os.environ.get("SIGNALS_SEED", "20260302"))
SIGNALS = Scenario(
    name="signals",
    append=ISOLATED,
    script=f"{PYTHON} -m tests.node.drivers.signals $OUT {SEED}",
    timeout_s=1200,
)
pytestmark = [pytest.mark.node, pytest.mark.scenario(SIGNALS)]

POLITE = ["SIGINT-start", "SIGINT-window", "SIGTERM-load", "SIGTERM-end", "twice"]
KILLED = ["SIGKILL-load", "SIGKILL-window", "SIGKILL-end"]
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((Path(json_report.__file__).parent / "schema" / "audit-v1.schema.json").read_text(encoding="utf-8"))
)
NEXT = ["others", *KILLED]


@pytest.fixture
def facts(guest: NodeResult) -> dict[str, Any]:
    assert guest.code == 0, guest.stderr
    told: dict[str, Any] = json.loads((guest.out / "facts.json").read_text())
    return told


def stderr_of(guest: NodeResult, name: str) -> str:
    return (guest.out / f"{name}.err").read_text()


@pytest.mark.parametrize("name", POLITE)
def test_a_signal_ends_it_with_130_and_nothing_is_left(facts: dict[str, Any], guest: NodeResult, name: str) -> None:
    kill = facts["kills"][name]
    message = f"seed {facts['seed']}: {name} {kill}\n{stderr_of(guest, name)}"
    assert kill["reached"], message
    assert (kill["left"], kill["children"]) == ([], []), message
    assert "Traceback" not in stderr_of(guest, name), message
    document = guest.out / f"{name}.json"
    if kill["code"] == 130:
        assert not document.exists() or json.loads(document.read_text())["interrupted"] is True, message
    else:  # it came when the result was being written: too late
        assert name.endswith(("-end", "twice")), message
        assert json.loads(document.read_text())["interrupted"] is False, message
        assert kill["code"] in (0, 3, 4), message


@pytest.mark.parametrize("name", [*POLITE, *KILLED])
def test_a_document_is_whole_or_not_there(facts: dict[str, Any], guest: NodeResult, name: str) -> None:
    document = guest.out / f"{name}.json"
    if document.exists():
        VALIDATOR.validate(json.loads(document.read_text()))


@pytest.mark.parametrize("name", ["SIGINT-window", "twice"])
def test_in_the_window_what_was_measured_is_written(facts: dict[str, Any], guest: NodeResult, name: str) -> None:
    message = f"seed {facts['seed']}: {name} {facts['kills'][name]}\n{stderr_of(guest, name)}"
    assert facts["kills"][name]["code"] == 130, message
    document = json.loads((guest.out / f"{name}.json").read_text())
    assert document["interrupted"] is True, message
    assert document["window"]["load"].startswith("stress-ng"), message


@pytest.mark.parametrize("name", ["SIGINT-start", "SIGTERM-load"])
def test_before_the_window_there_is_nothing_to_write(facts: dict[str, Any], guest: NodeResult, name: str) -> None:
    kill = facts["kills"][name]
    assert kill["code"] == 130, f"seed {facts['seed']}: {name} {kill}"
    assert not (guest.out / f"{name}.json").exists()


@pytest.mark.parametrize("name", KILLED)
def test_children_of_a_killed_run_end_by_themselves(facts: dict[str, Any], name: str) -> None:
    kill = facts["kills"][name]
    message = f"seed {facts['seed']}: {name} {kill}"
    assert kill["reached"], message
    assert kill["code"] == -9 or (name.endswith("-end") and kill["ended_before"]), message
    assert kill["alone_after_s"] is not None, message
    assert kill["children"] == [], message


@pytest.mark.parametrize("name", KILLED)
def test_the_next_run_removes_what_a_killed_one_left_and_says_so(
    facts: dict[str, Any], guest: NodeResult, name: str
) -> None:
    left = [path for path in facts["kills"][name]["left"] if "/cpu-audit-" in path]
    text = stderr_of(guest, f"after-{name}")
    assert [path for path in left if path not in text] == [], text
    assert len(text.splitlines()) == len(left), text
    assert all(line.startswith("cpu-audit: left behind by an earlier run: removed ") for line in text.splitlines())


@pytest.mark.parametrize("name", NEXT)
def test_the_next_run_is_clean(facts: dict[str, Any], guest: NodeResult, name: str) -> None:
    after = facts["next"][name]
    assert (after["left"], after["children"]) == ([], []), f"seed {facts['seed']}: {after}"
    assert after["code"] == facts["next"]["first"]["code"] == 0
    document = json.loads((guest.out / f"after-{name}.json").read_text())
    assert document["verdict"]["status"] in ("isolated", "disturbed")
    assert document["interrupted"] is False


def test_others_are_as_they_were(facts: dict[str, Any]) -> None:
    before, after = facts["others_before"], facts["others_after"]
    assert [told for name, told in before.items() if "sleep 100000" in name] == [[[2], 5]]
    assert after == before
