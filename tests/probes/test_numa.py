"""Memory nodes, their huge pages, and where own processes may have and have memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.numa import (
    POOL_DIR,
    Numa,
    OwnMemory,
    Pool,
    parse_allowed,
    parse_placed,
    read_numa,
    read_own_memory,
)
from probes.snapshot import OwnLimits, read_limits
from probes.threads import ThreadKey
from probes.topology import NODE_DIR
from tests.auditor.build import cpus
from tests.probes.outcome import outcome
from tests.probes.replay import replayed

Files = dict[str, str | ProbeError]
DENIED = ProbeError("x", "permission denied", SourceState.DENIED)
LEAF = "sys/fs/cgroup/app.slice"
NUMA_STAT = "anon N0=8192 N1=4096\nfile N0=1 N1=1\nshmem N0=0 N1=100\nanon_thp N0=4096 N1=0\n"


def pool(directory: str, total: int, free: int, reserved: int | None = None) -> Files:
    files: Files = {f"{directory}/nr_hugepages": f"{total}\n", f"{directory}/free_hugepages": f"{free}\n"}
    return files if reserved is None else {**files, f"{directory}/resv_hugepages": f"{reserved}\n"}


FILES: Files = {
    f"{NODE_DIR}/node0/cpulist": "0-1\n",
    f"{NODE_DIR}/node1/cpulist": "2-3\n",
    f"{NODE_DIR}/node7/cpulist": "\n",
    f"{NODE_DIR}/has_memory": "0-1,7\n",
    f"{NODE_DIR}/online": "0-1,7\n",
    **pool(f"{POOL_DIR}/hugepages-2048kB", 512, 100, 7),
    **pool(f"{POOL_DIR}/hugepages-1048576kB", 0, 0, 0),
    **pool(f"{NODE_DIR}/node0/hugepages/hugepages-2048kB", 0, 0),
    **pool(f"{NODE_DIR}/node1/hugepages/hugepages-2048kB", 512, 100),
}


def test_a_full_host() -> None:
    found = read_numa(DictHost(FILES))
    assert found == Numa(
        cpus={0: cpus(0, 1), 1: cpus(2, 3), 7: cpus()},
        memory=frozenset({0, 1, 7}),
        pools={2048: Pool(total=512, free=100, reserved=7), 1048576: Pool(total=0, free=0, reserved=0)},
        node_pools={0: {2048: Pool(total=0, free=0)}, 1: {2048: Pool(total=512, free=100)}, 7: {}},
    )
    assert [found.node_of(cpu) for cpu in (1, 2, 9)] == [0, 1, None]


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({}, SourceState.MISSING),
        ({NODE_DIR: DENIED}, SourceState.DENIED),
        ({f"{NODE_DIR}/online": "0\n"}, SourceState.MASKED),
    ],
)
def test_no_nodes_are_no_single_node(files: Files, state: SourceState) -> None:
    found = outcome(lambda: read_numa(DictHost(files)))
    assert isinstance(found, ProbeError)
    assert found.state is state


@pytest.mark.parametrize(("text", "state"), [("", SourceState.MASKED), ("0-\n", SourceState.MALFORMED)])
def test_a_node_that_does_not_tell_its_cpus(text: str, state: SourceState) -> None:
    found = read_numa(DictHost({**FILES, f"{NODE_DIR}/node0/cpulist": text}))
    assert isinstance(found.cpus[0], ProbeError)
    assert (found.cpus[0].state, found.node_of(0), found.node_of(2)) == (state, None, 1)


def test_huge_pages_that_can_t_be_read() -> None:
    found = read_numa(DictHost({**FILES, f"{POOL_DIR}/hugepages-2048kB/resv_hugepages": "x\n"}))
    assert isinstance(found.pools[2048], ProbeError)
    assert isinstance(found.pools[1048576], Pool)
    assert read_numa(DictHost({f"{NODE_DIR}/node0/cpulist": "0\n"})).pools == {}


def test_own_memory() -> None:
    files: Files = {
        "proc/7/status": "Name:\tapp\nMems_allowed:\t00000003\nMems_allowed_list:\t0-1\n",
        "proc/8/status": "Name:\tapp\n",
        f"{LEAF}/memory.numa_stat": NUMA_STAT,
        "sys/fs/cgroup/x/memory.numa_stat": DENIED,
    }
    found = read_own_memory(DictHost(files), [8, 7, 9], [LEAF, "sys/fs/cgroup/x", "sys/fs/cgroup/none"])
    assert found.placed == {LEAF: {0: 8192, 1: 4196}, "sys/fs/cgroup/x": DENIED}
    assert found.allowed[7] == frozenset({0, 1})
    errors = [found.allowed[pid] for pid in (8, 9)]
    assert [error.reason for error in errors if isinstance(error, ProbeError)] == [
        "no Mems_allowed_list",
        "no such file",
    ]


@pytest.mark.parametrize("text", ["", "Mems_allowed_list:\t0", "Mems_allowed_list:\t\n", "Mems_allowed_list:\tx\n"])
def test_nodes_that_are_not_told(text: str) -> None:
    assert isinstance(outcome(lambda: parse_allowed(text)), ProbeError)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty or cut"),
        (NUMA_STAT[:-1], "empty or cut"),
        ("anon N0=1\n", "lacks shmem"),
        ("anon 0=1\nshmem N0=1\n", "not a node and its bytes: '0=1'"),
        ("anon N0=-1\nshmem N0=1\n", "not a node and its bytes: 'N0=-1'"),
        ("anon N0\nshmem N0=1\n", "not a node and its bytes: 'N0'"),
    ],
)
def test_places_that_are_not_told(text: str, reason: str) -> None:
    found = outcome(lambda: parse_placed(text))
    assert isinstance(found, ProbeError)
    assert found.reason == reason


@given(st.text(max_size=40) | st.lists(st.sampled_from(NUMA_STAT.split("\n"))).map("\n".join))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_placed(text)), dict | ProbeError)
    assert isinstance(outcome(lambda: parse_allowed(text)), frozenset | ProbeError)


@pytest.mark.parametrize("missing", ["", NODE_DIR, POOL_DIR])
def test_a_recording_says_the_same(tmp_path: Path, missing: str) -> None:
    files = {path: text for path, text in FILES.items() if not (missing and path.startswith(missing))}
    live, later = replayed(tmp_path, files, read_numa)
    assert str(live) == str(later)


OWN: Files = {
    "proc/7/task/7/cgroup": "0::/app.slice\n",
    "proc/7/status": "Mems_allowed_list:\t1\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    f"{LEAF}/memory.numa_stat": NUMA_STAT,
}


def test_the_own_memory_of_a_recording(tmp_path: Path) -> None:
    keys = [ThreadKey(pid=7, tid=7)]
    live, later = replayed(tmp_path, OWN, lambda host: read_limits(host, keys, nodes=True))
    assert isinstance(live, OwnLimits)
    assert isinstance(later, OwnLimits)
    assert live.memory == later.memory == OwnMemory(allowed={7: frozenset({1})}, placed={LEAF: {0: 8192, 1: 4196}})


def test_with_one_node_it_is_not_read() -> None:
    assert read_limits(DictHost(OWN), [ThreadKey(pid=7, tid=7)]).memory == OwnMemory()
