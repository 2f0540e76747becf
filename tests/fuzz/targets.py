"""What is fuzzed: every pure parser of ``probes``, and what reads what a user or a stranger hands to a command.

``test_fuzz.py`` looks for the parsers of ``probes`` itself: one that stands neither here nor in EXCLUDED fails it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from auditor.cli import parse_window
from auditor.document import DocumentError, parse_document, to_document
from auditor.errors import UsageError
from auditor.policy_file import parse_policy
from auditor.targets import parse_asked
from probes import kubelet_document, kubelet_secrets
from probes.bench.leftovers import parse_record, parse_start_ticks
from probes.bench.load import mount_of, parse_mountinfo
from probes.bench.work import parse_cyclictest_json
from probes.boot_files import entry_lines, grub_lines, only_cmdlines, uses_entries
from probes.boot_files import parse_asked as parse_boot
from probes.cgroup_cpu_text import parse_cpu_max, parse_place, parse_throttling, parse_v1_limit, parse_waited
from probes.cmdline import parse_cmdline
from probes.counters import parse_count, parse_number
from probes.cpu_manager_checksum import fnv1a_32
from probes.cpu_manager_state import parse_cpu_manager_state
from probes.cpu_timers import parse_cpu_limit, parse_timers
from probes.cpufreq import parse_cpus
from probes.cpuidle import parse_idle_state, parse_resume_latency_us
from probes.cpulist import parse_cpulist, parse_cpumask
from probes.cpuset_v1 import parse_flag
from probes.cpustat import parse_cpustat
from probes.host import ProbeError, decode
from probes.housekeeping import parse_isolcpus
from probes.interrupt_text import actions_of
from probes.interrupts import lost_row, parse_interrupts
from probes.irqbalance import ban_of, only_variables, parse_env_file, parse_environ
from probes.isolation_params import predict
from probes.isolation_words import readable_cpus
from probes.kernel_config import parse_kernel_config, unpacked
from probes.kernel_cpulist import parse_kernel_cpulist
from probes.kernel_version import features_of, parse_kernel_version
from probes.kubelet_config import parse_kubelet_config
from probes.kubelet_flags import configured_by, parse_argv, parse_flags
from probes.kubelet_values import parse_cpu_quantity, parse_duration
from probes.kubelet_version import installed_version
from probes.memory_settings import parse_choice
from probes.numa import parse_allowed, parse_placed
from probes.pm_qos import parse_dma_latency_us
from probes.pod_resources import parse_pod_resources
from probes.resctrl import parse_schemata, parse_task_group
from probes.schedstat import parse_schedstat
from probes.softirqs import parse_softirqs
from probes.sysctls import parse_signed
from probes.task_io import parse_task_io
from probes.threads import parse_cgroup, parse_processor, parse_status, parse_thread_schedstat
from probes.uptime import parse_uptime
from reports.json_report import render as render_json
from tests.fuzz import seeds
from tests.reports.audits import NOT_ISOLATED

OLD, RHEL8, NEW = (features_of(parse_kernel_version(text)) for text in ("4.19.0", "4.18.0-394.el8.x86_64", "6.12.0"))
EIGHT = frozenset(range(8))

Parse = Callable[[str], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One parser. ``allowed``: how it may refuse an input; ``argument``: what comes from a command line, not a file."""

    name: str
    parse: Parse
    seeds: tuple[str, ...]
    covers: tuple[Callable[..., Any], ...]
    allowed: tuple[type[Exception], ...] = (ProbeError,)
    argument: bool = False


def target(name: str, parse: Parse, texts: tuple[str, ...], *covers: Callable[..., Any], **more: Any) -> Target:
    """A target; what it covers is the parser itself, if nothing else is said."""
    return Target(name=name, parse=parse, seeds=texts, covers=covers or (parse,), **more)


def _interrupts(text: str) -> object:
    found = parse_interrupts(text)
    return found.rows, found.totals, found.cpus, lost_row(text, found), parse_interrupts(text, {0}).rows


def _three_kernels(text: str) -> object:
    return [parse_kernel_cpulist(text, nr_cpu_ids=8192, features=features) for features in (OLD, RHEL8, NEW)]


def _isolcpus(text: str) -> object:
    value, _, tail = text.partition(" ")
    return [parse_isolcpus(value, tail, features) for features in (OLD, RHEL8, NEW)]


def _predicted(text: str) -> object:
    """By one of three kernels: which, the text decides."""
    features = (OLD, RHEL8, NEW)[crc32(text.encode("utf-8", "surrogatepass")) % 3]
    return predict(parse_cmdline(text), possible=EIGHT, present=EIGHT, features=features)


def _v1_limit(text: str) -> object:
    quota, _, period = text.partition("/")
    return parse_v1_limit(quota, period)


def _idle_state(text: str) -> object:
    """One line for each file: a state has them all, or it is not read."""
    names = ("name", "desc", "latency", "residency", "usage", "time", "disable", "default_status")
    lines = [*text.split("\n"), *[""] * len(names)]
    return parse_idle_state(1, dict(zip(names, lines, strict=False)))


def _argv(text: str) -> object:
    flags = parse_flags(parse_argv(text)[1:])
    return flags, configured_by(flags, "cmdline")


def _environ(text: str) -> object:
    return parse_environ(only_variables(text)) == parse_environ(text), ban_of(parse_environ(text), "environ")


def _kept(text: str) -> object:
    flags = kubelet_secrets.only_known_flags(text)
    return flags, kubelet_secrets.only_settings("var/lib/kubelet/config.yaml", text)


def _gzip(text: str) -> object:
    """A file of bytes, as it comes from probes.host."""
    return parse_kernel_config(unpacked(text))


def _document(text: str) -> object:
    return to_document(parse_document(text))


def _mounts(text: str) -> object:
    return mount_of("/mnt2/x", parse_mountinfo(text))


TARGETS = (
    target("interrupts", _interrupts, seeds.INTERRUPTS, parse_interrupts, lost_row),
    target("actions", actions_of, ("  IO-APIC  16-fasteoi   i801_smbus, my driver 2", "GICv3  27 Level   arch_timer")),
    target("softirqs", parse_softirqs, seeds.SOFTIRQS),
    target("schedstat", parse_schedstat, seeds.SCHEDSTAT),
    target("stat", parse_cpustat, seeds.CPUSTAT),
    target("thread-schedstat", parse_thread_schedstat, ("123456 2345 77\n",)),
    target("status", parse_status, seeds.STATUS),
    target("thread-stat", parse_processor, seeds.STAT),
    target("start-ticks", parse_start_ticks, seeds.STARTED),
    target("limits", parse_cpu_limit, seeds.LIMITS),
    target("timers", parse_timers, seeds.TIMERS),
    target("io", parse_task_io, seeds.IO),
    target("cgroup", parse_cgroup, seeds.CGROUP),
    target("cgroup-place", parse_place, seeds.CGROUP),
    target("cpu.max", parse_cpu_max, ("max 100000\n", "200000 100000\n")),
    target("cpu.cfs", _v1_limit, ("-1\n/100000\n", "200000\n/100000\n"), parse_v1_limit),
    target("cpu.stat", lambda text: parse_throttling(text, version=2), seeds.CPU_STAT[::2], parse_throttling),
    target("cpu.stat-v1", lambda text: parse_throttling(text, version=1), seeds.CPU_STAT[1:2], parse_throttling),
    target("cpu.stat.local", parse_waited, ("throttled_usec 777\n",)),
    target("cpuidle", _idle_state, ("C6\nMWAIT 0x20\n133\n400\n99\n1234\n0\nenabled\n",), parse_idle_state),
    target("resume-latency", parse_resume_latency_us, ("0\n", "n/a\n", "30\n")),
    target("number", parse_number, ("0\n", "4096\n")),
    target("signed", parse_signed, seeds.SIGNED),
    target("count", parse_count, ("0", "18446744073709551615")),
    target("affected-cpus", parse_cpus, ("0 1 2 3\n", "\n")),
    target("choice", parse_choice, ("always [madvise] never\n",)),
    target("cpulist", parse_cpulist, seeds.CPULIST),
    target("cpumask", parse_cpumask, seeds.CPUMASK),
    target("kernel-cpulist", _three_kernels, seeds.KERNEL_CPULIST, parse_kernel_cpulist),
    target("isolcpus", _isolcpus, ("domain,managed_irq,1-3 quiet", "nohz 2-3", "1,5 "), parse_isolcpus),
    target("cmdline", _predicted, seeds.CMDLINE, parse_cmdline, predict),
    target("readable", lambda text: readable_cpus(text, 8), ("'1,5'", "0x22", "1-99", "all"), readable_cpus),
    target("osrelease", parse_kernel_version, seeds.RELEASE),
    target("kernel-config", parse_kernel_config, seeds.KERNEL_CONFIG),
    target(
        "config.gz",
        _gzip,
        tuple(decode(gzip.compress(text.encode(), mtime=0)) for text in seeds.KERNEL_CONFIG),
        unpacked,
    ),
    target("grub", lambda text: [parse_boot(line) for line in grub_lines(text)], seeds.GRUB, grub_lines, parse_boot),
    target("grub-kept", lambda text: grub_lines(only_cmdlines(text)) == grub_lines(text), seeds.GRUB, only_cmdlines),
    target("loader-entry", lambda text: entry_lines(text, "6.1.0"), seeds.LOADER_ENTRY, entry_lines),
    target("environ", _environ, seeds.ENVIRON, parse_environ, only_variables, ban_of),
    target("env-file", lambda text: ban_of(parse_env_file(text), "x"), seeds.ENV_FILE, parse_env_file),
    target(
        "kubelet-config",
        parse_kubelet_config,
        seeds.KUBELET_YAML,
        parse_kubelet_config,
        kubelet_document.parse_document,
    ),
    target(
        "kubelet-yaml",
        lambda text: kubelet_document.load(text, path=""),
        (*seeds.KUBELET_YAML, seeds.K3S[0]),
        kubelet_document.load,
    ),
    target("kubelet-argv", _argv, seeds.ARGV, parse_argv, parse_flags),
    target(
        "kubelet-kept",
        _kept,
        (*seeds.KUBELET_YAML, *seeds.K3S, *seeds.ARGV),
        kubelet_secrets.only_known_keys,
        kubelet_secrets.only_known_flags,
    ),
    target("duration", parse_duration, ("1m0s", "100ms", "0", "1.5h2µs")),
    target("quantity", parse_cpu_quantity, ("500m", "1.5", ".5k", "100n")),
    target("cpu_manager_state", parse_cpu_manager_state, seeds.CPU_MANAGER_STATE),
    target("checksum", fnv1a_32, ("{}", "é")),
    target("mountinfo", _mounts, seeds.MOUNTINFO, parse_mountinfo),
    target("cyclictest", parse_cyclictest_json, seeds.CYCLICTEST),
    target("leftover", parse_record, seeds.RECORD),
    target("dma-latency", parse_dma_latency_us, (decode(b"\x00\x94\x35\x77"), decode(b"\x0a\0\0\0"))),
    target("policy", parse_policy, seeds.POLICY, allowed=(UsageError,)),
    target("document", _document, (render_json(NOT_ISOLATED),), parse_document, allowed=(DocumentError,)),
    target("--cpus", parse_asked, seeds.ASKED, allowed=(UsageError,), argument=True),
    target("--window", parse_window, seeds.WINDOW, allowed=(UsageError,), argument=True),
    target("cpuset-v1", parse_flag, ("1\n", "0\n")),
    target("kubelet-version", installed_version, seeds.DPKG),
    target("mems-allowed", parse_allowed, ("Name:\ta\nMems_allowed_list:\t0-1\n",)),
    target("numa_stat", parse_placed, ("anon N0=4096 N1=0\nfile N0=8192 N1=4096\nshmem N0=0 N1=0\n",)),
    target("schemata", parse_schemata, ("    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n",)),
    target("task-group", parse_task_group, ("res:/\nmon:\n", "res:quiet\nmon:a\n")),
    target("uptime", parse_uptime, ("123.45 99.10\n",)),
    target("pod-resources", parse_pod_resources, ('{"list": [], "allocatable_cpu_ids": [0, 1]}',)),
    target("grub-entries", uses_entries, seeds.GRUB),
)

EXCLUDED = {
    "probes.isolation_outcome.short": "cuts a text to a length; it reads nothing from it",
}
