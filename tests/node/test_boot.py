"""Real boots: what later tests take for granted about a node."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.errors import GuestDied, NodeTimeout
from tests.node.node import CHECKOUT, Node, NodeResult
from tests.node.require import require_node

pytestmark = pytest.mark.node

ISOLATED = "isolcpus=domain,managed_irq,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4 tsc=reliable"

PLAIN = r"""
echo "$PWD $(id -u) $(hostname) $TMPDIR $GREETING"
uname -r
cat /sys/devices/system/cpu/online /sys/devices/system/cpu/isolated /sys/devices/system/cpu/nohz_full
df --output=target /scratch | tail -1
touch /tmp/writable "$TMPDIR/x" /etc/x
cat /sys/fs/cgroup/cgroup.subtree_control
ls -d /sys/kernel/tracing/events /sys/kernel/debug/sched /dev/pts/ptmx /dev/hugepages /sys/class/net/eth0
echo whole >"$OUT/file"
cat /proc/interrupts >"$OUT/before"
stress-ng --quiet --hdd 1 --hdd-bytes 4m --hdd-write-size 64k --hdd-opts fsync --hdd-ops 64 --temp-path /scratch
cat /proc/interrupts >"$OUT/after"
echo to stderr >&2
exit 7
"""


@pytest.fixture(autouse=True, scope="module")
def _node_or_skip() -> None:
    require_node()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> NodeResult:
    return Node(cpus=6, env={"GREETING": "hello"}).run(PLAIN, job=tmp_path_factory.mktemp("plain"))


def _block_interrupts(path: Path) -> int:
    rows = [row.split() for row in path.read_text().splitlines() if re.search(r"virtio\d+-req\.\d+$", row)]
    assert len(rows) == 6  # a managed queue for each CPU
    return sum(int(count) for row in rows for count in row[1:7])


def test_exit_code_output_and_files_come_back(plain: NodeResult) -> None:
    assert (plain.code, plain.stderr) == (7, "to stderr\n")
    assert (plain.out / "file").read_text() == "whole\n"
    assert "Power down" in plain.console


def test_a_plain_node_has_what_the_auditor_reads(plain: NodeResult) -> None:
    lines = plain.stdout.splitlines()
    assert lines[0] == f"{CHECKOUT} 0 node /run/tmp hello"
    assert lines[1].startswith("6.12.")
    assert lines[2:6] == ["0-5", "", "(null)", "/scratch"]
    assert {"cpuset", "cpu", "io", "memory", "hugetlb", "pids"} <= set(lines[6].split())
    assert len(lines) == 12
    assert not Path("/etc/x").exists()


def test_fsync_on_scratch_makes_block_interrupts(plain: NodeResult) -> None:
    grown = _block_interrupts(plain.out / "after") - _block_interrupts(plain.out / "before")
    assert grown >= 64


def test_command_line_is_in_force() -> None:
    result = Node(cpus=6, append=ISOLATED, cwd=Path("/sys/devices/system/cpu")).run(["cat", "isolated", "nohz_full"])
    assert (result.code, result.stdout, result.stderr) == (0, "1,5\n1,5\n", "")


def test_the_other_kernel_with_siblings_and_idle_states() -> None:
    require_node("6.1-rt")
    node = Node(kernel="6.1-rt", cpus=4, smp="threads=2", acpi_idle=True)
    result = node.run("uname -r; cd /sys/devices/system/cpu/cpu3; cat topology/thread_siblings_list cpuidle/*/latency")
    release, *values = result.stdout.splitlines()
    assert release.startswith("6.1.")
    assert values == ["2-3", "0", "1", "60", "200"]


def test_a_panic_is_not_a_failed_command() -> None:
    with pytest.raises(GuestDied, match="sysrq triggered crash") as died:
        Node(cpus=2, retry=False).run("echo so far; echo c >/proc/sysrq-trigger")
    assert (died.value.result.code, died.value.result.stdout) == (125, "so far\n")


def test_a_late_guest_is_killed(tmp_path: Path) -> None:
    with pytest.raises(NodeTimeout, match=r"the guest was killed after [12]\.\d s") as late:
        Node(cpus=2).run("true", timeout=1, job=tmp_path)
    assert late.value.result.code == 124
    assert _processes_with(str(tmp_path)) == []


def _processes_with(word: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            argv = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:  # gone meanwhile
            continue
        if word.encode() in argv:
            found.append(int(pid))
    return found


def test_two_guests_side_by_side_from_the_command_line() -> None:
    argv = [sys.executable, "-m", "tests.node", "--cpus", "2", "--mem", "768", "--"]
    guests = [
        subprocess.Popen(
            [*argv, f"echo {n} >/scratch/x; cat /scratch/x; exit {n}"], cwd=CHECKOUT, stdout=subprocess.PIPE
        )
        for n in (3, 4)
    ]
    shown = [guest.communicate()[0] for guest in guests]
    assert [guest.returncode for guest in guests] == [3, 4]
    assert shown == [b"3\n", b"4\n"]
