"""C-states of a CPU and what bars them: /sys/devices/system/cpu/cpuN/cpuidle and power/pm_qos_resume_latency_us.

Format: drivers/cpuidle/sysfs.c, Documentation/ABI/testing/sysfs-devices-system-cpu and sysfs-devices-power. Counted are
the kernel's requests, when the sleep ends; the hardware may choose another state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from probes.counters import parse_number
from probes.host import Host, ProbeError, SourceState

CPU_DIR = "sys/devices/system/cpu"
DRIVER_PATH = f"{CPU_DIR}/cpuidle/current_driver"
_STATE = re.compile(r"state(\d{1,3})", re.ASCII)
_REQUIRED = ("name", "latency", "usage", "time", "disable")
_OPTIONAL = ("desc", "residency", "default_status")  # default_status came with 5.6


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleState:
    """One C-state of one CPU."""

    index: int
    name: str
    """POLL (latency 0), C1, C1E, C6 …"""
    desc: str
    latency_us: int
    """To leave the state."""
    residency_us: int
    """Shortest stay that saves energy."""
    usage: int
    """Times entered since boot."""
    time_us: int
    """Time spent in it since boot."""
    disabled: bool
    """Barred now: by the user, or from the start and not allowed since."""
    default_disabled: bool
    """Off unless the user asks for it (intel_idle.states_off, quirks); False where the kernel does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuIdle:
    """States of one CPU, by index: shallow to deep."""

    states: tuple[IdleState, ...]


def read_cpuidle(host: Host, cpu: int) -> CpuIdle:
    """Raises ProbeError; MISSING where the CPU has no states (idle=poll, cpuidle.off=1, no driver, most guests)."""
    directory = f"{CPU_DIR}/cpu{cpu}/cpuidle"
    indexes = sorted(int(match[1]) for name in host.listdir(directory) if (match := _STATE.fullmatch(name)))
    if not indexes:
        raise ProbeError(directory, "no states", SourceState.MISSING)
    return CpuIdle(states=tuple(_read_state(host, f"{directory}/state{index}", index) for index in indexes))


def _read_state(host: Host, directory: str, index: int) -> IdleState:
    values = {name: host.read(f"{directory}/{name}") for name in _REQUIRED}
    optional = {name: _read_optional(host, f"{directory}/{name}") for name in _OPTIONAL}
    values |= {name: text for name, text in optional.items() if text is not None}
    return parse_idle_state(index, values, path=directory)


def _read_optional(host: Host, path: str) -> str | None:
    try:
        return host.read(path)
    except ProbeError as error:
        if error.state is SourceState.MISSING:
            return None
        raise


def parse_idle_state(index: int, values: Mapping[str, str], *, path: str = "") -> IdleState:
    """Contents of the files of one stateM directory, by file name, to a state; raises ProbeError (MALFORMED)."""
    return IdleState(
        index=index,
        name=values["name"].strip(),
        desc=values.get("desc", "").strip(),
        latency_us=_number(values, "latency", path),
        residency_us=_number(values, "residency", path) if "residency" in values else 0,
        usage=_number(values, "usage", path),
        time_us=_number(values, "time", path),
        disabled=_number(values, "disable", path) != 0,
        default_disabled=values.get("default_status", "").strip() == "disabled",
    )


def _number(values: Mapping[str, str], name: str, path: str) -> int:
    return parse_number(values[name], path=f"{path}/{name}")


def read_idle_driver(host: Host) -> str:
    """``none``, intel_idle, acpi_idle, haltpoll, psci_idle …; raises ProbeError."""
    driver = host.read(DRIVER_PATH).strip()
    if not driver:
        raise ProbeError(DRIVER_PATH, "empty")
    return driver


def read_resume_latency_us(host: Host, cpu: int) -> int | None:
    """Exit latency tolerated on this CPU, in µs: None = no constraint, 0 = polling only; raises ProbeError."""
    path = f"{CPU_DIR}/cpu{cpu}/power/pm_qos_resume_latency_us"
    return parse_resume_latency_us(host.read(path), path=path)


def parse_resume_latency_us(text: str, *, path: str = "") -> int | None:
    """The file says ``0`` for no constraint and ``n/a`` for none tolerated (drivers/base/power/sysfs.c)."""
    if text.strip() == "n/a":
        return 0
    return parse_number(text, path=path) or None
