"""A Linux node for tests: the host's own root, read-only, booted in QEMU with a kernel and a command line of choice."""

from tests.node.errors import GuestDied, NodeError, NodeTimeout
from tests.node.node import Node, NodeResult
from tests.node.require import available, require_node

__all__ = ["GuestDied", "Node", "NodeError", "NodeResult", "NodeTimeout", "available", "require_node"]
