"""/proc/interrupts of real machines: sums, rows, growth; what is not one whole snapshot is refused with its line."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest

from probes.counters import counter_delta
from probes.delta import RowDelta, diff
from probes.host import DictHost, ProbeError, SourceState
from probes.interrupts import InterruptKind, InterruptRow, Interrupts, parse_interrupts, read_interrupts
from probes.snapshot import Counters
from tests.cases.claims import claim, cpus, differs, numbers
from tests.probes.collected import case_file, text_of

KIND = "interrupts"
UNREAD = ProbeError("x", "not read here")


@cache
def parsed(name: str) -> Interrupts:
    return parse_interrupts(text_of(case_file(KIND, name)))


def row(name: str, label: str) -> InterruptRow:
    (found,) = [row for row in parsed(name).rows if row.label == label]
    return found


def counts(name: str, label: str) -> list[int]:
    return list(row(name, label).counts.values())


def named(name: str, actions: str) -> InterruptRow:
    (found,) = [row for row in parsed(name).rows if row.actions == actions]
    return found


def refused(name: str, reason: str, state: SourceState = SourceState.MALFORMED) -> None:
    with pytest.raises(ProbeError, match=reason) as caught:
        parsed(name)
    assert caught.value.state is state


def sums(found: Interrupts, *, numbered: bool) -> Counter[int]:
    total: Counter[int] = Counter()
    for row in found.rows:
        if row.irq is not None or not numbered:
            total.update(row.counts)
    return total


def ends(interrupts: Interrupts, taken_ns: int) -> Counters:
    return Counters(
        taken_ns=taken_ns, interrupts=interrupts, softirqs=UNREAD, cpustat=UNREAD, schedstat=UNREAD, cpuidle={}
    )


def growth(before: Interrupts, after: Interrupts) -> tuple[RowDelta, ...]:
    """By the product's own difference of two snapshots."""
    found = diff(ends(before, 0), ends(after, 10**10), before.cpus).interrupts
    assert not isinstance(found, ProbeError)
    return found


@cache
def grown(name: str) -> tuple[RowDelta, ...]:
    return growth(parsed(name), parsed(name.replace("before", "after")))


def by_cpu(rows: tuple[RowDelta, ...], *, numbered: bool) -> Counter[int]:
    total: Counter[int] = Counter()
    for row in rows:
        for cpu, count in row.counts.items():
            assert count is not None
            total[cpu] += count if row.irq is not None or not numbered else 0
    return total


def total(row: RowDelta) -> int:
    return sum(count or 0 for count in row.counts.values())


def columns(found: Interrupts, match: re.Match[str]) -> None:
    assert len(found.cpus) == int(match[1])
    assert set(found.cpus) == cpus(match[2])
    assert sum(row.irq is not None for row in found.rows) == int(match[3])
    labels = [row.label for row in found.rows if row.irq is None]
    assert len(labels) == int(match[4])
    expected = [label for label in match[5].rstrip("…").split(", ") if label]
    assert labels[: len(expected)] == expected
    assert match[5].endswith("…") == (len(labels) > len(expected))
    assert set(found.totals) == set(re.findall(r"(\w+)\(1\)", match[6]))


def sums_of(found: Interrupts, match: re.Match[str]) -> None:
    for numbered, text in ((False, match[1]), (True, match[2])):
        there = sums(found, numbered=numbered)
        for cpu, count in re.findall(r"CPU(\d+)=(\d+)", text):
            assert there[int(cpu)] == int(count)
    assert max(count for row in found.rows for count in row.counts.values()) == int(match[3])


def same_rows(name: str, match: re.Match[str]) -> None:
    assert name == f"pair-{match[1]}.before"
    before, after = parsed(name), parsed(f"pair-{match[2]}.after")
    assert before.cpus == after.cpus
    assert (len(before.cpus), len(before.rows)) == (int(match[3]), int(match[4]))
    assert [(row.label, row.text) for row in before.rows] == [(row.label, row.text) for row in after.rows]
    assert None not in {count for row in grown(name) for count in row.counts.values()}


def growth_by_cpu(name: str, match: re.Match[str]) -> None:
    every, numbered = (by_cpu(grown(name), numbered=flag) for flag in (False, True))
    said = [int(number) for number in match.groups()]
    last = said[2]
    assert [every.total(), every[0], every[last]] == [said[0], said[1], said[3]]
    assert every[said[4]] == max(every.values()) == said[5]
    assert [numbered.total(), numbered[0], numbered[last]] == [said[6], said[7], said[9]]
    assert said[8] == last == max(parsed(name).cpus)


def largest(name: str, match: re.Match[str]) -> None:
    by_row = Counter({row.label: total(row) for row in grown(name)})
    said = [(label, int(count)) for label, count in re.findall(r"(\w+)=(\d+)", match[1])]
    assert [count for _, count in by_row.most_common(len(said))] == [count for _, count in said]
    assert all(by_row[label] == count for label, count in said)
    numbered = by_cpu(grown(name), numbered=True)
    assert {cpu for cpu in parsed(name).cpus if not numbered[cpu]} == cpus(match[2])


def near_the_wrap(name: str, match: re.Match[str]) -> None:
    assert row(name, "IPI0").counts[0] == int(match[1])
    timer = named(name, "arch_timer").counts[5]
    assert timer == int(match[2])
    assert counter_delta(timer, 5) == 5 - timer + int(match[3])


def only_the_first_is_attributed(name: str, match: re.Match[str]) -> None:
    found = row(name, "IPI1")
    assert dict(found.counts) == {0: numbers(match[1])[0]}
    assert found.text == "Rescheduling interrupts"


def fiq_counts_nothing(name: str, match: re.Match[str]) -> None:
    assert "FIQ" not in {row.label for row in parsed(name).rows}
    assert parsed(name).totals == {"Err": int(match[1])}


def names_with_digits(name: str, match: re.Match[str]) -> None:
    assert (counts(name, match[1]), row(name, match[1]).name) == ([int(match[2])], match[3])
    assert [label for label in (match[4], match[5]) if row(name, label).actions == match[6]] == [match[4], match[5]]


def text_of_irq(name: str, match: re.Match[str]) -> None:
    assert (row(name, match[1]).text, counts(name, match[1])) == (match[2], numbers(match[3]))


def no_ipi0(name: str, match: re.Match[str]) -> None:
    assert counts(name, "IPI2") == numbers(match[1])
    assert "IPI0" not in {row.label for row in parsed(name).rows}
    assert row(name, "IPI2").kind is InterruptKind.RESCHEDULE
    read_interrupts(DictHost({"proc/interrupts": text_of(case_file(KIND, name))}))


def without_header(name: str, match: re.Match[str]) -> None:
    refused(name, "line 1: no CPU header", SourceState.MASKED)
    assumed = parse_interrupts("CPU0\n" + text_of(case_file(KIND, name)))
    (tick,) = [row for row in assumed.rows if row.kind is InterruptKind.TICK]
    assert (tick.label, tick.counts) == ("HVS", {0: int(match[1])})


def tick_of_hyper_v(name: str, match: re.Match[str]) -> None:
    ticks = {row.label: list(row.counts.values()) for row in parsed(name).rows if row.kind is InterruptKind.TICK}
    assert ticks == {"HVS": numbers(match[1]), "LOC": numbers(match[2])}  # summed, so LOC alone never decides


def global_errors(name: str, match: re.Match[str]) -> None:
    labels = {row.label for row in parsed(name).rows}
    assert labels.isdisjoint(match.groups())
    assert set(parsed(name).totals) == set(match.groups())


def rows_behind_a_blank_line(name: str, match: re.Match[str]) -> None:
    assert [row.label for row in parsed(name).rows][-3:] == match[1].split(", ")


def counts_by_device(name: str, match: re.Match[str]) -> None:
    for irq, device, count in re.findall(r"IRQ (\d+) (\w+)=(\d+)", match[0]):
        assert (row(name, irq).actions, counts(name, irq)) == (device, [int(count)])


def quoted_printable(name: str, match: re.Match[str]) -> None:
    refused(name, "line 1: the CPU header holds '=20'")
    text = text_of(case_file(KIND, name)).replace("=20", "")
    with pytest.raises(ProbeError, match=r"line 8: no row of this file: '\[ \.\.\. \]'"):
        parse_interrupts(text)
    whole = parse_interrupts(text.replace("[ ... ]\n", ""))
    assert whole.cpus == (0,)
    said = {(match[1], match[2], int(match[3])), (match[4], match[5], int(match[6]))}
    assert {(row.label, row.actions, row.counts[0]) for row in whole.rows if row.label in (match[1], match[4])} == said


def wrapped_by_mail(name: str, match: re.Match[str]) -> None:
    refused(name, "line 1: no CPU header", SourceState.MASKED)
    unquoted = re.sub(r"(?m)^>+ ?", "", text_of(case_file(KIND, name)))
    with pytest.raises(ProbeError, match="line 1: not the CPU header, that is line 2"):
        parse_interrupts(unquoted)
    with pytest.raises(ProbeError, match="line 2: a second CPU header: several snapshots in one file, or a wrapped"):
        parse_interrupts(unquoted.partition("\n")[2])


def cut_text(name: str, match: re.Match[str]) -> None:
    assert (counts(name, "LOC"), row(name, "LOC").kind) == ([int(match[1])], InterruptKind.TICK)


def joined(name: str) -> Interrupts:
    """A case whose names went to the next line, put together again."""
    refused(name, "line 1: not the CPU header, that is line 2")
    text = text_of(case_file(KIND, name)).partition("\n")[2]
    with pytest.raises(ProbeError, match="line 3: no row of this file: 'riscv-timer'"):
        parse_interrupts(text)
    return parse_interrupts(re.sub(r"\n {4}(?=\S)", "      ", text))


def wrapped_names(name: str, match: re.Match[str]) -> None:
    found = joined(name)
    assert (len(found.cpus), len(found.rows)) == (int(match[1]), int(match[2]))
    assert [row.actions for row in found.rows] == match[3].split(", ")


def sums_of_classes(name: str, match: re.Match[str]) -> None:
    """The sums, what they are made of, and that every part is judged once and every sum nowhere."""
    cpu0 = {row.label: row for row in parsed(name).rows}
    for label, sum_text, parts in re.findall(r"(EXT|I/O|AIO) (\d+) = ([^,;]+)", match[0]):
        assert cpu0[label].counts[0] == int(sum_text) == sum(numbers(re.sub("[A-Z]+", "", parts)))
        assert cpu0[label].kind is InterruptKind.REPEATED
    assert [cpu0[label].counts[0] for label in ("MSI", "PCF")] == [sums(parsed(name), numbered=True)[0]] * 2
    assert {cpu0["MSI"].kind, cpu0["PCF"].kind} == {InterruptKind.REPEATED}
    kinds = {label: cpu0[label].kind for label in ("CLK", "EXC", "CIO", "DAS", "QAI", "3")}
    assert kinds == {
        "CLK": InterruptKind.TICK,
        "EXC": InterruptKind.PER_CPU,
        **dict.fromkeys(("CIO", "DAS", "QAI", "3"), InterruptKind.DEVICE),
    }


def two_rows(name: str, match: re.Match[str]) -> None:
    assert [(row.label, list(row.counts.values())) for row in parsed(name).rows] == [
        (match[1], numbers(match[2])),
        (match[3], numbers(match[4])),
    ]
    with pytest.raises(ProbeError, match="no row CLK, which this kernel always prints"):
        read_interrupts(DictHost({"proc/interrupts": text_of(case_file(KIND, name))}))


def one_cpu_each(name: str, match: re.Match[str]) -> None:
    for device, cpu in re.findall(r"(\w+) -> CPU(\d+)", match[0]):
        assert [at for at, count in named(name, device).counts.items() if count] == [int(cpu)]


def another_boot(name: str, match: re.Match[str]) -> None:
    rows = growth(parsed(match[1]), parsed(name))
    fell = {row.label for row in rows if None in row.counts.values()}
    assert fell == set(match[2].split(","))
    assert max(count or 0 for row in rows for count in row.counts.values()) < int(match[3])


def wide_sums(name: str, match: re.Match[str]) -> None:
    assert sums(parsed(name), numbered=False)[0] == int(match[1]) > 1 << 32


def a_gap_in_the_header(name: str, match: re.Match[str]) -> None:
    found = parse_interrupts(text_of(case_file(KIND, name)), {int(match[1]), int(match[2])})
    assert int(match[1]) not in found.cpus
    assert found.cpus[10] == int(match[2])
    assert all(set(row.counts) == {int(match[2])} for row in found.rows)


def only_there(name: str, match: re.Match[str]) -> None:
    said = {int(cpu): int(count) for cpu, count in re.findall(r"CPU(\d+)=(\d+)", match[2])}
    assert {cpu: count for cpu, count in named(name, match[1]).counts.items() if count} == said


def headerless(name: str, match: re.Match[str]) -> None:
    refused(name, "line 1: no CPU header", SourceState.MASKED)
    header = " ".join(f"CPU{cpu}" for cpu in range(int(match[1])))
    found = parse_interrupts(f"{header}\n{text_of(case_file(KIND, name)).rstrip()}\n")
    assert len(found.rows) == 9
    assert +sums(found, numbered=True) == {0: int(match[2])}


@cache
def snapshots(name: str) -> dict[str, Interrupts]:
    refused(name, "line 1: not the CPU header, that is line 2")
    text = re.sub(r"\n[A-Z][a-z]+, exiting\n$", "\n", text_of(case_file(KIND, name)))  # the last word of the recorder
    parts = re.split(r"(?m)^Timestamp: (\S+)\n", text)
    return {stamp: parse_interrupts(text) for stamp, text in zip(parts[1::2], parts[2::2], strict=True)}


def several(name: str, match: re.Match[str]) -> None:
    found = snapshots(name)
    assert (len(found), next(iter(found)), list(found)[-1]) == (int(match[1]), match[2], match[3])
    assert {len(one.cpus) for one in found.values()} == {int(match[4])}


def last_less_first(name: str, match: re.Match[str]) -> None:
    found = list(snapshots(name).values())
    rows = growth(found[0], found[-1])
    assert [total(row) for row in rows if row.label == "LOC"] == [int(match[1])]
    assert sum(total(row) for row in rows) == int(match[2])
    assert None not in {count for row in rows for count in row.counts.values()}


COLUMNS = (
    r"(\d+) CPU columns: ([\d,-]+); (\d+) numeric IRQ rows \+ (\d+) named per-CPU rows \((.*)\); "
    r"rows without per-CPU counts: (.+)"
)
SUMS = r"sum of all per-CPU rows: (.*); numeric \(device-style\) rows only: (.*); largest cell (\d+)"
WRAPPED = "a wrapped paste is refused with its line; put together again it has the answer"
CLAIMS = (
    claim(COLUMNS, lambda name, match: columns(parsed(name), match)),
    claim(SUMS, lambda name, match: sums_of(parsed(name), match)),
    claim(
        r"pair: (\w+)\.before \+ (\w+)\.after; (\d+) CPUs both times, (\d+) comparable rows, no negative delta, "
        r"no new/vanished row",
        same_rows,
    ),
    claim(
        r"total delta (\d+); CPU0 (\d+), CPU(\d+) (\d+), busiest CPU(\d+) (\d+); numeric rows only: total (\d+), "
        r"CPU0 (\d+), CPU(\d+) (\d+)",
        growth_by_cpu,
    ),
    claim(r"largest rows by delta: (.*); CPUs with zero numeric-row delta: (\S+)", largest),
    claim(r"IPI0 CPU0=(\d+); arch_timer CPU5=(\d+) .* is a wrap, add (\d+)\)", near_the_wrap),
    claim(r'IRQ (\d+) count (\d+) name "(\w+)".*; IRQ (\d+) and IRQ (\d+) are both (\w+)', names_with_digits),
    claim(r"IPI1 values are ([\d,]+) and .* only the first may be attributed; .*", only_the_first_is_attributed),
    claim(r"FIQ row: no count at all; Err: (\d+)", fiq_counts_nothing),
    claim(r'description of IRQ (\d+) is "(.*)" \(spacing collapsed\); its counts are ([\d,]+)', text_of_irq),
    claim(r"IPI2 = ([\d,]+); absence of IPI0 is normal.*", no_ipi0),
    claim(r"no header: number of CPUs unknown .*; HVS (\d+) is the tick, not a device", without_header),
    claim(r"tick source = HVS \((.*)\), not LOC \((.*)\)", tick_of_hyper_v),
    claim(r"(ERR) and (MIS) are global error counters .*", global_errors),
    claim(r"rows after the empty line \((.*)\) still exist", rows_behind_a_blank_line),
    claim(r"IRQ \d+ \w+=\d+, IRQ \d+ \w+=\d+", counts_by_device),
    claim(r"header is CPU0 only .*; IRQ (\d+) (\w+)=(\d+), (\d+) (\w+)=(\d+)", quoted_printable),
    claim(r"refuse, or unwrap to 8 CPUs: .*", wrapped_by_mail),
    claim(r"WRONG: .* a second table whose header is .*", wrapped_by_mail, "ppc64le-8cpu-mail-wrapped"),
    claim(r"LOC=(\d+) is still valid although its text is cut", cut_text),
    differs(COLUMNS, WRAPPED, lambda name, match: columns(joined(name), match), "riscv-jh7110-mail-wrapped"),
    differs(SUMS, WRAPPED, lambda name, match: sums_of(joined(name), match), "riscv-jh7110-mail-wrapped"),
    differs(
        r"(\d+) CPUs, (\d+) rows; counts are complete .*; names are (.*)",
        WRAPPED,
        wrapped_names,
        "riscv-jh7110-mail-wrapped",
    ),
    claim(r"EXT, I/O and AIO are class totals .* checked on CPU0: .*; MSI \d+ = PCF .*", sums_of_classes),
    differs(
        r"(EXT): ([\d,]+); (I/O): ([\d,]+); no numeric rows is legal, not a parse failure",
        "parsed, but the reader wants the rows that these are sums of (since 2.6.39): the tick would go unseen",
        two_rows,
        "s390x-2cpu-minimal",
    ),
    claim(r"virtio0 -> CPU\d+, .*", one_cpu_each),
    differs(
        r"as a pair with (\S+): negative deltas in rows ([\d,]+) .*: refuse the pair .*, never report (\d+) interrupts",
        "numbered rows alone that fell are unknown, row by row: a driver's reload looks the same; named ones refuse it",
        another_boot,
        "vmm-4cpu-virtio-2",
    ),
    claim(r"per-CPU sums need >32 bits: CPU0 (\d+)", wide_sums),
    claim(r"CPU(\d+) has no column: .*; the 11th column belongs to CPU(\d+)", a_gap_in_the_header),
    claim(r"(em1): (.*), rest 0", only_there),
    claim(r"(eth0): (.*), others 0", only_there),
    claim(r"without header: refuse to name CPUs \((\d+) columns\); .* column sum (\d+)", headerless),
    claim(r"(\d+) snapshots, first (\S+), last (\S+); each has (\d+) CPUs", several),
    claim(r"last minus first: LOC total (\d+), all rows (\d+); negative deltas in rows: none", last_less_first),
)
