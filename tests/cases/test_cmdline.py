"""Command lines of real machines: what a kernel makes of them, predicted; and what the rules say of the effects."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from auditor.errors import UsageError
from auditor.model import Outcome
from auditor.own import OwnRule
from auditor.targets import choose
from probes.cmdline import parse_cmdline
from probes.cpulist import parse_cpumask
from probes.isolation import Isolation
from probes.isolation_outcome import ProblemKind
from probes.isolation_params import Requested, predict
from probes.kernel_version import features_of, parse_kernel_version
from probes.topology import Topology
from tests.auditor.build import Thread, context, irq, only, outcomes
from tests.auditor.build import cpus as few
from tests.cases.claims import claim, cpus, differs
from tests.probes.collected import CASES

KIND = "cmdline"
SETS = (
    r"domain-isolated (?P<domain>[^;]+); nohz_full (?P<nohz_full>[^;]+); managed_irq (?P<managed_irq>[^;]+); "
    r"rcu_nocbs\(effective\) (?P<rcu_nocbs>[^;]+); irqaffinity (?P<irqaffinity>[^;]+)(?:; kernel says: (?P<says>.*))?"
)
SINCE_5_18 = r"with (?P<count>\d+) possible CPUs(?: \([^)]*\))?, kernel >=5\.18: " + SETS
SAYINGS = {
    "must match": ProblemKind.MISMATCH,
    "incorrect CPU range": ProblemKind.BAD_LIST,
    "boot CPU 0 kept": ProblemKind.BOOT_CPU,
}
NONE = frozenset[int]()


@cache
def line(name: str) -> str:
    return (CASES / KIND / f"{name}.txt").read_text(encoding="utf-8")


@cache
def arch(name: str) -> str:
    note = (CASES / KIND / f"{name}.md").read_text(encoding="utf-8")
    return "aarch64" if re.search(r"Arch/kernel: a(?:arch64|rm)", note) else "x86_64"


def count(name: str) -> int:
    """Possible CPUs, as the note says."""
    found = re.search(r"with (\d+) possible CPUs", (CASES / KIND / f"{name}.md").read_text(encoding="utf-8"))
    assert found
    return int(found[1])


def predicted(name: str, possible: int | None = None, release: str = "6.12.1", **given: Any) -> Requested:
    every = frozenset(range(possible or count(name)))
    values: dict[str, Any] = {"present": every, "arch": arch(name), **given}
    return predict(
        parse_cmdline(line(name)), possible=every, features=features_of(parse_kernel_version(release)), **values
    )


def kinds(found: Requested) -> set[ProblemKind]:
    return {problem.kind for problem in found.problems}


def value(name: str, parameter: str) -> str:
    found = parse_cmdline(line(name)).last_value(parameter)
    assert found
    return found


def as_said(found: Requested, match: re.Match[str], **but: str) -> None:
    for name in ("domain", "nohz_full", "managed_irq", "rcu_nocbs", "irqaffinity"):
        said = but.get(name, match[name].replace("not set", "none"))
        assert (getattr(found, name) or NONE) == cpus(said), name
        assert getattr(found, name) is not None or match[name] in ("not set", "none")
    if says := match["says"]:
        assert [kind for text, kind in SAYINGS.items() if text in says and kind in kinds(found)]


def general(name: str, match: re.Match[str]) -> None:
    as_said(predicted(name, int(match["count"])), match)


def before_5_18(name: str, match: re.Match[str]) -> None:
    found = predicted(name, release="5.15.0")
    as_said(found, match)
    assert "one list serves both" in next(p.text for p in found.problems if p.kind is ProblemKind.MISMATCH)


def rejected_everywhere(name: str, match: re.Match[str]) -> None:
    for release in ("5.15.0", "6.12.1", "6.14.0"):
        assert [p.parameter for p in predicted(name, release=release).problems if p.kind is ProblemKind.MISMATCH] == [
            "nohz_full"
        ]


def inverted(name: str, match: re.Match[str]) -> None:
    """Interrupts go where nobody else runs; of the CPUs that were to be quiet the audit says that they are not."""
    found = predicted(name)
    assert found.domain == cpus(match[1])
    assert found.irqaffinity == found.domain | {0}
    wanted = cpus(match[2])
    assert wanted.isdisjoint(found.domain)
    ctx = context(control=(0, 8), isolated=few(8), nohz_full=few(8), domains={1: [few(0, 1)], 0: [few(0, 1)]})
    assert outcomes(ctx, "CFG.DOMAIN") == [Outcome.FAIL]
    ctx = context(audited=(8,), isolated=few(8), default_affinity=few(0, 8))
    assert outcomes(ctx, "CFG.IRQAFF") == [Outcome.WARN]


def nothing(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert {found.domain or NONE, found.nohz_full or NONE, found.managed_irq or NONE, found.rcu_nocbs or NONE} == {NONE}


def all_are_empty(name: str, match: re.Match[str]) -> None:
    nothing(name, match)
    assert ProblemKind.EMPTY_LIST in kinds(predicted(name))
    ctx = context(isolated=few(), nohz_full=few(), domains={1: [few(0, 1)], 0: [few(0, 1)]})
    assert outcomes(ctx, "CFG.DOMAIN") == [Outcome.FAIL]


def misspelt(name: str, match: re.Match[str]) -> None:
    assert not predicted(name).domain
    assert ProblemKind.MISSPELT in kinds(predicted(name))


def housekeeping(name: str, match: re.Match[str]) -> None:
    found = predicted(name).domain or NONE
    assert frozenset(range(count(name))) - found == cpus(match["left"])
    if "set" in match.groupdict():
        assert (found, len(found)) == (cpus(match["set"]), int(match["size"]))


def none_is_online(name: str, match: re.Match[str]) -> None:
    found = predicted(name, online=few(0))
    assert found.nohz_full == cpus(match[1])
    assert ProblemKind.NOT_ONLINE in kinds(found)
    every = frozenset(range(count(name)))
    topology = Topology(online=few(0), possible=every, present=every, siblings={}, node={}, core_type={})
    isolation = Isolation(
        boot=found.domain or NONE, nohz_full=found.nohz_full or NONE, partitions=(), cgroup_isolated=NONE
    )
    with pytest.raises(UsageError, match="the kernel isolates no CPU here"):
        choose(topology, isolation, None)


def noise_by_version(name: str, match: re.Match[str]) -> None:
    found = [predicted(name, release=release).kernel_noise for release in ("6.12.1", "6.13.0", "6.14.0")]
    assert found == [NONE, NONE, few(47)]


def not_mainline(name: str, match: re.Match[str]) -> None:
    assert {p.parameter for p in predicted(name).problems if p.kind is ProblemKind.NOT_MAINLINE} == {"kthread_cpus"}


def last_word_is_no_flag(name: str, match: re.Match[str]) -> None:
    assert value(name, "isolcpus") == match[1]
    found = predicted(name)
    assert kinds(found) == {ProblemKind.UNKNOWN_FLAG, ProblemKind.READ_PAST_END}
    assert {problem.parameter for problem in found.problems} == {"isolcpus"}


def stray_word(name: str, match: re.Match[str]) -> None:
    assert (match[1], None) in [(param.raw_name, param.value) for param in parse_cmdline(line(name)).params]


def read_past_the_end(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert (found.domain, found.managed_irq, found.nohz_full or NONE) == (cpus(match[1]), cpus(match[1]), NONE)
    texts = {problem.kind: problem.text for problem in found.problems}
    assert set(texts) == {ProblemKind.UNKNOWN_FLAG, ProblemKind.READ_PAST_END}  # both are told


def default_is_all(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert (found.irqaffinity, found.problems) == (None, ())
    assert outcomes(context(default_affinity=few(0, 1)), "CFG.IRQAFF") == [Outcome.WARN]


def strides(name: str, match: re.Match[str]) -> None:
    found = predicted(name).domain
    assert found
    assert len(found) == int(match[2])
    first = [int(cpu) for cpu in match[1].split(",")]
    assert sorted(cpu for cpu in found if cpu >= first[0])[: len(first)] == first


def boot_cpu_taken_out(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert (found.nohz_full, found.rcu_nocbs) == (cpus(match["nohz"]), cpus(match["nocb"]))
    assert ProblemKind.BOOT_CPU in kinds(found)


def model_is_older(name: str, match: re.Match[str]) -> None:
    assert predicted(name).nohz_full == cpus(match["model"]) - {0}


def check_the_siblings(name: str, match: re.Match[str]) -> None:
    assert predicted(name).problems == ()
    busy = context(control=(0, 3), siblings={1: few(1, 3), 3: few(1, 3)}, busy={3: 0.9}, domains={3: [few(0, 3)]})
    assert only(busy, "CFG.SMT").outcome in (Outcome.WARN, Outcome.FAIL)


def managed_queues(name: str, match: re.Match[str]) -> None:
    assert predicted(name).managed_irq is None
    queue = irq(40, few(1), settable=False)
    ctx = context(
        rows={"40 nvme0q3": {0: 5}},
        affinity={40: queue},
        modes_tell=True,
        cmdline="isolcpus=1 nohz_full=1",
    )
    assert outcomes(ctx, "CFG.MIRQ") == [Outcome.WARN]


def tick_alone(name: str, match: re.Match[str]) -> None:
    """A CPU that stays in its domain gets more than one task, and then keeps its tick."""
    found = predicted(name)
    assert not found.domain
    assert found.nohz_full
    ctx = context(isolated=few(), domains={1: [few(0, 1)], 0: [few(0, 1)]})
    assert outcomes(ctx, "CFG.DOMAIN") == [Outcome.FAIL]


def lists_agree(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert found.nohz_full == cpus(match[1]) == found.domain == found.rcu_nocbs


def mask(name: str, match: re.Match[str]) -> None:
    found = parse_cpumask(value(name, "tuned.non_isolcpus"))
    assert found == cpus(match["set"])
    if "size" in match.groupdict():
        assert len(found) == int(match["size"])
        return
    assert value(name, "tuned.non_isolcpus") == match["mask"]
    isolated = predicted(name).managed_irq or predicted(name).nohz_full
    assert isolated
    assert found == frozenset(range(count(name))) - isolated
    if affinity := parse_cmdline(line(name)).last_value("systemd.cpu_affinity"):
        assert cpus(affinity) == found


def callbacks_alone(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert found.rcu_nocbs == cpus(match[1])
    assert (found.domain, found.nohz_full, found.managed_irq) == (None, None, None)


def no_domain(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert not found.domain
    assert found.managed_irq
    assert kinds(found) == {ProblemKind.NO_DOMAIN_FLAG}


def domain_alone(name: str, match: re.Match[str]) -> None:
    """A thread that was pinned there runs there, and is noise."""
    found = predicted(name)
    assert found.domain == cpus(match[1])
    assert (found.nohz_full, found.managed_irq, found.rcu_nocbs) == (None, None, None)
    pinned = Thread(tid=500, name="collector", cgroup="/collector", switches=100, run_ms=50)
    rule = OwnRule(audited=few(1), workload="app")
    ctx = context(switches={1: 100}, threads=[pinned], own=[Thread(name="app")], own_rule=rule)
    assert outcomes(ctx, "THR.FOREIGN") == [Outcome.FAIL]


def narrow_mask(name: str, match: re.Match[str]) -> None:
    """NR_CPUS 64 without CPUMASK_OFFSTACK: RCU takes CPUs that can't exist, nohz_full looked at nr_cpu_ids."""
    mail = predicted(name, 6, "5.11.0", mask_bits=64)
    assert (mail.nohz_full or NONE, mail.rcu_nocbs) == (NONE, cpus(match[1]))
    later = predicted(name, 6, "5.18.0", mask_bits=64, present=cpus("0-3"), online=cpus("0-3"))
    assert later.nohz_full is not None
    assert later.nohz_full & cpus("0-3") == cpus(match[2])


def not_there(name: str, match: re.Match[str]) -> None:
    found = predicted(name, present=cpus("0-3"), online=cpus("0-3"))
    assert (found.nohz_full, found.rcu_nocbs) == (cpus(match[1]), cpus(match[2]))
    texts = [problem.text for problem in found.problems if problem.kind is ProblemKind.NOT_ONLINE]
    assert texts == [f"nohz_full covers CPUs 4-5, not online; usable: CPUs {match[3]}."]


def one_left(name: str, match: re.Match[str]) -> None:
    found = predicted(name)
    assert found.nohz_full == frozenset(range(1, count(name)))
    assert len(found.nohz_full) == int(match[1])
    assert (found.domain, found.managed_irq, found.irqaffinity) == (None, None, None)


def only_cpu_0_was_present(name: str, match: re.Match[str]) -> None:
    found = predicted(name, release="5.10.5-v8+", present=cpus("0-3"))
    assert found.domain == cpus(match[1])
    assert ProblemKind.BOOT_CPU in kinds(found)


def booted_on_x86(name: str, match: re.Match[str]) -> None:
    assert predicted(name, arch="x86_64").domain == cpus(match[1])


def whole_cores(name: str, match: re.Match[str]) -> None:
    found = predicted(name).domain
    assert found == cpus(match[1]) | cpus(match[2])
    assert {cpu + int(match[3]) for cpu in cpus(match[1])} == cpus(match[2])


BOOTED_SAYS = "booted, x86 takes CPU 0 out of nohz_full for timekeeping: the model of the answer is older"
CLAIMS = (
    claim(SINCE_5_18, general),
    differs(
        SINCE_5_18,
        f"{BOOTED_SAYS} (another answer of the case)",
        lambda name, match: as_said(predicted(name), match, nohz_full="1-6", rcu_nocbs="1-6"),
        "kexec-nohz0-6",
    ),
    differs(
        SINCE_5_18,
        BOOTED_SAYS,
        lambda name, match: as_said(predicted(name), match, nohz_full="1-3,32-35"),
        "typo-isocpus",
    ),
    claim(r"kernel <5\.18 \(one shared mask\): " + SETS, before_5_18),
    claim(r"nohz_full=0-31 overlaps the nohz flag with another mask: rejected on all kernels", rejected_everywhere),
    claim(r"isolated = (\S+) and every IRQ goes there: the intended clean set (\S+) gets all tasks: FAIL", inverted),
    claim(r"no isolation(?: parameters at all|; crashkernel ranges are not CPU lists)?", nothing),
    claim(r"(?:invalid: )?nothing isolated", nothing),
    claim(r"nothing is isolated although all parameters are present: FAIL", all_are_empty),
    claim(r"isolcpus is absent: domain isolation none; unknown parameter isocpus goes to init silently", misspelt),
    claim(r"housekeeping = (?P<left>\S+)", housekeeping),
    claim(r"isolated = (?P<set>\S+) \((?P<size>\d+) CPUs\); housekeeping (?P<left>\S+) = .*", housekeeping),
    claim(r'.*"NO_HZ: Full dynticks CPUs: (\S+)\." With 1 CPU online .* "isolated set is not online"', none_is_online),
    claim(r'on >=6\.14 "nohz" means all kernel noise types; .*', noise_by_version),
    claim(r"kthread_cpus has no effect on mainline: .*", not_mainline),
    differs(
        r'value of isolcpus is "(.*)": last word has no comma, is skipped as unknown flag, list is empty',
        "booted: the list is read past the end of the value (the case's last answer)",
        last_word_is_no_flag,
        "flags-then-space",
    ),
    claim(r'"(\S+)" is also passed to init as an argument', stray_word),
    claim(
        r"by the grammar as written nobody is isolated; booted .*: isolated (\S+), nohz_full empty\. .*: report both",
        read_past_the_end,
    ),
    claim(r"device IRQs default to all CPUs: WARN; nothing wrong with the lists", default_is_all),
    claim(r"last item = ([\d,]+),\.\.\.: 2 of every 25; total CPUs (\d+)", strides),
    differs(
        r"CPU 7 is the only housekeeping CPU .*\. Model: nohz_full (?P<model>\S+) accepted",
        BOOTED_SAYS,
        model_is_older,
        "kexec-nohz0-6",
    ),
    claim(r"booted .*: nohz_full (?P<nohz>\S+), offloaded (?P<nocb>\S+) \(CPU 0 cleared .*", boot_cpu_taken_out),
    claim(r"all lists agree; check thread_siblings of 1,2 before PASS", check_the_siblings),
    claim(r"managed IRQs \(NVMe\) may still be delivered to \S+: WARN", managed_queues),
    claim(r"on a loaded desktop with >1 task per CPU the tick does not stop at all", tick_alone),
    claim(r"kernel adds boot CPU 0 back: effective nohz_full (\S+); lists agree after that", lists_agree),
    claim(r"mask = CPUs (?P<set>\S+) \((?P<size>\d+) CPUs\)", mask),
    claim(r"(?:tuned\.non_isolcpus )?(?P<mask>[0-9a-f,]+) = CPUs (?P<set>[\d,-]+) = .*complement.*", mask),
    claim(r"rcu_nocbs=(\S+) without nohz_full/isolcpus: only RCU callbacks are moved", callbacks_alone),
    claim(r"tick\+RCU\+managed IRQ off CPU1, domain balancing still on", no_domain),
    claim(r"domain isolation: NONE \(managed_irq flag only\): .*", no_domain),
    claim(r"managed_irq only: no domain isolation", no_domain),
    claim(r"\S+ are tick-free but not removed from scheduler domains", tick_alone),
    claim(
        r"domain isolation only; per-CPU pinned threads of pcm on (\S+) are legitimate .* and still noise", domain_alone
    ),
    claim(r"kernel of the mail .*: RCU offloads (\S+), nohz_full rejected .* \(effective usable (\S+)\)", narrow_mask),
    claim(
        r'mail: "NO_HZ: Full dynticks CPUs: (\S+)\." and RCU (\S+): accepted .*; usable isolated CPUs = (\S+)',
        not_there,
    ),
    claim(r"nohz_full=all leaves ONE housekeeping CPU for (\d+): tick-free but nothing is isolated .*", one_left),
    claim(r"reporter: \S+isolated = (\S+), .*", only_cpu_0_was_present),
    claim(r"booted .*: isolated (\S+) \(x86 has all CPUs present by then\); arm64 as above", booted_on_x86),
    claim(r"isolated physical cores (\S+) with siblings (\S+) \(n\+(\d+)\) both listed: good", whole_cores),
)


@pytest.mark.skipif(not (CASES / KIND).is_dir(), reason="no collected inputs beside the repository")
@pytest.mark.parametrize(
    ("name", "problems"),
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
def test_everything_that_is_not_as_written_is_told(name: str, problems: set[str]) -> None:
    assert {kind.value for kind in kinds(predicted(name))} == problems
