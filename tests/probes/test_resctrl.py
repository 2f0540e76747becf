"""Groups of resctrl: their CPUs, their ways of the caches, and the group of a process."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import resctrl as module
from probes.host import DictHost, ProbeError, SourceState
from probes.resctrl import (
    ROOT,
    Group,
    Resctrl,
    parse_schemata,
    parse_task_group,
    read_resctrl,
    read_task_groups,
)
from probes.snapshot import read_limits
from probes.threads import ThreadKey
from probes.topology import CPU_DIR
from tests.auditor.build import cpus
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

Files = dict[str, str | ProbeError]
DENIED = ProbeError("x", "permission denied", SourceState.DENIED)
BOTH = cpus(0, 1)


def files(**groups: str) -> Files:
    """``pinned="1 L3:0=f0"`` beside the default group."""
    found: Files = {
        f"{ROOT}/schemata": "    MB:0=100\n    L3:0=f;1=ff\n",
        f"{ROOT}/cpus_list": "0\n",
        f"{ROOT}/tasks": "1\n",
        f"{ROOT}/mon_groups/x/cpus_list": "0\n",
        f"{ROOT}/info/L3/cbm_mask": "ff\n",
    }
    for name, said in groups.items():
        listed, schemata = said.split(" ")
        found |= {f"{ROOT}/{name}/cpus_list": f"{listed}\n", f"{ROOT}/{name}/schemata": f"{schemata}\n"}
    for cpu in BOTH:
        found |= {f"{CPU_DIR}/cpu{cpu}/cache/index3/level": "3\n", f"{CPU_DIR}/cpu{cpu}/cache/index3/id": f"{cpu}\n"}
    return found


def read(given: Files) -> Resctrl:
    found = read_resctrl(DictHost(given), BOTH)
    assert found is not None
    return found


def test_a_full_host() -> None:
    found = read(files(pinned="1 L3:0=f0;1=f0"))
    assert found == Resctrl(
        groups={
            "/": Group(cpus=cpus(0), masks={"L3": {0: 0xF, 1: 0xFF}}),
            "pinned": Group(cpus=cpus(1), masks={"L3": {0: 0xF0, 1: 0xF0}}),
        },
        domains={(3, 0): 0, (3, 1): 1},
    )
    assert [found.group_of(cpu) for cpu in (0, 1, 2)] == ["/", "pinned", "/"]


def test_the_default_group_alone_needs_no_caches() -> None:
    assert read(files()).domains == {}


@pytest.mark.parametrize("given", [{}, {f"{ROOT}/other": "x"}, {"sys/fs/cgroup/x": ""}])
def test_not_mounted(given: Files) -> None:
    assert read_resctrl(DictHost(given), BOTH) is None


@pytest.mark.parametrize("path", [ROOT, f"{ROOT}/schemata"])
def test_what_may_not_be_read_is_not_absent(path: str) -> None:
    found = outcome(lambda: read_resctrl(DictHost({**files(), path: DENIED}), BOTH))
    assert found is DENIED


def test_a_group_that_can_t_be_read() -> None:
    found = read({**files(a="0 L3:0=1"), f"{ROOT}/a/cpus_list": DENIED})
    assert found.groups["a"] is DENIED
    with pytest.raises(ProbeError):
        found.group_of(1)
    for name, text, state in (
        ("cpus_list", "", SourceState.MASKED),
        ("cpus_list", "x\n", SourceState.MALFORMED),
        ("schemata", "", SourceState.MALFORMED),
    ):
        group = read({**files(), f"{ROOT}/{name}": text}).groups["/"]
        assert isinstance(group, Group)
        error = group.cpus if name == "cpus_list" else group.masks
        assert isinstance(error, ProbeError)
        assert error.state is state


def test_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GROUPS", 2)
    with pytest.raises(ProbeError, match="more than 2 groups"):
        read(files(a="0 L3:0=1", b="1 L3:0=1"))


@pytest.mark.parametrize(
    ("text", "masks"),
    [
        ("L3:0=7ff;1=7ff\n", {"L3": {0: 0x7FF, 1: 0x7FF}}),
        ("  L3CODE:0=f\n  L3DATA:0=f0\nL2:4=3\n", {"L3CODE": {0: 0xF}, "L3DATA": {0: 0xF0}, "L2": {4: 3}}),
        ("    MB:0=100;1=100\n", {}),
    ],
)
def test_schemata(text: str, masks: dict[str, dict[int, int]]) -> None:
    assert parse_schemata(text) == masks


@pytest.mark.parametrize(
    "text", ["", "L3:0=f", "L3:0=f\nL3:0=f\n", "L3:0=\n", "L3:uninitialized\n", "L3:x=f\n", "L3:\n"]
)
def test_what_is_no_schemata(text: str) -> None:
    assert isinstance(outcome(lambda: parse_schemata(text)), ProbeError)


@pytest.mark.parametrize(("text", "name"), [("res:/\nmon:\n", "/"), ("res:pinned\nmon:a\n", "pinned")])
def test_the_group_of_a_process(text: str, name: str) -> None:
    assert read_task_groups(DictHost({"proc/7/cpu_resctrl_groups": text}), [7]) == {7: name}


@pytest.mark.parametrize("text", ["", "res:\nmon:\n", "res:/", "res:a\nres:b\n"])
def test_no_group(text: str) -> None:
    assert isinstance(outcome(lambda: parse_task_group(text)), ProbeError)
    assert isinstance(read_task_groups(DictHost({}), [7])[7], ProbeError)


@given(
    st.text(max_size=40) | st.lists(st.sampled_from(["L3:0=f", "MB:0=1", " L2:1=3;2=c", "res:/", ""])).map("\n".join)
)
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_schemata(text)), dict | ProbeError)
    assert isinstance(outcome(lambda: parse_task_group(text)), str | ProbeError)


@pytest.mark.parametrize("given", [files(), files(pinned="1 L3:0=f0;1=f0"), {"sys/fs/cgroup/x": ""}])
def test_a_recording_says_the_same(tmp_path: Path, given: Files) -> None:
    live, later = replayed(tmp_path, given, lambda host: read_resctrl(host, BOTH))
    assert live == later


@pytest.mark.parametrize(("given", "told"), [(files(a="1 L3:0=1"), {7: "a"}), (files(), {})])
def test_processes_are_asked_only_where_caches_are_divided(given: Files, told: dict[int, str]) -> None:
    host = DictHost({"proc/7/cpu_resctrl_groups": "res:a\nmon:\n"})
    assert read_limits(host, [ThreadKey(pid=7, tid=7)], resctrl=read(given)).resctrl == told
