"""Boot loader configuration: what it asks for, never executed, and that it is not what is in force."""

from __future__ import annotations

import re
from functools import cache

import pytest

from auditor.model import Outcome
from probes.boot_files import GRUB, BootFiles, grub_lines, read_boot_files
from probes.cmdline import parse_cmdline
from probes.host import DictHost
from probes.isolation_outcome import ProblemKind
from probes.isolation_params import Requested, predict
from probes.kernel_version import features_of, parse_kernel_version
from tests.auditor.build import context, edit, only
from tests.cases.claims import claim, cpus, differs
from tests.probes.collected import CASES, case_file, right_lines, text_of

KIND = "grub"
CPUS = {"9950x3d": 32, "epyc-typo": 64, "rtconf-braces": 4, "rusteron-dropin": 4, "ubuntu-dropin-billy": 8}
NONE = frozenset[int]()


@cache
def text(name: str) -> str:
    return (CASES / KIND / f"{name}.cfg").read_text(encoding="utf-8")


def line(name: str) -> str:
    return " ".join(grub_lines(text(name)))


def files(name: str) -> BootFiles:
    return read_boot_files(DictHost({GRUB: text(name)}), "6.12.1")


def words(text: str) -> list[tuple[str, str | None]]:
    return [(param.raw_name, param.value) for param in parse_cmdline(text).params if "$" not in param.token]


def predicted(name: str) -> Requested:
    every = frozenset(range(CPUS.get(name, 8)))
    features = features_of(parse_kernel_version("6.12.1"))
    return predict(parse_cmdline(line(name)), possible=every, present=every, features=features)


def as_command_line(name: str, match: re.Match[str]) -> None:
    """The same words as the case of that name, whose answers hold for it."""
    assert words(line(name)) == words(text_of(case_file("cmdline", match[1])))


def inverted(name: str, match: re.Match[str]) -> None:
    assert not list((CASES / "cmdline").glob(f"{match[1]}.*"))
    found = predict(
        parse_cmdline(line(name)),
        possible=frozenset(range(16)),
        present=frozenset(range(16)),
        features=features_of(parse_kernel_version("6.12.1")),
    )
    assert (found.domain, found.irqaffinity) == (cpus("0-1"), cpus("0-1"))
    assert found.nohz_full == cpus("1")  # that of the flag, less the boot CPU
    assert ProblemKind.MISMATCH in {problem.kind for problem in found.problems}
    assert "lsb_release" not in line(name)


def accumulated(name: str, match: re.Match[str]) -> None:
    there = words(line(name))
    for word in re.findall(r"(\w+)=(\w+)", match[1]):
        assert word in there
    assert (match[2], None) in there
    assert match[3] not in dict(there)
    assert [(item.name, item.value) for item in files(name).asked] == [("nohz_full", "all")]


def nothing(name: str, match: re.Match[str]) -> None:
    assert files(name).asked == ()
    assert not predicted(name).domain


def decided_elsewhere(name: str, match: re.Match[str]) -> None:
    assert files(name).asked == ()
    assert [value for parameter, value in words(line(name)) if parameter == "console"] == ["ttyS0", "ttyS0,115200n8"]
    assert "sed" not in line(name)
    found = only(edit(context(cmdline="quiet"), "facts.boot_files", files(name)), "CFG.DRIFT")
    assert found.detail.endswith("the entries in /boot/loader/entries decide, not /etc/default/grub")


def domain_alone(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert found.domain == cpus(match[1])
    assert (found.nohz_full, found.managed_irq) == (None, None)


def sets(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    fields = ("domain", "nohz_full", "managed_irq", "rcu_nocbs", "irqaffinity")
    assert [getattr(found, field) for field in fields] == [cpus(listed) for listed in match.groups()]


def not_booted(name: str, match: re.Match[str]) -> None:
    asked = {item.name: cpus(item.value) for item in files(name).asked}
    assert asked == dict.fromkeys(("isolcpus", "nohz_full", "rcu_nocbs"), cpus(match[1]))
    running = text(name).strip().splitlines()[-1].strip()
    assert running.startswith("BOOT_IMAGE=")
    ctx = edit(context(cmdline=running), "facts.boot_files", files(name))
    found = only(ctx, "CFG.DRIFT")
    assert found.outcome is Outcome.WARN
    assert "not what the kernel was started with (edited but not applied, not rebooted" in found.detail
    assert only(context(cmdline=running, isolated=NONE, nohz_full=NONE), "CFG.NOHZ").outcome is not Outcome.PASS


CLAIMS = (
    claim(r"(?:no isolcpus: )?see cmdline/(\S+)", as_command_line),
    differs(
        r"see cmdline/(\S+)",
        "there is no case of that name: what it must mean is predicted here",
        inverted,
        "popos-full",
    ),
    claim(r"effective value contains (.*); (rcu_nocb_poll) without (rcu_nocbs)", accumulated),
    claim(r"no active assignment: nothing configured", nothing),
    claim(r"nothing isolated", nothing),
    claim(r"GRUB_CMDLINE_LINUX has no isolation parameters; .*; warn that BLS entries decide", decided_elsewhere),
    claim(r"isolated (\S+) \(domain only\); no nohz_full", domain_alone),
    claim(
        r"(?:adds .* …; )?domain-isolated (\S+); nohz_full (\S+); managed_irq (\S+); rcu_nocbs\(effective\) (\S+); "
        r"irqaffinity (\S+)",
        sets,
    ),
    claim(r'grub wants (\S+) isolated, running kernel has nothing isolated: .* and say "pending"', not_booted),
)


@pytest.mark.skipif(not (CASES / KIND).is_dir(), reason="no collected inputs beside the repository")
def test_the_case_it_refers_to_has_answers() -> None:
    assert right_lines("cmdline", "9950x3d-inverted")
    assert right_lines("cmdline", "typo-isocpus")
