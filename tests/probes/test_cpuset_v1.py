"""Cpusets of cgroup v1: which are balanced, what a CPU is balanced with, and when neither can be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import cpuset_v1 as module
from probes.cpuset_v1 import BALANCE, EXCLUSIVE, V1_ROOT, CpusetsV1, CpusetV1, parse_flag, read_cpusets_v1
from probes.host import DictHost, ProbeError, SourceState
from probes.isolation import read_isolation
from probes.record import Recorder
from tests.auditor.build import cpus
from tests.probes.outcome import outcome

Files = dict[str, str | ProbeError]
DENIED = ProbeError("x", "permission denied", SourceState.DENIED)


def tree(**cpusets: str) -> Files:
    """``root="1 0-3"``, ``kubepods__pod="0 2"``: the flag and the CPUs of each."""
    files: Files = {f"{V1_ROOT}/cgroup.sane_behavior": "0\n", f"{V1_ROOT}/tasks": "1\n"}
    for name, said in cpusets.items():
        flag, listed = said.split(" ")
        path = V1_ROOT + ("" if name == "root" else "/" + name.replace("__", "/").replace("DOT", "."))
        files |= {
            f"{path}/{BALANCE}": f"{flag}\n",
            f"{path}/cpuset.effective_cpus": f"{listed}\n",
            f"{path}/cpuset.cpus": "0-3\n",
            f"{path}/{EXCLUSIVE}": "0\n",
            f"{path}/cgroup.procs": "",
        }
    return files


def read(files: Files) -> CpusetsV1:
    found = read_cpusets_v1(DictHost(files))
    assert isinstance(found, CpusetsV1)
    return found


def names(cpusets: tuple[CpusetV1, ...]) -> list[str]:
    return [item.path.removeprefix(V1_ROOT) for item in cpusets]


def test_a_balanced_root_spans_everything() -> None:
    found = read(tree(root="1 0-3", kubepods="1 0-3", kubepods__pod="0 2"))
    assert (names(found.balancing), names(found.unbalanced)) == ([""], ["/kubepods/pod"])
    assert found.unbalanced == (CpusetV1(path=f"{V1_ROOT}/kubepods/pod", cpus=cpus(2), exclusive=False),)
    assert (found.span(2), found.free(), found.gap()) == (cpus(0, 1, 2, 3), cpus(), None)


def test_what_no_balanced_cpuset_has_is_free() -> None:
    found = read(tree(root="0 0-3", systemDOTslice="1 0-1", kubepods="0 0-3", kubepods__pod="0 2", kubepods__x="1 3"))
    assert names(found.balancing) == ["/system.slice", "/kubepods/x"]
    assert names(found.unbalanced) == ["/kubepods", "/kubepods/pod"]
    assert [found.span(cpu) for cpu in range(4)] == [cpus(0, 1), cpus(0, 1), cpus(), cpus(3)]
    assert found.free() == cpus(2)


def test_cpusets_that_overlap_are_one_domain() -> None:
    found = read(tree(root="0 0-7", a="1 0-1", b="1 3-4", c="1 1,3", d="1 6"))
    assert (found.span(0), found.span(4), found.span(6)) == (cpus(0, 1, 3, 4), cpus(0, 1, 3, 4), cpus(6))


def test_below_a_balanced_cpuset_nothing_counts() -> None:
    found = read(tree(root="0 0-3", a="1 0-1", a__b="1 0", a__b__c="0 1"))
    assert (names(found.balancing), names(found.unbalanced)) == (["/a"], ["/a/b/c"])


def test_without_cpusets_of_v1() -> None:
    found = read_cpusets_v1(DictHost({"sys/fs/cgroup/cgroup.controllers": "cpuset\n"}))
    assert isinstance(found, ProbeError)
    assert (found.state, found.reason) == (SourceState.MISSING, "no cpusets of cgroup v1 are mounted here")
    assert read_cpusets_v1(DictHost({f"{V1_ROOT}/{BALANCE}": DENIED})) is DENIED


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({f"{V1_ROOT}/{BALANCE}": ""}, SourceState.MASKED),
        ({f"{V1_ROOT}/{BALANCE}": "2\n"}, SourceState.MALFORMED),
        ({f"{V1_ROOT}/a/{BALANCE}": DENIED}, SourceState.DENIED),
        ({f"{V1_ROOT}/a": DENIED}, SourceState.DENIED),
        ({f"{V1_ROOT}/a/cpuset.effective_cpus": DENIED}, SourceState.DENIED),
        ({f"{V1_ROOT}/a/cpuset.effective_cpus": ""}, SourceState.MASKED),
        ({f"{V1_ROOT}/a/cpuset.effective_cpus": "0-\n"}, SourceState.MALFORMED),
    ],
)
def test_one_cpuset_that_can_t_be_read_leaves_all_untold(files: Files, state: SourceState) -> None:
    found = read({**tree(root="0 0-3", a="1 0-1", b="0 2"), **files})
    gap = found.gap()
    assert gap is not None
    assert gap.state is state
    assert (found.span(2), found.free()) == (None, cpus())


def test_a_cpuset_that_went_away_is_none() -> None:
    files = tree(root="0 0-3", a="1 0-1")
    found = read({**files, f"{V1_ROOT}/gone/cgroup.procs": ""})
    assert (found.gap(), names(found.balancing)) == (None, ["/a"])


def test_old_kernels_have_no_effective_cpus() -> None:
    files = tree(root="1 0-1")
    del files[f"{V1_ROOT}/cpuset.effective_cpus"]
    assert read(files).balancing[0].cpus == cpus(0, 1, 2, 3)
    del files[f"{V1_ROOT}/cpuset.cpus"]
    gap = read(files).gap()
    assert gap is not None
    assert (gap.path, gap.state) == (f"{V1_ROOT}/cpuset.cpus", SourceState.MISSING)


def test_what_a_container_sees_is_not_the_whole() -> None:
    files = tree(root="0 2")
    del files[f"{V1_ROOT}/cgroup.sane_behavior"]
    gap = read(files).gap()
    assert gap is not None
    assert (gap.state, gap.reason) == (SourceState.MASKED, "only a part of the hierarchy is mounted here")
    assert read(files).span(2) is None


def test_more_than_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    files = tree(root="0 0-3", a="1 0", b="1 1")
    monkeypatch.setattr(module, "MAX_CPUSETS", 3)
    assert read(files).gap() is None
    monkeypatch.setattr(module, "MAX_CPUSETS", 2)
    found = read(files)
    assert (found.cut, names(found.balancing), found.span(3)) == (True, ["/a"], None)


def test_a_recording_tells_the_same() -> None:
    recorder = Recorder(DictHost(tree(root="0 0-3", systemDOTslice="1 0-1", kubepods="0 0-3", kubepods__pod="0 2")))
    found = read_isolation(recorder)
    assert read_isolation(recorder.trees["t0"].host()).cpusets_v1 == found.cpusets_v1
    assert (found.unbalanced(), read_isolation(DictHost({})).unbalanced()) == (cpus(2, 3), cpus())


@given(st.text(max_size=20))
def test_any_text_is_a_flag_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_flag(text)), bool | ProbeError)
    found = read_cpusets_v1(DictHost({**tree(root="0 0-3"), f"{V1_ROOT}/a/{BALANCE}": text}))
    assert isinstance(found, CpusetsV1)
