"""Limits above some threads: every level up to the root, and everything that hides one."""

from __future__ import annotations

from typing import Any

import pytest

from probes.cgroup_cpu import MAX_LEVELS, NAMESPACE, CgroupCpu, CpuGroup, levels, read_cgroup_cpu
from probes.cgroup_cpu_text import CpuLimit, Throttling
from probes.host import DictHost, ProbeError, SourceState
from probes.threads import ThreadKey

ROOT = "sys/fs/cgroup"
ONE, TWO, OTHER = ThreadKey(pid=10, tid=10), ThreadKey(pid=10, tid=11), ThreadKey(pid=20, tid=20)
HOST_VIEW = {NAMESPACE: "cgroup:[4026531835]"}
LIMIT = CpuLimit(quota_us=30_000, period_us=100_000)


def stat(periods: int = 0, throttled: int = 0, us: int = 0) -> str:
    return f"usage_usec 9\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {us}\n"


def v2(*levels_: str, **limits: str) -> dict[str, str | ProbeError]:
    """A v2 tree in which these levels have the controller; ``a="30000 100000"`` limits level /a."""
    files: dict[str, str | ProbeError] = {f"{ROOT}/cgroup.controllers": "cpuset cpu io\n"}
    for level in levels_:
        at = f"{ROOT}{level}"
        files |= {
            f"{at}/cgroup.controllers": "cpu\n",
            f"{at}/cgroup.type": "domain\n",
            f"{at}/cpu.max": limits.get(level.rpartition("/")[2], "max 100000") + "\n",
            f"{at}/cpu.stat": stat(117, 112, 8_247_121) if level.rpartition("/")[2] in limits else stat(),
            f"{at}/cpu.stat.local": "throttled_usec 8247121\n",
        }
    return files


def place(key: ThreadKey, text: str | ProbeError) -> dict[str, str | ProbeError]:
    return {f"proc/{key.pid}/task/{key.tid}/cgroup": text}


def read(files: dict[str, Any], *keys: ThreadKey, links: dict[str, str] = HOST_VIEW) -> CgroupCpu:
    return read_cgroup_cpu(DictHost(files, links), keys or (ONE,))


def state(value: object) -> tuple[SourceState, str]:
    assert isinstance(value, ProbeError)
    return value.state, value.reason


def test_levels() -> None:
    assert levels("/a/b.slice") == ["/a/b.slice", "/a", "/"]
    assert levels("/") == ["/"]


def test_an_ancestor_with_a_limit() -> None:
    found = read(v2("/low", "/low/pod", "/low/pod/app", low="30000 100000") | place(ONE, "0::/low/pod/app\n"))
    assert found.paths == {ONE: "/low/pod/app"}
    assert found.hidden is None
    assert [group.path for group in found.above("/low/pod/app")] == ["/low/pod/app", "/low/pod", "/low"]
    assert found.groups["/low"] == CpuGroup(
        path="/low",
        directory=f"{ROOT}/low",
        version=2,
        limit=LIMIT,
        throttling=Throttling(periods=117, throttled=112, throttled_us=8_247_121),
        waited_us=8_247_121,
    )
    assert found.groups["/low/pod/app"].limit is None
    assert found.groups["/low/pod/app"].throttling == Throttling(periods=0, throttled=0, throttled_us=0)


def test_threads_of_a_process_may_lie_in_different_cgroups() -> None:
    files = v2("/a", "/b", b="30000 100000") | place(ONE, "0::/a\n") | place(TWO, "0::/b\n")
    found = read(files, ONE, TWO)
    assert found.paths == {ONE: "/a", TWO: "/b"}
    assert (found.groups["/a"].limit, found.groups["/b"].limit) == (None, LIMIT)


def test_nobody_and_the_root() -> None:
    host = DictHost(v2("/a"), HOST_VIEW)
    assert read_cgroup_cpu(host, ()) == CgroupCpu()
    assert read(v2("/a") | place(ONE, "0::/\n")) == CgroupCpu(paths={ONE: "/"})


def test_a_level_without_the_controller_has_no_limit_of_its_own() -> None:
    files = v2("/a") | place(ONE, "0::/a/b\n")
    files |= {f"{ROOT}/a/b/cgroup.controllers": "\n", f"{ROOT}/a/b/cpu.stat": "usage_usec 5\n"}
    group = read(files).groups["/a/b"]
    assert (group.limit, group.throttling, group.waited_us) == (None, None, None)


@pytest.mark.parametrize(
    ("controllers", "expected"),
    [
        ("cpuset cpu\n", SourceState.MISSING),  # the file should be there
        ("cpuset", SourceState.MISSING),  # cut: cpu may have followed
        (None, SourceState.MISSING),
    ],
)
def test_a_missing_cpu_max_proves_nothing_by_itself(controllers: str | None, expected: SourceState) -> None:
    files = v2("/a") | place(ONE, "0::/a/b\n")
    if controllers is not None:
        files[f"{ROOT}/a/b/cgroup.controllers"] = controllers
    assert state(read(files).groups["/a/b"].limit)[0] is expected


@pytest.mark.parametrize("name", ["cpu.max", "cpu.stat", "cpu.stat.local"])
@pytest.mark.parametrize(
    "content", [ProbeError("x", "permission denied", SourceState.DENIED), "", "max\n", "throttled\n"]
)
def test_what_is_denied_or_no_such_file_is_not_known(name: str, content: str | ProbeError) -> None:
    files = v2("/a") | place(ONE, "0::/a\n") | {f"{ROOT}/a/{name}": content}
    group = read(files).groups["/a"]
    value = {"cpu.max": group.limit, "cpu.stat": group.throttling, "cpu.stat.local": group.waited_us}[name]
    assert state(value)[0] is (SourceState.DENIED if isinstance(content, ProbeError) else SourceState.MALFORMED)


def test_before_6_6_there_is_no_cpu_stat_local() -> None:
    files = v2("/a") | place(ONE, "0::/a\n")
    del files[f"{ROOT}/a/cpu.stat.local"]
    assert read(files).groups["/a"].waited_us is None


def test_hybrid_hosts_keep_v2_elsewhere_and_v1_has_the_controller() -> None:
    files: dict[str, Any] = {
        "sys/fs/cgroup/unified/cgroup.controllers": "hugetlb\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.shares": "1024\n",
        **place(ONE, "4:cpu,cpuacct:/docker/9f\n0::/\n"),
    }
    at = "sys/fs/cgroup/cpu,cpuacct/docker"
    for path, quota in (("", "-1\n"), ("/9f", "30000\n")):
        files |= {
            f"{at}{path}/cpu.cfs_quota_us": quota,
            f"{at}{path}/cpu.cfs_period_us": "100000\n",
            f"{at}{path}/cpu.stat": "nr_periods 20\nnr_throttled 17\nthrottled_time 127918677\n",
            f"{at}{path}/cpu.stat.local": "throttled_time 127918677\n",
        }
    found = read(files)
    assert found.hidden is None
    assert found.groups["/docker"].limit is None
    assert found.groups["/docker/9f"] == CpuGroup(
        path="/docker/9f",
        directory=f"{at}/9f",
        version=1,
        limit=LIMIT,
        throttling=Throttling(periods=20, throttled=17, throttled_us=127_918),
        waited_us=127_918,
    )
    assert set(found.groups) == {"/docker", "/docker/9f"}
    del files[f"{at}/9f/cpu.cfs_period_us"]
    assert state(read(files).groups["/docker/9f"].limit)[0] is SourceState.MISSING
    inside = read(files, links={NAMESPACE: "cgroup:[4026532263]"})
    assert set(inside.groups) == {"/", "/docker", "/docker/9f"}  # there, / may be a limited cgroup
    assert state(inside.hidden)[0] is SourceState.MASKED
    files["sys/fs/cgroup/cpu,cpuacct/cgroup.sane_behavior"] = "0\n"
    assert set(read(files).groups) == {"/docker", "/docker/9f"}


def test_paths_of_a_namespace_do_not_belong_to_the_whole_hierarchy_of_v1() -> None:
    """/proc/PID/cgroup begins at the namespace's root there: its ``/`` may be a limited cgroup of the host."""
    files: dict[str, Any] = {
        "sys/fs/cgroup/cpu/cpu.shares": "1024\n",
        "sys/fs/cgroup/cpu/cgroup.sane_behavior": "0\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        **place(ONE, "4:cpu:/\n1:name=cpu:/elsewhere\n"),
    }
    found = read(files, links={NAMESPACE: "cgroup:[4026532263]"})
    assert state(found.paths[ONE]) == (SourceState.MASKED, "cgroup / is named from another cgroup namespace")


def test_hierarchies_that_are_not_mounted() -> None:
    v1 = read(place(ONE, "4:cpu:/a\n"))
    assert state(v1.paths[ONE]) == (SourceState.MISSING, "the cpu controller (cgroup v1) is not mounted here")
    assert state(read(place(ONE, "0::/a\n")).paths[ONE]) == (
        SourceState.MISSING,
        "no cgroup v2 hierarchy is mounted here",
    )


def test_a_container_sees_its_own_limit_and_not_those_above() -> None:
    """Its cgroup is mounted as the root, which then has the files of an ordinary cgroup."""
    files = v2("", "/app", **{"": "30000 100000"}) | place(ONE, "0::/app\n")
    for links in ({NAMESPACE: "cgroup:[4026532263]"}, HOST_VIEW):
        found = read(files, links=links)
        assert state(found.hidden) == (
            SourceState.MASKED,
            "read from a cgroup namespace: limits above its root are hidden",
        )
        assert found.groups["/"].limit == LIMIT
        assert found.groups["/app"].limit is None
    files[f"{ROOT}/cgroup.type"] = ProbeError("x", "permission denied", SourceState.DENIED)
    assert state(read(files).hidden)[0] is SourceState.MASKED


@pytest.mark.parametrize("path", ["/../../system.slice", "/..", "/a/../b"])
def test_a_path_out_of_the_readers_namespace(path: str) -> None:
    found = read(v2("/a") | place(ONE, f"0::{path}\n"))
    assert state(found.paths[ONE]) == (SourceState.MASKED, f"cgroup {path} is named from another cgroup namespace")
    assert found.groups == {}


def test_paths_of_a_namespace_do_not_fit_the_hosts_tree() -> None:
    """/init.scope of a container and of the host: the tree that is mounted is the host's, the path the container's."""
    files = v2("/init.scope") | place(ONE, "0::/init.scope\n")
    found = read(files, links={NAMESPACE: "cgroup:[4026532263]"})
    assert state(found.paths[ONE])[0] is SourceState.MASKED
    assert found.groups == {}


def test_where_the_namespace_is_not_told_there_may_be_more_above() -> None:
    found = read(v2("/a") | place(ONE, "0::/a\n"), links={})
    assert found.groups["/a"].limit is None
    assert state(found.hidden) == (SourceState.MISSING, "no such file: whether all levels are seen is unknown")


def test_a_thread_that_ended_is_left_out_where_others_of_its_process_tell() -> None:
    files = v2("/a") | place(ONE, "0::/a\n")
    found = read(files, ONE, TWO, OTHER)
    assert found.paths[ONE] == "/a"
    assert TWO not in found.paths
    assert state(found.paths[OTHER])[0] is SourceState.MISSING
    denied = ProbeError("x", "permission denied", SourceState.DENIED)
    assert read(files | place(TWO, denied), ONE, TWO).paths[TWO] is denied
    assert read(place(ONE, "")).paths.keys() == {ONE}


def test_deep_paths_are_not_followed() -> None:
    path = "/a" * MAX_LEVELS
    assert state(read(v2("/a") | place(ONE, f"0::{path}\n")).paths[ONE])[1] == "a cgroup lies more than 24 levels deep"
    shorter = "/a" * (MAX_LEVELS - 1)
    assert read(v2("/a") | place(ONE, f"0::{shorter}\n")).paths == {ONE: shorter}
