"""KUBE.HOST, KUBE.SHARED and KUBE.QUOTA: who else is on exclusive CPUs, and what limits their owners."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Axis, Evidence, Outcome, Readiness
from auditor.rules import RULES
from auditor.verdict import readiness
from tests.auditor.build import (
    CONTAINER_ID,
    KUBELET_CONFIG,
    POD,
    Limited,
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
from tests.auditor.rules.test_kube_drift import APP, OTHERS
from tests.auditor.rules.test_kube_state import KUBELET, OTHER, STATE_PATH, state

EVERYWHERE = Thread(tid=900, name="kubelet", on=cpus(0, 1), cgroup="/system.slice/kubelet.service")
SSHD = Thread(tid=901, name="sshd", on=cpus(0, 1), cgroup="/system.slice/ssh.service")
OPEN: dict[str, Any] = {"isolated": cpus(), "domains": {1: [cpus(0, 1)], 0: [cpus(0, 1)]}}
POD_PATH = f"/kubepods/pod{POD}"
CONTAINER = f"{POD_PATH}/{CONTAINER_ID}"


def on(*threads: Thread, **given: Any) -> Context:
    return context(**{"kubernetes": node(), "threads": threads or [KUBELET], "own": [APP], **given})


def test_nobody_of_the_host_is_sent_there() -> None:
    found = only(on(), "KUBE.HOST")
    assert (found.outcome, found.cpus) == (Outcome.PASS, (1,))
    assert found.detail == "no daemon of the host ran there, nor is sent there"
    assert outcomes(on(EVERYWHERE), "KUBE.HOST") == [Outcome.PASS]  # the CPU is in no scheduler domain


def test_daemons_that_may_run_there() -> None:
    pod = Thread(tid=902, name="web", on=cpus(0, 1), cgroup=f"/kubepods/pod{OTHER}/{'b' * 64}")
    found = only(on(EVERYWHERE, SSHD, pod, **OPEN), "KUBE.HOST")
    assert (found.outcome, found.cpus, found.observed, found.limit) == (Outcome.WARN, (1,), 2, 0)
    assert found.detail == (
        "2 threads of the host may run there, the kubelet among them: kubelet, sshd; reservedSystemCPUs keeps CPUs for "
        "the host, and the host off no other"
    )
    assert found.evidence[0] == Evidence(path="/proc/900/task/900/status", field="Cpus_allowed_list", value="0-1")
    assert found.fix is not None
    assert found.fix.commands == ("sudo systemctl set-property -- system.slice AllowedCPUs=0",)
    assert found.fix.undo == "sudo systemctl set-property -- system.slice AllowedCPUs="
    assert "the kubelet among them" not in only(on(KUBELET, SSHD, **OPEN), "KUBE.HOST").detail


def test_daemons_that_ran_there() -> None:
    ran = Thread(tid=903, name="snmpd", cgroup="/system.slice/snmpd.service", switches=40, run_ms=80)
    found = only(on(KUBELET, ran, switches={1: 40}, busy={1: 0.01}, own=[]), "KUBE.HOST")
    assert (found.outcome, found.observed) == (Outcome.PASS, None)  # told by affinity, it owns CPU 1
    ran = Thread(tid=903, name="snmpd", on=cpus(0, 1), cgroup="/system.slice/snmpd.service", seen={1: 3}, switches=40)
    found = only(on(KUBELET, ran, switches={1: 40}, busy={1: 0.1}), "KUBE.HOST")
    assert (found.outcome, found.observed, found.cpus) == (Outcome.FAIL, 1, (1,))
    assert found.detail == (
        "ran on CPUs that containers have exclusively: snmpd (/system.slice/snmpd.service); the kubelet keeps off "
        "other pods only"
    )
    assert found.evidence == (Evidence(path="/proc/903/task/903/status", field="Cpus_allowed_list", value="0-1"),)


@pytest.mark.parametrize(
    "path",
    [
        f"sys/fs/cgroup/system.slice/docker-n1.scope/kubepods/pod{POD}/{CONTAINER_ID}",
        f"sys/fs/cgroup/cpuset/kubepods/pod{POD}/{CONTAINER_ID}",
    ],
)
def test_no_slice_of_pods_and_none_of_v1_is_narrowed(path: str) -> None:
    found = only(on(SSHD, kubernetes=node(containers=[pod_cgroup(path=path)]), **OPEN), "KUBE.HOST")
    assert found.fix is not None
    assert (found.outcome, found.fix.commands) == (Outcome.WARN, ())


def test_hidden_threads() -> None:
    found = only(on(complete=False), "KUBE.HOST")
    assert (found.outcome, found.detail) == (Outcome.UNKNOWN, "not all threads of the host are visible from here")


def test_nothing_exclusive_is_audited() -> None:
    ctx = context(kubernetes=node(kubelet(state=state("0-1")), containers=[]))
    for rule in ("KUBE.HOST", "KUBE.SMT", "KUBE.NUMA", "KUBE.QUOTA", "KUBE.AFFINITY", "KUBE.DRIFT"):
        found = only(ctx, rule)
        assert (found.outcome, found.detail) == (Outcome.NOT_APPLICABLE, "no container has these CPUs exclusively"), (
            rule
        )


def test_the_only_kubelet() -> None:
    found = only(on(), "KUBE.SHARED")
    assert (found.outcome, found.detail) == (
        Outcome.PASS,
        "the kubelet (PID 900) is the only one of this kernel, and no container itself",
    )
    assert outcomes(on(complete=False), "KUBE.SHARED") == [Outcome.UNKNOWN]


def test_a_node_in_a_container() -> None:
    found = only(on(kubernetes=node(kubelet(root="proc/900/root"))), "KUBE.SHARED")
    assert (found.outcome, found.title) == (Outcome.WARN, "node shares its kernel: PID 900")
    assert found.evidence == (Evidence(path="/proc/900/ns/mnt", field="link", value="not that of process 1"),)


@pytest.mark.parametrize(
    ("text", "outcome", "detail"),
    [
        (state("0-1"), Outcome.WARN, "in its shared pool: 1"),
        (state("0", other="1"), Outcome.FAIL, "exclusive to its pods too: 1; in its shared pool: none"),
        (state("", policy="none"), Outcome.WARN, "in its shared pool: 1"),
    ],
)
def test_two_kubelets_of_one_kernel(text: str, outcome: Outcome, detail: str) -> None:
    second = kubelet(state=text, pid=950)
    found = only(on(kubernetes=node(kubelet(), second)), "KUBE.SHARED")
    assert (found.outcome, found.observed, found.cpus) == (outcome, 1, (1,))
    assert found.detail == f"the kubelet (PID 950) uses CPUs that the kubelet (PID 900) gave away; {detail}"
    assert found.evidence == (Evidence(path=f"/{STATE_PATH}", field="defaultCpuSet, entries", value="1"),)


def test_two_kubelets_that_do_not_meet() -> None:
    second = kubelet(state=state("0"), pid=950)
    found = findings(on(kubernetes=node(kubelet(), second)), "KUBE.SHARED")
    assert [item.detail for item in found] == ["none of 2 kubelets uses these CPUs where another gave them away"]
    torn = kubelet(state=gone(STATE_PATH), pid=950)
    found = findings(on(kubernetes=node(kubelet(), torn)), "KUBE.SHARED")
    assert [item.outcome for item in found] == [Outcome.UNKNOWN]


def test_no_limit() -> None:
    found = only(on(), "KUBE.QUOTA")
    assert (found.outcome, found.axis) == (Outcome.PASS, Axis.READINESS)
    assert found.detail == "no limit on the containers with these CPUs, nor above them"


@pytest.mark.parametrize(
    ("level", "throttled", "outcome", "where"),
    [
        (CONTAINER, 0, Outcome.WARN, "on the container itself"),
        (CONTAINER, 7, Outcome.FAIL, "on the container itself"),
        (POD_PATH, 0, Outcome.WARN, f"on {POD_PATH} above it"),
        ("/kubepods", 3, Outcome.FAIL, "on /kubepods above it"),
    ],
)
def test_a_limit(level: str, throttled: int, outcome: Outcome, where: str) -> None:
    limit = Limited(quota_us=100_000, throttled=throttled, throttled_us=throttled, waited_us=None)
    found = only(on(limited={CONTAINER: Limited(waited_us=None), level: limit}), "KUBE.QUOTA")
    assert (found.outcome, found.observed, found.limit, found.unit) == (outcome, throttled, 0, "throttled periods")
    assert found.title == "CPU limit beside exclusive CPUs: default/bench/app"
    assert found.detail == (
        f"1 CPUs {where}; kubelets before 1.33 limit containers with exclusive CPUs (since then only with the feature "
        "gate off); on nohz_full CPUs run time is accounted late: even less than the limit may be throttled"
    )
    path = f"/sys/fs/cgroup{level}/cpu.max"
    assert found.evidence == (Evidence(path=path, field="quota period", value="100000 100000"),)
    assert found.fix is not None
    assert found.fix.commands == (f"echo max | sudo tee {path}",)


def test_a_limit_that_crun_left_on_the_scope() -> None:
    inner = Thread(tid=500, cgroup=f"{CONTAINER}/container")
    leaf = pod_cgroup(path=f"sys/fs/cgroup{CONTAINER}/container")
    scope = {CONTAINER: Limited(quota_us=1000, throttled=99, throttled_us=9_000, waited_us=None)}
    scope[inner.cgroup] = Limited(waited_us=None)
    ctx = on(own=[inner], kubernetes=node(containers=[leaf]), limited=scope, nohz_full=cpus())
    found = only(ctx, "KUBE.QUOTA")
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith(
        "0.01 CPUs on the scope above the container's own cgroup, where older versions of crun left it; "
    )
    assert "nohz_full" not in found.detail


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("cpuCFSQuota: false\n", "cpuCFSQuota is false: the kubelet did not set it, or before it was started last"),
        ("featureGates: {DisableCPUQuotaWithExclusiveCPUs: false}\n", "is off: the kubelet limits containers with"),
        (
            "featureGates: {DisableCPUQuotaWithExclusiveCPUs: true}\n",
            "is on: another agent set it, or it was so before",
        ),
    ],
)
def test_who_set_it(lines: str, words: str) -> None:
    ctx = on(kubernetes=node(kubelet(KUBELET_CONFIG + lines)), limited={CONTAINER: Limited(quota_us=100_000)})
    assert words in only(ctx, "KUBE.QUOTA").detail


def test_the_feature_gate_is_off() -> None:
    off = KUBELET_CONFIG + "featureGates: {DisableCPUQuotaWithExclusiveCPUs: false}\n"
    found = only(on(kubernetes=node(kubelet(off))), "KUBE.QUOTA")
    assert (found.outcome, found.observed) == (Outcome.WARN, None)
    assert found.detail.startswith("no limit now, but feature gate DisableCPUQuotaWithExclusiveCPUs is off: ")
    assert found.fix is not None
    never = on(kubernetes=node(kubelet(off + "cpuCFSQuota: false\n")))
    assert outcomes(never, "KUBE.QUOTA") == [Outcome.PASS]


def test_limits_that_are_not_read() -> None:
    found = only(on(own=[]), "KUBE.QUOTA")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "limits of default/bench/app are not read: no own thread is in its cgroup",
    )
    hidden = edit(on(), "after.limits.cgroups.hidden", gone("proc/self/ns/cgroup"))
    assert outcomes(hidden, "KUBE.QUOTA") == [Outcome.UNKNOWN]
    web = pod_cgroup(cpus(1), **OTHERS)
    assert outcomes(on(kubernetes=node(containers=[web])), "KUBE.QUOTA") == [Outcome.NOT_APPLICABLE]


def test_a_pass_of_these_rules_makes_nothing_ready() -> None:
    ctx = edit(on(), "facts.topology.node", {0: 0, 1: 0})
    kube = [found for rule in RULES if rule.id.startswith("KUBE.") for found in findings(ctx, rule.id)]
    rest = [found for rule in RULES if not rule.id.startswith("KUBE.") for found in findings(ctx, rule.id)]
    assert {found.outcome for found in kube} <= {Outcome.PASS, Outcome.NOT_APPLICABLE}
    assert readiness(rest + kube).status is readiness(rest).status
    assert readiness(kube).status is Readiness.LIMITED
