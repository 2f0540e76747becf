"""Threads of a host: who exists, who ran, where.

Order matters on a nohz_full host: ``schedstat`` and ``status`` take no run queue lock, ``stat`` does (task_cputime_adjusted →
task_sched_runtime locks the run queue of the CPU the thread is on). So growth is read from ``schedstat``, what a thread is from
``status``, and ``stat`` is read only of threads that switched, never of one that keeps running.
Sources: fs/proc/array.c, fs/proc/base.c, Documentation/scheduler/sched-stats.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from probes.cpulist import parse_cpulist
from probes.host import Host, ProbeError, SourceState

STATUS_FIELD = re.compile(r"^([A-Za-z_]+):[ \t]*(.*)$", re.MULTILINE)
STAT_PROCESSOR = 36
"""Index behind the closing parenthesis of comm; field 39 of proc(5)."""
MAX_THREADS = 400_000


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class ThreadKey:
    """One thread. Ids are recycled: a counter that fell means another thread."""

    pid: int
    tid: int

    @property
    def path(self) -> str:
        """Its directory."""
        return f"proc/{self.pid}/task/{self.tid}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadRun:
    """How often a thread was switched to, and for how long it ran; ``run_ns`` is None without CONFIG_SCHED_INFO."""

    switches: int
    run_ns: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadStatus:
    """What a thread is. A user thread has memory (``Vm…`` lines), a kernel thread has none and is no zombie."""

    name: str
    state: str
    kernel: bool
    parent_pid: int
    allowed: frozenset[int]
    voluntary_switches: int
    involuntary_switches: int


def list_threads(host: Host) -> list[ThreadKey]:
    """All threads that can be seen; raises ProbeError where /proc can't be listed or shows no process at all."""
    keys: list[ThreadKey] = []
    for pid in _numbers(host.listdir("proc")):
        try:
            keys += [ThreadKey(pid=pid, tid=tid) for tid in _numbers(host.listdir(f"proc/{pid}/task"))]
        except ProbeError:
            continue  # the process ended
        if len(keys) > MAX_THREADS:
            raise ProbeError("proc", f"more than {MAX_THREADS} threads")
    if not keys:
        raise ProbeError("proc", "no process is visible", SourceState.MISSING)
    return keys


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdecimal() and name.isascii())


def parse_thread_schedstat(text: str, *, path: str = "schedstat") -> ThreadRun:
    """``run_ns wait_ns switches`` of /proc/PID/task/TID/schedstat (fs/proc/base.c proc_pid_schedstat)."""
    fields = text.split()
    if len(fields) != 3 or not all(field.isdecimal() for field in fields):
        raise ProbeError(path, "not three numbers")
    return ThreadRun(run_ns=int(fields[0]), switches=int(fields[2]))


def parse_status(text: str, *, path: str = "status") -> ThreadStatus:
    """/proc/PID/task/TID/status. The kernel escapes newlines in Name, so no thread can forge a field."""
    fields = {match[1]: match[2].strip() for match in STATUS_FIELD.finditer(text)}
    try:
        state = fields["State"][:1]
        has_memory = any(name.startswith("Vm") for name in fields)
        return ThreadStatus(
            name=fields["Name"],
            state=state,
            kernel=not has_memory and state not in ("Z", "X"),
            parent_pid=int(fields["PPid"]),
            allowed=parse_cpulist(fields["Cpus_allowed_list"], path=path),
            voluntary_switches=int(fields["voluntary_ctxt_switches"]),
            involuntary_switches=int(fields["nonvoluntary_ctxt_switches"]),
        )
    except KeyError as missing:
        raise ProbeError(path, f"no field {missing.args[0]}") from None
    except ValueError:
        raise ProbeError(path, "a number is garbled") from None


def parse_processor(text: str, *, path: str = "stat") -> int:
    """Field 39 of /proc/PID/task/TID/stat: the CPU the thread last ran on. comm may hold anything, so cut at the last ``)``."""
    _, closed, rest = text.rpartition(")")
    fields = rest.split()
    if not closed or len(fields) <= STAT_PROCESSOR or not fields[STAT_PROCESSOR].isdecimal():
        raise ProbeError(path, "no processor field")
    return int(fields[STAT_PROCESSOR])


def read_run(host: Host, key: ThreadKey, *, schedstat: bool) -> ThreadRun:
    """One thread's growth counters; from ``status`` where the kernel has no schedstat (switches away, not to)."""
    if schedstat:
        path = f"{key.path}/schedstat"
        return parse_thread_schedstat(host.read(path), path=path)
    status = read_status(host, key)
    return ThreadRun(run_ns=None, switches=status.voluntary_switches + status.involuntary_switches)


def read_status(host: Host, key: ThreadKey) -> ThreadStatus:
    """One thread's status."""
    path = f"{key.path}/status"
    return parse_status(host.read(path), path=path)


def read_processor(host: Host, key: ThreadKey) -> int:
    """The CPU a thread last ran on. Takes that CPU's run queue lock: not for a thread that keeps running there."""
    path = f"{key.path}/stat"
    return parse_processor(host.read(path), path=path)


def has_schedstat(host: Host, keys: Iterable[ThreadKey]) -> bool:
    """Whether the kernel keeps per-thread schedstat: the first thread that still exists tells."""
    for key in keys:
        try:
            host.read(f"{key.path}/schedstat")
        except ProbeError:
            try:
                host.read(f"{key.path}/status")
            except ProbeError:
                continue  # gone meanwhile
            return False
        return True
    return False


def read_runs(host: Host, keys: Iterable[ThreadKey], *, schedstat: bool) -> dict[ThreadKey, ThreadRun]:
    """Growth counters of the threads that still exist."""
    runs: dict[ThreadKey, ThreadRun] = {}
    for key in keys:
        try:
            runs[key] = read_run(host, key, schedstat=schedstat)
        except ProbeError:
            continue
    return runs


def read_statuses(host: Host, keys: Iterable[ThreadKey]) -> dict[ThreadKey, ThreadStatus]:
    """What the threads that still exist are."""
    found: dict[ThreadKey, ThreadStatus] = {}
    for key in keys:
        try:
            found[key] = read_status(host, key)
        except ProbeError:
            continue
    return found


def moved(before: Mapping[ThreadKey, ThreadRun], after: Mapping[ThreadKey, ThreadRun]) -> list[ThreadKey]:
    """Threads that were switched to in between, new ones included."""
    return [key for key, run in after.items() if key not in before or before[key].switches != run.switches]


def read_cgroup(host: Host, pid: int) -> str:
    """The cgroup path of a process: the v2 line, else cpuset's (v1), as cgroups(7) lists them; "" where unknown."""
    try:
        lines = host.read(f"proc/{pid}/cgroup").splitlines()
    except ProbeError:
        return ""
    paths = {
        controllers: path for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2)
    }
    by_cpuset = next((path for names, path in paths.items() if "cpuset" in names.split(",")), "")
    return by_cpuset or paths.get("", "")
