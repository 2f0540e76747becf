"""The JSON document obeys its published schema, and the schema is the model."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from auditor.document import parse_document, to_document
from auditor.model import Audit
from reports import json_report
from tests.reports.audits import AUDITS, NOT_ISOLATED
from tests.reports.strategies import audits

PATH = Path(json_report.__file__).parent / "schema" / "audit-v1.schema.json"
SCHEMA: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("name", AUDITS)
def test_rendered_documents_are_valid(name: str) -> None:
    text = json_report.render(AUDITS[name])
    VALIDATOR.validate(json.loads(text))
    assert parse_document(text) == parse_document(json_report.render(parse_document(text)))


@pytest.mark.parametrize("name", AUDITS)
def test_text_is_plain_ascii_in_field_order(name: str) -> None:
    text = json_report.render(AUDITS[name])
    assert text.startswith('{\n  "schema": "cpu-audit/audit/v1",\n  "tool": "cpu-audit 0.1.0",\n')
    assert text.isascii()
    assert text.endswith("}\n")


def audits_with_shares_in_range(document: dict[str, Any]) -> dict[str, Any]:
    for cause in document["causes"]:
        cause["share"] = None
    for cpus in document["activity"].values():
        for cpu in cpus.values():
            cpu["busy"] = None
    return document


@settings(max_examples=25, deadline=None)
@given(audits())
def test_any_audit_is_valid(audit: Audit) -> None:
    VALIDATOR.validate(audits_with_shares_in_range(json.loads(json_report.render(audit))))


def test_the_schema_refuses_what_is_no_audit() -> None:
    document: dict[str, Any] = json.loads(json.dumps(to_document(NOT_ISOLATED)))
    for damage in (
        {"extra": 1},
        {"verdict": {**document["verdict"], "status": "fine"}},
        {"cpu_verdicts": {"one": document["verdict"]}},
        {"interrupted": None},
    ):
        assert not VALIDATOR.is_valid({**document, **damage})
    assert not VALIDATOR.is_valid({key: document[key] for key in document if key != "own"})


def test_schema_is_itself_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def parts(hint: Any) -> Iterator[Any]:
    """The classes that a type hint is made of."""
    if typing.get_origin(hint) is None:
        yield hint
    for arg in typing.get_args(hint):
        yield from parts(arg)


def model_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting: list[Any] = [Audit]
    while waiting:
        cls: Any = waiting.pop()
        name = getattr(cls, "__name__", "")
        if name in found or not (is_dataclass(cls) or (isinstance(cls, type) and issubclass(cls, Enum))):
            continue
        found[name] = cls
        if is_dataclass(cls):
            waiting += [part for hint in typing.get_type_hints(cls).values() for part in parts(hint)]
    return found


CLASSES = model_classes()


def described(name: str) -> dict[str, Any]:
    part: dict[str, Any] = SCHEMA if name == "Audit" else SCHEMA["$defs"][name]
    return part


def test_schema_describes_every_class_and_no_other() -> None:
    assert set(SCHEMA["$defs"]) == set(CLASSES) - {"Audit"}


@pytest.mark.parametrize("name", CLASSES)
def test_schema_equals_the_model(name: str) -> None:
    cls, part = CLASSES[name], described(name)
    if issubclass(cls, Enum):
        assert part["enum"] == [member.value for member in cls]
        return
    names = [*(["schema"] if cls is Audit else []), *(f.name for f in fields(cls))]
    assert list(part["properties"]) == names
    assert part["required"] == names
    assert part["additionalProperties"] is False
    hints = typing.get_type_hints(cls)
    for f in fields(cls):
        assert expected(hints[f.name]) == stripped(part["properties"][f.name])


def expected(hint: Any) -> dict[str, Any]:
    """What the schema says of a type, without descriptions and ranges."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = expected(next(arg for arg in args if arg is not type(None)))
        return {"anyOf": [inner, {"type": "null"}]} if "$ref" in inner else {**inner, "type": [inner["type"], "null"]}
    if origin is tuple:
        return {"type": "array", "items": expected(args[0])}
    if origin is not None:
        keys = {"propertyNames": {"pattern": "^(0|[1-9][0-9]*)$"}} if args[0] is int else {}
        return {"type": "object", **keys, "additionalProperties": expected(args[1])}
    if hint.__name__ in CLASSES:
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[hint]}


def stripped(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in ("description", "minimum", "maximum")}
