"""Masks of unbound workqueues: which may be missing, and that a queue's own never reaches beyond the global one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.record import SCHEMA, Recorder, describe_files, entries, load_recording
from probes.workqueue import MAX_QUEUES, Workqueues, read_workqueues
from tests.probes.outcome import outcome

DIR = "sys/devices/virtual/workqueue"
FILES = {
    f"{DIR}/cpumask": "00000005\n",
    f"{DIR}/cpumask_isolated": "a\n",
    f"{DIR}/cpumask_requested": "5\n",
    f"{DIR}/power/control": "auto\n",
    f"{DIR}/writeback/cpumask": "f\n",
    f"{DIR}/nvme-wq/nice": "0\n",
    f"{DIR}/blkcg_punt_bio/cpumask": "a\n",
}


def cpus(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def test_a_full_host() -> None:
    found = read_workqueues(DictHost(FILES))
    assert found == Workqueues(
        cpumask=cpus(0, 2),
        isolated=cpus(1, 3),
        queues={"blkcg_punt_bio": cpus(1, 3), "writeback": cpus(0, 1, 2, 3)},
    )


def test_before_6_8_nothing_is_said_of_isolated_cpus() -> None:
    found = read_workqueues(DictHost({f"{DIR}/cpumask": "ffffffff,ffffffff\n"}))
    assert found == Workqueues(cpumask=frozenset(range(64)), isolated=None, queues={})


def test_a_queue_runs_where_the_global_mask_lets_it_and_elsewhere_never() -> None:
    denied = ProbeError("x", "permission denied", SourceState.DENIED)
    found = Workqueues(
        cpumask=cpus(0, 2),
        isolated=None,
        queues={"all": cpus(0, 1, 2, 3), "none of these": cpus(1, 3), "one": cpus(0), "?": denied},
    )
    assert found.inside(0) == ["all", "none of these", "one", "?"]
    assert found.inside(2) == ["all", "none of these", "?"]
    assert found.inside(1) == []


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", SourceState.MASKED),
        ("\n", SourceState.MASKED),
        ("0-3\n", SourceState.MALFORMED),
        ("5,\n", SourceState.MALFORMED),
    ],
)
def test_a_global_mask_that_is_none(text: str, state: SourceState) -> None:
    found = outcome(lambda: read_workqueues(DictHost({**FILES, f"{DIR}/cpumask": text})))
    assert isinstance(found, ProbeError)
    assert found.state is state


@pytest.mark.parametrize("state", [SourceState.MISSING, SourceState.DENIED])
def test_a_global_mask_that_can_not_be_read(state: SourceState) -> None:
    error = ProbeError(f"{DIR}/cpumask", "no", state)
    assert outcome(lambda: read_workqueues(DictHost({**FILES, f"{DIR}/cpumask": error}))) is error


def test_what_only_names_may_fail_alone() -> None:
    denied = ProbeError("x", "permission denied", SourceState.DENIED)
    broken: dict[str, str | ProbeError] = {f"{DIR}/cpumask_isolated": "x\n", f"{DIR}/writeback/cpumask": denied}
    found = read_workqueues(DictHost({**FILES, **broken}))
    assert (found.isolated, found.queues["writeback"]) == (None, denied)

    class NoList(DictHost):
        def listdir(self, path: str) -> list[str]:
            raise ProbeError(path, "permission denied", SourceState.DENIED)

    assert read_workqueues(NoList(FILES)).queues == {}


def test_queues_have_a_bound() -> None:
    many = {f"{DIR}/a{number:05}/cpumask": "1\n" for number in range(MAX_QUEUES + 5)}
    assert len(read_workqueues(DictHost({f"{DIR}/cpumask": "1\n", **many})).queues) == MAX_QUEUES


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_mask_or_an_error(mask: str, queue: str) -> None:
    host = DictHost({f"{DIR}/cpumask": mask, f"{DIR}/cpumask_isolated": queue, f"{DIR}/writeback/cpumask": queue})
    found = outcome(lambda: read_workqueues(host))
    assert isinstance(found, Workqueues | ProbeError)


def test_a_recording_says_the_same(tmp_path: Path) -> None:
    denied = ProbeError("x", "permission denied", SourceState.DENIED)
    recorder = Recorder(DictHost({**FILES, f"{DIR}/writeback/cpumask": denied}))
    live = read_workqueues(recorder)
    recorder.phase("t1")
    assert read_workqueues(recorder) == live
    for name, data in entries(recorder.trees):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "recording.json").write_text(json.dumps({"schema": SCHEMA, "files": describe_files(recorder.trees)}))
    replayed = [read_workqueues(tree.host()) for tree in load_recording(str(tmp_path)).trees.values()]
    assert [(item.cpumask, item.isolated) for item in replayed] == [(live.cpumask, live.isolated)] * 2
    for item in replayed:
        error = item.queues["writeback"]
        assert isinstance(error, ProbeError)
        assert (error.state, item.queues["blkcg_punt_bio"]) == (SourceState.DENIED, cpus(1, 3))
