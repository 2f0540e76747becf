"""Values of a KubeletConfiguration, and how flags and documents give them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import ProbeError, SourceState
from probes.kubelet_document import load, parse_document
from probes.kubelet_flags import configured_by, parse_argv, parse_flags
from probes.kubelet_values import parse_cpu_quantity, parse_duration

BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


def reason(error: pytest.ExceptionInfo[ProbeError]) -> str:
    return error.value.reason


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("0", 0), ("0s", 0), ("100ms", 10**8), ("1m0s", 60 * 10**9), ("1.5h", 5400 * 10**9), ("5µs", 5000), ("5us", 5000)],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "10", "-5s", "5 s", "s", "5sx", "١s"])
def test_what_is_no_duration_is_an_error(text: str) -> None:
    with pytest.raises(ProbeError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "millis"),
    [("1", 1000), ("500m", 500), ("0.5", 500), ("1.0005", 1001), (".1", 100), ("1k", 10**6), ("1u", 1), ("0", 0)],
)
def test_cpu_quantities_are_rounded_up(text: str, millis: int) -> None:
    assert parse_cpu_quantity(text) == millis


@pytest.mark.parametrize("text", ["", "m", "1 m", "-1", "1Gi", "1e3", "0x1"])
def test_what_is_no_cpu_quantity_is_an_error(text: str) -> None:
    with pytest.raises(ProbeError, match="no CPU quantity"):
        parse_cpu_quantity(text)


def test_arguments_end_in_nul() -> None:
    assert parse_argv("kubelet\0--config\0\0-v=2\0") == ("kubelet", "--config", "", "-v=2")
    for text in ("", "\0\0"):
        with pytest.raises(ProbeError) as caught:
            parse_argv(text)
        assert caught.value.state is SourceState.MASKED
    with pytest.raises(ProbeError, match="longer"):
        parse_argv("x" * (1 << 21))


def test_flags_are_read_as_pflag_does() -> None:
    words = ["kubelet", "-v=2", "--cpu_manager_policy=none", "--config", "/a", "--cpu-cfs-quota", "false", "--new-flag"]
    words += ["--other", "x", "--cpu-manager-policy", "static", "--reserved-cpus", "--odd", "--", "--config=/b"]
    assert parse_flags(words) == {
        "cpu-manager-policy": ["none", "static"],
        "config": ["/a"],
        "cpu-cfs-quota": ["true"],
        "new-flag": ["true"],
        "other": ["x"],
        "reserved-cpus": ["--odd"],
    }
    assert parse_flags(["--config"]) == {"config": ["true"]}


def test_flags_set_keys_of_the_configuration() -> None:
    flags = parse_flags(
        [
            "--cpu-manager-policy=none",
            "--cpu-manager-policy=static",
            "--cpu-cfs-quota=false",
            "--system-reserved=cpu=500m, memory = 1Gi,",
            "--system-reserved=cpu=1",
            "--feature-gates=A=true,B=false",
            "--feature-gates=B=true",
            "--cpu-manager-policy-options=full-pcpus-only=true",
            "--cpu-manager-policy-options=strict-cpu-reservation=true,x=y",
            "--node-ip=10.0.0.1",
        ]
    )
    assert configured_by(flags, "proc/7/cmdline") == {
        "cpuManagerPolicy": "static",
        "cpuCFSQuota": False,
        "systemReserved": {"cpu": "1", "memory": "1Gi"},
        "featureGates": {"A": True, "B": True},
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true", "strict-cpu-reservation": "true,x=y"},
    }


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--cpu-cfs-quota=no", "no boolean: 'no'"),
        ("--feature-gates=A=on", "no boolean: 'on'"),
        ("--kube-reserved=cpu", "no NAME=VALUE: 'cpu'"),
    ],
)
def test_what_the_kubelet_would_refuse_is_an_error(flag: str, said: str) -> None:
    with pytest.raises(ProbeError) as caught:
        configured_by(parse_flags([flag]), "proc/7/cmdline")
    assert (caught.value.path, reason(caught)) == ("proc/7/cmdline", said)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"kind": "KubeletConfiguration", "a": "\\ud83d\\ude00"}', {"kind": "KubeletConfiguration", "a": "😀"}),
        ("{kind: KubeletConfiguration}", {"kind": "KubeletConfiguration"}),
        ('{"kubeletconfig":{"a":1}}', {"a": 1}),
        ("kind: KubeletConfig\nspec: {kubeletConfig: {a: 1}}", {"a": 1}),
        ("machine: {kubelet: {extraConfig: {a: 1}}}", {"a": 1}),
        (
            "kubelet: {extra_args: {reserved-cpus: 0, cpu-cfs-quota: false}}",
            {"reservedSystemCPUs": "0", "cpuCFSQuota": False},
        ),
    ],
)
def test_documents_of_every_form(text: str, found: dict[str, object]) -> None:
    assert parse_document(text, path="x") == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "no map of names"),
        ("a: b", "no KubeletConfiguration, its kind is 'None'"),
        ("kind: Config", "no KubeletConfiguration, its kind is 'Config'"),
        ("spec: {kubeletConfig: {1: 2}}", "no KubeletConfiguration"),
        ("a: [", "no YAML: line 1: "),
        ("a: b\n\tc: d", "no YAML: line "),
        ("a: b\n---\nc: d", "no YAML: line 1: expected a single document"),
        ("kind: KubeletConfiguration\nfeatureGates:\n  ...\n  A: true\n", "no YAML: line 3: '...' stands for"),
        ("a: \0", "no YAML: "),
        ("a: 2026-13-01", "no YAML: month must be in 1..12"),
        ("a: !!bool x", "no YAML: "),
        ("a: !!timestamp x", "no YAML: "),
        ("a: !!python/name:os.system x", "no YAML: line 1"),
        ("[" * 5000, "nested more than 50 deep"),
        ("{" * 100_000, "nested more than 50 deep"),
        ('{"a":' * 50_000, "no YAML: maximum recursion depth"),
        ("...\n" * 500 + "[" * 500, "nested more than 50 deep"),
        (BOMB, "YAML aliases are not read"),
        ("a" * (1 << 21), "longer than"),
    ],
)
def test_what_is_no_document_is_malformed(text: str, said: str) -> None:
    with pytest.raises(ProbeError) as caught:
        parse_document(text, path="x")
    assert caught.value.state is SourceState.MALFORMED
    assert reason(caught).startswith(said)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_document_is_masked(text: str) -> None:
    with pytest.raises(ProbeError) as caught:
        parse_document(text, path="x")
    assert caught.value.state is SourceState.MASKED


def test_the_kubelet_itself_reads_no_wrapped_document() -> None:
    with pytest.raises(ProbeError, match="no KubeletConfiguration"):
        parse_document("machine: {kubelet: {extraConfig: {a: 1}}}", path="x", wrapped=False)


@given(st.text(st.sampled_from("ab:{}[]-!&*?|>'\"%@`#,\n \t0123x.~=<_é"), max_size=40) | st.text())
def test_no_document_raises_anything_else(text: str) -> None:
    try:
        found = load(text, path="x")
    except ProbeError:
        return
    assert isinstance(found, dict)


@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1))
def test_no_command_line_raises_anything_else(words: list[str]) -> None:
    text = "".join(f"{word}\0" for word in words)
    try:
        assert list(parse_argv(text)) == words
        json.dumps(configured_by(parse_flags(words), "x"))
    except ProbeError:
        return
