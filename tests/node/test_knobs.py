"""Each parameter of the boot line missing alone: its rule turns, and no other rule of the configuration."""

from __future__ import annotations

import pytest

from tests.node.audits import AUDITED, NOISE, TSC, audit
from tests.node.fleet import Scenario

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
KNOBS = {
    "isolcpus": f"isolcpus=domain,managed_irq,{AUDITED}",
    "nohz_full": f"nohz_full={AUDITED}",
    "rcu_nocbs": f"rcu_nocbs={AUDITED}",
    "irqaffinity": "irqaffinity=0,2",
}


def line(*without: str, **instead: str) -> str:
    """The whole boot line but for what is left out or said otherwise."""
    words = [instead.get(name, word) for name, word in KNOBS.items() if name not in without]
    return " ".join([*words, TSC])


VARIANTS = {
    "whole": line(),
    "no-domain": line(isolcpus=f"isolcpus=managed_irq,{AUDITED}"),
    "no-managed-irq": line(isolcpus=f"isolcpus=domain,{AUDITED}"),
    "no-nohz-full": line("nohz_full"),
    "no-rcu-nocbs": line("rcu_nocbs"),
    "no-irqaffinity": line("irqaffinity"),
    "managed-irq-only": f"isolcpus=managed_irq,{AUDITED} {TSC}",
}


def scenario(kernel: str, variant: str) -> Scenario:
    """Idle CPUs under load; without nohz_full a spinning thread too, as only that one feels the tick."""
    audits = [audit("idle")] + [audit("spin", "--work", "spin")] * (variant == "no-nohz-full")
    return Scenario(
        name=f"{variant}-{kernel}",
        kernel=kernel,
        append=VARIANTS[variant],
        script="\n".join([NOISE, *audits]),
    )


SCENARIOS = [scenario(kernel, variant) for kernel in KERNELS for variant in VARIANTS]
