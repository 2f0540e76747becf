"""What an audit could see, and what the rest costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.coverage import coverage
from auditor.model import Coverage
from probes.boot_files import BootFiles
from probes.cpu_timers import CpuTimers
from probes.cpuset_v1 import CpusetsV1
from probes.host import ProbeError, SourceState
from probes.irqbalance import Ban, Irqbalance
from probes.memory_settings import MemorySettings
from probes.rps import Rps
from tests.auditor.build import Thread, context, edit, gone, irq, kernel_settings


def states(ctx: Context) -> dict[str, str]:
    return {line.source: line.state for line in coverage(ctx) if line.state != "read"}


def test_all_is_read() -> None:
    assert states(context()) == {}
    assert coverage(context())[0] == Coverage(source="/proc/interrupts", state="read")


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("counters.interrupts", "/proc/interrupts"),
        ("counters.softirqs", "/proc/softirqs"),
        ("counters.schedstat", "/proc/schedstat"),
        ("counters.cpustat", "/proc/stat"),
        ("counters.cpuidle.1", "/sys/devices/system/cpu/cpu*/cpuidle"),
        ("census", "/proc/*/task"),
        ("config.affinity", "/proc/irq"),
        ("config.rps", "/sys/class/net/*/queues"),
        ("config.isolation.boot", "/sys/devices/system/cpu/isolated"),
        ("config.isolation.nohz_full", "/sys/devices/system/cpu/nohz_full"),
        ("config.isolation.partitions", "/sys/fs/cgroup cpuset partitions"),
        ("config.workqueues", "/sys/devices/virtual/workqueue/cpumask"),
        ("config.sysctls", "/proc/sys"),
        ("config.memory", "/sys/kernel/mm"),
        ("config.clock", "/sys/devices/system/clocksource"),
        ("config.cpufreq", "/sys/devices/system/cpu/cpufreq"),
    ],
)
def test_a_source_that_is_missing_at_either_end(end: str, path: str, source: str) -> None:
    ctx = edit(context(), f"{end}.{path}", gone(state=SourceState.DENIED))
    found = {line.source: line for line in coverage(ctx)}
    assert (found[source].state, found[source].reason) == ("denied", "denied for this test")
    assert found[source].costs


def test_what_has_reasons_of_its_own() -> None:
    assert states(context(complete=False))["/proc/*/task"] == "denied"
    assert states(context(schedstat=False)) == {"/proc/*/task/*/schedstat": "missing"}
    assert states(context(default_affinity=gone())) == {"/proc/irq/default_smp_affinity": "missing"}
    assert states(context(affinity={30: irq(30, frozenset({0})), 31: gone()})) == {"/proc/irq": "missing"}
    assert states(context(cmdline=gone())) == {"/proc/cmdline": "missing"}
    assert states(context(siblings={})) == {"/sys/devices/system/cpu/cpu*/topology": "missing"}


def test_a_walk_that_was_cut_has_not_seen_all() -> None:
    ctx = edit(context(), "before.config.isolation.walk_cut", True)
    assert states(ctx) == {"/sys/fs/cgroup cpuset partitions": "malformed"}


def test_limits_of_the_workload_that_can_not_be_read() -> None:
    ctx, denied = context(own=[Thread(cgroup="/app")]), gone(state=SourceState.DENIED)
    files, timers = "/sys/fs/cgroup cpu.max, cpu.stat", "/proc/*/limits, timers"
    groups = ctx.observation.after.limits.cgroups.groups
    for value in ("limit", "throttling", "waited_us"):
        changed = {"/app": replace(groups["/app"], **{value: denied})}  # type: ignore[arg-type]
        assert states(edit(ctx, "after.limits.cgroups.groups", changed)) == {files: "denied"}
    hidden = edit(ctx, "before.limits.cgroups.hidden", gone(state=SourceState.MASKED))
    assert states(hidden) == {files: "masked"}
    for known in (CpuTimers(limit_s=denied, timers=()), CpuTimers(limit_s=None, timers=denied)):
        assert states(edit(ctx, "after.limits.timers", {100: known})) == {timers: "denied"}


def test_the_accounting_of_own_io_counts_where_a_queue_fired_here() -> None:
    values: dict[str, Any] = {"own": [Thread(switches=5)], "affinity": {40: irq(40, frozenset({1}))}}
    quiet = context(rows={"40 nvme0q1": {0: 5}}, io={100: (None, None)}, **values)
    assert "/proc/*/io" not in {line.source for line in coverage(quiet)}
    fired = {"40 nvme0q1": {1: 5}}
    assert states(context(rows=fired, io={100: (None, 5)}, **values)) == {"/proc/*/io": "missing"}
    assert states(context(rows=fired, io={100: (5, 5)}, **values)) == {}
    assert "/proc/*/io" in {line.source for line in coverage(context(rows=fired, io={100: (5, 5)}, **values))}
    assert "/proc/*/io" not in {line.source for line in coverage(context(rows=fired))}


def test_what_irqbalance_is_told() -> None:
    told = Ban(path="proc/7/environ", setting="", cpus=None)
    denied = gone("proc/8/environ", SourceState.DENIED)
    balancers = tuple(Irqbalance(pid=pid, environment=env, file=told) for pid, env in ((7, told), (8, denied)))
    found = {line.source: line.state for line in coverage(context(balancers=balancers))}
    assert (found["/proc/7/environ"], found["/proc/8/environ"]) == ("read", "denied")


def test_queues_of_the_network_that_were_not_all_read() -> None:
    path, denied = "sys/class/net/lo/queues/rx-0/rps_cpus", gone(state=SourceState.DENIED)
    masks = Rps(queues={path: frozenset()}, default=None)
    assert states(context(rps=masks)) == {}
    for value, state in (
        (replace(masks, queues={path: denied}), "denied"),
        (replace(masks, default=denied), "denied"),
        (replace(masks, cut=True), "malformed"),
    ):
        assert states(context(rps=value)) == {"/sys/class/net/*/queues": state}


@pytest.mark.parametrize("end", ["before", "after"])
def test_one_setting_of_many(end: str) -> None:
    denied = gone(state=SourceState.DENIED)
    ctx = context()
    values: dict[str, tuple[object, str]] = {
        "sysctls": (kernel_settings(frozenset(), watchdog=denied), "/proc/sys"),
        "memory": (MemorySettings(thp=denied, collapsed=0, ksm_run=0), "/sys/kernel/mm"),
        "cpufreq": ({1: denied}, "/sys/devices/system/cpu/cpufreq"),
    }
    for name, (value, source) in values.items():
        assert states(edit(ctx, f"{end}.config.{name}", value)) == {source: "denied"}


def test_what_a_kernel_or_a_guest_does_not_have_is_no_gap() -> None:
    nothing = MemorySettings(thp=None, collapsed=gone(), ksm_run=None)
    assert states(context(memory=nothing, sysctls=kernel_settings(gone(), watchdog=gone()))) == {}
    assert states(context(hypervisor="KVM", governors=gone())) == {}
    assert states(context(governors=gone())) == {"/sys/devices/system/cpu/cpufreq": "missing"}


def test_boot_files_that_may_not_be_read() -> None:
    denied = gone(state=SourceState.DENIED)
    for value in (denied, BootFiles(paths=(), unread=(denied,), asked=())):
        assert states(edit(context(), "facts.boot_files", value)) == {"boot loader configuration": "denied"}


@pytest.mark.parametrize("end", ["before", "after"])
def test_cpusets_of_v1_where_there_are_some(end: str) -> None:
    source = "/sys/fs/cgroup/cpuset"
    assert source not in {line.source for line in coverage(context())}
    known = CpusetsV1(balancing=(), unbalanced=())
    both = edit(
        edit(context(), "before.config.isolation.cpusets_v1", known), "after.config.isolation.cpusets_v1", known
    )
    assert Coverage(source=source, state="read") in coverage(both)
    part = CpusetsV1(balancing=(), unbalanced=(), whole=False)
    assert states(edit(both, f"{end}.config.isolation.cpusets_v1", part)) == {source: "masked"}
    denied = gone(state=SourceState.DENIED)
    assert states(edit(both, f"{end}.config.isolation.cpusets_v1", denied)) == {source: "denied"}


@pytest.mark.parametrize(
    ("state", "path", "source", "ending"),
    [
        (
            SourceState.DENIED,
            "counters.interrupts",
            "/proc/interrupts",
            "; run it with sudo, or in a privileged container",
        ),
        (SourceState.MASKED, "counters.interrupts", "/proc/interrupts", " a hostPath volume) and give --root /host"),
        (
            SourceState.MISSING,
            "counters.schedstat",
            "/proc/schedstat",
            "; only a kernel with CONFIG_SCHEDSTATS tells it",
        ),
        (SourceState.MISSING, "counters.interrupts", "/proc/interrupts", "no interrupt, IPI or tick can be judged"),
        (SourceState.MALFORMED, "counters.interrupts", "/proc/interrupts", "no interrupt, IPI or tick can be judged"),
    ],
)
def test_what_to_do_about_it(state: SourceState, path: str, source: str, ending: str) -> None:
    found = {line.source: line for line in coverage(edit(context(), f"after.{path}", gone(state=state)))}
    assert found[source].costs.endswith(ending)


def test_who_hides_the_threads_of_others() -> None:
    """Each PID namespace has an init that everyone in it sees; hidepid hides that of the host from ordinary users."""
    init = context(complete=False, own=[Thread(pid=1)])
    namespace, hidden = (next(line for line in coverage(ctx) if line.source == "/proc/*/task")
                         for ctx in (init, context(complete=False)))  # fmt: skip
    assert (namespace.state, namespace.reason) == (
        "masked",
        "the host's processes are hidden (this is another PID namespace)",
    )
    assert namespace.costs.endswith("and give --root /host")
    assert (hidden.state, hidden.reason) == (
        "denied",
        "the processes of others are hidden (/proc is mounted with hidepid)",
    )
    assert hidden.costs.endswith("; run it with sudo, or in a privileged container")


def test_threads_that_may_not_be_looked_at() -> None:
    ctx = context()
    census = ctx.observation.after.census
    assert not isinstance(census, ProbeError)
    found = states(edit(ctx, "after.census", replace(census, unread=3)))
    assert found == {"/proc/*/task": "denied"}


@pytest.mark.parametrize("path", ["counters.schedstat", "counters.cpustat"])
@pytest.mark.parametrize("end", ["before", "after"])
def test_what_lacks_an_audited_cpu_at_one_end(path: str, end: str) -> None:
    ctx = context()
    seen = getattr(getattr(ctx.observation, end).counters, path.rpartition(".")[2])
    left = {cpu: value for cpu, value in seen.cpus.items() if cpu != 1}
    found = {line.source: line for line in coverage(edit(ctx, f"{end}.{path}.cpus", left)) if line.state != "read"}
    (line,) = found.values()
    assert (line.state, line.reason) == ("malformed", "does not tell of CPU 1 at both ends of the window")


@pytest.mark.parametrize("end", ["before", "after"])
def test_online_cpus_that_are_not_told(end: str) -> None:
    ctx = edit(context(), f"{end}.config.online", gone(state=SourceState.MASKED))
    assert states(ctx) == {"/sys/devices/system/cpu/online": "masked"}


def test_own_threads_that_are_not_read() -> None:
    thread = Thread(tid=10, switches=3)
    ctx = edit(context(own=[thread]), "after.runs", {})
    assert states(ctx) == {"/proc/*/task/*/schedstat": "malformed"}


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_folder_without_interrupts_is_masked(end: str) -> None:
    ctx = context(rows={"30 eth0": {0: 9}}, affinity={30: irq(30, frozenset({0}))})
    assert states(ctx) == {}
    assert states(edit(ctx, f"{end}.config.affinity.irqs", {})) == {"/proc/irq": "masked"}
