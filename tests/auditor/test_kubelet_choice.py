"""Default CPUs on a node: live exclusive ones; what is stale is said, what is contradicted is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from auditor.errors import UsageError
from auditor.kubelet_choice import KubeletChoice, kubelet_choice
from auditor.kubelet_view import KubeletView, views
from probes.cpustat import CpuStat
from probes.host import ProbeError, SourceState
from tests.auditor.build import CONTAINER_ID, POD, cpus, gone, kubelet, node, pod_cgroup

ONLINE = cpus(0, 1, 2, 3)
OTHER = "1aa1d6f2-0000-4000-8000-000000000002"


def state(**pods: dict[str, str]) -> str:
    names = {"pod": POD, "other": OTHER}
    entries = {names[name]: containers for name, containers in pods.items()}
    return json.dumps({"policyName": "static", "defaultCpuSet": "0", "entries": entries})


BOOT_S, UPTIME_S = 1_700_000_000, 1000.0
STAT = CpuStat(cpus={}, btime=BOOT_S)


def seen(*kubelets: Any, **given: Any) -> tuple[KubeletView, ...]:
    return views(node(*kubelets, **given), ONLINE)


def refused(found: tuple[KubeletView, ...]) -> str:
    with pytest.raises(UsageError) as caught:
        kubelet_choice(found)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("say which CPUs are meant, as in --cpus 1,5")
    return str(caught.value)


def test_no_kubelet() -> None:
    assert kubelet_choice(()) == KubeletChoice()


def test_live_ones() -> None:
    assert kubelet_choice(seen()) == KubeletChoice(
        cpus=cpus(1), whose="the kubelet (PID 900), exclusive to default/bench/app"
    )
    whose = kubelet_choice(seen(kubelet(pid=None))).whose
    assert whose == "the kubelet (not running), exclusive to default/bench/app"
    whose = kubelet_choice(seen(kubelet(version="1.33.2"))).whose
    assert whose == "the kubelet 1.33.2 (PID 900), exclusive to default/bench/app"


def test_many_are_counted() -> None:
    names = {f"c{number}": "1" for number in range(4)}
    found = seen(kubelet(state=state(pod=names)), containers=[pod_cgroup(name=name) for name in names])
    assert kubelet_choice(found).whose == "the kubelet (PID 900), exclusive to 4 containers"


def test_stale_ones_are_left_out_and_named() -> None:
    found = kubelet_choice(seen(kubelet(state=state(pod={"app": "1"}, other={"x": "2-3"}))))
    assert found.cpus == cpus(1)
    assert found.notes == (f"left out: CPUs 2-3 of {OTHER}/x, whose container is not there (stale)",)
    assert kubelet_choice(seen(containers=())) == KubeletChoice(
        notes=("left out: CPUs 1 of default/bench/app, whose container is not there (stale)",)
    )


def test_an_init_container_that_is_done() -> None:
    assert kubelet_choice(seen(kubelet(state=state(pod={"app": "1", "warm": "1"})))).notes == ()
    (note,) = kubelet_choice(seen(kubelet(state=state(pod={"app": "1", "warm": "1-2"})))).notes
    assert note == "left out: CPUs 2 of default/bench/warm, whose container is not there (ended)"


@pytest.mark.parametrize(
    ("leaf", "said"),
    [
        (pod_cgroup(cpus(0, 1)), "0-1"),
        (pod_cgroup(cpus(), effective=ONLINE), "nothing (effective 0-3)"),
        (pod_cgroup(cpus(1), effective=cpus(0)), "1 (effective 0)"),
    ],
)
def test_a_contradicted_state_is_refused(leaf: Any, said: str) -> None:
    assert refused(seen(containers=[leaf])).startswith(
        f"the kubelet (PID 900) says CPUs 1 are default/bench/app's, its cgroup /{leaf.path} says {said}: "
    )


def test_cgroups_that_can_t_be_read() -> None:
    message = refused(seen(containers=gone("sys/fs/cgroup", SourceState.MASKED)))
    assert f"CPUs 1 are {POD}/app's, its cgroup can't be told (/sys/fs/cgroup: masked for this test)" in message
    assert "its cgroup can't be told: " in refused(seen(containers=(), cut=True))
    leaf = pod_cgroup(gone())
    assert "its cgroup can't be told: " in refused(seen(containers=[leaf]))


def test_several_kubelets_with_exclusive_cpus() -> None:
    both = (kubelet(), kubelet(pid=901, root="proc/901/root", state=state(other={"x": "2"})))
    leaves = [pod_cgroup(), pod_cgroup(cpus(2), pod=OTHER, name="x", container_id="b" * 64)]
    message = refused(seen(*both, containers=leaves))
    assert message.startswith(
        "several kubelets on this kernel have exclusive CPUs (PID 900: CPUs 1, PID 901: CPUs 2): "
    )
    found = kubelet_choice(seen(*both))
    assert (found.cpus, len(found.notes)) == (cpus(1), 1)


def choice_without_state(error: ProbeError, **given: Any) -> KubeletChoice:
    return kubelet_choice(seen(kubelet(state=error, **given)))


def test_a_state_that_can_t_be_read_is_told() -> None:
    denied = gone("var/lib/kubelet/cpu_manager_state", SourceState.DENIED)
    note = "the kubelet (PID 900) may have given CPUs away: /var/lib/kubelet/cpu_manager_state: denied for this test"
    assert choice_without_state(denied) == KubeletChoice(notes=(note,))
    assert choice_without_state(gone("var/lib/kubelet/cpu_manager_state")) == KubeletChoice()
    assert len(choice_without_state(gone("proc/900/cmdline")).notes) == 1
    none = "kind: KubeletConfiguration\n"
    assert choice_without_state(denied, config=none) == KubeletChoice()
    assert choice_without_state(denied, config=none, flags_seen=False).notes == (note,)


def test_containers_of_old_states_are_named_by_id() -> None:
    text = json.dumps({"policyName": "static", "defaultCpuSet": "0", "entries": {CONTAINER_ID: "1"}})
    assert kubelet_choice(seen(kubelet(state=text))).cpus == cpus(1)


@pytest.mark.parametrize(
    ("age_s", "said"),
    [
        (0, "; the state was written 0 s ago"),
        (119, "; the state was written 119 s ago"),
        (120, "; the state was written 2 min ago"),
        (1001, "; the state was written 16 min ago, before this boot"),
        (7199, "; the state was written 119 min ago, before this boot"),
        (86400, "; the state was written 24 h ago, before this boot"),
        (40 * 86400, "; the state was written 40 days ago, before this boot"),
        (-1, "; the state was written 0 s ago"),  # btime is rounded down
        (-3600, ""),  # the clock was set back
    ],
)
def test_how_old_a_stale_state_is(age_s: int, said: str) -> None:
    left = kubelet(state_mtime_ns=(BOOT_S + int(UPTIME_S) - age_s) * 10**9)
    kubernetes = replace(node(left, containers=()), uptime_s=UPTIME_S)
    (note,) = kubelet_choice(views(kubernetes, ONLINE, STAT)).notes
    assert note == f"left out: CPUs 1 of default/bench/app, whose container is not there (stale{said})"


def test_an_ended_container_of_a_live_pod_needs_no_age() -> None:
    given = kubelet(state=state(pod={"app": "1", "warm": "1-2"}), state_mtime_ns=BOOT_S * 10**9)
    (view,) = views(replace(node(given), uptime_s=UPTIME_S), ONLINE, STAT)
    assert (view.state_age_s, view.of_this_boot) == (UPTIME_S, False)
    assert kubelet_choice([view]).notes[0].endswith("(ended)")


@pytest.mark.parametrize(
    ("mtime_ns", "uptime_s", "stat"),
    [
        (gone(), UPTIME_S, STAT),
        (0, gone(), STAT),
        (0, UPTIME_S, None),
        (0, UPTIME_S, gone()),
        (0, UPTIME_S, CpuStat(cpus={}, btime=None)),
    ],
)
def test_an_age_that_is_not_known(mtime_ns: Any, uptime_s: Any, stat: Any) -> None:
    kubernetes = replace(node(kubelet(state_mtime_ns=mtime_ns)), uptime_s=uptime_s)
    (view,) = views(kubernetes, ONLINE, stat)
    assert (view.state_age_s, view.of_this_boot) == (None, None)
