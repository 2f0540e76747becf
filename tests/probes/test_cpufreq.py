"""Frequency policies: which CPU belongs to which, and that nothing is read that interrupts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cpufreq import CPUFREQ_DIR, FrequencyPolicy, parse_cpus, read_cpufreq
from probes.host import DictHost, ProbeError, SourceState
from probes.record import Recorder
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

ONE = f"{CPUFREQ_DIR}/policy0"
FILES: dict[str, str | ProbeError] = {
    f"{ONE}/affected_cpus": "0 1 \n",
    f"{ONE}/scaling_driver": "acpi-cpufreq\n",
    f"{ONE}/scaling_governor": "ondemand\n",
    f"{ONE}/scaling_min_freq": "800000\n",
    f"{ONE}/scaling_max_freq": "3000000\n",
    f"{ONE}/scaling_cur_freq": "1200000\n",
    f"{ONE}/energy_performance_preference": "balance_power\n",
    f"{CPUFREQ_DIR}/boost": "1\n",
}
POLICY = FrequencyPolicy(path=ONE, driver="acpi-cpufreq", governor="ondemand", min_khz=800_000, max_khz=3_000_000)
DENIED = ProbeError("x", "permission denied", SourceState.DENIED)


def test_a_policy_of_two_cpus() -> None:
    assert read_cpufreq(DictHost(FILES)) == {0: POLICY, 1: POLICY}


def test_what_interrupts_the_cpu_is_not_read() -> None:
    recorder = Recorder(DictHost(FILES))
    read_cpufreq(recorder)
    read = {path.rpartition("/")[2] for path in recorder.trees["t0"].files}
    assert read == {"affected_cpus", "scaling_driver", "scaling_governor", "scaling_min_freq", "scaling_max_freq"}


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        ("scaling_driver", "\n", SourceState.MASKED),
        ("scaling_governor", "", SourceState.MASKED),
        ("scaling_governor", "a b\n", SourceState.MALFORMED),
        ("scaling_min_freq", "<unsupported>\n", SourceState.MALFORMED),
        ("scaling_max_freq", DENIED, SourceState.DENIED),
    ],
)
def test_a_policy_that_can_not_be_read(name: str, value: str | ProbeError, state: SourceState) -> None:
    found = read_cpufreq(DictHost({**FILES, f"{ONE}/{name}": value}))
    assert found.keys() == {0, 1}
    for error in found.values():
        assert isinstance(error, ProbeError)
        assert error.state is state


@pytest.mark.parametrize("value", ["0,1\n", "x\n", DENIED])
def test_a_policy_without_its_cpus_leaves_all_undecided(value: str | ProbeError) -> None:
    error = outcome(lambda: read_cpufreq(DictHost({**FILES, f"{ONE}/affected_cpus": value})))
    assert isinstance(error, ProbeError)
    assert error.state is not SourceState.MISSING


@pytest.mark.parametrize("files", [{}, {f"{CPUFREQ_DIR}/boost": "1\n"}])
def test_without_a_driver(files: dict[str, str | ProbeError]) -> None:
    error = outcome(lambda: read_cpufreq(DictHost(files)))
    assert isinstance(error, ProbeError)
    assert error.state is SourceState.MISSING


def test_a_policy_whose_cpus_are_offline() -> None:
    assert read_cpufreq(DictHost({**FILES, f"{ONE}/affected_cpus": "\n"})) == {}


@given(st.text(max_size=30))
def test_any_text_is_a_set_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_cpus(text)), frozenset | ProbeError)


def test_a_recording_says_the_same(tmp_path: Path) -> None:
    live, later = replayed(tmp_path, FILES, read_cpufreq)
    assert live == later == {0: POLICY, 1: POLICY}
