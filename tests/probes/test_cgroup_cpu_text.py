"""Texts of the cgroup cpu controller: what each kernel prints, and what is none of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cgroup_cpu_text import (
    CpuLimit,
    Throttling,
    parse_cpu_max,
    parse_place,
    parse_throttling,
    parse_v1_limit,
    parse_waited,
)
from probes.host import ProbeError
from tests.probes.outcome import outcome

V2 = "usage_usec 34406\nuser_usec 8609\nsystem_usec 25796\n"
V2_LIMITED = V2 + "nr_periods 10\nnr_throttled 2\nthrottled_usec 156161\nnr_bursts 0\nburst_usec 0\n"
HYBRID = "9:name=systemd:/a.slice\n3:cpuset:/\n2:cpu,cpuacct:/docker/9f\n0::/a.slice\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0::/\n", (2, "/")),
        ("0::/kubepods.slice/x:y.scope\n", (2, "/kubepods.slice/x:y.scope")),
        (HYBRID, (1, "/docker/9f")),
        ("5:cpuacct:/a\n4:cpuset:/b\n0::/c\n", (2, "/c")),
        ("1:cpu:/..\n", (1, "/..")),
    ],
)
def test_the_hierarchy_with_the_cpu_controller(text: str, place: tuple[int, str]) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cut, or no cgroup at all"),
        ("0::/a", "cut, or no cgroup at all"),
        ("0:/a\n", "not a line of a hierarchy: '0:/a'"),
        ("0::a\n", "not a line of a hierarchy: '0::a'"),
        ("4:cpuset:/a\n", "no hierarchy with the cpu controller"),
    ],
)
def test_what_is_no_list_of_hierarchies(text: str, reason: str) -> None:
    with pytest.raises(ProbeError, match="cgroup") as refused:
        parse_place(text)
    assert refused.value.reason == reason


def test_cpu_max() -> None:
    assert parse_cpu_max("max 100000\n") is None
    assert parse_cpu_max("10000 100000\n") == CpuLimit(quota_us=10_000, period_us=100_000)
    assert CpuLimit(quota_us=250_000, period_us=100_000).cpus == 2.5


@pytest.mark.parametrize(
    "text",
    ["", "\n", "max\n", "max 100000", "max 0\n", "0 100000\n", "-1 100000\n", "1 2 3\n", "max max\n", "50_0 9\n"],
)
def test_what_is_no_cpu_max(text: str) -> None:
    assert isinstance(outcome(lambda: parse_cpu_max(text)), ProbeError)


def test_the_limit_of_v1() -> None:
    assert parse_v1_limit("-1\n", "") is None
    assert parse_v1_limit("110000\n", "100000\n") == CpuLimit(quota_us=110_000, period_us=100_000)


@pytest.mark.parametrize(
    ("quota", "period"),
    [("50000\n", ""), ("0\n", "100000\n"), ("invalid\n-1\n", "100000\n"), ("-1", "100000\n"), ("-2\n", "100000\n")],
)
def test_what_is_no_limit_of_v1(quota: str, period: str) -> None:
    """A quota without its period, 0 of an old root group, text before the value, a cut file."""
    assert isinstance(outcome(lambda: parse_v1_limit(quota, period)), ProbeError)


def test_cpu_stat() -> None:
    assert parse_throttling(V2, version=2) is None
    assert parse_throttling(V2_LIMITED, version=2) == Throttling(periods=10, throttled=2, throttled_us=156_161)
    v1 = "nr_periods 7\nnr_throttled 2\nthrottled_time 127918677\nwait_sum 5\n"
    assert parse_throttling(v1, version=1) == Throttling(periods=7, throttled=2, throttled_us=127_918)


@pytest.mark.parametrize(
    ("text", "version", "reason"),
    [
        ("", 2, "empty or cut"),
        (V2_LIMITED[:-1], 2, "empty or cut"),
        ("nr_periods 1575\n", 1, "lacks nr_throttled, throttled_time"),
        (V2 + "nr_periods 1\n", 2, "lacks nr_throttled, throttled_usec"),
        ("user_usec 1\n", 2, "lacks nr_periods, nr_throttled, throttled_usec"),
        (V2 + V2, 2, "line 4: not a name and a number, or its second: 'usage_usec 34406'"),
        ("usage_usec -1\n", 2, "line 1: not a name and a number, or its second: 'usage_usec -1'"),
        (V2_LIMITED, 1, "lacks throttled_time"),
    ],
)
def test_what_is_no_cpu_stat(text: str, version: int, reason: str) -> None:
    with pytest.raises(ProbeError) as refused:
        parse_throttling(text, version=version)
    assert refused.value.reason == reason


def test_cpu_stat_local() -> None:
    assert parse_waited("throttled_usec 8247121\n") == 8_247_121
    assert parse_waited("throttled_time 8247121999\n") == 8_247_121
    assert isinstance(outcome(lambda: parse_waited("throttled 1\n")), ProbeError)
    assert isinstance(outcome(lambda: parse_waited("")), ProbeError)


LINES = st.from_regex(
    r"((nr_periods|nr_throttled|throttled_(usec|time)|usage_usec|max|[0-9]{1,9}) ?-?[0-9]{0,30}\n?){0,8}"
)


@given(st.text(max_size=100) | LINES)
def test_nothing_but_a_probe_error_leaves_the_parsers(text: str) -> None:
    for version in (1, 2):
        found = outcome(lambda version=version: parse_throttling(text, version=version))  # type: ignore[misc]
        assert found is None or isinstance(found, Throttling | ProbeError)
    assert isinstance(outcome(lambda: parse_waited(text)), int | ProbeError)
    for limit in (outcome(lambda: parse_cpu_max(text)), outcome(lambda: parse_v1_limit(text, text))):
        assert limit is None or isinstance(limit, ProbeError) or limit.cpus > 0


@given(st.text(max_size=100) | st.from_regex(r"([0-9]{0,2}:(cpu|cpuset|)(,cpu)?:/?[a-z:]{0,5}\n){0,4}", fullmatch=True))
def test_a_place_is_a_path_or_a_probe_error(text: str) -> None:
    found = outcome(lambda: parse_place(text))
    assert isinstance(found, ProbeError) or (found[0] in (1, 2) and found[1].startswith("/"))
