from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.kernel_version import features_of, parse_kernel_version, read_kernel_version

COLUMNS = ("4.19.0", "4.18.0-394.el8.x86_64", "6.0.19", "6.1.0-41-amd64", "6.12.117+deb12-rt-amd64")


@pytest.mark.parametrize(
    ("text", "major", "minor"),
    [
        ("6.12.117+deb12-rt-amd64\n", 6, 12),
        ("4.18.0-394.el8.x86_64\n", 4, 18),
        ("5.10.5-v8+", 5, 10),
        ("7.0.0-30-realtime", 7, 0),
        ("6.18", 6, 18),
        ("6.1-rc3", 6, 1),
    ],
)
def test_release(text: str, major: int, minor: int) -> None:
    version = parse_kernel_version(text)
    assert (version.major, version.minor) == (major, minor)
    assert version.release == text.rstrip("\n")


@pytest.mark.parametrize("text", ["", "\n", "6", "6.", "v6.1", "Linux 6.1", "6.1.0\nx", "٦.1", "99999.1", "6.1x"])
def test_no_release(text: str) -> None:
    with pytest.raises(ProbeError, match="no kernel release"):
        parse_kernel_version(text)


def test_order() -> None:
    version = parse_kernel_version("6.12.1")
    assert version.at_least(6, 12)
    assert version.at_least(5, 18)
    assert not version.at_least(6, 13)
    assert not version.at_least(7, 0)


@pytest.mark.parametrize(
    ("text", "el8", "el9"),
    [
        ("4.18.0-394.el8.x86_64", True, False),
        ("4.18.0-80.11.2.el8_0.x86_64", True, False),
        ("5.14.0-325.el9.x86_64", False, True),
        ("5.4.17-2136.el8uek.x86_64", False, False),
        ("6.12.0-55.el10.x86_64", False, False),
        ("4.18.0-25-generic", False, False),
    ],
)
def test_enterprise(text: str, el8: bool, el9: bool) -> None:
    version = parse_kernel_version(text)
    assert (version.is_el8, version.is_el9) == (el8, el9)


@pytest.mark.parametrize(
    ("feature", "row"),
    [
        ("isolcpus_flags", "yyyyy"),
        ("managed_irq_flag", "nyyyy"),
        ("unknown_flag_skipped", "nyyyy"),
        ("per_type_masks", "nnyyy"),
        ("setup_guards", "nnnyy"),
        ("present_cpu_kept", "nyyyy"),
        ("union_checked", "nnnnn"),
        ("nohz_flag_is_nohz_full", "nnnnn"),
        ("nohz_full_confines_kthreads", "nyyyy"),
        ("boot_cpu_may_be_nohz_full", "nyyyy"),
        ("cpulist_rewritten", "nyyyy"),
        ("cpulist_last", "nnyyy"),
        ("cpulist_all", "nnyyy"),
        ("rcu_nocbs_all", "nyyyy"),
        ("rcu_nocbs_bad_list_is_all", "nyyyy"),
        ("rcu_nocbs_bare", "nnyyy"),
    ],
)
def test_feature_matrix(feature: str, row: str) -> None:
    found = [asdict(features_of(parse_kernel_version(release)))[feature] for release in COLUMNS]
    assert "".join("y" if value else "n" for value in found) == row


@pytest.mark.parametrize(
    ("feature", "first", "before"),
    [
        ("isolcpus_flags", "4.15.0", "4.14.336"),
        ("managed_irq_flag", "5.6.0", "5.5.19"),
        ("unknown_flag_skipped", "5.8.0", "5.7.19"),
        ("per_type_masks", "5.18.0", "5.17.15"),
        ("per_type_masks", "5.14.0-325.el9.x86_64", "5.14.0"),
        ("union_checked", "6.19.0", "6.18.44"),
        ("nohz_flag_is_nohz_full", "6.14.0", "6.13.12"),
    ],
)
def test_feature_begins(feature: str, first: str, before: str) -> None:
    assert asdict(features_of(parse_kernel_version(first)))[feature] is True
    assert asdict(features_of(parse_kernel_version(before)))[feature] is False


def test_read() -> None:
    assert read_kernel_version(DictHost({"proc/sys/kernel/osrelease": "6.1.0-41-amd64\n"})).minor == 1
    with pytest.raises(ProbeError) as caught:
        read_kernel_version(DictHost({}))
    assert caught.value.state is SourceState.MISSING


@given(st.text() | st.from_regex(r"[0-9.\-a-z+]*"))
def test_any_text_gives_a_version_or_a_probe_error(text: str) -> None:
    try:
        version = parse_kernel_version(text)
    except ProbeError:
        return
    assert features_of(version).isolcpus_flags == version.at_least(4, 15)
