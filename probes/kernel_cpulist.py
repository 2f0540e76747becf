"""CPU lists as the kernel reads them (``bitmap_parselist``): isolcpus=, nohz_full=, rcu_nocbs=, irqaffinity=.

Sources: lib/bitmap.c, since 6.5 lib/bitmap-str.c; the parser before 5.2 was another one and is kept apart below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from probes.cpulist import bits_of
from probes.kernel_version import KernelFeatures

BLANKS = "\t\n\v\f\r \xa0"  # isspace() of the kernel: its ctype table is Latin-1
U32 = 0xFFFFFFFF

_SEPARATORS = re.compile(f"[{BLANKS},]*")
_DIGITS = re.compile("[0-9]*", re.ASCII)


class ListError(str, Enum):
    """Why the kernel refused a list."""

    EINVAL = "EINVAL"
    ERANGE = "ERANGE"
    EOVERFLOW = "EOVERFLOW"


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelCpulist:
    """What the parser left. After an error ``cpus`` is what was set before it and ``rest`` starts at the bad region."""

    cpus: frozenset[int]
    error: ListError | None = None
    rest: str = ""


class _RefusedError(Exception):
    def __init__(self, error: ListError) -> None:
        super().__init__(error.value)
        self.error = error


@dataclass(kw_only=True, slots=True)
class _Region:
    """``start-end:used/group``, all of them unsigned 32-bit numbers."""

    start: int
    end: int
    used: int
    group: int

    def mask(self, nr_cpu_ids: int) -> int:
        """The bits of this region; the order of the checks decides the error number."""
        if self.start > self.end or self.group == 0 or self.used > self.group:
            raise _RefusedError(ListError.EINVAL)
        if self.end >= nr_cpu_ids:
            raise _RefusedError(ListError.ERANGE)
        width = self.end - self.start + 1
        pattern, span = (1 << min(self.used, width)) - 1, self.group
        while span < width:  # doubled, not counted: a group of 1 on 65536 CPUs is 16 steps
            pattern |= pattern << span
            span *= 2
        return (pattern & ((1 << width) - 1)) << self.start


def parse_kernel_cpulist(text: str, *, nr_cpu_ids: int, features: KernelFeatures) -> KernelCpulist:
    """Reads a list for a mask of ``nr_cpu_ids`` bits (the width of the mask: NR_CPUS where CPUMASK_OFFSTACK is off)."""
    if not features.cpulist_rewritten:
        return _parse_before_5_2(text, nr_cpu_ids)
    reader = _Reader(text.partition("\0")[0], nr_cpu_ids, features)
    mask = 0
    while reader.find_region():
        at = reader.at
        try:
            mask |= reader.region().mask(nr_cpu_ids)
        except _RefusedError as refused:
            return KernelCpulist(cpus=bits_of(mask), error=refused.error, rest=reader.text[at:])
    return KernelCpulist(cpus=bits_of(mask))


class _Reader:
    """A position in the text. A newline ends the list only right behind a region, as in the kernel."""

    def __init__(self, text: str, nr_cpu_ids: int, features: KernelFeatures) -> None:
        self.text = text
        self.at = 0
        self.last = nr_cpu_ids - 1
        self.features = features
        self.ended = False

    def find_region(self) -> bool:
        """Steps over separators; False at the end of the list."""
        separators = _SEPARATORS.match(self.text, self.at)
        self.at = separators.end() if separators else self.at
        return not self.ended and self.at < len(self.text)

    def region(self) -> _Region:
        """``n``, ``a-b``, ``all``; the last two with an optional ``:used/group``."""
        if self.features.cpulist_all and self.text[self.at : self.at + 3].lower() == "all":
            self.at += 3
            return self._pattern(0, self.last)
        start = self._number()
        if self._region_ends():
            return self._whole(start, start)
        self._expect("-")
        return self._pattern(start, self._number())

    def _pattern(self, start: int, end: int) -> _Region:
        if self._region_ends():
            return self._whole(start, end)
        self._expect(":")
        used = self._number()
        self._expect("/")
        return _Region(start=start, end=end, used=used, group=self._number())

    def _whole(self, start: int, end: int) -> _Region:
        self.ended = self.at >= len(self.text) or self.text[self.at] == "\n"
        return _Region(start=start, end=end, used=(end + 1) & U32, group=(end + 1) & U32)

    def _region_ends(self) -> bool:
        return self.at >= len(self.text) or self.text[self.at] in BLANKS + ","

    def _expect(self, character: str) -> None:
        if self.text[self.at : self.at + 1] != character:
            raise _RefusedError(ListError.EINVAL)
        self.at += 1

    def _number(self) -> int:
        if self.features.cpulist_last and self.text[self.at : self.at + 1] == "N":
            self.at += 1
            return self.last
        digits = _DIGITS.match(self.text, self.at)
        found = digits[0] if digits else ""
        if not found:
            raise _RefusedError(ListError.EINVAL)
        self.at += len(found)
        significant = found.lstrip("0") or "0"
        if len(significant) > 10 or int(significant) > U32:
            raise _RefusedError(ListError.EOVERFLOW)
        return int(significant)


def _parse_before_5_2(text: str, nr_cpu_ids: int) -> KernelCpulist:
    parser = _OldParser(nr_cpu_ids)
    mask = 0
    rest = re.split("[\n\0]", text, maxsplit=1)[0]
    while rest:
        region, _, behind = rest.partition(",")
        try:
            mask |= parser.region(region)
        except _RefusedError as refused:
            return KernelCpulist(cpus=bits_of(mask), error=refused.error, rest=rest)
        rest = behind
    return KernelCpulist(cpus=bits_of(mask))


class _OldParser:
    """The parser before 5.2: no blank between numbers, numbers wrap at 32 bits, and the nonsense ``1/2`` is CPU 2."""

    def __init__(self, nr_cpu_ids: int) -> None:
        self.nr_cpu_ids = nr_cpu_ids
        self.used = 0
        self.group = 0

    def region(self, text: str) -> int:
        """The bits of what stands between two commas; no digit, no bits."""
        self._start_region()
        before = ","
        for character in text:
            if character not in BLANKS:
                if self.digits and before in BLANKS:
                    raise _RefusedError(ListError.EINVAL)
                self._feed(character)
            before = character
        return self._end_region() if self.digits else 0

    def _start_region(self) -> None:
        self.digits = False
        self.patterned = False
        self.whole = (0, 0)
        self._start_number()

    def _start_number(self) -> None:
        self.first = self.last = 0
        self.at_start = True
        self.in_range = False

    def _feed(self, character: str) -> None:
        if character == "/":
            self.used = self.first
            self._start_number()
        elif character == ":":
            self.whole = (self.first, self.last)
            self.patterned = True
            self._start_number()
        elif character == "-" and not self.at_start and not self.in_range:
            self.last = 0
            self.in_range = self.at_start = True
        elif character in "0123456789":
            self._feed_digit(int(character))
        else:
            raise _RefusedError(ListError.EINVAL)

    def _feed_digit(self, digit: int) -> None:
        self.last = (self.last * 10 + digit) & U32
        if not self.in_range:
            self.first = self.last
        self.at_start = False
        self.digits = True

    def _end_region(self) -> int:
        if self.at_start and self.in_range:
            raise _RefusedError(ListError.EINVAL)
        if self.patterned:
            self.group = self.first
            self.first, self.last = self.whole
        else:
            self.used = self.group = (self.last - self.first + 1) & U32
        region = _Region(start=self.first, end=self.last, used=self.used, group=self.group)
        return region.mask(self.nr_cpu_ids)
