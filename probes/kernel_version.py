"""Which kernel this is, and what its command line means on it.

Versions are those of mainline; RHEL 8 (4.18) carries many later changes and is told by its release text. Vendors
backport freely, so a feature only explains: what is in force is read from sysfs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from probes.host import Host, ProbeError

OSRELEASE = "proc/sys/kernel/osrelease"

_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?:[.\-+ ][^\n]*)?\n?", re.ASCII)
_ENTERPRISE = re.compile(r"\.el([0-9]{1,2})(?![0-9a-z])", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelVersion:
    """The release text (``uname -r``) and its first two numbers."""

    release: str
    major: int
    minor: int

    def at_least(self, major: int, minor: int) -> bool:
        """Whether this kernel is ``major.minor`` or later."""
        return (self.major, self.minor) >= (major, minor)

    @property
    def is_el8(self) -> bool:
        """The kernel of RHEL 8 and its rebuilds. Oracle's own kernels (``el8uek``) are mainline based and not meant."""
        return self._is_enterprise(4, 18, "8")

    @property
    def is_el9(self) -> bool:
        """The kernel of RHEL 9 and its rebuilds."""
        return self._is_enterprise(5, 14, "9")

    def _is_enterprise(self, major: int, minor: int, generation: str) -> bool:
        found = _ENTERPRISE.search(self.release)
        return found is not None and found[1] == generation and (self.major, self.minor) == (major, minor)


def parse_kernel_version(text: str, path: str = OSRELEASE) -> KernelVersion:
    """Reads ``6.12.117+deb12-rt-amd64`` or ``4.18.0-394.el8.x86_64``; ProbeError where no ``major.minor`` leads."""
    found = _RELEASE.fullmatch(text)
    if found is None:
        raise ProbeError(path, "no kernel release (major.minor…)")
    return KernelVersion(release=text.rstrip("\n"), major=int(found[1]), minor=int(found[2]))


def read_kernel_version(host: Host) -> KernelVersion:
    """The running (or recorded) kernel of a host, from /proc/sys/kernel/osrelease."""
    return parse_kernel_version(host.read(OSRELEASE), OSRELEASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelFeatures:
    """What decides the meaning of the isolation parameters (kernel/sched/isolation.c, lib/bitmap-str.c, kernel/rcu)."""

    isolcpus_flags: bool
    """isolcpus= takes the flags nohz and domain (4.15)."""
    managed_irq_flag: bool
    """isolcpus= takes the flag managed_irq (5.6)."""
    unknown_flag_skipped: bool
    """An unknown isolcpus flag is skipped; before 5.8 it loses the whole parameter."""
    per_type_masks: bool
    """isolcpus= and nohz_full= may name different CPUs (5.18); before, one mask serves everything."""
    setup_guards: bool
    """An empty list sets no flag, and maxcpus= is looked at (6.1)."""
    present_cpu_kept: bool
    """One CPU present at boot stays housekeeping (5.2); before, one possible CPU is enough."""
    union_checked: bool
    """nohz_full and isolcpus=domain together must spare a present CPU, else the later one is dropped (6.19)."""
    nohz_flag_is_nohz_full: bool
    """isolcpus=nohz,… is the same as nohz_full= (6.14); before, it stops the tick only."""
    nohz_full_confines_kthreads: bool
    """Unbound kernel threads keep off nohz_full CPUs (5.9)."""
    boot_cpu_may_be_nohz_full: bool
    """The boot CPU may stay in nohz_full where the architecture allows (5.2; in practice powerpc)."""
    cpulist_rewritten: bool
    """White space separates CPU lists, numbers are checked for overflow (5.2)."""
    cpulist_last: bool
    """``N`` is the last CPU (5.13)."""
    cpulist_all: bool
    """``all`` is a CPU list (5.14)."""
    rcu_nocbs_all: bool
    """rcu_nocbs=all works (5.2)."""
    rcu_nocbs_bad_list_is_all: bool
    """A bad rcu_nocbs list offloads every CPU (5.12); before, what was read up to the error."""
    rcu_nocbs_bare: bool
    """rcu_nocbs without a list is legal: nothing offloaded at boot (5.17)."""


def features_of(version: KernelVersion) -> KernelFeatures:
    """The feature row of a kernel. RHEL 8 is taken as read in 4.18.0-394 (8.7), RHEL 9 as having per-type masks."""

    def since(major: int, minor: int, *, el8: bool = False) -> bool:
        return version.at_least(major, minor) or (el8 and version.is_el8)

    return KernelFeatures(
        isolcpus_flags=since(4, 15),
        managed_irq_flag=since(5, 6, el8=True),
        unknown_flag_skipped=since(5, 8, el8=True),
        per_type_masks=since(5, 18) or version.is_el9,
        setup_guards=since(6, 1),
        present_cpu_kept=since(5, 2, el8=True),
        union_checked=since(6, 19),
        nohz_flag_is_nohz_full=since(6, 14),
        nohz_full_confines_kthreads=since(5, 9, el8=True),
        boot_cpu_may_be_nohz_full=since(5, 2, el8=True),
        cpulist_rewritten=since(5, 2, el8=True),
        cpulist_last=since(5, 13),
        cpulist_all=since(5, 14),
        rcu_nocbs_all=since(5, 2, el8=True),
        rcu_nocbs_bad_list_is_all=since(5, 12, el8=True),
        rcu_nocbs_bare=since(5, 17),
    )
