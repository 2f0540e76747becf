import gzip
import subprocess
from pathlib import Path

import pytest

from tests.node import acpi, artifacts, cpio
from tests.node.errors import NodeError

SHOWN = """\
Package: linux-image-rt-amd64
Version: 6.1.192-3
Depends: linux-image-6.1.0-57-rt-amd64 (= 6.1.192-3)

Package: linux-image-rt-amd64
Version: 6.12.9-1~bpo12+1
Depends: init-system-helpers (>= 1.5), linux-image-6.12.9+bpo-rt-amd64 (= 6.12.9-1~bpo12+1)
"""


def test_kernel_package_of_each_series() -> None:
    parse = artifacts.parse_kernel_package
    assert parse(SHOWN, "6.1-rt") == ("linux-image-6.1.0-57-rt-amd64", "6.1.192-3")
    assert parse(SHOWN, "6.12-rt") == ("linux-image-6.12.9+bpo-rt-amd64", "6.12.9-1~bpo12+1")


@pytest.mark.parametrize("text", ["", "Depends: linux-image-6.1.0-57-amd64 (= 6.1.192-3)\n"])
def test_no_kernel_package(text: str) -> None:
    assert artifacts.parse_kernel_package(text, "6.1-rt") is None


def test_unknown_series() -> None:
    with pytest.raises(NodeError, match=r"no kernel '5\.10': choose from 6\.12-rt, 6\.1-rt"):
        artifacts.kernel_package("5.10")


def test_insmod_lines_in_order_without_builtins() -> None:
    text = "builtin virtio\ninsmod /m/9pnet.ko.xz \ninsmod /m/9p.ko.xz debug=0\n"
    assert artifacts.parse_insmod(text) == [Path("/m/9pnet.ko.xz"), Path("/m/9p.ko.xz")]


def test_cached_builds_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(path: Path) -> None:
        built.append(path)
        path.write_text("whole")

    for _ in range(2):
        assert artifacts._cached(tmp_path / "thing", build).read_text() == "whole"
    assert len(built) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["thing"]


def test_cached_yields_to_a_faster_process(tmp_path: Path) -> None:
    def build(path: Path) -> None:
        path.mkdir()
        (tmp_path / "kernel").mkdir()
        (tmp_path / "kernel" / "theirs").touch()

    assert artifacts._cached(tmp_path / "kernel", build) == tmp_path / "kernel"
    assert [entry.name for entry in (tmp_path / "kernel").iterdir()] == ["theirs"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["kernel"]


def test_cached_leaves_nothing_of_a_failed_build(tmp_path: Path) -> None:
    def build(path: Path) -> None:
        path.write_text("half")
        raise NodeError("no space")

    with pytest.raises(NodeError, match="no space"):
        artifacts._cached(tmp_path / "thing", build)
    assert list(tmp_path.iterdir()) == []


def test_failing_and_missing_tools() -> None:
    with pytest.raises(NodeError, match="sh -c echo why >&2; exit 3: exit 3: why"):
        artifacts._run(["sh", "-c", "echo why >&2; exit 3"])
    with pytest.raises(NodeError, match="no-such-tool: No such file"):
        artifacts._run(["no-such-tool"])


def test_archive_is_a_newc_cpio() -> None:
    raw = gzip.decompress(cpio.archive({"init": b"#!", "bin/sh": b"12345"}))
    zeros = "00000000"
    assert raw == b"".join(
        [
            f"07070100000001000041ED{zeros * 2}00000001{zeros}{zeros}{zeros * 4}00000004{zeros}bin\0".encode(),
            b"\0\0",
            f"07070100000002000081ED{zeros * 2}00000001{zeros}00000005{zeros * 4}00000007{zeros}bin/sh\0".encode(),
            b"\0" * 3 + b"12345" + b"\0" * 3,
            f"07070100000003000081ED{zeros * 2}00000001{zeros}00000002{zeros * 4}00000005{zeros}init\0".encode(),
            b"\0" + b"#!" + b"\0" * 2,
            f"0707010000000400000000{zeros * 2}00000001{zeros}{zeros}{zeros * 4}0000000B{zeros}TRAILER!!!\0".encode(),
            b"\0" * 3,
        ]
    )


def test_idle_table_names_every_cpu_and_state() -> None:
    state = "Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, "
    cst = f"Name (_CST, Package () {{ 3, {state}1, 1000 }}, {state}60, 500 }}, {state}200, 100 }} }})"
    assert acpi.idle_table(2).splitlines() == [
        'DefinitionBlock ("", "SSDT", 2, "NODE", "IDLE", 1)',
        "{",
        "  External (\\_SB.CPUS.C000, DeviceObj)",
        "  External (\\_SB.CPUS.C001, DeviceObj)",
        f"  Scope (\\_SB.CPUS.C000) {{ {cst} }}",
        f"  Scope (\\_SB.CPUS.C001) {{ {cst} }}",
        "}",
    ]


def test_guest_scripts_are_shell() -> None:
    for name in ("init", "finish"):
        assert subprocess.run(["sh", "-n", str(artifacts.GUEST / name)], check=False).returncode == 0
