"""The QEMU command line of a node: a pure function of its description."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

QEMU = "qemu-system-x86_64"
# lpj (3 GHz at HZ=250): measuring it on a busy host takes up to a second per CPU, and fails.
# Mitigations, hardening and self-tests of ciphers cost emulated CPUs a third of their time, and decide nothing here.
LIGHT = "mitigations=off init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off apparmor=0 cryptomgr.notests"
BASE_CMDLINE = f"console=ttyS0 quiet loglevel=4 panic=-1 oops=panic lpj=12000000 {LIGHT}"
# Under thread=multi a vCPU may meet a breakpoint that the kernel set while it patched its code and has long taken away:
# "Oops: int3". On a busy host one boot in six died so, where sched_clock() is patched with all CPUs up. Hence guests
# start on CPU 0, and init starts the other CPUs when the patching is over.
LATE_CPUS = "maxcpus=1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Everything that decides the argv of one guest; ``job`` is the directory it shares with the host."""

    vmlinux: Path
    initramfs: Path
    modules: Path
    job: Path
    cpus: int = 4
    mem_mib: int = 2048
    append: str = ""
    smp: str = ""
    queues: int = 0
    tcg: str = "multi"
    late_cpus: bool = True
    idle_table: Path | None = None
    extra: Sequence[str] = ()

    @property
    def console(self) -> Path:
        """The kernel's log."""
        return self.job / "console.log"

    @property
    def scratch(self) -> Path:
        """The image behind /scratch."""
        return self.job / "scratch.img"


def _value(path: Path) -> str:
    """A path as the value of a QEMU option, where a comma ends the value unless doubled."""
    return str(path).replace(",", ",,")


def _cpu(machine: Machine) -> list[str]:
    model = "max"
    if machine.smp:  # on AMD, Linux before 6.9 asks TOPOEXT for siblings, which TCG has not
        model += ",vendor=GenuineIntel"
    if machine.idle_table:  # without MWAIT the C1-type states are entered by HLT, which TCG executes
        model += ",-monitor"
    smp = f"{machine.cpus},{machine.smp}" if machine.smp else str(machine.cpus)
    return ["-accel", f"tcg,thread={machine.tcg},tb-size=512", "-cpu", model, "-smp", smp, "-m", f"{machine.mem_mib}M"]


def _share(tag: str, path: Path, *options: str) -> list[str]:
    fsdev = ",".join(["local", f"id={tag}", f"path={_value(path)}", "security_model=none", *options])
    return ["-fsdev", fsdev, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _devices(machine: Machine) -> list[str]:
    drive = f"file={_value(machine.scratch)},if=none,id=scratch,format=raw,cache=unsafe"
    return [
        *_share("root", Path("/"), "readonly=on", "multidevs=remap"),
        *_share("job", machine.job),
        *[
            "-drive",
            drive,
            "-device",
            f"virtio-blk-pci,drive=scratch,num-queues={machine.queues or machine.cpus},serial=scratch",
        ],
        *["-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,romfile="],
        *["-device", "virtio-rng-pci"],
        *["-chardev", f"file,id=console,path={_value(machine.console)}", "-serial", "chardev:console"],
    ]


def _cmdline(machine: Machine) -> str:
    parts = [BASE_CMDLINE, LATE_CPUS if machine.late_cpus else "", machine.append]
    return " ".join(filter(None, parts))


def qemu_argv(machine: Machine) -> list[str]:
    """The argv that boots ``machine``; QEMU ends when the guest powers off, reboots or panics."""
    table = ["-acpitable", f"file={_value(machine.idle_table)}"] if machine.idle_table else []
    return [
        *[QEMU, "-machine", "q35,usb=off", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
        *_cpu(machine),
        *["-kernel", str(machine.vmlinux), "-initrd", str(machine.initramfs)],
        *["-append", _cmdline(machine)],
        *_devices(machine),
        *table,
        *machine.extra,
    ]
