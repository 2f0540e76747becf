"""The isolated laptop with one thing changed: which rule turns, and what the verdict becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.model import Audit, ExitCode, Outcome, Readiness, Status
from auditor.verdict import exit_code
from tests.hosts import variations as make
from tests.hosts.build import write
from tests.hosts.lab import WITH
from tests.hosts.machine import Recorded, record
from tests.hosts.replayed import audit_of, found, one
from tests.hosts.test_hosts import run

FAIL, WARN, UNKNOWN, UNEXERCISED = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN, Outcome.NOT_EXERCISED
DECISIVE = {"CFG.DOMAIN", "IRQ.AFFINITY", "THR.FOREIGN", "IRQ.DEVICE", "SIRQ.SCHED"}
RUN = "cpu-audit run --cpus 1,5"


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is made, and the verdicts; ``turned``: decisive rules of CPU 1 that do not pass, and others that fail.

    CPUs 1 and 5 share a core: who keeps one of them busy disturbs the other.
    """

    make: Callable[[], Recorded]
    cpu1: Status
    cpu5: Status
    turned: dict[str, Outcome]
    next_command: str | None = None
    workload: str | None = None


CASES = {
    "no schedstat": Case(
        make=make.no_schedstat,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"THR.FOREIGN": UNKNOWN},
        next_command=f"{RUN} --load",
    ),
    "masked interrupts": Case(
        make=make.masked_interrupts,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"IRQ.AFFINITY": UNKNOWN, "IRQ.DEVICE": UNKNOWN},
        next_command=f"{RUN} --root /host",
    ),
    "cut softirqs": Case(
        make=make.cut_softirqs,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"SIRQ.SCHED": UNKNOWN},
        next_command=f"{RUN} --load",
    ),
    "denied affinity": Case(
        make=make.denied_affinity,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"IRQ.AFFINITY": UNKNOWN},
        next_command=f'sudo env "PATH=$PATH" {RUN}',
    ),
    "domain line": Case(make=make.domain_line, cpu1=Status.EXPOSED, cpu5=Status.ISOLATED, turned={"CFG.DOMAIN": FAIL}),
    "routed, silent": Case(
        make=make.routed_silent, cpu1=Status.EXPOSED, cpu5=Status.ISOLATED, turned={"IRQ.AFFINITY": FAIL}
    ),
    "60 interrupts": Case(
        make=make.fired_60, cpu1=Status.NOT_ISOLATED, cpu5=Status.ISOLATED, turned={"IRQ.DEVICE": FAIL}
    ),
    "pinned thread": Case(
        make=make.pinned_thread,
        workload="cyclictest",
        cpu1=Status.DISTURBED,
        cpu5=Status.DISTURBED,
        turned={"THR.FOREIGN": WARN},
    ),
    "a second owner": Case(make=make.pinned_thread, cpu1=Status.ISOLATED, cpu5=Status.ISOLATED, turned={}),
    "occupied": Case(
        make=partial(make.occupied, counted=True),
        workload="cyclictest",
        cpu1=Status.NOT_ISOLATED,
        cpu5=Status.NOT_ISOLATED,
        turned={"THR.FOREIGN": FAIL, "THR.USER": FAIL},
    ),
    "occupied, run time stale": Case(
        make=partial(make.occupied, counted=False),
        workload="cyclictest",
        cpu1=Status.UNKNOWN,
        cpu5=Status.NOT_ISOLATED,
        turned={"THR.FOREIGN": UNKNOWN},
    ),
    "kworker ran": Case(
        make=make.kworker_runs, cpu1=Status.DISTURBED, cpu5=Status.DISTURBED, turned={"THR.FOREIGN": WARN}
    ),
    "tick of a poller": Case(
        make=partial(make.spinning, 250), cpu1=Status.NOT_ISOLATED, cpu5=Status.ISOLATED, turned={"TICK.LOC": FAIL}
    ),
    "residual tick of a poller": Case(
        make=partial(make.spinning, 1), cpu1=Status.ISOLATED, cpu5=Status.ISOLATED, turned={}
    ),
    "CPU 5 offlined": Case(
        make=make.offlined,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"THR.FOREIGN": UNKNOWN},
        next_command="cpu-audit run --cpus 1 --load",
    ),
    "no samples": Case(
        make=partial(make.no_samples, timed=False),
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"THR.FOREIGN": UNKNOWN},
        next_command=f"{RUN} --load",
    ),
    "empty samples": Case(
        make=partial(make.no_samples, timed=True),
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"THR.FOREIGN": UNKNOWN},
        next_command=f"{RUN} --load",
    ),
    "quiet, doors closed": Case(make=make.quiet, cpu1=Status.ISOLATED, cpu5=Status.ISOLATED, turned={}),
    "quiet, doors open": Case(
        make=make.quiet_without,
        cpu1=Status.EXPOSED,
        cpu5=Status.EXPOSED,
        turned={
            "CFG.DOMAIN": FAIL,
            "IRQ.AFFINITY": FAIL,
            "THR.FOREIGN": UNEXERCISED,
            "IRQ.DEVICE": UNEXERCISED,
            "SIRQ.SCHED": UNEXERCISED,
        },
    ),
    "quiet, affinity denied": Case(
        make=make.quiet_denied,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"IRQ.AFFINITY": UNKNOWN, "IRQ.DEVICE": UNEXERCISED},
        next_command=f'sudo env "PATH=$PATH" {RUN} --load',
    ),
    "quiet, domains unknown": Case(
        make=make.quiet_no_domains,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"CFG.DOMAIN": UNKNOWN, "THR.FOREIGN": UNKNOWN, "SIRQ.SCHED": UNEXERCISED},
        next_command=f"{RUN} --load",
    ),
    "own thread ended": Case(
        make=make.own_ended,
        cpu1=Status.UNKNOWN,
        cpu5=Status.UNKNOWN,
        turned={"THR.FOREIGN": UNKNOWN},
        next_command=f"{RUN} --load",
    ),
    "hog moved out": Case(
        make=make.hog_moved_out,
        cpu1=Status.NOT_ISOLATED,
        cpu5=Status.NOT_ISOLATED,
        turned={"THR.FOREIGN": FAIL, "THR.USER": FAIL},
    ),
    "hog moved in": Case(
        make=make.hog_moved_in,
        cpu1=Status.NOT_ISOLATED,
        cpu5=Status.NOT_ISOLATED,
        turned={"THR.FOREIGN": FAIL, "THR.USER": FAIL},
    ),
    "hog visited": Case(
        make=make.hog_visited, cpu1=Status.NOT_ISOLATED, cpu5=Status.DISTURBED, turned={"THR.FOREIGN": FAIL}
    ),
}


def judged(host: Recorded, directory: Path, workload: str | None = None) -> Audit:
    return audit_of(write(host, directory / "host"), workload=workload)


@pytest.mark.parametrize("name", CASES)
def test_one_thing_changed(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    audit = judged(case.make(), tmp_path, case.workload)
    assert {cpu: verdict.status for cpu, verdict in audit.cpu_verdicts.items()} == {1: case.cpu1, 5: case.cpu5}
    assert audit.verdict.status is min((case.cpu1, case.cpu5), key=list(Status).index)
    turned = {
        finding.rule: finding.outcome
        for finding in audit.findings
        if 1 in finding.cpus
        and (finding.outcome is FAIL or (finding.rule in DECISIVE and finding.outcome is not Outcome.PASS))
    }
    assert turned == case.turned
    assert audit.next_command == case.next_command


def test_exactly_the_pinned_thread_is_named(tmp_path: Path) -> None:
    audit = judged(make.pinned_thread(), tmp_path, "cyclictest")
    user = one(audit, "THR.USER", 1)
    assert user.outcome is WARN
    assert user.title.endswith(": chronyd")
    assert user.detail == "chronyd: 12 switches, 0.9 ms"
    assert one(audit, "THR.FOREIGN", 1).observed == 12 / 40
    (seen,) = [thread for thread in audit.activity.cpus[1].threads if not thread.own]
    assert (seen.name, seen.switches, seen.allowed) == ("chronyd", 12, "1")
    assert seen.run_ms == pytest.approx(0.9, abs=0.001)
    assert seen.cgroup == "/system.slice/chrony.service"


def test_two_owners_are_said_to_be_two(tmp_path: Path) -> None:
    owners = one(judged(make.pinned_thread(), tmp_path), "THR.OWNERS", 1)
    assert (owners.outcome, owners.observed) == (WARN, 2)
    assert "chronyd (/system.slice/chrony.service)" in owners.detail
    assert "--workload" in owners.detail
    description = judged(make.pinned_thread(), tmp_path).own.description
    assert description.startswith("2 unrelated owners: chronyd (1500), ")
    assert description.endswith("; name yours with --workload")


def test_the_occupier_is_suspected(tmp_path: Path) -> None:
    audit = judged(make.occupied(counted=True), tmp_path, "cyclictest")
    held, counted = found(audit, "THR.FOREIGN", 1)
    assert (held.cpus, held.outcome) == ((1,), FAIL)
    assert (counted.cpus, counted.outcome) == ((1, 5), Outcome.PASS)
    assert held.detail.startswith("busy 40.0 s more than own threads here ran, without a switch")
    assert held.detail.endswith("it may be miner")


def test_one_that_may_run_anywhere_is_named_all_the_same(tmp_path: Path) -> None:
    audit = judged(make.occupied(counted=True, allowed=frozenset(range(8))), tmp_path, "cyclictest")
    user = one(audit, "THR.USER", 1)
    assert (user.outcome, user.observed, user.unit) == (FAIL, 40_000, "ms")
    assert user.detail == "miner: held the CPU throughout, 40001.2 ms, free to run on CPUs 0-7"  # read after the CPUs
    assert user.fix is not None
    assert user.fix.commands == ("sudo taskset -pc 0,2-4,6-7 1600",)
    assert audit.causes[0].title == "foreign user threads: miner; foreign switches"
    sibling = one(audit, "CFG.SMT", 5)
    # The own cyclictest, which may use CPU 1 as well, ran two seconds: as much may have been its own.
    assert sibling.outcome is FAIL
    assert sibling.observed == pytest.approx(94.995)


def test_the_kworker_is_named(tmp_path: Path) -> None:
    audit = judged(make.kworker_runs(), tmp_path)
    (ran,) = [finding for finding in found(audit, "THR.KBOUND", 1) if finding.outcome is not Outcome.PASS]
    assert (ran.outcome, ran.observed) == (WARN, 3 / 40)
    assert ran.detail.startswith("kworker/1:1-events: 3 switches")
    assert exit_code(audit.verdict.status, audit.readiness.status) == 0
    assert exit_code(audit.verdict.status, audit.readiness.status, fail_on_warn=True) == 3


def test_60_interrupts_are_told_with_their_device(tmp_path: Path) -> None:
    fired = one(judged(make.fired_60(), tmp_path), "IRQ.DEVICE", 1)
    assert fired.observed == 1.5
    assert fired.detail.startswith("iwlwifi:queue_1 fired 60 times")


def test_the_tick_contradicts_nohz_full(tmp_path: Path) -> None:
    tick = one(judged(make.spinning(250), tmp_path), "TICK.LOC", 1)
    assert (tick.observed, tick.unit) == (250, "/busy s")
    assert "the periodic tick at 250 Hz; nohz_full covers CPU 1, yet the tick runs" in tick.detail


def test_an_offline_cpu_is_said_to_be(tmp_path: Path) -> None:
    audit = judged(make.offlined(), tmp_path)
    assert one(audit, "CFG.CPUS", 5).outcome is FAIL
    assert [one(audit, rule, 5).outcome for rule in ("IRQ.DEVICE", "IPI.CAL", "TICK.LOC", "CST.DEEP")] == [UNKNOWN] * 4
    assert one(audit, "IRQ.DEVICE", 1).outcome is Outcome.PASS


def test_denied_threads_are_nobody_s(tmp_path: Path) -> None:
    """What can't be seen may be the own workload: neither foreign nor an excuse."""
    audit = judged(make.denied_threads(), tmp_path)
    assert audit.verdict.status is Status.UNKNOWN
    assert audit.own.threads == 0
    for cpu in (1, 5):
        assert one(audit, "THR.FOREIGN", cpu).outcome is UNKNOWN
        assert one(audit, "THR.USER", cpu).outcome is UNKNOWN
        assert one(audit, "TICK.LOC", cpu).outcome is UNKNOWN
    assert exit_code(audit.verdict.status, audit.readiness.status) == 4


@pytest.mark.parametrize("path", ["proc/softirqs", "proc/interrupts"])
def test_ends_of_two_boots_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not of one boot"):
        judged(make.another_boot(path), tmp_path)


def test_the_command_line_refuses_ends_of_two_boots(tmp_path: Path) -> None:
    done = run("--from", str(write(make.another_boot(), tmp_path / "host")))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("they are not of one boot\n")


def test_made_by_hand_with_its_window(tmp_path: Path) -> None:
    """CPUs by what the kernel isolates, managed queues by name, 40 s by the command line."""
    audit = audit_of(write(make.by_hand(), tmp_path / "host"), window_s=40)
    assert audit.verdict.status is Status.ISOLATED
    assert (audit.cpus.audited, audit.cpus.chosen_by) == ("1,5", "isolated by the kernel")
    assert (audit.window.window_ms, audit.window.requested_ms) == (40_000, 40_000)


def test_made_by_hand_without_a_window_is_refused(tmp_path: Path) -> None:
    done = run("--from", str(write(make.by_hand(), tmp_path / "host")))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("cpu-audit: the recording does not say how long its window was: give it with --window\n")
    assert run("--from", str(tmp_path / "host"), "--window", "40s").returncode == 0


def test_a_limit_of_the_pod_makes_the_host_not_ready(tmp_path: Path) -> None:
    audit = audit_of(write(make.throttled_pod(), tmp_path))
    (quota,) = found(audit, "CFG.QUOTA", 1)
    pod = "/kubepods.slice/kubepods-pod5f0c8a1e.slice"
    assert (quota.outcome, quota.cpus, quota.title) == (FAIL, (1, 5), f"CPU limit: {pod}")
    assert quota.detail.startswith(
        "2 CPUs: 200000 µs in each 100000 µs; 37 of 400 periods throttled, 37 ms summed over CPUs; "
        "the own cgroups waited 37 ms"
    )
    assert quota.fix is not None
    assert quota.fix.commands == (f"echo max | sudo tee /sys/fs/cgroup{pod}/cpu.max",)
    assert (audit.verdict.status, audit.readiness.status) == (Status.ISOLATED, Readiness.NOT_READY)
    assert exit_code(audit.verdict.status, audit.readiness.status) is ExitCode.FOUND


@pytest.mark.parametrize("pattern", [r"sys/fs/cgroup/.*/cpu\.max", r"proc/\d+/task/\d+/cgroup"])
def test_limits_that_were_not_recorded_are_not_known(pattern: str, tmp_path: Path) -> None:
    for number, spoil in enumerate((Recorded.drop, Recorded.deny)):
        host = record(WITH)
        spoil(host, pattern)
        audit = audit_of(write(host, tmp_path / str(number)))
        assert one(audit, "CFG.QUOTA", 1).outcome is UNKNOWN
        assert audit.readiness.reason == "not decided: CPU limit"


def test_without_the_namespace_a_limit_may_be_hidden(tmp_path: Path) -> None:
    host = record(WITH)
    host.meta["links"] = {}
    assert one(audit_of(write(host, tmp_path)), "CFG.QUOTA", 1).outcome is UNKNOWN
