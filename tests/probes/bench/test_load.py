from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.bench import load
from probes.bench.errors import ToolError
from probes.bench.process import Command, start
from probes.host import DictHost, ProbeError
from tests.probes.bench.conftest import need_tool

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
23 22 0:5 / /dev rw - devtmpfs devtmpfs rw
24 22 0:30 / /tmp rw,nosuid shared:4 - tmpfs tmpfs rw
25 22 0:31 /@var /var rw - btrfs /dev/sda2 rw,subvol=/@var
26 22 7:0 / /image rw - ext4 /dev/loop0 rw
27 22 253:1 / /my\\040disk rw shared:1 master:2 - xfs /dev/mapper/vg-data rw
28 22 0:40 / /ovl rw - overlay overlay rw,lowerdir=/l,upperdir={upper},workdir=/w
29 22 0:41 / /lost rw - overlay overlay rw,lowerdir=/l,upperdir=/no/such/layer,workdir=/w
30 24 254:0 /x /tmp/deep rw - ext4 /dev/vda rw
31 22 0:42 / /covered rw - tmpfs tmpfs rw
32 31 254:0 /y /covered rw - ext4 /dev/vda rw
"""
LINKS = {
    "sys/dev/block/254:0": "../../devices/pci0000:00/virtio1/block/vda",
    "sys/dev/block/7:0": "../../devices/virtual/block/loop0",
    "sys/dev/block/253:1": "../../devices/virtual/block/dm-1",
}


def host(upper: str = "/") -> DictHost:
    return DictHost({"proc/self/mountinfo": MOUNTS.format(upper=upper)}, links=LINKS)


def test_argv_for_one_cpu() -> None:
    command = load.load_command(frozenset({0}), seconds=2.2, scratch="/var/tmp")
    assert " ".join(command.argv) == (
        "stress-ng --taskset 0 --timeout 3s --temp-path . --oomable --cpu 1 --cache 1 --cache-no-affinity"
        " --vm 1 --vm-bytes 64M --hdd 1 --hdd-bytes 4M --hdd-write-size 4K --hdd-opts fsync"
    )
    assert (command.cpus, command.max_s, command.name, command.scratch) == (
        frozenset({0}),
        3.0,
        "stress-ng",
        "/var/tmp",
    )
    assert command.note == "stress-ng: 1 cpu, 1 cache, 1 vm, 1 hdd with fsync"


def test_argv_for_many_cpus() -> None:
    argv = load.load_command(frozenset({0, 2, 3, 10}), seconds=30, scratch="/s").argv
    assert argv[argv.index("--taskset") + 1] == "0,2,3,10"
    assert argv[argv.index("--cpu") + 1] == "4"
    assert argv[argv.index("--hdd") + 1] == "2"


def test_no_cpu_is_our_bug() -> None:
    with pytest.raises(ValueError, match="no CPU to load"):
        load.load_command(frozenset(), seconds=1, scratch="/s")


def test_stress_ng_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolError, match=r"^stress-ng is not installed: apt install stress-ng$"):
        load.find_stress_ng()


def test_real_load(run_dir: Path, tmp_path: Path, first_cpu: int) -> None:
    need_tool("stress-ng")
    assert os.path.isabs(load.find_stress_ng())
    with start(load.load_command(frozenset({first_cpu}), seconds=1, scratch=str(tmp_path))) as running:
        assert not running.wait(0.5)
        workers = psutil.Process(running.pid).children(recursive=True)
        names = sorted(worker.name().split()[0] for worker in workers)  # a later one may read "stress-ng-cpu [run]"
        assert names == ["stress-ng-cache", "stress-ng-cpu", "stress-ng-hdd", "stress-ng-vm", "stress-ng-vm"]
        assert {tuple(os.sched_getaffinity(worker.pid)) for worker in workers} == {(first_cpu,)}
        assert {os.getpgid(worker.pid) for worker in workers} == {running.pid}
        assert [name for name in os.listdir(running.directory) if name.startswith("tmp-stress-ng-hdd")] != []
        assert running.wait(5.0)  # by its own time limit
        running.check()
    assert os.listdir(tmp_path) == ["run"]


def test_a_refused_option_is_reported(run_dir: Path, tmp_path: Path, first_cpu: int) -> None:
    need_tool("stress-ng")
    command = load.load_command(frozenset({first_cpu}), seconds=1, scratch=str(tmp_path))
    broken = Command(
        argv=(*command.argv, "--taskset", "4000"), cpus=command.cpus, max_s=1, name="stress-ng", scratch=str(tmp_path)
    )
    with start(broken) as running:
        assert running.wait(5.0)
        with pytest.raises(ToolError, match=r"stress-ng failed \(exit code 1\): .*range"):
            running.check()


@pytest.mark.parametrize(
    ("path", "point"),
    [("/", "/"), ("/tmp", "/tmp"), ("/tmpfile", "/"), ("/tmp/deep/er", "/tmp/deep"), ("/my disk/x", "/my disk")],
)
def test_mount_of(path: str, point: str) -> None:
    mount = load.mount_of(path, load.parse_mountinfo(MOUNTS))
    assert mount is not None
    assert mount.point == point


def test_the_last_mount_on_a_point_counts() -> None:
    mount = load.mount_of("/covered/x", load.parse_mountinfo(MOUNTS))
    assert mount is not None
    assert mount.fstype == "ext4"


def test_no_mounts_no_mount() -> None:
    assert load.mount_of("/x", ()) is None
    assert not load.block_backed("/x", DictHost({"proc/self/mountinfo": ""}))


@pytest.mark.parametrize(
    ("path", "backed"),
    [
        ("/", True),
        ("/tmp", False),
        ("/var", True),
        ("/image", False),
        ("/my disk", True),
        ("/lost", False),
        ("/dev", False),
    ],
)
def test_block_backed(path: str, backed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert load.block_backed(path, host()) is backed


def test_an_overlay_is_as_real_as_its_upper_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    monkeypatch.setattr(os.path, "isdir", lambda path: path != "/no/such/layer")
    assert load.block_backed("/ovl/x", host("/var/upper"))
    assert not load.block_backed("/ovl/x", host("/tmp/upper"))
    assert not load.block_backed("/ovl/x", host("/ovl/x"))


def test_without_mountinfo_nothing_is_known() -> None:
    assert not load.block_backed("/", DictHost({}))


@pytest.mark.parametrize("line", ["22 1 254:0 / / rw", "22 1 / / rw - ext4 /dev/vda rw", "x", "1 2 3:4 / / rw - ext4"])
def test_malformed_mountinfo(line: str) -> None:
    with pytest.raises(ProbeError, match="not a line of mountinfo"):
        load.parse_mountinfo(line)


@given(st.text(alphabet="1:/ -\n,\\ab\u2028\x1c"))
def test_mountinfo_never_crashes(text: str) -> None:
    with contextlib.suppress(ProbeError):
        assert len(load.parse_mountinfo(text)) == sum(1 for line in text.split("\n") if line)


def test_scratch_dir_takes_the_first_on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_usable", lambda path: True)
    monkeypatch.setattr(os, "getcwd", lambda: "/here")
    for disk in ("/var/tmp", "/tmp", "/here"):
        monkeypatch.setattr(load, "block_backed", lambda path, host, disk=disk: path == disk)
        assert load.scratch_dir({}, host()) == disk
        assert load.scratch_note(disk, host()) == ""


def test_scratch_dir_without_a_disk_is_var_tmp_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_usable", lambda path: True)
    assert load.scratch_dir({}, DictHost({})) == "/var/tmp"
    assert load.scratch_note("/var/tmp", DictHost({})) == (
        "/var/tmp is not known to be on a real disk: the load may raise no block interrupts;"
        " set $CPU_AUDIT_SCRATCH to a directory that is"
    )


def test_scratch_dir_as_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load.scratch_dir({"CPU_AUDIT_SCRATCH": str(tmp_path)}) == str(tmp_path)
    with pytest.raises(ToolError, match=r"^\$CPU_AUDIT_SCRATCH: /no/such is not a writable directory"):
        load.scratch_dir({"CPU_AUDIT_SCRATCH": "/no/such"})
    monkeypatch.setenv("CPU_AUDIT_SCRATCH", str(tmp_path))
    assert load.scratch_dir() == str(tmp_path)


def test_nowhere_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "NEEDED_BYTES", 1 << 80)
    with pytest.raises(ToolError, match=r"set \$CPU_AUDIT_SCRATCH$"):
        load.scratch_dir({})
