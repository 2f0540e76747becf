"""Limits. The numbers are defaults of this tool; only the mechanisms behind them come from the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Events per second and CPU: above ``warn`` a warning (0: any event), above ``fail`` a failure."""

    warn: float
    fail: float
    exercised: float = 0
    """What a control CPU must reach, where that is more than ``fail``: a stricter limit proves nothing more easily."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiver:
    """A site's word that it knows of what a rule finds on some CPUs, up to and including a day (UTC)."""

    rule: str
    cpus: frozenset[int]
    reason: str
    expires: date


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """Above which numbers a rule warns and fails, for its documentation. None: by no number, or never."""

    warn: float | None = None
    fail: float | None = None
    unit: str

    @classmethod
    def of(cls, limit: Limit, unit: str = "/s") -> Thresholds:
        """Those of a limit."""
        return cls(warn=limit.warn, fail=limit.fail, unit=unit)


ANY = Limit(warn=0, fail=1)

LIMITS: Mapping[str, Limit] = {
    "IRQ.DEVICE": ANY,
    "IRQ.MANAGED": ANY,
    "IRQ.OTHER": Limit(warn=0.2, fail=1),
    "NMI.PMI": Limit(warn=0.2, fail=1),
    "MCE": ANY,
    "THR.FOREIGN": ANY,
    "THR.KBOUND": ANY,
    "THR.KUNBOUND": ANY,
    "TICK.LOC": Limit(warn=2, fail=10),
    "IPI.RES": Limit(warn=1, fail=10),
    "IPI.CAL": Limit(warn=0.2, fail=5),
    "IPI.TLB": Limit(warn=1, fail=50),
    "IPI.IWI": Limit(warn=1, fail=50),
    "SIRQ.SCHED": Limit(warn=0.1, fail=1),
    "SIRQ.TIMER": Limit(warn=2, fail=10),
    "SIRQ.RCU": Limit(warn=1, fail=10),
    "SIRQ.HRTIMER": Limit(warn=2, fail=10),
    "SIRQ.NET_RX": ANY,
    "SIRQ.NET_TX": ANY,
    "SIRQ.BLOCK": ANY,
    "SIRQ.IRQ_POLL": ANY,
    "SIRQ.TASKLET": ANY,
    "SIRQ.HI": ANY,
    "CST.DEEP": ANY,
}

WEIGHT_US: Mapping[str, float] = {
    "IRQ": 10,
    "SIRQ": 2,
    "TICK": 3,
    "IPI": 1,
    "THR": 5,
}
"""Nominal microseconds that one event of a family takes from the CPU: they rank causes, they are no measurement.

A device interrupt brings its softirq, a wake-up and cold cache lines; an IPI little more than its entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Everything that a site may decide for itself."""

    limits: Mapping[str, Limit] = field(default_factory=lambda: LIMITS)
    busy_poll: bool = False
    """The workload polls: the tick is decisive, also where nohz_full was never asked for."""
    wakeup_budget_us: int | None = None
    """What a wake-up may cost. None: entering a deeper C-state is a warning, never a failure."""
    deep_latency_us: int = 20
    """C-states with a longer exit latency count as deep: C1 and C1E stay below, the next class is tens to thousands."""
    migration_per_s: float = 0.3
    """migration/N wakes 0.25 times a second for the soft-lockup watchdog (kernel/watchdog.c, threshold 10 s)."""
    foreign_run_ms: float = 10
    """CPU time of one foreign user thread that fails the rule by itself: one USER_HZ tick."""
    foreign_sightings: int = 3
    steal_fail: float = 0.001
    sibling_warn: float = 0.01
    sibling_fail: float = 0.10
    """Share of the window in which others kept an SMT sibling busy."""
    sibling_takes: float = 0.3
    """Nominal part of a CPU that a busy sibling takes from it."""
    remote_memory: float = 0.10
    """Share of the workload's memory that may be on other nodes than its CPUs."""
    own_interrupts: tuple[str, ...] = ()
    """Numbers and shell patterns of action names, as with --own-irq."""
    allowed_interrupts: tuple[str, ...] = ()
    """Not own, and not judged either: the site lets them fire here."""
    waivers: tuple[Waiver, ...] = ()
    source: str = ""
    """The file it was read from; "" for the defaults."""
