"""Reports of settings that let others in: command lines, irqbalance, a kubelet's reservation."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.hosts.machine import Machine, Recorded, Thread, record
from tests.reports_cases.node import add, device, node, rows, softirqs, spinner

WINDOW_S = 40


def _irqbalance(machine: Machine, mask: str, *, cpus: range) -> Recorded:
    """The node with a running irqbalance that was started with this mask."""
    daemon = Thread(pid=700, tid=700, name="irqbalance", allowed=frozenset(cpus) - machine.isolated,
                    cgroup="/system.slice/irqbalance.service")  # fmt: skip
    host = record(replace(machine, threads=(*machine.threads, daemon)))
    for end in ("t0", "t1"):
        host.trees[end]["proc/700/environ"] = f"IRQBALANCE_BANNED_CPUS={mask}\0"
    return host


def irqbalance_64() -> Recorded:
    """64 CPUs, mask ffffffff,ffffff00: all interrupts of the network card are on CPU 0."""
    machine = node(64, range(8, 64), kernel_release="4.4.0-21-generic", isolated=range(8, 64),
                   boot="isolcpus=8-63 nohz_full=8-63 irqaffinity=0-7")  # fmt: skip
    card = device(60, "eth0-TxRx-0", 0, range(8), per_s=9000)
    return _irqbalance(replace(machine, irqs=(*machine.irqs, card)), "ffffffff,ffffff00", cpus=range(8))


def irqbalance_override() -> Recorded:
    """Isolated 0-3, mask 0000010: of 8 CPUs only CPU 4 is banned."""
    machine = node(8, range(4), kernel_release="3.10.0-957.el7.x86_64", isolated=range(4), nohz_full=(),
                   boot="isolcpus=0-3")  # fmt: skip
    cards = [device(60 + cpu, f"em1-TxRx-{cpu}", cpu, {cpu}, per_s=5) for cpu in (1, 2)]
    took = dict.fromkeys((1, 2), 5 * WINDOW_S)
    return _irqbalance(softirqs(replace(machine, irqs=(*machine.irqs, *cards)), NET_RX=took), "0000010", cpus=range(8))


def reserved_not_host() -> Recorded:
    """--reserved-cpus=0-1, static policy, systemd CPUAffinity=0-1; a pod has CPUs 2-3, nothing is isolated."""
    machine = node(8, {2, 3}, kernel_release="5.4.0-70-generic")
    pod = [spinner(cpu, machine, name="app", cgroup="/kubepods/pod1", idle_us=30_000) for cpu in (2, 3)]
    agent = Thread(
        pid=1_500,
        tid=1_500,
        name="host-agent",
        allowed=frozenset(range(2, 8)),
        on={2: 5 * WINDOW_S, 3: 5 * WINDOW_S},
        run_us=60_000,
        cgroup="/agent",
    )
    busy = [replace(thread, on={cpu: 5 * WINDOW_S}, preempted=True) for thread, cpu in zip(pod, (2, 3), strict=True)]
    ticking = rows(machine, TICK={2: 2, 3: 2})
    return record(add(ticking, *busy, agent))


def boot_cpu() -> Recorded:
    """Raspberry Pi 4, 5.10.5-v8+, isolcpus=0,3: in force for CPU 3 only, PID 1 may use 0-2."""
    machine = node(4, {3}, kernel_release="5.10.5-v8+", arch="aarch64", isolated={3}, nohz_full=(),
                   boot="isolcpus=0,3", default_affinity=range(4))  # fmt: skip
    card = replace(device(30, "eth0", 0, range(4), per_s=10), chip="GICv2", hwirq="189", flow="Level")
    return record(replace(machine, audited=frozenset({0, 3}), irqs=(card,)))


def irqaffinity_overlap() -> Recorded:
    """16 CPUs, 6.12.48+deb13-rt: isolcpus, nohz_full and rcu_nocbs are 4-15, irqaffinity=0-15."""
    everyone = ",".join(map(str, range(16)))
    boot = f"isolcpus=managed_irq,domain,4-N nohz_full=4-N rcu_nocbs=4-N irqaffinity={everyone}"
    machine = node(16, range(4, 16), kernel_release="6.12.48+deb13-rt-amd64", isolated=range(4, 16), boot=boot,
                   default_affinity=range(16))  # fmt: skip
    cards = [device(60 + cpu, f"eno1-TxRx-{cpu - 4}", cpu, range(16), per_s=5) for cpu in range(4, 8)]
    took = dict.fromkeys(range(4, 8), 5 * WINDOW_S)
    return record(softirqs(replace(machine, irqs=(*machine.irqs, *cards)), NET_RX=took))


POD, APP, WEB = "0aa1d6f2-0000-4000-8000-000000000001", "a" * 64, "b" * 64
OTHER = "0aa1d6f2-0000-4000-8000-000000000002"


def offline_cpu() -> Recorded:
    """8 CPUs, 7 taken offline; static policy, defaultCpuSet 0-1,4-7; a container of the pool has its old cpuset."""
    machine = node(7, {2, 3}, kernel_release="4.15.0-29-generic", isolated={2, 3},
                   boot="isolcpus=2,3 nohz_full=2,3 rcu_nocbs=2,3 irqaffinity=0,1,4-7")  # fmt: skip
    own, pool = f"/kubepods/pod{POD}/{APP}", f"/kubepods/pod{OTHER}/{WEB}"
    kubelet = Thread(pid=900, tid=900, name="kubelet", allowed=frozenset({0, 1, 4, 5, 6}),
                     cgroup="/system.slice/kubelet.service")  # fmt: skip
    host = record(add(replace(machine, cgroup_line="4:cpuset:{}", cgroups={}), kubelet))
    state = {"policyName": "static", "defaultCpuSet": "0-1,4-7", "entries": {APP: "2-3"}}
    for end in ("t0", "t1"):
        tree = host.trees[end]
        tree["sys/devices/system/cpu/possible"] = tree["sys/devices/system/cpu/present"] = "0-7\n"
        tree["sys/fs/cgroup/cpuset/cpuset.cpus"] = "0-7\n"
        tree["proc/900/cmdline"] = "/usr/bin/kubelet\0--cpu-manager-policy=static\0--kube-reserved=cpu=1\0"
        tree["var/lib/kubelet/cpu_manager_state"] = json.dumps(state)
        for path, asked, left in ((own, "2-3", "2-3"), (pool, "0-7", "0-6")):
            tree[f"sys/fs/cgroup/cpuset{path}/cpuset.cpus"] = f"{asked}\n"
            tree[f"sys/fs/cgroup/cpuset{path}/cpuset.effective_cpus"] = f"{left}\n"
    return host
