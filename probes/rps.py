"""Receive packet steering: CPUs to which the kernel sends packets that another CPU's interrupt brought.

Format: net/core/net-sysfs.c (rps_cpus), net/core/sysctl_net_core.c (rps_default_mask, since 6.3),
Documentation/networking/scaling.rst. /sys/class/net shows the devices of one network namespace: the host's, where /sys
was mounted there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from probes.cpulist import read_cpumask
from probes.host import Host, ProbeError, SourceState, visible

NET_DIR = "sys/class/net"
DEFAULT = "proc/sys/net/core/rps_default_mask"
MAX_QUEUES = 16_384
"""A node of many pods has a veth each, with a queue per CPU: of more than these the rest is not read."""
_RX_QUEUE = re.compile(r"rx-\d{1,5}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rps:
    """The masks of all receive queues of one network namespace."""

    queues: Mapping[str, frozenset[int] | ProbeError]
    """By path of rps_cpus: the CPUs that packets of this queue are spread over; empty where RPS is off."""
    default: frozenset[int] | ProbeError | None
    """What devices start with that are made from now on; None where the kernel has no such default."""
    cut: bool = False
    """There are more than MAX_QUEUES queues."""


def read_rps(host: Host) -> Rps:
    """Every queue of every device. A queue that can't be read is its ProbeError; raises one where no device is told.

    A machine whose /sys has classes and no net among them has no network: it has no queue.
    """
    queues: dict[str, frozenset[int] | ProbeError] = {}
    for path in _paths(host):
        if len(queues) >= MAX_QUEUES:
            return Rps(queues=queues, default=_read_default(host), cut=True)
        try:
            queues[visible(path)] = read_cpumask(host, path)
        except ProbeError as error:
            if error.state is not SourceState.MISSING:  # the device went, or the kernel has no CONFIG_RPS
                queues[visible(path)] = error
    return Rps(queues=queues, default=_read_default(host))


def _paths(host: Host) -> Iterator[str]:
    for device in _devices(host):
        folder = f"{NET_DIR}/{device}/queues"
        try:
            names = host.listdir(folder)
        except ProbeError as error:
            if error.state is not SourceState.MISSING:
                raise
            continue  # bonding_masters is a file, and a device may go
        yield from (f"{folder}/{name}/rps_cpus" for name in names if _RX_QUEUE.fullmatch(name))


def _devices(host: Host) -> list[str]:
    try:
        names = host.listdir(NET_DIR)
    except ProbeError as error:
        if error.state is not SourceState.MISSING:
            raise
        host.listdir("sys/class")
        return []
    if not names:
        raise ProbeError(NET_DIR, "no device, not even lo: masked", SourceState.MASKED)
    return names


def _read_default(host: Host) -> frozenset[int] | ProbeError | None:
    try:
        return read_cpumask(host, DEFAULT)
    except ProbeError as error:
        return None if error.state is SourceState.MISSING else error
