"""Recordings that can't be judged are refused in a sentence; what one says of its run is taken with care."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from auditor.errors import UsageError
from auditor.overhead import NOT_MEASURED
from auditor.recordings import replay
from tests.auditor.build import cpus

HOST = Path(__file__).parents[1] / "hosts" / "pinning-lab-with"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A recorded host to spoil."""
    return Path(shutil.copytree(HOST, tmp_path / "rec"))


def tell(copy: Path, **given: Any) -> None:
    meta = json.loads((copy / "recording.json").read_text())
    (copy / "recording.json").write_text(json.dumps({**meta, **given}))


def refused(copy: Path, **given: Any) -> str:
    with pytest.raises(UsageError) as caught:
        replay(str(copy), given.get("cpus"), given.get("workload"), given.get("window_s"))
    assert str(caught.value).startswith(f"--from {copy}: ") or "cpus" in given or "workload" in given
    return str(caught.value).removeprefix(f"--from {copy}: ")


def test_what_a_recording_says_of_its_run(copy: Path) -> None:
    tell(copy, load="stress", work="spin", interrupted=True, work_pids=[5, "x"], work_timer_hz=1000, started="then")
    measured = replay(str(copy), None, None, None)
    run = measured.run
    assert (run.load, run.work, run.interrupted, run.requested_ms) == ("stress", "spin", True, 40_000)
    assert (measured.own.work_pids, measured.own.work_timer_hz) == (cpus(5), 1000.0)
    assert (measured.targets.audited, measured.targets.chosen_by, run.started) == (cpus(1, 5), "--cpus", "then")


def test_other_cpus_may_be_asked_for(copy: Path) -> None:
    tell(copy, chosen_by="the kubelet")
    assert replay(str(copy), None, None, None).targets.chosen_by == "the kubelet"
    other = replay(str(copy), "1", None, None).targets
    assert (other.audited, other.chosen_by) == (cpus(1), "--cpus")
    assert refused(copy, cpus="99").startswith("CPU 99 is not online")


def test_another_workload_may_be_named(copy: Path) -> None:
    assert replay(str(copy), None, "cyclictest", None).own.workload == "cyclictest"
    assert "no such process" in refused(copy, workload="nothing")


def test_one_without_cpus_is_judged_for_those_the_kernel_isolates(copy: Path) -> None:
    tell(copy, cpus="", chosen_by="")
    targets = replay(str(copy), None, None, None).targets
    assert (targets.audited, targets.chosen_by) == (cpus(1, 5), "isolated by the kernel")


@pytest.mark.parametrize(
    ("overhead", "kept"),
    [
        ({"cpu_ms": 5, "switches": 7, "on_audited_cpus": False, "self_check": "clean"}, True),
        ({"cpu_ms": 5, "switches": 7, "on_audited_cpus": 0, "self_check": "clean"}, False),
        ({"cpu_ms": "5", "switches": 7, "on_audited_cpus": False, "self_check": "clean"}, False),
        ({"cpu_ms": True, "switches": 7, "on_audited_cpus": False, "self_check": "clean"}, False),
        ({"cpu_ms": 5, "switches": 7, "on_audited_cpus": False}, False),
        ({}, False),
        (None, False),
        ([], False),
    ],
)
def test_its_cost_is_known_only_if_whole(copy: Path, overhead: Any, kept: bool) -> None:
    tell(copy, overhead=overhead)
    found = replay(str(copy), None, None, None).run.overhead
    assert (found != NOT_MEASURED) is kept
    assert not kept or (found.cpu_ms, found.switches) == (5, 7)


def test_times_that_make_no_window(copy: Path) -> None:
    times = json.loads((copy / "recording.json").read_text())["times_ns"]
    tell(copy, times_ns={**times, "t1": times["t0"]})
    assert refused(copy) == "t1 is not after t0"


def test_one_made_by_hand_must_say_its_window(copy: Path) -> None:
    (copy / "recording.json").unlink()
    with pytest.raises(UsageError, match="give it with --window"):
        replay(str(copy), None, None, None)
    assert replay(str(copy), None, None, 40.0).run.requested_ms == 40_000


def test_ends_of_different_boots(copy: Path) -> None:
    for end in ("t0", "t1"):
        path = copy / end / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{end}\n")
    assert refused(copy) == "t0 and t1 have different boot ids"


def test_counters_that_fell(copy: Path) -> None:
    for name in ("proc/softirqs", "proc/schedstat"):
        before, after = (copy / end / name for end in ("t0", "t1"))
        kept = before.read_text()
        before.write_text(after.read_text())
        after.write_text(kept)
    assert refused(copy) == "counters fell between t0 and t1: they are not of one boot"


def test_a_host_without_cpus(copy: Path) -> None:
    (copy / "t0/sys/devices/system/cpu/online").unlink()
    assert refused(copy).endswith("the CPUs of this host can't be told")


def test_no_recording_at_all(tmp_path: Path) -> None:
    assert refused(tmp_path) == "no trees t0 and t1: not a recording"


@pytest.mark.parametrize("window_s", [10.0, 86_400.0])
def test_a_window_that_proc_stat_contradicts_is_refused(copy: Path, window_s: float) -> None:
    (copy / "recording.json").unlink()
    assert f"said to be {window_s:.6g} s long, /proc/stat counted 40" in refused(copy, cpus="1,5", window_s=window_s)


@pytest.mark.parametrize("timer", [float("nan"), float("inf"), 10**400, -1, 0, "1000"])
def test_a_timer_rate_that_is_none_is_not_known(copy: Path, timer: object) -> None:
    tell(copy, work_timer_hz=timer, work="cyclictest", work_pids=[1])
    assert replay(str(copy), None, None, None).own.work_timer_hz is None


def test_boots_that_differ_are_refused(copy: Path) -> None:
    for end in ("t0", "t1"):
        path = copy / end / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{end}\n")
    assert refused(copy) == "t0 and t1 have different boot ids"


@pytest.mark.parametrize(
    ("told", "asked", "found"),
    [
        (["127", "iwl*"], (), ("127", "iwl*")),
        (["127", 5, None], (), ("127",)),
        ("127", (), ()),
        (None, (), ()),
        (["127"], ("132",), ("132",)),
    ],
)
def test_own_interrupts_are_those_of_the_recording_or_those_named_now(
    copy: Path, told: Any, asked: tuple[str, ...], found: tuple[str, ...]
) -> None:
    tell(copy, own_irqs=told)
    assert replay(str(copy), None, None, None, asked).own.irqs == found


def test_an_own_interrupt_that_was_not_there(copy: Path) -> None:
    with pytest.raises(UsageError, match="--own-irq 'eth9': no device interrupt"):
        replay(str(copy), None, None, None, ("eth9",))
