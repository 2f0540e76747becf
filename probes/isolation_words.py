"""What a user evidently meant with the isolation parameters: misspelt names, stray pieces of lists, CPUs named.

The kernel is silent about most of this: a name without a dot goes to init, one with a dot is taken for a parameter of a
module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from probes.cmdline import Param
from probes.cpulist import parse_cpumask
from probes.host import ProbeError
from probes.housekeeping import HkType

ISOLATION_PARAMETERS = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity")
MAX_EDITS = 2
MAX_READABLE = 8192  # the largest NR_CPUS: what lies above is a slip of the keyboard

_FLAG_TYPES = {
    "domain": HkType.DOMAIN,
    "managed_irq": HkType.MANAGED_IRQ,
    "nohz": HkType.TICK,
    "nohz_full": HkType.TICK,
}
_WORDS = re.compile(r"[A-Za-z][A-Za-z_\-]*", re.ASCII)
_PIECES = re.compile(r"[,\s\"']+")
_HEX = re.compile(r"0x([0-9a-fA-F]+(?:,[0-9a-fA-F]+)*)", re.ASCII)
_REGION = re.compile(r"([0-9]{1,10}|N)(?:-([0-9]{1,10}|N))?(?::([0-9]{1,5})/([0-9]{1,5}))?", re.ASCII)
_GLUED = re.compile(r"([A-Za-z_.\-]+)[:,](.*)", re.ASCII | re.DOTALL)
_FRAGMENT = re.compile(r"[=,:/\-0-9N'\"]+", re.ASCII)
_NUMBER = re.compile(r"[0-9N]", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One isolation parameter as it was meant.

    ``parameter`` is the right name, ``value`` the text of the value (None: none given), ``fragments`` the words behind
    it that look like the rest of a list. ``misspelt``: the kernel knows no such name.
    """

    parameter: str
    param: Param
    value: str | None
    misspelt: bool
    fragments: tuple[Param, ...]

    @property
    def maybe_runlevel(self) -> bool:
        """A single digit behind a complete value may well be meant for init."""
        complete = re.search("[0-9N]$", self.value or "") is not None
        return complete and len(self.fragments) == 1 and re.fullmatch("[0-6]", self.fragments[0].token) is not None

    def cpus(self, nr_cpu_ids: int) -> frozenset[int]:
        """Every CPU that was meant, fragments included."""
        words = [self.value or "", *(param.token for param in self.fragments if not self.maybe_runlevel)]
        return readable_cpus(" ".join(words), nr_cpu_ids)

    def types(self) -> frozenset[HkType]:
        """What the CPUs were to be kept free of; empty for rcu_nocbs and irqaffinity."""
        if self.parameter == "isolcpus":
            return asked_types(self.value or "")
        return frozenset({HkType.TICK}) if self.parameter == "nohz_full" else frozenset()


def requests(params: tuple[Param, ...]) -> Iterator[Request]:
    """Every isolation parameter, right or misspelt, in the order of the line."""
    for at, param in enumerate(params):
        parameter, value = _meant(param)
        if parameter is not None:
            exact = param.name == parameter
            fragments = _fragments(params, at + 1)
            yield Request(parameter=parameter, param=param, value=value, misspelt=not exact, fragments=fragments)


def _meant(param: Param) -> tuple[str | None, str | None]:
    name, value = param.name, param.value
    glued = _GLUED.fullmatch(param.raw_name) if value is None else None
    if glued is not None:
        name, value = glued[1].replace("-", "_"), glued[2]
    return lookalike(name), value


def lookalike(name: str) -> str | None:
    """The isolation parameter that a name stands for: itself or one within two edits, whatever the case."""
    if name in ISOLATION_PARAMETERS:
        return name
    if len(name) > max(map(len, ISOLATION_PARAMETERS)) + MAX_EDITS:
        return None
    return _nearest(name.lower(), ISOLATION_PARAMETERS)


def edits(left: str, right: str) -> int:
    """Levenshtein distance of two short words."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def _fragments(params: tuple[Param, ...], at: int) -> tuple[Param, ...]:
    end = at
    while end < len(params) and _FRAGMENT.fullmatch(params[end].token):
        end += 1
    found = params[at:end]
    return found if any(_NUMBER.search(param.token) for param in found) else ()


def asked_types(value: str) -> frozenset[HkType]:
    """What the words in an isolcpus= value ask for, misspelt ones too; the domain where none does."""
    words = (word.replace("-", "_").lower() for word in _WORDS.findall(value))
    found = {flag for word in words if (flag := _flag_meant(word)) is not None}
    return frozenset(_FLAG_TYPES[flag] for flag in found) or frozenset({HkType.DOMAIN})


def _flag_meant(word: str) -> str | None:
    if word in _FLAG_TYPES:
        return word
    return _nearest(word[:16], _FLAG_TYPES) if len(word) > 4 else None


def _nearest(word: str, names: Iterable[str]) -> str | None:
    """The first of those with the fewest edits, if they are few enough: one of another length is not even tried."""
    near = {name: edits(word, name) for name in names if abs(len(name) - len(word)) <= MAX_EDITS}
    best = min(near, key=near.__getitem__, default=None)
    return best if best is not None and near[best] <= MAX_EDITS else None


def readable_cpus(text: str, nr_cpu_ids: int) -> frozenset[int]:
    """Every CPU that a reader finds in a value, valid for the kernel or not: ``'1,5'``, ``0x22``, ``1-99`` on 8 CPUs.

    ``all`` and ``N`` stand for this machine's CPUs.
    """
    found = _HEX.fullmatch(text.strip("\"' "))
    if found is not None:
        return _mask(found[1])
    cpus: set[int] = set()
    for piece in set(_PIECES.split(text.replace("–", "-"))):
        cpus |= _piece(piece.strip("=()[]"), nr_cpu_ids)
    return frozenset(cpus)


def _mask(digits: str) -> frozenset[int]:
    try:
        return parse_cpumask(digits if "," in digits else _words(digits))
    except ProbeError:
        return frozenset()


def _words(digits: str) -> str:
    padded = digits.rjust(-(-len(digits) // 8) * 8, "0")
    return ",".join(padded[at : at + 8] for at in range(0, len(padded), 8))


def _piece(piece: str, nr_cpu_ids: int) -> frozenset[int]:
    if piece.lower() == "all":
        return frozenset(range(nr_cpu_ids))
    found = _REGION.fullmatch(piece)
    if found is None:
        return frozenset()
    first = _number(found[1], nr_cpu_ids)
    last = _number(found[2] or found[1], nr_cpu_ids)
    if found[3] is None:
        return frozenset(range(first, last + 1))
    used, group = int(found[3]), int(found[4])
    return frozenset(cpu for cpu in range(first, last + 1) if group and (cpu - first) % group < used)


def _number(text: str, nr_cpu_ids: int) -> int:
    return nr_cpu_ids - 1 if text == "N" else min(int(text), MAX_READABLE - 1)
