"""The block I/O of processes: two numbers, or the reason why there are none."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState, TreeHost
from probes.task_io import TaskIo, parse_task_io, read_task_ios
from tests.probes.outcome import outcome

TEXT = """rchar: 679155
wchar: 0
syscr: 196
syscw: 0
read_bytes: 7701504
write_bytes: 4096
cancelled_write_bytes: 0
"""


def test_what_was_read_and_written() -> None:
    assert parse_task_io(TEXT) == TaskIo(read_bytes=7701504, write_bytes=4096)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no field read_bytes"),
        (TEXT.replace("read_bytes: 7701504\n", ""), "no field read_bytes"),
        (TEXT.replace("\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n", "\nwrite_bytes: 40"), "no field write_bytes"),
        (TEXT.replace("4096", "-1"), "write_bytes is no number, or there twice: ' -1'"),
        (TEXT + TEXT, "read_bytes is no number, or there twice: ' 7701504'"),
    ],
)
def test_what_is_no_accounting(text: str, reason: str) -> None:
    with pytest.raises(ProbeError) as caught:
        parse_task_io(text, path="proc/7/io")
    assert str(caught.value) == f"/proc/7/io: {reason}"


@given(st.text(max_size=80) | st.lists(st.sampled_from(TEXT.splitlines(keepends=True))).map("".join))
def test_any_text_is_two_numbers_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_task_io(text)), (TaskIo, ProbeError))


def test_every_process_has_its_own_answer() -> None:
    denied = ProbeError("proc/8/io", "permission denied", SourceState.DENIED)
    found = read_task_ios(DictHost({"proc/7/io": TEXT, "proc/8/io": denied}), [8, 7, 7, 9])
    assert (found[7], found[8]) == (TaskIo(read_bytes=7701504, write_bytes=4096), denied)
    assert isinstance(found[9], ProbeError)
    assert list(found) == [7, 8, 9]


def test_this_process() -> None:
    assert isinstance(read_task_ios(TreeHost(), [os.getpid()])[os.getpid()], (TaskIo, ProbeError))
