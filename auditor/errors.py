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
