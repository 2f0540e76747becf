"""Reports that began with a latency or an osnoise run on isolated CPUs, and posted counters with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.hosts.machine import Machine, Recorded, record
from tests.reports_cases.node import add, cyclictest, device, kthread, node, rows, softirqs, spinner

RT7 = "7.0.0-30-realtime"
FIRED_CLEAN = {6: 309, 7: 641, 8: 62, 9: 5, 10: 60, 11: 499}
FIRED_START = {6: 677, 7: 32, 8: 127, 9: 22, 10: 104, 11: 24}


def vcpu_preempted() -> Recorded:
    """A KVM guest of three CPUs: 144178 µs of 115.5 s on CPU 1 were noise of the hardware."""
    boot = "isolcpus=domain,managed_irq,1 nohz_full=1 rcu_nocbs=1 irqaffinity=0,2"
    machine = node(3, {1}, kernel_release="6.8.0", isolated={1}, boot=boot, window_s=115.5, guest=True)
    own = spinner(1, machine, name="app", idle_us=144_178)
    return record(replace(add(machine, own), steal_ticks={1: 14}))


def _precision(window_s: float, boot: str, *, nohz_full: range | None) -> Machine:
    """22 CPUs, cyclictest with 200 µs on CPUs 6-11."""
    machine = node(22, range(6, 12), kernel_release=RT7, isolated=range(6, 12), nohz_full=nohz_full, boot=boot,
                   window_s=window_s, hz=1000)  # fmt: skip
    return cyclictest(machine, range(6, 12))


def _residual(window_s: float, fired: Mapping[int, int], cal: Mapping[int, int], res: Mapping[int, int]) -> Recorded:
    boot = "isolcpus=6-11 nohz_full=6-11 rcu_nocbs=6-11 irqaffinity=0-5,12-21"
    machine = _precision(window_s, boot, nohz_full=None)
    queues = [replace(device(70 + cpu, f"nvme0q{cpu + 1}", cpu, {cpu}), on={cpu: fired[cpu]}) for cpu in fired]
    counted = rows(machine, CAL=cal, TLB=dict.fromkeys(fired, 1), RES=res)
    return record(replace(counted, irqs=(*counted.irqs, *queues)))


def neurorust_clean() -> Recorded:
    """1800 s, per CPU 6-11: CAL 1 or 2, TLB 1, RES 1 to 26, device interrupts 5 to 641."""
    calls, woken = (1, 1, 2, 1, 1, 1), (13, 26, 8, 1, 4, 17)
    return _residual(1800, FIRED_CLEAN, dict(zip(range(6, 12), calls, strict=True)),
                     dict(zip(range(6, 12), woken, strict=True)))  # fmt: skip


def neurorust_start() -> Recorded:
    """3600 s, per CPU 6-11: CAL 2, TLB 1, RES 0 to 17, device interrupts 22 to 677."""
    woken = (17, 5, 7, 8, 4, 0)
    return _residual(3600, FIRED_START, dict.fromkeys(range(6, 12), 2), dict(zip(range(6, 12), woken, strict=True)))


def neurorust_ipis() -> Recorded:
    """600 s, isolcpus=6-11 alone: CAL about 137000 on each of CPUs 6-11."""
    machine = _precision(600, "isolcpus=6-11", nohz_full=range(0))
    return record(rows(machine, CAL=dict.fromkeys(range(6, 12), 137_000)))


def vmstat_tick() -> Recorded:
    """6.1-rt: one thread pinned to an isolated CPU; vmstat_update runs there once in vm.stat_interval (1 s)."""
    boot = "isolcpus=domain,managed_irq,1 nohz_full=1 rcu_nocbs=1 irqaffinity=0,2-3"
    machine = node(4, {1}, kernel_release="6.1.0-rt5", isolated={1}, boot=boot)
    runs = 40
    worker = kthread(10_014, "kworker/1:2-mm_percpu_wq", {1}, {1: runs}, runs * 20)
    own = replace(spinner(1, machine, name="app", idle_us=worker.run_us), on={1: runs}, preempted=True)
    return record(rows(add(machine, own, worker), TICK={1: 3 * runs}))


def fair_server(ticks_per_s: int, softirqs_per_s: int) -> Recorded:
    """HZ 1000, nohz_full: about 1000 interrupts and 30 softirqs a second on CPUs that one thread keeps busy."""
    audited, seconds = range(2, 6), 40
    boot = "isolcpus=domain,managed_irq,2-5 nohz_full=2-5 rcu_nocbs=2-5 irqaffinity=0-1,6-7"
    machine = node(8, audited, kernel_release="6.14.0-1000-nvidia", isolated=audited, boot=boot, hz=1000,
                   window_s=seconds)  # fmt: skip
    machine = add(machine, *(spinner(cpu, machine, name="app") for cpu in audited))
    machine = rows(machine, TICK=dict.fromkeys(audited, ticks_per_s * seconds))
    return record(softirqs(machine, TIMER=dict.fromkeys(audited, softirqs_per_s * seconds)))
