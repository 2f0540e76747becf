"""KUBE.POLICY and KUBE.RESERVED: what a kubelet is configured to give away, and what to keep."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, Outcome
from tests.auditor.build import KUBELET_CONFIG, context, cpus, findings, gone, kubelet, node, only, outcomes, pod_cgroup
from tests.auditor.rules.test_kube_state import KUBELET, OTHER, state

HEAD = "kind: KubeletConfiguration\n"
POOL = pod_cgroup(cpus(0), pod=OTHER, container_id="b" * 64, name="web")


def on(config: Any = KUBELET_CONFIG, *, text: Any = None, leaves: Any = None, **given: Any) -> Context:
    kubernetes = node(kubelet(config, text, **given), containers=leaves)
    return context(kubernetes=kubernetes, threads=[KUBELET], control=(0, 2))


@pytest.mark.parametrize(
    ("config", "outcome", "detail"),
    [
        (KUBELET_CONFIG, Outcome.PASS, "policy static, with CPUs reserved for the host"),
        (HEAD, Outcome.WARN, "policy none gives no container CPUs of its own: pods may run on all of them"),
        (
            HEAD + "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n",
            Outcome.FAIL,
            "policy none does not take the options full-pcpus-only: it refuses to start",
        ),
        (
            HEAD + "cpuManagerPolicy: static\n",
            Outcome.FAIL,
            "policy static, and no CPU is reserved: it refuses to start",
        ),
    ],
)
def test_policies(config: str, outcome: Outcome, detail: str) -> None:
    found = only(on(config), "KUBE.POLICY")
    assert (found.outcome, found.detail) == (outcome, f"the kubelet (PID 900): {detail}")
    assert (found.fix is None) is (outcome is Outcome.PASS)


def test_the_fix_names_the_cpus_of_this_host() -> None:
    fix = only(on(HEAD), "KUBE.POLICY").fix
    assert fix is not None
    assert fix.text.startswith("set cpuManagerPolicy: static and reservedSystemCPUs: '0,2', without other options; ")
    assert fix.commands[0] == "sudo systemctl stop -- kubelet.service"


def test_settings_that_are_not_known() -> None:
    found = only(on(gone("etc/k.yaml"), leaves=[]), "KUBE.POLICY")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "/etc/k.yaml: missing for this test")
    assert only(on(HEAD, leaves=[], flags_seen=False), "KUBE.POLICY").outcome is Outcome.UNKNOWN
    live = only(on(HEAD, flags_seen=False), "KUBE.POLICY")
    assert live.outcome is Outcome.PASS
    assert live.detail == (
        "the kubelet (PID 900): containers have CPUs 1 from it, so it is static "
        "(the flags of the kubelet (PID 900) are not known)"
    )


def test_nobody_on_reserved_cpus() -> None:
    found = only(on(text=state("0,2", app="1")), "KUBE.RESERVED")
    assert (found.outcome, found.detail) == (Outcome.PASS, "no container runs on reserved CPUs")


def test_containers_of_the_pool_on_reserved_cpus() -> None:
    found = only(on(text=state("0,2", app="1"), leaves=[pod_cgroup(), POOL]), "KUBE.RESERVED")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.WARN, 1, 0, "containers")
    assert found.detail == (
        "containers of the shared pool run on the reserved CPUs 0, beside the host's daemons: " + f"{OTHER}/web"
    )
    assert found.evidence == (Evidence(path=f"/{POOL.path}/cpuset.cpus.effective", field="list", value="0"),)
    assert found.fix is not None
    assert found.fix.text.startswith("set cpuManagerPolicyOptions strict-cpu-reservation: 'true'")
    strict = KUBELET_CONFIG + "cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}\n"
    late = only(on(strict, text=state("2", app="1"), leaves=[pod_cgroup(), POOL]), "KUBE.RESERVED").fix
    assert late is not None
    assert late.text.startswith("it is set already")


def test_an_audited_cpu_that_is_reserved() -> None:
    config = HEAD + "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n"
    found = findings(on(config, text=state("0,2", app="1")), "KUBE.RESERVED")
    assert [(item.outcome, item.cpus, item.observed) for item in found] == [
        (Outcome.FAIL, (1,), 1),  # given away all the same
        (Outcome.WARN, (1,), 1),
    ]
    assert found[0].detail == "CPUs 1 are reserved for the host and exclusive: the state is older than that"
    assert found[1].detail == "the kubelet reserves this CPU for the host: no container ever gets it exclusively"
    assert found[1].fix is not None
    assert found[1].fix.text.startswith("reserve CPUs 0,2 instead")


def test_what_is_reserved_is_not_told() -> None:
    config = HEAD + "cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n"
    found = only(on(config), "KUBE.RESERVED")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "which CPUs are reserved is not told: of a mere quantity the kubelet chooses them, and names them in its log",
    )
    assert outcomes(on(flags_seen=False), "KUBE.RESERVED") == [Outcome.UNKNOWN]
    assert outcomes(on(leaves=gone("sys/fs/cgroup")), "KUBE.RESERVED") == [Outcome.UNKNOWN]
    dark = pod_cgroup(cpus(0), pod=OTHER, container_id="b" * 64, effective=gone("leaf"))
    assert outcomes(on(leaves=[pod_cgroup(), dark]), "KUBE.RESERVED") == [Outcome.UNKNOWN]


def test_policy_none_gives_nothing_away() -> None:
    found = only(on(HEAD, text=state("", policy="none"), leaves=[POOL]), "KUBE.RESERVED")
    assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "no CPU can be given away here")
