"""cpu_manager_state: the CPUs that the kubelet's CPU manager gave to containers, in every form it was written in.

One line of JSON. v0 (1.8) and v1 (1.10) name containers by their id, v2 (1.18) by pod and name, v3 (1.36, gate
PodLevelResourceManagers) adds sets of whole pods, v4 (1.37) repeats everything in ``data``, which then counts.
Sources: pkg/kubelet/cm/cpumanager/state/checkpoint.go, pkg/kubelet/checkpointmanager/checksum.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from probes.cpu_manager_checksum import dumps, fnv1a_32
from probes.cpulist import parse_cpulist
from probes.host import Host, ProbeError, SourceState, visible

FILE = "cpu_manager_state"
ROOT_DIR = "var/lib/kubelet"
MAX_TEXT = 4 << 20
"""Characters; 10000 containers take less than half of it."""
_CPUSET = re.compile(r"(?:[0-9][0-9,-]*)?", re.ASCII)


class Checksum(str, Enum):
    """What the file's own checksum says about it. The kubelet refuses to start on a wrong one and accepts an absent."""

    RIGHT = "right"
    WRONG = "wrong"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    """There is one, but how it is made is not known (``data`` with ``checksum`` alone, for some days before 1.37)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """CPUs of one container, or of a pod as a whole."""

    pod: str
    """UID; of a static pod the hash of its configuration, 32 digits. "" where the file names containers by id."""
    container: str
    """Name, or id where ``pod`` is ""; "" for a pod as a whole."""
    cpus: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuManagerState:
    """What the file says. It may be stale: it outlives the kubelet, its policy and the pods."""

    version: int | None
    """0 to 4; None where nothing is assigned and no checksum tells."""
    policy: str
    default: frozenset[int]
    """The shared pool now. Empty with policy ``none``: nobody is pinned, not "no CPU"."""
    entries: tuple[Assignment, ...]
    pod_entries: tuple[Assignment, ...]
    checksum: Checksum

    def exclusive(self) -> frozenset[int]:
        """CPUs assigned to any container or pod."""
        return frozenset(chain.from_iterable(entry.cpus for entry in (*self.entries, *self.pod_entries)))

    def shared_by_pods(self) -> frozenset[int]:
        """CPUs assigned to more than one pod. Within a pod init containers hand theirs on: that is no fault."""
        owned: dict[str, set[int]] = {}
        for entry in (*self.entries, *self.pod_entries):
            owned.setdefault(entry.pod or entry.container, set()).update(entry.cpus)
        counted = Counter(chain.from_iterable(owned.values()))
        return frozenset(cpu for cpu, pods in counted.items() if pods > 1)


def read_cpu_manager_state(host: Host, root_dir: str = ROOT_DIR) -> CpuManagerState:
    """The state below a kubelet's root directory. Only root may read it (mode 0600)."""
    path = f"{root_dir.rstrip('/')}/{FILE}"
    return parse_cpu_manager_state(host.read(path), path=path)


def parse_cpu_manager_state(text: str, *, path: str = f"{ROOT_DIR}/{FILE}") -> CpuManagerState:
    """The content of cpu_manager_state. ProbeError: MASKED where empty, MALFORMED where torn or of no known form."""
    if not text.strip():
        raise ProbeError(path, "empty", SourceState.MASKED)
    file = _load(text, path)
    data = file.get("data")
    if data in (None, ""):
        return _parse_state(file, path)
    if not isinstance(data, str):
        raise ProbeError(path, "data is no string")
    return _parse_state(_load(data, path), path, version=4, checksum=_data_checksum(file, data, path))


def _load(text: str, path: str) -> dict[str, object]:
    if len(text) > MAX_TEXT:
        raise ProbeError(path, f"longer than {MAX_TEXT} characters")
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ProbeError(path, f"no JSON: {visible(str(error))[:100]}") from None
    return _object(found, "the file", path)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _object(value: object, what: str, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ProbeError(path, f"{what} is no JSON object")
    return value


def _string(value: object, what: str, path: str) -> str:
    if not isinstance(value, str):
        raise ProbeError(path, f"{what} is no string")
    return value


def _number(file: dict[str, object], key: str, path: str) -> int:
    value = file.get(key, 0)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise ProbeError(path, f"{key} is no 32-bit number")
    return value


def _cpuset(value: object, what: str, path: str) -> frozenset[int]:
    text = _string(value, what, path)
    if not _CPUSET.fullmatch(text):
        raise ProbeError(path, f"{what} is no CPU list: {text[:40]!r}")
    return parse_cpulist(text, path=path)


def _data_checksum(file: dict[str, object], data: str, path: str) -> Checksum:
    wanted = _number(file, "dataChecksum", path)
    if wanted:
        return Checksum.RIGHT if wanted == fnv1a_32(f"(string){data}") else Checksum.WRONG
    return Checksum.UNKNOWN if _number(file, "checksum", path) else Checksum.ABSENT


def _parse_state(
    file: dict[str, object], path: str, *, version: int | None = None, checksum: Checksum | None = None
) -> CpuManagerState:
    """The keys that all forms have; without ``version`` the form is told by what is there, and by the checksum."""
    policy = _string(file.get("policyName"), "policyName", path)
    if not policy:
        raise ProbeError(path, "policyName is empty")
    default = _cpuset(file.get("defaultCpuSet"), "defaultCpuSet", path)
    entries = _entries(_object(file.get("entries", {}), "entries", path), path)
    pods = _pod_entries(_object(file.get("podEntries", {}), "podEntries", path), path)
    if checksum is None:
        version, checksum = _judge(file, entries, pods, path)
    return CpuManagerState(
        version=version, policy=visible(policy), default=default, entries=entries, pod_entries=pods, checksum=checksum
    )


def _entries(found: dict[str, object], path: str) -> tuple[Assignment, ...]:
    if all(isinstance(value, str) for value in found.values()):
        return tuple(_assignment("", name, value, path) for name, value in found.items())
    if "" in found:
        raise ProbeError(path, "a pod of entries has no UID")
    pods = {pod: _object(value, f"entries.{pod}", path) for pod, value in found.items()}
    return tuple(_assignment(pod, name, value, path) for pod, names in pods.items() for name, value in names.items())


def _pod_entries(found: dict[str, object], path: str) -> tuple[Assignment, ...]:
    pods = {pod: _object(value, f"podEntries.{pod}", path) for pod, value in found.items()}
    return tuple(_assignment(pod, "", value.get("cpuSet"), path) for pod, value in pods.items())


def _assignment(pod: str, container: str, value: object, path: str) -> Assignment:
    cpus = _cpuset(value, f"the set of {container or pod}", path)
    return Assignment(pod=visible(pod), container=visible(container), cpus=cpus)


def _judge(
    file: dict[str, object], entries: tuple[Assignment, ...], pods: tuple[Assignment, ...], path: str
) -> tuple[int | None, Checksum]:
    """The version, and whether the checksum is that of the version: of one that fits, where no entry tells."""
    by_id = bool(entries) and not entries[0].pod
    fits = [3] if pods else [1] if by_id else [2, 3] if entries else [2, 1, 3]
    wanted = _number(file, "checksum", path)
    if not wanted:
        return 0 if "checksum" not in file and (by_id or not (entries or pods)) else _only(fits), Checksum.ABSENT
    found = dumps(file, {pod.pod: pod.cpus for pod in pods})
    right = next((version for version in fits if fnv1a_32(found[version]) == wanted), None)
    return (right, Checksum.RIGHT) if right is not None else (_only(fits), Checksum.WRONG)


def _only(fits: list[int]) -> int | None:
    """Where v3 fits as well as v2, v2 is what is written unless a gate is set."""
    return None if len(fits) > 2 else fits[0]
