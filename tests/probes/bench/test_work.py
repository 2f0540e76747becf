from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.bench import leftovers, spin, work
from probes.bench.errors import ToolError
from probes.bench.process import start
from probes.bench.work import CyclictestThread
from probes.host import ProbeError
from tests.probes.bench.conftest import ALLOWED, need_tool

SHARED = Path(__file__).resolve().parents[4] / "shared"
NO_SHARED = "the collected cases are not beside the checkout"


def result(**changes: object) -> str:
    thread = {"histogram": {}, "cycles": 2998, "min": 9, "max": 1530, "avg": 19.79, "cpu": 1, "node": 0}
    document = {"file_version": 1, "cmdline:": "/usr/bin/cyclictest --quiet", "resolution_in_ns": 0}
    return json.dumps({**document, "thread": {"0": thread}, **changes})


def thread(**changes: object) -> dict[str, object]:
    return {"0": {"cycles": 5, "min": 1, "max": 3, "avg": 2.0, "cpu": 1, **changes}}


def test_spin_argv() -> None:
    command = work.spin_command(5, seconds=12.5)
    assert command.argv == (sys.executable, "-I", "-S", spin.__file__, "12.5")
    assert (command.cpus, command.max_s, command.timer_hz, command.name) == (frozenset({5}), 12.5, 0.0, "spin on CPU 5")


def test_spin_ends_at_its_deadline() -> None:
    before = time.monotonic()
    spin.spin(0.05)
    assert 0.05 <= time.monotonic() - before < 2.0


def ran_or_waited_s(pid: int) -> float:
    """Seconds that a process ran or stood in the queue behind others (/proc/PID/schedstat): all but sleep."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return (int(ran) + int(waited)) / 1e9


def test_spin_never_sleeps_and_stays_on_its_cpu(run_dir: Path, last_cpu: int) -> None:
    with start(work.spin_command(last_cpu, seconds=20)) as running:
        process = psutil.Process(running.pid)
        assert leftovers.wait_until(lambda: process.cpu_times().user >= 0.2, 10.0)  # Python has started
        switches, before = process.num_ctx_switches().voluntary, process.cpu_times()
        active, wall = ran_or_waited_s(running.pid), time.monotonic()
        assert not running.wait(1.0)
        assert ran_or_waited_s(running.pid) - active > 0.8 * (time.monotonic() - wall)
        assert process.num_ctx_switches().voluntary == switches
        grown = process.cpu_times()
        # Interrupts that other work brings are charged to whoever runs; that the loop makes no call is tested below.
        assert grown.system - before.system <= 0.25 * (grown.user - before.user)
        assert process.cpu_num() == last_cpu
        assert process.num_threads() == 1
        running.check()


def test_spin_ends_by_itself(run_dir: Path, first_cpu: int) -> None:
    with start(work.spin_command(first_cpu, seconds=0.2)) as running:
        assert running.wait(10.0)
        running.check()


def test_spin_makes_no_system_call_in_its_loop(tmp_path: Path) -> None:
    need_tool("strace")
    trace = tmp_path / "trace"
    subprocess.run(("strace", "-f", "-r", "-o", str(trace), *work.spin_command(0, seconds=0.6).argv), check=True)
    gaps = [float(line.split()[1]) for line in trace.read_text().splitlines()]
    assert max(gaps) >= 0.6


def test_cyclictest_argv() -> None:
    command = work.cyclictest_command(
        frozenset({5, 1}), interval_us=200, seconds=2.5, housekeeping=frozenset({0, 1, 2}), fifo=True, scratch="/s"
    )
    assert " ".join(command.argv) == (
        "cyclictest --quiet --affinity=1,5 --threads=2 --interval=200 --distance=0 --duration=3 --default-system"
        " --json=cyclictest.json --mainaffinity=0,2 --priority=80"
    )
    assert command.cpus == frozenset({0, 1, 2, 5})
    assert (command.max_s, command.timer_hz, command.threads, command.scratch) == (3.0, 5000.0, 2, "/s")
    assert command.note == (
        "cyclictest every 200 µs, SCHED_FIFO 80; it does not hold /dev/cpu_dma_latency (C-states stay)"
    )


def test_cyclictest_without_real_time_and_housekeeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "fifo_permitted", lambda: False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    command = work.cyclictest_command(frozenset({1}), seconds=1)
    assert command.argv[-1] == "--json=cyclictest.json"
    assert command.cpus == frozenset({1})
    assert "SCHED_OTHER" in command.note


def test_cyclictest_without_cpus() -> None:
    with pytest.raises(ValueError, match="no CPU to work on"):
        work.cyclictest_command(frozenset(), seconds=1, fifo=False)


def test_cyclictest_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolError, match=r"^cyclictest is not installed: apt install rt-tests$"):
        work.find_cyclictest()


def test_fifo_is_tried_not_guessed() -> None:
    assert not work.fifo_permitted(0)  # no priority of SCHED_FIFO
    shell = subprocess.run(("chrt", "-f", "80", "true"), capture_output=True, check=False)
    assert work.fifo_permitted() is (shell.returncode == 0)


def test_real_cyclictest(run_dir: Path, first_cpu: int, last_cpu: int) -> None:
    need_tool("cyclictest")
    if not work.fifo_permitted(1):
        pytest.skip("cyclictest needs a real-time permission: root, CAP_SYS_NICE or RLIMIT_RTPRIO")
    if len(ALLOWED) < 2:
        pytest.skip("needs a CPU for the main thread beside the audited one")
    with start(work.cyclictest_command(frozenset({last_cpu}), seconds=4)) as running:
        deadline = time.monotonic() + 3
        allowed: dict[int, set[int]] = {}
        while {last_cpu} not in allowed.values() and time.monotonic() < deadline:  # it pins its thread by and by
            assert not running.wait(0.2)
            threads = [one.id for one in psutil.Process(running.pid).threads()]
            allowed = {tid: os.sched_getaffinity(tid) for tid in threads}
        assert allowed.pop(running.pid) == set(ALLOWED) - {last_cpu}
        assert list(allowed.values()) == [{last_cpu}]
        assert [os.sched_getscheduler(tid) for tid in allowed] == [os.SCHED_FIFO]
        assert not any("cpu_dma_latency" in one.path for one in psutil.Process(running.pid).open_files())
        assert running.wait(15.0)
        running.check()
        assert running.output is None
    assert running.output is not None
    (found,) = work.parse_cyclictest_json(running.output)
    assert (found.index, found.cpu) == (0, last_cpu)
    assert 400 < found.cycles <= 4001
    assert not os.path.exists(f"/dev/shm/cyclictest{running.pid}")


def test_cyclictest_stopped_early_still_tells_what_it_saw(run_dir: Path, last_cpu: int) -> None:
    need_tool("cyclictest")
    if not work.fifo_permitted(1):
        pytest.skip("cyclictest needs a real-time permission: root, CAP_SYS_NICE or RLIMIT_RTPRIO")
    with start(work.cyclictest_command(frozenset({last_cpu}), seconds=30)) as running:
        assert not running.wait(0.3)
    assert running.output is not None
    assert work.parse_cyclictest_json(running.output)[0].cpu == last_cpu


def test_parse() -> None:
    assert work.parse_cyclictest_json(result()) == (
        CyclictestThread(index=0, cpu=1, cycles=2998, min_us=9.0, avg_us=19.79, max_us=1530.0),
    )


def test_parse_nanoseconds_and_order_of_threads() -> None:
    two = {"10": thread(cpu=3, min=1500)["0"], "2": thread(cpu=7)["0"]}
    found = work.parse_cyclictest_json(result(thread=two, resolution_in_ns=1))
    assert [(one.index, one.cpu, one.min_us) for one in found] == [(2, 7, 0.001), (10, 3, 1.5)]


def test_a_thread_that_never_woke_has_no_latency() -> None:
    (found,) = work.parse_cyclictest_json(result(thread=thread(cycles=0, min=1000000, max=0, avg=0.0)))
    assert (found.cycles, found.min_us, found.avg_us, found.max_us) == (0, None, None, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"cmdline:": ' + "9" * 5000 + "}", "not JSON|not a result"),
        ("[]", "document is not an object"),
        (result(**{"cmdline:": "ptsematest -t 4"}), "not a result of cyclictest"),
        (result(**{"cmdline:": 5}), "not a result of cyclictest"),
        (result(thread=[]), "thread is not an object"),
        (result(thread={"0": 5}), "thread 0 is not an object"),
        (result(thread={"x": {}}), "thread 'x' is not a number"),
        (result(thread=thread(cycles=-1)), "cycles is not an integer"),
        (result(thread=thread(cycles=True)), "cycles is not an integer"),
        (result(thread=thread(cpu=None)), "cpu is not an integer"),
        (result(thread=thread(max=float("nan"))), "max is not a number"),
        (result(thread=thread(max=float("inf"))), "max is not a number"),
        (result(thread=thread(min=True)), "min is not a number"),
        (result(thread=thread(avg="2")), "avg is not a number"),
    ],
)
def test_malformed_results(text: str, reason: str) -> None:
    with pytest.raises(ProbeError, match=reason):
        work.parse_cyclictest_json(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.dictionaries(st.sampled_from(["0", "1", "cycles", "min", "max", "avg", "cpu", "x"]), inner),
)


@settings(max_examples=50)
@given(json_values)
def test_results_never_crash(value: object) -> None:
    for text in (json.dumps(value), result(thread=value), result(thread={"0": value})):
        with contextlib.suppress(ProbeError):
            assert all(one.cycles >= 0 for one in work.parse_cyclictest_json(text))


@pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)
@pytest.mark.parametrize("name", ["json-2.80-isolated-6-11", "json-2.11-overflow-hidden", "json-other-tool-truncated"])
def test_collected_results(name: str) -> None:
    text = (SHARED / "cases" / "cyclictest" / f"{name}.json").read_text()
    right = " ".join(re.findall(r"RIGHT: (.*)", (SHARED / "cases" / "cyclictest" / f"{name}.md").read_text()))
    if "must be refused" in right:
        with pytest.raises(ProbeError, match="not JSON"):
            work.parse_cyclictest_json(text)
        return
    found = work.parse_cyclictest_json(text)
    if "CPUs 6-11" in right:
        assert [one.cpu for one in found] == [6, 7, 8, 9, 10, 11]
        assert [one.cycles for one in found] == [300000, 300000, 299999, 299998, 299999, 299999]
        assert [one.max_us for one in found] == [20, 20, 340, 279, 128, 22]
    else:
        assert [(one.index, one.cpu, one.cycles, one.max_us) for one in found] == [
            (0, 3, 10000, 40),
            (1, 2, 10000, 12000),
        ]


@pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)
def test_recorded_result() -> None:
    text = (SHARED / "recordings" / "booted" / "host" / "cyclictest-host.json").read_text()
    assert work.parse_cyclictest_json(text) == (
        CyclictestThread(index=0, cpu=1, cycles=2998, min_us=9.0, avg_us=19.79, max_us=1530.0),
    )
