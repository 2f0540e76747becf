from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.irq_affinity import (
    IrqAffinities,
    IrqAffinity,
    feeds_from_its_cpus,
    is_block_queue,
    is_managed,
    read_irq_affinity,
)
from tests.probes.collected import BOOTED, text_of


def files(irq: int, requested: str, effective: str | None) -> dict[str, str | ProbeError]:
    found: dict[str, str | ProbeError] = {f"proc/irq/{irq}/smp_affinity_list": requested}
    if effective is not None:
        found[f"proc/irq/{irq}/effective_affinity_list"] = effective
    return found


DEFAULT: dict[str, str | ProbeError] = {"proc/irq/default_smp_affinity": "11\n"}


def test_every_interrupt_with_what_was_asked_for_and_what_is() -> None:
    host = DictHost(
        DEFAULT | files(2, "0,4\n", "\n") | files(9, "0-5\n", "4\n") | files(36, "1\n", "1\n"),
        modes={
            "proc/irq/2/smp_affinity": 0o644,
            "proc/irq/9/smp_affinity": 0o600,
            "proc/irq/36/smp_affinity": 0o444,
        },
    )
    assert read_irq_affinity(host) == IrqAffinities(
        irqs={
            2: IrqAffinity(irq=2, requested=frozenset({0, 4}), effective=frozenset(), settable=True),
            9: IrqAffinity(irq=9, requested=frozenset(range(6)), effective=frozenset({4}), settable=True),
            36: IrqAffinity(irq=36, requested=frozenset({1}), effective=frozenset({1}), settable=False),
        },
        default=frozenset({0, 4}),
        modes_tell=True,
    )


def test_effective_is_none_where_the_kernel_does_not_tell_and_mode_where_the_host_does_not() -> None:
    found = read_irq_affinity(DictHost(DEFAULT | files(9, "0-1\n", None)))
    assert found.irqs == {9: IrqAffinity(irq=9, requested=frozenset({0, 1}), effective=None, settable=None)}
    assert not found.modes_tell


def test_an_unreadable_interrupt_does_not_hide_the_others() -> None:
    path = "proc/irq/8/smp_affinity_list"
    denied = "proc/irq/10/effective_affinity_list"
    host = DictHost(
        DEFAULT
        | files(9, "0\n", "0\n")
        | files(10, "0\n", None)
        | files(11, "0-x\n", "0\n")
        | {path: ProbeError(path, "permission denied", SourceState.DENIED)}
        | {denied: ProbeError(denied, "permission denied", SourceState.DENIED)}
        | {"proc/irq/12/spurious": "count 0\n"}
    )
    irqs = read_irq_affinity(host).irqs
    assert list(irqs) == [8, 9, 10, 11, 12]
    states = {irq: found.state for irq, found in irqs.items() if isinstance(found, ProbeError)}
    assert states == {
        8: SourceState.DENIED,
        10: SourceState.DENIED,
        11: SourceState.MALFORMED,
        12: SourceState.MISSING,
    }


def test_default_mask_of_many_cpus_or_its_reason() -> None:
    host = DictHost({"proc/irq/default_smp_affinity": "00000001,00000000,00000003\n"})
    assert read_irq_affinity(host).default == frozenset({0, 1, 64})
    host = DictHost({"proc/irq/0/smp_affinity_list": "0\n"})
    default = read_irq_affinity(host).default
    assert isinstance(default, ProbeError)
    assert default.state is SourceState.MISSING


def test_nothing_to_walk_raises() -> None:
    with pytest.raises(ProbeError, match=r"^/proc/irq: no such file"):
        read_irq_affinity(DictHost({}))


@pytest.mark.parametrize("name", ["smp_affinity_list", "effective_affinity_list"])
@pytest.mark.parametrize(("text", "state"), [("", SourceState.MASKED), ("1", SourceState.MALFORMED)])
def test_a_list_that_is_masked_or_cut_is_no_door_that_is_shut(name: str, text: str, state: SourceState) -> None:
    found = read_irq_affinity(DictHost({**files(9, "0-3\n", "0\n"), f"proc/irq/9/{name}": text})).irqs[9]
    assert isinstance(found, ProbeError)
    assert found.state is state


def affinity(settable: bool | None) -> IrqAffinity:
    return IrqAffinity(irq=5, requested=frozenset({0, 1}), effective=frozenset({1}), settable=settable)


@pytest.mark.parametrize(
    ("actions", "managed"),
    [
        ("nvme0q1", True),
        ("nvme12q31", True),
        ("virtio1-req.0", True),
        ("virtio3-request.2", True),
        ("virtio3-request", True),
        ("megasas0-msix12", True),
        ("mpi3mr0-msix3", True),
        ("mpt3sas0-msix3", True),
        ("acpi, nvme0q1", True),
        ("nvme0q0", False),
        ("nvme0q0, nvme1q0", False),
        ("virtio0-config", False),
        ("virtio0-requests", False),
        ("virtio2-input.0", False),
        ("eth0-Tx-Rx-1", False),
        ("my-nvme0q1", False),
        ("nvme0q1\n", False),
        ("", None),
    ],
)
def test_managed_by_name_where_modes_do_not_tell(actions: str, managed: bool | None) -> None:
    assert is_managed(affinity(True), actions, modes_tell=False) is managed
    assert is_managed(affinity(None), actions, modes_tell=True) is managed


@pytest.mark.parametrize("actions", ["nvme0q1", "virtio0-config", ""])
def test_the_mode_outranks_the_name(actions: str) -> None:
    assert is_managed(affinity(False), actions, modes_tell=True) is True
    assert is_managed(affinity(True), actions, modes_tell=True) is False


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["smp_affinity_list", "effective_affinity_list"]), st.text()), st.text())
def test_any_content_is_values_and_probe_errors(contents: dict[str, str], default: str) -> None:
    paths = {f"proc/irq/7/{name}": text for name, text in contents.items()}
    found = read_irq_affinity(DictHost({**paths, "proc/irq/default_smp_affinity": default}))
    assert set(found.irqs) <= {7}
    assert all(isinstance(value, IrqAffinity | ProbeError) for value in found.irqs.values())


def test_booted_guest() -> None:
    path = BOOTED / "guest-facts-isolated-rt612-q35-6cpu.txt"
    if not path.is_file():
        pytest.skip("no recording beside the repository")
    contents: dict[str, str | ProbeError] = {}
    names = {}
    for irq, name, requested, effective in re.findall(
        r"^(\d+) (\S*)  smp=(\S*) eff=(\S*)$", text_of(path), re.MULTILINE
    ):
        contents |= files(int(irq), requested + "\n", effective + "\n")
        names[int(irq)] = name
    irqs = read_irq_affinity(DictHost(contents)).irqs
    reach_1 = {}
    for irq, found in irqs.items():
        assert isinstance(found, IrqAffinity)
        if 1 in found.requested:
            reach_1[names[irq]] = (found.effective, is_managed(found, names[irq], modes_tell=False))
    assert reach_1 == {
        "virtio1-req.1": (frozenset({1}), True),
        "virtio2-input.0": (frozenset({0}), False),
        "virtio2-output.0": (frozenset({4}), False),
    }


@pytest.mark.parametrize(
    ("actions", "block", "fed"),
    [
        ("nvme0q1", True, True),
        ("nvme0q0", False, False),
        ("virtio1-req.0", True, True),
        ("virtio1-request", True, True),
        ("virtio0-requests", False, False),
        ("mpt3sas0-msix2", True, False),
        ("megasas0-msix2", True, False),
        ("eth0-rx-1", False, False),
        ("nvme0q1, nvme1q1", True, True),
        ("nvme0q1, eth0", False, False),
        ("", False, False),
    ],
)
def test_queues_of_block_devices_and_those_that_fire_for_their_own_cpus_only(
    actions: str, block: bool, fed: bool
) -> None:
    assert (is_block_queue(actions), feeds_from_its_cpus(actions)) == (block, fed)
