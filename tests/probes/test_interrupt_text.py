from __future__ import annotations

import pytest

from probes.interrupt_text import InterruptKind, actions_of, kind_of


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("  IO-APIC  16-fasteoi   i801_smbus, ehci_hcd:usb1, my driver 2", "i801_smbus, ehci_hcd:usb1, my driver 2"),
        (" PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0", "virtio1-req.0"),
        ("  PCI-MSIX-0000:00:02.0    1-edge      virtio1-req.0", "virtio1-req.0"),  # after 7.1
        ("  PCI-MSI 65537-edge      PCIe PME, aerdrv", "PCIe PME, aerdrv"),
        ("  IR-PCI-MSI-edge      iwlwifi", "iwlwifi"),  # 3.x, no hwirq
        ("    GICv3  27 Level     arch_timer", "arch_timer"),
        ("   ITS-MSI 65537 Edge      nvme0q1", "nvme0q1"),
        ("  RISC-V INTC   5 Edge      riscv-timer", "riscv-timer"),
        ("  xen-percpu    -virq      timer0", "timer0"),
        ("   xen-dyn    -event     eth0-q0-tx", "eth0-q0-tx"),
        ("  PCI-MSI  mlx5_async@pci:0002:00:00.0", "mlx5_async@pci:0002:00:00.0"),  # s390
        ("    XT-PIC      cascade", "cascade"),
        ("   MIPS   7  timer", "timer"),
        ("        -  mt_usb", "mt_usb"),
        ("4020KEY", "4020KEY"),  # no chip at all
        ("7-edge  PCI odd", "PCI odd"),
        ("IO-APIC 4-edge ttyS0", "ttyS0"),  # blanks squeezed on the way
        ("  IO-APIC   9-fasteoi   rising-edge", "rising-edge"),
        ("  IO-APIC   5-edge    ", ""),
        ("  PCI-MSI 65537-edge", ""),
        ("    GICv3  27 Level    ", ""),
        ("     None", ""),
        ("        -", ""),
        ("", ""),
    ],
)
def test_actions_of_a_numbered_row(text: str, actions: str) -> None:
    assert actions_of(text) == actions


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("NMI", InterruptKind.NMI),
        ("LOC", InterruptKind.TICK),
        ("HVS", InterruptKind.TICK),
        ("CLK", InterruptKind.TICK),
        ("PMI", InterruptKind.PMI),
        ("VPMI", InterruptKind.PMI),
        ("IWI", InterruptKind.IRQ_WORK),
        ("RES", InterruptKind.RESCHEDULE),
        ("CAL", InterruptKind.CALL),
        ("TLB", InterruptKind.TLB),
        ("TRM", InterruptKind.THERMAL),
        ("DFR", InterruptKind.MCE),
        ("MCE", InterruptKind.MCE),
        ("MCP", InterruptKind.MCE_POLL),
        ("HYP", InterruptKind.HYPERVISOR),
        ("HRE", InterruptKind.HYPERVISOR),
        ("PIN", InterruptKind.POSTED),
        ("NPI", InterruptKind.POSTED),
        ("PIW", InterruptKind.POSTED),
        ("PMN", InterruptKind.POSTED),
        ("DBL", InterruptKind.PER_CPU),
        ("SPU", InterruptKind.OTHER),
        ("RTR", InterruptKind.OTHER),
        ("THR", InterruptKind.OTHER),
        ("EXT", InterruptKind.REPEATED),
        ("I/O", InterruptKind.REPEATED),
    ],
)
def test_kind_by_label(label: str, kind: InterruptKind) -> None:
    assert kind_of(label, "whatever the text", "") is kind


def test_s390_uses_the_nmi_label_for_machine_checks() -> None:
    assert kind_of("NMI", "[NMI] Machine Check", "") is InterruptKind.MCE


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Rescheduling interrupts", InterruptKind.RESCHEDULE),
        ("Function call interrupts", InterruptKind.CALL),
        ("Single function call interrupts", InterruptKind.CALL),
        ("IRQ work interrupts", InterruptKind.IRQ_WORK),
        ("Timer broadcast interrupts", InterruptKind.TICK),
        ("CPU stop interrupts", InterruptKind.OTHER),
        ("CPU wake-up interrupts", InterruptKind.OTHER),
    ],
)
@pytest.mark.parametrize("label", ["IPI0", "IPI5"])
def test_kind_of_ipis_by_text_as_their_numbers_move(label: str, text: str, kind: InterruptKind) -> None:
    assert kind_of(label, text, "") is kind


@pytest.mark.parametrize(
    ("text", "actions", "kind"),
    [
        ("GICv3 27 Level arch_timer", "arch_timer", InterruptKind.TICK),
        ("AIC 0 Level arch_timer", "arch_timer", InterruptKind.TICK),
        ("RISC-V INTC 5 Edge riscv-timer", "riscv-timer", InterruptKind.TICK),
        ("GIC 27 Edge gt", "gt", InterruptKind.TICK),
        ("GIC-0 29 Edge twd", "twd", InterruptKind.TICK),
        ("CPUINTC 11 timer", "timer", InterruptKind.TICK),
        ("xen-percpu -virq timer0", "timer0", InterruptKind.TICK),
        ("xen-percpu -ipi resched0", "resched0", InterruptKind.PER_CPU),
        ("xen-percpu -ipi callfuncsingle0", "callfuncsingle0", InterruptKind.PER_CPU),
        ("GICv3 23 Level arm-pmu", "arm-pmu", InterruptKind.PMI),
        ("RISC-V INTC 13 Edge riscv-pmu", "riscv-pmu", InterruptKind.PMI),
        ("XIVE-IPI 0 Edge IPI-0", "IPI-0", InterruptKind.PER_CPU),
        ("XICS 2 Edge IPI", "IPI", InterruptKind.PER_CPU),
        ("GICv3 30 Level kvm guest vtimer", "kvm guest vtimer", InterruptKind.PER_CPU),
        ("GICv3 18 Level Hyper-V VMbus", "Hyper-V VMbus", InterruptKind.PER_CPU),
        ("GICv5-PPI 3 Level sbsa-gwdt", "sbsa-gwdt", InterruptKind.PER_CPU),
        ("GICv3 32 Level ehci_hcd:usb1", "ehci_hcd:usb1", InterruptKind.DEVICE),
        ("GICv5-SPI 5 Level uart", "uart", InterruptKind.DEVICE),
        ("GICv3 70 Edge arch_mem_timer", "arch_mem_timer", InterruptKind.DEVICE),
        ("ARMH0061:00 3 Edge ACPI:Event", "ACPI:Event", InterruptKind.DEVICE),
        ("SiFive PLIC 30 Edge 1600c000.rng", "1600c000.rng", InterruptKind.DEVICE),
        ("IO-APIC 2-edge timer", "timer", InterruptKind.DEVICE),  # the PIT, a device of the chip set
        ("IPI-hungry-nic", "IPI-hungry-nic", InterruptKind.DEVICE),
        ("", "", InterruptKind.DEVICE),
    ],
)
def test_per_cpu_numbered_rows_are_never_devices(text: str, actions: str, kind: InterruptKind) -> None:
    assert kind_of("17", text, actions) is kind
