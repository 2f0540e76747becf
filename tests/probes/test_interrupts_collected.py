"""/proc/interrupts of real machines against their answers: sums, rows, deltas; damaged ones are refused."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from probes.counters import counter_delta
from probes.host import ProbeError, SourceState
from probes.interrupts import InterruptKind, Interrupts, parse_interrupts
from tests.probes.collected import BOOTED, CASES, case_file, case_names, right_lines, text_of

KIND = "interrupts"
REFUSED = {
    "azure-1cpu-steal-excerpt": (SourceState.MASKED, "line 1: no CPU header"),
    "x86-8cpu-nvme-headerless": (SourceState.MASKED, "line 1: no CPU header"),
    "ppc64le-8cpu-mail-wrapped": (SourceState.MASKED, "line 1: no CPU header"),
    "riscv-jh7110-mail-wrapped": (SourceState.MALFORMED, "line 1: not the CPU header, that is line 2"),
    "microvm-noacpi-1cpu-qp": (SourceState.MALFORMED, "line 1: the CPU header holds '=20'"),
    "x86-multi-snapshot-compacted": (SourceState.MALFORMED, "line 1: not the CPU header, that is line 2"),
}
pytestmark = pytest.mark.skipif(not (CASES / KIND).is_dir(), reason="no collected inputs beside the repository")


def plain_cases() -> list[str]:
    return [name for name in case_names(KIND) if name not in REFUSED and not name.endswith(".before")]


def pair_cases() -> list[str]:
    return [name.removesuffix(".before") for name in case_names(KIND) if name.endswith(".before")]


@cache
def parse_case(name: str) -> Interrupts:
    return parse_interrupts(text_of(case_file(KIND, name)))


def right(name: str) -> str:
    return " ".join(right_lines(KIND, name))


def cpu_set(text: str) -> set[int]:
    ranges = [part.partition("-") for part in text.split(",")]
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}


def sums(found: Interrupts, *, numbered: bool) -> Counter[int]:
    total: Counter[int] = Counter()
    for row in found.rows:
        if row.irq is not None or not numbered:
            total.update(row.counts)
    return total


def test_there_are_cases_of_every_sort() -> None:
    assert len(plain_cases()) >= 24
    assert len(pair_cases()) >= 7
    assert set(REFUSED) <= set(case_names(KIND))


@pytest.mark.parametrize("name", plain_cases())
def test_columns_rows_and_totals(name: str) -> None:
    match = re.search(
        r"(\d+) CPU columns: ([\d,-]+); (\d+) numeric IRQ rows \+ (\d+) named per-CPU rows \((.*?)\); "
        r"rows without per-CPU counts: (.+?)(?: sum of|$)",
        right(name),
    )
    assert match
    columns, cpus, numeric, named, labels, machine_wide = match.groups()
    found = parse_case(name)
    assert len(found.cpus) == int(columns)
    assert set(found.cpus) == cpu_set(cpus)
    assert sum(row.irq is not None for row in found.rows) == int(numeric)
    names = [row.label for row in found.rows if row.irq is None]
    assert len(names) == int(named)
    expected = [label for label in labels.rstrip("…").split(", ") if label]
    assert names[: len(expected)] == expected
    assert set(found.totals) == set(re.findall(r"(\w+)\(1\)", machine_wide))


@pytest.mark.parametrize("name", plain_cases())
def test_sums_by_cpu_and_the_largest_cell(name: str) -> None:
    match = re.search(r"all per-CPU rows: (.*?); numeric.*?only: (.*?); largest cell (\d+)", right(name))
    assert match
    found = parse_case(name)
    for numbered, text in ((False, match[1]), (True, match[2])):
        total = sums(found, numbered=numbered)
        for cpu, count in re.findall(r"CPU(\d+)=(\d+)", text):
            assert total[int(cpu)] == int(count)
    assert max(count for row in found.rows for count in row.counts.values()) == int(match[3])


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_one_whole_snapshot_is_refused(name: str) -> None:
    state, reason = REFUSED[name]
    with pytest.raises(ProbeError, match=reason) as caught:
        parse_case(name)
    assert caught.value.state is state


@pytest.mark.parametrize("name", pair_cases())
def test_growth_between_two_reads(name: str) -> None:
    match = re.search(
        r"(\d+) CPUs both times, (\d+) comparable rows.*?total delta (\d+); CPU0 (\d+), CPU(\d+) (\d+), "
        r"busiest CPU(\d+) (\d+); numeric rows only: total (\d+), CPU0 (\d+), CPU\d+ (\d+) "
        r"largest rows by delta: (.*?); CPUs with zero numeric-row delta: (\S+)",
        right(f"{name}.before"),
    )
    assert match
    before, after = parse_case(f"{name}.before"), parse_case(f"{name}.after")
    assert len(before.cpus) == int(match[1])
    assert before.cpus == after.cpus
    starts = {(row.label, row.text): row for row in before.rows}
    assert [(row.label, row.text) for row in after.rows] == list(starts)
    assert len(starts) == int(match[2])
    cpus: Counter[int] = Counter()
    numeric: Counter[int] = Counter(dict.fromkeys(before.cpus, 0))
    rows: Counter[str] = Counter()
    for row in after.rows:
        start = starts[row.label, row.text].counts
        for cpu, count in row.counts.items():
            delta = counter_delta(start[cpu], count)
            assert delta is not None
            cpus[cpu] += delta
            rows[row.label] += delta
            if row.irq is not None:
                numeric[cpu] += delta
    last = int(match[5])
    assert (cpus.total(), cpus[0], cpus[last]) == (int(match[3]), int(match[4]), int(match[6]))
    assert cpus[int(match[7])] == max(cpus.values()) == int(match[8])
    assert (numeric.total(), numeric[0], numeric[last]) == (int(match[9]), int(match[10]), int(match[11]))
    for label, delta_text in re.findall(r"([A-Z\d]+)=(\d+)", match[12]):
        assert rows[label] == int(delta_text)
    quiet = set() if match[13] == "none" else cpu_set(match[13])
    assert {cpu for cpu, delta in numeric.items() if not delta} == quiet


def test_another_boot_is_no_wrap() -> None:
    first, second = parse_case("vmm-4cpu-virtio-1"), parse_case("vmm-4cpu-virtio-2")
    fell = set()
    for before, after in zip(first.rows, second.rows, strict=True):
        assert before.label == after.label
        if any(counter_delta(before.counts[cpu], after.counts[cpu]) is None for cpu in before.counts):
            fell.add(before.label)
    assert fell == {"25", "26", "27", "29"}


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
