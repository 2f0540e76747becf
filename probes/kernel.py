"""Which kernel on which machine: release, boot, HZ, guest or bare metal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from probes.host import Host, ProbeError
from probes.kernel_config import KernelConfig, read_kernel_config

VIRTUAL_VENDORS = (
    "QEMU",
    "VMware",
    "Xen",
    "innotek",
    "Microsoft Corporation",
    "Amazon EC2",
    "Google",
    "KVM",
    "Bochs",
    "Red Hat",
    "OpenStack",
    "Parallels",
    "Apple Inc.",
    "Alibaba Cloud",
    "Tencent Cloud",
    "Hetzner",
)
"""DMI system vendors of virtual machines (some sell bare metal as well): asked only where no CPU flag decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """Identity of one boot of one machine. Empty strings where the host does not tell."""

    name: str
    release: str
    version: str
    arch: str
    boot_id: str
    cpu_model: str
    hypervisor: str | None
    """None on bare metal, "unknown" where nothing tells."""
    hz: int | None
    """Ticks per second, None where the kernel's configuration can't be read."""
    config: KernelConfig | None = None


def read_kernel(host: Host, *, arch: str = "") -> Kernel:
    """Never raises. ``arch`` is what the reader of the host knows where /proc/sys/kernel/arch (since 6.1) is missing.

    Reads /proc/cpuinfo, which sends an IPI to every CPU before 5.19 (arch/x86 aperfmperf): call it before the window.
    """
    cpuinfo = _raw(host, "proc/cpuinfo")
    release = _text(host, "proc/sys/kernel/osrelease")
    config = _config(host, release)
    return Kernel(
        name=_text(host, "proc/sys/kernel/hostname"),
        release=release,
        version=_text(host, "proc/sys/kernel/version"),
        arch=_text(host, "proc/sys/kernel/arch") or arch or _arch_of(cpuinfo),
        boot_id=_text(host, "proc/sys/kernel/random/boot_id"),
        cpu_model=_cpu_model(cpuinfo),
        hypervisor=_hypervisor(host, cpuinfo),
        hz=config.hz if config else None,
        config=config,
    )


def _text(host: Host, path: str) -> str:
    return _raw(host, path).strip()


def _raw(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except ProbeError:
        return ""


def _arch_of(cpuinfo: str) -> str:
    return "x86_64" if re.search(r"^flags\s*:.*\blm\b", cpuinfo, re.MULTILINE) else ""


def _cpu_model(cpuinfo: str) -> str:
    match = re.search(r"^(?:model name|Processor|cpu)\s*:[ \t]*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else ""


def _hypervisor(host: Host, cpuinfo: str) -> str | None:
    """The x86 ``hypervisor`` flag decides; its name comes from /sys/hypervisor/type (Xen) or DMI."""
    vendor = _text(host, "sys/hypervisor/type") or _text(host, "sys/class/dmi/id/sys_vendor")
    flags = re.search(r"^flags\s*:(.*)\n", cpuinfo, re.MULTILINE)  # without a line end the last of them may be lost
    if flags:
        return (vendor or "hypervisor") if "hypervisor" in flags[1].split() else None
    if vendor:  # arm64 has no such flag
        return vendor if vendor.startswith(VIRTUAL_VENDORS) else None
    return "unknown"


def _config(host: Host, release: str) -> KernelConfig | None:
    try:
        return read_kernel_config(host, release)
    except ProbeError:
        return None
