"""What --own-irq may name, and what it is told where it names nothing."""

from __future__ import annotations

import pytest

from auditor.errors import UsageError
from auditor.irq_names import check_named, is_named
from probes.interrupts import Interrupts
from tests.auditor.build import gone, row

ROWS = [
    row(label, {0: 1})
    for label in ("30 eth0-TxRx-0", "31 eth0-TxRx-1", "32 ahci[0000:00:17.0]", "33 i801_smbus, ehci_hcd", "34", "LOC")
]
TABLE = Interrupts(cpus=(0,), rows=tuple(ROWS), totals={})


def named(*patterns: str) -> list[str]:
    return [row.label for row in ROWS if is_named(patterns, row)]


@pytest.mark.parametrize(
    ("patterns", "labels"),
    [
        (["30"], ["30"]),
        (["030"], ["30"]),
        (["3"], []),
        (["eth0-TxRx-1"], ["31"]),
        (["eth0-TxRx-*"], ["30", "31"]),
        (["eth0-TxRx-?", "32"], ["30", "31", "32"]),
        (["ETH0*"], []),
        (["ahci[0000:00:17.0]"], ["32"]),
        (["ahci*"], ["32"]),
        (["i801_smbus"], []),
        (["i801_smbus", "ehci*"], ["33"]),
        (["33"], ["33"]),
        (["34"], ["34"]),
        (["*"], ["30", "31", "32", "33"]),
        ([], []),
    ],
)
def test_numbers_and_patterns_over_all_names_of_a_line(patterns: list[str], labels: list[str]) -> None:
    assert named(*patterns) == labels


def refusal(*patterns: str) -> str:
    with pytest.raises(UsageError) as caught:
        check_named(patterns, TABLE)
    return str(caught.value)


def test_what_names_something_is_fine() -> None:
    check_named(["30", "eth0*", "i801_smbus", "ehci_hcd"], TABLE)
    check_named([], TABLE)


@pytest.mark.parametrize("pattern", ["eth0-TxRx-7", "eth0-rx*"])
def test_what_names_nothing_is_told_close_names(pattern: str) -> None:
    assert refusal("30", pattern) == (
        f"--own-irq {pattern!r}: no device interrupt has this number or name; "
        "/proc/interrupts has eth0-TxRx-1 (31), eth0-TxRx-0 (30)"
    )


@pytest.mark.parametrize("pattern", ["99", "", "\x1b[31m"])
def test_what_is_close_to_nothing_is_told_the_first_names(pattern: str) -> None:
    assert refusal(pattern).endswith("has eth0-TxRx-0 (30), eth0-TxRx-1 (31), ahci[0000:00:17.0] (32), i801_smbus (33)")
    assert "\x1b" not in refusal(pattern)


def test_a_part_of_a_shared_line_is_not_enough() -> None:
    assert refusal("ehci_hcd") == (
        "--own-irq 'ehci_hcd': interrupt 33 is shared by i801_smbus, ehci_hcd: name all of them, or the number 33"
    )


def test_per_cpu_interrupts_are_nobodys() -> None:
    assert "no device interrupt" in refusal("LOC")


def test_a_machine_without_any_and_a_table_that_can_not_be_read() -> None:
    with pytest.raises(UsageError, match="has none at all"):
        check_named(["x"], Interrupts(cpus=(0,), rows=(), totals={}))
    check_named(["x"], gone("proc/interrupts"))
