"""The kernel's configuration: three places, one of them packed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState, decode
from probes.kernel_config import CONFIG_GZ, KernelConfig, parse_kernel_config, read_kernel_config, unpacked
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

RELEASE = "6.1.0-13-rt-amd64"
BOOT = f"boot/config-{RELEASE}"
TEXT = "# CONFIG_HZ_100 is not set\nCONFIG_HZ=250\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n# CONFIG_PREEMPT_RT=y\n"
DENIED = ProbeError("x", "permission denied", SourceState.DENIED)
FLAGS = frozenset({"NO_HZ_FULL", "RCU_NOCB_CPU"})


def packed(text: str) -> str:
    return decode(gzip.compress(text.encode(), mtime=0))


def found(path: str) -> KernelConfig:
    return KernelConfig(path=path, hz=250, flags=FLAGS)


@pytest.mark.parametrize("path", [BOOT, f"lib/modules/{RELEASE}/config"])
def test_a_text(path: str) -> None:
    assert read_kernel_config(DictHost({path: TEXT}), RELEASE) == found(path)


def test_a_packed_one_is_the_last_resort() -> None:
    host = DictHost({CONFIG_GZ: packed(TEXT * 200), BOOT: DENIED})
    assert read_kernel_config(host, RELEASE) == found(CONFIG_GZ)


@given(st.text())
def test_what_is_packed_comes_back(text: str) -> None:
    assert unpacked(packed(text)) == text


@pytest.mark.parametrize(
    ("text", "state"),
    [("", SourceState.MASKED), ("hello\n", SourceState.MALFORMED), ("# CONFIG_HZ=1\n", SourceState.MALFORMED)],
)
def test_what_is_no_configuration(text: str, state: SourceState) -> None:
    error = outcome(lambda: parse_kernel_config(text))
    assert isinstance(error, ProbeError)
    assert error.state is state


@pytest.mark.parametrize("text", ["", "hello", packed(TEXT)[:40], packed("x" * (5 << 20))])
def test_what_is_no_whole_gzip_file(text: str) -> None:
    error = outcome(lambda: unpacked(text))
    assert isinstance(error, ProbeError)
    assert error.path == CONFIG_GZ


@pytest.mark.parametrize(
    ("files", "state"),
    [({}, SourceState.MISSING), ({BOOT: DENIED}, SourceState.DENIED), ({BOOT: ""}, SourceState.MASKED)],
)
def test_the_first_reason_is_told(files: dict[str, str | ProbeError], state: SourceState) -> None:
    error = outcome(lambda: read_kernel_config(DictHost(files), RELEASE))
    assert isinstance(error, ProbeError)
    assert error.state is state


@pytest.mark.parametrize("release", ["", "../etc"])
def test_no_release_no_path(release: str) -> None:
    assert isinstance(outcome(lambda: read_kernel_config(DictHost({}), release)), ProbeError)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_text_or_an_error(data: bytes) -> None:
    assert isinstance(outcome(lambda: unpacked(decode(data))), str | ProbeError)
    assert isinstance(outcome(lambda: parse_kernel_config(decode(data))), KernelConfig | ProbeError)


@pytest.mark.parametrize("path", [BOOT, CONFIG_GZ])
def test_a_recording_says_the_same(tmp_path: Path, path: str) -> None:
    files = {path: packed(TEXT) if path == CONFIG_GZ else TEXT}
    live, later = replayed(tmp_path, files, lambda host: read_kernel_config(host, RELEASE))
    assert live == later == found(path)
