"""The texts of the cgroup cpu controller, version 1 and 2: /proc/PID/cgroup, cpu.max, cpu.cfs_*, cpu.stat."""

from __future__ import annotations

from dataclasses import dataclass

from probes.counters import parse_count
from probes.host import ProbeError

NS_PER_US = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuLimit:
    """CPU time that all threads below may spend together in each period, microseconds."""

    quota_us: int
    period_us: int

    @property
    def cpus(self) -> float:
        """The same as a number of CPUs."""
        return self.quota_us / self.period_us


@dataclass(frozen=True, kw_only=True, slots=True)
class Throttling:
    """Counters of a cgroup's own limit since it was made. ``periods`` are those in which it had work.

    ``throttled_us`` is summed over CPUs and may exceed the time that has passed.
    """

    periods: int
    throttled: int
    throttled_us: int


def parse_place(text: str, *, path: str = "cgroup") -> tuple[int, str]:
    """Version of the hierarchy with the cpu controller, and the path in it, of ``hierarchy:controllers:path`` lines.

    A v1 hierarchy with it outranks v2, which then lacks it. A path may hold colons, never a line end.
    """
    if not text.endswith("\n"):
        raise ProbeError(path, "cut, or no cgroup at all")
    unified = None
    for line in text.split("\n")[:-1]:
        number, _, rest = line.partition(":")
        controllers, colon, place = rest.partition(":")
        if not colon or not place.startswith("/"):
            raise ProbeError(path, f"not a line of a hierarchy: {line[:60]!r}")
        if "cpu" in controllers.split(","):
            return 1, place
        if number == "0" and not controllers:
            unified = place
    if unified is None:
        raise ProbeError(path, "no hierarchy with the cpu controller")
    return 2, unified


def parse_cpu_max(text: str, *, path: str = "cpu.max") -> CpuLimit | None:
    """``quota period`` of v2, microseconds; None for ``max period``."""
    words = text.split()
    if len(words) != 2 or not text.endswith("\n"):
        raise ProbeError(path, f"not a quota and a period: {text[:60]!r}")
    quota, period = None if words[0] == "max" else _positive(words[0], path), _positive(words[1], path)
    return None if quota is None else CpuLimit(quota_us=quota, period_us=period)


def parse_v1_limit(quota: str, period: str, *, path: str = "cpu.cfs_quota_us") -> CpuLimit | None:
    """cpu.cfs_quota_us and cpu.cfs_period_us of v1; None for a quota of -1, whatever the period."""
    if quota == "-1\n":
        return None
    for text in (quota, period):
        if not text.endswith("\n"):
            raise ProbeError(path, f"not a line with a number: {text[:60]!r}")
    return CpuLimit(quota_us=_positive(quota[:-1], path), period_us=_positive(period[:-1], path))


def _positive(word: str, path: str) -> int:
    number = parse_count(word)
    if not number:
        raise ProbeError(path, f"not a number of microseconds: {word[:60]!r}")
    return number


def _fields(text: str, path: str) -> dict[str, int]:
    """``name value`` lines; unknown names are kept, as kernels add some."""
    found: dict[str, int] = {}
    if not text.endswith("\n"):
        raise ProbeError(path, "empty or cut")
    for number, line in enumerate(text.split("\n")[:-1], 1):
        name, _, value = line.partition(" ")
        count = parse_count(value)
        if count is None or name in found:
            raise ProbeError(path, f"line {number}: not a name and a number, or its second: {line[:60]!r}")
        found[name] = count
    return found


def parse_throttling(text: str, *, version: int, path: str = "cpu.stat") -> Throttling | None:
    """cpu.stat; None on v2 without the controller, where only usage is told. v1 counts nanoseconds."""
    fields = _fields(text, path)
    names = ("nr_periods", "nr_throttled", "throttled_time" if version == 1 else "throttled_usec")
    known = [fields[name] for name in names if name in fields]
    if not known and "usage_usec" in fields:
        return None
    if len(known) != len(names):
        raise ProbeError(path, f"lacks {', '.join(name for name in names if name not in fields)}")
    return Throttling(
        periods=known[0], throttled=known[1], throttled_us=known[2] // NS_PER_US if version == 1 else known[2]
    )


def parse_waited(text: str, *, path: str = "cpu.stat.local") -> int:
    """cpu.stat.local (6.6): microseconds throttled for this limit and those above; v1 counts nanoseconds."""
    fields = _fields(text, path)
    if "throttled_usec" in fields:
        return fields["throttled_usec"]
    if "throttled_time" in fields:
        return fields["throttled_time"] // NS_PER_US
    raise ProbeError(path, "lacks throttled_usec")
