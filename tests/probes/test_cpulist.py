from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cpulist import (
    MAX_CPUS,
    format_cpulist,
    format_cpumask,
    parse_cpulist,
    parse_cpumask,
    read_cpulist,
    read_cpumask,
)
from probes.host import DictHost, ProbeError, SourceState

CPU_SETS = st.frozensets(st.integers(0, 700), max_size=60)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        ("5\n", {5}),
        ("\n", set()),
        ("", set()),
        (" " * 250 + "(null)\n", set()),
        (",8-15\n", set(range(8, 16))),
        ("3,8-9\n", {3, 8, 9}),
        ("\t0-1", {0, 1}),
    ],
)
def test_list_files(text: str, cpus: set[int]) -> None:
    assert parse_cpulist(text) == cpus


@pytest.mark.parametrize(
    "text", ["1-", "-1", "3-1", "1 - 3", "0x1", "1;5", "all", "N", "1,,5", "1,", "(null),1", "١", "+1", "1_0", "1,\n5"]
)
def test_malformed_list(text: str) -> None:
    with pytest.raises(ProbeError, match="/sys/x: no CPU list"):
        parse_cpulist(text, path="sys/x")


def test_list_is_bounded() -> None:
    with pytest.raises(ProbeError, match="beyond the last possible CPU 65535"):
        parse_cpulist("0-4294967295")
    with pytest.raises(ProbeError, match="CPU 8 is beyond the last possible CPU 7"):
        parse_cpulist("0-8", nr_cpus=8)
    assert parse_cpulist("0-7", nr_cpus=8) == set(range(8))
    assert len(parse_cpulist(f"0-{MAX_CPUS - 1}")) == MAX_CPUS
    with pytest.raises(ProbeError, match="more than 1048576 characters"):
        parse_cpulist("0," * (1 << 20))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("11\n", {0, 4}),
        ("00000001,00000011\n", {0, 4, 32}),
        ("0000ffff,ffffffff,fffffff0", set(range(4, 80))),
        ("0", set()),
        ("3F", {0, 1, 2, 3, 4, 5}),
    ],
)
def test_mask_files(text: str, cpus: set[int]) -> None:
    assert parse_cpumask(text) == cpus


@pytest.mark.parametrize("text", ["", "\n", "0x1", "1,,1", "123456789", "g", "1 1", "-1", "1," * 4000])
def test_malformed_mask(text: str) -> None:
    with pytest.raises(ProbeError, match="no CPU mask"):
        parse_cpumask(text)


@pytest.mark.parametrize(
    ("cpus", "text", "mask"),
    [
        (set(), "", "0"),
        ({1, 5}, "1,5", "22"),
        ({0, 1, 2, 3, 8}, "0-3,8", "10f"),
        ({4, 3}, "3-4", "18"),
        ({32}, "32", "1,00000000"),
        ({31}, "31", "80000000"),
    ],
)
def test_format(cpus: set[int], text: str, mask: str) -> None:
    assert format_cpulist(cpus) == text
    assert format_cpumask(cpus) == mask


@given(CPU_SETS)
def test_round_trips(cpus: frozenset[int]) -> None:
    assert parse_cpulist(format_cpulist(cpus) + "\n") == cpus
    assert parse_cpumask(format_cpumask(cpus) + "\n") == cpus


@given(st.text() | st.text(alphabet="0123456789,-:/ N()\nabcdefnul"))
def test_any_text_gives_a_set_or_a_probe_error(text: str) -> None:
    for parse in (parse_cpulist, parse_cpumask):
        try:
            cpus = parse(text)
        except ProbeError:
            continue
        assert all(0 <= cpu < MAX_CPUS for cpu in cpus)


@pytest.mark.parametrize("read", [read_cpulist, read_cpumask])
@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param("", SourceState.MASKED, id="a file over it"),
        pytest.param("1", SourceState.MALFORMED, id="it may have been 12"),
    ],
)
def test_a_file_without_a_line_end_is_masked_or_cut(
    read: Callable[[DictHost, str], frozenset[int]], text: str, state: SourceState
) -> None:
    with pytest.raises(ProbeError) as caught:
        read(DictHost({"proc/irq/9/list": text}), "proc/irq/9/list")
    assert (caught.value.state, caught.value.path) == (state, "proc/irq/9/list")


def test_whole_files() -> None:
    host = DictHost({"list": "1,5\n", "none": "\n", "mask": "22\n"})
    assert read_cpulist(host, "list") == read_cpumask(host, "mask") == {1, 5}
    assert read_cpulist(host, "none") == frozenset()
