"""What the kernel makes of isolcpus= and nohz_full= at boot: a model of kernel/sched/isolation.c, 4.15 to 7.0.

The model predicts and explains; what is in force is read from /sys/devices/system/cpu/{isolated,nohz_full}.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from probes.cmdline import Cmdline, Param
from probes.kernel_cpulist import KernelCpulist, parse_kernel_cpulist
from probes.kernel_version import KernelFeatures

_LETTER = re.compile("[A-Za-z]", re.ASCII)
_WORD = re.compile("[^,\0]*")
_SKIPPABLE = re.compile("[A-Za-z_]+", re.ASCII)
_LATE_PRESENT = ("aarch64", "arm", "riscv")


class HkType(str, Enum):
    """From what CPUs are kept free (``enum hk_type``)."""

    DOMAIN = "domain"
    MANAGED_IRQ = "managed_irq"
    TICK = "tick"
    KERNEL_NOISE = "kernel_noise"
    """Unbound workqueues, timers, RCU; unbound kernel threads since 5.9."""


NOHZ_FULL_TYPES = frozenset({HkType.TICK, HkType.KERNEL_NOISE})


@dataclass(frozen=True, kw_only=True, slots=True)
class BootMachine:
    """What a kernel knows of its machine when it reads the command line. Sets hold CPU numbers."""

    possible: frozenset[int]
    present: frozenset[int]
    boot_cpu: int
    arch: str
    features: KernelFeatures
    has_nohz_full: bool | None
    """CONFIG_NO_HZ_FULL; None where unknown, taken for yes."""
    max_cpus: int
    """maxcpus=: CPUs of that number and above stay offline at boot."""
    mask_bits: int
    """Width of a CPU mask: nr_cpu_ids, or NR_CPUS without CONFIG_CPUMASK_OFFSTACK (no distribution since 2014)."""

    @property
    def nr_cpu_ids(self) -> int:
        """The last possible CPU and one."""
        return max(self.possible, default=self.boot_cpu) + 1

    @property
    def present_at_boot(self) -> frozenset[int]:
        """arm64 and riscv mark the other CPUs present only after the command line has been read."""
        return frozenset({self.boot_cpu}) if self.arch.startswith(_LATE_PRESENT) else self.present

    def parse(self, text: str) -> KernelCpulist:
        """A CPU list as this kernel reads it."""
        return parse_kernel_cpulist(text, nr_cpu_ids=self.mask_bits, features=self.features)


class Rejection(str, Enum):
    """Why a parameter has no effect."""

    BAD_FLAG = "bad flag"
    BAD_LIST = "bad list"
    EMPTY = "empty list"
    MISMATCH = "differs from an earlier parameter"
    NO_HOUSEKEEPING = "leaves no housekeeping CPU"
    NO_NOHZ_FULL = "kernel without CONFIG_NO_HZ_FULL"


@dataclass(frozen=True, kw_only=True, slots=True)
class IsolcpusValue:
    """An isolcpus= value taken apart. ``list_text`` is what the kernel reads as the CPU list, wherever it stands."""

    types: frozenset[HkType]
    flags: tuple[str, ...]
    skipped: tuple[str, ...]
    bad_flag: str | None
    list_text: str
    past_end: bool
    """The last word was skipped together with the end of the value: the rest of the line is read as the list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """One isolcpus= or nohz_full= and what became of it. ``cpus`` are those that it would keep free."""

    param: Param
    value: IsolcpusValue
    parsed: KernelCpulist
    cpus: frozenset[int]
    rejection: Rejection | None
    boot_cpu_kept: bool
    """Every present CPU was named: the boot CPU was put back."""


@dataclass(kw_only=True, slots=True)
class Housekeeping:
    """The kernel's state while it reads the line: per type the CPUs that keep the work."""

    machine: BootMachine
    masks: dict[HkType, frozenset[int]] = field(default_factory=dict)
    tick: frozenset[int] = frozenset()

    def isolated(self, hk_type: HkType) -> frozenset[int]:
        """Possible CPUs that are kept free of one kind of work."""
        return self.machine.possible - self.masks.get(hk_type, self.machine.possible)

    def nohz_full(self) -> frozenset[int]:
        """What sysfs nohz_full shows: without the boot CPU, which keeps the time wherever the machine can sleep."""
        may_stay = self.machine.features.boot_cpu_may_be_nohz_full and self.machine.arch.startswith("ppc")
        cleared = frozenset() if may_stay else frozenset({self.machine.boot_cpu})
        return self.tick & frozenset(range(self.machine.nr_cpu_ids)) - cleared

    def setup(self, param: Param, value: IsolcpusValue) -> Setup:
        """``housekeeping_setup``: takes the parameter over or drops it whole."""
        parsed = self.machine.parse(value.list_text) if value.bad_flag is None else KernelCpulist(cpus=frozenset())
        staging, kept = self._staging(parsed.cpus)
        cpus = parsed.cpus - {self.machine.boot_cpu} if kept else parsed.cpus
        rejection = self._rejection(value, parsed, staging, cpus)
        if rejection is None:
            if HkType.TICK in value.types - self.masks.keys():
                self.tick = cpus
            self.masks.update(dict.fromkeys(value.types - self.masks.keys(), staging))
        return Setup(param=param, value=value, parsed=parsed, cpus=cpus, rejection=rejection, boot_cpu_kept=kept)

    def _staging(self, cpus: frozenset[int]) -> tuple[frozenset[int], bool]:
        machine = self.machine
        staging = machine.possible - cpus
        if machine.features.present_cpu_kept:
            first = min(staging & machine.present_at_boot, default=None)
            kept = first is None or (machine.features.setup_guards and first >= machine.max_cpus)
        else:
            kept = not staging and not self.masks
        return (staging | {machine.boot_cpu}, True) if kept else (staging, False)

    def _rejection(
        self, value: IsolcpusValue, parsed: KernelCpulist, staging: frozenset[int], cpus: frozenset[int]
    ) -> Rejection | None:
        if value.bad_flag is not None:
            return Rejection.BAD_FLAG
        if self.machine.has_nohz_full is False and HkType.TICK in value.types:
            return Rejection.NO_NOHZ_FULL
        if parsed.error is not None or self._beyond_possible(cpus):
            return Rejection.BAD_LIST
        features = self.machine.features
        counted = cpus if features.setup_guards else parsed.cpus
        if not counted and (features.setup_guards or not features.per_type_masks):
            return Rejection.EMPTY
        if self._differs(value.types, staging):
            return Rejection.MISMATCH
        return Rejection.NO_HOUSEKEEPING if self._leaves_none(value.types, staging) else None

    def _beyond_possible(self, cpus: frozenset[int]) -> bool:
        return not self.machine.features.per_type_masks and max(cpus, default=0) >= self.machine.nr_cpu_ids

    def _differs(self, types: frozenset[HkType], staging: frozenset[int]) -> bool:
        features = self.machine.features
        single = features.isolcpus_flags and not features.per_type_masks
        return any(mask != staging for hk_type, mask in self.masks.items() if single or hk_type in types)

    def _leaves_none(self, types: frozenset[HkType], staging: frozenset[int]) -> bool:
        checked = (HkType.DOMAIN, HkType.KERNEL_NOISE)
        earlier = next((self.masks[hk_type] for hk_type in checked if hk_type in self.masks), None)
        if not self.machine.features.union_checked or earlier is None or types.isdisjoint(checked):
            return False
        shared = staging & earlier & self.machine.present_at_boot
        return min(shared, default=self.machine.nr_cpu_ids) >= min(self.machine.nr_cpu_ids, self.machine.max_cpus)


def parse_isolcpus(value: str, tail: str, features: KernelFeatures) -> IsolcpusValue:
    """The flag loop of ``housekeeping_isolcpus_setup``; ``tail`` is what lies in memory behind the value.

    A word counts as a flag only with a comma behind it. Another one is skipped with the character behind it, even where
    that is the end of the value: then ``tail`` is read on (seen on booted 6.12).
    """
    text = f"{value}\0{tail}\0"
    types: set[HkType] = set()
    flags: list[str] = []
    skipped: list[str] = []
    known = _known_flags(features)
    bad_flag = None
    at = 0
    while features.isolcpus_flags and _LETTER.match(text, at):
        found = _WORD.match(text, at)
        word = found[0] if found else ""
        if word in known and text.startswith(",", at + len(word)):
            types |= known[word]
            flags.append(word)
        elif features.unknown_flag_skipped and _SKIPPABLE.fullmatch(word):
            skipped.append(word)
        else:
            bad_flag = word
            break
        at += len(word) + 1
    return IsolcpusValue(
        types=frozenset(types or {HkType.DOMAIN}),
        flags=tuple(flags),
        skipped=tuple(skipped),
        bad_flag=bad_flag,
        list_text=text[at:].partition("\0")[0],
        past_end=at > len(value),
    )


def _known_flags(features: KernelFeatures) -> dict[str, frozenset[HkType]]:
    nohz = NOHZ_FULL_TYPES if features.nohz_flag_is_nohz_full else frozenset({HkType.TICK})
    known = {"nohz": nohz, "domain": frozenset({HkType.DOMAIN})}
    if features.managed_irq_flag:
        known["managed_irq"] = frozenset({HkType.MANAGED_IRQ})
    return known


def read_line(cmdline: Cmdline, machine: BootMachine) -> tuple[Housekeeping, tuple[Setup, ...]]:
    """Runs the kernel's setup over a command line: the state it ends in and what became of every parameter."""
    state = Housekeeping(machine=machine)
    setups = [
        state.setup(param, _value_of(param, cmdline, machine))
        for param in cmdline.params
        if param.name in ("isolcpus", "nohz_full") and param.value is not None
    ]
    return state, tuple(setups)


def _value_of(param: Param, cmdline: Cmdline, machine: BootMachine) -> IsolcpusValue:
    value = param.value or ""
    if param.name == "isolcpus":
        # Taking quotes off leaves a second NUL behind the value: reading past its end stops there.
        return parse_isolcpus(value, "" if param.quoted else cmdline.tail(param), machine.features)
    return IsolcpusValue(types=NOHZ_FULL_TYPES, flags=(), skipped=(), bad_flag=None, list_text=value, past_end=False)
