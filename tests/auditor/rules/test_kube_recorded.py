"""The rules about kubelets on what a real one wrote and did: its files and cgroups, beside a quiet machine."""

from __future__ import annotations

import pytest

from auditor.model import Outcome
from auditor.rules import BY_ID
from probes.snapshot import Census, read_kubernetes
from tests.auditor.build import context, cpus, edit, findings
from tests.auditor.test_kubelet_view import KEY, KTHREADD, LEADER, host_of
from tests.probes.collected import SHARED

KUBE = [name for name in BY_ID if name.startswith("KUBE.")]


RUNS = {
    "default": {
        "KUBE.RESERVED": Outcome.WARN,  # a container with half a CPU, and one without a request
        "KUBE.QUOTA": Outcome.UNKNOWN,  # the recordings hold no threads
        "KUBE.AFFINITY": Outcome.UNKNOWN,
    },
    "pod-level": {
        "KUBE.RESERVED": Outcome.WARN,
        "KUBE.QUOTA": Outcome.UNKNOWN,
        "KUBE.AFFINITY": Outcome.UNKNOWN,
    },
    "strict": {"KUBE.POOL": Outcome.WARN},  # nothing is given away, so what is isolated is in the pool
}
"""What neither passes nor is without object."""


@pytest.mark.parametrize("run", RUNS)
def test_a_real_kubelet(run: str) -> None:
    path = SHARED / "recordings" / f"kubelet-1.36.2-{run}.txt"
    if not path.is_file():
        pytest.skip("no recordings beside the repository")
    census = Census(statuses={KEY: LEADER, **KTHREADD}, cgroups={KEY.pid: "/"}, schedstat=True)
    kubernetes = read_kubernetes(host_of(path.read_text()), census)
    siblings = {cpu: cpus(cpu ^ 1, cpu) for cpu in range(8)}
    ctx = context(audited=(2, 3), control=(0, 1, 4, 5, 6, 7), kubernetes=kubernetes, siblings=siblings)
    ctx = edit(ctx, "facts.topology.node", dict.fromkeys(range(8), 0))
    found = {name: [item.outcome for item in findings(ctx, name)] for name in KUBE}
    quiet = ([Outcome.PASS], [Outcome.NOT_APPLICABLE])
    assert {name: outcome for name, (outcome,) in found.items() if [outcome] not in quiet} == RUNS[run]
    given = [name for name, known in found.items() if known == [Outcome.NOT_APPLICABLE]]
    assert bool(given) is (run == "strict")
