"""Where much can't be read the verdict is never `isolated`, each gap says what to do, and the end what to type."""

from __future__ import annotations

import pytest

from tests.surroundings.place import CPU, Said, run_in, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

SUDO = "; run it with sudo, or in a privileged container"
MOUNT = (
    "; run it on the host, or mount the host's / at /host (docker run -v /:/host:ro; a pod: a hostPath volume) and give"
    " --root /host"
)
CGROUP_V1 = """
mount -t tmpfs none /sys/fs/cgroup
for one in cpu cpuset; do mkdir /sys/fs/cgroup/$one; mount -t cgroup -o $one none /sys/fs/cgroup/$one; done
"""
CODES = {"not-isolated": 3, "exposed": 3, "unknown": 4}
EMPTY = "mount --bind /dev/null /proc/{}"


def honest(said: Said) -> Said:
    """What holds in any surroundings."""
    assert "Traceback" not in said.log
    assert said.code == CODES[said.status], said.text
    for gap in said.gaps.values():
        assert gap["reason"]
        assert gap["costs"]
        if gap["state"] in ("denied", "masked"):
            assert gap["costs"].endswith((SUDO, MOUNT)), gap
    if said.status == "unknown":
        assert said.text.rstrip("\n").split("\n")[-1] == f"next: {said.found['next_command']}"
    return said


def test_an_ordinary_user() -> None:
    said = honest(run_in(user=True))
    assert "/proc/interrupts" not in said.gaps
    assert "/proc/*/task" not in said.gaps  # who runs where may be seen by all


def test_hidepid() -> None:
    said = honest(run_in("mount -t proc -o hidepid=2 proc /proc", user=True))
    gap = said.gaps["/proc/*/task"]
    assert (gap["state"], gap["reason"]) == (
        "denied",
        "the processes of others are hidden (/proc is mounted with hidepid)",
    )
    assert "pass" not in said.outcomes("THR.USER") | said.outcomes("THR.FOREIGN")


def test_a_container_without_the_pids_of_the_host() -> None:
    said = honest(run_in(own_pids=True))
    gap = said.gaps["/proc/*/task"]
    assert (gap["state"], gap["reason"]) == (
        "masked",
        "the host's processes are hidden (this is another PID namespace)",
    )
    assert "pass" not in said.outcomes("THR.USER")


def test_a_container_with_the_host_mounted() -> None:
    """What the gap says to do closes it."""
    mounted = "mkdir {here}/host; mount --rbind / {here}/host"
    said = honest(run_in(host=mounted, own_pids=True, arguments="--window 1s --root {here}/host"))
    assert "/proc/*/task" not in said.gaps


@pytest.mark.parametrize("name", ["interrupts", "softirqs", "stat"])
def test_a_file_that_the_container_runtime_masks(name: str) -> None:
    said = honest(run_in(EMPTY.format(name)))
    assert said.gaps[f"/proc/{name}"]["state"] == "masked"
    assert said.gaps[f"/proc/{name}"]["costs"].endswith(MOUNT)


def test_everything_masked_is_unknown_and_says_what_to_type() -> None:
    masked = [EMPTY.format(name) for name in ("interrupts", "softirqs", "stat")]
    empty = [f"mount -t tmpfs none {path}" for path in ("/proc/irq", "/sys/class/net", "/sys/fs/cgroup")]
    said = honest(run_in("\n".join(masked + empty), own_pids=True))
    assert (said.status, said.code) == ("unknown", 4)
    assert said.text.endswith(f"\nnext: cpu-audit run --cpus {CPU} --root /host\n")


def test_a_kernel_directory_that_is_empty() -> None:
    said = honest(run_in("mount -t tmpfs none /sys/kernel; mount -t tmpfs none /sys/fs/cgroup"))
    assert said.gaps["/sys/kernel/mm"]["state"] == "missing"


def test_without_sys_the_way_out_is_told() -> None:
    said = run_in("mount -t tmpfs none /sys")
    assert (said.code, said.text) == (2, "")
    assert said.log == (
        "cpu-audit: /sys/devices/system/cpu/online: no such file: the CPUs of this host can't be told; mount it (sudo "
        "mount -t sysfs sysfs /sys), or give --root\n"
    )


def test_a_root_that_is_none() -> None:
    said = run_in("mkdir {here}/host", arguments="--window 1s --root {here}/host")
    assert (said.code, said.text) == (2, "")
    assert "must be the root of a host, with its /proc and /sys (docker run -v /:/host:ro)" in said.log


def test_under_cgroup_v1() -> None:
    """Where no second version is mounted there are no partitions to read, and no quota is made up."""
    said = honest(run_in(CGROUP_V1))
    assert "pass" not in said.outcomes("CFG.QUOTA")
