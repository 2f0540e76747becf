"""What the kernel was built with, as far as it concerns isolation: /boot/config-RELEASE, or the one beside the modules.

Debian and Ubuntu keep the configuration in /boot, Fedora and Red Hat in /lib/modules/RELEASE as well. /proc/config.gz
is there only with CONFIG_IKCONFIG_PROC.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from probes.host import Host, ProbeError, SourceState

CONFIG_GZ = "proc/config.gz"
FLAGS = ("NO_HZ_FULL", "RCU_NOCB_CPU", "PREEMPT_RT", "PREEMPT_DYNAMIC", "SCHEDSTATS")
MAX_BYTES = 4 << 20
"""A kernel configuration has about 300 KiB."""
_HZ = re.compile(r"^CONFIG_HZ=([1-9][0-9]{0,4})$", re.MULTILINE | re.ASCII)
_ESCAPE = re.compile(rb"\\x([89a-f][0-9a-f])")


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelConfig:
    """Of the running kernel. ``path`` without a leading slash."""

    path: str
    hz: int | None
    flags: frozenset[str]
    """Those of FLAGS that are built in."""


def read_kernel_config(host: Host, release: str) -> KernelConfig:
    """Raises ProbeError where none can be read: the first reason that is not a missing file."""
    if not release or "/" in release:
        raise ProbeError("proc/sys/kernel/osrelease", "no kernel release", SourceState.MISSING)
    reason = ProbeError(f"boot/config-{release}", "no such file", SourceState.MISSING)
    for path in (f"boot/config-{release}", f"lib/modules/{release}/config", CONFIG_GZ):
        try:
            text = host.read(path)
            return parse_kernel_config(unpacked(text) if path == CONFIG_GZ else text, path=path)
        except ProbeError as error:
            reason = error if reason.state is SourceState.MISSING else reason
    raise reason


def parse_kernel_config(text: str, *, path: str = "") -> KernelConfig:
    """Lines ``CONFIG_X=y``; raises ProbeError where there is none (an empty file, another format)."""
    if not re.search(r"^CONFIG_[A-Z0-9_]+=", text, re.MULTILINE | re.ASCII):
        raise ProbeError(path, "no kernel configuration", SourceState.MALFORMED if text else SourceState.MASKED)
    found = _HZ.search(text)
    flags = (flag for flag in FLAGS if re.search(rf"^CONFIG_{flag}=y$", text, re.MULTILINE))
    return KernelConfig(path=path, hz=int(found[1]) if found else None, flags=frozenset(flags))


def unpacked(text: str, *, path: str = CONFIG_GZ) -> str:
    """A gzip file, as text of probes.host.decode, to the text within; raises ProbeError. Its checksum proves it."""
    data = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), text.encode())
    unpack = zlib.decompressobj(wbits=31)
    try:
        found = unpack.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ProbeError(path, f"no gzip file: {error}") from None
    if not unpack.eof:
        raise ProbeError(path, "a gzip file that is cut, or too large")
    return found.decode("utf-8", "replace")
