from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cpulist import format_cpulist
from probes.kernel_cpulist import KernelCpulist, ListError, parse_kernel_cpulist
from probes.kernel_version import KernelFeatures, features_of, parse_kernel_version

EINVAL, ERANGE, EOVERFLOW = ListError.EINVAL, ListError.ERANGE, ListError.EOVERFLOW


def features(release: str) -> KernelFeatures:
    return features_of(parse_kernel_version(release))


NEW, OLD, EL8 = features("6.12.0"), features("4.19.0"), features("4.18.0-394.el8.x86_64")


def parse(text: str, nr_cpu_ids: int = 8, kernel: KernelFeatures = NEW) -> KernelCpulist:
    return parse_kernel_cpulist(text, nr_cpu_ids=nr_cpu_ids, features=kernel)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-7:2/4", {0, 1, 4, 5}),
        (",1,5,", {1, 5}),
        ("1,,5", {1, 5}),
        (" 1 , 5 ", {1, 5}),
        ("1 5", {1, 5}),
        ("1-N:1/2", {1, 3, 5, 7}),
        ("all:1/2", {0, 2, 4, 6}),
        ("All", set(range(8))),
        ("N", {7}),
        ("0-7:0/4", set()),
        ("01,005", {1, 5}),
        ("5,1-2,2", {1, 2, 5}),
        ("", set()),
        (" \n", set()),
        # A newline ends the list behind a region, and is a blank like others before one.
        ("1,5\n6", {1, 5}),
        ("1,\n6", {1, 6}),
        ("0-3:1/2\n6", {0, 2, 6}),
        ("1\0,5", {1}),
        ("1\xa05", {1, 5}),
        ("0-6:3/5", {0, 1, 2, 5, 6}),
        ("0-7:8/8", set(range(8))),
        ("1-3:1/N", {1}),
        # No separator is asked for behind a pattern.
        ("0-3:1/2N", {0, 2, 7}),
        ("0000000000000000001", {1}),
    ],
)
def test_accepted(text: str, cpus: set[int]) -> None:
    assert parse(text) == KernelCpulist(cpus=frozenset(cpus))


@pytest.mark.parametrize(
    ("text", "error", "before", "rest"),
    [
        ("1-", EINVAL, set(), "1-"),
        ("-1", EINVAL, set(), "-1"),
        ("3-1", EINVAL, set(), "3-1"),
        ("1 - 3", EINVAL, {1}, "- 3"),
        ("0x1", EINVAL, set(), "0x1"),
        ("+1", EINVAL, set(), "+1"),
        ("1-3-5", EINVAL, set(), "1-3-5"),
        ("allx", EINVAL, set(), "allx"),
        ("n", EINVAL, set(), "n"),
        ("1;5", EINVAL, set(), "1;5"),
        ("domain,1", EINVAL, set(), "domain,1"),
        ("1:1/2", EINVAL, set(), "1:1/2"),
        ("1/2", EINVAL, set(), "1/2"),
        ("0-7:3/2", EINVAL, set(), "0-7:3/2"),
        ("0-7:1/0", EINVAL, set(), "0-7:1/0"),
        ("0-7:1", EINVAL, set(), "0-7:1"),
        ("N-1", EINVAL, set(), "N-1"),
        ("'1,5'", EINVAL, set(), "'1,5'"),
        ("1,5,domain", EINVAL, {1, 5}, "domain"),
        ("8", ERANGE, set(), "8"),
        ("5-9", ERANGE, set(), "5-9"),
        ("1,9", ERANGE, {1}, "9"),
        ("4294967296", EOVERFLOW, set(), "4294967296"),
        ("99999999999999999999999", EOVERFLOW, set(), "99999999999999999999999"),
        # 2^32-1 is the one number whose successor is 0, and a group of 0 is wrong before the range is looked at.
        ("4294967295", EINVAL, set(), "4294967295"),
        ("4294967294", ERANGE, set(), "4294967294"),
        ("²", EINVAL, set(), "²"),
    ],
)
def test_refused(text: str, error: ListError, before: set[int], rest: str) -> None:
    assert parse(text) == KernelCpulist(cpus=frozenset(before), error=error, rest=rest)


@pytest.mark.parametrize("text", ["N", "0-N", "all", "ALL"])
def test_words_unknown_to_older_kernels(text: str) -> None:
    assert parse(text, kernel=EL8).error is EINVAL
    assert parse(text, kernel=OLD).error is EINVAL
    assert parse(text).error is None


def test_all_came_after_n() -> None:
    between = features("5.13.0")
    assert parse("6-N", kernel=between).cpus == {6, 7}
    assert parse("all", kernel=between).error is EINVAL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-7:2/4", {0, 1, 4, 5}),
        (",1,,5,", {1, 5}),
        (" 1 , 5 ", {1, 5}),
        ("1:1/2", {1}),
        ("1/2", {2}),
        ("4294967296", {0}),
        ("1,5\n9", {1, 5}),
        ("0-7:0/4", set()),
        ("0-3:/2", set()),
        (":,1", {1}),
        ("", set()),
    ],
)
def test_before_5_2(text: str, expected: set[int]) -> None:
    assert parse(text, kernel=OLD) == KernelCpulist(cpus=frozenset(expected))


@pytest.mark.parametrize(
    ("text", "error", "before"),
    [
        ("1 5", EINVAL, set()),
        ("1,2 3", EINVAL, {1}),
        ("1-", EINVAL, set()),
        ("-1", EINVAL, set()),
        ("1--2", EINVAL, set()),
        ("3-1", EINVAL, set()),
        ("1-3-5", EINVAL, set()),
        ("0-7:3/2", EINVAL, set()),
        ("0-7:1/0", EINVAL, set()),
        ("0x1", EINVAL, set()),
        ("1,9", ERANGE, {1}),
        ("²", EINVAL, set()),
    ],
)
def test_refused_before_5_2(text: str, error: ListError, before: set[int]) -> None:
    result = parse(text, kernel=OLD)
    assert (result.error, result.cpus) == (error, frozenset(before))


def test_wide_stride_is_cheap() -> None:
    assert parse("0-65535:1/2", 65536).cpus == frozenset(range(0, 65536, 2))


@given(st.frozensets(st.integers(0, 300), max_size=40), st.sampled_from([NEW, OLD, EL8]))
def test_reads_what_the_kernel_prints(cpus: frozenset[int], kernel: KernelFeatures) -> None:
    assert parse(format_cpulist(cpus) + "\n", 301, kernel) == KernelCpulist(cpus=cpus)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 50), st.integers(1, 50), st.sampled_from([NEW, OLD]))
def test_pattern(start: int, width: int, used: int, group: int, kernel: KernelFeatures) -> None:
    result = parse(f"{start}-{start + width}:{used}/{group}", 200, kernel)
    if used > group:
        assert result.error is EINVAL
    else:
        assert result.cpus == {cpu for cpu in range(start, start + width + 1) if (cpu - start) % group < used}


@given(st.text() | st.text(alphabet="0123456789,-:/ N\nalx"), st.sampled_from([NEW, OLD, EL8]))
def test_any_text_gives_cpus_within_the_mask(text: str, kernel: KernelFeatures) -> None:
    result = parse(text, 16, kernel)
    assert all(0 <= cpu < 16 for cpu in result.cpus)
    assert (result.error is None) == (result.rest == "")
