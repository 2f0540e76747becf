"""What boot loaders are told: shell assignments of grub, a plain line, entries of the running kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.boot_files import (
    ENTRIES,
    GRUB,
    GRUB_DIR,
    KERNEL_CMDLINE,
    MAX_FILES,
    Asked,
    BootFiles,
    entry_lines,
    grub_lines,
    only_cmdlines,
    parse_asked,
    read_boot_files,
)
from probes.host import DictHost, ProbeError, SourceState
from tests.probes.replay import replayed

RELEASE = "6.8.0-45-generic"
DROP_IN = f"{GRUB_DIR}/50-isolate.cfg"
ENTRY = f"{ENTRIES}/a-{RELEASE}.conf"
FILES: dict[str, str | ProbeError] = {
    GRUB: 'A=5\nPASSWORD=secret\nGRUB_CMDLINE_LINUX_DEFAULT="quiet isolcpus=1,5"\n# GRUB_CMDLINE_LINUX="x"\n',
    DROP_IN: 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=1,5 rcu_nocbs=$L"\n',
    f"{GRUB_DIR}/README": "isolcpus=9\n",
    KERNEL_CMDLINE: "root=/dev/vda irqaffinity=0,2-4\n",
    ENTRY: f"title A\nversion {RELEASE}\nlinux /vmlinuz\noptions root=/dev/vda rcu_nocbs=1\n",
    f"{ENTRIES}/old.conf": "version 5.4.0\noptions isolcpus=7\n",
}


def asked(path: str, name: str, value: str) -> Asked:
    return Asked(path=path, name=name, value=value)


def test_all_kinds_of_files() -> None:
    found = read_boot_files(DictHost(FILES), RELEASE)
    assert found.asked == (
        asked(GRUB, "isolcpus", "1,5"),
        asked(DROP_IN, "nohz_full", "1,5"),
        asked(KERNEL_CMDLINE, "irqaffinity", "0,2-4"),
        asked(ENTRY, "rcu_nocbs", "1"),
    )
    assert found.paths == (GRUB, DROP_IN, KERNEL_CMDLINE, ENTRY, f"{ENTRIES}/old.conf")
    assert found.unread == ()


def test_none_of_them() -> None:
    assert read_boot_files(DictHost({}), RELEASE) == BootFiles(paths=(), unread=(), asked=())


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ('GRUB_CMDLINE_LINUX="a b"', ["a b"]),
        ("GRUB_CMDLINE_LINUX='a \"b c\"' # why", ['a "b c"']),
        ("export GRUB_CMDLINE_LINUX=a # why", ["a"]),
        ("GRUB_CMDLINE_LINUX_DEFAULT+=a", ["a"]),
        ('GRUB_CMDLINE_LINUX="a', [""]),
        ("#GRUB_CMDLINE_LINUX=a", []),
        ("GRUB_CMDLINE_LINUX_RECOVERY=a", []),
        ("GRUB_CMDLINE_XEN=a", []),
    ],
)
def test_assignments(line: str, values: list[str]) -> None:
    assert grub_lines(f"{line}\n") == values
    assert only_cmdlines(f"x=1\n{line}\n") == (f"{line}\n" if values else "")


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (["GRUB_CMDLINE_LINUX=a", "GRUB_CMDLINE_LINUX=b"], ["b"]),
        (["GRUB_CMDLINE_LINUX=a", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX b"'], ["a", "$GRUB_CMDLINE_LINUX b"]),
        (["GRUB_CMDLINE_LINUX=a", 'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX} b"'], ["a", "${GRUB_CMDLINE_LINUX} b"]),
        (["GRUB_CMDLINE_LINUX=a", "GRUB_CMDLINE_LINUX+=b"], ["a", "b"]),
        (["GRUB_CMDLINE_LINUX=a", "GRUB_CMDLINE_LINUX_DEFAULT=b", "GRUB_CMDLINE_LINUX=c"], ["c", "b"]),
        (["GRUB_CMDLINE_LINUX=a", "GRUB_CMDLINE_LINUX=$GRUB_CMDLINE_LINUX_DEFAULT"], ["$GRUB_CMDLINE_LINUX_DEFAULT"]),
    ],
)
def test_an_assignment_replaces_the_one_before_unless_it_names_it(lines: list[str], values: list[str]) -> None:
    assert grub_lines("\n".join(lines)) == values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GRUB_ENABLE_BLSCFG=true\n", True),
        ("export GRUB_ENABLE_BLSCFG='true' # why\n", True),
        ("GRUB_ENABLE_BLSCFG=true\nGRUB_ENABLE_BLSCFG=false\n", False),
        ("# GRUB_ENABLE_BLSCFG=true\n", False),
        ("", False),
    ],
)
def test_whether_the_entries_decide(text: str, expected: bool, tmp_path: Path) -> None:
    files: dict[str, str | ProbeError] = {GRUB: f"GRUB_CMDLINE_LINUX=quiet\n{text}"}
    live, later = replayed(tmp_path, files, lambda host: read_boot_files(host, RELEASE))
    assert live == later
    assert isinstance(live, BootFiles)
    assert live.by_entries is expected


@pytest.mark.parametrize("release", ["6.8.0-45", "6.8.0-45-generic2", ""])
def test_entries_of_other_kernels_say_nothing(release: str) -> None:
    assert entry_lines(f"version {release}\noptions isolcpus=1\n", RELEASE) == []


@pytest.mark.parametrize("path", [GRUB, KERNEL_CMDLINE, ENTRY, ENTRIES, GRUB_DIR])
def test_what_may_not_be_read_is_said(path: str) -> None:
    error = ProbeError(path, "permission denied", SourceState.DENIED)
    assert error in read_boot_files(DictHost({**FILES, path: error}), RELEASE).unread


def test_directories_have_a_bound() -> None:
    many = {f"{GRUB_DIR}/{number:04}.cfg": "" for number in range(MAX_FILES + 1)}
    found = read_boot_files(DictHost(many), RELEASE)
    assert len(found.paths) == MAX_FILES
    assert [error.reason for error in found.unread] == [f"more than {MAX_FILES} files: not all were read"]


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    for path in (GRUB, KERNEL_CMDLINE, ENTRY):
        assert isinstance(read_boot_files(DictHost({path: text}), RELEASE), BootFiles)
    assert isinstance(parse_asked(text), list)
    assert grub_lines(only_cmdlines(text)) == grub_lines(text)


def test_a_recording_says_the_same_and_keeps_no_secret(tmp_path: Path) -> None:
    live, later = replayed(tmp_path, FILES, lambda host: read_boot_files(host, RELEASE))
    assert live == later
    assert isinstance(live, BootFiles)
    assert len(live.asked) == 4
    kept = (tmp_path / "t0" / GRUB).read_text()
    assert kept == 'GRUB_CMDLINE_LINUX_DEFAULT="quiet isolcpus=1,5"\n'
