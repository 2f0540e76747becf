from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cmdline import parse_cmdline
from probes.host import ProbeError
from probes.isolation_outcome import Problem, ProblemKind
from probes.isolation_params import Requested, predict
from probes.isolation_words import edits, lookalike, readable_cpus
from probes.kernel_version import features_of, parse_kernel_version

K = ProblemKind


def run(line: str, release: str = "6.12.0", cpus: int = 8, online: str | None = None, **more: object) -> Requested:
    everything = frozenset(range(cpus))
    return predict(
        parse_cmdline(line),
        possible=everything,
        present=everything,
        features=features_of(parse_kernel_version(release)),
        online=None if online is None else frozenset(int(cpu) for cpu in online),
        **more,  # type: ignore[arg-type]
    )


def problems(line: str, release: str = "6.12.0", **more: object) -> list[Problem]:
    return list(run(line, release, **more).problems)  # type: ignore[arg-type]


def only(line: str, release: str = "6.12.0", **more: object) -> Problem:
    found = problems(line, release, **more)
    assert len(found) == 1, found
    return found[0]


def test_nothing_asked() -> None:
    found = run("ro quiet")
    values = [getattr(found, name) for name in Requested.__dataclass_fields__ if name != "problems"]
    assert values == [None] * 11
    assert found.problems == ()


def test_the_usual_line() -> None:
    found = run("isolcpus=domain,managed_irq,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4,6-7")
    cpus = frozenset({1, 5})
    assert found.domain == found.managed_irq == found.nohz_full == found.kernel_noise == found.rcu_nocbs == cpus
    assert found.irqaffinity == frozenset({0, 2, 3, 4, 6, 7})
    assert found.asked_domain == found.asked_managed_irq == found.asked_nohz_full == found.asked_rcu_nocbs == cpus
    assert found.asked_irqaffinity == found.irqaffinity
    assert found.problems == ()


def test_everything_wrong_at_once() -> None:
    """Booted on 6.12 x86 with 8 CPUs: isolated 1, nohz_full 2, mask 05, all callbacks offloaded."""
    found = run("isolcpus=managedirq,1 rcu_nocbs=1,9 irqaffinity=2,9,3 nohz-full=0-2:1/2 isolcpus=1,2")
    assert (found.domain, found.managed_irq) == (frozenset({1}), frozenset())
    assert (found.nohz_full, found.irqaffinity) == (frozenset({2}), frozenset({0, 2}))
    assert found.rcu_nocbs == frozenset(range(8))
    kinds = [problem.kind for problem in found.problems]
    assert kinds == [K.UNKNOWN_FLAG, K.ALL_CPUS, K.OUT_OF_RANGE, K.REPEATED, K.BOOT_CPU]


@pytest.mark.parametrize(
    ("line", "release", "expected"),
    [
        ("rcu_nocbs=1,5", "6.12.0", {1, 5}),
        ("rcu_nocbs=1 nohz_full=2", "6.12.0", {1, 2}),
        ("rcu_nocbs=1 rcu_nocbs=2", "6.12.0", {2}),
        ("rcu_nocbs=1,9", "6.12.0", set(range(8))),
        ("rcu_nocbs=1,9", "4.18.0-394.el8.x86_64", set(range(8))),
        ("rcu_nocbs=1,9", "4.19.0", {1}),
        ("rcu_nocbs=all", "5.4.0", set(range(8))),
        ("rcu_nocbs=all", "4.19.0", set()),
        ("rcu_nocbs", "6.12.0", set()),
        ("rcu_nocbs=1 rcu_nocbs", "6.12.0", set()),
        ("rcu_nocbs", "5.10.0", None),
        ("rcu_nocbs=", "6.12.0", set()),
        ("nohz_full=3", "6.12.0", {3}),
        ("rcu_nocb_poll", "6.12.0", None),
    ],
)
def test_rcu_nocbs(line: str, release: str, expected: set[int] | None) -> None:
    assert run(line, release).rcu_nocbs == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("irqaffinity=0-3", {0, 1, 2, 3}),
        ("irqaffinity=4-7", {0, 4, 5, 6, 7}),
        ("irqaffinity=2,9,3", {0, 2}),
        ("irqaffinity=x", {0}),
        ("irqaffinity=", {0}),
        ("irqaffinity=0-3 irqaffinity=0,1", {0, 1}),
        ("irqaffinity", None),
    ],
)
def test_irqaffinity(line: str, expected: set[int] | None) -> None:
    assert run(line).irqaffinity == expected


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("isolcpu", "isolcpus"),
        ("isocpus", "isolcpus"),
        ("isol_cpus", "isolcpus"),
        ("ISOLCPUS", "isolcpus"),
        ("__isolcpus", "isolcpus"),
        ("nohz_ful", "nohz_full"),
        ("nohz.full", "nohz_full"),
        ("nohzfull", "nohz_full"),
        ("rcu_nocb", "rcu_nocbs"),
        ("rcu_nocbsx", "rcu_nocbs"),
        ("irq_affinity", "irqaffinity"),
        ("irqaffinity", "irqaffinity"),
        ("nohz", None),
        ("rcu_nocb_poll", None),
        ("isolated_cpus", None),
        ("irqpoll", None),
        ("nosoftlockup", None),
        ("", None),
        ("x" * 10000, None),
    ],
)
def test_lookalikes(name: str, meant: str | None) -> None:
    assert lookalike(name) == meant


def test_edits() -> None:
    assert edits("", "abc") == 3
    assert edits("abc", "abc") == 0
    assert edits("nohz.full", "nohz_full") == 1
    assert edits("kitten", "sitting") == 3


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("1,5", {1, 5}),
        ("'1,5'", {1, 5}),
        ("0x22", {1, 5}),
        ("0x1,00000002", {1, 32}),
        ("0x100000000", {32}),
        ("0x123456789,1", set()),
        ("1\u20133", {1, 2, 3}),
        ("(1-2)", {1, 2}),
        ("=4", {4}),
        ("6-N", {6, 7}),
        ("all", set(range(8))),
        ("0-7:2/4", {0, 1, 4, 5}),
        ("0-7:2/0", set()),
        ("3-1", set()),
        ("1-99", set(range(1, 100))),
        ("managed_irq,domain,1", {1}),
        ("", set()),
    ],
)
def test_readable_cpus(text: str, cpus: set[int]) -> None:
    assert readable_cpus(text, 8) == cpus


def test_readable_cpus_are_bounded() -> None:
    assert len(readable_cpus("0-4294967295", 8)) == 8192


@pytest.mark.parametrize(
    ("line", "kind", "cpus", "words"),
    [
        ("isolcpu=1,5", K.MISSPELT, {1, 5}, "isolcpus is meant: the kernel hands it to init"),
        ("nohz.full=1", K.MISSPELT, {1}, "nohz_full is meant: the kernel takes it for a module's parameter"),
        ("isolcpus:1,5", K.MISSPELT, {1, 5}, "isolcpus:1,5 is no kernel parameter"),
        ("nohz_full,1", K.MISSPELT, {1}, "nohz_full is meant"),
        ("rcu_nocbsx=1", K.MISSPELT, {1}, "rcu_nocbs is meant"),
        ("isolcpus", K.NO_VALUE, set(), "isolcpus without = does nothing"),
        ("ro -- isolcpus=1", K.AFTER_DASHES, {1}, "stands behind --"),
        ("isolcpus=1, 5", K.STRAY_WORDS, {5}, "5 behind isolcpus=1, is not in its list"),
        ("isolcpus=1 3-5 6", K.STRAY_WORDS, {3, 4, 5, 6}, "3-5 6 behind isolcpus=1"),
        ("nohz_full=2 - 4 quiet", K.STRAY_WORDS, {4}, "- 4 behind nohz_full=2"),
        ("isolcpus=foo2,1", K.BAD_FLAG, {1}, "'foo2' is no flag and holds more than letters and _"),
        ("isolcpus=managed-irq,1", K.BAD_FLAG, {1}, "'managed-irq' is no flag"),
        ("isolcpus=all", K.WORD_AS_FLAG, set(range(8)), "'all' is taken for an unknown flag, so no CPU"),
        ("isolcpus=N", K.WORD_AS_FLAG, {7}, "'N' is taken for an unknown flag"),
        ("isolcpus=domain 2 quiet", K.WORD_AS_FLAG, {2}, "the rest of the line, '2 quiet', is read as the list"),
        ("isolcpus=managedirq,1", K.UNKNOWN_FLAG, {1}, "'managedirq' is no flag and is skipped"),
        ("isolcpus=nohz_full,1", K.UNKNOWN_FLAG, {1}, "without a known flag isolcpus= means domain"),
        (
            "isolcpus=2-127",
            K.OUT_OF_RANGE,
            set(range(2, 128)),
            "above the last possible one, 7, so the whole parameter",
        ),
        ("isolcpus='1,5'", K.BAD_LIST, {1, 5}, "quotes inside its value"),
        ('isolcpus=1,"5"', K.BAD_LIST, {1, 5}, "quotes inside its value"),
        ("isolcpus=0x22", K.BAD_LIST, {1, 5}, "is hexadecimal"),
        ("isolcpus=1\u20133", K.BAD_LIST, {1, 2, 3}, "not ASCII"),
        ("isolcpus=3-1", K.BAD_LIST, set(), "runs backwards, '3-1'"),
        ("isolcpus=1;5", K.BAD_LIST, set(), "is no CPU list at '1;5'"),
        ("isolcpus=1,5,domain", K.BAD_LIST, {1, 5}, "is no CPU list at 'domain'"),
        ("isolcpus=", K.EMPTY_LIST, set(), "has an empty CPU list"),
        ("nohz_full=", K.EMPTY_LIST, set(), "has an empty CPU list"),
        ("rcu_nocbs=", K.EMPTY_LIST, set(), "no callback is offloaded"),
        ("isolcpus=1 isolcpus=1,2", K.REPEATED, {2}, "the first one wins, isolcpus=1, and the lists differ"),
        ("rcu_nocbs=1,2 rcu_nocbs=1", K.REPEATED, {2}, "the last one wins, rcu_nocbs=1."),
        ("irqaffinity=0-3 irqaffinity=0", K.REPEATED, {1, 2, 3}, "the last one wins"),
        ("irqaffinity=0,2,9", K.OUT_OF_RANGE, {9}, "the default is what precedes it and the boot CPU: CPUs 0,2"),
        ("irqaffinity=0x3", K.BAD_LIST, {1}, "is hexadecimal, and a CPU list is decimal, so the default"),
        ("rcu_nocbs=1,9", K.ALL_CPUS, {9}, "so the callbacks of ALL CPUs are offloaded"),
        ("rcu_nocbs=1;5", K.ALL_CPUS, set(), "is no CPU list at '1;5', so the callbacks of ALL"),
        ("nohz_full=0-6", K.BOOT_CPU, {0}, "takes the boot CPU 0 out"),
        ("isolcpus=0-7", K.BOOT_CPU, {0}, "keeps the boot CPU 0 for housekeeping"),
        ("nohz_full=1 nohz=off", K.NOHZ_OFF, {1}, "keeps the tick running"),
        ("isolcpus=nohz,1 nohz_full=1,2 isolcpus=1", K.MISMATCH, {2}, "same CPUs as isolcpus=nohz,1."),
    ],
)
def test_something_asked_is_lost(line: str, kind: ProblemKind, cpus: set[int], words: str) -> None:
    found = [problem for problem in problems(line) if problem.lost]
    assert [problem.kind for problem in found] == [kind]
    assert found[0].cpus == cpus
    assert words in found[0].text


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("isolcpus=1-3 3", K.STRAY_WORDS, "right if a run level is meant"),
        ("isolcpus=domain 2-3", K.READ_PAST_END, "It works by accident"),
        ("isolcpus=managed_irq,1,5", K.NO_DOMAIN_FLAG, "takes nobody out of the scheduler"),
        ("isolcpus=nohz,domain,1", K.TICK_ONLY, "stops the tick only"),
        ("isolcpus=io_queue,domain,1", K.UNKNOWN_FLAG, "'io_queue' is no flag and is skipped"),
        ("nohz_full=all", K.BOOT_CPU, "keeps the boot CPU 0"),
        ("irqaffinity=4-7", K.BOOT_CPU, "adds the boot CPU 0"),
        ("kthread_cpus=0", K.NOT_MAINLINE, "no parameter of the mainline kernel"),
        ("kthread_cpus", K.NOT_MAINLINE, "no parameter of the mainline kernel"),
        ("isolcpus=1 isolcpus=", K.EMPTY_LIST, "has an empty CPU list"),
    ],
)
def test_remarks(line: str, kind: ProblemKind, words: str) -> None:
    found = only(line)
    assert (found.kind, found.lost, found.cpus) == (kind, False, frozenset())
    assert words in found.text


@pytest.mark.parametrize(
    ("line", "release", "kind", "words"),
    [
        ("isolcpus=managed_irq,1", "4.19.0", K.BAD_FLAG, "'managed_irq' is a flag only since 5.6"),
        ("isolcpus=all", "4.19.0", K.BAD_FLAG, "'all' is no flag of this kernel followed by a comma"),
        ("isolcpus=1 nohz_full=1,2", "5.15.0", K.MISMATCH, "one list serves both parameters before 5.18"),
        ("isolcpus=1-N", "4.19.0", K.BAD_LIST, "uses '1-N', which this kernel does not know"),
        ("nohz_full=all", "4.18.0-394.el8.x86_64", K.BAD_LIST, "uses 'all', which this kernel does not know"),
        ('isolcpus="1 5"', "4.19.0", K.BAD_LIST, "has blanks between numbers"),
        ("rcu_nocbs=1,9", "4.19.0", K.OUT_OF_RANGE, "and what follows is dropped"),
        ("rcu_nocbs", "5.10.0", K.NO_VALUE, "write rcu_nocbs=LIST"),
        ("isolcpus=0-3 nohz_full=4-7", "6.19.0", K.NO_HOUSEKEEPING, "no present CPU would be left"),
    ],
)
def test_older_and_newer_kernels(line: str, release: str, kind: ProblemKind, words: str) -> None:
    found = only(line, release)
    assert (found.kind, found.lost) == (kind, True)
    assert words in found.text


@pytest.mark.parametrize(
    "line",
    [
        "rcu_nocbs",
        "rcu_nocbs=all",
        "irqaffinity=0",
        "isolcpus=1,5 isolcpus=5,1",
        "rcu_nocbs=1 rcu_nocbs=1",
        "isolcpus=1 quiet 3",
        "crashkernel=1G-4G:192M isolcpus=1 ro",
        "nohz_full=1 nohz=on",
        "isolcpus=1 nohz=off",
    ],
)
def test_nothing_to_say(line: str) -> None:
    assert problems(line) == []


def test_kernel_without_nohz_full() -> None:
    found = only("nohz_full=1", has_nohz_full=False)
    assert (found.kind, found.lost, found.cpus) == (K.UNSUPPORTED, True, frozenset({1}))


def test_boot_cpu_alone_on_arm64() -> None:
    found = only("isolcpus=0", arch="aarch64")
    assert (found.kind, found.lost, found.cpus) == (K.BOOT_CPU, True, frozenset({0}))


def test_boot_cpu_may_stay_on_powerpc() -> None:
    assert problems("nohz_full=0-6", arch="ppc64le") == []


def test_offline() -> None:
    found = problems("isolcpus=1-3 nohz_full=1-3", online="01", cpus=4)
    assert [(problem.kind, problem.parameter, problem.lost) for problem in found] == [
        (K.NOT_ONLINE, "isolcpus", False),
        (K.NOT_ONLINE, "nohz_full", False),
    ]
    assert found[0].text == "isolcpus covers CPUs 2-3, not online; usable: CPU 1."


def test_maxcpus_and_nosmp_keep_the_boot_cpu() -> None:
    assert run("maxcpus=2 isolcpus=0-2").domain == frozenset({1, 2})
    assert run("nosmp isolcpus=0-2").domain == frozenset({1, 2})
    assert run("maxcpus=x isolcpus=0-2").domain == frozenset({0, 1, 2})


def test_what_was_asked_though_nothing_is_set() -> None:
    found = run("isocpus=3,7 nohz_ful=3 isolcpus 5 -- rcu_nocbs=2")
    assert (found.domain, found.asked_domain) == (frozenset(), frozenset({3, 5, 7}))
    assert (found.nohz_full, found.asked_nohz_full) == (frozenset(), frozenset({3}))
    assert (found.rcu_nocbs, found.asked_rcu_nocbs) == (None, frozenset({2}))
    assert (found.irqaffinity, found.asked_irqaffinity) == (None, None)


def test_misspelt_flags_are_understood() -> None:
    found = run("isolcpus=Domain,managed-irq,nohzfull,1")
    assert found.asked_domain == found.asked_managed_irq == found.asked_nohz_full == frozenset({1})
    assert run("isolcpus=io_queue,1").asked_domain == frozenset({1})


def test_long_words_are_cut() -> None:
    text = only("isolcpu=" + ",".join(map(str, range(300)))).text
    assert len(text) < 250
    assert "…" in text


def test_a_flag_is_told_once_however_often_it_is_there() -> None:
    found = problems("isolcpus=" + "oops," * 3000 + "2-3")  # each word was weighed against all: minutes
    assert [(problem.kind, problem.cpus) for problem in found] == [(K.UNKNOWN_FLAG, frozenset())]
    assert "'oops' is no flag" in found[0].text


NAMES = st.sampled_from(["isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "isolcpu", "kthread_cpus=1", "nohz=off"])
LISTS = st.sampled_from(["1", "5", "0-3", "all", "N", "0x3", ":1/2", "9", "domain", "managed_irq", "nohz", "x2", "é"])
WORDS = NAMES | LISTS | st.sampled_from([" ", "=", ",", "-", "--", "'", '"', "\n"])
RELEASES = st.sampled_from(["4.14.0", "4.19.0", "4.18.0-394.el8.x86_64", "5.10.0", "6.0.0", "6.1.0", "6.12.0", "7.0.0"])


@given(
    st.lists(WORDS, max_size=25).map("".join) | st.text(), RELEASES, st.sampled_from(["x86_64", "aarch64", "ppc64le"])
)
def test_any_line_is_predicted(line: str, release: str, arch: str) -> None:
    try:
        found = run(line, release, arch=arch)
    except ProbeError:
        assert "\0" in line
        return
    everything = frozenset(range(8))
    for cpus in (
        found.domain,
        found.managed_irq,
        found.nohz_full,
        found.kernel_noise,
        found.rcu_nocbs,
        found.irqaffinity,
    ):
        assert cpus is None or cpus <= everything
    assert (found.domain or frozenset()) != everything
    for problem in found.problems:
        assert problem.text.endswith(".")
        assert problem.lost or not problem.cpus


def test_no_isolated_cpu_online() -> None:
    found = only("isolcpus=1-3", online="0", cpus=4)
    assert found.text == "isolcpus covers CPUs 1-3, not online; usable: no CPU."
