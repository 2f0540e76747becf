"""Which kernel on which machine, from what any host may say or keep to itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.host import DictHost, TreeHost
from probes.kernel import Kernel, read_kernel
from probes.kernel_config import KernelConfig

SYS = "proc/sys/kernel"
X86 = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu lm tsc{more}\n\nprocessor\t: 1\n"
ARM64 = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"


def test_a_full_host() -> None:
    host = DictHost(
        {
            f"{SYS}/hostname": "node1\n",
            f"{SYS}/osrelease": "6.8.0-45-generic\n",
            f"{SYS}/version": "#45 SMP PREEMPT_DYNAMIC\n",
            f"{SYS}/arch": "x86_64\n",
            f"{SYS}/random/boot_id": "0d6c2c0f\n",
            "proc/cpuinfo": X86.format(more=""),
            "boot/config-6.8.0-45-generic": "CONFIG_HZ_250=y\nCONFIG_HZ=250\nCONFIG_NO_HZ=y\n",
        }
    )
    assert read_kernel(host, arch="ignored") == Kernel(
        name="node1",
        release="6.8.0-45-generic",
        version="#45 SMP PREEMPT_DYNAMIC",
        arch="x86_64",
        boot_id="0d6c2c0f",
        cpu_model="Some CPU @ 2 GHz",
        hypervisor=None,
        hz=250,
        config=KernelConfig(path="boot/config-6.8.0-45-generic", hz=250, flags=frozenset()),
    )


def test_nothing_is_known() -> None:
    empty = Kernel(name="", release="", version="", arch="", boot_id="", cpu_model="", hypervisor="unknown", hz=None)
    assert read_kernel(DictHost({})) == empty


@pytest.mark.parametrize(
    ("cpuinfo", "given_arch", "expected"),
    [(X86.format(more=""), "", "x86_64"), (X86.format(more=""), "riscv64", "riscv64"), (ARM64, "", ""), ("", "", "")],
)
def test_architecture_before_6_1(cpuinfo: str, given_arch: str, expected: str) -> None:
    assert read_kernel(DictHost({"proc/cpuinfo": cpuinfo}), arch=given_arch).arch == expected


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (X86.format(more=""), "Some CPU @ 2 GHz"),
        ("processor\t: 0\ncpu\t\t: POWER9\n", "POWER9"),
        ("Processor\t: ARMv7 rev 0\n", "ARMv7 rev 0"),
        (ARM64, ""),
    ],
)
def test_cpu_model(cpuinfo: str, expected: str) -> None:
    assert read_kernel(DictHost({"proc/cpuinfo": cpuinfo})).cpu_model == expected


@pytest.mark.parametrize(
    ("cpuinfo", "vendor", "xen", "expected"),
    [
        (X86.format(more=""), "QEMU", "", None),  # on x86 the flag decides
        (X86.format(more=" hypervisor"), "QEMU", "", "QEMU"),
        (X86.format(more=" hypervisor"), "", "", "hypervisor"),
        (X86.format(more=" hypervisor"), "Xen", "xen", "xen"),
        (X86.format(more=" hypervisorx"), "", "", None),
        (ARM64, "QEMU", "", "QEMU"),
        (ARM64, "Apple Inc.", "", "Apple Inc."),
        (ARM64, "Ampere", "", None),
        (ARM64, "", "", "unknown"),  # device tree: nothing tells
        ("", "Dell Inc.", "", None),
        ("", "", "", "unknown"),
    ],
)
def test_guest_or_bare_metal(cpuinfo: str, vendor: str, xen: str, expected: str | None) -> None:
    files = {"proc/cpuinfo": cpuinfo, "sys/class/dmi/id/sys_vendor": vendor, "sys/hypervisor/type": xen}
    assert read_kernel(DictHost({path: f"{text}\n" for path, text in files.items()})).hypervisor == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("boot/config-6.1.0", "CONFIG_HZ=1000\n", 1000),
        ("lib/modules/6.1.0/config", "CONFIG_HZ=100\n", 100),
        ("boot/config-6.1.0", "# CONFIG_HZ=1000\nCONFIG_HZ_PERIODIC=y\n", None),
        ("boot/config-6.1.0", "CONFIG_HZ=0\n", None),
        ("boot/config-6.1.0", "CONFIG_HZ=123456\n", None),
        ("boot/config-6.1.0", "CONFIG_HZ=\n", None),
    ],
)
def test_ticks_per_second(path: str, text: str, expected: int | None) -> None:
    assert read_kernel(DictHost({f"{SYS}/osrelease": "6.1.0\n", path: text})).hz == expected


@pytest.mark.parametrize("release", ["../../etc", "a/b", ""])
def test_a_release_is_no_path(release: str) -> None:
    host = DictHost({f"{SYS}/osrelease": release, f"boot/config-{release}": "CONFIG_HZ=250\n"})
    assert read_kernel(host).hz is None


def test_a_release_with_nul_in_an_image_crashes_nothing(tmp_path: object) -> None:
    class Image(TreeHost):
        def read(self, path: str) -> str:
            return "6.1\0\n" if path.endswith("osrelease") else super().read(path)

    assert read_kernel(Image(str(tmp_path))).hz is None


@settings(deadline=None)
@given(st.text(), st.text())
def test_no_text_raises(cpuinfo: str, config: str) -> None:
    read_kernel(DictHost({"proc/cpuinfo": cpuinfo, f"{SYS}/osrelease": "6.1", "boot/config-6.1": config}))


def test_this_machine() -> None:
    found = read_kernel(TreeHost())
    assert found.release
    assert len(found.boot_id) == 36


def test_flags_that_are_cut_do_not_say_bare_metal() -> None:
    whole = "flags\t\t: fpu lm hypervisor\n"
    assert read_kernel(DictHost({"proc/cpuinfo": whole})).hypervisor == "hypervisor"
    assert read_kernel(DictHost({"proc/cpuinfo": whole[:-12]})).hypervisor == "unknown"
