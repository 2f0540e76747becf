"""Settings under /proc/sys: signed numbers, one CPU list, and what a kernel does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.sysctls import NUMBERS, WATCHDOG, Sysctls, parse_signed, path_of, read_sysctls
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

MASK = "proc/sys/kernel/watchdog_cpumask"
FILES: dict[str, str | ProbeError] = {
    "proc/sys/kernel/watchdog": "1\n",
    "proc/sys/kernel/soft_watchdog": "1\n",
    "proc/sys/kernel/nmi_watchdog": "0\n",
    "proc/sys/kernel/watchdog_thresh": "10\n",
    "proc/sys/vm/stat_interval": "1\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    "proc/sys/kernel/sched_rt_runtime_us": "-1\n",
    "proc/sys/kernel/sched_rt_period_us": "1000000\n",
    MASK: "0,2-3\n",
}


def test_a_full_host() -> None:
    found = read_sysctls(DictHost(FILES))
    assert [found.number(name) for name in NUMBERS] == [1, 1, 0, 10, 1, 0, -1, 1_000_000]
    assert found.watchdog_cpumask == frozenset({0, 2, 3})
    assert read_sysctls(DictHost({**FILES, MASK: "\n"})).watchdog_cpumask == frozenset()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("", SourceState.MASKED),
        ("\n", SourceState.MASKED),
        ("-\n", SourceState.MALFORMED),
        ("1 2\n", SourceState.MALFORMED),
        ("0x1\n", SourceState.MALFORMED),
        (ProbeError("x", "permission denied", SourceState.DENIED), SourceState.DENIED),
    ],
)
def test_a_setting_without_a_value_is_no_zero(name: str, value: str | ProbeError, state: SourceState) -> None:
    found = read_sysctls(DictHost({**FILES, path_of(name): value}))
    error = outcome(lambda: found.number(name))
    assert isinstance(error, ProbeError)
    assert error.state is state
    assert not found.lacks(name)


def test_what_the_kernel_does_not_have() -> None:
    found = read_sysctls(DictHost({"proc/sys/vm/stat_interval": "1\n"}))
    assert found.lacks(WATCHDOG)
    assert isinstance(found.watchdog_cpumask, ProbeError)
    assert not Sysctls(numbers={}, watchdog_cpumask=frozenset()).lacks(WATCHDOG)
    nothing = outcome(lambda: Sysctls(numbers={}, watchdog_cpumask=frozenset()).number(WATCHDOG))
    assert isinstance(nothing, ProbeError)
    assert str(nothing) == "/proc/sys/kernel/watchdog: not read"


def test_no_setting_at_all_is_no_value() -> None:
    error = outcome(lambda: read_sysctls(DictHost({MASK: "1\n"})))
    assert isinstance(error, ProbeError)
    assert (error.path, error.state) == ("proc/sys/kernel/watchdog", SourceState.MISSING)


@pytest.mark.parametrize(
    ("text", "state"), [("", SourceState.MASKED), ("ff\n", SourceState.MALFORMED), (None, SourceState.MISSING)]
)
def test_a_mask_that_is_none(text: str | None, state: SourceState) -> None:
    files = {path: value for path, value in FILES.items() if path != MASK}
    found = read_sysctls(DictHost(files if text is None else {**files, MASK: text})).watchdog_cpumask
    assert isinstance(found, ProbeError)
    assert found.state is state


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_signed(text)), int | ProbeError)
    assert isinstance(read_sysctls(DictHost({**FILES, MASK: text})).watchdog_cpumask, frozenset | ProbeError)


@given(st.integers(min_value=-(1 << 63), max_value=1 << 63))
def test_a_number_is_read_back(number: int) -> None:
    assert parse_signed(f"{number}\n") == number


def test_a_recording_says_the_same(tmp_path: Path) -> None:
    live, later = replayed(tmp_path, FILES, read_sysctls)
    assert live == later
    assert isinstance(live, Sysctls)
