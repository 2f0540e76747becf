"""The faulty run: the whole audit of a good host, as on a live one, with faults at either end or at both."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from auditor.errors import UsageError
from auditor.model import Audit
from auditor.own import OwnRule
from auditor.policy import Policy
from auditor.session import Measured, judge, targets_of
from auditor.window import observe
from probes.host import DictHost, Host, ProbeError
from probes.snapshot import read_facts
from probes.threads import KTHREADD
from tests.auditor.build import FACTS
from tests.faults.faulty import OF_FILES, OF_FOLDERS, OF_OTHERS, Content, Fault, FaultyHost
from tests.faults.hosts import AUDITED, BALANCER, KEPT_SAMPLES, KUBELET_PID, MACHINES, SLEEPER, SPINNER, good

PHASES = ("t0", *KEPT_SAMPLES, "t1")
ENDS: Mapping[str, tuple[str, ...]] = {"t0": ("t0",), "t1": ("t1",), "both": PHASES}
RUN = replace(FACTS, requested_ms=40_000)


@lru_cache
def base(name: str) -> Mapping[str, DictHost]:
    """The good host, phase by phase."""
    return {phase: tree.host() for phase, tree in good(name).trees.items()}


class Asked:
    """A host that remembers what it was asked for: (operation, path)."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.asked: set[tuple[str, str]] = set()

    def read(self, path: str) -> str:
        self.asked.add(("read", path.strip("/")))
        return self.host.read(path)

    def listdir(self, path: str) -> list[str]:
        self.asked.add(("list", path.strip("/")))
        return self.host.listdir(path)

    def readlink(self, path: str) -> str:
        self.asked.add(("link", path.strip("/")))
        return self.host.readlink(path)

    def mode(self, path: str) -> int:
        self.asked.add(("mode", path.strip("/")))
        return self.host.mode(path)

    def mtime(self, path: str) -> int:
        self.asked.add(("mtime", path.strip("/")))
        return self.host.mtime(path)


@dataclass(kw_only=True)
class Timeline:
    """Hosts and times by phase."""

    hosts: Mapping[str, Host]
    times: Mapping[str, int]
    interrupted: bool = False

    def host(self, phase: str) -> Host:
        return self.hosts[phase]

    def now_ns(self, phase: str) -> int:
        return self.times[phase]

    def samples(self) -> Iterator[tuple[str, bool]]:
        for phase in KEPT_SAMPLES:
            yield phase, phase == KEPT_SAMPLES[-1]


def audit_of(name: str, hosts: Mapping[str, Host]) -> Audit | UsageError:
    """As a live run does it: nothing is refused but what a live run refuses."""
    first = hosts["t0"]
    try:
        targets = targets_of(first, "1,3")
        facts = read_facts(first, arch="x86_64")
        own = OwnRule(audited=targets.audited)
        timeline = Timeline(hosts=hosts, times=good(name).meta["times_ns"])  # type: ignore[arg-type]
        observation = observe(timeline, facts, targets, own)
    except ProbeError as error:
        return UsageError(str(error))  # auditor/session.py measure()
    except UsageError as error:
        return error
    return judge(Measured(observation=observation, targets=targets, own=own, run=RUN), Policy())


def faulty(
    name: str, faults: Mapping[str, Mapping[str, Content]], gone: Mapping[str, frozenset[str]]
) -> Audit | UsageError:
    """The audit with these contents by phase and path."""
    hosts = {
        phase: FaultyHost(host, faults.get(phase, {}), gone.get(phase, frozenset()))
        for phase, host in base(name).items()
    }
    return audit_of(name, hosts)


@lru_cache
def asked(name: str) -> Mapping[str, frozenset[tuple[str, str]]]:
    """What a good run asks for, by phase."""
    hosts = {phase: Asked(host) for phase, host in base(name).items()}
    found = audit_of(name, hosts)
    assert isinstance(found, Audit), found
    return {phase: frozenset(host.asked) for phase, host in hosts.items()}


@dataclass(frozen=True, kw_only=True)
class Source:
    """Files that say the same of several CPUs, interrupts or threads: one operation on paths of one pattern."""

    operation: str
    pattern: str
    paths: Mapping[str, tuple[str, ...]]
    """Those that a good run asks for, by phase."""

    @property
    def name(self) -> str:
        return self.pattern if self.operation == "read" else f"{self.operation} {self.pattern}"


WHO: Mapping[int, str] = {
    SPINNER: "own",
    SLEEPER: "own",
    KTHREADD: "kthreadd",
    BALANCER: "irqbalance",
    KUBELET_PID: "kubelet",
}
_PATTERNS = (
    (r"proc/irq/\d+", "proc/irq/*"),
    (r"/cpu\d+(?=/)", "/cpu*"),
    (r"/state\d+(?=/)", "/state*"),
    (r"/policy\d+(?=/)", "/policy*"),
    (r"/node\d+(?=/)", "/node*"),
    (r"sys/class/net/\w+", "sys/class/net/*"),
    (r"sys/fs/cgroup/.+(?=/)", "sys/fs/cgroup/**"),
    (r"workqueue/\w+(?=/)", "workqueue/*"),
    (r"boot/config-.*", "boot/config-*"),
)


def pattern_of(name: str, path: str) -> str:
    """The pattern that stands for a path; those of threads say whose."""
    if match := re.match(r"proc/(\d+)(.*)", path):
        pid, rest = int(match[1]), re.sub(r"/task/\d+", "/task/*", match[2])
        return f"proc/<{_whose(name, pid)}>{rest}"
    for found, instead in _PATTERNS:
        path = re.sub(found, instead, path)
    return path


@lru_cache
def _whose(name: str, pid: int) -> str:
    thread = next((thread for thread in MACHINES[name]().threads if thread.pid == pid), None)
    bound = thread is not None and thread.kernel and thread.allowed <= AUDITED
    return WHO.get(pid, "bound" if bound else "other")


@lru_cache
def sources(name: str) -> tuple[Source, ...]:
    """Everything that the audit of a good host asks for, by pattern."""
    found: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for phase, operations in asked(name).items():
        for operation, path in sorted(operations):
            found[operation, pattern_of(name, path)][phase].append(path)
    return tuple(
        Source(operation=key[0], pattern=key[1], paths={phase: tuple(paths) for phase, paths in value.items()})
        for key, value in sorted(found.items())
    )


FAULTS: Mapping[str, Mapping[str, Fault]] = {
    "read": OF_FILES,
    "list": OF_FOLDERS,
    "link": OF_OTHERS,
    "mode": OF_OTHERS,
    "mtime": OF_OTHERS,
}


@dataclass(frozen=True, kw_only=True)
class Combination:
    """One source of a good host with one fault, at one end or at both."""

    host: str
    source: Source
    fault: str
    end: str

    @property
    def contents(self) -> dict[str, dict[str, Content]]:
        """What is read instead; nothing where the fault changes nothing."""
        found: dict[str, dict[str, Content]] = {}
        for phase in ENDS[self.end]:
            for path in self.source.paths.get(phase, ()):
                text = self._text(phase, path)
                content = FAULTS[self.source.operation][self.fault](path, text or "")
                if content != text and not (text is None and self.fault == "missing"):
                    key = f"{self.source.operation} {path}" if self.source.operation in ("mode", "mtime") else path
                    found.setdefault(phase, {})[key] = content
        return found

    def _text(self, phase: str, path: str) -> str | None:
        """What is there, None where nothing is; of what has no text "?"."""
        host = base(self.host)[phase]
        look = {"read": host.read, "list": host.listdir, "link": host.readlink, "mode": host.mode, "mtime": host.mtime}[
            self.source.operation
        ]
        try:
            found = look(path)
        except ProbeError:
            return None
        return found if self.source.operation == "read" and isinstance(found, str) else "?"

    def run(self) -> Audit | UsageError:
        """The audit under this fault."""
        return faulty(self.host, self.contents, {})


def combinations(name: str) -> list[Combination]:
    """Every source × fault × end of a good host, without those that change nothing."""
    product = [
        Combination(host=name, source=source, fault=fault, end=end)
        for source in sources(name)
        for fault in FAULTS[source.operation]
        for end in ENDS
    ]
    return [combination for combination in product if combination.contents]
