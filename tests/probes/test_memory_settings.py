"""Huge pages and KSM: the choice in brackets, and what a kernel does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.memory_settings import COLLAPSED, KSM, MM_DIR, THP, MemorySettings, parse_choice, read_memory_settings
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

FILES: dict[str, str | ProbeError] = {THP: "always [madvise] never\n", COLLAPSED: "17\n", KSM: "0\n"}
DENIED = ProbeError("x", "permission denied", SourceState.DENIED)


def test_a_full_host() -> None:
    assert read_memory_settings(DictHost(FILES)) == MemorySettings(thp="madvise", collapsed=17, ksm_run=0)


@pytest.mark.parametrize("word", ["always", "madvise", "never"])
def test_the_choice_stands_in_brackets(word: str) -> None:
    text = "always madvise never\n".replace(word, f"[{word}]")
    assert parse_choice(text) == word


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", SourceState.MASKED),
        ("\n", SourceState.MASKED),
        ("always madvise never\n", SourceState.MALFORMED),
        ("[always] [never]\n", SourceState.MALFORMED),
        ("[]\n", SourceState.MALFORMED),
    ],
)
def test_no_choice(text: str, state: SourceState) -> None:
    found = read_memory_settings(DictHost({**FILES, THP: text}))
    assert isinstance(found.thp, ProbeError)
    assert found.thp.state is state


def test_a_kernel_without_them() -> None:
    found = read_memory_settings(DictHost({f"{MM_DIR}/hugepages/hugepages-2048kB/nr_hugepages": "0\n"}))
    assert (found.thp, found.ksm_run) == (None, None)
    assert isinstance(found.collapsed, ProbeError)


def test_a_host_without_such_settings_tells_nothing() -> None:
    found = read_memory_settings(DictHost({"sys/kernel/notes": ""}))
    for value in (found.thp, found.ksm_run, found.collapsed):
        assert isinstance(value, ProbeError)
        assert value.state is SourceState.MISSING


@pytest.mark.parametrize("path", [THP, KSM, COLLAPSED])
def test_one_that_may_not_be_read_leaves_the_others(path: str) -> None:
    found = read_memory_settings(DictHost({**FILES, path: DENIED}))
    values = dict(zip((THP, COLLAPSED, KSM), (found.thp, found.collapsed, found.ksm_run), strict=True))
    assert values == {THP: "madvise", COLLAPSED: 17, KSM: 0, path: DENIED}


@given(st.text(max_size=40))
def test_any_text_is_a_choice_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_choice(text)), str | ProbeError)
    assert isinstance(read_memory_settings(DictHost({**FILES, KSM: text})).ksm_run, int | ProbeError)


@pytest.mark.parametrize("missing", [(), (THP,), (THP, COLLAPSED), (KSM,), (THP, COLLAPSED, KSM)])
def test_a_recording_says_the_same(tmp_path: Path, missing: tuple[str, ...]) -> None:
    """Also where none is there: that the directory is missing was recorded too."""
    files = {path: text for path, text in FILES.items() if path not in missing}
    live, later = replayed(tmp_path, files, read_memory_settings)
    assert isinstance(live, MemorySettings)
    assert isinstance(later, MemorySettings)
    assert [str(value) for value in (live.thp, live.ksm_run)] == [str(value) for value in (later.thp, later.ksm_run)]
