"""The kernel whose CPU limits expire: which builds, and only where a limit is."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Axis, Evidence, Kind, Outcome
from auditor.rules.cfs_bug import has_fix
from probes.host import SourceState
from tests.auditor.build import Limited, Thread, context, edit, gone, only, outcomes

OWN = [Thread(cgroup="/app")]
LIMITED = {"/app": Limited(quota_us=50_000)}


def limited(release: str, **given: Any) -> Context:
    return context(**{"release": release, "own": OWN, "limited": LIMITED, **given})


@pytest.mark.parametrize(
    ("release", "version", "fixed"),
    [
        ("4.17.9", "", True),
        ("4.18.0", "", False),
        ("4.18.20", "", False),
        ("4.19.83", "", False),
        ("4.19.84", "", True),
        ("4.20.17", "", False),
        ("5.2.21", "", False),
        ("5.3.8", "", False),
        ("5.3.9", "", True),
        ("4.14.153", "", None),
        ("4.14.154", "", True),
        ("4.9.100", "", True),
        ("4.19.50-vendor", "", False),
        ("4.19.0-6-amd64", "#1 SMP Debian 4.19.67-2+deb10u2 (2019-11-11)", False),
        ("4.19.0-8-amd64", "#1 SMP Debian 4.19.98-1 (2020-01-26)", True),
        ("4.19.0-8-amd64", "#1 SMP", None),
        ("4.15.0-66-generic", "#75-Ubuntu SMP", False),
        ("4.15.0-67-generic", "#76-Ubuntu SMP", True),
        ("5.3.0-23-generic", "#25~18.04.1-Ubuntu", False),
        ("5.3.0-24-generic", "#26-Ubuntu", True),
        ("5.0.0-37-generic", "#40-Ubuntu", None),
        ("4.15.0-1052-aws", "#54-Ubuntu SMP", None),
        ("3.10.0-1062.el7.x86_64", "", False),
        ("3.10.0-1062.8.1.el7.x86_64", "", True),
        ("3.10.0-1127.el7.x86_64", "", True),
        ("4.18.0-147.el8.x86_64", "", False),
        ("4.18.0-147.2.1.el8_1.x86_64", "", True),
        ("4.18.0-394.el8.x86_64", "", True),
        ("5.0", "", None),
    ],
)
def test_builds(release: str, version: str, fixed: bool | None) -> None:
    assert has_fix(release, version) is fixed


@pytest.mark.parametrize(
    ("release", "outcome"),
    [
        ("4.18.5", Outcome.WARN),
        ("4.19.84", Outcome.PASS),
        ("4.14.1", Outcome.UNKNOWN),
        ("5.4.0", Outcome.NOT_APPLICABLE),
        ("6.12.1", Outcome.NOT_APPLICABLE),
        ("?", Outcome.UNKNOWN),
    ],
)
def test_below_a_limit(release: str, outcome: Outcome) -> None:
    assert outcomes(limited(release), "CFG.CFSBUG") == [outcome]


def test_what_is_said() -> None:
    found = only(limited("4.18.5"), "CFG.CFSBUG")
    assert (found.axis, found.kind) == (Axis.READINESS, Kind.RISK)
    assert found.detail == (
        "this build is older than the fix: threads below a CPU limit may be throttled before they used it up"
    )
    assert found.evidence == (Evidence(path="/proc/sys/kernel/osrelease", field="release", value="4.18.5"),)
    assert found.fix is not None
    assert found.fix.reboot


def test_without_a_limit() -> None:
    assert outcomes(limited("4.18.5", limited={}), "CFG.CFSBUG") == [Outcome.NOT_APPLICABLE]
    hidden = edit(limited("4.18.5", limited={}), "after.limits.cgroups.hidden", gone(state=SourceState.MASKED))
    assert outcomes(hidden, "CFG.CFSBUG") == [Outcome.UNKNOWN]
