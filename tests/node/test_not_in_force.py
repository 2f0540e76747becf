"""Asked for, but not in force: CFG.CMDLINE says what and why, and the verdict follows the effect."""

from __future__ import annotations

import pytest

from tests.node.audits import NOISE, TSC, audit
from tests.node.fleet import Scenario

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
LINES = {
    "beyond": "isolcpus=1,9",
    "blank": "isolcpus=1, 3",
    "misspelt": "isolcpu=1,3",
    "all": "isolcpus=all",
    "quoted": "isolcpus='1,3'",
    "hex": "isolcpus=0xa",
    "repeated": "isolcpus=1 isolcpus=1,3",
    "behind": "-- isolcpus=1,3",
    "others": "isolcpus=2",
}


def scenario(kernel: str, fault: str) -> Scenario:
    return Scenario(
        name=f"{fault}-{kernel}",
        kernel=kernel,
        append=f"{TSC} {LINES[fault]}",
        script="\n".join([NOISE, audit("audit")]),
    )


SCENARIOS = [scenario(kernel, fault) for kernel in KERNELS for fault in LINES]
