"""The first pair: a node booted plainly, and booted again with the line that the audit of the plain one asks for."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.node import Node, NodeResult, require_node

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
BOOT_LINE = "isolcpus=domain,managed_irq,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"
# The clocksource watchdog of an emulated TSC visits every CPU; real hardware of today does without it.
TSC = "tsc=reliable"
AUDIT = f"{sys.executable} -m auditor run --cpus 1,5 --window 10s --load"
# Two daemons of the host, pinned nowhere: awake a hundred times a second, and a little work each time.
DAEMON = f"{sys.executable} -S -c 'import time\nwhile True: time.sleep(0.01); sum(range(2000))'"


@dataclass(frozen=True)
class Judged:
    """An audit as the command line gave it."""

    code: int
    text: str
    document: dict[str, Any]

    @property
    def status(self) -> str:
        return str(self.document["verdict"]["status"])

    def findings(self, rule: str) -> list[dict[str, Any]]:
        return [finding for finding in self.document["findings"] if finding["rule"] == rule]

    def outcomes(self, rule: str) -> list[str]:
        return [finding["outcome"] for finding in self.findings(rule)]

    def failed(self) -> list[str]:
        return [f"{f['rule']}: {f['detail']}" for f in self.document["findings"] if f["outcome"] == "fail"]


def audit_command(name: str, *options: str) -> str:
    return f"{AUDIT} {' '.join(options)} -o $OUT/{name}.json >$OUT/{name}.txt; echo $? >$OUT/{name}.code"


def judged(result: NodeResult, name: str) -> Judged:
    out = result.out
    assert (out / f"{name}.code").exists(), result.stderr
    return Judged(
        code=int((out / f"{name}.code").read_text()),
        text=(out / f"{name}.txt").read_text(),
        document=json.loads((out / f"{name}.json").read_text()) if (out / f"{name}.json").exists() else {},
    )


@pytest.fixture(autouse=True, scope="module")
def _node_or_skip() -> None:
    require_node()


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plain(kernel: str, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    script = f"{DAEMON} & {DAEMON} &\n{audit_command('plain')}"
    return judged(boot(kernel, "", script, tmp_path_factory.mktemp("plain")), "plain")


@pytest.fixture(scope="module")
def isolated(kernel: str, plain: Judged, tmp_path_factory: pytest.TempPathFactory) -> NodeResult:
    script = "\n".join([f"{DAEMON} & {DAEMON} &", audit_command("idle"), audit_command("spin", "--work", "spin")])
    line = f"{plain.document['boot_line']} {TSC}"
    return boot(kernel, line, script, tmp_path_factory.mktemp("isolated"))


def boot(kernel: str, append: str, script: str, job: Path) -> NodeResult:
    node = Node(kernel=kernel, cpus=6, append=append, env={"CPU_AUDIT_SCRATCH": "/scratch"})
    return node.run(script, job=job, timeout=600)


def test_a_plain_node_is_not_isolated_and_its_causes_are_named(plain: Judged) -> None:
    assert (plain.status, plain.code) == ("not-isolated", 3)
    assert plain.text.startswith("not-isolated  CPUs 1,5 on node")
    rules = {rule for cause in plain.document["causes"] for rule in cause["rules"]}
    assert rules & {"IRQ.DEVICE", "IRQ.MANAGED"}
    assert {"SIRQ.SCHED", "THR.FOREIGN", "THR.USER"} <= rules
    assert "fail" in plain.outcomes("THR.FOREIGN")
    assert "fail" in plain.outcomes("SIRQ.SCHED")
    assert plain.outcomes("CFG.DOMAIN") == ["fail", "fail"]
    assert all(cause["fix"] for cause in plain.document["causes"])


def test_the_boot_line_is_the_line_for_these_cpus(plain: Judged) -> None:
    assert plain.document["boot_line"] == BOOT_LINE
    assert BOOT_LINE in " ".join(plain.text.split())


def test_booted_with_that_line_an_idle_cpu_is_isolated(isolated: NodeResult) -> None:
    idle = judged(isolated, "idle")
    assert idle.failed() == []
    assert (idle.status, idle.code) == ("isolated", 0)
    assert idle.text.startswith("isolated (guest view)  CPUs 1,5 on node")
    assert "no disturbance visible to these counters in" in " ".join(idle.text.split())
    assert idle.document["boot_line"] is None
    assert idle.document["window"]["load"].startswith("stress-ng")


def test_the_tick_of_a_spinning_cpu_is_judged_and_nothing_fails(isolated: NodeResult) -> None:
    spin = judged(isolated, "spin")
    assert spin.failed() == []
    assert spin.status in ("isolated", "disturbed")  # 6.12 keeps the fair server's triple, a warning
    assert spin.code == 0
    assert spin.outcomes("TICK.LOC") == ["pass", "pass"]
    assert [cpu["regime"] for cpu in spin.document["activity"]["cpus"].values()] == ["spinner", "spinner"]


@pytest.mark.parametrize("name", ["idle", "spin"])
def test_every_event_that_remains_is_named(isolated: NodeResult, name: str) -> None:
    audit = judged(isolated, name).document
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


def test_the_tool_itself_stayed_off_the_audited_cpus(isolated: NodeResult) -> None:
    for name in ("idle", "spin"):
        overhead = judged(isolated, name).document["overhead"]
        assert overhead["on_audited_cpus"] is False
        assert overhead["cpu_ms"] > 0
    # A spinning CPU has the fair server's function calls, whoever reads its counters.
    assert judged(isolated, "idle").document["overhead"]["self_check"].startswith("clean")
