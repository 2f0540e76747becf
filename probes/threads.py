"""Threads of a host: who exists, who ran, where.

Order matters on a nohz_full host: ``schedstat`` and ``status`` take no run queue lock, ``stat`` does
(task_cputime_adjusted → task_sched_runtime locks the run queue of the CPU the thread is on). So growth is read from
``schedstat``, what a thread is from ``status``, and ``stat`` is read only of threads that switched, never of one that
keeps running.
Sources: fs/proc/array.c, fs/proc/base.c, Documentation/scheduler/sched-stats.rst, cgroups(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from probes.counters import parse_count
from probes.cpulist import parse_cpulist
from probes.host import Host, ProbeError, SourceState

MAX_STATUS = 2 << 20
"""Characters; a process in all of its 65536 groups has three quarters of a mebibyte."""
STAT_PROCESSOR = 36
"""Index behind the closing parenthesis of comm; field 39 of proc(5)."""
MAX_THREADS = 400_000
KTHREADD = 2
_ID = re.compile(r"[1-9]\d{0,9}", re.ASCII)
_SERVICE = re.compile(r"(?:ktimers|ksoftirqd|rcuc|irq_work|migration)/[0-9]{1,6}", re.ASCII)
_FEEDS_NOTHING = re.compile(r"kworker/[0-9]{1,6}:[0-9]{1,6}H?(?:[-+]kblockd)?", re.ASCII)
_IRQ_THREAD = re.compile(r"irq/([0-9]{1,6})-", re.ASCII)


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
    """What a thread is. ``name`` is as printed: line ends and backslashes of comm are escaped."""

    name: str
    state: str
    kernel: bool
    parent_pid: int
    allowed: frozenset[int]
    voluntary_switches: int
    involuntary_switches: int


def thread_irq(status: ThreadStatus) -> int | None:
    """The interrupt that a kernel thread handles, by its name (kernel/irq/manage.c: ``irq/30-eth0``)."""
    match = _IRQ_THREAD.match(status.name) if status.kernel else None
    return int(match[1]) if match else None


def is_service(status: ThreadStatus) -> bool:
    """Whether it does for its CPU what other kernels do in interrupts: timers, softirqs, RCU, pushing threads away.

    No such thread is anyone's, and none submits I/O of its own accord.
    """
    return status.kernel and len(status.allowed) == 1 and _SERVICE.fullmatch(status.name) is not None


def feeds_nothing(status: ThreadStatus) -> bool:
    """Whether it brings a CPU's managed queues no I/O but what was submitted on that CPU.

    Services do not, nor does kblockd: a request keeps the queue that its submitter's CPU gave it (block/blk-mq.c).
    A worker bears the name of whom it worked for last, one without has not worked yet (wq_worker_comm(), since 4.18).
    """
    worker = status.kernel and len(status.allowed) == 1 and _FEEDS_NOTHING.fullmatch(status.name) is not None
    return worker or is_service(status)


def list_threads(host: Host, unread: list[ProbeError] | None = None) -> list[ThreadKey]:
    """All threads that can be seen; raises ProbeError where /proc can't be listed or shows no process at all.

    ``unread`` receives the processes that exist and whose threads can't be listed.
    """
    keys: list[ThreadKey] = []
    for pid in _numbers(host.listdir("proc")):
        try:
            keys += [ThreadKey(pid=pid, tid=tid) for tid in _numbers(host.listdir(f"proc/{pid}/task"))]
        except ProbeError as error:
            if unread is not None and error.state is not SourceState.MISSING:  # missing: it ended meanwhile
                unread.append(error)
            continue
        if len(keys) > MAX_THREADS:
            raise ProbeError("proc", f"more than {MAX_THREADS} threads")
    if not keys:
        raise ProbeError("proc", "no process is visible", SourceState.MISSING)
    return keys


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(name) for name in names if _ID.fullmatch(name))


def parse_thread_schedstat(text: str, *, path: str = "schedstat") -> ThreadRun:
    """``run_ns wait_ns switches`` of /proc/PID/task/TID/schedstat (fs/proc/base.c proc_pid_schedstat)."""
    fields = text.split()
    counts = [count for field in fields if (count := parse_count(field)) is not None]
    if len(fields) != 3 or len(counts) != 3 or not text.endswith("\n"):
        raise ProbeError(path, "not a line of three numbers")
    return ThreadRun(run_ns=counts[0], switches=counts[2])


def parse_status(text: str, *, path: str = "status") -> ThreadStatus:
    """/proc/PID/task/TID/status. The kernel escapes line ends in Name, so no thread can forge a field."""
    if not text.endswith("\n") or len(text) > MAX_STATUS:
        raise ProbeError(path, "cut, or longer than any status")
    text = "\n" + text
    if text.count("\nName:") > 1:
        raise ProbeError(path, "two fields Name: several snapshots in one file")
    return ThreadStatus(
        name=_field(text, "Name", path),
        state=_field(text, "State", path)[:1],
        kernel=_is_kernel(text, path),
        parent_pid=_number(text, "PPid", path),
        allowed=_cpulist(_field(text, "Cpus_allowed_list", path), path),
        voluntary_switches=_number(text, "voluntary_ctxt_switches", path),
        involuntary_switches=_number(text, "nonvoluntary_ctxt_switches", path),
    )


def _value(text: str, field: str) -> str | None:
    """What stands behind ``field:`` at the start of a line, None where no line starts so."""
    start = text.find(f"\n{field}:")
    if start < 0:
        return None
    start += len(field) + 2
    return text[start : text.index("\n", start)].strip(" \t")


def _field(text: str, field: str, path: str) -> str:
    value = _value(text, field)
    if value is None:
        raise ProbeError(path, f"no field {field}")
    return value


def _number(text: str, field: str, path: str) -> int:
    value = _field(text, field, path)
    number = parse_count(value)
    if number is None:
        raise ProbeError(path, f"{field} is not a number: {value[:40]!r}")
    return number


def _is_kernel(text: str, path: str) -> bool:
    """``Kthread`` says it since 6.10. Before, a kernel thread has no memory and is kthreadd or a child of it.

    No memory (no ``Vm…`` lines) alone is not enough: a user thread gives it up when it ends, before it is a zombie.
    """
    told = _value(text, "Kthread")
    if told in ("0", "1"):
        return told == "1"
    if "\nVm" in text or _field(text, "State", path)[:1] in ("Z", "X", "x"):
        return False
    return str(KTHREADD) in (_field(text, "PPid", path), _value(text, "Pid"))


@lru_cache(maxsize=1024)
def _shared_cpulist(text: str) -> frozenset[int]:
    """Thousands of threads have a few masks: each is parsed once and kept once."""
    return parse_cpulist(text)


def _cpulist(text: str, path: str) -> frozenset[int]:
    try:
        return _shared_cpulist(text)
    except ProbeError as error:
        raise ProbeError(path, error.reason) from None


def parse_processor(text: str, *, path: str = "stat") -> int:
    """Field 39 of /proc/PID/task/TID/stat: the CPU the thread last ran on.

    comm is raw and may hold anything, so cut at the last ``)``. Fields follow on every kernel: without them it is cut.
    """
    _, closed, rest = text.rpartition(")")
    fields = rest.split(None, STAT_PROCESSOR + 1)
    processor = parse_count(fields[STAT_PROCESSOR]) if len(fields) > STAT_PROCESSOR + 1 else None
    if not closed or processor is None:
        raise ProbeError(path, "no processor field")
    return processor


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
    """Whether the kernel keeps per-thread schedstat: the first thread that ran tells.

    With CONFIG_TASK_DELAY_ACCT alone and delay accounting off, the file is there and reads ``0 0 0`` for everyone.
    """
    for key in keys:
        try:
            if read_run(host, key, schedstat=True).switches:
                return True
        except ProbeError:
            try:
                host.read(f"{key.path}/status")
            except ProbeError:
                continue  # gone meanwhile
            return False
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


def moved(before: Mapping[ThreadKey, ThreadRun], after: Mapping[ThreadKey, ThreadRun]) -> list[ThreadKey]:
    """Threads that were switched to in between, new ones included."""
    return [key for key, run in after.items() if key not in before or before[key].switches != run.switches]


def read_cgroup(host: Host, pid: int) -> str:
    """The cgroup path of a process; "" where unknown."""
    try:
        return parse_cgroup(host.read(f"proc/{pid}/cgroup"))
    except ProbeError:
        return ""


def parse_cgroup(text: str) -> str:
    """The path that says most in ``hierarchy:controllers:path`` lines: of v2, cpuset or systemd (v1); "" without any.

    On a hybrid host some hierarchies hold everything in their root: ``/`` is taken only where no other one says more.
    """
    paths: dict[str, str] = {}
    for line in text.split("\n"):
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            paths.update(dict.fromkeys(controllers.split(","), path))
    known = [paths[name] for name in ("", "cpuset", "name=systemd") if name in paths]
    return next((path for path in known if path != "/"), known[0] if known else "")
