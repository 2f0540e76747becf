"""The document is the audit, field by field, both ways."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.document import SCHEMA, DocumentError, from_document, parse_document, to_document
from auditor.model import Audit, CpuActivity, ExitCode, Verdict
from tests.reports.audits import AUDITS, ISOLATED, NOT_ISOLATED
from tests.reports.strategies import audits


@pytest.mark.parametrize("name", AUDITS)
def test_document_returns_to_the_same_audit(name: str) -> None:
    document = to_document(AUDITS[name])
    assert to_document(from_document(json.loads(json.dumps(document)))) == document


@settings(max_examples=40, deadline=None)
@given(audits())
def test_any_audit_survives_the_round_trip(audit: Audit) -> None:
    assert parse_document(json.dumps(to_document(audit), allow_nan=False)) == audit


def test_schema_is_first_and_fields_keep_their_order() -> None:
    assert list(to_document(ISOLATED)) == ["schema", *(f.name for f in fields(Audit))]
    assert to_document(ISOLATED)["schema"] == "cpu-audit/audit/v1"


def test_values_become_json() -> None:
    document = json.loads(json.dumps(to_document(NOT_ISOLATED)))
    assert document["verdict"]["status"] == "not-isolated"
    assert document["window"]["window_ms"] == 40001
    assert document["causes"][0]["rules"] == ["SIRQ.SCHED", "THR.FOREIGN", "CFG.DOMAIN"]
    assert document["causes"][0]["fix"]["boot"]["nohz_full"] == "1,5"
    assert document["activity"]["cpus"]["5"]["busy"] == 0.0217
    assert document["findings"][4]["observed"] == 316.175
    assert document["causes"][1]["fix"] is None


def test_cpu_keys_are_in_numeric_order() -> None:
    verdict = ISOLATED.verdict
    document = to_document(replace(ISOLATED, cpu_verdicts={10: verdict, 2: verdict, 1: verdict}))
    assert list(document["cpu_verdicts"]) == ["1", "2", "10"]  # type: ignore[call-overload]


def test_floats_keep_six_digits_and_integers_become_floats_where_rates_stand() -> None:
    cpu = replace(ISOLATED.activity.cpus[1], busy=1 / 3)
    activity = replace(ISOLATED.activity, cpus={1: cpu, 2: replace(cpu, busy=1)})
    document = to_document(replace(ISOLATED, activity=activity))
    assert '"busy": 0.333333,' in json.dumps(document)
    assert '"busy": 1.0,' in json.dumps(document)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_is_refused(bad: float) -> None:
    cause = replace(NOT_ISOLATED.causes[0], share=bad)
    with pytest.raises(DocumentError) as caught:
        to_document(replace(NOT_ISOLATED, causes=(cause,)))
    assert caught.value.path == "$.causes[0].share"


def at(document: dict[str, object], *keys: str | int) -> object:
    value: object = document
    for key in keys:
        value = value[key]  # type: ignore[index]
    return value


@pytest.mark.parametrize(
    ("keys", "value", "path", "reason"),
    [
        (("schema",), "cpu-audit/audit/v2", "$.schema", '"cpu-audit/audit/v1" was expected'),
        (("tool",), 3, "$.tool", "a text was expected, not an integer"),
        (("host",), None, "$.host", "an object was expected, not null"),
        (("host", "hz"), True, "$.host.hz", "an integer was expected, not true or false"),
        (("host", "hz"), 250.0, "$.host.hz", "an integer was expected, not a number"),
        (("interrupted",), 0, "$.interrupted", "true or false was expected, not an integer"),
        (("causes",), {}, "$.causes", "a list was expected, not an object"),
        (("causes", 0, "share"), "0.5", "$.causes[0].share", "a number was expected, not a text"),
        (("causes", 0, "share"), False, "$.causes[0].share", "a number was expected, not true or false"),
        (("causes", 0, "share"), 10**400, "$.causes[0].share", "a finite number was expected"),
        (("causes", 0, "cpus", 1), "5", "$.causes[0].cpus[1]", "an integer was expected, not a text"),
        (("causes", 0, "fix", "kind"), "magic", "$.causes[0].fix.kind",
         "one of boot, runtime, kubelet, workload, firmware was expected"),
        (("verdict", "status"), None, "$.verdict.status",
         "one of not-isolated, exposed, unknown, disturbed, isolated was expected"),
        (("causes", 0, "fix", "boot", "a"), 1, '$.causes[0].fix.boot["a"]', "a text was expected, not an integer"),
        (("cpu_verdicts", "01"), {}, '$.cpu_verdicts["01"]', "a CPU number was expected as key"),
        (("cpu_verdicts", "²"), {}, '$.cpu_verdicts["\\u00b2"]', "a CPU number was expected as key"),
        (("activity", "cpus", "1", "extra"), 1, '$.activity.cpus["1"]', 'unknown field "extra"'),
    ],
)  # fmt: skip
def test_first_wrong_thing_is_named(keys: tuple[str | int, ...], value: object, path: str, reason: str) -> None:
    document = json.loads(json.dumps(to_document(NOT_ISOLATED)))
    at(document, *keys[:-1])[keys[-1]] = value  # type: ignore[index]
    with pytest.raises(DocumentError) as caught:
        from_document(document)
    assert (caught.value.path, caught.value.reason) == (path, reason)
    assert caught.value.exit_code is ExitCode.USAGE
    assert str(caught.value) == f"{path}: {reason}"


def test_missing_field_is_named_and_a_defaulted_one_is_filled_in() -> None:
    document = json.loads(json.dumps(to_document(NOT_ISOLATED)))
    del document["findings"][0]["origin"], document["findings"][0]["evidence"]
    assert from_document(document).findings[0].origin == ""
    del document["findings"][0]["axis"]
    with pytest.raises(DocumentError, match=r"^\$\.findings\[0\]\.axis: missing$"):
        from_document(document)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "$"),
        ("[" * 200_000, "$"),
        ("[]", "$"),
        ('{"schema": NaN}', "$"),
        ("9" * 5000, "$"),
        (f'{{"schema": "{SCHEMA}"}}', "$.tool"),
    ],
)
def test_text_that_is_no_audit(text: str, path: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document(text)
    assert caught.value.path == path


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_damaged_document_never_escapes_as_another_error(data: st.DataObject) -> None:
    document = json.loads(json.dumps(to_document(NOT_ISOLATED)))
    value: object = document
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))  # type: ignore[arg-type]
        key = data.draw(st.sampled_from(keys))
        inner = value[key]  # type: ignore[index]
        if not inner or not isinstance(inner, (dict, list)) or data.draw(st.integers(0, 3)) == 0:
            break
        value = inner
    value[key] = data.draw(json_values)  # type: ignore[index]
    with suppress(DocumentError):
        assert isinstance(from_document(document), Audit)


def test_types_of_the_result() -> None:
    audit = from_document(to_document(NOT_ISOLATED))
    assert isinstance(audit.activity.cpus[1], CpuActivity)
    assert isinstance(audit.cpu_verdicts[5], Verdict)
    assert isinstance(audit.causes[0].cpus, tuple)
