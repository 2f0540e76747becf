"""CPUs of a host: online, possible, siblings, nodes, core types; silence is no answer."""

from __future__ import annotations

import pytest

from probes.host import DictHost, ProbeError, SourceState, TreeHost
from probes.topology import Topology, read_cpus, read_topology
from tests.probes.outcome import outcome

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def refused(value: object) -> tuple[SourceState, str]:
    assert isinstance(value, ProbeError)
    return value.state, value.reason


def test_a_full_host() -> None:
    host = DictHost(
        {
            f"{CPU}/online": "0-3\n",
            f"{CPU}/possible": "0-7\n",
            f"{CPU}/present": "0-4\n",
            **{f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}\n" for cpu in range(5)},
            f"{NODE}/node0/cpulist": "0,2\n",
            f"{NODE}/node1/cpulist": "1,3\n",
            f"{NODE}/node2/cpulist": "\n",  # memory only
            f"{NODE}/online": "0-2\n",
            "sys/devices/cpu_core/cpus": "0-1\n",
            "sys/devices/cpu_atom/cpus": "2-3\n",
            f"{CPU}/cpu0/cpu_capacity": "1024\n",
        }
    )
    found = read_topology(host)
    pairs = {0: frozenset({0, 2}), 1: frozenset({1, 3}), 2: frozenset({0, 2}), 3: frozenset({1, 3})}
    assert found == Topology(
        online=frozenset(range(4)),
        possible=frozenset(range(8)),
        present=frozenset(range(5)),
        siblings=pairs,
        node={0: 0, 2: 0, 1: 1, 3: 1},
        core_type={0: "cpu_core", 1: "cpu_core", 2: "cpu_atom", 3: "cpu_atom"},
    )
    assert [found.like(0, other) for other in range(4)] == [True, False, False, False]


def test_a_silent_host_says_nothing_and_all_cpus_are_alike() -> None:
    found = read_topology(DictHost({f"{CPU}/online": "0,2\n"}))
    both = frozenset({0, 2})
    assert found == Topology(online=both, possible=both, present=both, siblings={}, node={}, core_type={})
    assert found.like(0, 2)


def test_garbled_files_are_silence() -> None:
    host = DictHost(
        {
            f"{CPU}/online": "0-1\n",
            f"{CPU}/possible": "x\n",
            f"{CPU}/present": "0\n",  # cut: what is online is present
            f"{CPU}/cpu0/topology/thread_siblings_list": "x\n",
            f"{CPU}/cpu1/topology/thread_siblings_list": "\n",  # the CPU went offline meanwhile
            f"{NODE}/node0/cpulist": "?\n",
            f"{NODE}/node1234567/cpulist": "0\n",
            "sys/devices/cpu_core/cpus": "-\n",
            f"{CPU}/cpu0/cpu_capacity": "1_024\n",
            f"{CPU}/cpu1/cpu_capacity": "446\n",
        }
    )
    both = frozenset({0, 1})
    assert read_topology(host) == Topology(
        online=both, possible=both, present=both, siblings={}, node={}, core_type={1: "capacity 446"}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (SourceState.MASKED, "empty: masked")),
        ("\n", (SourceState.MASKED, "no CPU is online: masked or cut")),
        ("0-\n", (SourceState.MALFORMED, "no CPU list: '0-'")),
    ],
)
def test_without_online_cpus_there_is_no_topology(text: str, expected: tuple[SourceState, str]) -> None:
    assert refused(outcome(lambda: read_topology(DictHost({f"{CPU}/online": text})))) == expected


def test_online_that_is_missing_or_denied() -> None:
    assert refused(outcome(lambda: read_topology(DictHost({})))) == (SourceState.MISSING, "no such file")
    denied = ProbeError(f"{CPU}/online", "permission denied", SourceState.DENIED)
    assert outcome(lambda: read_topology(DictHost({f"{CPU}/online": denied}))) is denied


@pytest.mark.parametrize(("text", "cpus"), [("\n", set()), ("      (null)\n", set()), ("1,5\n", {1, 5})])
def test_lists_that_may_be_empty(text: str, cpus: set[int]) -> None:
    assert read_cpus(DictHost({f"{CPU}/nohz_full": text}), "nohz_full") == cpus


def test_this_machine() -> None:
    found = read_topology(TreeHost())
    assert found.online
    assert found.online <= found.present <= found.possible
    assert all(cpu in siblings for cpu, siblings in found.siblings.items())
