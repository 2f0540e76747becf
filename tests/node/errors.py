"""What can go wrong with a node, apart from the command that runs in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.node.node import NodeResult

TIMEOUT_CODE = 124
DIED_CODE = 125
CONSOLE_LINES = 25
DEATH = re.compile(r"Kernel panic|Oops|BUG:|general protection")


class NodeError(Exception):
    """A node cannot be had: a tool, a package or a file is missing."""


def last_words(console: str) -> str:
    """The lines that tell of a death: from its first line on, else the last ones."""
    lines = console.splitlines()
    first = next((number for number, line in enumerate(lines) if DEATH.search(line)), len(lines) - CONSOLE_LINES)
    return "\n".join(lines[max(first, 0) :][:CONSOLE_LINES])


class _NoResultError(NodeError):
    """A guest that ended without an exit code; ``result`` holds what it left."""

    def __init__(self, what: str, result: NodeResult) -> None:
        super().__init__(f"{what} after {result.wall_s:.1f} s; its console:\n{last_words(result.console)}")
        self.result = result


class GuestDied(_NoResultError):  # noqa: N818 - an event, like subprocess.TimeoutExpired
    """The guest ended without a result: a kernel panic, as a rule. ``result.code`` is 125."""


class NodeTimeout(_NoResultError):  # noqa: N818
    """The guest was killed because its time was up. ``result.code`` is 124."""
