"""Who bars deep C-states: exit latency tolerated per CPU, and on all CPUs by holders of /dev/cpu_dma_latency.

Formats: Documentation/ABI/testing/sysfs-devices-power (pm_qos_resume_latency_us), Documentation/power/pm_qos_interface
.rst: the device gives a signed 32-bit number of microseconds in the machine's byte order. It is opened for reading
only: such an opening asks for nothing, so nothing changes and no CPU is woken (kernel/power/qos.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from probes.cpuidle import read_resume_latency_us
from probes.host import Host, ProbeError, SourceState

DMA_LATENCY = "dev/cpu_dma_latency"
UNCONSTRAINED_US = 2_000_000_000
"""PM_QOS_CPU_LATENCY_DEFAULT_VALUE: nobody asks for less."""
_ESCAPE = re.compile(rb"\\x([89a-f][0-9a-f])")


@dataclass(frozen=True, kw_only=True, slots=True)
class PmQos:
    """One instant. None: no constraint; 0: polling only."""

    resume_us: Mapping[int, int | ProbeError | None]
    """By CPU."""
    dma_latency_us: int | ProbeError | None
    """DENIED to all but root, MISSING in most containers."""

    def bound_us(self, cpu: int) -> int | None:
        """The least exit latency that is known to be demanded on this CPU; None where none is known."""
        known = [value for value in (self.resume_us.get(cpu), self.dma_latency_us) if isinstance(value, int)]
        return min(known, default=None)


def read_pm_qos(host: Host, cpus: Iterable[int]) -> PmQos:
    """Never raises."""
    return PmQos(resume_us={cpu: _resume(host, cpu) for cpu in sorted(cpus)}, dma_latency_us=_dma_latency(host))


def _resume(host: Host, cpu: int) -> int | ProbeError | None:
    try:
        return read_resume_latency_us(host, cpu)
    except ProbeError as error:
        return error


def _dma_latency(host: Host) -> int | ProbeError | None:
    try:
        return parse_dma_latency_us(host.read(DMA_LATENCY), path=DMA_LATENCY)
    except ProbeError as error:
        return error


def parse_dma_latency_us(text: str, *, path: str = "") -> int | None:
    """Four bytes, as text of probes.host.decode, little end first; raises ProbeError (MASKED, MALFORMED).

    A big-endian machine's number reads as some other one, never as a small one but 0, which is 0 there too: what is
    above an hour or negative is refused.
    """
    data = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), text.encode())
    if not data:
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    value = int.from_bytes(data, "little", signed=True)
    if value == UNCONSTRAINED_US:
        return None
    if len(data) != 4 or not 0 <= value <= 3_600_000_000:
        raise ProbeError(path, f"no latency: {data[:8]!r}")
    return value
