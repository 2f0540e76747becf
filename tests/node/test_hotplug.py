"""CPUs that leave within the window: never a false pass, the others judged rightly, no traceback."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest

from auditor.model import Audit, Outcome
from auditor.policy import Policy
from auditor.recordings import replay
from auditor.session import judge
from probes.cpulist import parse_cpulist
from tests.node.audits import ISOLATED, PYTHON, Judged, judged
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

HOTPLUG = Scenario(
    name="hotplug", append=ISOLATED, script=f"{PYTHON} -m tests.node.drivers.hotplug $OUT", timeout_s=1200
)
pytestmark = [pytest.mark.node, pytest.mark.scenario(HOTPLUG)]

WINDOWS = ("gone", "back", "blink", "control")


@pytest.fixture
def facts(guest: NodeResult) -> dict[str, Any]:
    assert guest.code == 0, guest.stderr
    told: dict[str, Any] = json.loads((guest.out / "facts.json").read_text())
    return told


def replayed(guest: NodeResult, name: str) -> Audit:
    return judge(replay(str(guest.out / f"{name}-rec"), None, None, None), Policy())


def choice(audit: Judged, cpu: int) -> dict[str, Any]:
    (found,) = [finding for finding in audit.findings("CFG.CPUS") if cpu in finding["cpus"]]
    return found


@pytest.mark.parametrize("name", WINDOWS)
def test_it_happened_within_the_window_and_the_tool_went_on(
    facts: dict[str, Any], guest: NodeResult, name: str
) -> None:
    audit, told = judged(guest, name), facts[name]
    window, again = audit.document["window"], replayed(guest, name).window
    for started, window_ms in ((window["started"], window["window_ms"]), (again.started, again.window_ms)):
        start = datetime.fromisoformat(started).timestamp()
        assert start < told["acted"][0] < told["acted"][1] < start + window_ms / 1000
    assert audit.errors == ""
    assert audit.document["interrupted"] is False
    assert audit.document["overhead"]["on_audited_cpus"] is False


@pytest.mark.parametrize("name", WINDOWS)
def test_the_recording_of_the_same_window_is_judged_alike(facts: dict[str, Any], guest: NodeResult, name: str) -> None:
    audit, again = judged(guest, name), replayed(guest, name)
    assert facts[name]["codes"] == [audit.code, 0]
    for cpu in (1, 3):
        assert again.cpu_verdicts[cpu].status in {audit.cpu_status(cpu), *close(audit.cpu_status(cpu))}
    stayed = {f.cpus: f.outcome is Outcome.PASS for f in again.findings if f.rule == "CFG.CPUS"}
    assert stayed == {tuple(f["cpus"]): f["outcome"] == "pass" for f in audit.findings("CFG.CPUS")}


def close(status: str) -> tuple[str, ...]:
    """Two windows side by side are not the same: a lone event may lie in one of them only."""
    return ("isolated", "disturbed") if status in ("isolated", "disturbed") else ()


def test_a_cpu_that_is_gone_is_not_judged(facts: dict[str, Any], guest: NodeResult) -> None:
    audit = judged(guest, "gone")
    found = choice(audit, 3)
    assert (found["outcome"], found["detail"]) == ("fail", "went offline within the window: its counters are lost")
    assert found["fix"]["commands"] == ["echo 1 > /sys/devices/system/cpu/cpu3/online"]
    assert audit.cpu_status(3) in ("unknown", "not-isolated")
    assert audit.code in (3, 4)
    assert "CPU 3: offline CPU: went offline within the window" in " ".join(audit.text.split())


def test_the_cpu_that_stayed_is_judged_by_itself(guest: NodeResult) -> None:
    audit = judged(guest, "gone")
    assert audit.cpu_status(1) in ("isolated", "disturbed")
    assert choice(audit, 1)["outcome"] == "pass"
    decided = [f for f in audit.findings("IRQ.DEVICE") + audit.findings("THR.FOREIGN") if 1 in f["cpus"]]
    assert {f["outcome"] for f in decided} <= {"pass", "warn"}


def test_a_cpu_that_came_back_is_not_isolated_either(guest: NodeResult) -> None:
    audit = judged(guest, "back")
    found = choice(audit, 3)
    assert found["outcome"] == "fail"
    assert re.fullmatch(r"was offline in [1-4] of \d+ samples and came back: .*", found["detail"])
    assert audit.cpu_status(3) in ("unknown", "not-isolated")
    assert audit.code in (3, 4)


def test_an_absence_between_two_samples_is_noticed(guest: NodeResult) -> None:
    audit = judged(guest, "blink")
    found = choice(audit, 3)
    assert found["outcome"] in ("unknown", "fail")
    assert re.match(r"cpuhp/3 ran \d+ times: it went offline and came back|was offline in 1 of", found["detail"])
    assert audit.cpu_status(3) in ("unknown", "not-isolated")
    assert audit.code in (3, 4)


def moved_here(guest: NodeResult, cpu: int) -> bool:
    """Whether the kernel has moved an interrupt that may fire anywhere from the CPU that left to this one."""
    found = []
    for path in (guest.out / "control-rec/t1/proc/irq").glob("*/effective_affinity_list"):
        requested = parse_cpulist((path.parent / "smp_affinity_list").read_text())
        found += [path.parent.name] * (requested > {cpu} == parse_cpulist(path.read_text()))
    return bool(found)


def test_without_one_of_the_control_cpus_the_audited_ones_are_judged_rightly(guest: NodeResult) -> None:
    """What may fire anywhere moves from the CPU that left to any other, its thread with it: that door is open."""
    audit = judged(guest, "control")
    for cpu in (1, 3):
        (door,) = [finding for finding in audit.findings("IRQ.AFFINITY") if finding["cpus"] == [cpu]]
        moved = moved_here(guest, cpu)
        assert door["outcome"] == ("fail" if moved else "pass")
        assert audit.cpu_status(cpu) in (["exposed", "not-isolated"] if moved else ["isolated", "disturbed"])
    assert audit.outcomes("CFG.CPUS") == ["pass", "pass"]
    assert audit.code == (3 if audit.status in ("exposed", "not-isolated") else 0)


@pytest.mark.parametrize("command", ["run", "record"])
def test_an_audited_cpu_that_is_offline_from_the_start_is_refused(
    facts: dict[str, Any], guest: NodeResult, command: str
) -> None:
    assert facts["refused"][command] == 2
    assert (guest.out / f"offline-{command}.txt").read_text() == ""
    assert (guest.out / f"offline-{command}.err").read_text() == (
        "cpu-audit: CPU 3 is not online (online: 0-2); choose others with --cpus\n"
    )
    assert not (guest.out / f"offline-{command}").exists()
