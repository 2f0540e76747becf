"""The kernel inside a bzImage: QEMU starts it at its PVH entry, and the guest need not unpack it in emulation.

Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header": setup_sects at 0x1f1, payload_offset and payload_length
at 0x248. The compressed kernel ends with its size, unpacked, in four bytes.
"""

import lzma
import struct
import subprocess

from tests.node.errors import NodeError

SECTOR = 512
SIZE_BYTES = 4
ELF = b"\x7fELF"


def payload(image: bytes) -> bytes:
    """The compressed kernel without its size. Raises NodeError where this is no bzImage that says where it lies."""
    if image[0x202:0x206] != b"HdrS" or len(image) < 0x250:
        raise NodeError("no bzImage: it has no setup header")
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (1 + (image[0x1F1] or 4)) * SECTOR + offset
    found = image[start : start + length - SIZE_BYTES]
    if len(found) != length - SIZE_BYTES:
        raise NodeError("the bzImage is cut")
    return found


def vmlinux(image: bytes) -> bytes:
    """The kernel as an ELF file. Debian's kernels are packed by xz up to 6.11, and since by zstd."""
    packed = payload(image)
    if packed.startswith(b"\xfd7zXZ"):
        unpacked = lzma.LZMADecompressor().decompress(packed)
    elif packed.startswith(b"\x28\xb5\x2f\xfd"):
        done = subprocess.run(["zstd", "-dcq"], input=packed, capture_output=True, check=False)
        unpacked = done.stdout
    else:
        raise NodeError(f"the kernel is packed by neither xz nor zstd: it begins with {packed[:4].hex()}")
    if not unpacked.startswith(ELF):
        raise NodeError("what the bzImage holds is no ELF file")
    return unpacked
