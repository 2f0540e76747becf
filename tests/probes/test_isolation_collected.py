"""The predictions against command lines of real machines, where the collection lies beside the checkout.

Its notes give the right answer for a number of possible CPUs and for kernels from 5.18 on; some were booted on 6.12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from probes.cmdline import parse_cmdline
from probes.cpulist import format_cpulist
from probes.isolation_outcome import ProblemKind
from probes.isolation_params import Requested, predict
from probes.kernel_version import features_of, parse_kernel_version

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "cmdline"
NAMES = sorted(path.stem for path in CASES.glob("*.txt"))
RIGHT = re.compile(
    r"with (?P<cpus>\d+) possible CPUs.*?: domain-isolated (?P<domain>[^;]+); nohz_full (?P<nohz_full>[^;]+); "
    r"managed_irq (?P<managed_irq>[^;]+); rcu_nocbs\(effective\) (?P<rcu_nocbs>[^;]+); "
    r"irqaffinity (?P<irqaffinity>[^;\n]+)"
)
# The answers of these are the model's before booting; the booted line of the first says that x86 takes CPU 0 out of
# nohz_full, and the second one names CPU 0 as well. rcu_nocbs= of the second names CPU 0 itself, so that one stays.
CPU_0_CLEARED = {
    "kexec-nohz0-6": {"nohz_full": "1-6", "rcu_nocbs": "1-6"},
    "typo-isocpus": {"nohz_full": "1-3,32-35"},
}
# Not what happens, says its note: the rest of the line is read as the list.
READ_PAST_END = {"flags-then-space": {"domain": "2-15", "managed_irq": "2-15"}}

pytestmark = pytest.mark.skipif(not NAMES, reason="the collected command lines are not beside this checkout")


@dataclass(frozen=True)
class Case:
    line: str
    note: str

    @property
    def arch(self) -> str:
        return "aarch64" if re.search(r"Arch/kernel: (aarch64|armv7l?|arm)", self.note) else "x86_64"


def case(name: str) -> Case:
    return Case(line=(CASES / f"{name}.txt").read_text(), note=(CASES / f"{name}.md").read_text())


def run(
    line: str, possible: int, release: str = "6.12.1", arch: str = "x86_64", mask_bits: int | None = None
) -> Requested:
    cpus = frozenset(range(possible))
    features = features_of(parse_kernel_version(release))
    return predict(parse_cmdline(line), possible=cpus, present=cpus, features=features, arch=arch, mask_bits=mask_bits)


def shown(cpus: frozenset[int] | None) -> str:
    return format_cpulist(cpus) if cpus else "none"


def sets_of(found: Requested) -> dict[str, str]:
    fields = ("domain", "nohz_full", "managed_irq", "rcu_nocbs", "irqaffinity")
    return {name: shown(getattr(found, name)) for name in fields}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "phantom-cpus-2-15"])
def test_right_answer(name: str) -> None:
    given = case(name)
    right = RIGHT.search(given.note)
    assert right is not None
    expected = {key: value.replace("not set", "none") for key, value in right.groupdict().items() if key != "cpus"}
    expected |= CPU_0_CLEARED.get(name, {}) | READ_PAST_END.get(name, {})
    assert sets_of(run(given.line, int(right["cpus"]), arch=given.arch)) == expected


def test_one_mask_before_5_18() -> None:
    given = case("9950x3d-inverted")
    old, new = run(given.line, 32, "5.15.0"), run(given.line, 32)
    assert sets_of(old) == sets_of(new)
    assert sets_of(old)["nohz_full"] == "8-15,24-31"
    assert "one list serves both" in next(p.text for p in old.problems if p.kind is ProblemKind.MISMATCH)


def test_narrow_mask_of_5_11() -> None:
    """NR_CPUS 64 without CPUMASK_OFFSTACK: RCU takes CPUs that can't exist, nohz_full looks at nr_cpu_ids."""
    line = case("phantom-cpus-2-15").line
    mail = run(line, 6, "5.12.0", mask_bits=64)
    assert (shown(mail.nohz_full), shown(mail.rcu_nocbs)) == ("none", "2-5")
    later = run(line, 6, "5.18.0", mask_bits=64)
    assert (shown(later.nohz_full), shown(later.rcu_nocbs)) == ("2-5", "2-5")


def test_rpi_by_architecture() -> None:
    """Booted: x86 knows all present CPUs by then and isolates CPU 0, arm64 does not."""
    line = case("rpi-isolcpus-0-3").line
    assert shown(run(line, 4).domain) == "0,3"
    assert shown(run(line, 4, "5.10.5-v8+", "aarch64").domain) == "3"


def test_noise_flag_by_version() -> None:
    line = case("blog-47").line
    assert run(line, 48).kernel_noise == frozenset()
    assert run(line, 48, "6.14.0").kernel_noise == frozenset({47})


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("9950x3d-inverted", {"mismatch", "tick-only", "boot-cpu", "not-mainline"}),
        ("arm64-144-kexec", set()),
        ("enzian-44-47", {"not-mainline"}),
        ("flags-then-space", {"read-past-end", "unknown-flag"}),
        ("fox-4-23", set()),
        ("insights-messy-blanks", set()),
        ("kernel-doc-16-N-small", {"bad-list"}),
        ("kexec-nohz0-6", {"boot-cpu"}),
        ("lowlatency-1-2", set()),
        ("neurorust-6-11", set()),
        ("nohz-includes-boot", {"boot-cpu", "not-mainline"}),
        ("ocp-gcp-1", {"no-domain-flag"}),
        ("ocp-multiline", {"no-domain-flag"}),
        ("tuned-empty-lists", {"empty-list"}),
        ("typo-isocpus", {"misspelt", "boot-cpu"}),
        ("typo-isocpus-3-7", {"misspelt"}),
    ],
)
def test_problems(name: str, kinds: set[str]) -> None:
    given = case(name)
    right = RIGHT.search(given.note)
    assert right is not None
    assert {problem.kind.value for problem in run(given.line, int(right["cpus"]), arch=given.arch).problems} == kinds
