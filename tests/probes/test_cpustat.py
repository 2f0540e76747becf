from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.cpustat import CpuTimes, parse_cpustat, read_cpustat
from probes.host import DictHost, ProbeError, SourceState
from tests.probes.collected import BOOTED, text_of
from tests.probes.outcome import outcome

STAT = """\
cpu  640 3 380 6200 10 2 23 9 4 1
cpu0 340 2 250 3100 8 1 14 5 3 1
cpu4 300 1 130 3100 2 1 9 4 1 0
intr 54982 105 9 0 0 2
ctxt 50866
btime 1796047835
processes 285
softirq 12498 0 2108 0 0 0 0 1 10365 24 0
"""


def test_rows_of_online_cpus() -> None:
    found = parse_cpustat(STAT)
    assert sorted(found.cpus) == [0, 4]
    assert found.btime == 1796047835
    assert found.cpus[0] == CpuTimes(
        user=340,
        nice=2,
        system=250,
        idle=3100,
        iowait=8,
        irq=1,
        softirq=14,
        steal=5,
        guest=3,
        guest_nice=1,
    )


def test_busy_leaves_out_idle_iowait_steal_and_counts_guest_once() -> None:
    times = parse_cpustat(STAT).cpus[0]
    assert times.busy_ticks == 340 + 2 + 250 + 1 + 14
    assert times.total_ticks == times.busy_ticks + 3100 + 8 + 5


@pytest.mark.parametrize(
    ("columns", "steal", "guest", "guest_nice"), [(7, None, None, None), (8, 5, None, None), (9, 5, 3, None)]
)
def test_columns_that_old_kernels_lack_are_none(
    columns: int, steal: int | None, guest: int | None, guest_nice: int | None
) -> None:
    row = ["cpu0", "340", "2", "250", "3100", "8", "1", "14", "5", "3", "1"][: columns + 1]
    times = parse_cpustat(" ".join(row) + "\n").cpus[0]
    assert (times.steal, times.guest, times.guest_nice) == (steal, guest, guest_nice)
    assert times.total_ticks == 340 + 2 + 250 + 3100 + 8 + 1 + 14 + (steal or 0)


def test_btime_may_be_absent() -> None:
    assert parse_cpustat("cpu0 1 2 3 4 5 6 7 8 9 10\n").btime is None


def test_columns_of_later_kernels_are_left_out() -> None:
    assert parse_cpustat("cpu0 1 2 3 4 5 6 7 8 9 10 11\n").cpus[0].guest_nice == 10


def test_reading_takes_the_file_of_the_host() -> None:
    assert read_cpustat(DictHost({"proc/stat": STAT})) == parse_cpustat(STAT)


@pytest.mark.parametrize(
    ("text", "reason", "state"),
    [
        ("", "empty", SourceState.MASKED),
        ("cpu0 1 2 3 4 5 6 7", "line 1: no line end", SourceState.MALFORMED),
        ("cpu  1 2 3 4 5 6 7\nbtime 5\n", "no cpuN rows", SourceState.MALFORMED),
        ("cpu0 1 2 3 4 5 6\n", "line 1: not 7", SourceState.MALFORMED),
        ("cpu0 1 2 3 4 5 6 x\n", "line 1: not 7", SourceState.MALFORMED),
        ("cpu0 1 2 3 4 5 6 -7\n", "line 1: not 7", SourceState.MALFORMED),
        ("cpu0 1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7\n", "line 2: a second cpu0", SourceState.MALFORMED),
        ("cpu0 1 2 3 4 5 6 7 8\ncpu1 1 2 3 4 5 6 7\n", "line 2: .* other columns", SourceState.MALFORMED),
    ],
)
def test_damage_is_refused(text: str, reason: str, state: SourceState) -> None:
    with pytest.raises(ProbeError, match=f"^/proc/stat: {reason}") as caught:
        parse_cpustat(text)
    assert caught.value.state is state


@settings(deadline=None)
@given(st.text() | st.text(alphabet="cpu01 \n9btime-").map(lambda text: text + "\n"))
def test_any_text_is_a_value_or_a_probe_error(text: str) -> None:
    found = outcome(lambda: parse_cpustat(text, path="some/path"))
    if isinstance(found, ProbeError):
        assert found.path == "some/path"
    else:
        assert found.cpus
        assert all(times.total_ticks >= times.busy_ticks >= 0 for times in found.cpus.values())


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**63), min_size=10, max_size=10), min_size=1, max_size=4))
def test_printed_as_the_kernel_prints_it_comes_back(table: list[list[int]]) -> None:
    lines = [f"cpu{cpu} {' '.join(map(str, row))}" for cpu, row in enumerate(table)]
    found = parse_cpustat("cpu  0\n" + "\n".join(lines) + "\n")
    assert [
        [t.user, t.nice, t.system, t.idle, t.iowait, t.irq, t.softirq, t.steal, t.guest, t.guest_nice]
        for t in found.cpus.values()
    ] == table


def test_booted_guest_spinning_on_cpu_1() -> None:
    path = BOOTED / "isolated-rt612-6cpu" / "cpu-proc-stat-after.txt"
    if not path.is_file():
        pytest.skip("no recording beside the repository")
    found = parse_cpustat(text_of(path))
    assert sorted(found.cpus) == [0, 1, 2, 3, 4, 5]
    assert (found.cpus[1].busy_ticks, found.cpus[1].total_ticks) == (2319 + 200, 2319 + 200 + 2216)
