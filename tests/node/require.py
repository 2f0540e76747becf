"""Whether nodes can run here, and what a test does when they cannot."""

import os
import platform
import shutil

import pytest

from tests.node.artifacts import BUSYBOX, kernel_package
from tests.node.errors import NodeError
from tests.node.machine import QEMU

TOOLS = (QEMU, "apt-cache", "apt-get", "depmod", "dpkg", "iasl", "mke2fs", "modprobe", "setpriv", "zstd")


def available(kernel: str = "6.12-rt") -> str | None:
    """Why a node with this kernel cannot run here; None when it can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "nodes share the host's root: it must be x86-64 Linux"
    if os.geteuid() != 0:
        return "nodes share the host's root: that takes root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not found (see tests/node/packages.txt)"
    if not BUSYBOX.exists() or b"ld-linux" in BUSYBOX.read_bytes()[:4096]:
        return f"{BUSYBOX} is absent or not static (package busybox-static)"
    try:
        kernel_package(kernel)
    except NodeError as error:
        return str(error)
    return None


def require_node(kernel: str = "6.12-rt") -> None:
    """Skips the test with the reason when nodes cannot run here; with REQUIRE_NODE=1 in the environment it fails."""
    reason = available(kernel)
    if reason is None:
        return
    if os.environ.get("REQUIRE_NODE") == "1":
        pytest.fail(f"REQUIRE_NODE=1, but: {reason}")
    pytest.skip(reason)
