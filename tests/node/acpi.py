"""An ACPI table that gives every CPU three idle states, so that cpuidle has something to show under TCG."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleState:
    """One entry of _CST (ACPI 6.5, 8.4.1.1); entered by HLT, so its latency is declared and not real."""

    latency_us: int
    power_mw: int


IDLE_STATES = (
    IdleState(latency_us=1, power_mw=1000),
    IdleState(latency_us=60, power_mw=500),
    IdleState(latency_us=200, power_mw=100),
)


def _cst(states: tuple[IdleState, ...]) -> str:
    # Type 1 (C1) with a fixed-hardware register of zeros means HLT: drivers/acpi/processor_idle.c.
    register = "ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }"
    entries = [f"Package () {{ {register}, 1, {state.latency_us}, {state.power_mw} }}" for state in states]
    return f"Name (_CST, Package () {{ {len(states)}, {', '.join(entries)} }})"


def idle_table(cpus: int, states: tuple[IdleState, ...] = IDLE_STATES) -> str:
    """The ASL text of the table for ``cpus`` CPUs, named as QEMU's q35 names them (\\_SB.CPUS.C000 and on)."""
    names = [f"\\_SB.CPUS.C{cpu:03X}" for cpu in range(cpus)]
    lines = [f"  External ({name}, DeviceObj)" for name in names]
    lines += [f"  Scope ({name}) {{ {_cst(states)} }}" for name in names]
    return "\n".join(['DefinitionBlock ("", "SSDT", 2, "NODE", "IDLE", 1)', "{", *lines, "}", ""])
