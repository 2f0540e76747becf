"""Settings of a recorded machine: a distribution's defaults, tuned as far as the pinning lab was."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from probes.cpulist import format_cpulist

CPU_DIR = "sys/devices/system/cpu"
UNCONSTRAINED = "\x00\\x945w"
"""2000000000 as four bytes, little end first, in the form of probes.host.decode."""


def settings(cpus: Sequence[int], nohz_full: Collection[int]) -> Iterator[tuple[str, str]]:
    """Files by the host's own paths."""
    watched = frozenset(cpus) - frozenset(nohz_full)
    sysctls = {
        "kernel/watchdog": "1",
        "kernel/soft_watchdog": "1",
        "kernel/nmi_watchdog": "1",
        "kernel/watchdog_thresh": "10",
        "kernel/watchdog_cpumask": format_cpulist(watched),
        "vm/stat_interval": "1",
        "kernel/numa_balancing": "0",
        "kernel/sched_rt_runtime_us": "950000",
        "kernel/sched_rt_period_us": "1000000",
    }
    yield from ((f"proc/sys/{name}", f"{value}\n") for name, value in sysctls.items())
    yield "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"
    yield "sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed", "0\n"
    yield "sys/kernel/mm/ksm/run", "0\n"
    yield "sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"
    yield "sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n"
    yield "dev/cpu_dma_latency", UNCONSTRAINED
    for cpu in cpus:
        yield f"{CPU_DIR}/cpu{cpu}/power/pm_qos_resume_latency_us", "0\n"
        policy = {
            "affected_cpus": str(cpu),
            "scaling_driver": "intel_pstate",
            "scaling_governor": "performance",
            "scaling_min_freq": "400000",
            "scaling_max_freq": "4700000",
        }
        yield from ((f"{CPU_DIR}/cpufreq/policy{cpu}/{name}", f"{value}\n") for name, value in policy.items())
