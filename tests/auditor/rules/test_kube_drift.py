"""KUBE.DRIFT and KUBE.AFFINITY: cpusets that are not the kubelet's, and threads that may not use all of theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, Outcome
from probes.pod_cgroups import PodCgroup
from tests.auditor.build import (
    CONTAINER_ID,
    KUBELET_CONFIG,
    POD,
    Thread,
    context,
    cpus,
    edit,
    findings,
    gone,
    kubelet,
    node,
    only,
    outcomes,
    pod_cgroup,
)
from tests.auditor.rules.test_kube_state import KUBELET, OTHER, state

LEAF = f"/sys/fs/cgroup/kubepods/pod{POD}/{CONTAINER_ID}"
APP = Thread(tid=500, cgroup=f"/kubepods/pod{POD}/{CONTAINER_ID}")
OTHERS: dict[str, Any] = {"pod": OTHER, "container_id": "b" * 64, "name": "web"}
FAST = KUBELET_CONFIG + "cpuManagerReconcilePeriod: 5s\n"


def on(*leaves: PodCgroup, config: Any = KUBELET_CONFIG, text: str = "", cut: bool = False, **given: Any) -> Context:
    kubernetes = node(kubelet(config, text or None), containers=leaves or None, cut=cut)
    return context(kubernetes=kubernetes, threads=[KUBELET], own=[APP], **given)


def test_cpusets_as_the_kubelet_gave_them() -> None:
    found = only(on(), "KUBE.DRIFT")
    assert (found.outcome, found.cpus) == (Outcome.PASS, (1,))
    assert found.detail == "containers have the cpusets that the kubelet gave them, and nobody else has these CPUs"


def test_a_container_without_audited_cpus_is_nothing_here() -> None:
    found = only(on(pod_cgroup(cpus(0)), text=state("1", app="0")), "KUBE.DRIFT")
    assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "no container has these CPUs exclusively")


@pytest.mark.parametrize(
    ("config", "window_s", "outcome", "limit"),
    [
        (KUBELET_CONFIG, 10.0, Outcome.FAIL, 10.0),
        (KUBELET_CONFIG, 9.9, Outcome.WARN, 10.0),
        (FAST, 5.0, Outcome.FAIL, 5.0),
        (gone("etc/k.yaml"), 60.0, Outcome.WARN, None),
    ],
)
def test_another_cpuset_than_the_entry(config: Any, window_s: float, outcome: Outcome, limit: float | None) -> None:
    found = only(on(pod_cgroup(cpus(0, 1)), config=config, window_s=window_s), "KUBE.DRIFT")
    assert (found.outcome, found.observed, found.limit, found.unit) == (outcome, window_s, limit, "s")
    assert found.title == "cpuset is not the kubelet's: default/bench/app"
    assert found.detail.startswith("the kubelet gave it CPUs 1, its cgroup says 0-1")
    assert found.evidence == (Evidence(path=f"{LEAF}/cpuset.cpus", field="list", value="0-1"),)
    assert found.fix is not None
    assert found.fix.commands == (f"echo 1 | sudo tee {LEAF}/cpuset.cpus",)
    assert found.fix.undo == f"echo 0-1 | sudo tee {LEAF}/cpuset.cpus"


def test_what_differs_at_the_end_only_may_be_set_right() -> None:
    ctx = edit(on(pod_cgroup(cpus(0, 1))), "before.kubernetes", node())
    found = only(ctx, "KUBE.DRIFT")
    assert (found.outcome, found.detail) == (
        Outcome.WARN,
        "the kubelet gave it CPUs 1, its cgroup says 0-1; the kubelet may be about to set it right",
    )


def test_an_ancestor_that_takes_cpus_away() -> None:
    leaf = pod_cgroup(cpus(1, 2), effective=cpus(2))
    found = only(on(leaf, text=state("0", app="1-2"), control=(0, 2)), "KUBE.DRIFT")
    assert found.detail.startswith(
        "the kubelet gave it CPUs 1-2, its cgroup says the same, but its ancestors leave it 2"
    )
    assert found.fix is not None
    assert found.fix.commands == ()
    assert found.fix.text.startswith("leave cpuset.cpus of the cgroups above containers empty")


def test_an_emptied_cpuset() -> None:
    found = only(on(pod_cgroup(cpus(), effective=cpus(0, 1))), "KUBE.DRIFT")
    assert found.detail.startswith("the kubelet gave it CPUs 1, its cgroup says all CPUs")
    assert found.fix is not None
    assert found.fix.undo == ""


@pytest.mark.parametrize(
    ("web", "expected"),
    [
        (pod_cgroup(cpus(0, 1), **OTHERS), [Outcome.FAIL]),
        (pod_cgroup(cpus(), effective=cpus(0, 1), **OTHERS), [Outcome.FAIL]),
        (pod_cgroup(cpus(), effective=cpus(0, 1), **{**OTHERS, "name": None}), [Outcome.PASS]),  # a sandbox
        (pod_cgroup(cpus(0, 1), container_id="b" * 64, name="warm"), [Outcome.PASS]),  # of the same pod
        (pod_cgroup(cpus(0), **OTHERS), [Outcome.PASS]),
        (pod_cgroup(gone("leaf"), **OTHERS), [Outcome.PASS]),  # it ended meanwhile
    ],
)
def test_others_that_may_run_there(web: PodCgroup, expected: list[Outcome]) -> None:
    assert outcomes(on(pod_cgroup(), web), "KUBE.DRIFT") == expected


def test_the_words_about_others() -> None:
    found = only(on(pod_cgroup(), pod_cgroup(cpus(0, 1), **OTHERS)), "KUBE.DRIFT")
    assert (found.title, found.cpus) == (f"cpuset is not the kubelet's: {OTHER}/web", (1,))
    assert found.detail == (
        "it may run on CPUs 1, which another container has exclusively, at both ends of the window: "
        "the kubelet does not set it right"
    )
    assert found.fix is not None
    assert found.fix.commands == ("sudo systemctl restart -- kubelet.service",)


def test_what_is_not_known_of_others() -> None:
    masked = gone("leaf")
    masked.state = type(masked.state).DENIED
    found = only(on(pod_cgroup(), pod_cgroup(masked, **OTHERS)), "KUBE.DRIFT")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "/leaf: missing for this test")
    cut = only(on(cut=True), "KUBE.DRIFT")
    assert (cut.outcome, cut.detail) == (Outcome.UNKNOWN, "not all cgroups of pods may have been found")
    unnamed = only(on(pod_cgroup(cpus(0), name=None)), "KUBE.DRIFT")
    assert (unnamed.outcome, unnamed.detail) == (
        Outcome.UNKNOWN,
        "which cgroup is that of default/bench/app, or what it says, can't be told",
    )
    blind = context(kubernetes=node(containers=gone("sys/fs/cgroup")))
    assert outcomes(blind, "KUBE.DRIFT") == [Outcome.UNKNOWN]


def test_own_threads_in_a_container_that_lost_its_cpus() -> None:
    (found,) = findings(on(text=state("0-1")), "KUBE.DRIFT")
    assert (found.outcome, found.title) == (Outcome.WARN, "cpuset is not the kubelet's: default/bench/app")
    assert found.detail == "the workload runs in it, and the kubelet gave it no CPUs of its own: others share them"
    assert found.fix is not None
    assert outcomes(on(text=state("", policy="none")), "KUBE.DRIFT") == [Outcome.NOT_APPLICABLE]


def test_threads_may_use_all_cpus() -> None:
    found = only(on(), "KUBE.AFFINITY")
    assert (found.outcome, found.cpus) == (Outcome.PASS, (1,))


def test_threads_that_may_use_a_part_only() -> None:
    wide = pod_cgroup(cpus(1, 2))
    ctx = on(wide, text=state("0", app="1-2"), audited=(1, 2))
    found = only(ctx, "KUBE.AFFINITY")
    assert (found.outcome, found.cpus, found.observed, found.limit) == (Outcome.WARN, (1, 2), 1, 2)
    assert found.detail == "of its CPUs 1-2 its 1 threads may use 1 only"
    assert found.evidence == (Evidence(path="/proc/500/task/500/status", field="Cpus_allowed_list", value="1"),)
    second = replace(APP, tid=501, pid=500, on=cpus(2))
    kubernetes = node(kubelet(state=state("0", app="1-2")), containers=[wide])
    both = context(kubernetes=kubernetes, own=[APP, second], audited=(1, 2))
    assert outcomes(both, "KUBE.AFFINITY") == [Outcome.PASS]


def test_threads_that_are_not_seen() -> None:
    found = only(context(kubernetes=node()), "KUBE.AFFINITY")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "not all threads of default/bench/app are visible from here",
    )
    half = on(pod_cgroup(cpus(1, 2)), text=state("0", app="1-2"), audited=(1, 2), complete=False)
    assert outcomes(half, "KUBE.AFFINITY") == [Outcome.UNKNOWN]
    blind = edit(on(), "after.census", gone("proc"))
    assert outcomes(blind, "KUBE.AFFINITY") == outcomes(blind, "KUBE.HOST") == [Outcome.UNKNOWN]
