from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.interrupts import InterruptKind, InterruptRow, Interrupts, parse_interrupts, read_interrupts
from tests.probes.outcome import outcome

X86 = """\
            CPU0       CPU4       
  0:         95          0   IO-APIC   2-edge      timer
 16:          0          3   IO-APIC  16-fasteoi   i801_smbus, ehci_hcd:usb1, my driver 2
 36:          7      59462  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
NMI:          0          0   Non-maskable interrupts
LOC:      65915     111422   Local timer interrupts
RES:       1011        348   Rescheduling interrupts
ERR:          2
MIS:          0

PIN:          1          0   Posted-interrupt notification event
"""  # noqa: W291 the kernel pads the header

X86_AFTER_7_1 = """\
            CPU0       CPU4       
  36:          7      59462  PCI-MSIX-0000:00:02.0    1-edge      virtio1-req.0
  40:          0          0  IO-APIC                  4-edge      ttyS0
 LOC:      65915     111422  Local timer interrupts
VPMI:          0          0  Perf Guest Mediated PMI
 ERR:          0          1  PIC/APIC error interrupts
"""  # noqa: W291

ARM64 = """\
           CPU0       CPU1       
 11: 1053012000     998877     GICv3  27 Level     arch_timer
 12:          0          0     GICv3  23 Level     arm-pmu
 51:         13          0   ITS-MSI 65536 Edge      nvme0q0
IPI0:1234567890         12       Rescheduling interrupts
IPI1:       500 4294967295       Function call interrupts
Err:          3
"""  # noqa: W291

PPC = """\
           CPU0       CPU1       
 16:       2198       1378  XIVE-IPI   0 Edge      IPI-0
LOC:      10508      10601   Local timer interrupts for timer event device
BCT:          0          0   Broadcast timer interrupts for timer event device
LOC:         31         28   Local timer interrupts for others
DBL:         77         78   Doorbell interrupts
"""  # noqa: W291

S390 = """\
           CPU0       CPU1       
EXT:          5          7 
I/O:          2          1 
  3:          6          4    PCI-MSI  mlx5_async@pci:0002:00:00.0
CLK:        100        200   [EXT] Clock Comparator
EXC:          3          1   [EXT] External Call
C15:          1          0   [I/O] 3215
NMI:          0          0   [NMI] Machine Check
RST:          0          1   [CPU] CPU Restart
"""  # noqa: W291

ARM_1_OF_4 = """\
           CPU0       
 29:      85682         -  timer
 30:          0   4020KEY
FIQ:              fiq_glue
IPI1:      75373     107711      43906      30716  Rescheduling interrupts
Err:          0
"""  # noqa: W291


def row(interrupts: Interrupts, label: str) -> InterruptRow:
    (found,) = [row for row in interrupts.rows if row.label == label]
    return found


def test_x86_rows_totals_and_online_cpus() -> None:
    found = parse_interrupts(X86)
    assert found.cpus == (0, 4)
    assert [row.label for row in found.rows] == ["0", "16", "36", "NMI", "LOC", "RES", "PIN"]
    assert found.totals == {"ERR": 2, "MIS": 0}
    assert row(found, "36") == InterruptRow(
        label="36",
        text="PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0",
        kind=InterruptKind.DEVICE,
        actions="virtio1-req.0",
        counts={0: 7, 4: 59462},
    )
    assert row(found, "36").irq == 36
    assert row(found, "36").name == "virtio1-req.0"
    assert row(found, "16").actions == "i801_smbus, ehci_hcd:usb1, my driver 2"
    loc = row(found, "LOC")
    assert (loc.irq, loc.name, loc.actions, loc.kind) == (None, "Local timer interrupts", "", InterruptKind.TICK)


def test_only_wanted_columns_are_kept_and_offline_cpus_have_none() -> None:
    found = parse_interrupts(X86, {4, 5})
    assert found.cpus == (0, 4)
    assert row(found, "LOC").counts == {4: 111422}
    assert parse_interrupts(X86, []).rows[0].counts == {}


def test_layout_after_7_1_has_error_rows_per_cpu() -> None:
    found = parse_interrupts(X86_AFTER_7_1)
    assert [row.label for row in found.rows] == ["36", "40", "LOC", "VPMI", "ERR"]
    assert found.totals == {}
    assert row(found, "ERR").counts == {0: 0, 4: 1}
    assert row(found, "ERR").kind is InterruptKind.OTHER
    assert row(found, "36").text == row(parse_interrupts(X86), "36").text
    assert row(found, "40").actions == "ttyS0"


def test_one_cpu_error_rows_are_told_by_label_and_text() -> None:
    found = parse_interrupts(
        "           CPU0       \nLOC:   5   Local timer interrupts\nERR:  1\n MIS:  2  Misrouted IO/APIC interrupts\n"
    )
    assert found.totals == {"ERR": 1}
    assert [(row.label, row.counts) for row in found.rows] == [("LOC", {0: 5}), ("MIS", {0: 2})]


def test_arm64_counts_glued_to_the_label_and_per_cpu_interrupts() -> None:
    found = parse_interrupts(ARM64)
    assert row(found, "IPI0").counts == {0: 1234567890, 1: 12}
    assert row(found, "IPI1").counts == {0: 500, 1: 4294967295}
    assert found.totals == {"Err": 3}
    assert {row.label: row.kind for row in found.rows} == {
        "11": InterruptKind.TICK,
        "12": InterruptKind.PMI,
        "51": InterruptKind.DEVICE,
        "IPI0": InterruptKind.RESCHEDULE,
        "IPI1": InterruptKind.CALL,
    }


def test_ppc_has_two_rows_of_one_label_and_both_stay() -> None:
    found = parse_interrupts(PPC)
    locs = [row for row in found.rows if row.label == "LOC"]
    assert [(row.text, row.counts[0]) for row in locs] == [
        ("Local timer interrupts for timer event device", 10508),
        ("Local timer interrupts for others", 31),
    ]
    assert row(found, "16").kind is InterruptKind.PER_CPU
    assert sum(row.counts[1] for row in found.rows if row.kind is InterruptKind.TICK) == 10601 + 28


def test_s390_rows_without_text_and_with_a_slash() -> None:
    found = parse_interrupts(S390)
    assert (row(found, "EXT").name, row(found, "EXT").text) == ("EXT", "")
    assert row(found, "I/O").counts == {0: 2, 1: 1}
    assert row(found, "3").actions == "mlx5_async@pci:0002:00:00.0"
    assert row(found, "C15").text == "[I/O] 3215"
    assert row(found, "CLK").kind is InterruptKind.TICK
    assert row(found, "NMI").kind is InterruptKind.MCE


def test_old_arm_prints_ipis_of_present_cpus_and_rows_without_chip() -> None:
    found = parse_interrupts(ARM_1_OF_4)
    assert row(found, "IPI1").counts == {0: 75373}
    assert row(found, "IPI1").text == "Rescheduling interrupts"
    assert (row(found, "30").counts, row(found, "30").name) == ({0: 0}, "4020KEY")
    assert row(found, "29").actions == "timer"
    assert found.totals == {"Err": 0}
    assert "FIQ" not in [row.label for row in found.rows]


def test_present_columns_behind_a_gap_belong_to_nobody() -> None:
    found = parse_interrupts(" CPU0 CPU2\nIPI1: 1 2 3 4  Rescheduling interrupts\n")
    assert row(found, "IPI1").counts == {0: 1}


@pytest.mark.parametrize("text", ["", "\n", "  \n \n"])
def test_an_empty_file_is_masked(text: str) -> None:
    with pytest.raises(ProbeError, match="container runtimes mask this file") as caught:
        parse_interrupts(text)
    assert caught.value.state is SourceState.MASKED


def test_a_file_without_header_is_masked() -> None:
    with pytest.raises(ProbeError, match="line 1: no CPU header; container runtimes mask") as caught:
        parse_interrupts(" 45:        314          0   PCI-MSI-edge      nvme0q0\n")
    assert caught.value.state is SourceState.MASKED


HEADER = "           CPU0       CPU1       \n"
LOC = "LOC:          1          2   Local timer interrupts\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEADER + LOC + " 36:          1", "line 3: no line end, the file is cut"),
        (HEADER.rstrip("\n"), "line 1: no line end, the file is cut"),
        (HEADER, "line 1: no rows behind the header"),
        (HEADER + LOC + " 36:          1\n", "line 3: fewer than 2 counts"),
        (HEADER + "LOC:\n", "line 2: fewer than 2 counts"),
        (HEADER + "LOC:          1          -2   Local timer interrupts\n", "line 2: fewer than 2 counts"),
        (HEADER + "LOC:          1          ²   Local timer interrupts\n", "line 2: fewer than 2 counts"),
        (HEADER + LOC + "ERR:          x\n", "line 3: no count: 'x'"),
        (HEADER + LOC + "ERR:\n", "line 3: fewer than 2 counts"),
        (HEADER + "LOC:   1   2   3   Local timer interrupts\n", "line 2: more than 2 counts"),
        (HEADER + " 36:   1   2   3  IO-APIC 4-edge  x\n", "line 2: more than 2 counts"),
        (HEADER + LOC + f"RES: 1 {'9' * 5000}  Rescheduling interrupts\n", "line 3: no count: '9999"),
        (HEADER + LOC + "[ ... ]\n", r"line 3: no row of this file: '\[ ... \]'"),
        (HEADER + LOC + "...\n", "line 3: no row of this file"),
        (HEADER + LOC + HEADER + LOC, "line 3: a second CPU header: several snapshots"),
        (HEADER + LOC + "Timestamp: 17\n", "line 3: fewer than 2 counts"),
        (HEADER + " 12:   3   0 SiFive PLIC 111 Edge\n    17030000.power-controller\n", "line 3: no row of this file"),
        ("CPU0 CPU1\nCPU2\n" + LOC, "line 2: a second CPU header"),
        (HEADER + LOC + ">>>  17:   0   0  XIVE-IPI   1 Edge      IPI-1\n", "line 3: no row of this file: '>>>"),
        ("$ cat /proc/interrupts\n" + HEADER + LOC, "line 1: not the CPU header, that is line 2"),
        ("           CPU0      =20\n" + LOC, "line 1: the CPU header holds '=20'"),
        ("           CPU0  ...   CPU7\n" + LOC, r"line 1: the CPU header holds '\.\.\.'"),
        ("           CPU0       CP\n" + LOC, "line 1: the CPU header holds 'CP'"),
        ("           CPU0       CPU0       \n" + LOC, "line 1: the CPU header names a CPU twice"),
    ],
)
def test_damaged_files_are_refused_with_the_line(text: str, reason: str) -> None:
    with pytest.raises(ProbeError, match=f"^/proc/interrupts: {reason}") as caught:
        parse_interrupts(text)
    assert caught.value.state is SourceState.MALFORMED


def test_reading_takes_the_file_of_the_host() -> None:
    host = DictHost({"proc/interrupts": ARM64})
    assert read_interrupts(host, {0}) == parse_interrupts(ARM64, {0})
    with pytest.raises(ProbeError, match="no such file"):
        read_interrupts(DictHost({}))


X86_LAST_ROWS = """\
NMI:          0          0   Non-maskable interrupts
LOC:      65915     111422   Local timer interrupts
SPU:          0          0   Spurious interrupts
RES:       1011        348   Rescheduling interrupts
CAL:         11         48   Function call interrupts
TLB:          1          4   TLB shootdowns
"""
X86_HEADER = "           CPU0       CPU1\n"
X86_DEVICE = " 36:          7      59462  PCI-MSI 1-edge      eth0\n"
OLD_PCI = " 36:          7      59462  PCI-MSI-edge      eth0\n"
X86_ONE = "           CPU0\n  1:    9    XT-PIC    1-edge      i8042\n"
X86_ENDS = "ERR:          2\nMIS:          0\n"
NEW_X86 = (X86_DEVICE + X86_LAST_ROWS).replace("   ", "  ").replace("SPU: 0 0  Spurious interrupts\n", "")


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (X86_HEADER + X86_DEVICE + X86_LAST_ROWS + X86_ENDS, None),
        (X86_HEADER + X86_DEVICE + X86_LAST_ROWS + X86_ENDS + "PIN:   1   0   Posted-interrupt event\n", None),
        (X86_HEADER + X86_LAST_ROWS + "ERR:          2\n", "MIS"),
        (X86_HEADER + X86_LAST_ROWS, "ERR"),
        (X86_HEADER + X86_DEVICE + "".join(X86_LAST_ROWS.splitlines(True)[:5]) + X86_ENDS, "TLB"),
        (X86_HEADER + X86_DEVICE + "".join(X86_LAST_ROWS.splitlines(True)[:3]), "RES"),
        (X86_HEADER + X86_DEVICE + "".join(X86_LAST_ROWS.splitlines(True)[:1]), "LOC"),
        (X86_HEADER + X86_DEVICE, "NMI"),
        (X86_HEADER + OLD_PCI, "NMI"),
        (X86_HEADER + NEW_X86, None),  # after 7.1 ERR and MIS come with their first event
        (X86_ONE, "NMI"),
        (X86_ONE + "NMI:    0   Non-maskable interrupts\n", "ERR"),
        (X86_ONE + "NMI:    0   Non-maskable interrupts\n" + X86_ENDS, None),  # built for one CPU
        (ARM64, None),
        (ARM64.replace("Err:          3\n", ""), "Err"),
        (PPC, None),
        (S390, None),
        (ARM_1_OF_4, None),
    ],
)
def test_rows_lost_at_a_line_end_are_noticed_where_the_kernel_always_prints_them(text: str, lost: str | None) -> None:
    host = DictHost({"proc/interrupts": text})
    if lost is None:
        assert read_interrupts(host) == parse_interrupts(text)
        return
    with pytest.raises(ProbeError) as caught:
        read_interrupts(host)
    assert caught.value.reason == f"no row {lost}, which this kernel always prints: the file is cut"
    assert caught.value.state is SourceState.MALFORMED


@settings(deadline=None)
@given(st.text() | st.text(alphabet="CPU01 :\n9LOCERRIPI.-").map(lambda text: text + "\n"))
def test_any_text_is_a_value_or_a_probe_error(text: str) -> None:
    found = outcome(lambda: parse_interrupts(text, path="some/path"))
    if isinstance(found, ProbeError):
        assert found.path == "some/path"
    else:
        assert found.cpus
        assert all(set(row.counts) <= set(found.cpus) for row in found.rows)


@settings(deadline=None)
@given(st.sampled_from([X86, X86_AFTER_7_1, ARM64, PPC, S390, ARM_1_OF_4]), st.data())
def test_a_file_cut_anywhere_is_refused_or_only_lacks_whole_rows(text: str, data: st.DataObject) -> None:
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    whole = parse_interrupts(text)
    found = outcome(lambda: parse_interrupts(cut))
    assert isinstance(found, ProbeError) or found.rows == whole.rows[: len(found.rows)]


counts = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4000), min_size=1, max_size=6, unique=True), st.data())
def test_printed_as_the_kernel_prints_it_comes_back(cpus: list[int], data: st.DataObject) -> None:
    table = {
        label: data.draw(st.lists(counts, min_size=len(cpus), max_size=len(cpus))) for label in ("7", "1024", "LOC")
    }
    lines = [" " * 11 + "".join(f"CPU{cpu:<8}" for cpu in cpus)]
    lines += [
        f"{label:>3}: " + "".join(f"{count:10} " for count in row) + "  some text" for label, row in table.items()
    ]
    found = parse_interrupts("\n".join(lines) + "\n")
    assert found.cpus == tuple(cpus)
    assert {row.label: [row.counts[cpu] for cpu in cpus] for row in found.rows} == table
