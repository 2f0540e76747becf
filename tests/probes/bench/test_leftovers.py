from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.bench import leftovers
from probes.bench.errors import ToolError
from probes.bench.leftovers import ProcessId, Record
from probes.host import DictHost, ProbeError

STAT = "{pid} ({comm}) {state} 1 7 7 0 -1 4194304 9 0 0 0 1 2 0 0 20 0 1 0 {start} 1024 1 18446744073709551615"


@pytest.fixture
def sleeper() -> Iterator[ProcessId]:
    with subprocess.Popen(("sleep", "60"), start_new_session=True) as child:
        found = leftovers.process_id(child.pid)
        assert found is not None
        yield found
        child.kill()


@pytest.fixture
def dead_tool() -> ProcessId:
    """The identity of a process that is gone."""
    with subprocess.Popen(("sleep", "60")) as child:
        found = leftovers.process_id(child.pid)
        child.kill()
    assert found is not None
    return found


@pytest.fixture
def record(run_dir: Path, dead_tool: ProcessId, tmp_path: Path) -> Record:
    directory = tmp_path / "cpu-audit-left"
    (directory / "tmp-stress-ng").mkdir(parents=True)
    (directory / "tmp-stress-ng" / "file").write_text("x")
    boot_id, namespace = leftovers.boot_and_namespace()
    return Record(
        tool=dead_tool,
        boot_id=boot_id,
        namespace=namespace,
        name="stress-ng",
        child=None,
        directory=str(directory),
        shared_file="",
    )


def removed(record: Record) -> str:
    return f"removed {record.directory} of a killed run"


@pytest.mark.parametrize(
    ("comm", "state", "expected"),
    [("spin", "R", 4242), ("a) R 1 (b", "S", 4242), ("", "D", 4242), ("gone", "Z", None), ("gone", "X", None)],
)
def test_start_time_is_field_22_whatever_the_name(comm: str, state: str, expected: int | None) -> None:
    assert leftovers.parse_start_ticks(STAT.format(pid=77, comm=comm, state=state, start=4242)) == expected


@pytest.mark.parametrize("text", ["", "1 (x) R 1 2 3", STAT.format(pid=1, comm="x", state="R", start="-1"), "\0" * 50])
def test_malformed_stat_is_a_probe_error(text: str) -> None:
    with pytest.raises(ProbeError, match="no start time"):
        leftovers.parse_start_ticks(text)


@given(st.text())
def test_no_text_crashes_the_parsers(text: str) -> None:
    for parse in (leftovers.parse_start_ticks, leftovers.parse_record):
        with pytest.raises(ProbeError):
            parse(text)


def test_process_id_of_nobody_is_none() -> None:
    assert leftovers.process_id(5, DictHost({})) is None
    assert leftovers.process_id(5, DictHost({"proc/5/stat": "5 (x)"})) is None
    assert leftovers.process_id(5, DictHost({"proc/5/stat": STAT.format(pid=5, comm="x", state="Z", start=9)})) is None


def test_own_identity_needs_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert leftovers.alive(leftovers.this_process())
    monkeypatch.setattr(leftovers, "process_id", lambda pid: None)
    with pytest.raises(ToolError, match="mount /proc"):
        leftovers.this_process()


def test_boot_and_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    boot_id, namespace = leftovers.boot_and_namespace()
    assert len(boot_id) == 36
    assert namespace.startswith("pid:[")
    monkeypatch.setattr(leftovers, "TreeHost", lambda: DictHost({}))
    assert leftovers.boot_and_namespace() == ("", "")


def test_run_directory_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/t")
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert leftovers.run_directory_path({"XDG_RUNTIME_DIR": "/run/user/7"}, 0) == "/run/cpu-audit"
    assert leftovers.run_directory_path({"XDG_RUNTIME_DIR": "/run/user/7"}, 7) == "/run/user/7/cpu-audit"
    assert leftovers.run_directory_path({}, 7) == "/t/cpu-audit-7"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert leftovers.run_directory_path({}, 0) == "/t/cpu-audit-0"


def test_run_directory_is_made_private_and_found_again(run_dir: Path) -> None:
    assert leftovers.run_directory() == str(run_dir)
    assert run_dir.stat().st_mode & 0o7777 == 0o700
    assert leftovers.run_directory() == str(run_dir)


def test_run_directory_refuses_a_link(run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    run_dir.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match="remove it"):
        leftovers.run_directory()


def test_run_directory_refuses_what_others_may_enter(run_dir: Path) -> None:
    run_dir.mkdir()
    run_dir.chmod(0o755)
    with pytest.raises(ToolError, match="remove it"):
        leftovers.run_directory()


def test_run_directory_refuses_another_owner(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(ToolError, match="remove it"):
        leftovers.run_directory()


def test_run_directory_that_cannot_be_made(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "run_directory_path", lambda environ, uid: str(run_dir / "no" / "parent"))
    with pytest.raises(ToolError, match="No such file or directory"):
        leftovers.run_directory()


def test_clean_makes_nothing_and_stops_no_audit(run_dir: Path) -> None:
    assert leftovers.clean_leftovers() == ()
    assert not run_dir.exists()
    run_dir.write_text("")
    assert leftovers.clean_leftovers() == (f"{run_dir} is not a directory that only this user may enter: remove it",)


def test_a_record_comes_back_as_it_was_written(record: Record, sleeper: ProcessId) -> None:
    full = replace(record, child=sleeper, shared_file="/dev/shm/cyclictest7")
    path = Path(leftovers.write_record(record))
    assert leftovers.parse_record(path.read_text()) == record
    assert leftovers.write_record(full, str(path)) == str(path)
    assert leftovers.parse_record(path.read_text()) == full
    assert path.stat().st_mode & 0o777 == 0o600
    assert [name for name in os.listdir(path.parent) if name.startswith("record")] == [path.name]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"pid": ', '"pid": -'),
        ('"name": "stress-ng"', '"name": 5'),
        ('"tool"', '"tul"'),
        ('"child": null', '"child": 5'),
    ],
)
def test_a_foreign_record_is_refused(record: Record, old: str, new: str) -> None:
    text = Path(leftovers.write_record(record)).read_text()
    assert old in text
    with pytest.raises(ProbeError, match="not a record"):
        leftovers.parse_record(text.replace(old, new))


def test_clean_ends_the_child_and_removes_its_directory(record: Record, sleeper: ProcessId) -> None:
    path = leftovers.write_record(replace(record, child=sleeper))
    assert leftovers.clean_leftovers() == (f"ended stress-ng (pid {sleeper.pid}) of a killed run", removed(record))
    assert not leftovers.alive(sleeper)
    assert not os.path.exists(record.directory)
    assert not os.path.exists(path)
    assert leftovers.clean_leftovers() == ()


def test_clean_kills_what_ignores_sigterm(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GRACE_S", 0.3)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen(("python3", "-c", code), start_new_session=True, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        stubborn = leftovers.process_id(child.pid)
        assert stubborn is not None
        leftovers.write_record(replace(record, child=stubborn))
        assert leftovers.clean_leftovers()[0] == f"ended stress-ng (pid {child.pid}) of a killed run"
        assert child.wait() == -9


def test_clean_says_so_when_the_child_cannot_be_ended(
    record: Record, sleeper: ProcessId, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = leftovers.write_record(replace(record, child=sleeper))
    monkeypatch.setattr(leftovers, "GRACE_S", 0.0)
    monkeypatch.setattr(os, "killpg", lambda group, number: None)
    stuck = f"stress-ng (pid {sleeper.pid}) of a killed run can't be ended: it is stuck in the kernel"
    assert leftovers.clean_leftovers() == (stuck,)
    assert os.path.exists(record.directory)
    assert os.path.exists(path)


def test_clean_never_touches_a_recycled_pid(record: Record, sleeper: ProcessId) -> None:
    leftovers.write_record(replace(record, child=replace(sleeper, start_ticks=sleeper.start_ticks + 1)))
    assert leftovers.clean_leftovers() == (removed(record),)
    assert leftovers.alive(sleeper)


def test_clean_leaves_a_run_alone_that_still_lives(record: Record, sleeper: ProcessId) -> None:
    path = leftovers.write_record(replace(record, tool=leftovers.this_process(), child=sleeper))
    assert leftovers.clean_leftovers() == ()
    assert leftovers.alive(sleeper)
    assert os.path.exists(record.directory)
    assert os.path.exists(path)


def test_clean_leaves_other_containers_alone(record: Record, sleeper: ProcessId) -> None:
    path = leftovers.write_record(replace(record, namespace="pid:[1]", child=sleeper))
    assert leftovers.clean_leftovers() == ()
    assert leftovers.alive(sleeper)
    assert os.path.exists(path)


def test_after_a_reboot_only_the_directory_is_left(record: Record, sleeper: ProcessId) -> None:
    leftovers.write_record(replace(record, boot_id="another", namespace="pid:[1]", child=sleeper))
    assert leftovers.clean_leftovers() == (removed(record),)
    assert leftovers.alive(sleeper)


def test_a_half_written_record_is_forgotten(run_dir: Path, dead_tool: ProcessId) -> None:
    name = f"record-{dead_tool.pid}-{dead_tool.start_ticks}-0123456789abcdef.json"
    leftovers.run_directory()
    (run_dir / name).write_text("")
    (run_dir / f"{name}.new").write_text('{"tool"')
    (run_dir / "notes").write_text("not ours")
    assert leftovers.clean_leftovers() == ()
    assert os.listdir(run_dir) == ["notes"]


@pytest.mark.parametrize("name", ["data", "cpu-audit-link", "cpu-audit-file", "cpu-audit-nul\0"])
def test_clean_removes_nothing_but_private_directories(record: Record, tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "cpu-audit-link").symlink_to(tmp_path / "data")
    (tmp_path / "cpu-audit-file").write_text("x")
    path = leftovers.write_record(replace(record, directory=str(tmp_path / name)))
    assert leftovers.clean_leftovers() == ()
    assert {"data", "cpu-audit-link", "cpu-audit-file"} <= set(os.listdir(tmp_path))
    assert not os.path.exists(path)


def test_a_directory_that_cannot_be_removed_stays_recorded(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    path = leftovers.write_record(record)
    monkeypatch.setattr(leftovers, "remove_directory", lambda directory: False)
    assert leftovers.clean_leftovers() == (f"{record.directory} of a killed run can't be removed",)
    assert os.path.exists(path)


def test_shared_memory_of_a_dead_cyclictest_is_removed(record: Record, dead_tool: ProcessId) -> None:
    shared = Path(f"/dev/shm/cyclictest{dead_tool.pid}")
    shared.write_text("x")
    leftovers.write_record(replace(record, child=dead_tool, shared_file=str(shared)))
    assert leftovers.clean_leftovers() == (f"removed {shared} of a killed run", removed(record))
    assert not shared.exists()


def test_shared_memory_of_a_later_cyclictest_is_kept(record: Record, sleeper: ProcessId) -> None:
    shared = Path(f"/dev/shm/cyclictest{sleeper.pid}")
    shared.write_text("x")
    earlier = replace(sleeper, start_ticks=sleeper.start_ticks - 1)
    leftovers.write_record(replace(record, child=earlier, shared_file=str(shared)))
    assert leftovers.clean_leftovers() == (removed(record),)
    assert shared.exists()
    shared.unlink()


@pytest.mark.parametrize("path", ["", "/dev/shm/cyclictest99999999", "/dev/shm/\0"])
def test_no_shared_memory_is_no_error(path: str) -> None:
    assert not leftovers.remove_shared_file(path)


def test_only_the_shared_memory_of_cyclictest_is_removed(tmp_path: Path) -> None:
    other = tmp_path / "cyclictest1"
    other.write_text("x")
    assert not leftovers.remove_shared_file(str(other))
    assert other.exists()
