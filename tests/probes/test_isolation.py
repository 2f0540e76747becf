"""Sources of isolation: each apart, never raising, bounded on nodes with thousands of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import isolation as module
from probes.host import DictHost, ProbeError, SourceState, TreeHost
from probes.isolation import Isolation, Partition, cgroup2_root, read_isolation

CPU = "sys/devices/system/cpu"
ROOT = "sys/fs/cgroup"


def cgroups(*paths: str, state: str = "member", root: str = ROOT) -> dict[str, str]:
    files = {f"{root}/cgroup.controllers": "cpuset cpu io\n"}
    for path in paths:
        files[f"{root}/{path}/cpuset.cpus.partition"] = f"{state}\n"
        files[f"{root}/{path}/cpuset.cpus.effective"] = "2-3\n"
        files[f"{root}/{path}/cpuset.cpus"] = "2-3\n"
    return files


def refused(value: object) -> tuple[SourceState, str]:
    assert isinstance(value, ProbeError)
    return value.state, value.reason


def test_every_source_of_a_host() -> None:
    files = {
        f"{CPU}/isolated": "1,5\n",
        f"{CPU}/nohz_full": "    (null)\n",
        f"{ROOT}/cpuset.cpus.isolated": "1,4-5\n",
        **cgroups("a", "a/b"),
        **cgroups("a/c.slice", state="isolated"),
    }
    cpus = frozenset({2, 3})
    found = read_isolation(DictHost(files))
    assert found == Isolation(
        boot=frozenset({1, 5}),
        nohz_full=frozenset(),
        partitions=(Partition(path=f"{ROOT}/a/c.slice", state="isolated", cpus=cpus, asked=cpus),),
        cgroup_isolated=frozenset({1, 4, 5}),
    )
    assert found.partitioned() == {1, 2, 3, 4, 5}


def test_nothing_is_there() -> None:
    found = read_isolation(DictHost({}))
    assert [refused(value)[0] for value in (found.boot, found.nohz_full, found.partitions, found.cgroup_isolated)] == [
        SourceState.MISSING
    ] * 4
    assert refused(found.partitions)[1] == "no cgroup v2 hierarchy is mounted here"
    assert found.partitioned() == frozenset()
    assert not found.walk_cut


def test_masked_and_garbled_lists_are_errors_of_their_own() -> None:
    files = {f"{CPU}/isolated": "", f"{CPU}/nohz_full": "1-\n", f"{ROOT}/cpuset.cpus.isolated": "x\n", **cgroups()}
    found = read_isolation(DictHost(files))
    assert refused(found.boot) == (SourceState.MASKED, "empty: masked")
    assert refused(found.nohz_full)[0] is SourceState.MALFORMED
    assert refused(found.cgroup_isolated)[0] is SourceState.MALFORMED
    assert found.partitions == ()
    assert found.partitioned() == frozenset()


def test_a_denied_cgroup_root_is_not_called_missing() -> None:
    path = f"{ROOT}/cgroup.controllers"
    found = read_isolation(DictHost({path: ProbeError(path, "permission denied", SourceState.DENIED)}))
    assert refused(found.partitions) == (SourceState.DENIED, "permission denied")


@pytest.mark.parametrize(
    ("state", "proof"),
    [
        ("isolated", {2, 3}),
        ("root", set()),
        ("root invalid (Parent is not a partition root)", set()),
        ("isolated invalid (Cpu list in cpuset.cpus not exclusive)", set()),
        ("isolated\\n", set()),
        ("Isolated", set()),
    ],
)
def test_only_an_exact_isolated_is_proof(state: str, proof: set[int]) -> None:
    found = read_isolation(DictHost(cgroups("a", state=state)))
    assert isinstance(found.partitions, tuple)
    assert [partition.state for partition in found.partitions] == [state]
    assert found.partitioned() == proof


def test_a_partition_whose_cpus_can_not_be_read_proves_nothing() -> None:
    files: dict[str, str | ProbeError] = dict(cgroups("a", state="isolated"))
    path = f"{ROOT}/a/cpuset.cpus.effective"
    files[path] = ProbeError(path, "permission denied", SourceState.DENIED)
    found = read_isolation(DictHost(files))
    assert found.partitions == (
        Partition(path=f"{ROOT}/a", state="isolated", cpus=frozenset(), asked=frozenset({2, 3})),
    )
    assert found.partitioned() == frozenset()


def test_the_cgroup_of_a_namespace_may_itself_be_a_partition() -> None:
    files = cgroups("inner")
    files |= {f"{ROOT}/cpuset.cpus.partition": "isolated\n", f"{ROOT}/cpuset.cpus.effective": "7\n"}
    assert read_isolation(DictHost(files)).partitioned() == {7}


@pytest.mark.parametrize("name", ["lxc.payload.db", "isol.rt", "cpu", "io", "memory", "user@0.service", "a:b", "x y"])
def test_cgroups_of_any_name_are_found(name: str) -> None:
    assert read_isolation(DictHost(cgroups(name, f"{name}/sub", state="isolated"))).partitioned() == {2, 3}


def test_interface_files_are_not_tried_and_subtrees_without_cpuset_are_left_out() -> None:
    class Counting(DictHost):
        reads: list[str] = []  # noqa: RUF012

        def read(self, path: str) -> str:
            self.reads.append(path)
            return super().read(path)

    files = cgroups("a")
    files |= {f"{ROOT}/user.slice/{name}/pids.max": "max\n" for name in ("one", "two")}
    files |= {f"{ROOT}/{name}": "x" for name in ("cpu.stat", "memory.stat", "cgroup.procs", "perf_event.x")}
    host = Counting(files)
    read_isolation(host)
    tried = [path for path in host.reads if path.endswith("partition")]
    assert tried == [f"{ROOT}/{path}cpuset.cpus.partition" for path in ("", "a/", "user.slice/")]


def test_a_hybrid_host_has_v2_below_v1() -> None:
    host = DictHost({f"{ROOT}/cpuset/cpuset.cpus": "0-1\n", **cgroups("a", root=f"{ROOT}/unified", state="isolated")})
    assert cgroup2_root(host) == f"{ROOT}/unified"
    assert read_isolation(host).partitioned() == {2, 3}


def test_the_walk_is_bounded_tells_so_and_looks_at_parents_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CGROUPS", 4)  # the root and three below it
    wide = [f"a/{number}" for number in range(50)]
    files = cgroups("a", "z", *wide, "a/0/deep", state="isolated")
    found = read_isolation(DictHost(files))
    assert isinstance(found.partitions, tuple)
    assert [partition.path for partition in found.partitions] == [f"{ROOT}/{name}" for name in ("a", "z", "a/0")]
    assert found.walk_cut


def test_a_walk_that_ends_at_its_bound_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CGROUPS", 3)
    assert not read_isolation(DictHost(cgroups("a", "b"))).walk_cut


def test_a_cgroup_that_went_away_between_listing_and_reading() -> None:
    gone = ProbeError(f"{ROOT}/a", "no such file", SourceState.MISSING)
    files: dict[str, str | ProbeError] = {**cgroups("b", state="isolated"), f"{ROOT}/a/cpuset.cpus.partition": gone}
    assert read_isolation(DictHost(files)).partitioned() == {2, 3}
    files[f"{ROOT}/b"] = gone  # listing it fails, what it is was read
    assert read_isolation(DictHost(files)).partitioned() == {2, 3}


def test_a_name_that_is_no_utf8_can_be_printed(tmp_path: Path) -> None:
    for path, text in cgroups("\udcff", state="isolated").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = read_isolation(TreeHost(str(tmp_path)))
    assert found.partitions == (
        Partition(path=f"{ROOT}/\\udcff", state="isolated", cpus=frozenset({2, 3}), asked=frozenset({2, 3})),
    )


@settings(deadline=None)
@given(st.text(), st.text(), st.text())
def test_no_text_raises(state: str, cpus: str, listed: str) -> None:
    files = cgroups("a", state=state)
    files |= {f"{ROOT}/a/cpuset.cpus.effective": cpus, f"{ROOT}/cpuset.cpus.isolated": cpus, f"{CPU}/isolated": listed}
    read_isolation(DictHost(files))


def test_this_machine() -> None:
    found = read_isolation(TreeHost())
    assert not found.walk_cut
    assert isinstance(cgroup2_root(TreeHost()), str) is isinstance(found.partitions, tuple)


@pytest.mark.parametrize(("exclusive", "asked"), [("5\n", {5}), ("\n", {2, 3}), (None, {2, 3})])
def test_what_a_partition_asks_for(exclusive: str | None, asked: set[int]) -> None:
    """cpuset.cpus.exclusive is there since 6.7, and empty unless it was written."""
    files = cgroups("a", state="isolated invalid (x)")
    if exclusive is not None:
        files[f"{ROOT}/a/cpuset.cpus.exclusive"] = exclusive
    found = read_isolation(DictHost(files)).partitions
    assert not isinstance(found, ProbeError)
    assert found[0].asked == frozenset(asked)
