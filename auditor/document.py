"""The audit as the JSON document ``cpu-audit/audit/v1``, and back.

Both directions follow the dataclasses of ``auditor/model.py`` field by field; a new field needs no code here. A
document may come from another machine or from a stranger: whatever is wrong with it ends in DocumentError, which names
the place.
"""

from __future__ import annotations

import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union

from auditor.errors import UsageError
from auditor.model import Audit

SCHEMA = "cpu-audit/audit/v1"
DIGITS = 6  # rates and ratios of counters hold no more; a stable number of digits keeps documents comparable
CPU_KEY = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")  # int() takes "０" and " 1" as well

T = TypeVar("T")


class DocumentError(UsageError, ValueError):
    """A document that is no audit. ``path`` is the JSON path of the first wrong thing (``$.causes[0].share``)."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def to_document(audit: Audit) -> dict[str, object]:
    """The audit as JSON values: ``schema`` first, then its fields in order.

    Enums become their values, CPU numbers text keys in numeric order. Floats keep 6 significant digits. Raises
    DocumentError for a float that JSON has no word for (NaN, infinity).
    """
    return {"schema": SCHEMA, **_encode_object(audit, "$")}


def from_document(document: object) -> Audit:
    """The audit that ``to_document`` wrote. A field with a default may be missing, an unknown one may not be there.

    Raises DocumentError with the JSON path of the first wrong thing.
    """
    if not isinstance(document, dict):
        raise DocumentError("$", f"an object was expected, not {_kind(document)}")
    if document.get("schema") != SCHEMA:
        raise DocumentError("$.schema", f'"{SCHEMA}" was expected')
    return _decode_object(Audit, {key: value for key, value in document.items() if key != "schema"}, "$")


def parse_document(text: str) -> Audit:
    """The audit in a JSON text. Raises DocumentError, also for what is no JSON."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except DocumentError:
        raise
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of open brackets
        raise DocumentError("$", f"no JSON: {error}") from None
    return from_document(document)


def _refuse_constant(name: str) -> object:
    raise DocumentError("$", f"{name} is no JSON number")


_hints: Callable[[Any], Mapping[str, Any]] = cache(typing.get_type_hints)  # evaluating annotations is slow


def _encode(value: object, hint: Any, path: str) -> object:
    if hint is float and isinstance(value, (int, float)):
        if not math.isfinite(value):
            raise DocumentError(path, f"{value} has no place in JSON")
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return _encode_object(value, path)
    if isinstance(value, Mapping):
        return _encode_mapping(value, hint, path)
    if isinstance(value, tuple):
        return [_encode(item, typing.get_args(hint)[0], f"{path}[{i}]") for i, item in enumerate(value)]
    return value


def _encode_object(value: object, path: str) -> dict[str, object]:
    hints = _hints(type(value))
    return {
        f.name: _encode(getattr(value, f.name), _unwrap(hints[f.name]), f"{path}.{f.name}")
        for f in fields(value)  # type: ignore[arg-type]
    }


def _encode_mapping(value: Mapping[Any, object], hint: Any, path: str) -> dict[str, object]:
    key_hint, item_hint = typing.get_args(hint)
    items = sorted(value.items()) if key_hint is int else value.items()
    return {str(key): _encode(item, item_hint, f"{path}[{json.dumps(str(key))}]") for key, item in items}


def _unwrap(hint: Any) -> Any:
    """``X`` of ``X | None``: None is encoded as it is."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return hint


def _decode(value: object, hint: Any, path: str) -> Any:
    inner = _unwrap(hint)
    if value is None and inner is not hint:
        return None
    if isinstance(inner, type) and is_dataclass(inner):
        return _decode_object(inner, value, path)
    if isinstance(inner, type) and issubclass(inner, Enum):
        return _decode_enum(inner, value, path)
    origin = typing.get_origin(inner)
    if origin is tuple:
        item = typing.get_args(inner)[0]
        return tuple(_decode(v, item, f"{path}[{i}]") for i, v in enumerate(_expect(value, list, path)))
    if origin is not None:
        return _decode_mapping(inner, value, path)
    return _decode_scalar(inner, value, path)


def _decode_object(cls: type[T], value: object, path: str) -> T:
    data = _expect(value, dict, path)
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for name in data:
        if name not in known:
            raise DocumentError(path, f"unknown field {json.dumps(name)}")
    for name, f in known.items():
        if name not in data and not _optional(f):
            raise DocumentError(f"{path}.{name}", "missing")
    hints = _hints(cls)
    return cls(**{n: _decode(data[n], hints[n], f"{path}.{n}") for n in known if n in data})


def _optional(f: Field[Any]) -> bool:
    return f.default is not MISSING or f.default_factory is not MISSING


def _decode_mapping(hint: Any, value: object, path: str) -> dict[Any, object]:
    key_hint, item_hint = typing.get_args(hint)
    result: dict[Any, object] = {}
    for key, item in _expect(value, dict, path).items():
        where = f"{path}[{json.dumps(key)}]"
        if key_hint is int and not CPU_KEY.match(key):
            raise DocumentError(where, "a CPU number was expected as key")
        result[int(key) if key_hint is int else key] = _decode(item, item_hint, where)
    return result


def _decode_enum(cls: type[Enum], value: object, path: str) -> Enum:
    for member in cls:
        if member.value == value and isinstance(value, str):
            return member
    words = ", ".join(str(member.value) for member in cls)
    raise DocumentError(path, f"one of {words} was expected")


def _decode_scalar(hint: type, value: object, path: str) -> object:
    if hint is not float:
        return _expect(value, hint, path)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DocumentError(path, f"a number was expected, not {_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DocumentError(path, "a finite number was expected")
    return number


def _expect(value: object, cls: type[T], path: str) -> T:
    """The value if it is a ``cls``; ``true`` is no integer."""
    if isinstance(value, cls) and (cls is bool or not isinstance(value, bool)):
        return value
    raise DocumentError(path, f"{_NAMES[cls]} was expected, not {_kind(value)}")


_NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "a text", int: "an integer", bool: "true or false"}


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return _NAMES.get(type(value), "a number")
