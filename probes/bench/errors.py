"""What goes wrong in a benchmark: the tool that should run, not the machine that is audited."""

from __future__ import annotations


class ToolError(Exception):
    """A tool is missing or failed: exit code 5 at the CLI. The message says what, and how to install it."""
