"""Asked for, but not in force: CFG.CMDLINE says what and why, and the verdict follows the effect."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.node.audits import AUDITED, NOISE, TSC, audit, judged
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
WHOLE = f"isolcpus=domain,managed_irq,{AUDITED} nohz_full={AUDITED} rcu_nocbs={AUDITED} irqaffinity=0,2"


@dataclass(frozen=True)
class Fault:
    """A line, what is said of it, the CPUs that it should have isolated and did not, and those that it did."""

    append: str
    says: str
    lost: tuple[int, ...]
    isolated: tuple[int, ...] = ()


FAULTS = {
    "beyond": Fault(
        "isolcpus=1,9",
        "isolcpus=1,9 names a CPU above the last possible one, 3, so the whole parameter is dropped",
        (1,),
    ),
    "blank": Fault("isolcpus=1, 3", "3 behind isolcpus=1, is not in its list: a blank ends the value", (3,), (1,)),
    "misspelt": Fault("isolcpu=1,3", "isolcpu=1,3 is no kernel parameter, isolcpus is meant", (1, 3)),
    "all": Fault("isolcpus=all", "isolcpus=all: 'all' is taken for an unknown flag, so no CPU is isolated", (1, 3)),
    "quoted": Fault(
        "isolcpus='1,3'", "has quotes inside its value (only double quotes around it are taken off)", (1, 3)
    ),
    "hex": Fault("isolcpus=0xa", "isolcpus=0xa is hexadecimal, and a CPU list is decimal", (1, 3)),
    "repeated": Fault(
        "isolcpus=1 isolcpus=1,3",
        "isolcpus=1,3 is dropped: the first one wins, isolcpus=1, and the lists differ",
        (3,),
        (1,),
    ),
    "behind": Fault("-- isolcpus=1,3", "isolcpus=1,3 stands behind --: the kernel leaves all that to init", (1, 3)),
}
OTHERS = "isolcpus=2"


def scenario(kernel: str, name: str, append: str) -> Scenario:
    """One audit beside a noisy host."""
    script = "\n".join([NOISE, audit("audit")])
    return Scenario(name=f"{name}-{kernel}", kernel=kernel, append=f"{TSC} {append}", script=script)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=pytest.mark.scenario(scenario(kernel, name, fault.append)), id=f"{name}-{kernel}")
        for kernel in KERNELS
        for name, fault in FAULTS.items()
    ],
)
def test_the_line_is_said_to_be_without_effect_and_the_verdict_follows_the_effect(
    fault: Fault, guest: NodeResult
) -> None:
    found = judged(guest, "audit")
    (lost,) = found.findings("CFG.CMDLINE")
    assert (lost["outcome"], tuple(lost["cpus"])) == ("fail", fault.lost)
    assert fault.says in lost["detail"]
    assert lost["evidence"][0]["path"] == "/proc/cmdline"
    assert found.document["boot_line"] == WHOLE
    domains = {cpu: f["outcome"] for f in found.findings("CFG.DOMAIN") for cpu in f["cpus"]}
    assert domains == {cpu: "pass" if cpu in fault.isolated else "fail" for cpu in (1, 3)}
    users = {cpu: f["outcome"] for f in found.findings("THR.USER") for cpu in f["cpus"]}
    for cpu in (1, 3):
        if cpu in fault.isolated:  # from user threads: without the other parameters, interrupts and kernel threads come
            assert users[cpu] != "fail"
            assert found.cpu_status(cpu) in ("exposed", "not-isolated")
        else:
            assert found.cpu_status(cpu) == "not-isolated"
    assert (found.status, found.code) == ("not-isolated", 3)


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(kernel, marks=pytest.mark.scenario(scenario(kernel, "others", OTHERS)), id=kernel)
        for kernel in KERNELS
    ],
)
def test_a_line_for_other_cpus_is_named(kernel: str, guest: NodeResult) -> None:
    found = judged(guest, "audit")
    assert found.outcomes("CFG.CMDLINE") == ["warn"]
    assert found.details("CFG.CMDLINE") == "the command line isolates CPUs 2, none of the audited ones"
    assert (found.status, found.code) == ("not-isolated", 3)
    assert found.document["boot_line"] == WHOLE
