"""The kernel in a bzImage."""

import lzma
import struct
import subprocess

import pytest

from tests.node.bzimage import ELF, payload, vmlinux
from tests.node.errors import NodeError

KERNEL = ELF + b"kernel" * 100


def image(packed: bytes, sectors: int = 2) -> bytes:
    """Such a file of ``sectors`` sectors of setup code; the compressed kernel lies 7 bytes behind them."""
    setup = bytearray((1 + (sectors or 4)) * 512)
    setup[0x1F1] = sectors
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", setup, 0x248, 7, len(packed) + 4)
    return bytes(setup) + b"\0" * 7 + packed + struct.pack("<I", len(KERNEL)) + b"rest"


@pytest.mark.parametrize("sectors", [2, 0])
def test_kernel_packed_by_xz(sectors: int) -> None:
    packed = lzma.compress(KERNEL)
    assert payload(image(packed, sectors)) == packed
    assert vmlinux(image(packed, sectors)) == KERNEL


def test_kernel_packed_by_zstd() -> None:
    packed = subprocess.run(["zstd", "-cq"], input=KERNEL, capture_output=True, check=True).stdout
    assert vmlinux(image(packed)) == KERNEL


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no setup header"),
        (b"\0" * 4096, "no setup header"),
        (image(lzma.compress(KERNEL))[:1600], "the bzImage is cut"),
        (image(b"\x1f\x8b\x08\0gzip"), "packed by neither xz nor zstd: it begins with 1f8b0800"),
        (image(lzma.compress(b"text")), "no ELF file"),
    ],
)
def test_what_is_none_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(NodeError, match=says):
        vmlinux(data)
