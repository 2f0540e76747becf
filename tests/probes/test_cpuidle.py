from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.cpuidle import (
    IdleState,
    parse_idle_state,
    parse_resume_latency_us,
    read_cpuidle,
    read_idle_driver,
    read_resume_latency_us,
)
from probes.host import DictHost, ProbeError, SourceState
from tests.probes.collected import CASES, case_file, case_names, text_of
from tests.probes.outcome import outcome

CPU1 = "sys/devices/system/cpu/cpu1"


def state_files(number: int, **changes: str | None) -> dict[str, str | ProbeError]:
    values: dict[str, str | None] = {
        "name": "C6",
        "desc": "MWAIT 0x20",
        "latency": "133",
        "residency": "600",
        "power": "0",
        "usage": "9876543210",
        "time": "123456",
        "disable": "0",
        "default_status": "enabled",
        "above": "5",
    }
    values.update(changes)
    directory = f"{CPU1}/cpuidle/state{number}"
    return {f"{directory}/{name}": f"{text}\n" for name, text in values.items() if text is not None}


def test_states_come_by_index_not_by_name_order() -> None:
    files: dict[str, str | ProbeError] = {}
    for number in (0, 1, 2, 10):
        files |= state_files(number, name=f"S{number}")
    files[f"{CPU1}/cpuidle/driver/name"] = "intel_idle\n"
    found = read_cpuidle(DictHost(files), 1)
    assert [(state.index, state.name) for state in found.states] == [(0, "S0"), (1, "S1"), (2, "S2"), (10, "S10")]
    assert found.states[0] == IdleState(
        index=0,
        name="S0",
        desc="MWAIT 0x20",
        latency_us=133,
        residency_us=600,
        usage=9876543210,
        time_us=123456,
        disabled=False,
        default_disabled=False,
    )


@pytest.mark.parametrize(
    ("disable", "status", "disabled", "default_disabled"),
    [("1", "enabled", True, False), ("0", "disabled", False, True), ("1", "disabled", True, True)],
)
def test_disabled_by_the_user_and_by_default_are_two_things(
    disable: str, status: str, disabled: bool, default_disabled: bool
) -> None:
    (state,) = read_cpuidle(DictHost(state_files(3, disable=disable, default_status=status)), 1).states
    assert (state.disabled, state.default_disabled) == (disabled, default_disabled)


def test_files_that_4_19_lacks() -> None:
    files = state_files(1, default_status=None, desc=None, residency=None)
    (state,) = read_cpuidle(DictHost(files), 1).states
    assert (state.default_disabled, state.desc, state.residency_us) == (False, "", 0)


def test_a_denied_file_is_no_absent_one() -> None:
    path = f"{CPU1}/cpuidle/state1/default_status"
    files = state_files(1) | {path: ProbeError(path, "permission denied", SourceState.DENIED)}
    with pytest.raises(ProbeError, match="permission denied"):
        read_cpuidle(DictHost(files), 1)


def test_a_cpu_without_states_is_missing() -> None:
    with pytest.raises(ProbeError) as caught:
        read_cpuidle(DictHost({f"{CPU1}/online": "1\n"}), 1)
    assert caught.value.state is SourceState.MISSING
    with pytest.raises(ProbeError, match="no states") as caught:
        read_cpuidle(DictHost({f"{CPU1}/cpuidle/driver/name": "x\n"}), 1)
    assert caught.value.state is SourceState.MISSING


@pytest.mark.parametrize("name", ["latency", "residency", "usage", "time", "disable"])
@pytest.mark.parametrize("text", ["", "-1", "1 2", "x"])
def test_what_is_no_number_is_refused(name: str, text: str) -> None:
    with pytest.raises(ProbeError, match=f"state2/{name}: not a number") as caught:
        read_cpuidle(DictHost(state_files(2, **{name: text})), 1)
    assert caught.value.state is SourceState.MALFORMED


def test_driver() -> None:
    path = "sys/devices/system/cpu/cpuidle/current_driver"
    assert read_idle_driver(DictHost({path: "intel_idle\n"})) == "intel_idle"
    assert read_idle_driver(DictHost({path: "none\n"})) == "none"
    with pytest.raises(ProbeError, match="empty"):
        read_idle_driver(DictHost({path: "\n"}))


@pytest.mark.parametrize(("text", "latency_us"), [("0\n", None), ("n/a\n", 0), ("20\n", 20)])
def test_resume_latency(text: str, latency_us: int | None) -> None:
    host = DictHost({f"{CPU1}/power/pm_qos_resume_latency_us": text})
    assert read_resume_latency_us(host, 1) == latency_us


@pytest.mark.parametrize("text", ["", "-1\n", "n/a n/a\n"])
def test_resume_latency_refuses_anything_else(text: str) -> None:
    with pytest.raises(ProbeError, match="not a number"):
        parse_resume_latency_us(text)


@settings(deadline=None)
@given(st.fixed_dictionaries({name: st.text() for name in ("name", "latency", "usage", "time", "disable")}))
def test_any_state_is_a_value_or_a_probe_error(values: dict[str, str]) -> None:
    found = outcome(lambda: parse_idle_state(0, values, path="some"))
    assert isinstance(found, IdleState) or found.path.startswith("some/")


@settings(deadline=None)
@given(st.text())
def test_any_resume_latency_is_a_value_or_a_probe_error(text: str) -> None:
    found = outcome(lambda: parse_resume_latency_us(text, path="some"))
    assert found is None or isinstance(found, int) or found.path == "some"


def listing(text: str) -> DictHost:
    """A host from the two forms the collected cases have: ``path:`` above its value, and ``mode|path|value``."""
    if "|/sys/" in text:
        rows = [line.split("|", 2) for line in text.splitlines() if line]
        return DictHost({path.lstrip("/"): f"{value}\n" for _, path, value in rows})
    pairs = re.findall(r"^(/sys/\S+):\n(.*)\n", text, re.MULTILINE)
    return DictHost({path.lstrip("/"): f"{value}\n" for path, value in pairs})


@pytest.mark.skipif(not (CASES / "cpuidle").is_dir(), reason="no collected inputs beside the repository")
class TestCollected:
    @pytest.mark.parametrize("name", case_names("cpuidle"))
    def test_states_that_are_off_by_default(self, name: str) -> None:
        off = {"pair-knl0.before": ["C6"], "sysfs-bdwex0-nocpuidle": ["C3"]}
        found = read_cpuidle(listing(text_of(case_file("cpuidle", name))), 0).states
        assert [state.name for state in found if state.default_disabled] == off.get(name, [])

    def test_one_machine_bars_its_deepest_state_everywhere(self) -> None:
        host = listing(text_of(next(Path(CASES / "cpuidle").glob("pair-knl0.before.txt*"))))
        assert all(read_cpuidle(host, cpu).states[2].disabled for cpu in range(272))
