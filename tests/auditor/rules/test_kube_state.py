"""KUBE.STATE and KUBE.STALE: what is wrong with the state of the CPU manager, and whose entries are nobody's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Evidence, FixKind, Kind, Outcome, Status
from auditor.rules import RULES
from auditor.verdict import judge_cpu
from probes.host import ProbeError, SourceState
from tests.auditor.build import (
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

STATE_PATH = "var/lib/kubelet/cpu_manager_state"
OTHER = "0aa1d6f2-0000-4000-8000-000000000002"
KUBELET = Thread(tid=900, name="kubelet", on=cpus(0), cgroup="/system.slice/kubelet.service")
NONE = "kind: KubeletConfiguration\ncpuManagerPolicy: none\n"


def state(default: str = "0", policy: str = "static", checksum: int | None = None, **entries: Any) -> str:
    """A state; ``app="1"`` is a container of POD, ``other=`` a pod of its own."""
    found: dict[str, Any] = {"policyName": policy, "defaultCpuSet": default}
    pods: dict[str, Any] = {POD: {name: on for name, on in entries.items() if name != "other"}}
    if "other" in entries:
        pods[OTHER] = {"app": entries["other"]}
    found["entries"] = {pod: names for pod, names in pods.items() if names}
    return json.dumps(found if checksum is None else {**found, "checksum": checksum})


def on(text: str | ProbeError, **given: Any) -> Context:
    """CPUs 0 and 1, with the kubelet as a thread of its unit."""
    config = given.pop("config", None)
    values = {"state": text} if config is None else {"state": text, "config": config}
    leaves = given.pop("containers", None)
    return context(kubernetes=node(kubelet(**values, **given), containers=leaves), threads=[KUBELET])


def test_without_a_kubelet_one_rule_says_so() -> None:
    every = [finding for rule in RULES if rule.id.startswith("KUBE.") for finding in findings(context(), rule.id)]
    assert [(found.rule, found.outcome, found.detail) for found in every] == [
        ("KUBE.STATE", Outcome.NOT_APPLICABLE, "no kubelet runs here or is set up")
    ]


@pytest.mark.parametrize("complete", [True, False])
def test_a_kubelet_that_may_be_hidden(complete: bool) -> None:
    found = only(context(complete=complete), "KUBE.STATE")
    assert found.outcome is (Outcome.NOT_APPLICABLE if complete else Outcome.UNKNOWN)
    blind = only(edit(context(), "after.census", gone("proc")), "KUBE.STATE")
    assert (blind.outcome, blind.detail) == (Outcome.UNKNOWN, "/proc: missing for this test")


def test_a_state_that_makes_sense() -> None:
    found = only(on(state(app="1")), "KUBE.STATE")
    assert (found.outcome, found.kind, found.cpus) == (Outcome.PASS, Kind.RISK, (1,))
    assert found.detail == "that of the kubelet (PID 900) makes sense: policy static, 1 containers with CPUs"


def test_a_wrong_checksum_warns() -> None:
    found = only(on(state(checksum=7, app="1")), "KUBE.STATE")
    assert (found.outcome, found.observed) == (Outcome.WARN, None)
    assert found.evidence == (Evidence(path=f"/{STATE_PATH}", field="checksum", value="wrong"),)
    assert found.fix is not None
    assert found.fix.kind is FixKind.KUBELET
    assert found.fix.commands == (
        "sudo systemctl stop -- kubelet.service",
        f"sudo mv /{STATE_PATH} /{STATE_PATH}.bak",
        "sudo systemctl start -- kubelet.service",
    )
    assert found.fix.undo == f"sudo mv /{STATE_PATH}.bak /{STATE_PATH}"


@pytest.mark.parametrize(
    ("text", "detail", "observed"),
    [
        (state("0-1", app="1"), "CPUs 1 are both exclusive and in the shared pool", 1),
        (state(app="1", other="1"), "CPUs 1 were given to more than one pod", 1),
        (state("0,6-7", app="1"), "CPUs 6-7 are not online", 2),
        (state("", app="1"), None, None),  # CPU 0 is reserved: strict reservation looks so
        (state("", other="0"), "CPUs 1 are online and in no set", 1),
        (state("0-1", policy="none"), "it is of policy none, configured is static", None),
    ],
)
def test_sets_that_no_kubelet_starts_on(text: str, detail: str | None, observed: int | None) -> None:
    ctx = on(text)
    found = [item for item in findings(ctx, "KUBE.STATE") if item.outcome is not Outcome.PASS]
    assert [(item.outcome, item.detail.startswith(str(detail)), item.observed) for item in found] == (
        [] if detail is None else [(Outcome.FAIL, True, observed)]
    )
    assert judge_cpu(ctx, [f for rule in RULES for f in findings(ctx, rule.id)], 1).status is Status.ISOLATED


@pytest.mark.parametrize(
    ("error", "outcome", "detail"),
    [
        (gone(STATE_PATH, SourceState.DENIED), Outcome.UNKNOWN, f"/{STATE_PATH}: denied for this test"),
        (gone(STATE_PATH, SourceState.MASKED), Outcome.UNKNOWN, f"/{STATE_PATH}: masked for this test"),
        (
            gone("proc/900/cmdline", SourceState.MALFORMED),
            Outcome.UNKNOWN,
            "/proc/900/cmdline: malformed for this test",
        ),
        (
            gone(STATE_PATH),
            Outcome.UNKNOWN,
            f"/{STATE_PATH}: missing for this test: deleted under it, or it never started with the static policy",
        ),
        (
            gone(STATE_PATH, SourceState.MALFORMED),
            Outcome.WARN,
            f"/{STATE_PATH}: malformed for this test; a kubelet that starts on it refuses to",
        ),
    ],
)
def test_a_state_that_gives_nothing(error: ProbeError, outcome: Outcome, detail: str) -> None:
    ctx = on(error)
    found = only(ctx, "KUBE.STATE")
    assert (found.outcome, found.detail) == (outcome, detail)
    for rule in ("KUBE.STALE", "KUBE.DRIFT", "KUBE.SMT", "KUBE.NUMA", "KUBE.QUOTA", "KUBE.AFFINITY", "KUBE.RESERVED"):
        assert outcomes(ctx, rule) == [Outcome.UNKNOWN], rule


def test_policy_none_writes_no_state() -> None:
    ctx = on(gone(STATE_PATH), config=NONE)
    assert only(ctx, "KUBE.STATE").outcome is Outcome.NOT_APPLICABLE
    assert outcomes(ctx, "KUBE.STALE") == [Outcome.PASS]
    assert only(on(gone(STATE_PATH), config=NONE, flags_seen=False), "KUBE.STATE").outcome is Outcome.UNKNOWN


def test_what_keeps_a_state_from_passing() -> None:
    unset = only(on(state(app="1"), flags_seen=False), "KUBE.STATE")
    assert unset.outcome is Outcome.UNKNOWN
    assert unset.detail == (
        "whether its policy (static) is the configured one is not told: "
        "the flags of the kubelet (PID 900) are not known"
    )
    text = json.dumps({"data": state(app="1"), "checksum": 7})
    assert only(on(text), "KUBE.STATE").detail == "how its checksum is made is not known"
    offline = edit(on(state(app="1")), "after.config.online", gone("online"))
    assert only(offline, "KUBE.STATE").detail == "/online: missing for this test"
    quantity = "kind: KubeletConfiguration\ncpuManagerPolicy: static\nkubeReserved: {cpu: '1'}\n"
    left = only(on(state("", app="1"), config=quantity), "KUBE.STATE")
    assert (left.outcome, left.detail) == (Outcome.UNKNOWN, "whether CPUs that are in no set are reserved is not told")


def test_the_fix_where_the_kubelet_is_not_a_unit_of_this_host() -> None:
    commands = []
    for given in ({"pid": None}, {"root": "proc/900/root"}, {"pid": 901}):
        fix = only(on(state(checksum=7, app="1"), flags_seen=True, **given), "KUBE.STATE").fix
        assert fix is not None
        commands.append(fix.commands)
    assert commands == [(f"sudo mv /{STATE_PATH} /{STATE_PATH}.bak",), (), ()]


def test_every_entry_has_its_container() -> None:
    found = only(on(state(app="1")), "KUBE.STALE")
    assert (found.outcome, found.detail) == (Outcome.PASS, "every CPU that was given away has its container")


def test_init_containers_hand_their_cpus_on() -> None:
    assert outcomes(on(state(app="1", warm="1")), "KUBE.STALE") == [Outcome.PASS]


def test_entries_of_nobody() -> None:
    found = only(on(state("", app="1", other="0")), "KUBE.STALE")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.WARN, 1, 0, "CPUs")
    assert found.detail == f"CPUs 0 are held for {OTHER}/app (nothing of its pod is there): nobody else gets them"
    assert found.evidence == (Evidence(path=f"/{STATE_PATH}", field="entries", value="0"),)
    assert found.fix is not None
    assert found.fix.commands == ("sudo systemctl restart -- kubelet.service",)


def test_what_an_init_container_leaves() -> None:
    found = only(on(state("", app="1", warm="0-1")), "KUBE.STALE")
    assert found.detail == "CPUs 0 are held for default/bench/warm (its container is not there): nobody else gets them"
    assert found.fix is not None
    assert found.fix.text.startswith("init containers that ask for more than the others keep the rest")


def test_cgroups_that_do_not_tell() -> None:
    found = only(on(state(app="1"), containers=gone("sys/fs/cgroup")), "KUBE.STALE")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        f"which cgroup is that of {POD}/app, or what it says, can't be told: /sys/fs/cgroup: missing for this test",
    )
    both = on(state("", app="1", other="0"), containers=[pod_cgroup(cpus(7), name=None)])
    assert outcomes(both, "KUBE.STALE") == [Outcome.WARN, Outcome.UNKNOWN]
