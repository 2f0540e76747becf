"""The argv of a guest, and what it is made of; nothing is booted."""

from dataclasses import replace
from pathlib import Path

from tests.node.machine import BASE_CMDLINE, Machine, qemu_argv

MACHINE = Machine(
    vmlinux=Path("/k/vmlinux"),
    initramfs=Path("/k/initramfs"),
    modules=Path("/k/modules"),
    job=Path("/jobs/a"),
    cpus=6,
)


def _options(argv: list[str], name: str) -> list[str]:
    return [argv[position + 1] for position, word in enumerate(argv) if word == name]


def test_whole_argv_of_a_plain_machine() -> None:
    assert " ".join(qemu_argv(MACHINE)) == (
        "qemu-system-x86_64 -machine q35,usb=off -nodefaults -no-user-config -display none -no-reboot"
        " -accel tcg,thread=multi,tb-size=512 -cpu max -smp 6 -m 2048M"
        " -kernel /k/vmlinux -initrd /k/initramfs -append console=ttyS0 quiet loglevel=4 panic=-1 oops=panic"
        " lpj=12000000 mitigations=off init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off apparmor=0"
        " cryptomgr.notests maxcpus=1"
        " -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
        " -device virtio-9p-pci,fsdev=root,mount_tag=root"
        " -fsdev local,id=job,path=/jobs/a,security_model=none -device virtio-9p-pci,fsdev=job,mount_tag=job"
        " -drive file=/jobs/a/scratch.img,if=none,id=scratch,format=raw,cache=unsafe"
        " -device virtio-blk-pci,drive=scratch,num-queues=6,serial=scratch"
        " -netdev user,id=net,restrict=on -device virtio-net-pci,netdev=net,romfile="
        " -device virtio-rng-pci"
        " -chardev file,id=console,path=/jobs/a/console.log -serial chardev:console"
    )


def test_append_is_one_argument_after_the_base_command_line() -> None:
    argv = qemu_argv(replace(MACHINE, append="isolcpus=1,5 nohz_full=1,5", late_cpus=False))
    assert _options(argv, "-append") == [f"{BASE_CMDLINE} isolcpus=1,5 nohz_full=1,5"]


def test_topology_memory_and_accelerator() -> None:
    argv = qemu_argv(replace(MACHINE, smp="threads=2", mem_mib=512, tcg="single"))
    assert _options(argv, "-smp") == ["6,threads=2"]
    assert _options(argv, "-cpu") == ["max,vendor=GenuineIntel"]
    assert _options(argv, "-m") == ["512M"]
    assert _options(argv, "-accel") == ["tcg,thread=single,tb-size=512"]


def test_idle_table_takes_mwait_away() -> None:
    argv = qemu_argv(replace(MACHINE, idle_table=Path("/k/idle.aml")))
    assert _options(argv, "-cpu") == ["max,-monitor"]
    assert _options(argv, "-acpitable") == ["file=/k/idle.aml"]


def test_commas_in_paths_are_doubled() -> None:
    argv = qemu_argv(replace(MACHINE, job=Path("/jobs/cpu=1,5")))
    assert "local,id=job,path=/jobs/cpu=1,,5,security_model=none" in argv
    assert "file,id=console,path=/jobs/cpu=1,,5/console.log" in argv
    assert "file=/jobs/cpu=1,,5/scratch.img,if=none,id=scratch,format=raw,cache=unsafe" in argv


def test_extra_arguments_come_last() -> None:
    assert qemu_argv(replace(MACHINE, extra=["-name", "x"]))[-2:] == ["-name", "x"]
