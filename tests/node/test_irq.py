"""Whose interrupts fire on the audited CPUs: steered there, declared, of own I/O, of others; and what brings them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.node.artifacts import fetch_package
from tests.node.audits import ISOLATED, PYTHON, TSC, Judged, audit, in_background, judged, obey
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

SECRET = "hunter2"
# Every write goes to the host at once, and its answer comes as an interrupt of virtio1.
SHARE_WRITER = """import os, time
file = os.open(os.environ["OUT"] + "/traffic", os.O_CREAT | os.O_WRONLY)
while True: os.pwrite(file, b"x", 0); time.sleep(0.02)"""
READER = """import mmap, os, time
open("/proc/self/comm", "w").write("reader")
disk, page = os.open("/dev/vda", os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
while True: os.preadv(disk, [page], 0); time.sleep(0.1)"""
SLEEPER = """import time
while True: time.sleep(0.1)"""
SENDER = """import os, socket, time
there, here = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
there.bind(("127.0.0.1", 0))
while True: here.sendto(b"x", there.getsockname()); there.recv(1); time.sleep(0.02)"""
# What systemd does when it starts the unit: the environment file, then the program. Debian's own unit says the same.
SYSTEMCTL = f"""cat >/usr/local/sbin/systemctl <<'END'
#!/bin/sh
[ -e /run/irqbalance.pid ] && kill "$(cat /run/irqbalance.pid)"
set -a
PASSWORD={SECRET}
[ -e /etc/default/irqbalance ] && . /etc/default/irqbalance
$IRQBALANCE --foreground >/dev/null 2>&1 &
echo $! >/run/irqbalance.pid
END
chmod +x /usr/local/sbin/systemctl
rm -f /etc/default/irqbalance"""
FORGET = """echo 'IRQBALANCE_BANNED_CPULIST="1"' >/etc/default/irqbalance
systemctl restart irqbalance; sleep 1"""
RECORD = """cpu_audit record --cpus 1,3 --window 5s --workload $reader -o $OUT/own.tar.gz 2>$OUT/own.err
cpu_audit run --from $OUT/own.tar.gz -o $OUT/forgotten.json >$OUT/forgotten.txt 2>$OUT/forgotten.err
echo $? >$OUT/forgotten.code"""
PARTITION = """mkdir /sys/fs/cgroup/latency
echo 1,3 >/sys/fs/cgroup/latency/cpuset.cpus
echo isolated >/sys/fs/cgroup/latency/cpuset.cpus.partition"""


@dataclass(frozen=True, kw_only=True)
class WithIrqbalance:
    """A boot with irqbalance at hand: its package is unpacked, not installed, lest it run on this machine."""

    scenario: Scenario
    name: str = field(init=False)
    kernel: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.scenario.name)
        object.__setattr__(self, "kernel", self.scenario.kernel)

    def run(self, job: Path) -> NodeResult:
        """Raises as a scenario does, and NodeError where apt has no such package."""
        program = fetch_package("irqbalance") / "usr/sbin/irqbalance"
        return replace(self.scenario, env={"IRQBALANCE": str(program)}).run(job)


WHOSE = WithIrqbalance(
    scenario=Scenario(
        name="whose-interrupts",
        append=ISOLATED,
        script="\n".join(
            [
                in_background(SHARE_WRITER),
                "irq=$(sed -n 's/: .*virtio1-requests//p' /proc/interrupts | tr -d ' '); echo $irq >$OUT/irq",
                "echo 1 >/proc/irq/$irq/smp_affinity_list",
                audit("steered", window="5s"),
                audit("declared", "--own-irq", "'virtio1-req*'", window="5s"),
                obey("steered", "IRQ.AFFINITY"),
                audit("closed", window="5s"),
                in_background(READER, "1") + " reader=$!; sleep 2",
                audit("own", "--workload", "$reader"),
                in_background(SLEEPER, "1") + " sleeper=$!; sleep 2",
                audit("anothers", "--workload", "$sleeper", window="5s"),
                SYSTEMCTL,
                FORGET,
                "kill $sleeper",
                RECORD,
                obey("anothers", "IRQ.MANAGED") + "; taskset -pc $reader >$OUT/reader.cpus; kill $reader",
                obey("forgotten", "CFG.IRQBALANCE") + "; sleep 1",
                audit("balanced", window="2s"),
            ]
        ),
    )
)
STEERED_PACKETS = WithIrqbalance(
    scenario=Scenario(
        name="steered-packets",
        append=TSC,
        script="\n".join(
            [
                PARTITION,
                "echo 2 >/sys/class/net/lo/queues/rx-0/rps_cpus",
                in_background(SENDER, "0"),
                SYSTEMCTL,
                "systemctl restart irqbalance; sleep 1",
                audit("packets", window="5s"),
                obey("packets", "CFG.RPS") + "; cat /sys/class/net/lo/queues/rx-0/rps_cpus >$OUT/rps",
                obey("packets", "CFG.IRQBALANCE") + "; sleep 1",
                audit("cured", window="5s"),
            ]
        ),
    )
)
whose = pytest.mark.scenario(WHOSE)
packets = pytest.mark.scenario(STEERED_PACKETS)


def of_cpu(found: Judged, rule: str, cpu: int) -> list[Mapping[str, Any]]:
    """What a rule found on one CPU."""
    return [finding for finding in found.findings(rule) if cpu in finding["cpus"]]


def cause_with(found: Judged, rule: str) -> Mapping[str, Any]:
    """The cause that a rule is part of."""
    return next(cause for cause in found.document["causes"] if rule in cause["rules"])


@whose
def test_a_line_steered_onto_a_cpu_is_an_open_door_and_noise(guest: NodeResult) -> None:
    irq = (guest.out / "irq").read_text().strip()
    found = judged(guest, "steered")
    assert (found.status, found.code) == ("not-isolated", 3)
    assert found.outcomes("IRQ.AFFINITY") == ["fail", "pass"]
    (fired,) = of_cpu(found, "IRQ.DEVICE", 1)
    assert (fired["outcome"], fired["title"]) == ("fail", "device interrupts: virtio1")
    command = f"echo 0,2 | sudo tee /proc/irq/{irq}/smp_affinity_list"
    assert fired["fix"]["commands"] == [command]
    assert of_cpu(found, "IRQ.AFFINITY", 1)[0]["fix"]["commands"] == [command]
    assert cause_with(found, "IRQ.DEVICE")["fix"]["commands"] == [command]
    assert "THR.KBOUND" in cause_with(found, "IRQ.DEVICE")["rules"]  # irq/N-virtio1-requests follows


@whose
def test_named_as_own_it_is_neither(guest: NodeResult) -> None:
    irq = int((guest.out / "irq").read_text())
    found = judged(guest, "declared")
    assert found.outcomes("IRQ.AFFINITY") == ["pass", "pass"]
    assert found.turned("IRQ.") == set()
    (own,) = found.document["own"]["interrupts"]
    assert (own["irq"], own["name"], own["claim"]) == (irq, "virtio1-requests", "named with --own-irq")
    assert own["fired"]["1"] > 50
    assert f"irq/{irq}-" not in found.details("THR.KBOUND")
    assert "fail" not in found.outcomes("THR.FOREIGN")
    assert "of them threads of own interrupts) own" in found.details("THR.FOREIGN")


@whose
def test_the_command_that_was_told_closes_the_door(guest: NodeResult) -> None:
    assert (guest.out / "steered.obeyed").read_text() == "0\n"
    found = judged(guest, "closed")
    assert found.outcomes("IRQ.AFFINITY") == ["pass", "pass"]
    assert found.turned("IRQ.") == set()
    assert found.code == 0


@whose
def test_a_managed_queue_of_own_reads_is_own(guest: NodeResult) -> None:
    found = judged(guest, "own")
    assert found.failed() == []
    assert found.code == 0
    shown, none_else = sorted(of_cpu(found, "IRQ.MANAGED", 1), key=lambda finding: str(finding["outcome"]))
    assert (shown["outcome"], none_else["detail"]) == ("not-applicable", "no other fired here")
    assert shown["detail"].endswith("times: own (own I/O)")
    assert shown["fix"]["text"] == "own I/O; to avoid these interrupts submit it from another CPU"
    (own,) = found.document["own"]["interrupts"]
    assert (own["claim"], own["fired"]["1"] > 30) == ("own I/O", True)
    assert "irq/" not in found.details("THR.KBOUND")
    (armed,) = of_cpu(found, "CFG.MIRQ", 1)
    assert armed["detail"].endswith("; isolcpus=managed_irq is in force for this CPU")


@whose
def test_the_same_queue_fired_by_another_process_is_noise_and_it_is_named(guest: NodeResult) -> None:
    found = judged(guest, "anothers")
    assert (found.status, found.code) == ("not-isolated", 3)
    (fired,) = of_cpu(found, "IRQ.MANAGED", 1)
    assert fired["outcome"] == "fail"
    assert "; for I/O of others: own processes did none; submitted here, where reader (" in fired["detail"]
    assert found.document["own"]["interrupts"] == []
    (command,) = fired["fix"]["commands"]
    assert command.startswith("sudo taskset -pc 0,2 ")
    assert (guest.out / "reader.cpus").read_text().endswith("current affinity list: 0,2\n")


@whose
def test_irqbalance_that_was_told_to_forget_a_cpu(guest: NodeResult) -> None:
    found = judged(guest, "forgotten")
    assert found.outcomes("CFG.IRQBALANCE") == ["pass", "warn"]
    (finding,) = of_cpu(found, "CFG.IRQBALANCE", 3)
    text = "IRQBALANCE_BANNED_CPULIST=1 replaces its default: kept free are CPUs 1, not 3"
    assert finding["detail"].partition(": ")[2] == text
    assert judged(guest, "balanced").outcomes("CFG.IRQBALANCE") == ["pass", "pass"]
    assert "by default it keeps off" in judged(guest, "balanced").details("CFG.IRQBALANCE")


@whose
def test_a_recording_tells_the_same_elsewhere_and_no_secret(guest: NodeResult) -> None:
    recording = guest.out / "own.tar.gz"
    told = subprocess.run([PYTHON, "-m", "auditor", "run", "--from", recording], capture_output=True, check=False)
    assert told.stdout.decode() == judged(guest, "forgotten").text
    assert "own interrupt:" in told.stdout.decode()
    unpacked = subprocess.run(["tar", "-xzOf", recording], capture_output=True, check=True).stdout
    assert b"IRQBALANCE_BANNED_CPULIST=1" in unpacked
    assert SECRET.encode() not in unpacked


@packets
def test_packets_that_rps_sends_are_named_with_the_mask_to_write(guest: NodeResult) -> None:
    found = judged(guest, "packets")
    assert found.code == 3
    assert found.outcomes("CFG.RPS") == ["warn", "pass"]
    cause = cause_with(found, "CFG.RPS")
    # On PREEMPT_RT since 6.10 such packets are no NET_RX softirq: a thread handles them.
    assert "THR.KBOUND" in cause["rules"]
    assert "backlog_napi/1" in cause["title"]
    assert cause["fix"]["commands"] == ["echo 0 | sudo tee /sys/class/net/lo/queues/rx-0/rps_cpus"]
    assert (guest.out / "rps").read_text() == "0\n"
    cured = judged(guest, "cured")
    assert cured.outcomes("CFG.RPS") == ["pass", "pass"]
    assert "backlog_napi" not in cured.details("THR.KBOUND")


@packets
def test_irqbalance_knows_no_partition_until_it_is_told(guest: NodeResult) -> None:
    found = judged(guest, "packets")
    assert found.outcomes("CFG.IRQBALANCE") == ["warn", "warn"]
    assert "it knows no cpuset partition" in found.details("CFG.IRQBALANCE")
    assert (guest.out / "packets.obeyed").read_text() == "0\n"
    cured = judged(guest, "cured")
    assert cured.outcomes("CFG.IRQBALANCE") == ["pass", "pass"]
    assert "IRQBALANCE_BANNED_CPULIST=1,3 replaces its default" in cured.details("CFG.IRQBALANCE")
