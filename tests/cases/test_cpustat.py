"""CPU limits and throttling as people posted them: taken apart into the files they show, and judged."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from auditor.model import Outcome
from probes.cgroup_cpu_text import CpuLimit, Throttling, parse_cpu_max, parse_throttling, parse_v1_limit
from probes.host import ProbeError
from tests.auditor.build import Limited, Thread, context, edit, group, only
from tests.cases.claims import claim
from tests.probes.collected import case_file, text_of

KIND = "cpustat"
APP = Thread(run_ms=9900, cgroup="/pod")
PINNED = "/kubepods/pod"


def text(name: str) -> str:
    return text_of(case_file(KIND, name))


def value(name: str, file: str) -> str:
    """A file with one value that was pasted behind its name."""
    found = re.search(rf"(?m)^{re.escape(file)} (.*\n)", text(name))
    assert found
    return found[1]


def counters(name: str) -> str:
    """cpu.stat of v1, pasted among others."""
    return "".join(re.findall(r"(?m)^(?:nr_|throttled_)\w+ \d+\n", text(name)))


def v1(name: str) -> tuple[CpuLimit | None, Throttling]:
    found = parse_throttling(counters(name), version=1)
    assert found
    return parse_v1_limit(value(name, "cpu.cfs_quota_us"), value(name, "cpu.cfs_period_us")), found


def headed(name: str, file: str) -> str:
    """A file behind the header that tail(1) prints."""
    found = re.search(rf"(?ms)^==> {re.escape(file)} <==\n(.*?\n)(?=\n==>|\Z)", text(name))
    assert found
    return found[1]


def percent(found: Throttling) -> float:
    return 100 * found.throttled / found.periods


def cut(name: str, match: re.Match[str]) -> None:
    period, quota, *rest = text(name).splitlines(keepends=True)
    limit = parse_v1_limit(quota, period)
    assert limit == CpuLimit(quota_us=int(match[1]), period_us=int(match[2]))
    with pytest.raises(ProbeError, match="lacks nr_throttled, throttled_time"):
        parse_throttling("".join(rest), version=1)


def never(name: str, match: re.Match[str]) -> None:
    limit, found = v1(name)
    assert (found.throttled, found.periods, found.throttled_us) == (int(match[1]), int(match[2]), 0)
    assert limit
    assert limit.cpus == float(match[3])
    ctx = context(own=[APP], limited={"/pod": Limited(quota_us=limit.quota_us, periods=found.periods)})
    assert only(ctx, "CFG.QUOTA").outcome is Outcome.WARN


def no_period(name: str, match: re.Match[str]) -> None:
    quota = text(name).rstrip("\n") + "\n"
    assert quota == f"{match[1]}\n"
    with pytest.raises(ProbeError, match="not a line with a number: ''"):
        parse_v1_limit(quota, "")
    limit = parse_v1_limit(quota, f"{match[3]}\n")
    assert limit
    assert limit.cpus == float(match[2])


def error_text(name: str, match: re.Match[str]) -> None:
    with pytest.raises(ProbeError, match=r"not a number of microseconds: 'invalid\\n-1'"):
        parse_v1_limit(text(name).rstrip("\n") + "\n", "100000\n")


def pinned(name: str, match: re.Match[str]) -> None:
    limit, found = v1(name)
    assert (found.throttled, found.periods) == (int(match[1]), int(match[2]))
    assert (f"{percent(found):.1f}", found.throttled_us / 1000) == (match[3], float(match[4]))
    assert limit
    limited = Limited(
        quota_us=limit.quota_us,
        periods=found.periods,
        throttled=found.throttled,
        throttled_us=found.throttled_us,
        waited_us=None,  # v1 before 6.6
    )
    ctx = context(own=[replace(APP, cgroup=PINNED)], limited={PINNED: limited})
    for end in ("before", "after"):
        groups = {PINNED: group(PINNED, limited, after=end == "after", version=1)}
        ctx = edit(ctx, f"{end}.limits.cgroups.groups", groups)
    judged = only(ctx, "CFG.QUOTA")
    assert (judged.outcome, judged.observed) == (Outcome.FAIL, found.throttled)
    assert judged.detail.startswith(
        f"1 CPUs: 100000 µs in each 100000 µs; {match[1]} of {match[2]} periods throttled, 12 ms"
    )
    assert judged.fix
    assert judged.fix.commands == (f"echo {match[5]} | sudo tee /sys/fs/cgroup/cpu/kubepods/pod/cpu.cfs_quota_us",)


def nanoseconds(name: str, match: re.Match[str]) -> None:
    found = parse_throttling(text(name), version=1)
    assert found
    assert (found.throttled, found.periods, f"{percent(found):.1f}") == (int(match[1]), int(match[2]), match[3])
    assert abs(found.throttled_us / 1000 - float(match[4])) <= 0.001


def zero(name: str, match: re.Match[str]) -> None:
    with pytest.raises(ProbeError, match="not a number of microseconds: '0'"):
        parse_v1_limit(value(name, "cpu.cfs_quota_us"), "100000\n")


def unlimited(name: str, match: re.Match[str]) -> None:
    limit, found = v1(name)
    assert (limit, found) == (None, Throttling(periods=0, throttled=0, throttled_us=0))


def container(name: str, match: re.Match[str]) -> None:
    with pytest.raises(ProbeError, match="line 2: not a name and a number, or its second: 'cpu"):
        parse_throttling(text(name), version=2)
    files = dict(re.findall(r"(?m)^(\S+): (.*\n(?:\t.*\n)*)", text(name)))
    stat = files["cpu.stat"].replace("\t", "")
    limit, found = parse_cpu_max(files["cpu.max"]), parse_throttling(stat, version=2)
    assert limit
    assert found
    assert limit.cpus == float(match[1])
    assert (found.throttled, found.periods, f"{percent(found):.1f}") == (int(match[2]), int(match[3]), match[4])
    usage_us = int(stat.split()[1])
    allowed_us = found.periods * limit.quota_us
    assert (f"{usage_us / 1e6:.2f}", f"{allowed_us / 1e6:.2f}") == (match[5], match[6])
    assert f"{100 * usage_us / allowed_us:.1f}" == match[7]
    assert found.throttled_us // 10**6 == int(match[8])
    assert found.throttled_us > found.periods * limit.period_us  # summed over CPUs, as the finding says


def pod(name: str, match: re.Match[str]) -> None:
    with pytest.raises(ProbeError, match="line 1: not a name and a number, or its second: '==> cpu"):
        parse_throttling(text(name), version=2)
    limit, found = parse_cpu_max(headed(name, "cpu.max")), parse_throttling(headed(name, "cpu.stat"), version=2)
    assert limit
    assert found
    assert limit.cpus == float(match[1])
    assert (found.throttled, found.periods, percent(found)) == (int(match[2]), int(match[3]), float(match[4]))
    assert found.throttled_us / 1000 == float(match[5])
    usage_us = int(headed(name, "cpu.stat").split()[1])
    assert (usage_us, found.periods * limit.period_us) == (int(match[6]), int(match[7]))
    assert usage_us < found.periods * limit.quota_us


CLAIMS = (
    claim(r"quota (\d+), period (\d+) .*; nr_throttled unknown: incomplete data, not zero", cut),
    claim(r"(\d+)/(\d+): a one-thread load cannot use ([\d.]+) CPU", never),
    claim(
        r"quota (\d+); without cpu\.cfs_period_us the limit is unknown \(([\d.]+) CPU only .* default (\d+)\)",
        no_period,
    ),
    claim(r"must be refused with the offending line, not read as -1", error_text),
    claim(r"(\d+)/(\d+) = ([\d.]+) %, ([\d.]+) ms; root cause: quota .*; fix: quota (-1) for exclusive CPUs", pinned),
    claim(r"(\d+)/(\d+) periods throttled \(([\d.]+) %\), ([\d.]+) ms", nanoseconds),
    claim(r'neither "unlimited" nor "0 CPUs allowed" can be concluded: report as invalid', zero),
    claim(r"unlimited", unlimited),
    claim(
        r"limit ([\d.]+) CPU; throttled (\d+)/(\d+) periods = ([\d.]+) %; usage ([\d.]+) s of .* = ([\d.]+) s quota "
        r"\(([\d.]+) %\): .*; throttled_usec \((\d+) s\) exceeds wall time .* adds up per CPU",
        container,
    ),
    claim(
        r"limit ([\d.]+) CPU; throttled in (\d+) of (\d+) periods \((\d+) %\), ([\d.]+) ms waiting; "
        r"average use over \d+ periods (\d+)/(\d+) = .* below the limit: bursty throttling",
        pod,
    ),
)
