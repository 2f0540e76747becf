"""The checksum of cpu_manager_state, as the kubelet makes it: FNV-1a of a dump of the Go structure, itself 0 in it.

The dump is that of go-spew's ``%#v``: maps sorted by key, items one blank apart, an empty map ``map[]``.
Sources: pkg/kubelet/checkpointmanager/checksum/checksum.go, pkg/util/hash (DeepHashObject), hash/fnv of Go.
"""

from __future__ import annotations

from collections.abc import Mapping

_OFFSET, _PRIME = 0x811C9DC5, 0x01000193


def fnv1a_32(text: str) -> int:
    """32-bit FNV-1a of a text in UTF-8."""
    value = _OFFSET
    for byte in text.encode("utf-8", "replace"):
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def dumps(file: Mapping[str, object], pods: Mapping[str, frozenset[int]]) -> dict[int, str]:
    """The dump that each version would hash for these keys; ``pods`` are the sets of podEntries."""
    entries = file.get("entries", {})
    head = f"PolicyName:(string){file.get('policyName')} DefaultCPUSet:(string){file.get('defaultCpuSet')}"
    by_pod = f"{head} Entries:(map[string]map[string]string){_dump(entries)}"
    whole = _dump({pod: _CpuSet(cpus) for pod, cpus in pods.items()})
    return {
        1: _struct(f"{head} Entries:(map[string]string){_dump(entries)}"),
        2: _struct(by_pod),
        3: _struct(f"{by_pod} PodEntries:(state.PodCPUAssignments){whole}"),
    }


def _struct(fields: str) -> str:
    return f"(*state.CPUManagerCheckpoint){{{fields} Checksum:(checksum.Checksum)0}}"


class _CpuSet:
    """A set of CPUs as a field of a dumped structure."""

    def __init__(self, cpus: frozenset[int]) -> None:
        self.cpus = cpus

    def __str__(self) -> str:
        elems = " ".join(f"{cpu}:{{}}" for cpu in sorted(self.cpus))
        return f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{elems}]}}}}"


def _dump(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)
    return "map[" + " ".join(f"{key}:{_dump(value[key])}" for key in sorted(value)) + "]"
