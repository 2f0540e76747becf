"""Isolation at runtime, by cgroup v2 partitions, on a node booted without any parameter for it."""

from __future__ import annotations

import pytest

from tests.node.audits import NOISE, PYTHON, TSC, audit
from tests.node.fleet import Scenario

pytestmark = pytest.mark.node

KERNELS = ("6.12-rt", "6.1-rt")
# The commands that the report tells to type for its open interrupt door.
STEER = f"""{PYTHON} -S -c '
import json, os
found = json.load(open(os.environ["OUT"] + "/isolated.json"))["findings"]
print("\\n".join(line for f in found if f["rule"] == "IRQ.AFFINITY" and f["fix"] for line in f["fix"]["commands"]))
' | sed "s/sudo //" >$OUT/steer.sh; sh -e $OUT/steer.sh >$OUT/steered 2>&1; echo $? >$OUT/steer.code"""
MAKE = """mkdir /sys/fs/cgroup/latency
echo 1,3 >/sys/fs/cgroup/latency/cpuset.cpus
echo {kind} >/sys/fs/cgroup/latency/cpuset.cpus.partition
cat /sys/fs/cgroup/latency/cpuset.cpus.partition >$OUT/{kind}.state"""
UNMAKE = "echo member >/sys/fs/cgroup/latency/cpuset.cpus.partition; rmdir /sys/fs/cgroup/latency"
# A partition below an ordinary cgroup is no partition.
INVALID = """mkdir -p /sys/fs/cgroup/pods/latency
echo +cpuset >/sys/fs/cgroup/pods/cgroup.subtree_control
echo 1,3 >/sys/fs/cgroup/pods/cpuset.cpus
echo 1,3 >/sys/fs/cgroup/pods/latency/cpuset.cpus
echo isolated >/sys/fs/cgroup/pods/latency/cpuset.cpus.partition
cat /sys/fs/cgroup/pods/latency/cpuset.cpus.partition >$OUT/invalid.state"""


def scenario(kernel: str) -> Scenario:
    lines = [
        NOISE,
        MAKE.format(kind="isolated"),
        audit("isolated"),
        STEER,
        audit("steered"),
        UNMAKE,
        MAKE.format(kind="root"),
        audit("root"),
        UNMAKE,
        INVALID,
        audit("invalid"),
    ]
    return Scenario(name=f"partitions-{kernel}", kernel=kernel, append=TSC, script="\n".join(lines))


SCENARIOS = [scenario(kernel) for kernel in KERNELS]
