"""Cpusets of cgroup v1: which of them the scheduler balances. A CPU that none of those has is in no scheduler domain.

Sources: kernel/cgroup/cpuset.c (generate_sched_domains: the topmost cpusets with sched_load_balance, those that overlap
taken together), Documentation/admin-guide/cgroup-v1/cpusets.rst. All files are values in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from probes.cpulist import read_cpulist
from probes.host import Host, ProbeError, SourceState, attempt, visible

V1_ROOT = "sys/fs/cgroup/cpuset"
BALANCE, EXCLUSIVE = "cpuset.sched_load_balance", "cpuset.cpu_exclusive"
ONLY_IN_ROOT = "cgroup.sane_behavior"
"""kernel/cgroup/cgroup-v1.c: the root of a hierarchy has it, what is mounted into a container as its root has not."""
NO_CGROUPS = ("tasks", "notify_on_release", "release_agent")
MAX_CPUSETS = 4000
"""How many are looked at, parents first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpusetV1:
    """One cpuset; ``path`` is its directory without a leading slash."""

    path: str
    cpus: frozenset[int] | ProbeError
    """cpuset.effective_cpus, before 3.17 cpuset.cpus."""
    exclusive: bool | ProbeError
    """No sibling may have any of its CPUs. It has nothing to do with balancing; the kubelet never sets it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpusetsV1:
    """What decides about scheduler domains on cgroup v1."""

    balancing: tuple[CpusetV1, ...]
    """Topmost ones with sched_load_balance 1: each is a domain, and what lies below adds nothing."""
    unbalanced: tuple[CpusetV1, ...]
    """Those with sched_load_balance 0, but the root: they ask to be left alone."""
    unread: tuple[ProbeError, ...] = ()
    whole: bool = True
    """Whether what is mounted here is the root of the hierarchy."""
    cut: bool = False
    """There are more than MAX_CPUSETS."""

    def gap(self) -> ProbeError | None:
        """Why domains can't be told, None where they can."""
        if not self.whole:
            return ProbeError(V1_ROOT, "only a part of the hierarchy is mounted here", SourceState.MASKED)
        if self.cut:
            return ProbeError(V1_ROOT, f"more than {MAX_CPUSETS} cpusets: not all were visited")
        unread = (item.cpus for item in self.balancing if isinstance(item.cpus, ProbeError))
        return next(chain(self.unread, unread), None)

    def span(self, cpu: int) -> frozenset[int] | None:
        """CPUs that this one is balanced with: itself too, none where it is not balanced; None: that can't be told.

        CPUs isolated at boot are in no domain whatever the cpusets say.
        """
        if self.gap() is not None:
            return None
        sets = [item.cpus for item in self.balancing if not isinstance(item.cpus, ProbeError)]
        span, last = frozenset({cpu}), frozenset[int]()
        if not any(cpu in cpus for cpus in sets):
            return frozenset()
        while span != last:
            span, last = span.union(*(cpus for cpus in sets if cpus & span)), span
        return span

    def free(self) -> frozenset[int]:
        """CPUs that some cpuset asks to be left alone and none is balanced with, as far as that can be told."""
        asked = (item.cpus for item in self.unbalanced if not isinstance(item.cpus, ProbeError))
        return frozenset(cpu for cpu in frozenset().union(*asked) if self.span(cpu) == frozenset())


NO_CPUSETS_V1 = ProbeError(V1_ROOT, "no cpusets of cgroup v1 are mounted here", SourceState.MISSING)


def read_cpusets_v1(host: Host) -> CpusetsV1 | ProbeError:
    """Never raises; the error is MISSING where cpusets belong to cgroup v2, or to nobody."""
    try:
        host.read(f"{V1_ROOT}/{BALANCE}")
    except ProbeError as error:
        return NO_CPUSETS_V1 if error.state is SourceState.MISSING else error
    balancing: list[CpusetV1] = []
    unbalanced: list[CpusetV1] = []
    unread: list[ProbeError] = []
    queue = [(V1_ROOT, False)]
    for seen, (path, above) in enumerate(queue):
        if seen == MAX_CPUSETS:
            break
        balanced = attempt(_flag, host, f"{path}/{BALANCE}")
        if isinstance(balanced, ProbeError):
            unread += [balanced] if balanced.state is not SourceState.MISSING else []
            continue
        if balanced and not above:
            balancing.append(_cpuset(host, path))
        if not balanced and path != V1_ROOT:
            unbalanced.append(_cpuset(host, path))
        queue += [(f"{path}/{name}", above or balanced) for name in _below(host, path, unread)]
    return CpusetsV1(
        balancing=tuple(balancing),
        unbalanced=tuple(unbalanced),
        unread=tuple(unread),
        whole=not isinstance(attempt(host.read, f"{V1_ROOT}/{ONLY_IN_ROOT}"), ProbeError),
        cut=len(queue) > MAX_CPUSETS,
    )


def _below(host: Host, path: str, unread: list[ProbeError]) -> list[str]:
    try:
        names = host.listdir(path)
    except ProbeError as error:
        unread += [error] if error.state is not SourceState.MISSING else []
        return []
    files = ("cpuset", "cgroup")
    return [name for name in names if name not in NO_CGROUPS and not (name.partition(".")[0] in files and "." in name)]


def _cpuset(host: Host, path: str) -> CpusetV1:
    return CpusetV1(path=visible(path), cpus=_cpus(host, path), exclusive=attempt(_flag, host, f"{path}/{EXCLUSIVE}"))


def _cpus(host: Host, path: str) -> frozenset[int] | ProbeError:
    for name in ("cpuset.effective_cpus", "cpuset.cpus"):
        try:
            return read_cpulist(host, f"{path}/{name}")
        except ProbeError as error:
            failed = error
        if failed.state is not SourceState.MISSING:
            break
    return failed


def _flag(host: Host, path: str) -> bool:
    return parse_flag(host.read(path), path=path)


def parse_flag(text: str, *, path: str = "") -> bool:
    """A file that reads 0 or 1. Raises ProbeError: MASKED where it is empty, else MALFORMED."""
    if not text.strip():
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    if text not in ("0\n", "1\n"):
        raise ProbeError(path, f"neither 0 nor 1: {text.strip()[:40]!r}")
    return text == "1\n"
