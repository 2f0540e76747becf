"""Real-time throttling: what bounds, on which kernels, and who could be stopped."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Axis, Evidence, Kind, Outcome
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, kernel_settings, only, outcomes

BOUND = kernel_settings(cpus(0), sched_rt_runtime_us=950_000)


@pytest.mark.parametrize(
    ("busy", "ran_s", "outcome", "text"),
    [
        (0.0, 0, Outcome.NOT_APPLICABLE, "real-time threads may run 95% of each period; the CPU was not that busy"),
        (0.93, 9.3, Outcome.NOT_APPLICABLE, "the CPU was not that busy"),
        (
            0.95,
            9.5,
            Outcome.WARN,
            "if its thread is SCHED_FIFO or SCHED_RR (chrt -p TID), it was stopped in every period",
        ),
        (1.0, 9.45, Outcome.WARN, "and one thread ran for just that long"),
        (1.0, 9.9, Outcome.PASS, "one thread ran longer than that, so it was not stopped"),
        (1.0, 5, Outcome.UNKNOWN, "which of its threads are real-time is not known"),
        (1.0, 0, Outcome.UNKNOWN, "and the CPU was that busy"),
    ],
)
def test_only_a_busy_cpu_may_be_stopped(busy: float, ran_s: float, outcome: Outcome, text: str) -> None:
    own = [Thread(run_ms=1000 * ran_s)]
    found = only(context(sysctls=BOUND, busy={1: busy}, own=own), "RT.THROTTLE")
    assert (found.outcome, found.axis, found.kind) == (outcome, Axis.READINESS, Kind.RISK)
    assert text in found.detail
    assert found.evidence == (
        Evidence(path="/proc/sys/kernel/sched_rt_runtime_us", field="kernel.sched_rt_runtime_us", value="950000"),
        Evidence(path="/proc/sys/kernel/sched_rt_period_us", field="kernel.sched_rt_period_us", value="1000000"),
    )


def test_a_thread_that_may_run_elsewhere_proves_nothing() -> None:
    own = [Thread(run_ms=9900, on=cpus(1, 2))]
    assert outcomes(context(sysctls=BOUND, busy={1: 1}, own=own), "RT.THROTTLE") == [Outcome.UNKNOWN]


@pytest.mark.parametrize("runtime", [-1, 1_000_000])
def test_without_a_bound(runtime: int) -> None:
    found = only(context(sysctls=kernel_settings(cpus(0), sched_rt_runtime_us=runtime), busy={1: 1}), "RT.THROTTLE")
    assert (found.outcome, found.detail) == (Outcome.PASS, "real-time threads are not bounded")


@pytest.mark.parametrize("end", ["before", "after"])
def test_either_end_counts(end: str) -> None:
    ctx = edit(context(busy={1: 1}), f"{end}.config.sysctls", BOUND)
    assert outcomes(ctx, "RT.THROTTLE") == [Outcome.UNKNOWN]


def test_each_cpu_by_itself() -> None:
    found = findings(context(audited=(1, 5), sysctls=BOUND, busy={5: 1}), "RT.THROTTLE")
    assert [(item.cpus, item.outcome) for item in found] == [((1,), Outcome.NOT_APPLICABLE), ((5,), Outcome.UNKNOWN)]


def test_since_6_12_there_is_none() -> None:
    assert outcomes(context(release="6.12.0-1", sysctls=BOUND, busy={1: 1}), "RT.THROTTLE") == [Outcome.NOT_APPLICABLE]


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize(
    "value",
    [
        gone(),
        kernel_settings(cpus(0), sched_rt_runtime_us=gone()),
        kernel_settings(cpus(0), sched_rt_period_us=gone()),
    ],
)
def test_what_is_not_known(end: str, value: Any) -> None:
    assert outcomes(edit(context(), f"{end}.config.sysctls", value), "RT.THROTTLE") == [Outcome.UNKNOWN]


def test_without_a_release_or_proc_stat() -> None:
    assert outcomes(context(release="?", sysctls=BOUND), "RT.THROTTLE") == [Outcome.UNKNOWN]
    ctx = edit(context(sysctls=BOUND), "after.counters.cpustat", gone())
    assert only(ctx, "RT.THROTTLE").detail.endswith("how busy the CPU was is not known")
