"""isolcpus=, nohz_full=, rcu_nocbs= and irqaffinity=: what was asked, what the kernel makes of it, what is wrong.

Pure functions over a command line and the CPUs of its machine. Sources: kernel/sched/isolation.c,
kernel/time/tick-sched.c, kernel/rcu/tree_nocb.h, kernel/irq/irqdesc.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from probes.cmdline import Cmdline
from probes.housekeeping import BootMachine, HkType, read_line
from probes.isolation_outcome import Outcome, Problem
from probes.isolation_problems import find_problems
from probes.isolation_words import Request, requests
from probes.kernel_version import KernelFeatures

_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Requested:
    """CPU sets of the isolation parameters; None where a parameter is not given.

    The plain names predict what the kernel puts in force: ``domain`` (sysfs isolated), ``nohz_full`` (sysfs nohz_full),
    ``managed_irq``, ``kernel_noise`` (unbound workqueues, timers, and since 5.9 kernel threads keep off), ``rcu_nocbs``
    (callbacks offloaded, those of nohz_full CPUs included), ``irqaffinity`` (the default mask). ``asked_…`` is what a
    reader takes the line to mean, misspelt or not.
    """

    domain: frozenset[int] | None
    managed_irq: frozenset[int] | None
    nohz_full: frozenset[int] | None
    kernel_noise: frozenset[int] | None
    rcu_nocbs: frozenset[int] | None
    irqaffinity: frozenset[int] | None
    asked_domain: frozenset[int] | None
    asked_managed_irq: frozenset[int] | None
    asked_nohz_full: frozenset[int] | None
    asked_rcu_nocbs: frozenset[int] | None
    asked_irqaffinity: frozenset[int] | None
    problems: tuple[Problem, ...]


def predict(
    cmdline: Cmdline,
    *,
    possible: frozenset[int],
    present: frozenset[int],
    features: KernelFeatures,
    online: frozenset[int] | None = None,
    boot_cpu: int = 0,
    arch: str = "x86_64",
    has_nohz_full: bool | None = None,
    mask_bits: int | None = None,
) -> Requested:
    """What a kernel with these features makes of the line.

    ``arch`` as uname -m prints it. ``has_nohz_full``: CONFIG_NO_HZ_FULL, None where unknown. ``mask_bits``: NR_CPUS of
    a kernel without CONFIG_CPUMASK_OFFSTACK, else None. ``online`` None: not compared.
    """
    machine = BootMachine(
        possible=possible,
        present=present,
        boot_cpu=boot_cpu,
        arch=arch,
        features=features,
        has_nohz_full=has_nohz_full,
        max_cpus=_max_cpus(cmdline),
        mask_bits=mask_bits or max(possible, default=boot_cpu) + 1,
    )
    state, setups = read_line(cmdline, machine)
    outcome = Outcome(
        machine=machine,
        setups=setups,
        domain=state.isolated(HkType.DOMAIN),
        managed_irq=state.isolated(HkType.MANAGED_IRQ),
        kernel_noise=state.isolated(HkType.KERNEL_NOISE),
        nohz_full=state.nohz_full(),
        rcu_nocbs=_rcu_nocbs(cmdline, machine, state.nohz_full()),
        irqaffinity=_irqaffinity(cmdline, machine),
    )
    return _requested(cmdline, outcome, online)


def _requested(cmdline: Cmdline, outcome: Outcome, online: frozenset[int] | None) -> Requested:
    meant = (*requests(cmdline.params), *requests(cmdline.init_args))
    nr_cpu_ids = outcome.machine.nr_cpu_ids
    domain = _asked((request for request in meant if HkType.DOMAIN in request.types()), nr_cpu_ids)
    managed_irq = _asked((request for request in meant if HkType.MANAGED_IRQ in request.types()), nr_cpu_ids)
    nohz_full = _asked((request for request in meant if HkType.TICK in request.types()), nr_cpu_ids)
    return Requested(
        domain=outcome.domain if outcome.domain or domain is not None else None,
        managed_irq=outcome.managed_irq if outcome.managed_irq or managed_irq is not None else None,
        nohz_full=outcome.nohz_full if outcome.nohz_full or nohz_full is not None else None,
        kernel_noise=outcome.kernel_noise if outcome.kernel_noise or nohz_full is not None else None,
        rcu_nocbs=outcome.rcu_nocbs,
        irqaffinity=outcome.irqaffinity,
        asked_domain=domain,
        asked_managed_irq=managed_irq,
        asked_nohz_full=nohz_full,
        asked_rcu_nocbs=_asked((request for request in meant if request.parameter == "rcu_nocbs"), nr_cpu_ids),
        asked_irqaffinity=_asked((request for request in meant if request.parameter == "irqaffinity"), nr_cpu_ids),
        problems=find_problems(cmdline, outcome, online),
    )


def _asked(meant: Iterable[Request], nr_cpu_ids: int) -> frozenset[int] | None:
    sets = [request.cpus(nr_cpu_ids) for request in meant]
    return frozenset().union(*sets) if sets else None


def _max_cpus(cmdline: Cmdline) -> int:
    """CPUs that boot: maxcpus=, none but the boot CPU with nosmp (kernel/cpu.c, init/main.c)."""
    if cmdline.find("nosmp"):
        return 0
    found = _INTEGER.match(cmdline.last_value("maxcpus") or "")
    return int(found[0]) if found else 1 << 30


def _rcu_nocbs(cmdline: Cmdline, machine: BootMachine, nohz_full: frozenset[int]) -> frozenset[int] | None:
    """The last rcu_nocbs= wins; nohz_full CPUs are offloaded whether named or not."""
    features = machine.features
    given = [p for p in cmdline.find("rcu_nocbs") if p.value is not None or features.rcu_nocbs_bare]
    if not given:
        return nohz_full or None
    value = given[-1].value or ""
    parsed = machine.parse(value)
    everything = value.lower() == "all" and features.rcu_nocbs_all
    if everything or (parsed.error is not None and features.rcu_nocbs_bad_list_is_all):
        return machine.possible
    return parsed.cpus & machine.possible | nohz_full


def _irqaffinity(cmdline: Cmdline, machine: BootMachine) -> frozenset[int] | None:
    """The last irqaffinity= wins; what precedes an error counts, and the boot CPU is always added."""
    value = cmdline.last_value("irqaffinity")
    return None if value is None else machine.parse(value).cpus | {machine.boot_cpu}
