"""/proc/interrupts of real machines beyond their answers (tests/cases): names, kinds, and booted guests."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from probes.counters import counter_delta
from probes.interrupts import InterruptKind, Interrupts, parse_interrupts
from tests.probes.collected import BOOTED, CASES, case_file, text_of

KIND = "interrupts"
pytestmark = pytest.mark.skipif(not (CASES / KIND).is_dir(), reason="no collected inputs beside the repository")


@cache
def parse_case(name: str) -> Interrupts:
    return parse_interrupts(text_of(case_file(KIND, name)))


def kinds(name: str) -> dict[str, InterruptKind]:
    return {row.label: row.kind for row in parse_case(name).rows}


@pytest.mark.parametrize(
    ("name", "ticks"),
    [
        ("aarch64-8cpu-ena", {"10", "IPI4"}),
        ("arm64-vmware-2cpu", {"10", "IPI4"}),
        ("arm64-tegra-12cpu", {"13", "IPI4"}),
        ("armv7-router-2cpu", {"16", "IPI1"}),
        ("hyperv-coreos-2cpu", {"LOC", "HVS"}),
        ("ppc64le-kvm-1cpu-truncated", {"LOC"}),
        ("s390x-16cpu", {"CLK"}),
        ("x86-8cpu", {"LOC"}),
        ("s390x-2cpu-minimal", set()),
    ],
)
def test_the_tick_by_its_name_on_each_architecture(name: str, ticks: set[str]) -> None:
    assert {label for label, kind in kinds(name).items() if kind is InterruptKind.TICK} == ticks


@pytest.mark.parametrize(
    ("name", "label", "actions"),
    [
        ("aarch64-8cpu-ena", "53", "nvme0q1"),
        ("arm-1cpu-no-chip", "1", "4020KEY"),
        ("arm-1cpu-no-chip", "27", "sep4020 Timer Tick"),
        ("arm-mt6589-1of4-online", "126", "mt_emi_mpu, spc, mt6577_devapc"),
        ("arm64-tegra-12cpu", "130", "3160000.i2c"),
        ("arm64-vmware-2cpu", "60", "nvme0q2"),
        ("armv7-router-2cpu", "29", "9000000.usb, dwc2_hsotg:usb3"),
        ("i686-1cpu", "11", "uhci_hcd:usb1, ens3"),
        ("x86-8cpu-single-irq-cpu", "47", "fglrx[0]@PCI:1:0:0"),
        ("x86-laptop-4cpu-3.x", "16", "ehci_hcd:usb1, mmc0"),
        ("s390x-16cpu", "3", "mlx5_async@pci:0002:00:00.0"),
        ("vmware-2cpu", "48", "PCIe PME, pciehp"),
        ("ppc64le-kvm-1cpu-truncated", "259", "virtio0-input.0"),
    ],
)
def test_device_names(name: str, label: str, actions: str) -> None:
    assert [row.actions for row in parse_case(name).rows if row.label == label] == [actions]


def test_no_interrupt_of_the_cpu_itself_counts_as_a_device() -> None:
    arm = kinds("aarch64-8cpu-ena")
    assert (arm["49"], arm["50"], arm["IPI0"]) == (InterruptKind.PMI, InterruptKind.DEVICE, InterruptKind.RESCHEDULE)
    assert kinds("ppc64le-kvm-1cpu-truncated")["16"] is InterruptKind.PER_CPU
    assert kinds("arm64-vmware-2cpu")["47"] is InterruptKind.DEVICE  # GICv3 32: the first that is shared


def test_only_the_first_count_of_present_cpus_is_attributed() -> None:
    (ipi,) = [row for row in parse_case("arm-mt6589-1of4-online").rows if row.label == "IPI1"]
    assert (dict(ipi.counts), ipi.text) == ({0: 75373}, "Rescheduling interrupts")


def test_all_descriptions_of_a_long_row_survive() -> None:
    (row,) = [row for row in parse_case("arm64-tegra-12cpu").rows if len(row.text) > 800]
    assert row.actions.count("arm-smmu") == 34


@pytest.mark.parametrize(
    ("guest", "phase", "devices", "ticks"),
    [
        ("isolated-rt612-6cpu", "idle", {}, 6),
        ("isolated-rt612-6cpu", "cpu", {}, 11),
        ("isolated-rt612-6cpu", "mix", {}, 3),
        ("isolated-rt612-6cpu-qemu10-acpi-idle", "cpu", {}, 8),
        ("plain-rt612-6cpu", "cpu", {"virtio0-requests": 27}, 1841),
        ("plain-rt612-6cpu", "mix", {"virtio0-requests": 28}, 1989),
        ("plain-rt612-6cpu-qemu10", "idle", {"virtio0-requests": 27}, 2046),
    ],
)
def test_what_interrupted_cpu_1_of_booted_guests(guest: str, phase: str, devices: dict[str, int], ticks: int) -> None:
    paths = [BOOTED / guest / f"{phase}-interrupts-{end}.txt" for end in ("before", "after")]
    if not all(path.is_file() for path in paths):
        pytest.skip("no recording beside the repository")
    before, after = (parse_interrupts(text_of(path), {1}) for path in paths)
    grown: Counter[str] = Counter()
    for start, end in zip(before.rows, after.rows, strict=True):
        assert (start.label, start.text) == (end.label, end.text)
        delta = counter_delta(start.counts[1], end.counts[1])
        assert delta is not None
        if end.kind in (InterruptKind.DEVICE, InterruptKind.TICK):
            grown[end.actions] += delta
    assert grown.pop("") == ticks
    assert +grown == devices


def test_an_offline_cpu_of_a_booted_guest_has_no_column() -> None:
    path = BOOTED / "isolated-rt612-6cpu-cgroup-idle" / "interrupts-cpu5-offline.txt"
    if not path.is_file():
        pytest.skip("no recording beside the repository")
    found = parse_interrupts(text_of(path), {1, 5})
    assert found.cpus == (0, 1, 2, 3, 4)
    assert all(set(row.counts) == {1} for row in found.rows)
