"""What the kernel ends with after the command line, and the sentences about what is not as written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from probes.cpulist import format_cpulist
from probes.housekeeping import BootMachine, HkType, Setup
from probes.isolation_words import Request


class ProblemKind(str, Enum):
    """What is wrong with a parameter."""

    MISSPELT = "misspelt"
    NO_VALUE = "no-value"
    STRAY_WORDS = "stray-words"
    AFTER_DASHES = "after-dashes"
    UNKNOWN_FLAG = "unknown-flag"
    BAD_FLAG = "bad-flag"
    WORD_AS_FLAG = "word-taken-for-flag"
    READ_PAST_END = "read-past-end"
    NO_DOMAIN_FLAG = "no-domain-flag"
    TICK_ONLY = "tick-only"
    OUT_OF_RANGE = "out-of-range"
    BAD_LIST = "bad-list"
    EMPTY_LIST = "empty-list"
    REPEATED = "repeated"
    MISMATCH = "mismatch"
    NO_HOUSEKEEPING = "no-housekeeping"
    BOOT_CPU = "boot-cpu"
    UNSUPPORTED = "unsupported"
    NOHZ_OFF = "nohz-off"
    ALL_CPUS = "all-cpus"
    NOT_MAINLINE = "not-mainline"
    NOT_ONLINE = "not-online"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is not as written. ``cpus``: those for which something asked is not in force.

    ``lost`` is False for a remark: the line is legal, or wrong without loss.
    """

    parameter: str
    value: str
    kind: ProblemKind
    text: str
    lost: bool
    cpus: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What the kernel ends with, as far as the problems need it: CPU sets by kind."""

    machine: BootMachine
    setups: tuple[Setup, ...]
    domain: frozenset[int]
    managed_irq: frozenset[int]
    kernel_noise: frozenset[int]
    nohz_full: frozenset[int]
    rcu_nocbs: frozenset[int] | None
    irqaffinity: frozenset[int] | None

    def in_force(self, hk_type: HkType) -> frozenset[int]:
        """The CPUs that one kind of work keeps off."""
        return {
            HkType.DOMAIN: self.domain,
            HkType.MANAGED_IRQ: self.managed_irq,
            HkType.TICK: self.nohz_full,
            HkType.KERNEL_NOISE: self.kernel_noise,
        }[hk_type]

    def missing(self, request: Request) -> frozenset[int]:
        """CPUs that a request means and for which it isn't in force, whichever parameter would have done it."""
        asked = request.cpus(self.machine.nr_cpu_ids)
        if request.parameter == "rcu_nocbs":
            return asked - (self.rcu_nocbs or frozenset())
        if request.parameter == "irqaffinity":
            return asked - (self.irqaffinity or frozenset())
        return frozenset().union(*(asked - self.in_force(hk_type) for hk_type in request.types()))


def problem_of(request: Request, kind: ProblemKind, text: str, lost: frozenset[int] | bool) -> Problem:
    """A problem of one request; ``lost`` are the CPUs concerned, or whether anything asked is not in force."""
    cpus = lost if isinstance(lost, frozenset) else frozenset()
    value = request.param.value if request.param.value is not None else request.value or ""
    return Problem(parameter=request.parameter, value=value, kind=kind, text=text, lost=bool(lost), cpus=cpus)


def short(text: str, limit: int = 60) -> str:
    """A piece of the command line, cut to the characters that fit a sentence."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def name_cpus(cpus: frozenset[int]) -> str:
    """``CPU 1``, ``CPUs 1-3``, ``no CPU``."""
    if not cpus:
        return "no CPU"
    return ("CPU " if len(cpus) == 1 else "CPUs ") + short(format_cpulist(cpus))


def token_of(request: Request) -> str:
    """The parameter as it stands in the line."""
    return short(request.param.token)
