"""Since which kubelet an option of the static policy is there."""

from __future__ import annotations

import pytest

from probes.kubelet_options import CONFLICTS, GATE_OF, SINCE, Stage, stage_of

A, B, S, NO = Stage.ALPHA, Stage.BETA, Stage.STABLE, Stage.ABSENT
VERSIONS = (21, 28, 31, 32, 33, 34, 35, 36)


@pytest.mark.parametrize(
    ("option", "stages"),
    [
        ("full-pcpus-only", (NO, B, B, B, S, S, S, S)),
        ("distribute-cpus-across-numa", (NO, A, A, A, B, B, B, B)),
        ("align-by-socket", (NO, A, A, A, A, A, A, A)),
        ("distribute-cpus-across-cores", (NO, NO, A, A, A, A, A, A)),
        ("strict-cpu-reservation", (NO, NO, NO, A, B, B, S, S)),
        ("prefer-align-cpus-by-uncorecache", (NO, NO, NO, A, A, B, B, S)),
        ("made-up", (None,) * 8),
    ],
)
def test_stages(option: str, stages: tuple[Stage | None, ...]) -> None:
    assert tuple(stage_of(option, (1, minor)) for minor in VERSIONS) == stages


def test_what_conflicts_is_known_and_only_unripe_options_have_a_gate() -> None:
    assert {option for pair in CONFLICTS for option in pair} <= SINCE.keys()
    assert set(GATE_OF) == {A, B}
