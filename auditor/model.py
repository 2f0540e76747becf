"""The audit as values: what rules find, what causes and verdicts are made of, and what reports render.

Nothing here reads or decides. The JSON document ``cpu-audit/audit/v1`` follows these classes field by field
(``auditor/document.py``), so a name here is a name in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum


class Axis(str, Enum):
    """The verdict judges isolation; readiness is the second line."""

    ISOLATION = "isolation"
    READINESS = "readiness"


class Kind(str, Enum):
    """Measured in the window, a door that keeps others out, or a risk that may become noise later."""

    MEASURED = "measured"
    DOOR = "door"
    RISK = "risk"


class Outcome(str, Enum):
    """What a rule says about some CPUs."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_EXERCISED = "not-exercised"
    NOT_APPLICABLE = "not-applicable"


BAD = (Outcome.FAIL, Outcome.WARN)
"""What a finding is about, worst first."""


class Status(str, Enum):
    """The isolation verdict, worst first."""

    NOT_ISOLATED = "not-isolated"
    EXPOSED = "exposed"
    UNKNOWN = "unknown"
    DISTURBED = "disturbed"
    ISOLATED = "isolated"


class Readiness(str, Enum):
    """The second axis: C-states, governor, clock, NUMA, quota, pages."""

    READY = "ready"
    LIMITED = "limited"
    NOT_READY = "not-ready"


class Regime(str, Enum):
    """How the CPU spent the window: below 1 % busy, up to 90 %, above."""

    IDLE = "idle"
    SLEEPER = "sleeper"
    SPINNER = "spinner"
    UNKNOWN = "unknown"


class WaiverState(str, Enum):
    """What became of a waiver: only one that is in effect changes a verdict."""

    IN_EFFECT = "in-effect"
    EXPIRED = "expired"
    UNDATED = "undated"
    UNUSED = "unused"


class FixKind(str, Enum):
    """Where a fix is made."""

    BOOT = "boot"
    RUNTIME = "runtime"
    KUBELET = "kubelet"
    WORKLOAD = "workload"
    FIRMWARE = "firmware"


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    FOUND = 3
    UNKNOWN = 4
    TOOL = 5
    INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What a reader can check with ``cat``: a file, a field, its values at both ends of the window."""

    path: str
    field: str
    before: int | None = None
    after: int | None = None
    value: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """What to change. ``commands`` are complete shell lines, ``boot`` the parameters that end up in the boot line."""

    kind: FixKind
    text: str
    commands: tuple[str, ...] = ()
    boot: Mapping[str, str] = field(default_factory=dict)
    undo: str = ""
    reboot: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What one rule says about some CPUs. ``observed`` and ``limit`` share ``unit``; None where there is no number."""

    rule: str
    axis: Axis
    kind: Kind
    outcome: Outcome
    cpus: tuple[int, ...]
    observed: float | None = None
    limit: float | None = None
    unit: str = ""
    title: str = ""
    detail: str = ""
    evidence: tuple[Evidence, ...] = ()
    fix: Fix | None = None
    origin: str = ""
    """Findings with one origin are one cause: ``irq:nvme0q2``, ``door:domain``."""
    per_second: float = 0.0
    """Disturbances per second that this finding counts and no other one does."""
    cost_us_per_s: float = 0.0
    """Microseconds per second that they take, nominal (auditor/policy.py) or measured: the weight of its cause."""
    waived: str = ""
    """Why and until when the policy puts up with it; the outcome stays what was found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Findings of one origin put together; ``share`` is its part (0…1) of all disturbances that were measured."""

    title: str
    rules: tuple[str, ...]
    cpus: tuple[int, ...]
    share: float | None
    per_second: float | None
    fix: Fix | None
    waived: bool = False
    """Whether the policy waives all that it is made of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Status with the sentence that gives its reason and the bound within which it holds."""

    status: Status
    reason: str
    bounds: str
    waivers: int = 0
    """How many waivers of the policy it takes into account; none makes it isolated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadinessVerdict:
    """The second line."""

    status: Readiness
    reason: str
    waivers: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFacts:
    """Which machine this was."""

    name: str
    kernel: str
    arch: str
    cpu_model: str
    hypervisor: str | None
    """None on bare metal, "unknown" where it cannot be told."""
    hz: int | None
    online: str
    boot_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowFacts:
    """When was measured. Wall clock start in ISO 8601 UTC; durations on the monotonic clock."""

    started: str
    window_ms: int
    requested_ms: int
    samples: int
    load: str | None
    work: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuSets:
    """CPU lists in the kernel's list form."""

    audited: str
    control: str
    housekeeping: str
    chosen_by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnInterrupt:
    """An interrupt of the own workload; ``fired`` counts its events in the window by audited CPU, as far as known."""

    irq: int
    name: str
    claim: str
    """Why it is own: named with --own-irq, or own I/O"""
    fired: Mapping[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnFacts:
    """The workload that the CPUs belong to."""

    source: str
    """kubelet, workload, work, affinity or none"""
    description: str
    threads: int
    interrupts: tuple[OwnInterrupt, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WaiverUse:
    """One waiver of the policy. ``expires`` is a day in ISO 8601, ``findings`` how many it waives."""

    rule: str
    cpus: str
    reason: str
    expires: str
    state: WaiverState
    findings: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyFacts:
    """By which policy was judged: its file ("" for the defaults), what it changes, its waivers."""

    source: str = ""
    changes: tuple[str, ...] = ()
    waivers: tuple[WaiverUse, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter:
    """Growth of one counter on one CPU in the window. ``count`` is None where the row can't be trusted."""

    label: str
    name: str
    count: int | None
    per_second: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleUse:
    """One C-state of one CPU: entries and time in the window."""

    name: str
    latency_us: int
    entries: int
    time_us: int
    disabled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Switches:
    """Switches to a thread on this CPU (/proc/schedstat field 9), split as far as own and foreign can be told apart."""

    total: int | None
    own: int | None
    foreign: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSeen:
    """A thread that ran on this CPU. ``switches`` is exact for threads confined to it, else None with sightings > 0."""

    pid: int
    tid: int
    name: str
    kernel: bool
    own: bool
    cgroup: str
    allowed: str
    switches: int | None
    run_ms: float | None
    sightings: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuActivity:
    """Everything that was counted on one CPU. ``busy`` is 0…1."""

    busy: float | None
    regime: Regime
    interrupts: tuple[Counter, ...]
    softirqs: tuple[Counter, ...]
    cpuidle: tuple[IdleUse, ...]
    switches: Switches
    threads: tuple[ThreadSeen, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """Per CPU, audited and control CPUs apart; keys are CPU numbers."""

    cpus: Mapping[int, CpuActivity]
    control: Mapping[int, CpuActivity]


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What was asked for against what is in force."""

    name: str
    requested: str
    effective: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """One source: what became of it and what its absence costs."""

    source: str
    state: str
    reason: str = ""
    costs: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """What the tool itself did in the window. ``self_check`` is clean, perturbed or unknown, with a reason."""

    cpu_ms: int
    switches: int
    on_audited_cpus: bool
    self_check: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """One audit of one host: what every report renders."""

    tool: str
    host: HostFacts
    window: WindowFacts
    cpus: CpuSets
    own: OwnFacts
    verdict: Verdict
    readiness: ReadinessVerdict
    cpu_verdicts: Mapping[int, Verdict]
    causes: tuple[Cause, ...]
    boot_line: str | None
    findings: tuple[Finding, ...]
    activity: Activity
    config: tuple[Setting, ...]
    coverage: tuple[Coverage, ...]
    overhead: Overhead
    next_command: str | None
    interrupted: bool
    policy: PolicyFacts = field(default_factory=PolicyFacts)
