"""Result files: complete or absent."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from auditor import output
from auditor.errors import UsageError
from auditor.model import ExitCode
from auditor.output import OutputError, check_writable, clean_beside, tar_gz, write_file, write_tree
from probes.bench import leftovers


def full(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_written_whole_with_the_mode_of_an_ordinary_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(str(tmp_path / "a.json"), b"{}")
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").read_bytes() == b"{}"
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_was_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    write_file(str(tmp_path / "a"), b"new")
    assert (tmp_path / "a").read_text() == "new"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_full_disk_leaves_what_was_there_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OutputError, match=r"a: No space left on device$") as caught:
        write_file(str(tmp_path / "a"), b"new")
    assert caught.value.exit_code is ExitCode.INTERNAL
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("write", [lambda path: write_file(path, b"new"), lambda path: write_tree(path, [("x", b"")])])
def test_an_interrupt_leaves_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str], None]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "chmod", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(str(tmp_path / "a"))
    assert os.listdir(tmp_path) == []


def beside(folder: Path, pid: int, start_ticks: int, *, machine: str = "", directory: bool = False) -> Path:
    """What a run with this identity was writing."""
    path = folder / f".cpu-audit-{machine or output._machine()}-{pid}-{start_ticks}-ab_c1234"
    if directory:
        (path / "t0").mkdir(parents=True)
    else:
        path.write_text("half")
    return path


def test_what_killed_runs_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    own = leftovers.this_process()
    dead = [beside(tmp_path, 999_999_999, 5), beside(tmp_path, own.pid, own.start_ticks + 1, directory=True)]
    kept = [
        beside(tmp_path, own.pid, own.start_ticks),
        beside(tmp_path, 999_999_999, 5, machine="00000000"),
        tmp_path / ".cpu-audit-abcdefgh",
    ]
    kept[-1].write_text("of another version")
    assert clean_beside(str(tmp_path / "a.json")) == sorted(path.name for path in dead)
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in kept)


def test_what_others_left_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = beside(tmp_path, 999_999_999, 5)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert clean_beside(str(tmp_path / "a.json")) == []
    assert left.exists()


def test_the_name_of_what_is_written_tells_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(os, "chmod", lambda path, mode: seen.append(os.path.basename(path)))
    write_file(str(tmp_path / "a"), b"")
    write_tree(str(tmp_path / "b"), [])
    own = leftovers.this_process()
    matches = [output.BESIDE.fullmatch(name) for name in seen]
    assert [match and match.groups() for match in matches] == [
        (output._machine(), str(own.pid), str(own.start_ticks))
    ] * 2
    monkeypatch.setattr(output, "process_id", lambda pid: None)
    assert output._prefix() == ".cpu-audit-"


def test_a_directory_that_went_away(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file or directory"):
        write_file(str(tmp_path / "gone" / "a"), b"")
    with pytest.raises(OutputError, match="No such file or directory"):
        write_tree(str(tmp_path / "gone" / "a"), [])


def test_what_can_be_written_leaves_no_trace_when_asked(tmp_path: Path) -> None:
    check_writable(str(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text("old")
    check_writable(str(tmp_path / "a.json"))
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_can_not_be_written_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory; name a file in it"):
        check_writable(str(tmp_path))
    with pytest.raises(UsageError, match=f"there is no directory {tmp_path}/gone"):
        check_writable(str(tmp_path / "gone" / "a.json"))
    with pytest.raises(UsageError, match="/proc is not writable"):
        check_writable("/proc/a.json")


def test_an_archive_holds_its_files_below_one_directory() -> None:
    data = tar_gz("rec", [("recording.json", b"{}"), ("t0/proc/stat", b"cpu\n")])
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        members = {member.name: (member.size, oct(member.mode)) for member in archive}
    assert members == {"rec/recording.json": (2, "0o644"), "rec/t0/proc/stat": (4, "0o644")}


def test_a_tree_is_written_whole(tmp_path: Path) -> None:
    write_tree(str(tmp_path / "rec"), [("recording.json", b"{}"), ("t0/proc/stat", b"cpu\n")])
    assert (tmp_path / "rec/t0/proc/stat").read_bytes() == b"cpu\n"
    assert stat.S_IMODE((tmp_path / "rec").stat().st_mode) == 0o777 & ~output._umask()
    assert os.listdir(tmp_path) == ["rec"]


def test_a_tree_on_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OutputError, match="No space left"):
        write_tree(str(tmp_path / "rec"), [("recording.json", b"{}")])
    assert os.listdir(tmp_path) == []


def test_a_tree_never_replaces_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "precious").write_text("")
    with pytest.raises(OutputError):
        write_tree(str(tmp_path / "rec"), [("recording.json", b"{}")])
    assert os.listdir(tmp_path) == ["rec"]
    assert os.listdir(tmp_path / "rec") == ["precious"]
