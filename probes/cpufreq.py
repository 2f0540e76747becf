"""Who sets the frequency of a CPU: policies below /sys/devices/system/cpu/cpufreq.

Format: Documentation/admin-guide/pm/cpufreq.rst. Read are only what the kernel keeps in memory; scaling_cur_freq,
cpuinfo_cur_freq, base_frequency and energy_performance_preference interrupt the CPU on some or all kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from probes.counters import parse_count, parse_number
from probes.host import Host, ProbeError, SourceState

CPUFREQ_DIR = "sys/devices/system/cpu/cpufreq"
_POLICY = re.compile(r"policy\d{1,5}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyPolicy:
    """One policy; ``path`` without a leading slash. Frequencies in kHz."""

    path: str
    driver: str
    governor: str
    min_khz: int
    max_khz: int


def read_cpufreq(host: Host) -> Mapping[int, FrequencyPolicy | ProbeError]:
    """The policy of each CPU that has one. Raises ProbeError: MISSING where there is none, or one can't be placed."""
    found: dict[int, FrequencyPolicy | ProbeError] = {}
    names = [name for name in host.listdir(CPUFREQ_DIR) if _POLICY.fullmatch(name)]
    for name in names:
        path = f"{CPUFREQ_DIR}/{name}"
        policy = _policy(host, path)
        found.update(dict.fromkeys(parse_cpus(host.read(f"{path}/affected_cpus"), path=path), policy))
    if not names:
        raise ProbeError(CPUFREQ_DIR, "no policy: no driver sets the frequency", SourceState.MISSING)
    return found


def _policy(host: Host, path: str) -> FrequencyPolicy | ProbeError:
    try:
        return FrequencyPolicy(
            path=path,
            driver=_word(host, f"{path}/scaling_driver"),
            governor=_word(host, f"{path}/scaling_governor"),
            min_khz=_khz(host, f"{path}/scaling_min_freq"),
            max_khz=_khz(host, f"{path}/scaling_max_freq"),
        )
    except ProbeError as error:
        return error


def _word(host: Host, path: str) -> str:
    words = host.read(path).split()
    if len(words) != 1:
        raise ProbeError(path, "not one name", SourceState.MALFORMED if words else SourceState.MASKED)
    return words[0]


def _khz(host: Host, path: str) -> int:
    return parse_number(host.read(path), path=path)


def parse_cpus(text: str, *, path: str = "") -> frozenset[int]:
    """``affected_cpus``: the online CPUs of a policy with blanks between, none where all are offline."""
    numbers = [parse_count(word) for word in text.split()]
    if any(number is None for number in numbers):
        raise ProbeError(f"{path}/affected_cpus", f"no CPU numbers: {text.strip()[:40]!r}")
    return frozenset(number for number in numbers if number is not None)
