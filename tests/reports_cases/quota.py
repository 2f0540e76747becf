"""Reports of CPU limits that ran out on CPUs of one's own."""

from __future__ import annotations

from dataclasses import replace

from tests.hosts.machine import Machine, Recorded, Thread
from tests.reports_cases.node import S, add, group_v1, node, rows, spinner

POD = "/kubepods/pod1"
CONTAINER = f"{POD}/main"


def _limited(machine: Machine, cpu: int, stat: tuple[int, int, int], *, name: str) -> Recorded:
    """A busy loop under a limit of one CPU; each time that it is throttled it is switched to again afterwards."""
    thread = replace(
        spinner(cpu, machine, name=name, cgroup=CONTAINER, idle_us=stat[2] // 1000), on={cpu: stat[1]}, preempted=True
    )
    return group_v1(add(machine, thread), CONTAINER, 100_000, stat)


def kubernetes_70585() -> Recorded:
    """4 vCPUs, 5.4.0-1018-aws, quota 100000 of 100000, nr_periods 1575; nr_throttled above 0 but cut."""
    machine = node(4, {1}, kernel_release="5.4.0-1018-aws", default_affinity={0, 2, 3}, window_s=157.5, guest=True)
    ticking = rows(machine, TICK={1: round(157.5 * 250)})
    return _limited(ticking, 1, (1575, 1, 400_000), name="app")


def kubernetes_97445(quota_us: int, stat: tuple[int, int, int], *, quiet: bool = False) -> Recorded:
    """4.14.248 (EKS), stress-ng at 15 % of a CPU for 60 s. ``quiet``: on a CPU in nohz_full, the limit is all."""
    isolated = {1} if quiet else set[int]()
    machine = node(2, {1}, kernel_release="4.14.248-189.473.amzn2.x86_64", isolated=isolated, window_s=60, guest=True)
    run_us = 9 * S
    stress = Thread(
        pid=2_001,
        tid=2_001,
        name="stress-ng-cpu",
        allowed=frozenset({1}),
        on={1: 600},
        run_us=run_us,
        cgroup=CONTAINER,
    )
    ticking = rows(machine, TICK={1: 600 if quiet else 600 + run_us * 250 // S})
    return group_v1(add(ticking, stress), CONTAINER, quota_us, stat)


BOOT = "isolcpus=domain,managed_irq,2 nohz_full=2 rcu_nocbs=2 irqaffinity=0-1,3"


def koordinator() -> Recorded:
    """Cpuset 2, quota 100000 of 100000, a shell in a busy loop: 3076 periods, 34 throttled, 12.07 ms."""
    machine = node(4, {2}, kernel_release="5.10.0-21-amd64", isolated={2}, window_s=307.6, boot=BOOT)
    return _limited(machine, 2, (3076, 34, 12_070_000), name="sh")
