from __future__ import annotations

import pytest

from probes.cmdline import parse_cmdline
from probes.housekeeping import BootMachine, HkType, Rejection, parse_isolcpus, read_line
from probes.kernel_version import KernelFeatures, features_of, parse_kernel_version

DOMAIN, MANAGED_IRQ, TICK, NOISE = HkType.DOMAIN, HkType.MANAGED_IRQ, HkType.TICK, HkType.KERNEL_NOISE


def features(release: str) -> KernelFeatures:
    return features_of(parse_kernel_version(release))


def machine(release: str = "6.12.0", cpus: int = 8, **changes: object) -> BootMachine:
    everything = frozenset(range(cpus))
    values: dict[str, object] = {
        "possible": everything,
        "present": everything,
        "boot_cpu": 0,
        "arch": "x86_64",
        "features": features(release),
        "has_nohz_full": True,
        "max_cpus": 1 << 30,
        "mask_bits": cpus,
    }
    return BootMachine(**(values | changes))  # type: ignore[arg-type]


def outcome(line: str, boot: BootMachine) -> tuple[set[int], set[int], list[Rejection | None]]:
    state, setups = read_line(parse_cmdline(line), boot)
    return set(state.isolated(DOMAIN)), set(state.nohz_full()), [setup.rejection for setup in setups]


@pytest.mark.parametrize(
    ("value", "types", "skipped", "bad_flag", "rest"),
    [
        ("1,5", {DOMAIN}, (), None, "1,5"),
        ("domain,1,5", {DOMAIN}, (), None, "1,5"),
        ("managed_irq,domain,1,5", {DOMAIN, MANAGED_IRQ}, (), None, "1,5"),
        ("nohz,1", {TICK}, (), None, "1"),
        ("managedirq,1", {DOMAIN}, ("managedirq",), None, "1"),
        ("Domain,1", {DOMAIN}, ("Domain",), None, "1"),
        ("nohz_full,1", {DOMAIN}, ("nohz_full",), None, "1"),
        ("io_queue,managed_irq,1", {MANAGED_IRQ}, ("io_queue",), None, "1"),
        ("managed-irq,1", {DOMAIN}, (), "managed-irq", "managed-irq,1"),
        ("foo2,1", {DOMAIN}, (), "foo2", "foo2,1"),
        ("1,5,domain", {DOMAIN}, (), None, "1,5,domain"),
        ('"domain,1"', {DOMAIN}, (), None, '"domain,1"'),
        ("domain, 1,5", {DOMAIN}, (), None, " 1,5"),
        ("all", {DOMAIN}, ("all",), None, ""),
        ("N", {DOMAIN}, ("N",), None, ""),
        ("domain", {DOMAIN}, ("domain",), None, ""),
        ("domain,all", {DOMAIN}, ("all",), None, ""),
        ("domain,1-N", {DOMAIN}, (), None, "1-N"),
    ],
)
def test_flags(value: str, types: set[HkType], skipped: tuple[str, ...], bad_flag: str | None, rest: str) -> None:
    found = parse_isolcpus(value, "", features("6.12.0"))
    assert (found.types, found.skipped, found.bad_flag) == (frozenset(types), skipped, bad_flag)
    assert found.list_text == rest


@pytest.mark.parametrize("value", ["managed_irq,domain,1,5", "managedirq,1", "Domain,1", "nohz_full,1", "all", "N"])
def test_unknown_flags_were_fatal(value: str) -> None:
    assert parse_isolcpus(value, "", features("4.19.0")).bad_flag == value.split(",")[0]


def test_flags_came_one_by_one() -> None:
    assert parse_isolcpus("managed_irq,1", "", features("5.6.0")).types == {MANAGED_IRQ}
    assert parse_isolcpus("managed_irq,1", "", features("4.18.0-394.el8.x86_64")).types == {MANAGED_IRQ}
    assert parse_isolcpus("nohz,1", "", features("6.14.0")).types == {TICK, NOISE}
    before_flags = parse_isolcpus("domain,1", "", features("4.14.0"))
    assert (before_flags.bad_flag, before_flags.list_text) == (None, "domain,1")


# Booted on 6.12 x86: the whole rest of the line is read, not only the next word.
@pytest.mark.parametrize(
    ("line", "isolated", "rejection"),
    [
        ("isolcpus=domain 2-3", {2, 3}, None),
        ("isolcpus=domain 1 2-3", {1, 2, 3}, None),
        ("isolcpus=domain 2-3 skew_tick=1", set(), Rejection.BAD_LIST),
        ('isolcpus="domain" 2-3', set(), Rejection.EMPTY),
        ("isolcpus=nohz 2-3", {2, 3}, None),
        ("isolcpus=all 2-3", {2, 3}, None),
        ("isolcpus= 2-3", set(), Rejection.EMPTY),
        ("isolcpus=domain", set(), Rejection.EMPTY),
        ("isolcpus=x domain,2-3", {2, 3}, None),
        # By the same reading, not booted.
        ("isolcpus=domain nohz_full=2", set(), Rejection.BAD_FLAG),
    ],
)
def test_read_past_the_end(line: str, isolated: set[int], rejection: Rejection | None) -> None:
    domain, _, rejections = outcome(line, machine())
    assert (domain, rejections[0]) == (isolated, rejection)


@pytest.mark.parametrize(
    ("line", "release", "isolated", "nohz", "rejections"),
    [
        ("isolcpus=1,5 nohz_full=1-5", "6.12.0", {1, 5}, {1, 2, 3, 4, 5}, [None, None]),
        ("isolcpus=1,5 nohz_full=1-5", "5.15.0", {1, 5}, set(), [None, Rejection.MISMATCH]),
        ("isolcpus=1,5 nohz_full=1-5", "4.18.0-394.el8.x86_64", {1, 5}, set(), [None, Rejection.MISMATCH]),
        ("isolcpus=1,5 nohz_full=5,1", "5.15.0", {1, 5}, {1, 5}, [None, None]),
        ("nohz_full=1-5 isolcpus=1,5", "4.19.0", set(), {1, 2, 3, 4, 5}, [None, Rejection.MISMATCH]),
        ("isolcpus=nohz,1 nohz_full=1,2", "6.12.0", set(), {1}, [None, Rejection.MISMATCH]),
        ("isolcpus=1 isolcpus=1,2", "6.12.0", {1}, set(), [None, Rejection.MISMATCH]),
        ("isolcpus=1 isolcpus=1", "6.12.0", {1}, set(), [None, None]),
        ("isolcpus=managed_irq,1 isolcpus=2", "6.12.0", {2}, set(), [None, None]),
        ("isolcpus=2-127", "6.12.0", set(), set(), [Rejection.BAD_LIST]),
        ("isolcpus=1,5 nohz_full=1-5", "4.14.0", {1, 5}, {1, 2, 3, 4, 5}, [None, None]),
        ("isolcpus=foo2,1 isolcpus=2", "6.12.0", {2}, set(), [Rejection.BAD_FLAG, None]),
        # An empty list sets the flag with a mask of all CPUs on 5.18 to 6.0, so that the next one differs from it.
        ("isolcpus= isolcpus=1", "6.0.19", set(), set(), [None, Rejection.MISMATCH]),
        ("isolcpus= isolcpus=1", "6.1.0", {1}, set(), [Rejection.EMPTY, None]),
        ("isolcpus= isolcpus=1", "5.15.0", {1}, set(), [Rejection.EMPTY, None]),
        # nohz_full and isolcpus=domain together must spare a present CPU since 6.19.
        ("isolcpus=0-3 nohz_full=4-7", "6.18.0", {0, 1, 2, 3}, {4, 5, 6, 7}, [None, None]),
        ("isolcpus=0-3 nohz_full=4-7", "6.19.0", {0, 1, 2, 3}, set(), [None, Rejection.NO_HOUSEKEEPING]),
        ("isolcpus=0-3 nohz_full=4-6", "6.19.0", {0, 1, 2, 3}, {4, 5, 6}, [None, None]),
        ("isolcpus=managed_irq,0-3 nohz_full=4-7", "6.19.0", set(), {4, 5, 6, 7}, [None, None]),
    ],
)
def test_setup(line: str, release: str, isolated: set[int], nohz: set[int], rejections: list[Rejection | None]) -> None:
    assert outcome(line, machine(release)) == (isolated, nohz, rejections)


@pytest.mark.parametrize(
    ("line", "boot", "isolated", "nohz"),
    [
        ("isolcpus=0-7", machine(), set(range(1, 8)), set()),
        ("nohz_full=all", machine(), set(), set(range(1, 8))),
        ("nohz_full=0-6", machine(), set(), set(range(1, 7))),
        ("nohz_full=0-6", machine("5.1.0", arch="ppc64le"), set(), set(range(1, 7))),
        ("nohz_full=0-6", machine(arch="ppc64le"), set(), set(range(7))),
        ("nohz_full=0-3", machine(boot_cpu=2), set(), {0, 1, 3}),
        ("isolcpus=0,3", machine(cpus=4), {0, 3}, set()),
        ("isolcpus=0,3", machine(cpus=4, arch="aarch64"), {3}, set()),
        ("isolcpus=0,3", machine(cpus=4, arch="riscv64"), {3}, set()),
        # Before 5.2 a possible CPU was enough.
        ("isolcpus=0-3", machine("4.19.0", present=frozenset(range(4))), {0, 1, 2, 3}, set()),
        ("isolcpus=0-3", machine("5.10.0", present=frozenset(range(4))), {1, 2, 3}, set()),
        ("isolcpus=0-7", machine("4.19.0"), set(range(1, 8)), set()),
        # The first housekeeping CPU would stay down: looked at since 6.1.
        ("isolcpus=0-2", machine(max_cpus=2), {1, 2}, set()),
        ("isolcpus=0-2", machine("6.0.19", max_cpus=2), {0, 1, 2}, set()),
        ("isolcpus=1 nohz_full=2", machine(has_nohz_full=False), {1}, set()),
        ("isolcpus=nohz,domain,1", machine(has_nohz_full=False), set(), set()),
        ("isolcpus=1 nohz_full=2", machine(has_nohz_full=None), {1}, {2}),
    ],
)
def test_machine(line: str, boot: BootMachine, isolated: set[int], nohz: set[int]) -> None:
    assert outcome(line, boot)[:2] == (isolated, nohz)


def test_wide_mask_before_5_18() -> None:
    """NR_CPUS is wider than the machine: isolation.c looked at nr_cpu_ids itself until 5.18."""
    assert outcome("nohz_full=2-15", machine("5.11.0", cpus=6, mask_bits=64))[1] == set()
    assert outcome("nohz_full=2-15", machine("5.18.0", cpus=6, mask_bits=64))[1] == {2, 3, 4, 5}


def test_names_without_value_are_not_read() -> None:
    assert read_line(parse_cmdline("isolcpus nohz_full ISOLCPUS=1 -- isolcpus=1"), machine())[1] == ()


def test_no_possible_cpu() -> None:
    assert machine(possible=frozenset()).nr_cpu_ids == 1
