"""Errors that a user can cause. Each owns its exit code; the message says what, where and what to do."""

from __future__ import annotations

from auditor.model import ExitCode


class AuditError(Exception):
    """Base of them; one handler in the CLI prints the message and takes the code."""

    exit_code = ExitCode.INTERNAL


class UsageError(AuditError):
    """Arguments or input that can't be used."""

    exit_code = ExitCode.USAGE


class ResourceError(AuditError):
    """A tool or resource for a load or benchmark is missing or failed."""

    exit_code = ExitCode.TOOL


class Interrupted(AuditError):  # noqa: N818 - an event, like KeyboardInterrupt
    """SIGINT or SIGTERM before the window had begun."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted before there was anything to write")
