"""The door to a host: what every kind of absence becomes, and that no tree leads out of itself."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import host as module
from probes.host import DictHost, ProbeError, SourceState, TreeHost, decode, os_error, visible
from tests.probes.outcome import as_nobody, outcome

MISSING = (SourceState.MISSING, "no such file")


def why(error: object) -> tuple[SourceState, str]:
    assert isinstance(error, ProbeError)
    return error.state, error.reason


def tree(root: Path, files: dict[str, bytes]) -> TreeHost:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return TreeHost(str(root))


def test_reads_text_lists_names_and_tells_modes(tmp_path: Path) -> None:
    host = tree(tmp_path, {"proc/b": b"one\r\ntwo\n", "proc/a": b"", "sys/x/y": b"\xffz\xe2\x82\xac"})
    (tmp_path / "proc/b").chmod(0o640)
    (tmp_path / "sys/link").symlink_to("x/y")
    assert host.read("proc/b") == "one\r\ntwo\n"
    assert host.read("/proc/b") == "one\r\ntwo\n"
    assert host.read("proc/a") == ""
    assert host.read("sys/x/y") == "\\xffz€"
    assert host.listdir("proc") == ["a", "b"]
    assert host.mode("proc/b") == 0o640
    os.utime(tmp_path / "proc/b", ns=(1, 1_700_000_000_123_456_789))
    assert host.mtime("proc/b") == 1_700_000_000_123_456_789
    assert host.readlink("sys/link") == "x/y"
    assert host.read("sys/link") == "\\xffz€"


@pytest.mark.parametrize("path", ["proc/none", "proc/file/below", "proc/nul\0", "proc/\ud800", "etc/nul\0"])
def test_what_is_not_there_is_missing(tmp_path: Path, path: str) -> None:
    host = tree(tmp_path, {"proc/file": b"x"})
    calls: list[Callable[[str], object]] = [host.read, host.listdir, host.mode, host.mtime, host.readlink]
    for call in calls:
        assert why(outcome(partial(call, path))) == MISSING


def test_a_directory_read_as_a_file_is_malformed(tmp_path: Path) -> None:
    host = tree(tmp_path, {"proc/dir/file": b"x"})
    assert why(outcome(lambda: host.read("proc/dir"))) == (SourceState.MALFORMED, "is a directory")
    assert why(outcome(lambda: host.listdir("proc/dir/file"))) == MISSING


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOENT, MISSING),
        (errno.ESRCH, MISSING),  # the process ended while it was read
        (errno.ENODEV, MISSING),  # the device went away
        (errno.EACCES, (SourceState.DENIED, "permission denied")),
        (errno.EPERM, (SourceState.DENIED, "permission denied")),  # hidepid=1
        (errno.EIO, (SourceState.MALFORMED, "input/output error")),
        (errno.ELOOP, (SourceState.MALFORMED, "too many levels of symbolic links")),
    ],
)
def test_system_errors_have_a_state(number: int, expected: tuple[SourceState, str]) -> None:
    assert why(os_error("proc/x", OSError(number, "text"))) == expected


def test_denied(tmp_path: Path) -> None:
    host = tree(tmp_path, {"proc/secret": b"x"})
    (tmp_path / "proc/secret").chmod(0)
    with as_nobody():
        found = outcome(lambda: host.read("proc/secret"))
    assert why(found) == (SourceState.DENIED, "permission denied")


def test_an_error_in_the_middle_of_a_read_closes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int, size: int) -> bytes:
        raise OSError(errno.ESRCH, "gone")

    host = tree(tmp_path, {"proc/x": b"x"})
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "read", fail)
    assert why(outcome(lambda: host.read("proc/x"))) == MISSING
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_short_read_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.read
    host = tree(tmp_path, {"proc/x": b"abcdefgh"})
    monkeypatch.setattr(os, "read", lambda handle, size: real(handle, min(size, 3)))
    assert host.read("proc/x") == "abcdefgh"


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100_000)
    host = tree(tmp_path, {"proc/most": b"x" * 100_000})
    (tmp_path / "proc/zero").symlink_to("/dev/zero")
    assert len(host.read("proc/most")) == 100_000
    assert why(outcome(lambda: host.read("proc/zero")))[0] is SourceState.MALFORMED


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    os.mkfifo(tmp_path / "proc/pipe")
    assert TreeHost(str(tmp_path)).read("proc/pipe") == ""


def test_links_of_an_image_stay_in_the_image(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    root = tmp_path / "image"
    host = tree(root, {"data/kubelet/state": b"inside\n", "outside": b"mine\n"})
    (root / "var").mkdir()
    (root / "var/kubelet").symlink_to("/data/kubelet")
    (root / "var/up").symlink_to("../../../../outside")
    (root / "var/abs").symlink_to(str(outside))
    (root / "var/loop").symlink_to("loop")
    assert host.read("var/kubelet/state") == "inside\n"
    assert host.listdir("var/kubelet") == ["state"]
    assert host.readlink("var/kubelet") == "/data/kubelet"
    assert host.read("var/up") == "mine\n"
    assert host.read("../outside") == "mine\n"
    assert host.read("./var/../outside") == "mine\n"
    assert why(outcome(lambda: host.read("var/abs"))) == MISSING
    assert why(outcome(lambda: host.mode("var/loop"))) == (
        SourceState.MALFORMED,
        "too many levels of symbolic links",
    )


@pytest.mark.parametrize("root", ["/", "//", ""])
def test_the_live_root_has_many_names(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert TreeHost(root).read("proc/self/status").startswith("Name:\t")
    assert TreeHost(root).readlink("proc/self") == str(os.getpid())


def test_names_that_are_no_utf8_can_be_read_and_printed(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    with open(os.fsencode(tmp_path) + b"/sys/\xff", "wb") as file:
        file.write(b"x")
    host = TreeHost(str(tmp_path))
    (name,) = host.listdir("sys")
    assert host.read(f"sys/{name}") == "x"
    assert visible(name) == "\\udcff"
    error = outcome(lambda: host.read(f"sys/{name}/none"))
    assert str(error) == "/sys/\\udcff/none: no such file"


def test_a_dict_host_answers_like_a_tree() -> None:
    denied = ProbeError("proc/irq", "permission denied", SourceState.DENIED)
    host = DictHost(
        {"proc/1/task/1/stat": "s", "proc/irq": denied, "proc/irq/0/x": "y", "top": "t"},
        links={"sys/block/sda": "../devices/sda"},
        modes={"top": 0},
    )
    assert host.read("proc/1/task/1/stat") == host.read("/proc/1/task/1/stat") == "s"
    assert host.listdir("proc") == host.listdir("proc/") == ["1", "irq"]
    assert host.listdir("") == host.listdir("/") == ["proc", "sys", "top"]
    assert host.listdir("sys/block") == ["sda"]
    assert host.readlink("/sys/block/sda") == "../devices/sda"
    assert host.mode("/top") == 0
    assert outcome(lambda: host.read("proc/irq")) is denied
    assert outcome(lambda: host.listdir("proc/irq")) is denied
    assert why(outcome(lambda: host.read("proc/1"))) == MISSING
    assert why(outcome(lambda: host.listdir("proc/2"))) == MISSING
    assert why(outcome(lambda: host.listdir("top"))) == MISSING
    assert why(outcome(lambda: host.readlink("top"))) == MISSING
    assert why(outcome(lambda: host.mode("proc/irq"))) == (SourceState.MISSING, "mode not recorded")


def test_a_deep_path_needs_no_deep_stack() -> None:
    host = DictHost({"a/" * 3000 + "b": "x"})
    assert host.listdir("a") == ["a"]


@settings(deadline=None)
@given(st.binary())
def test_decoded_text_can_always_be_encoded(data: bytes) -> None:
    text = decode(data)
    assert decode(text.encode()) == text


@settings(deadline=None)
@given(st.text(st.characters()))
def test_visible_names_can_always_be_encoded(name: str) -> None:
    assert visible(visible(name)) == visible(name)
    visible(name).encode()
