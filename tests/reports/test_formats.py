"""Formats are named in one place and loaded on demand."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from auditor.model import ExitCode
from reports import FORMATS, SUFFIXES, FormatError, format_of_suffix, json_report, render, text
from tests.reports.audits import ISOLATED


def test_render_by_name() -> None:
    assert render(ISOLATED, "text") == text.render(ISOLATED)
    assert render(ISOLATED, "text", color=True) == text.render(ISOLATED, color=True)
    assert render(ISOLATED, "json") == json_report.render(ISOLATED)
    assert render(ISOLATED, "json", color=True) == json_report.render(ISOLATED)


@pytest.mark.parametrize("target", FORMATS.values())
def test_every_format_exists(target: str) -> None:
    module, function = target.split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_suffixes() -> None:
    assert format_of_suffix(".json") == "json"
    assert format_of_suffix(".TXT") == "text"
    assert set(SUFFIXES.values()) <= set(FORMATS)


@pytest.mark.parametrize("suffix", ["", ".docx", "json"])
def test_an_unknown_suffix_is_a_usage_error(suffix: str) -> None:
    with pytest.raises(FormatError) as caught:
        format_of_suffix(suffix)
    assert str(caught.value) == f"no report is written as '{suffix}'; known are {', '.join(SUFFIXES)}"
    assert caught.value.exit_code is ExitCode.USAGE


def test_an_unknown_format_is_a_usage_error() -> None:
    with pytest.raises(FormatError, match=r"^no format 'docx'; known are text, json"):
        render(ISOLATED, "docx")


def test_naming_formats_loads_none() -> None:
    code = (
        "import sys, reports; print(sorted(m for m in sys.modules if m in ('tabulate', 'jinja2') or 'reports.' in m))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
