"""Asked for, but not in force: CFG.CMDLINE says what and why, and the verdict follows the effect.

A boot line holds up to two faults, of parameters that do not touch each other: the grammar is the same for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.node.audits import AUDITED, NOISE, TSC, Judged, audit, judged
from tests.node.fleet import Scenario
from tests.node.node import NodeResult

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
WHOLE = f"isolcpus=domain,managed_irq,{AUDITED} nohz_full={AUDITED} rcu_nocbs={AUDITED} irqaffinity=0,2"


@dataclass(frozen=True)
class Fault:
    """What is said of a parameter, and the audited CPUs that it should have covered and does not."""

    parameter: str
    says: str
    lost: tuple[int, ...] = (1, 3)


@dataclass(frozen=True)
class Line:
    """A boot line with its faults, and the audited CPUs that it takes out of the scheduler all the same."""

    append: str
    faults: tuple[Fault, ...]
    isolated: tuple[int, ...] = ()


LINES = {
    "blank-and-quotes": Line(
        "nohz_full='1,3' isolcpus=1, 3",
        (
            Fault("isolcpus", "3 behind isolcpus=1, is not in its list: a blank ends the value", (3,)),
            Fault("nohz_full", "has quotes inside its value (only double quotes around it are taken off)"),
        ),
        isolated=(1,),
    ),
    "misspelt-and-behind": Line(
        "isolcpu=1,3 -- nohz_full=1,3",
        (
            Fault("isolcpus", "isolcpu=1,3 is no kernel parameter, isolcpus is meant"),
            Fault("nohz_full", "nohz_full=1,3 stands behind --: the kernel leaves all that to init"),
        ),
    ),
    "repeated-and-hex": Line(
        "isolcpus=1 nohz_full=0xa isolcpus=1,3",
        (
            Fault("isolcpus", "isolcpus=1,3 is dropped: the first one wins, isolcpus=1, and the lists differ", (3,)),
            Fault("nohz_full", "nohz_full=0xa is hexadecimal, and a CPU list is decimal"),
        ),
        isolated=(1,),
    ),
    "all-and-beyond": Line(
        "nohz_full=1,9 isolcpus=all",
        (
            Fault("isolcpus", "isolcpus=all: 'all' is taken for an unknown flag, so no CPU is isolated"),
            Fault(
                "nohz_full", "nohz_full=1,9 names a CPU above the last possible one, 3, so the whole parameter", (1,)
            ),
        ),
    ),
}
OTHERS = "isolcpus=2"


def scenario(kernel: str, name: str, append: str) -> Scenario:
    """One audit beside a noisy host."""
    script = "\n".join([NOISE, audit("audit")])
    return Scenario(name=f"{name}-{kernel}", kernel=kernel, append=f"{TSC} {append}", script=script)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.scenario(scenario(kernel, name, line.append)), id=f"{name}-{kernel}")
        for kernel in KERNELS
        for name, line in LINES.items()
    ],
)
def test_each_fault_is_explained_and_the_verdict_follows_the_effect(line: Line, guest: NodeResult) -> None:
    found = judged(guest, "audit")
    for fault in line.faults:
        (lost,) = [f for f in found.findings("CFG.CMDLINE") if f["title"].endswith(f": {fault.parameter}")]
        assert (lost["outcome"], tuple(lost["cpus"])) == ("fail", fault.lost)
        assert fault.says in lost["detail"]
        assert lost["evidence"][0]["path"] == "/proc/cmdline"
    assert len(found.findings("CFG.CMDLINE")) == len(line.faults)
    assert found.document["boot_line"] == WHOLE
    assert by_cpu(found, "CFG.DOMAIN") == {cpu: "pass" if cpu in line.isolated else "fail" for cpu in (1, 3)}
    users = by_cpu(found, "THR.USER")
    for cpu in (1, 3):
        if cpu in line.isolated:  # from user threads: without the other parameters, interrupts and kernel threads come
            assert users[cpu] != "fail"
            assert found.cpu_status(cpu) in ("exposed", "not-isolated")
        else:
            assert found.cpu_status(cpu) == "not-isolated"
    assert (found.status, found.code) == ("not-isolated", 3)


def by_cpu(found: Judged, rule: str) -> dict[int, str]:
    """What a rule says of each CPU."""
    return {cpu: f["outcome"] for f in found.findings(rule) for cpu in f["cpus"]}


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
