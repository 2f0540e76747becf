"""Each parameter of the boot line missing alone: its rule turns, and no other rule of the configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from _pytest.mark.structures import ParameterSet

from tests.node.audits import AUDITED, NOISE, TSC, Judged, audit, judged
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
KNOBS = {
    "isolcpus": f"isolcpus=domain,managed_irq,{AUDITED}",
    "nohz_full": f"nohz_full={AUDITED}",
    "rcu_nocbs": f"rcu_nocbs={AUDITED}",
    "irqaffinity": "irqaffinity=0,2",
}
DOORS = ("CFG.DOMAIN", "IRQ.AFFINITY")
ARMED = {"CFG.MIRQ"}
"""The disk has a queue per CPU: those of isolated CPUs stay armed, whatever the line says."""


def line(*without: str, **instead: str) -> str:
    """The whole boot line but for what is left out or said otherwise."""
    words = [instead.get(name, word) for name, word in KNOBS.items() if name not in without]
    return " ".join([*words, TSC])


@dataclass(frozen=True)
class Variant:
    """A boot line, the verdicts that it may have, and the rules of the configuration that turn, beside ARMED."""

    append: str
    verdicts: set[str]
    turned: set[str] = field(default_factory=set)


VARIANTS = {
    "no-domain": Variant(
        line(isolcpus=f"isolcpus=managed_irq,{AUDITED}"), {"not-isolated"}, {"CFG.DOMAIN", "CFG.CMDLINE"}
    ),
    # nohz_full takes the lockup detectors off as well, and keeps RCU's grace-period thread from staying there.
    "no-nohz-full": Variant(line("nohz_full"), {"disturbed", "isolated", "not-isolated"}, {"CFG.NOHZ", "CFG.WATCHDOG"}),
    # nohz_full offloads the callbacks of its CPUs by itself.
    "no-rcu-nocbs": Variant(line("rcu_nocbs"), {"isolated"}),
    "no-irqaffinity": Variant(line("irqaffinity"), {"exposed"}, {"IRQ.AFFINITY", "CFG.IRQAFF"}),
    "managed-irq-only": Variant(
        f"isolcpus=managed_irq,{AUDITED} {TSC}",
        {"not-isolated"},
        {
            *("CFG.DOMAIN", "CFG.CMDLINE", "IRQ.AFFINITY", "CFG.IRQAFF", "CFG.NOHZ", "CFG.RCU", "CFG.WQ"),
            *("CFG.WATCHDOG", "CFG.SYSCTL"),
        },
    ),
}


def scenario(kernel: str, name: str) -> Scenario:
    """Idle CPUs beside a noisy host; without nohz_full a spinning thread too, as only that one feels the tick."""
    audits = [audit("idle")] + [audit("spin", "--work", "spin")] * (name == "no-nohz-full")
    return Scenario(
        name=f"{name}-{kernel}",
        kernel=kernel,
        append=VARIANTS[name].append,
        script="\n".join([NOISE, *audits]),
    )


def queues(kernel: str, flags: str) -> Scenario:
    """Two queues for four CPUs: the second one serves CPUs 2 and 3, and starts on the last of them, the audited one."""
    return Scenario(
        name=f"queues-{flags}-{kernel}",
        kernel=kernel,
        append=f"isolcpus={flags},3 nohz_full=3 rcu_nocbs=3 irqaffinity=0-2 {TSC}",
        queues=2,
        script="\n".join([NOISE, audit("idle", cpus="3")]),
    )


FLAGS = ("domain", "domain,managed_irq")


def cases(*names: str) -> list[ParameterSet]:
    """These variants on both kernels."""
    return [
        pytest.param(name, marks=pytest.mark.scenario(scenario(kernel, name)), id=f"{name}-{kernel}")
        for kernel in KERNELS
        for name in names
    ]


def turned(found: Judged) -> set[str]:
    """Rules of the configuration that warned or failed."""
    return found.turned("CFG.") | (found.turned() & set(DOORS))


def always(found: Judged) -> set[str]:
    """What no parameter of these changes: armed queues, and before 6.5 the statistics of memory on isolated CPUs."""
    return ARMED | ({"CFG.SYSCTL"} if found.document["host"]["kernel"].startswith("6.1.") else set())


@pytest.mark.parametrize("name", cases(*VARIANTS))
def test_its_rule_turns_and_no_other_rule_of_the_configuration(name: str, guest: NodeResult) -> None:
    found = judged(guest, "idle")
    assert turned(found) == VARIANTS[name].turned | always(found)
    assert found.status in VARIANTS[name].verdicts, found.failed()
    assert found.code == (3 if found.status in ("not-isolated", "exposed") else 0)


@pytest.mark.parametrize("name", cases("no-domain", "managed-irq-only"))
def test_without_domain_others_come_and_the_whole_line_is_the_way_out(name: str, guest: NodeResult) -> None:
    found = judged(guest, "idle")
    assert "fail" in found.outcomes("THR.FOREIGN")
    assert found.outcomes("CFG.DOMAIN") == ["fail", "fail"]
    assert "the flag managed_irq alone does not imply domain" in found.details("CFG.CMDLINE")
    assert found.document["boot_line"] == line().removesuffix(f" {TSC}")
    assert {"THR.FOREIGN", "THR.USER", "CFG.DOMAIN"} <= found.rules


@pytest.mark.parametrize("name", cases("no-nohz-full"))
def test_without_nohz_full_the_tick_hits_a_spinning_thread(name: str, guest: NodeResult) -> None:
    found = judged(guest, "spin")
    assert found.outcomes("TICK.LOC") == ["warn", "warn"]  # it fails only where nohz_full is claimed
    assert "nohz_full does not cover this CPU" in found.details("TICK.LOC")
    (tick,) = [cause for cause in found.document["causes"] if "TICK.LOC" in cause["rules"]]
    assert tick["fix"]["boot"]["nohz_full"] == AUDITED
    assert found.turned("CFG.") == {"CFG.NOHZ", "CFG.WATCHDOG"} | always(found)
    assert found.outcomes("CFG.DOMAIN") == ["pass", "pass"]


@pytest.mark.parametrize("name", cases("no-nohz-full"))
def test_without_nohz_full_only_the_kernels_own_threads_may_come(name: str, guest: NodeResult) -> None:
    found = judged(guest, "idle")
    kernels = {"THR.FOREIGN", "THR.KBOUND", "THR.KUNBOUND", "SIRQ.TIMER", "SIRQ.HRTIMER", "SIRQ.RCU", "IPI.RES"}
    assert found.turned("", "fail") <= kernels
    assert found.turned("THR.USER") == set()
    assert f"nohz_full={AUDITED}" in (found.document["boot_line"] or "").split() or found.status == "isolated"


@pytest.mark.parametrize("name", cases("no-irqaffinity"))
def test_without_irqaffinity_the_door_is_named_with_the_commands_that_close_it(name: str, guest: NodeResult) -> None:
    found = judged(guest, "idle")
    (door,) = [cause for cause in found.document["causes"] if "IRQ.AFFINITY" in cause["rules"]]
    assert door["cpus"] == [1, 3]
    commands = door["fix"]["commands"]
    assert commands
    assert all(re.fullmatch(r"echo 0,2 \| sudo tee /proc/irq/\d+/smp_affinity_list", text) for text in commands)


@pytest.mark.parametrize(
    "managed",
    [
        pytest.param(flags == FLAGS[1], marks=pytest.mark.scenario(queues(KERNELS[0], flags)), id=flags)
        for flags in FLAGS
    ],
)
def test_managed_irq_moves_a_queue_that_a_housekeeping_cpu_shares(managed: bool, guest: NodeResult) -> None:
    found = judged(guest, "idle")
    assert found.outcomes("CFG.MIRQ") == ["pass" if managed else "warn"]
    assert turned(found) == (set() if managed else ARMED)
    if managed:
        assert (found.status, found.code) == ("isolated", 0), found.failed()
    else:
        assert (found.status, found.code) == ("not-isolated", 3)
        assert found.outcomes("IRQ.MANAGED") == ["fail"]
        assert "managed_irq" in found.document["boot_line"]
