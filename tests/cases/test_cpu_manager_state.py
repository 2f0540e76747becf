"""States of real kubelets, their checksums recomputed."""

from __future__ import annotations

import re
from functools import cache

from auditor.kubelet_cpus import kubelet_cpus
from probes.cpu_manager_state import Assignment, Checksum, CpuManagerState, parse_cpu_manager_state
from probes.cpulist import format_cpulist
from probes.kubelet_config import Layer, configure
from tests.cases.claims import claim, cpus
from tests.probes.collected import CASES

KIND = "cpu_manager_state"
STRICT = {"strict-cpu-reservation": "true"}


@cache
def parsed(name: str) -> CpuManagerState:
    return parse_cpu_manager_state((CASES / KIND / f"{name}.json").read_text(encoding="utf-8"))


def owner(entry: Assignment) -> str:
    """As the answers name it: ``4aec46af…/mysqld``, ``cdc2c5cc531d…``."""
    return f"{entry.pod[:8]}…/{entry.container}" if entry.pod else f"{entry.container[:12]}…"


def in_neither_set(name: str) -> frozenset[int]:
    known = parsed(name).default | parsed(name).exclusive()
    return frozenset(range(max(known, default=-1) + 1)) - known


def assignments(name: str, match: re.Match[str]) -> None:
    found = parsed(name)
    assert (found.policy, found.default, len(found.default)) == (match[1], cpus(match[2]), int(match[3]))
    said = re.findall(r"(\S+) = (\S+) \((\d+) CPUs\)", match[4])
    assert bool(said) != (match[4] == "none")
    assert [(owner(entry), entry.cpus, len(entry.cpus)) for entry in found.entries] == [
        (who, cpus(text), int(count)) for who, text, count in said
    ]


def sets(name: str, match: re.Match[str]) -> None:
    found = parsed(name)
    assert (found.default & found.exclusive(), len(found.shared_by_pods())) == (frozenset(), int(match[1]))
    assert in_neither_set(name) == cpus(match[2])


def checksum(name: str, match: re.Match[str]) -> None:
    assert (parsed(name).version, parsed(name).checksum) == (int(match[2]), Checksum.RIGHT)
    text = (CASES / KIND / f"{name}.json").read_text(encoding="utf-8")
    other = text.replace(match[1], str(int(match[1]) - 1))
    assert other != text
    assert parse_cpu_manager_state(other).checksum is Checksum.WRONG


def exclusive(name: str, match: re.Match[str]) -> None:
    assert parsed(name).exclusive() == cpus(match[1])


def nobody_is_pinned(name: str, match: re.Match[str]) -> None:
    """An empty pool of policy none is no lack of CPUs: everyone runs everywhere, and nothing may be given away."""
    found = kubelet_cpus(parsed(name), configure([Layer(path="x", keys={})]), cpus("0-7"))
    assert (found.exclusive, found.shared, found.free, found.nobodys) == (
        cpus("none"),
        cpus("0-7"),
        *[cpus("none")] * 2,
    )


def reserved(name: str, match: re.Match[str]) -> None:
    """With the strict reservation that left them out, the holes are reserved ones and not lost; without it, unknown."""
    holes = cpus(match[1])
    assert in_neither_set(name) == holes
    keys = {"cpuManagerPolicy": "static", "reservedSystemCPUs": format_cpulist(holes)}
    config = configure([Layer(path="x", keys={**keys, "cpuManagerPolicyOptions": STRICT})])
    found = kubelet_cpus(parsed(name), config, parsed(name).default | holes)
    assert (found.reserved, found.nobodys, found.shared) == (holes, cpus("none"), parsed(name).default)
    unseen = kubelet_cpus(parsed(name), config, parsed(name).default | holes, flags_seen=False)
    assert (unseen.reserved, unseen.nobodys) == (None, None)


def whole_cores(name: str, match: re.Match[str]) -> None:
    step = int(match[1])
    assert parsed(name).entries
    for entry in parsed(name).entries:
        assert {cpu % step for cpu in entry.cpus} == {cpu for cpu in entry.cpus if cpu < step}
        assert len(entry.cpus) == 2 * len({cpu % step for cpu in entry.cpus})


def one_name_in_two_pods(name: str, match: re.Match[str]) -> None:
    found = {entry.pod[:8]: entry for entry in parsed(name).entries}
    assert len({entry.container for entry in found.values()}) == 1
    assert found[match[1]].cpus == cpus(match[2])
    assert found[match[3]].cpus == cpus(match[4])


CLAIMS = (
    claim(r"policy (\w+); shared pool (\S+) \((\d+) CPUs\); exclusive: (.*)", assignments),
    claim(
        r"pool/exclusive overlap: none; CPU assigned twice: (\d+); CPU ids below the maximum in neither set: (\S+)",
        sets,
    ),
    claim(r"checksum (\d+): valid \(recomputed FNV-32a, schema v(\d)\)", checksum),
    claim(r"exclusive (\S+)", exclusive),
    # cpuset.cpu_exclusive of cgroup v1, which the rest of that line is about, is read by nothing here.
    claim(r"exclusive (\S+); issue shows cpuset\.cpu_exclusive=0 .* no evidence of sharing", exclusive),
    claim(r"no exclusive CPU exists; .*", nobody_is_pinned),
    claim(r'ids in neither set \((\S+)\) = reservedSystemCPUs: must not be called "leaked"', reserved),
    claim(r"holes (\S+) = reserved", reserved),
    claim(r"each container owns whole cores \(siblings \+(\d+)\)", whole_cores),
    claim(r"pod (\w+) has CPUs (\S+) on NUMA node 1, pod (\w+) (\S+) on node 0", one_name_in_two_pods),
)
