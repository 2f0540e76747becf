"""Recordings: what was read comes back as it was read, and nothing hostile in one does more than be refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes import record, recorded_files
from probes.host import DictHost, Host, ProbeError, SourceState, decode
from probes.record import (
    SCHEMA,
    Recorder,
    Recording,
    RecordingError,
    Tree,
    check_bounds,
    describe_files,
    describe_links,
    entries,
    load_recording,
)
from tests.probes.outcome import as_nobody, outcome

MINIMAL = {"t0/proc/stat": b"a\n", "t1/proc/stat": b"b\n"}
META = {"schema": SCHEMA, "times_ns": {"t0": 5, "t1": 9}}


def write_dir(root: Path, files: Mapping[str, bytes]) -> str:
    for name, data in files.items():
        path = os.path.join(str(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return str(root)


def add(archive: tarfile.TarFile, name: str, data: bytes = b"", **fields: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for field, value in fields.items():
        setattr(member, field, value)
    archive.addfile(member, io.BytesIO(data))


def write_tar(path: Path, files: Iterable[tuple[str, bytes]], mode: str = "w:gz", **options: object) -> str:
    with tarfile.open(path, mode, **options) as archive:  # type: ignore[call-overload]
        for name, data in files:
            add(archive, name, data)
    return str(path)


def refusal(path: str) -> str:
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    return str(caught.value)


def files_of(recorder: Recorder) -> list[tuple[str, bytes]]:
    meta = {
        **META,
        "times_ns": dict.fromkeys(recorder.trees, 1),
        "files": describe_files(recorder.trees),
        "links": describe_links(recorder.trees),
    }
    return [("recording.json", json.dumps(meta).encode()), *entries(recorder.trees)]


def both_ways(tmp_path: Path, recorder: Recorder) -> list[Recording]:
    files = files_of(recorder)
    packed = write_tar(tmp_path / "rec.tar.gz", [(f"rec/{name}", data) for name, data in files])
    return [load_recording(write_dir(tmp_path / "dir", dict(files))), load_recording(packed)]


def answers(host: Host, paths: Iterable[str]) -> list[object]:
    """Every answer of a host, errors by state and reason."""
    calls: list[Callable[[str], object]] = [host.read, host.listdir, host.mode, host.mtime, host.readlink]
    found: list[object] = []
    for path in paths:
        for call in calls:
            answer = outcome(lambda call=call, path=path: call(path))  # type: ignore[misc]
            found.append((answer.state, answer.reason) if isinstance(answer, ProbeError) else answer)
    return found


DENIED = ProbeError("proc/irq/9/x", "permission denied", SourceState.DENIED)
HOST = DictHost(
    {
        "proc/stat": "cpu 1 2\n",
        "proc/empty": "",
        "proc/cut": "no line end",
        "proc/1/task/1/status": "Name:\ta:b\nState:\tS\n\n",
        "proc/1/task/1/comm": "",
        "proc/1/task/1/stat": "1 (a\nb) S",
        "proc/1/task/2/stat": "2 (\\xffx\r\n\u2028y) S\n",
        "proc/1/task/2/schedstat": "\n",
        "proc/2/net/a:b": "colon\n",
        "proc/irq/9/smp_affinity_list": "0-1\n",
        "proc/irq/9/x": DENIED,
        "proc/secret": ProbeError("proc/secret", "a: b: c", SourceState.MASKED),
        "sys/devices/pci0000:00/x": "1\n",
        "sys/fs/cgroup/\udcff/cpuset.cpus": "3\n",
    },
    links={"sys/block/sda": "../devices/pci0000:00", "sys/block/\udcfe": "é"},
    modes={"proc/irq/9/smp_affinity_list": 0o444, "proc/stat": 0},
    mtimes={"proc/stat": 1_700_000_000_123_456_789, "sys/block/sda": 0},
)
PATHS = [*HOST.files, *HOST.links, "proc", "proc/1/task", "proc/irq", "sys/fs/cgroup", "absent", "absent/x"]


def test_a_recording_answers_as_the_host_did(tmp_path: Path) -> None:
    recorder = Recorder(HOST)
    expected = {phase: answers(recorder, PATHS) for phase in _phases(recorder)}
    for recording in both_ways(tmp_path, recorder):
        assert list(recording.samples) == ["samples/0001"]
        for phase, answer in expected.items():
            assert answers(recording.trees[phase].host(), PATHS) == answer


def _phases(recorder: Recorder) -> Iterable[str]:
    for phase in ("t0", "samples/0001", "t1"):
        recorder.phase(phase)
        yield phase


PART = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda part: part not in (".", "..")
)
PATH = st.tuples(st.sampled_from(["proc/7", "proc/7/task/8", "sys/x", "proc"]), PART).map(lambda parts: "/".join(parts))
TEXTS = st.binary(max_size=40).map(decode) | st.lists(st.sampled_from(["a", ":", "", "t0/x:y"])).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.dictionaries(PATH, TEXTS, max_size=6))
def test_any_text_under_any_name_comes_back(tmp_path: Path, files: dict[str, str]) -> None:
    folders = {path.rpartition("/")[0] for path in files}
    files = {path: text for path, text in files.items() if path not in folders and path != "bundle.txt"}
    recorder = Recorder(DictHost(files))
    for phase in ("t0", "t1"):
        recorder.phase(phase)
        answers(recorder, files)
    packed = write_tar(tmp_path / "any.tar.gz", [(f"any/{name}", data) for name, data in files_of(recorder)])
    if files:
        assert load_recording(packed).trees["t1"].files == files
    else:
        assert "no trees t0 and t1" in refusal(packed)


def test_what_worked_outranks_what_failed_before_or_after() -> None:
    class Flaky(DictHost):
        def read(self, path: str) -> str:
            answer = self.script.pop(0)
            if answer:
                return answer
            raise ProbeError(path, "no such file", SourceState.MISSING)

        def listdir(self, path: str) -> list[str]:
            return [self.read(path)]

        script = ["one", "", "", "two", "", "three", "name", "", "", "name"]  # noqa: RUF012

    recorder = Recorder(Flaky({}))
    for path in ("sys/a", "sys/a", "sys/b", "sys/b", "sys/c", "/sys/c"):
        outcome(lambda path=path: recorder.read(path))  # type: ignore[misc]
    for path in ("d", "/d/", "e", "e"):
        outcome(lambda path=path: recorder.listdir(path))  # type: ignore[misc]
    tree = recorder.trees["t0"]
    assert tree.files == {"sys/a": "one", "sys/b": "two", "sys/c": "three"}
    assert tree.errors == {}


@pytest.mark.parametrize("path", ["proc/7/environ", "/proc/7/environ", "proc/7/task/8/environ"])
def test_of_an_environment_only_what_irqbalance_is_told_is_kept(tmp_path: Path, path: str) -> None:
    whole = "TOKEN=secret\0IRQBALANCE_BANNED_CPULIST=1\0PASSWORD=secret\n\0"
    kept = "IRQBALANCE_BANNED_CPULIST=1\0"
    texts = {path.lstrip("/"): whole, "proc/8/environ": "TOKEN=secret\0", "proc/9/notenviron": whole}
    recorder = Recorder(DictHost(texts))
    for phase in ("t0", "t1"):
        recorder.phase(phase)
        assert recorder.read(path) == kept
        assert recorder.read("proc/8/environ") == ""
        assert recorder.read("proc/9/notenviron") == whole
        del recorder.trees[phase].files["proc/9/notenviron"]
    assert b"secret" not in b"".join(data for _, data in files_of(recorder))
    for recording in both_ways(tmp_path, recorder):
        assert recording.trees["t0"].host().read(path) == kept
        assert recording.trees["t0"].host().read("proc/8/environ") == ""


def test_a_phase_may_be_entered_again() -> None:
    recorder = Recorder(HOST)
    recorder.read("proc/stat")
    recorder.phase("t1")
    recorder.phase("t0")
    recorder.read("/proc/empty")
    assert recorder.trees["t0"].files == {"proc/stat": "cpu 1 2\n", "proc/empty": ""}
    assert recorder.trees["t1"].files == {}


def test_a_sample_in_which_nothing_could_be_read_is_a_sample(tmp_path: Path) -> None:
    files = {**MINIMAL, "recording.json": json.dumps({**META, "times_ns": {"samples/0001": 7}}).encode()}
    recording = load_recording(write_dir(tmp_path, files))
    assert recording.samples == ["samples/0001"]
    assert recording.time_ns("samples/0001") == 7


def test_samples_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    numbers = ("9999", "10000", "0002")
    files = {**MINIMAL, **{f"samples/{number}/proc/stat": b"x" for number in numbers}}
    assert load_recording(write_dir(tmp_path, files)).samples == ["samples/0002", "samples/9999", "samples/10000"]


def test_a_large_bundle_is_continued_by_plain_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = {f"proc/{pid}/status": f"Name:\t{pid}\nx\n" for pid in range(1, 9)}
    for limit, value in (("MAX_BUNDLE_CHARS", 100), ("MAX_BUNDLE_LINES", 7)):
        with monkeypatch.context() as patch:
            patch.setattr(record, limit, value)
            files = dict(entries({phase: Tree(files=texts) for phase in ("t0", "t1")}))
            assert "t0/bundle.txt" in files
            assert "t0/proc/8/status" in files
            assert "t0/proc/1/status" not in files
            assert load_recording(write_dir(tmp_path / limit, files)).trees["t0"].files == texts


def test_bundles_as_a_script_prints_them(tmp_path: Path) -> None:
    bundle = (
        b"/proc/1/task/1/status:Name:\tinit\n/proc/1/task/1/status:State:\tS\n"
        b"proc/1/task/1/schedstat:1 2 3\n"
        b"no colon in this line\n:no name\n\n"
        b"../../etc/passwd:root\n/proc/../x:y\nproc/2/stat:cut here"
    )
    files = {"t0/bundle.txt": bundle, "t0/proc/2/stat": b"plain\n", "t1/bundle.txt": b"proc/\xff:\xfe\n"}
    recording = load_recording(write_dir(tmp_path, files))
    assert recording.trees["t0"].files == {
        "proc/1/task/1/status": "Name:\tinit\nState:\tS\n",
        "proc/1/task/1/schedstat": "1 2 3\n",
        "proc/2/stat": "plain\n",  # what lies there for itself
    }
    assert recording.trees["t1"].files == {"proc/\\xff": "\\xfe\n"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_plain_file_outranks_the_bundle_in_any_order(tmp_path: Path, order: int) -> None:
    members = [("t0/bundle.txt", b"proc/2/stat:bundled\n"), ("t0/proc/2/stat", b"plain\n")][::order]
    path = write_tar(tmp_path / "r.tar.gz", [*members, ("t1/x", b"")])
    assert load_recording(path).trees["t0"].files == {"proc/2/stat": "plain\n"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("prefix", ["", "./", "rec/", "./rec/", "t0/", "samples/"])
def test_archives_of_every_kind(tmp_path: Path, mode: str, form: int, prefix: str) -> None:
    files = [("recording.json", json.dumps(META).encode()), *MINIMAL.items()]
    if form != tarfile.USTAR_FORMAT:
        files.append((f"t0/sys/{'long/' * 20}{'name' * 20}é", b"x" * 512))
    path = write_tar(tmp_path / "a.tar", [(prefix + name, data) for name, data in files], mode, format=form)
    recording = load_recording(path)
    assert recording.time_ns("t1") == 9
    assert recording.trees["t1"].files == {"proc/stat": "b\n"}
    assert len(recording.trees["t0"].files) == len(files) - 2


def test_other_files_beside_a_recording_are_left_alone(tmp_path: Path) -> None:
    members = [("._rec", b"?"), ("rec/README", b"?"), *((f"rec/{name}", data) for name, data in MINIMAL.items())]
    path = write_tar(tmp_path / "r.tar.gz", [*members, ("rec/t2/x", b""), ("other/t0/proc/stat", b"other\n")])
    assert load_recording(path).trees["t0"].files == {"proc/stat": "a\n"}
    folder = tmp_path / "dir"
    write_dir(folder, {**MINIMAL, "README": b"?", "t2/x": b"", "samples/x/y": b"", "samples/0001": b""})
    (folder / "link").symlink_to("/")
    recording = load_recording(str(folder))
    assert sorted(recording.trees) == ["t0", "t1"]


def test_a_recording_made_by_hand_has_no_meta(tmp_path: Path) -> None:
    recording = load_recording(write_dir(tmp_path, MINIMAL))
    assert recording.meta == {}
    assert recording.time_ns("t0") is None
    assert recording.text("cpus") == ""
    assert recording.samples == []


@pytest.mark.parametrize("files", [{}, {"t0/x": b""}, {"t1/x": b""}, {"proc/stat": b""}, {"t0": b"", "t1": b""}])
def test_without_both_ends_it_is_no_recording(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "d").mkdir()
    assert "no trees t0 and t1: not a recording" in refusal(write_dir(tmp_path / "d", files))
    assert "no trees t0 and t1: not a recording" in refusal(write_tar(tmp_path / "r.tar.gz", files.items()))


def test_the_root_of_this_machine_is_no_recording() -> None:
    assert "no trees t0 and t1" in refusal("/")


def test_what_is_not_there_or_no_file(tmp_path: Path) -> None:
    assert "No such file" in refusal(str(tmp_path / "none"))
    os.mkfifo(tmp_path / "pipe")
    assert "neither a directory nor a plain file" in refusal(str(tmp_path / "pipe"))
    assert "neither a directory nor a plain file" in refusal("/dev/zero")


@pytest.mark.parametrize(
    "fields",
    [
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"type": tarfile.LNKTYPE, "linkname": "t0/proc/stat"},
        {"type": tarfile.CHRTYPE},
        {"type": tarfile.BLKTYPE},
        {"type": tarfile.FIFOTYPE},
        {"name": "../t0/x"},
        {"name": "rec/../../t0/x"},
        {"name": "/t0/x"},
    ],
)
def test_members_that_are_no_plain_files_below(tmp_path: Path, fields: dict[str, object]) -> None:
    path = tmp_path / "r.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "rec/t0/x")
        add(archive, **{"name": "rec/t0/y", **fields})  # type: ignore[arg-type]
    assert "a recording holds only plain files below its directory" in refusal(str(path))


@pytest.mark.parametrize("name", ["t0", "t0/proc", "t0/proc/stat", "recording.json"])
@pytest.mark.parametrize("target", ["/proc", "/etc/passwd", "nowhere"])
def test_links_in_a_directory_are_refused(tmp_path: Path, name: str, target: str) -> None:
    write_dir(tmp_path, {"t1/x": b""})
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).symlink_to(target)
    assert "a recording holds only plain files" in refusal(str(tmp_path))


def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "r.tar", [*MINIMAL.items(), ("./t0//proc/stat", b"other")], "w")
    assert "'t0/proc/stat' is there twice" in refusal(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[]", "schema is not"),
        (b"null", "schema is not"),
        (b"{}", "schema is not"),
        (b'{"schema": "cpu-audit/audit/v1"}', "schema is not"),
        (b'{"schema": ["cpu-audit/recording/v1"]}', "schema is not"),
    ],
)
def test_meta_that_is_none(tmp_path: Path, data: bytes, reason: str) -> None:
    assert reason in refusal(write_dir(tmp_path, {**MINIMAL, "recording.json": data}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
NAMES = st.sampled_from(["t0/proc/stat", "t1/x", "samples/0001", "samples/1/y", "t0/../x", "/t0/x", "t0", ""])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(JSON | st.dictionaries(NAMES, JSON), JSON | st.dictionaries(NAMES, JSON), JSON | st.dictionaries(NAMES, JSON))
def test_hostile_meta_is_ignored(tmp_path: Path, files: object, links: object, times: object) -> None:
    meta = {"schema": SCHEMA, "files": files, "links": links, "times_ns": times, "cpus": files}
    recording = load_recording(write_dir(tmp_path, {**MINIMAL, "recording.json": json.dumps(meta).encode()}))
    recording.text("cpus").encode()
    for tree in recording.trees.values():
        assert all(".." not in path and not path.startswith("/") for path in [*tree.errors, *tree.links, *tree.modes])
        answers(tree.host(), ["proc/stat", "x", ""])
    assert recording.trees["t0"].files == {"proc/stat": "a\n"}


@pytest.mark.parametrize("value", [True, -1, 1.5, "5", None, [], 1 << 63, 10**4000])
def test_times_that_are_none(tmp_path: Path, value: object) -> None:
    assert Recording(trees={}, meta={"times_ns": {"t0": value}}).time_ns("t0") is None


def test_facts_of_files(tmp_path: Path) -> None:
    facts = {
        "t0/a": {"mode": 0o644, "mtime_ns": 7, "error": "denied: permission denied"},
        "t0/b": {"mode": True, "mtime_ns": True, "error": 5},
        "t0/c": {"mode": 0o10000, "mtime_ns": 1 << 63, "error": "read: no"},
        "t0/d": {"mode": -1, "mtime_ns": -1, "error": "\ud800"},
        "t0/proc/stat": {"error": "denied: no"},  # it is there
        "t9/e": {"mode": 1},
        "samples/0001/f": {"mode": 1},  # no such sample
    }
    meta = json.dumps({**META, "files": facts, "links": {"t0/l": "\ud800", "t0/m": 5, "t9/l": "x"}}).encode()
    recording = load_recording(write_dir(tmp_path, {**MINIMAL, "recording.json": meta}))
    tree = recording.trees["t0"]
    assert tree.modes == {"a": 0o644}
    assert tree.mtimes == {"a": 7}
    assert {path: (error.state, error.reason) for path, error in tree.errors.items()} == {
        "a": (SourceState.DENIED, "permission denied"),
        "c": (SourceState.MALFORMED, "no"),
        "d": (SourceState.MALFORMED, ""),
    }
    assert tree.links == {"l": "\\ud800"}
    assert sorted(recording.trees) == ["t0", "t1"]


def test_names_too_long_or_too_deep_are_left_out(tmp_path: Path) -> None:
    deep, long = "d/" * 40 + "x", "sys/" + "x" * 1100
    bundle = f"{deep}:1\n{long}:2\nok:3\n".encode()
    members = [*MINIMAL.items(), ("t0/bundle.txt", bundle), (f"t1/{deep}", b""), (f"t1/{long}", b"")]
    recording = load_recording(write_tar(tmp_path / "r.tar.gz", members))
    assert sorted(recording.trees["t0"].files) == ["ok", "proc/stat"]
    assert sorted(recording.trees["t1"].files) == ["proc/stat"]


@pytest.mark.parametrize(
    ("module", "limit", "value", "reason"),
    [
        (recorded_files, "MAX_FILES", 1, "more than 1 files"),
        (record, "MAX_FILES", 1, "more than 1 files"),
        (record, "MAX_BUNDLED", 2, "more than 2 files in bundles"),
        (record, "MAX_TOTAL_BYTES", 10, "more than 500000 files or 0 MiB"),
        (recorded_files, "MAX_BYTES", 4, "larger than 0 MiB"),
        (record, "MAX_BUNDLE_LINES", 2, "more than 2 lines"),
        (record, "MAX_META_BYTES", 9, "recording.json: larger than 0 MiB"),
    ],
)
def test_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, limit: str, value: int, reason: str
) -> None:
    files = {**MINIMAL, "t0/bundle.txt": b"a:1\nb:2\nc:3\n", "recording.json": json.dumps(META).encode()}
    folder, packed = write_dir(tmp_path / "d", files), write_tar(tmp_path / "r.tar.gz", files.items())
    load_recording(folder)
    load_recording(packed)
    monkeypatch.setattr(module, limit, value)
    assert reason in refusal(packed)
    if (module, limit) != (recorded_files, "MAX_FILES"):
        assert reason in refusal(folder)


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("MAX_FILES", 1, "the recording would hold more than 1 files or 1024 MiB"),
        ("MAX_TOTAL_BYTES", 10, "the recording would hold more than 500000 files or 0 MiB"),
        ("MAX_BUNDLED", 2, "the recording would hold more than 2 files in bundles"),
        ("MAX_META_BYTES", 9, "recording.json would be too large to be read again"),
        ("MAX_BYTES", 4, "t0/bundle.txt would be too large to be read again"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, reason: str
) -> None:
    files = {"recording.json": json.dumps(META).encode(), **MINIMAL, "t0/bundle.txt": b"a:1\na:2\nb:2\nc:3\n"}
    check_bounds(files.items())
    monkeypatch.setattr(record, limit, value)
    with pytest.raises(RecordingError) as caught:
        check_bounds(files.items())
    assert str(caught.value) == f"{reason}: shorten --window"


def test_thousands_of_sleeping_threads_in_every_sample_are_read_again(tmp_path: Path) -> None:
    """Each is a line of a bundle, and is kept once however often it is there."""
    threads = {f"proc/{pid}/task/{pid}/schedstat": f"{pid} 0 7\n" for pid in range(1000, 3000)}
    recorder = Recorder(DictHost(threads))
    for phase in ("t0", *(f"samples/{number:04d}" for number in range(1, 20)), "t1"):
        recorder.phase(phase)
        for path in threads:
            recorder.read(path)
    files = files_of(recorder)
    check_bounds(files)
    assert len(files) == 22
    trees = load_recording(write_tar(tmp_path / "r.tar.gz", files)).trees
    assert all(tree.files == threads for tree in trees.values())
    for path in threads:
        assert trees["t0"].files[path] is trees["samples/0019"].files[path]


def test_directories_are_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_files, "MAX_FILES", 10)
    folder = write_dir(tmp_path / "d", MINIMAL)
    for number in range(11):
        (tmp_path / f"d/t0/{number}").mkdir()
    assert "more than 10 directories" in refusal(folder)
    path = tmp_path / "r.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for number in range(11):
            add(archive, f"t0/{number}", type=tarfile.DIRTYPE)
    assert "more than 10 files" in refusal(str(path))


def test_samples_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MAX_SAMPLES", 5)
    times = {f"samples/{number}": 1 for number in range(50)}
    files = {**MINIMAL, "recording.json": json.dumps({**META, "times_ns": times}).encode()}
    assert len(load_recording(write_dir(tmp_path, files)).trees) == 5


def header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    """A tar header that claims what it likes."""
    block = bytearray(
        name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size.ljust(12, b"\0") + b"0" * 11 + b"\0"
    )
    block += b" " * 8 + kind + b"\0" * 100 + b"ustar\x0000" + b"\0" * 247
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


ZEROS = b"\0" * 1024


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header(b"t0/x", b"77777777777"), "is larger than 64 MiB"),
        (header(b"t0/x", b"\x80" + b"\xff" * 11), ""),  # base 256
        (header(b"t0/x", b"\xff" * 11 + b"\x01"), ""),  # negative
        (header(b"t0/x", b"00000001000") + b"cut", "'t0/x' is cut"),
        (header(b"x", b"77777777777", b"x"), "an archive header claims"),  # pax header of 8 GiB
        (header(b"x", b"77777777777", b"g"), "an archive header claims"),
        (header(b"x", b"77777777777", b"L"), "an archive header claims"),  # GNU long name
        (header(b"x", b"\xff" * 11 + b"\x01", b"L"), ""),
        (header(b"x", b"00000001000", b"x") + b"9" * 512, "an archive header holds an endless number"),
        (header(b"x", b"00000001000", b"L") * 3000, ""),  # headers that follow each other without end
        (header(b"other", b"77777777777") + ZEROS, "an archive header leads to byte"),
        (b"\x1f\x8b", ""),
        (b"\x1f\x8b\x08" + b"\0" * 30, ""),
        (b"not an archive", ""),
        (b"", ""),
    ],
)
def test_hostile_archives_are_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "r.tar"
    path.write_bytes(data)
    found = refusal(str(path))
    assert reason in found
    assert found.startswith(str(path))


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.99])
def test_a_cut_download_is_refused(tmp_path: Path, keep: float) -> None:
    noise = [(f"t0/{number}", os.urandom(900)) for number in range(20)]
    path = Path(write_tar(tmp_path / "r.tar.gz", [*MINIMAL.items(), *noise]))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    assert "not a recording, or damaged" in refusal(str(path))


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_files, "MAX_STREAM_BYTES", 1 << 20)
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb") as file:
        file.write(header(b"a", b"00040000000"))  # 8 MiB of a file that is none of ours
        for _ in range(8):
            file.write(b"\0" * (1 << 20))
        file.write(header(b"t0/x", b"0") + ZEROS)
    assert path.stat().st_size < 20_000
    assert "an archive header leads to byte" in refusal(str(path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(st.binary(max_size=400), st.integers(0, 3000), st.booleans())
def test_no_bytes_crash_the_reader(tmp_path: Path, noise: bytes, at: int, packed: bool) -> None:
    members = [*MINIMAL.items(), ("t0/sys/" + "é" * 120, b"x")]
    path = Path(write_tar(tmp_path / "r.tar", members, "w:gz" if packed else "w"))
    data = bytearray(path.read_bytes())
    data[at : at + len(noise)] = noise
    path.write_bytes(data)
    with contextlib.suppress(RecordingError):
        assert load_recording(str(path)).trees


def test_sparse_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("t0/x")
        member.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "99999999999"}
        archive.addfile(member)
    assert "only plain files" in refusal(str(path))


def test_a_directory_that_may_not_be_read(tmp_path: Path) -> None:
    write_dir(tmp_path, MINIMAL)
    (tmp_path / "t0").chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # pytest keeps them to its user, and the refusal is to be that of t0
    with as_nobody():
        assert "Permission denied" in refusal(str(tmp_path))


def test_a_directory_that_fails_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> object:
        raise PermissionError(13, "Permission denied")

    write_dir(tmp_path, MINIMAL)
    monkeypatch.setattr(os, "scandir", fail)
    assert "Permission denied" in refusal(str(tmp_path))
