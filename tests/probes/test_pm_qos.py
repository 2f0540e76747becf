"""PM QoS: four bytes of a device, a file per CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState, decode
from probes.pm_qos import DMA_LATENCY, PmQos, parse_dma_latency_us, read_pm_qos
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

DENIED = ProbeError(DMA_LATENCY, "permission denied", SourceState.DENIED)


def resume(cpu: int) -> str:
    return f"sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"


def device(value: int) -> str:
    return decode(value.to_bytes(4, "little", signed=True))


FILES: dict[str, str | ProbeError] = {resume(0): "0\n", resume(1): "n/a\n", DMA_LATENCY: device(2_000_000_000)}


def test_a_full_host() -> None:
    found = read_pm_qos(DictHost({**FILES, resume(2): "50\n"}), (2, 1, 0))
    assert found == PmQos(resume_us={0: None, 1: 0, 2: 50}, dma_latency_us=None)
    assert [found.bound_us(cpu) for cpu in (0, 1, 2, 3)] == [None, 0, 50, None]


@given(st.integers(min_value=0, max_value=(1 << 31) - 1).filter(lambda value: value != 2_000_000_000))
def test_a_latency_is_read_back(value: int) -> None:
    assert parse_dma_latency_us(device(value)) == value


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", SourceState.MASKED),
        ("\0\0\0", SourceState.MALFORMED),
        ("\0\0\0\0\0", SourceState.MALFORMED),
        (device(-1), SourceState.MALFORMED),
        ("0x000000ff", SourceState.MALFORMED),
    ],
)
def test_what_is_no_latency(text: str, state: SourceState) -> None:
    error = outcome(lambda: parse_dma_latency_us(text, path=DMA_LATENCY))
    assert isinstance(error, ProbeError)
    assert (error.path, error.state) == (DMA_LATENCY, state)


def test_the_least_that_is_known_bounds() -> None:
    qos = PmQos(resume_us={0: None, 1: 5, 2: DENIED}, dma_latency_us=30)
    assert [qos.bound_us(cpu) for cpu in range(4)] == [30, 5, 30, 30]
    unknown = PmQos(resume_us={0: None, 1: 5}, dma_latency_us=DENIED)
    assert [unknown.bound_us(cpu) for cpu in range(2)] == [None, 5]


def test_each_is_read_alone() -> None:
    found = read_pm_qos(DictHost({resume(0): DENIED, DMA_LATENCY: DENIED}), (0, 1))
    missing = found.resume_us[1]
    assert (found.resume_us[0], found.dma_latency_us) == (DENIED, DENIED)
    assert isinstance(missing, ProbeError)
    assert missing.state is SourceState.MISSING


@given(st.binary(max_size=12))
def test_any_bytes_are_a_latency_or_an_error(data: bytes) -> None:
    assert isinstance(outcome(lambda: parse_dma_latency_us(decode(data))), int | None | ProbeError)


@pytest.mark.parametrize("value", [0, 20, 2_000_000_000, 0x7F9480])
def test_a_recording_says_the_same(tmp_path: Path, value: int) -> None:
    live, later = replayed(tmp_path, {**FILES, DMA_LATENCY: device(value)}, lambda host: read_pm_qos(host, (0, 1)))
    assert live == later
    assert isinstance(live, PmQos)
    assert live.dma_latency_us == (None if value == 2_000_000_000 else value)
