"""/proc/interrupts in the shape of each architecture (arch/*/kernel/irq.c, smp.c); the counts are made up."""

from __future__ import annotations

import pytest

from probes.host import DictHost, ProbeError
from probes.interrupts import InterruptKind, parse_interrupts, read_interrupts

K = InterruptKind
HEADER = "           CPU0       CPU2       CPU3       \n"
"""CPU 1 is offline: column 2 is not CPU 2's number plus one, nor is it CPU 1."""

X86 = """\
  0:         40          0          0   IO-APIC    2-edge      timer
 14:          0        512          0  IR-IO-APIC   14-fasteoi   INTC1055:00
 36:          0          0      77120  PCI-MSIX-0000:00:02.0   1-edge      eth0-TxRx-1
NMI:          1          2          3   Non-maskable interrupts
LOC:      65915     111422       1010   Local timer interrupts
SPU:          0          0          0   Spurious interrupts
PMI:          1          2          3   Performance monitoring interrupts
IWI:          9          0          1   IRQ work interrupts
RTR:          0          0          0   APIC ICR read retries
RES:       1011        348          5   Rescheduling interrupts
CAL:         11         48          7   Function call interrupts
TLB:          1          4          0   TLB shootdowns
TRM:          0          0          0   Thermal event interrupts
THR:          0          0          0   Threshold APIC interrupts
DFR:          0          0          0   Deferred Error APIC interrupts
MCE:          0          0          0   Machine check exceptions
MCP:         14         14         14   Machine check polls
HYP:          5          5          5   Hypervisor callback interrupts
HRE:          0          0          0   Hyper-V reenlightenment interrupts
HVS:        100        200        300   Hyper-V stimer0 interrupts
ERR:          4
MIS:          0
PIN:          0          0          0   Posted-interrupt notification event
NPI:          0          0          0   Nested posted-interrupt event
PIW:          0          0          0   Posted-interrupt wakeup event
PMN:          0          0          0   Posted MSI notification event
"""

X86_AFTER_7_1 = """\
   0:         40          0          0  IO-APIC                   2-edge      timer
  36:          0          0      77120  PCI-MSIX-0000:00:02.0     1-edge      eth0-TxRx-1
 NMI:          1          2          3  Non-maskable interrupts
 LOC:      65915     111422       1010  Local timer interrupts
 PMI:          1          2          3  Performance monitoring interrupts
VPMI:          0          0          6  Perf Guest Mediated PMI
 RES:       1011        348          5  Rescheduling interrupts
 CAL:         11         48          7  Function call interrupts
 TLB:          1          4          0  TLB shootdowns
 ERR:          0          1          0  PIC/APIC error interrupts
"""

XEN = """\
 48:      90210          0          0  xen-percpu    -virq      timer0
 49:        310          0          0  xen-percpu    -ipi       resched0
 50:         12          0          0  xen-percpu    -ipi       callfunc0
 60:          0          8          0   xen-dyn    -event     vif0-q0-tx
NMI:          0          0          0   Non-maskable interrupts
LOC:          0          0          0   Local timer interrupts
RES:        310          0          0   Rescheduling interrupts
CAL:         12          0          0   Function call interrupts
TLB:          0          0          0   TLB shootdowns
HYP:      90500          8          0   Hypervisor callback interrupts
ERR:          0
MIS:          0
"""

ARM = """\
 17:          0          0          0     GICv2  29 Edge      twd
 18:      20011      19000      21000     GICv2  27 Edge      gt
 45:          3          0          0     GICv2  61 Level     e0009000.usb, dwc2_hsotg:usb3
FIQ:              usb_fiq
IPI0:          0          1          1  CPU wakeup interrupts
IPI1:          7          8          9  Timer broadcast interrupts
IPI2:        101        102        103  Rescheduling interrupts
IPI3:         11         12         13  Function call interrupts
IPI4:          0          0          0  CPU stop interrupts
IPI5:          2          2          2  IRQ work interrupts
IPI6:          0          0          0  completion interrupts
Err:          0
"""

ARM64 = """\
 11:    1053012     998877         12     GICv3  27 Level     arch_timer
 13:          0          0          0     GICv3  23 Level     arm-pmu
 14:          0          0          0     GICv3  18 Level     kvm guest vtimer
 51:          0       1977          0   ITS-MSI 65537 Edge      nvme0q1
IPI0:1234567890         12         13       Rescheduling interrupts
IPI1:       500 4294967295          1       Function call interrupts
IPI2:         0          0          0       CPU stop interrupts
IPI4:         0          0          4       Timer broadcast interrupts
IPI5:         6          0          0       IRQ work interrupts
Err:          3
"""

PPC64 = """\
 16:       2198       1378          5  XIVE-IPI   0 Edge      IPI-0
 18:          0       6401          0  XIVE-IRQ 4609 Level     virtio3, virtio0
LOC:      10508      10601         99   Local timer interrupts for timer event device
BCT:          1          0          0   Broadcast timer interrupts for timer event device
LOC:         31         28          0   Local timer interrupts for others
SPU:          4          4          4   Spurious interrupts
PMI:          1          0          0   Performance monitoring interrupts
MCE:          0          0          0   Machine check exceptions
HMI:          0          0          0   Hypervisor Maintenance Interrupts
NMI:          0          0          0   System Reset interrupts
WDG:          0          0          0   Watchdog soft-NMI interrupts
DBL:         77         78          1   Doorbell interrupts
"""

S390 = """\
EXT:          5          7          1 
I/O:          2          1          0 
AIO:         12          0          0 
  3:          9          0          0   PCI-MSI  mlx5_async@pci:0002:00:00.0
CLK:        100        200        300   [EXT] Clock Comparator
EXC:         10         20         30   [EXT] External Call
EMS:          1          2          3   [EXT] Emergency Signal
TMR:          0          0          0   [EXT] CPU Timer
CIO:          2          1          0   [I/O] Common I/O Layer
DAS:          0          0          0   [I/O] DASD
QAI:          3          0          0   [AIO] QDIO Adapter Interrupt
PCF:          9          0          0   [AIO] PCI Floating Interrupt
MSI:          9          0          0   [AIO] MSI Interrupt
NMI:          0          0          1   [NMI] Machine Check
RST:          1          1          1   [CPU] CPU Restart
"""  # noqa: W291

RISCV = """\
 10:     751464     533527     506565  RISC-V INTC   5 Edge      riscv-timer
 11:          1          2          3  RISC-V INTC  13 Edge      riscv-pmu
 12:          3          0          0  SiFive PLIC 111 Edge      17030000.power-controller
IPI0:        40         41         42  Rescheduling interrupts
IPI1:       110       111       112  Function call interrupts
IPI2:         0          0          0  CPU stop interrupts
IPI4:         1          1          1  IRQ work interrupts
IPI5:         0          0          0  Timer broadcast interrupts
"""

MIPS = """\
  7:     300100     300200     300300      MIPS   7  timer
  8:          2          0          0  MIPS GIC Local   1  timer
  4:          5          0          0      MIPS   4  serial
 22:         80          0          0  MIPS GIC   9  IPI call
 23:        640          0          0  MIPS GIC  10  IPI resched
 24:       1200          0          0  MIPS GIC  11  1e100000.ethernet
ERR:          0
"""

LOONGARCH = """\
 11:      70100      70200      70300   CPUINTC  11  timer
 12:          0          0          0   CPUINTC  10  Perf_PMU
 25:         93          0          0   PCH PIC  19  ehci_hcd:usb1
IPI0:       40         41         42  LoongArch  1  Rescheduling interrupts
IPI1:      110        111        112  LoongArch  2  Function call interrupts
IPI2:        6          0          0  LoongArch  3  IRQ work interrupts
IPI3:        0          0          0  LoongArch  4  Clear vector interrupts
ERR:          0
"""

SPARC = """\
  5:         80          0          0     sun4v     -IVEC      ldc
 20:          7          0          0     sun4v     vnet0
RES:         40         41         42     IPI rescheduling interrupts
CAL:        110        111        112     IPI function call interrupts
NMI:          1          1          1     Non-maskable interrupts
"""

ALPHA = """\
  4:        100          0          0      ISA  serial
IPI:         40         41         42 
ERR:          0
"""  # noqa: W291


PARISC = """\
 64:      70100      70200      70300             CPU  timer
 65:         40         41         42             CPU  IPI
 72:         80          0          0         IOSAPIC  sym53c8xx
IST:          0          0          0  interrupt stack usage
RES:         40         41         42  Rescheduling interrupts
CAL:        110        111        112  Function call interrupts
TLB:          1          1          1  TLB shootdowns
"""

M68K = """  6:          7          0          0      auto  serial
ERR:          0
"""


@pytest.mark.parametrize(
    ("text", "kinds", "totals"),
    [
        (
            X86,
            {
                K.DEVICE: "0 14 36",
                K.NMI: "NMI",
                K.TICK: "LOC HVS",
                K.OTHER: "SPU RTR THR",
                K.PMI: "PMI",
                K.IRQ_WORK: "IWI",
                K.RESCHEDULE: "RES",
                K.CALL: "CAL",
                K.TLB: "TLB",
                K.THERMAL: "TRM",
                K.MCE: "DFR MCE",
                K.MCE_POLL: "MCP",
                K.HYPERVISOR: "HYP HRE",
                K.POSTED: "PIN NPI PIW PMN",
            },
            {"ERR": 4, "MIS": 0},
        ),
        (
            X86_AFTER_7_1,
            {
                K.DEVICE: "0 36",
                K.NMI: "NMI",
                K.TICK: "LOC",
                K.PMI: "PMI VPMI",
                K.RESCHEDULE: "RES",
                K.CALL: "CAL",
                K.TLB: "TLB",
                K.OTHER: "ERR",
            },
            {},
        ),
        (
            XEN,
            {
                K.TICK: "48 LOC",
                K.PER_CPU: "49 50",
                K.DEVICE: "60",
                K.NMI: "NMI",
                K.RESCHEDULE: "RES",
                K.CALL: "CAL",
                K.TLB: "TLB",
                K.HYPERVISOR: "HYP",
            },
            {"ERR": 0, "MIS": 0},
        ),
        (
            ARM,
            {
                K.TICK: "17 18 IPI1",
                K.DEVICE: "45",
                K.OTHER: "IPI0 IPI4 IPI6",
                K.RESCHEDULE: "IPI2",
                K.CALL: "IPI3",
                K.IRQ_WORK: "IPI5",
            },
            {"Err": 0},
        ),
        (
            ARM64,
            {
                K.TICK: "11 IPI4",
                K.PMI: "13",
                K.PER_CPU: "14",
                K.DEVICE: "51",
                K.RESCHEDULE: "IPI0",
                K.CALL: "IPI1",
                K.OTHER: "IPI2",
                K.IRQ_WORK: "IPI5",
            },
            {"Err": 3},
        ),
        (
            PPC64,
            {
                K.PER_CPU: "16 DBL",
                K.DEVICE: "18",
                K.TICK: "LOC BCT",
                K.OTHER: "SPU",
                K.PMI: "PMI",
                K.MCE: "MCE",
                K.HYPERVISOR: "HMI",
                K.NMI: "NMI WDG",
            },
            {},
        ),
        (
            S390,
            {
                K.REPEATED: "EXT I/O AIO PCF MSI",
                K.DEVICE: "3 CIO DAS QAI",
                K.TICK: "CLK",
                K.PER_CPU: "EXC EMS",
                K.OTHER: "TMR RST",
                K.MCE: "NMI",
            },
            {},
        ),
        (
            RISCV,
            {
                K.TICK: "10 IPI5",
                K.PMI: "11",
                K.DEVICE: "12",
                K.RESCHEDULE: "IPI0",
                K.CALL: "IPI1",
                K.OTHER: "IPI2",
                K.IRQ_WORK: "IPI4",
            },
            {},
        ),
        (MIPS, {K.TICK: "7 8", K.DEVICE: "4 24", K.CALL: "22", K.RESCHEDULE: "23"}, {"ERR": 0}),
        (
            LOONGARCH,
            {
                K.TICK: "11",
                K.PMI: "12",
                K.DEVICE: "25",
                K.RESCHEDULE: "IPI0",
                K.CALL: "IPI1",
                K.IRQ_WORK: "IPI2",
                K.OTHER: "IPI3",
            },
            {"ERR": 0},
        ),
        (SPARC, {K.DEVICE: "5 20", K.RESCHEDULE: "RES", K.CALL: "CAL", K.NMI: "NMI"}, {}),
        (ALPHA, {K.DEVICE: "4", K.PER_CPU: "IPI"}, {"ERR": 0}),
        (
            PARISC,
            {
                K.TICK: "64",
                K.PER_CPU: "65",
                K.DEVICE: "72",
                K.OTHER: "IST",
                K.RESCHEDULE: "RES",
                K.CALL: "CAL",
                K.TLB: "TLB",
            },
            {},
        ),
        (M68K, {K.DEVICE: "6"}, {"ERR": 0}),
    ],
)
def test_rows_and_their_kinds(text: str, kinds: dict[InterruptKind, str], totals: dict[str, int]) -> None:
    found = read_interrupts(DictHost({"proc/interrupts": HEADER + text}))
    assert found.cpus == (0, 2, 3)
    assert all(tuple(row.counts) == (0, 2, 3) for row in found.rows)
    assert {row.label: row.kind for row in found.rows} == {
        label: kind for kind, labels in kinds.items() for label in labels.split()
    }
    assert dict(found.totals) == totals


@pytest.mark.parametrize(
    ("text", "label", "counts", "actions"),
    [
        (X86, "36", [0, 0, 77120], "eth0-TxRx-1"),
        (X86_AFTER_7_1, "36", [0, 0, 77120], "eth0-TxRx-1"),
        (X86_AFTER_7_1, "ERR", [0, 1, 0], ""),
        (XEN, "60", [0, 8, 0], "vif0-q0-tx"),
        (ARM, "45", [3, 0, 0], "e0009000.usb, dwc2_hsotg:usb3"),
        (ARM64, "IPI0", [1234567890, 12, 13], ""),
        (ARM64, "IPI1", [500, 4294967295, 1], ""),
        (PPC64, "18", [0, 6401, 0], "virtio3, virtio0"),
        (S390, "3", [9, 0, 0], "mlx5_async@pci:0002:00:00.0"),
        (S390, "I/O", [2, 1, 0], ""),
        (RISCV, "12", [3, 0, 0], "17030000.power-controller"),
        (MIPS, "22", [80, 0, 0], "IPI call"),
        (LOONGARCH, "25", [93, 0, 0], "ehci_hcd:usb1"),
        (SPARC, "5", [80, 0, 0], "ldc"),
        (ALPHA, "IPI", [40, 41, 42], ""),
    ],
)
def test_counts_and_actions(text: str, label: str, counts: list[int], actions: str) -> None:
    (row,) = [row for row in parse_interrupts(HEADER + text).rows if row.label == label]
    assert (list(row.counts.values()), row.actions) == (counts, actions)


ALL = (X86, X86_AFTER_7_1, XEN, ARM, ARM64, PPC64, S390, RISCV, MIPS, LOONGARCH, SPARC, ALPHA, PARISC, M68K)


@pytest.mark.parametrize("text", ALL)
def test_a_paste_that_is_no_plain_snapshot_is_refused_with_its_line(text: str) -> None:
    lines = (HEADER + text).splitlines(keepends=True)
    count = len(lines)
    last = lines[-1].split(":")[0].strip()
    wide = next(at for at, line in enumerate(lines, 1) if at > 1 and len(line) > 46)
    broken = {
        "line 1: no CPU header": lines[1:],
        f"line {count}: no line end": [*lines[:-1], lines[-1].rstrip("\n")],
        f"line {count + 1}: a second CPU header": [*lines, *lines],
        f"line {count + 1}: no row of this file: '...'": [*lines, "...\n"],
        "line 2: no row of this file: '[ ... ]'": [lines[0], "[ ... ]\n", *lines[1:]],
        f"line {count + 1}: row {last} again": [*lines, lines[-1]],
        f"line {wide}: fewer than 3 counts": [*lines[: wide - 1], lines[wide - 1][:30] + "\n", *lines[wide:]],
        "line 1: not the CPU header, that is line 2": ["$ cat /proc/interrupts\n", *lines],
        "line 1: not the CPU header, that is line 3": ["Timestamp: 17.5\n", "\n", *lines],
        "line 2: a second CPU header": [lines[0][:22] + "\n", lines[0][22:], *lines[1:]],
        "line 1: the CPU header holds '...'": [lines[0].rstrip() + " ...\n", *lines[1:]],
    }
    for reason, paste in broken.items():
        with pytest.raises(ProbeError) as caught:
            parse_interrupts("".join(paste))
        assert caught.value.reason.startswith(reason)


def test_a_name_wrapped_by_a_mail_program_is_refused_with_its_line() -> None:
    wrapped = RISCV.replace("RISC-V INTC   5 Edge      riscv", "RISC-V INTC   5 Edge\n    riscv")
    with pytest.raises(ProbeError, match="line 3: no row of this file: 'riscv-timer'"):
        parse_interrupts(HEADER + wrapped)


def test_a_row_cut_within_its_last_count_is_refused_with_its_line() -> None:
    cut = X86.partition("77120")[0] + "77\n"
    with pytest.raises(ProbeError, match="line 4: no chip and no name behind the counts: the line is cut"):
        parse_interrupts(HEADER + cut)


def test_a_row_with_counts_left_out_in_the_middle_is_refused_with_its_line() -> None:
    elided = X86.replace("LOC:      65915     111422       1010", "LOC:      65915        ...       1010")
    with pytest.raises(ProbeError, match="line 6: fewer than 3 counts"):
        parse_interrupts(HEADER + elided)


@pytest.mark.parametrize(
    ("text", "first_lost", "row"),
    [
        (X86, "LOC", "LOC"),
        (X86, "MIS", "MIS"),
        (XEN, "TLB", "TLB"),
        (ARM, "Err", "Err"),
        (ARM64, "IPI0", "Err"),
        (S390, "CLK", "CLK"),
        (S390, "RST", "RST"),
        (PPC64, "LOC", "with a name behind the numbers"),
        (RISCV, "IPI0", "with a name behind the numbers"),
        (MIPS, "ERR", "with a name behind the numbers"),
        (PARISC, "IST", "with a name behind the numbers"),
    ],
)
def test_a_file_cut_at_a_line_end_is_refused_where_it_can_be_told(text: str, first_lost: str, row: str) -> None:
    kept = text.partition(f"\n{first_lost}:")[0]
    assert kept != text
    with pytest.raises(ProbeError, match=f"no row {row}, which this kernel always prints: the file is cut"):
        read_interrupts(DictHost({"proc/interrupts": f"{HEADER}{kept}\n"}))


def test_the_tick_of_hyper_v_on_arm64() -> None:
    rows = " 5:  1  2  3  GICv3  16 Level     Hyper-V stimer0\nErr:  0\n"
    assert [row.kind for row in parse_interrupts(HEADER + rows).rows] == [K.TICK]


def laid_out_anew(text: str) -> str:
    """The same rows as after 7.1: a blank before every count, two before the text, chips left-aligned."""
    found = []
    for line in text.splitlines():
        label, _, rest = line.partition(":")
        fields = rest.split(None, 3)
        if label == "FIQ" or len(fields) < 3:
            found.append(f"{label:>4}: {rest.strip():>10}")
            continue
        counts = "".join(f" {count:>10}" for count in fields[:3])
        chip, gap, more = "".join(fields[3:]).partition("  ")
        found.append(f"{label.strip():>4}:{counts}  {chip:<20}{gap}{more}")
    return "\n".join(found) + "\n"


@pytest.mark.parametrize("text", ALL)
def test_both_layouts_say_the_same(text: str) -> None:
    anew = laid_out_anew(text)
    assert anew != text
    assert parse_interrupts(HEADER + anew) == parse_interrupts(HEADER + text)
