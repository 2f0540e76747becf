"""Renders an audit; knows the models, never a host.

A format is named here and loaded when it is asked for, so that ``--help`` imports none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from auditor.errors import UsageError
from auditor.model import Audit

FORMATS: Mapping[str, str] = {
    "text": "reports.text:render",
    "json": "reports.json_report:render",
}
SUFFIXES: Mapping[str, str] = {
    ".txt": "text",
    ".json": "json",
}


class FormatError(UsageError, ValueError):
    """A format or a file name suffix that no report is written in; the message lists those that exist."""


def format_of_suffix(suffix: str) -> str:
    """The format for a file name suffix with its dot (``.json``). Raises FormatError."""
    try:
        return SUFFIXES[suffix.lower()]
    except KeyError:
        raise FormatError(f"no report is written as '{suffix}'; known are {', '.join(SUFFIXES)}") from None


def render(audit: Audit, fmt: str, *, color: bool = False) -> str:
    """The audit in one of FORMATS, complete with its last line end; ``color`` matters to ``text`` only.

    Raises FormatError for a format that does not exist.
    """
    if fmt not in FORMATS:
        raise FormatError(f"no format '{fmt}'; known are {', '.join(FORMATS)}")
    module, function = FORMATS[fmt].split(":")
    renderer: Callable[..., str] = getattr(importlib.import_module(module), function)
    return renderer(audit, color=color) if fmt == "text" else renderer(audit)
