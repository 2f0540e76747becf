"""CPU limits above the own threads over the window: which are finite, how often each ran out, what is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from auditor.window import Observation
from probes.cgroup_cpu import CgroupCpu, CpuGroup, levels
from probes.cgroup_cpu_text import CpuLimit, Throttling
from probes.host import ProbeError, SourceState
from probes.threads import ThreadKey

LIMIT_FILES = ("/sys/fs/cgroup/**/cpu.max", "/sys/fs/cgroup/**/cpu.cfs_quota_us", "/sys/fs/cgroup/**/cpu.stat")
NEVER = Throttling(periods=0, throttled=0, throttled_us=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """One level with a finite limit at either end of the window."""

    group: CpuGroup
    limit: CpuLimit
    threads: frozenset[ThreadKey]
    """Own threads below it."""
    grown: Throttling | None
    """Growth of its own counters; None where they can't tell."""
    waited_us: int | None
    """How long the own threads' cgroups below it were throttled, for any limit; None: not told (before 6.6)."""

    @property
    def ran_out(self) -> bool:
        """Whether some thread below it, own or not, is known to have been throttled by it."""
        return self.grown is not None and bool(self.grown.throttled or self.grown.throttled_us)

    @property
    def spared(self) -> bool:
        """Whether it ran out for others only: throttling that ended in the window, and none of it the own threads'."""
        return self.grown is not None and self.grown.throttled_us > 0 and self.waited_us == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Quotas:
    """Everything that is known of the limits above the own threads."""

    finite: tuple[Quota, ...]
    unknown: tuple[ProbeError, ...]
    """What keeps "no limit" from being said."""
    levels: int
    """Levels looked at, all threads together."""
    waits: Mapping[str, tuple[int, frozenset[ThreadKey]]]
    """Own threads' cgroups that were throttled, by no limit that is seen: microseconds, threads."""


def quotas(observation: Observation, own: Collection[ThreadKey]) -> Quotas:
    """Joins both ends of the window."""
    ends = [end.limits.cgroups for end in (observation.before, observation.after)]
    members, unknown = _members(ends, own)
    joined = {level: _ends_of(ends, level) for path in members for level in levels(path)}
    joined = {level: groups for level, groups in joined.items() if groups}
    unknown += [end.hidden for end in ends if end.hidden]
    unknown += [group.limit for groups in joined.values() for group in groups if isinstance(group.limit, ProbeError)]
    finite = [quota for level in joined if (quota := _quota(ends, level, members))]
    by_these = {quota.group.path for quota in finite if quota.grown is None or quota.ran_out}
    waits = {path: (_waited_us(ends, path) or 0, keys) for path, keys in members.items()}
    return Quotas(
        finite=tuple(sorted(finite, key=lambda quota: (quota.group.path.count("/"), quota.group.path))),
        unknown=tuple(unknown),
        levels=len(joined),
        waits={path: wait for path, wait in waits.items() if wait[0] and by_these.isdisjoint(levels(path))},
    )


def _members(
    ends: list[CgroupCpu], own: Collection[ThreadKey]
) -> tuple[dict[str, frozenset[ThreadKey]], list[ProbeError]]:
    """Own threads by the cgroup they are or were in, and why some have none."""
    members: dict[str, frozenset[ThreadKey]] = {}
    lost: list[tuple[ThreadKey, ProbeError]] = []
    for key in sorted(own):
        told = [end.paths[key] for end in ends if key in end.paths]
        paths = {place for place in told if not isinstance(place, ProbeError)}
        for path in paths:
            members[path] = members.get(path, frozenset()) | {key}
        lost += [(key, place) for place in _errors(key, told, known=bool(paths))]
    placed = {key.pid for keys in members.values() for key in keys}
    # A thread that ended while its process was read is where the others of the process are.
    unknown = [error for key, error in lost if not (key.pid in placed and error.state is SourceState.MISSING)]
    return members, unknown


def _errors(key: ThreadKey, told: list[str | ProbeError], *, known: bool) -> Iterator[ProbeError]:
    if not told:
        yield ProbeError(f"{key.path}/cgroup", "not read", SourceState.MISSING)
    for place in told:
        if isinstance(place, ProbeError) and not (known and place.state is SourceState.MISSING):
            yield place


def _ends_of(ends: list[CgroupCpu], level: str) -> list[CpuGroup]:
    return [end.groups[level] for end in ends if level in end.groups]


def _quota(ends: list[CgroupCpu], level: str, members: Mapping[str, frozenset[ThreadKey]]) -> Quota | None:
    groups = _ends_of(ends, level)
    limits = [group.limit for group in groups if isinstance(group.limit, CpuLimit)]
    if not limits:
        return None
    below = [path for path in members if level in levels(path)]
    waits = [_waited_us(ends, path) for path in below]
    return Quota(
        group=groups[-1],
        limit=limits[-1],
        threads=frozenset().union(*(members[path] for path in below)),
        grown=_grown(ends, level),
        waited_us=None if None in waits else sum(wait for wait in waits if wait is not None),
    )


def _grown(ends: list[CgroupCpu], level: str) -> Throttling | None:
    """A level without the controller at the start counts from 0. What fell is another cgroup of that name."""
    groups = _ends_of(ends, level)
    if len(groups) != len(ends):
        return None
    before, after = (group.throttling for group in groups)
    if before is None:
        before = NEVER
    if isinstance(before, ProbeError) or not isinstance(after, Throttling):
        return None
    grown = Throttling(
        periods=after.periods - before.periods,
        throttled=after.throttled - before.throttled,
        throttled_us=after.throttled_us - before.throttled_us,
    )
    return None if min(grown.periods, grown.throttled, grown.throttled_us) < 0 else grown


def _waited_us(ends: list[CgroupCpu], path: str) -> int | None:
    waits = [group.waited_us for group in _ends_of(ends, path)]
    if len(waits) != len(ends):
        return None
    before, after = waits
    return after - before if isinstance(before, int) and isinstance(after, int) and after >= before else None
