"""CPU sets as the kernel prints them: lists (``0-3,8``) and hexadecimal masks (``00000001,00000011``).

What the kernel accepts on its command line is wider: see ``probes.kernel_cpulist``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import compress, count

from probes.host import Host, ProbeError, SourceState

MAX_CPUS = 1 << 16  # eight times the largest NR_CPUS of any distribution: a recording may claim four billion CPUs
MAX_TEXT = 1 << 20  # 65536 CPUs in the longest list form take less than half of it

_REGION = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)
_WORD = re.compile(r"[0-9a-fA-F]{1,8}", re.ASCII)


def bits_of(mask: int) -> frozenset[int]:
    """The positions of the bits set in ``mask``."""
    digits = f"{mask:b}"[::-1].encode().translate(bytes.maketrans(b"01", b"\0\1"))
    return frozenset(compress(count(), digits))


def parse_cpulist(text: str, *, nr_cpus: int | None = None, path: str = "") -> frozenset[int]:
    """A CPU set from a file in list form (``%*pbl``): sysfs cpu/*, smp_affinity_list, Cpus_allowed_list, cpuset.*.

    A lone newline is the empty set; so is ``(null)`` after padding, which cpu/nohz_full prints when the parameter is
    not given; cpu/offline may lead with a comma. ProbeError on anything else, and on a CPU of ``nr_cpus`` or above.
    """
    limit = MAX_CPUS if nr_cpus is None else min(nr_cpus, MAX_CPUS)
    if len(text) > MAX_TEXT:
        raise ProbeError(path, f"a CPU list of more than {MAX_TEXT} characters")
    body = text.strip(" \t\n").removeprefix(",")
    if body in ("", "(null)"):
        return frozenset()
    mask = 0
    for region in body.split(","):
        first, last = _parse_region(region, path)
        if last >= limit:
            raise ProbeError(path, f"CPU {last} is beyond the last possible CPU {limit - 1}")
        mask |= ((1 << (last - first + 1)) - 1) << first
    return bits_of(mask)


def read_cpulist(host: Host, path: str) -> frozenset[int]:
    """A CPU set from a file in list form; raises ProbeError, also for a file that is masked or cut."""
    return parse_cpulist(_whole(host, path), path=path)


def read_cpumask(host: Host, path: str) -> frozenset[int]:
    """A CPU set from a file in hexadecimal form; raises ProbeError, also for a file that is masked or cut."""
    text = _whole(host, path)
    if text.isspace():  # the empty set is 0
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    return parse_cpumask(text, path)


def _whole(host: Host, path: str) -> str:
    """The kernel ends each of these files with a line end: the empty set is that alone, and ``1`` may have been 12."""
    text = host.read(path)
    if not text:
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    if not text.endswith("\n"):
        raise ProbeError(path, f"no line end, the file is cut: {text[:40]!r}")
    return text


def _parse_region(region: str, path: str) -> tuple[int, int]:
    found = _REGION.fullmatch(region)
    if found is None:
        raise ProbeError(path, f"no CPU list: {region[:40]!r}")
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last:
        raise ProbeError(path, f"no CPU list: {region!r} runs backwards")
    return first, last


def parse_cpumask(text: str, path: str = "") -> frozenset[int]:
    """A CPU set from a file in hexadecimal form (``%*pb``): smp_affinity, default_smp_affinity, domains of schedstat.

    Words of up to 32 bits, most significant first, separated by commas. ProbeError on anything else.
    """
    words = text.strip(" \t\n").split(",", MAX_CPUS // 32)
    if len(words) > MAX_CPUS // 32 or not all(_WORD.fullmatch(word) for word in words):
        raise ProbeError(path, f"no CPU mask: {text[:40]!r}")
    return bits_of(int("".join(word.rjust(8, "0") for word in words), 16))


def format_cpulist(cpus: Iterable[int]) -> str:
    """Canonical list form, ``0-3,8``; two neighbours are a range as well, as in ``%*pbl``. Empty set: empty text."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _runs(sorted(set(cpus))))


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for index, cpu in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != cpu + 1:
            yield ordered[start], cpu
            start = index + 1


def format_cpumask(cpus: Iterable[int]) -> str:
    """Hexadecimal form that every smp_affinity file takes: ``22``, ``1,00000000``. Empty set: ``0``."""
    digits = f"{sum(1 << cpu for cpu in set(cpus)):x}"
    head = len(digits) % 8
    words = [digits[:head]] if head else []
    return ",".join(words + [digits[at : at + 8] for at in range(head, len(digits), 8)])
