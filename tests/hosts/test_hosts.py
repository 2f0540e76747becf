"""The pinning lab, before and after boot isolation: the figures that were measured, and the verdicts they must give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from auditor.document import parse_document
from auditor.model import Axis, Outcome, Readiness, Status
from auditor.output import tar_gz
from tests.hosts.build import HERE, write
from tests.hosts.lab import HOSTS, WITH, WITHOUT
from tests.hosts.machine import record
from tests.hosts.replayed import audit_of, found, one, rules_with

ROOT = Path(__file__).parents[2]
BEFORE = HERE / "pinning-lab-without"
AFTER = HERE / "pinning-lab-with"
BAD = (Outcome.FAIL, Outcome.WARN)


@pytest.mark.parametrize("name", HOSTS)
def test_the_files_are_what_the_builder_makes(name: str) -> None:
    files = record(HOSTS[name]).files()
    lying = {str(path.relative_to(HERE / name)) for path in (HERE / name).rglob("*") if path.is_file()}
    assert lying == set(files)
    assert {path: (HERE / name / path).read_text(encoding="utf-8") for path in files} == files


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "auditor", "run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def document(path: Path, code: int) -> dict[str, Any]:
    done = run("--from", str(path), "--format", "json")
    assert (done.returncode, done.stderr) == (code, "")
    assert parse_document(done.stdout) is not None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_command_line_fails_the_lab_without_isolation() -> None:
    audit = document(BEFORE, 3)
    assert audit["schema"] == "cpu-audit/audit/v1"
    assert audit["verdict"]["status"] == "not-isolated"
    assert {cpu: verdict["status"] for cpu, verdict in audit["cpu_verdicts"].items()} == {
        "1": "not-isolated",
        "5": "not-isolated",
    }
    assert audit["boot_line"] == "isolcpus=domain,managed_irq,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4,6-7"
    assert audit["window"] == {
        "started": "2026-03-02T10:00:00.000+00:00",
        "window_ms": 40_000,
        "requested_ms": 40_000,
        "samples": 11,
        "load": None,
        "work": None,
    }
    assert audit["cpus"] == {
        "audited": "1,5",
        "control": "0,2-4,6-7",
        "housekeeping": "0,2-4,6-7",
        "chosen_by": "--cpus",
    }
    assert audit["host"]["kernel"] == "6.8.0-45-generic"
    assert audit["host"]["hypervisor"] is None
    assert audit["host"]["hz"] == 250


def test_the_command_line_passes_the_lab_with_isolation() -> None:
    audit = document(AFTER, 0)
    assert audit["verdict"]["status"] == "isolated"
    assert audit["causes"] == []
    assert audit["boot_line"] is None
    text = run("--from", str(AFTER)).stdout
    assert text.startswith("isolated  CPUs 1,5 on pinning-lab")
    assert "no disturbance visible to these counters" in text
    assert "device interrupts ≤ 0.075/s" in text


def test_the_first_causes_without_isolation() -> None:
    audit = audit_of(BEFORE)
    first = {rule: cause for cause in audit.causes[:6] for rule in cause.rules}
    assert {"THR.FOREIGN", "SIRQ.SCHED", "IRQ.MANAGED", "IRQ.DEVICE", "IPI.CAL", "IPI.RES"} <= set(first)
    assert first["IRQ.MANAGED"].title.endswith(": nvme0")
    assert first["IRQ.DEVICE"].title.endswith(": iwlwifi")
    assert first["IRQ.DEVICE"].cpus == (1, 5)
    steer = first["IRQ.DEVICE"].fix
    assert steer is not None
    assert steer.commands == tuple(
        f"echo 0,2-4,6-7 | sudo tee /proc/irq/{irq}/smp_affinity_list" for irq in (137, 141, 142)
    )
    assert sum(cause.share or 0 for cause in audit.causes) == pytest.approx(1)


def counts(path: Path, cpu: int) -> dict[str, int | None]:
    audit = audit_of(path)
    everyone = {**audit.activity.cpus, **audit.activity.control}
    return {row.name: row.count for row in (*everyone[cpu].interrupts, *everyone[cpu].softirqs)}


def test_the_figures_of_cpu_1() -> None:
    row = counts(BEFORE, 1)
    assert row["nvme0q2"] == 2_368
    assert (row["iwlwifi:queue_1"] or 0) + (row["iwlwifi:queue_6"] or 0) == 735
    assert row["Function call interrupts"] == 4_745
    assert row["Rescheduling interrupts"] == 4_387
    assert row["TLB shootdowns"] == 368
    assert row["SCHED"] == 12_647
    assert counts(BEFORE, 0)["SCHED"] == 1_040


def test_the_idle_cpu_attracts_the_balancer() -> None:
    audit = audit_of(BEFORE)
    sched = one(audit, "SIRQ.SCHED", 1)
    assert (sched.outcome, sched.observed, sched.limit, sched.unit) == (Outcome.FAIL, 12_647 / 40, 1, "/s")
    assert sched.detail == "12647 ran; at most 26/s on a control CPU"


def test_a_device_is_compared_with_itself_elsewhere() -> None:
    audit = audit_of(BEFORE)
    (nvme,) = found(audit, "IRQ.MANAGED", 1)
    assert nvme.detail == (
        "nvme0q2 fired 2368 times; for I/O of others: own processes did none; submitted here, where kube-apiserver "
        "(2212), containerd (814), kubelet (1043), gnome-shell (3120) ran; nvme0: at most 55.3/s on a control CPU"
    )
    assert [finding.observed for finding in found(audit, "IRQ.DEVICE", 1)] == [612 / 40, 123 / 40]


def test_function_calls_and_reschedules_are_not_excused_by_timers() -> None:
    audit = audit_of(BEFORE)
    assert [one(audit, rule, 1).outcome for rule in ("IPI.CAL", "IPI.RES", "IPI.TLB")] == [
        Outcome.FAIL,
        Outcome.FAIL,
        Outcome.WARN,
    ]
    assert one(audit, "IPI.CAL", 1).observed == 4_745 / 40


def test_own_timers_are_not_blamed_for_the_tick() -> None:
    """cyclictest's 5000 timers a second; what is left is the tick of 250 Hz."""
    audit = audit_of(BEFORE)
    for cpu in (1, 5):
        tick = one(audit, "TICK.LOC", cpu)
        assert tick.outcome is Outcome.WARN
        assert 240 <= tick.per_second <= 250
    assert rules_with(audit_of(AFTER), 1, *BAD).isdisjoint({"TICK.LOC"})


def test_foreign_switches_without_isolation() -> None:
    """The truth of the model lies within the interval that was found."""
    here = {1, 5}
    truth = sum(
        count
        for thread in WITHOUT.threads
        if thread.name != "cyclictest"
        for cpu, count in thread.on.items()
        if cpu in here
    ) + sum(WITHOUT.unseen_switches[cpu] for cpu in here)
    finding = one(audit_of(BEFORE), "THR.FOREIGN", 1)
    assert finding.cpus == (1, 5)
    assert truth == 23_136
    assert finding.detail == (
        "423176 switches, 400028 to 400052 own, 23124 to 23148 foreign, 20 of them the soft-lockup watchdog"
    )
    assert (finding.outcome, finding.observed) == (Outcome.FAIL, (23_124 - 20) / 40)


def test_foreign_threads_are_named() -> None:
    audit = audit_of(BEFORE)
    named = {thread.name for cpu in (1, 5) for thread in audit.activity.cpus[cpu].threads if not thread.own}
    assert {"containerd", "kubelet", "kube-apiserver", "etcd", "coredns", "gnome-shell", "gnome-terminal-"} <= named
    assert {"openvpn", "packagekitd", "rcu_preempt", "kworker/1:1-events"} <= named
    assert "stress-ng-cpu" not in named
    owned = {thread.name for thread in audit.activity.cpus[1].threads if thread.own}
    assert owned == {"cyclictest"}
    assert (audit.own.source, audit.own.threads) == ("affinity", 3)


def test_readiness_is_limited_by_the_c_states() -> None:
    audit = audit_of(BEFORE)
    assert (audit.readiness.status, audit.readiness.reason) == (Readiness.LIMITED, "deep C-states, open C-states")
    deep = one(audit, "CST.DEEP", 1)
    assert deep.axis is Axis.READINESS
    assert deep.observed == (2_214 + 1_103) / 40
    assert deep.detail.startswith("C2 (253 µs) 2214 times, C3 (1048 µs) 1103 times")
    control = {use.name: use.entries for use in audit.activity.control[0].cpuidle}
    assert (control["C2"], control["C3"]) == (12, 12)


def test_isolated_with_its_bound() -> None:
    audit = audit_of(AFTER)
    assert audit.verdict.status is Status.ISOLATED
    assert audit.readiness.status is Readiness.READY
    assert audit.verdict.bounds.startswith(
        "no disturbance visible to these counters in 40 s (device interrupts ≤ 0.075/s)"
    )
    assert audit.verdict.bounds.endswith("not seen: SMI, cache and memory contention")
    assert audit.next_command is None
    for cpu in (1, 5):
        assert rules_with(audit, cpu, *BAD) == {"CFG.MIRQ", "KUBE.POLICY", "KUBE.POOL"}
    assert {line.state for line in audit.coverage} == {"read"}


def test_what_remains_with_isolation_is_shown() -> None:
    audit = audit_of(AFTER)
    row = {counter.name: counter.count for counter in audit.activity.cpus[1].interrupts}
    assert row["Rescheduling interrupts"] == 1
    assert not [name for name in row if "nvme" in name or "iwlwifi" in name]
    assert {thread.name for cpu in (1, 5) for thread in audit.activity.cpus[cpu].threads} == {"cyclictest"}
    assert [setting.effective for setting in audit.config[:3]] == ["1,5", "not visible", "1,5"]
    assert [one(audit, "CFG.MIRQ", cpu).detail.partition(";")[0] for cpu in (1, 5)] == [
        "armed: 128 (nvme0q2)",
        "armed: 132 (nvme0q6)",
    ]


def test_an_archive_is_judged_like_its_directory(tmp_path: Path) -> None:
    files = record(WITH).files()
    archive = tmp_path / "lab.tar.gz"
    archive.write_bytes(tar_gz("lab", ((name, text.encode()) for name, text in files.items())))
    assert audit_of(archive) == audit_of(AFTER)


def test_plain_files_are_judged_like_a_bundle(tmp_path: Path) -> None:
    host = record(WITH)
    directory = write(host, tmp_path / "lab")
    for phase, tree in host.trees.items():
        (directory / phase / "bundle.txt").unlink()
        for path, text in tree.items():
            (directory / phase / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / phase / path).write_text(text, encoding="utf-8")
    assert audit_of(directory) == audit_of(AFTER)
