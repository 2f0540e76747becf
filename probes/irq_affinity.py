"""/proc/irq: where each interrupt may fire, where it does fire, and whether user space may move it.

Format: kernel/irq/proc.c, Documentation/core-api/irq/irq-affinity.rst and managed_irq.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from probes.cpulist import read_cpulist, read_cpumask
from probes.host import Host, ProbeError, SourceState, attempt

IRQ_DIR = "proc/irq"
WRITE_BITS = 0o222
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
# Drivers that spread a queue's interrupt over the CPUs themselves (PCI_IRQ_AFFINITY). Their control vectors (nvme0q0,
# virtio0-config) stay settable, and so do queues of network drivers, which only set the affinity once.
_MANAGED_NAME = re.compile(
    r"nvme\d+q[1-9]\d*"
    r"|virtio\d+-req(uest)?\.\d+|virtio\d+-request"  # blk, scsi; "requests" in the plural is 9p or a single queue
    r"|mpi3mr\d+-msix\d+|megasas\d+-msix\d+|mpt3sas\d+-msix\d+",
    re.ASCII,
)
# Of these the queues of nvme and virtio (blk, scsi) are mapped one to one to the CPUs of the interrupt's mask, and fire
# for what is submitted there (block/blk-mq-cpumap.c); SCSI adapters also choose reply queues by load.
_FED_NAME = re.compile(r"nvme\d+q[1-9]\d*|virtio\d+-req(uest)?\.\d+|virtio\d+-request", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class IrqAffinity:
    """One interrupt."""

    irq: int
    requested: frozenset[int]
    """smp_affinity_list: CPUs it may fire on, offline ones too; the pending mask while a move is pending."""
    effective: frozenset[int] | None
    """What the controller was programmed with; empty if nothing (shut down), None where the kernel doesn't tell."""
    settable: bool | None
    """Write bit of smp_affinity; None where the host gives no mode."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IrqAffinities:
    """Every interrupt of the machine."""

    irqs: Mapping[int, IrqAffinity | ProbeError]
    default: frozenset[int] | ProbeError
    """CPUs that an interrupt set up from now on may fire on."""
    modes_tell: bool
    """Some smp_affinity is 0444: this kernel (6.12 and later) marks what user space can't set."""


def read_irq_affinity(host: Host) -> IrqAffinities:
    """Walks /proc/irq; an interrupt that can't be read is its ProbeError. Raises one if there is nothing to walk."""
    numbers = sorted(int(name) for name in host.listdir(IRQ_DIR) if _NUMBER.fullmatch(name))
    irqs = {irq: attempt(_read_irq, host, irq) for irq in numbers}
    return IrqAffinities(
        irqs=irqs,
        default=attempt(read_cpumask, host, f"{IRQ_DIR}/default_smp_affinity"),
        modes_tell=any(isinstance(found, IrqAffinity) and found.settable is False for found in irqs.values()),
    )


def _read_irq(host: Host, irq: int) -> IrqAffinity:
    return IrqAffinity(
        irq=irq,
        requested=read_cpulist(host, f"{IRQ_DIR}/{irq}/smp_affinity_list"),
        effective=_read_effective(host, irq),
        settable=_read_settable(host, irq),
    )


def _read_effective(host: Host, irq: int) -> frozenset[int] | None:
    try:
        return read_cpulist(host, f"{IRQ_DIR}/{irq}/effective_affinity_list")
    except ProbeError as error:
        if error.state is SourceState.MISSING:  # without CONFIG_GENERIC_IRQ_EFFECTIVE_AFF_MASK (s390, old kernels)
            return None
        raise


def _read_settable(host: Host, irq: int) -> bool | None:
    try:
        return bool(host.mode(f"{IRQ_DIR}/{irq}/smp_affinity") & WRITE_BITS)
    except ProbeError:
        return None


def feeds_from_its_cpus(actions: str) -> bool:
    """Whether this is a queue whose interrupt fires only for I/O submitted on the CPUs of its mask, by its name."""
    return bool(actions) and all(_FED_NAME.fullmatch(action) for action in actions.split(", "))


def is_block_queue(actions: str) -> bool:
    """Whether it is a queue of a block device, by its name."""
    return bool(actions) and all(_MANAGED_NAME.fullmatch(action) for action in actions.split(", "))


def is_managed(affinity: IrqAffinity, actions: str, modes_tell: bool) -> bool | None:
    """Whether the kernel alone places this interrupt: neither a write to smp_affinity nor irqaffinity= moves it.

    By the file's mode where this kernel's modes tell (0444 also marks per-CPU and unbalanced ones), else by the names
    of the drivers known for it: any other counts as not managed, and a write that fails with EIO would say so. None
    without either.
    """
    if modes_tell and affinity.settable is not None:
        return not affinity.settable
    if not actions:
        return None
    return any(_MANAGED_NAME.fullmatch(action) for action in actions.split(", "))
