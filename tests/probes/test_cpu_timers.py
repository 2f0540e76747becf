"""CPU timers and RLIMIT_CPU: the texts as 6.12 prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cpu_timers import CpuTimer, CpuTimers, parse_cpu_limit, parse_timers, read_cpu_timers
from probes.host import DictHost, ProbeError
from probes.threads import ThreadKey
from tests.hosts import kernel_text as kernel
from tests.probes.outcome import outcome

THREAD = CpuTimer(pid=0, per_thread=True)


def timer(clock: int, number: int = 0) -> str:
    return f"ID: {number}\nsignal: 10/0000000000000000\nnotify: signal/pid.306\nClockID: {clock}\n"


def test_the_limit_of_cpu_time() -> None:
    assert parse_cpu_limit(kernel.limits()) is None
    assert parse_cpu_limit(kernel.limits("5000")) == 5000
    assert parse_cpu_limit("Max cpu time              0                    unlimited            seconds   \n") == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Max file size  1  1  bytes\n",
        "Max cpu time\n",
        "Max cpu time  \n",
        "Max cpu time  5 5\n",
        "Max cpu time  x 5 seconds\n",
        "Max cpu time  -1 5 seconds\n",
    ],
)
def test_what_is_no_limit(text: str) -> None:
    assert isinstance(outcome(lambda: parse_cpu_limit(text)), ProbeError)


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        (-2, (THREAD,)),  # CLOCK_THREAD_CPUTIME_ID
        (-6, (CpuTimer(pid=0, per_thread=False),)),  # CLOCK_PROCESS_CPUTIME_ID
        (~306 << 3 | 2, (CpuTimer(pid=306, per_thread=False),)),  # of another process
        (~307 << 3 | 4, (CpuTimer(pid=307, per_thread=True),)),  # what a thread uses in user mode and system
        (~5 << 3 | 3, ()),  # a clock device
        (1, ()),  # CLOCK_MONOTONIC
        (0, ()),
    ],
)
def test_clock_ids(clock: int, expected: tuple[CpuTimer, ...]) -> None:
    assert parse_timers(timer(clock)) == expected
    assert parse_timers(timer(1) + timer(clock, 1)) == expected


def test_no_timer_at_all() -> None:
    assert parse_timers("") == ()


@pytest.mark.parametrize("text", ["\n", timer(-2)[:-1], timer(-2) + "ID: 1\n", timer(-2).replace("ClockID", "Clock")])
def test_what_is_no_list_of_timers(text: str) -> None:
    assert isinstance(outcome(lambda: parse_timers(text)), ProbeError)


def test_one_read_per_process() -> None:
    keys = [ThreadKey(pid=9, tid=10), ThreadKey(pid=9, tid=9), ThreadKey(pid=7, tid=7)]
    host = DictHost({"proc/9/limits": kernel.limits("60"), "proc/9/timers": timer(-2)})
    found = read_cpu_timers(host, keys)
    assert list(found) == [7, 9]
    assert found[9] == CpuTimers(limit_s=60, timers=(THREAD,))
    assert isinstance(found[7].limit_s, ProbeError)
    assert isinstance(found[7].timers, ProbeError)


@given(
    st.text(max_size=200) | st.lists(st.integers(-(1 << 40), 9), max_size=3).map(lambda ids: "".join(map(timer, ids)))
)
def test_timers_or_a_probe_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_timers(text)), tuple | ProbeError)


@given(st.text(max_size=99) | st.from_regex(r"Max cpu time [a-z0-9 -]{0,50}\n?", fullmatch=True))
def test_a_limit_or_a_probe_error(text: str) -> None:
    found = outcome(lambda: parse_cpu_limit(text))
    assert found is None or isinstance(found, ProbeError) or found >= 0
