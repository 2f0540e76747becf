"""The loop: a node booted plainly, and booted again with the line that the audit of the plain one asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.node.audits import DAEMON, TSC, audit, in_background, judged
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
AUDITED = "1,5"
BOOT_LINE = "isolcpus=domain,managed_irq,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"
DAEMONS = "\n".join([in_background(DAEMON), in_background(DAEMON)])


def loaded(name: str, *options: str) -> str:
    """An audit with the command's own load, on a host with daemons of its own."""
    return audit(name, *options, cpus=AUDITED, load=True)


@dataclass(frozen=True)
class Loop:
    """Two boots: the second one has the line that the first one's audit gave."""

    kernel: str

    @property
    def name(self) -> str:
        return f"loop-{self.kernel}"

    def run(self, job: Path) -> NodeResult:
        plain = self._boot("plain", "", [loaded("plain")], job)
        line = judged(plain, "plain").document["boot_line"]
        isolated = self._boot(
            "isolated", f"{line} {TSC}", [loaded("idle"), audit("spin", "--work", "spin", cpus=AUDITED)], job
        )
        for file in plain.out.iterdir():
            file.rename(isolated.out / file.name)
        return replace(isolated, deaths=plain.deaths + isolated.deaths)

    def _boot(self, name: str, append: str, audits: list[str], job: Path) -> NodeResult:
        script = "\n".join([DAEMONS, *audits])
        scenario = Scenario(name=name, kernel=self.kernel, cpus=6, append=append, script=script)
        return scenario.run(job / name)


@pytest.fixture(params=[pytest.param(kernel, marks=pytest.mark.scenario(Loop(kernel))) for kernel in KERNELS])
def loop(guest: NodeResult) -> NodeResult:
    return guest


def test_a_plain_node_is_not_isolated_and_its_causes_are_named(loop: NodeResult) -> None:
    plain = judged(loop, "plain")
    assert (plain.status, plain.code) == ("not-isolated", 3)
    assert plain.text.startswith("not-isolated  CPUs 1,5 on node")
    assert plain.rules & {"IRQ.DEVICE", "IRQ.MANAGED"}
    assert {"SIRQ.SCHED", "THR.FOREIGN", "THR.USER"} <= plain.rules
    assert "fail" in plain.outcomes("THR.FOREIGN")
    assert "fail" in plain.outcomes("SIRQ.SCHED")
    assert plain.outcomes("CFG.DOMAIN") == ["fail", "fail"]
    assert all(cause["fix"] for cause in plain.document["causes"])


def test_the_boot_line_is_the_line_for_these_cpus(loop: NodeResult) -> None:
    plain = judged(loop, "plain")
    assert plain.document["boot_line"] == BOOT_LINE
    assert BOOT_LINE in " ".join(plain.text.split())


def test_booted_with_that_line_an_idle_cpu_is_isolated(loop: NodeResult) -> None:
    idle = judged(loop, "idle")
    assert idle.failed() == []
    assert (idle.status, idle.code) == ("isolated", 0)
    assert idle.text.startswith("isolated (guest view)  CPUs 1,5 on node")
    assert "no disturbance visible to these counters in" in " ".join(idle.text.split())
    assert idle.document["boot_line"] is None
    assert [cpu["regime"] for cpu in idle.document["activity"]["cpus"].values()] == ["idle", "idle"]
    assert idle.outcomes("TICK.LOC") == ["not-applicable", "not-applicable"]
    assert "the tick was not judged" in idle.document["verdict"]["bounds"]
    assert idle.document["window"]["load"].startswith("stress-ng")


def test_the_tick_of_a_spinning_cpu_is_judged_and_nothing_fails(loop: NodeResult) -> None:
    spin = judged(loop, "spin")
    assert spin.failed() == []
    assert spin.status in ("isolated", "disturbed")  # 6.12 keeps the fair server's triple, a warning
    assert spin.code == 0
    assert spin.outcomes("TICK.LOC") == ["pass", "pass"]
    assert [cpu["regime"] for cpu in spin.document["activity"]["cpus"].values()] == ["spinner", "spinner"]


@pytest.mark.parametrize("name", ["idle", "spin"])
def test_every_event_that_remains_is_named(loop: NodeResult, name: str) -> None:
    audit = judged(loop, name).document
    for cpu, activity in audit["activity"]["cpus"].items():
        for row in activity["interrupts"]:
            if row["count"]:
                assert named(audit, int(cpu), row["label"]), f"{row} on CPU {cpu} of {name}"


def named(audit: dict[str, Any], cpu: int, label: str) -> bool:
    """Whether a finding on this CPU shows the count of this row, or credits it to the fair server or the workload."""
    fields = [
        evidence["field"] for finding in audit["findings"] if cpu in finding["cpus"] for evidence in finding["evidence"]
    ]
    return f"{label} CPU{cpu}" in fields


def test_the_tool_itself_stayed_off_the_audited_cpus(loop: NodeResult) -> None:
    for name in ("idle", "spin"):
        overhead = judged(loop, name).document["overhead"]
        assert overhead["on_audited_cpus"] is False
        assert overhead["cpu_ms"] > 0
    # A spinning CPU has the fair server's function calls, whoever reads its counters.
    assert judged(loop, "idle").document["overhead"]["self_check"].startswith("clean")
