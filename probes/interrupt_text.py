"""What a row of /proc/interrupts means: its actions and its kind, from the label and the text behind the counts.

Sources: kernel/irq/proc.c (numbered rows), arch/*/kernel/irq.c and smp.c (named rows), drivers/xen/events (xen-percpu).
"""

from __future__ import annotations

import re
from enum import Enum


class InterruptKind(str, Enum):
    """Families of interrupts that the rules tell apart."""

    DEVICE = "device"
    TICK = "tick"
    RESCHEDULE = "reschedule"
    CALL = "call"
    TLB = "tlb"
    IRQ_WORK = "irq-work"
    NMI = "nmi"
    PMI = "pmi"
    MCE = "mce"
    MCE_POLL = "mce-poll"
    THERMAL = "thermal"
    POSTED = "posted"
    HYPERVISOR = "hypervisor"
    PER_CPU = "per-cpu"
    """Per-CPU, none of the above: other numbered interrupts of the CPU's own controller, IPIs that share a row."""
    REPEATED = "repeated"
    """Counts what other rows count: the sums of s390. Judged nowhere."""
    OTHER = "other"


_BY_LABEL = {
    "NMI": InterruptKind.NMI,
    "WDG": InterruptKind.NMI,  # ppc: soft-NMI watchdog
    "LOC": InterruptKind.TICK,  # ppc has two rows of this label
    "HVS": InterruptKind.TICK,  # Hyper-V guests: LOC is nearly idle there
    "CLK": InterruptKind.TICK,  # s390 clock comparator
    "BCT": InterruptKind.TICK,  # ppc: the tick of a CPU whose timer sleeps, sent by another one
    "PMI": InterruptKind.PMI,
    "VPMI": InterruptKind.PMI,
    "CNT": InterruptKind.PMI,  # old ppc
    "IWI": InterruptKind.IRQ_WORK,
    "RES": InterruptKind.RESCHEDULE,
    "CAL": InterruptKind.CALL,  # x86: holds the TLB flushes too, TLB is a part of it
    "TLB": InterruptKind.TLB,
    "TRM": InterruptKind.THERMAL,
    "DFR": InterruptKind.MCE,  # AMD: an error whose handling was deferred
    "MCE": InterruptKind.MCE,
    "MCP": InterruptKind.MCE_POLL,
    "HYP": InterruptKind.HYPERVISOR,
    "HRE": InterruptKind.HYPERVISOR,
    "HMI": InterruptKind.HYPERVISOR,
    "PIN": InterruptKind.POSTED,
    "NPI": InterruptKind.POSTED,
    "PIW": InterruptKind.POSTED,
    "PMN": InterruptKind.POSTED,
    "DBL": InterruptKind.PER_CPU,  # ppc doorbells: every kind of IPI in one row
    "EXC": InterruptKind.PER_CPU,  # s390 external call and emergency signal: the same
    "EMS": InterruptKind.PER_CPU,
    "IPI": InterruptKind.PER_CPU,  # alpha
    "EXT": InterruptKind.REPEATED,  # s390: the sums of the rows marked [EXT], [I/O] and [AIO]
    "I/O": InterruptKind.REPEATED,
    "AIO": InterruptKind.REPEATED,
    "MSI": InterruptKind.REPEATED,  # s390: the sum of the numbered rows, and what brought them
    "PCF": InterruptKind.REPEATED,
    "QAI": InterruptKind.DEVICE,  # s390: network, storage and crypto, which no number steers
    "APB": InterruptKind.DEVICE,
    "VAI": InterruptKind.DEVICE,
}

# arm, arm64, riscv, loongarch: the number behind IPI means something else in each version, the text does not.
_IPI_TEXTS = (
    ("rescheduling", InterruptKind.RESCHEDULE),
    ("function call", InterruptKind.CALL),
    ("irq work", InterruptKind.IRQ_WORK),
    ("timer broadcast", InterruptKind.TICK),
)

_TICK_ACTIONS = frozenset({"arch_timer", "riscv-timer", "Hyper-V stimer0"})
_OWN_CONTROLLER_TICKS = frozenset({"twd", "gt", "timer"})
_PER_CPU_ACTION = re.compile(r"IPI(-\d+)?|SMP-IPI|kvm guest .*|mchp", re.ASCII)
_IPI_ACTIONS = {"ipi resched": InterruptKind.RESCHEDULE, "ipi call": InterruptKind.CALL}  # mips: numbered rows
# GIC: PPIs and SGIs have hwirq below 32; GICv5 counts from 0 in each of its own controllers. The CPU of mips has two
# software interrupts, five lines that a board may give to devices, and the timer's.
_OWN_CONTROLLER = re.compile(
    r"GICv5-[PI]PI\b|GIC(v[23]|-\d+)? (\d|[12]\d|3[01]) |RISC-V INTC\b|CPUINTC\b|MIPS [017] |MIPS GIC Local\b"
    r"|CPU (timer|IPI)$",  # parisc
    re.ASCII,
)
_XEN_TIMER = re.compile(r"timer\d+", re.ASCII)
_TRIGGER = re.compile(r"(?:(?<=-)(?:edge|level|fasteoi)|(?<=\s)(?:Edge|Level))(?=\s|$)")
_GAP = re.compile(r"\s{2,}")


def actions_of(text: str) -> str:
    """Names of the handlers in the uncollapsed text of a numbered row, joined by ``, ``; "" where it has none.

    The text is ``chip [hwirq] [Edge|Level] [-flow]  action, action``: the actions follow the trigger word, else the
    last gap of two blanks. Names are the drivers' own and may hold blanks. Rows without a chip (old arm) are all name.
    """
    trigger = _TRIGGER.search(text)
    if trigger:
        return text[trigger.end() :].strip()
    last = _GAP.split(text.strip())[-1]
    return "" if last in ("-", "None") else last


def kind_of(label: str, text: str, actions: str) -> InterruptKind:
    """Kind of a row from its label and its collapsed text."""
    if label.isdigit():
        return _numbered_kind(text, actions)
    if label == "NMI" and "Machine Check" in text:  # s390
        return InterruptKind.MCE
    if text.startswith("[I/O] "):  # s390
        return InterruptKind.DEVICE
    if label.startswith("IPI") and label != "IPI":
        return next((kind for words, kind in _IPI_TEXTS if words in text.lower()), InterruptKind.OTHER)
    return _BY_LABEL.get(label, InterruptKind.OTHER)


def _numbered_kind(text: str, actions: str) -> InterruptKind:
    if actions in _TICK_ACTIONS:
        return InterruptKind.TICK
    if text.startswith("xen-percpu"):
        # Xen on x86 counts its resched, callfunc and irqwork events in RES, CAL and IWI too: these rows repeat them.
        return InterruptKind.TICK if _XEN_TIMER.fullmatch(actions) else InterruptKind.PER_CPU
    if actions.lower().endswith("pmu"):
        return InterruptKind.PMI
    if ipi := _IPI_ACTIONS.get(actions.lower()):
        return ipi
    if _PER_CPU_ACTION.fullmatch(actions):
        return InterruptKind.PER_CPU
    if _OWN_CONTROLLER.match(text):
        return InterruptKind.TICK if actions in _OWN_CONTROLLER_TICKS else InterruptKind.PER_CPU
    return InterruptKind.DEVICE
