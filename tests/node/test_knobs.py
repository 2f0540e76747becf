"""Each parameter of the boot line missing alone: its rule turns, and no other rule of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.node.audits import AUDITED, DAEMON, TSC, audit, judged
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
