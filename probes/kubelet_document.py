"""The documents that hold a KubeletConfiguration: YAML or JSON, plain or inside what a distribution wraps it with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from probes.host import ProbeError, SourceState
from probes.kubelet_flags import configured_by

MAX_TEXT = 256 << 10
MAX_DEPTH = 50
"""PyYAML needs time that grows with the square of the depth."""
KIND = "KubeletConfiguration"
_BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What PyYAML lets through for tags and numbers that are none (``!!bool x``, ``!!timestamp x``, ``2026-13-01``)."""


def parse_document(text: str, *, path: str, wrapped: bool = True) -> dict[str, Any]:
    """The keys of the KubeletConfiguration in a document.

    Plain; ``kubeletconfig`` of /configz; ``spec.kubeletConfig`` of OpenShift; ``machine.kubelet.extraConfig`` of Talos;
    ``kubelet.extra_args`` of RKE. Without ``wrapped`` only the first, as the kubelet itself reads. ProbeError: MASKED
    where empty, MALFORMED with the line where it is no YAML, or no KubeletConfiguration.
    """
    document = load(text, path=path)
    if document.get("kind") == KIND:
        return document
    if wrapped:
        for keys in (("kubeletconfig",), ("spec", "kubeletConfig"), ("machine", "kubelet", "extraConfig")):
            if inner := _inner(document, keys):
                return inner
        if arguments := _inner(document, ("kubelet", "extra_args")):
            return configured_by({name: [_argument(value)] for name, value in arguments.items()}, path)
    raise ProbeError(path, f"no {KIND}, its kind is {str(document.get('kind'))[:40]!r}")


def _inner(document: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) and all(isinstance(name, str) for name in value) else {}


def _argument(value: object) -> str:
    """RKE makes a flag of any scalar: 0 is "0", and true is "true"."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def load(text: str, *, path: str) -> dict[str, Any]:
    """A YAML or JSON document that is a map. Anchors are refused: a few lines of them stand for billions of values."""
    if not text.strip():
        raise ProbeError(path, "empty", SourceState.MASKED)
    if len(text) > MAX_TEXT:
        raise ProbeError(path, f"longer than {MAX_TEXT} characters")
    try:
        found = _load(text, path)
    except _BROKEN as error:
        raise ProbeError(path, f"no YAML: {str(error)[:100]}") from None
    if not isinstance(found, dict):
        raise ProbeError(path, "no map of names")
    return found


def _load(text: str, path: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            pass  # {kind: KubeletConfiguration} is YAML
    import yaml

    try:
        _check(yaml.scan(text, Loader=yaml.SafeLoader), path)
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        raise ProbeError(path, f"no YAML: {_left_out(text)}{_where(error)}") from None
    except yaml.YAMLError as error:
        raise ProbeError(path, f"no YAML: {str(error)[:100]}") from None


def _check(tokens: Iterable[object], path: str) -> None:
    """Refuses what is small to write and large to read, before anything is made of it."""
    depth = 0
    for token in tokens:
        name = type(token).__name__
        if name.startswith(("Block", "Flow")):
            depth += name.endswith("StartToken") - name.endswith("EndToken")
        if depth > MAX_DEPTH:
            raise ProbeError(path, f"nested more than {MAX_DEPTH} deep")
        if name == "AliasToken":
            raise ProbeError(path, "YAML aliases are not read")


def _left_out(text: str) -> str:
    """Names the line of an indented ``...``: it begins a value in YAML, and PyYAML complains about the next line."""
    lines = text.split("\n")
    at = next((at for at, line in enumerate(lines, 1) if line.strip() == "..." and line[:1].isspace()), 0)
    return f"line {at}: '...' stands for lines that were left out; " if at else ""


def _where(error: Any) -> str:
    """What PyYAML says, on one line: the line it gave up in, and that where what it was reading began."""
    said = [(error.context, error.context_mark), (error.problem, error.problem_mark)]
    return ", ".join(f"line {mark.line + 1}: {words}" for words, mark in said if words and mark)
