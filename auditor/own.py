"""Whose CPUs these are: the threads of the own workload, which are not noise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from auditor.errors import UsageError
from probes.snapshot import Census
from probes.threads import KTHREADD, ThreadKey

INIT = 1
KTHREADD_KEY = ThreadKey(pid=KTHREADD, tid=KTHREADD)
"""Where it is seen, PID 1 is the host's init; in a PID namespace PID 1 may be the workload itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRule:
    """How own threads are recognised: by ``workload`` (pid, comm, unit or cgroup) or as ours, else by affinity."""

    audited: frozenset[int]
    workload: str | None = None
    work_pids: frozenset[int] = frozenset()
    irqs: tuple[str, ...] = ()
    """Numbers and shell patterns of action names: own interrupts (auditor/own_irqs.py)."""
    work_timer_hz: float | None = None
    """Timer wake-ups per second and thread, where the workload is ours and we know them."""
    tool_pid: int | None = None
    """This process, on the host that it audits."""

    @property
    def source(self) -> str:
        """What the document says of where the ownership comes from."""
        if self.workload is not None:
            return "workload"
        return "work" if self.work_pids else "affinity"

    def threads(self, census: Census) -> frozenset[ThreadKey]:
        """Own threads among those of a census. Kernel threads are nobody's."""
        pids = self._pids(census)
        if pids is not None:
            return frozenset(key for key in census.statuses if key.pid in pids and not census.statuses[key].kernel)
        return frozenset(
            key
            for key, status in census.statuses.items()
            if not status.kernel and status.allowed and status.allowed <= self.audited
        )

    def _pids(self, census: Census) -> frozenset[int] | None:
        """Own processes, None where affinity decides."""
        if self.workload is None:
            return self.work_pids or None
        return _workload_pids(self.workload, census) | self.work_pids

    def check(self, census: Census) -> None:
        """Raises UsageError where --workload names nothing that runs here, or everything: then no one is foreign."""
        if self.workload is None:
            return
        pids = _workload_pids(self.workload, census)
        if not pids:
            raise UsageError(
                f"--workload {self.workload!r}: no such process, unit or cgroup is visible; "
                "give a PID, a command name, a unit (name.service) or a cgroup path (/…)"
            )
        init = {INIT} if KTHREADD_KEY in census.statuses else set()
        if pids & (init | {self.tool_pid}):
            what = "PID 1" if pids & init else "this tool"
            raise UsageError(
                f"--workload {self.workload!r}: with {what} among it, it names the whole host: "
                "name the process, unit or container that the CPUs belong to"
            )


def _workload_pids(workload: str, census: Census) -> frozenset[int]:
    if workload.isdecimal():
        return _descendants(int(workload), census)
    if workload.startswith("/"):
        below = workload.rstrip("/") + "/"
        return frozenset(pid for pid, path in census.cgroups.items() if (path.rstrip("/") + "/").startswith(below))
    if workload.endswith((".service", ".scope", ".slice")):
        return frozenset(pid for pid, path in census.cgroups.items() if workload in path.split("/"))
    return frozenset(
        key.pid for key, status in census.statuses.items() if status.name == workload and not status.kernel
    )


def _descendants(root: int, census: Census) -> frozenset[int]:
    children: dict[int, set[int]] = {}
    for key, status in census.statuses.items():
        children.setdefault(status.parent_pid, set()).add(key.pid)
    found: set[int] = set()
    queue = [root] if any(key.pid == root for key in census.statuses) else []
    for pid in queue:
        found.add(pid)
        queue += sorted(children.get(pid, set()) - found)
    return frozenset(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A cgroup, or a process outside of any, that own threads belong to; with the name of its first thread."""

    name: str
    pid: int
    where: str


def owners(census: Census, threads: Collection[ThreadKey]) -> tuple[Owner, ...]:
    """Who the threads belong to, by process id. Threads that are no more belong to nobody."""
    found: dict[str, Owner] = {}
    for key in sorted(threads):
        if key in census.statuses:
            cgroup = census.cgroups.get(key.pid, "")
            where = cgroup if len(cgroup) > 1 else f"process {key.pid}"
            found.setdefault(where, Owner(name=census.statuses[key].name, pid=key.pid, where=where))
    return tuple(found.values())


def unrelated(rule: OwnRule, found: Collection[Owner]) -> bool:
    """Whether affinity made several owners out of threads that may have nothing to do with each other."""
    return rule.source == "affinity" and len(found) > 1


def describe(rule: OwnRule, census: Census, threads: Collection[ThreadKey]) -> str:
    """Who it is, for the report: names with their process ids, at most four."""
    several = owners(census, threads)
    if unrelated(rule, several):
        who = _listed([(owner.name, owner.pid) for owner in several])
        return f"{len(several)} unrelated owners: {who}; name yours with --workload"
    who = _listed(sorted({(census.statuses[key].name, key.pid) for key in threads if key in census.statuses}))
    how = {"workload": "", "work": "started by this run: ", "affinity": "allowed only on these CPUs: "}[rule.source]
    return how + who if who else "no thread"


def _listed(people: Sequence[tuple[str, int]]) -> str:
    more = f" and {len(people) - 4} more" if len(people) > 4 else ""
    return ", ".join(f"{name} ({pid})" for name, pid in people[:4]) + more
