"""The line for these CPUs on this kernel, and none where all of it is in force."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.audit import audit
from auditor.bootline import boot_fix, boot_line, boot_parameters, in_force
from auditor.context import Context
from auditor.model import FixKind
from probes.host import SourceState
from tests.auditor.build import FACTS, context, cpus, edit, gone

PLAIN: dict[str, Any] = {
    "audited": (1, 5),
    "control": (0, 2, 3, 4),
    "cmdline": "quiet",
    "isolated": cpus(),
    "nohz_full": cpus(),
    "default_affinity": cpus(0, 1, 2, 3, 4, 5),
}
FULL = "isolcpus=domain,managed_irq,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"
OLD = "isolcpus=domain,1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"


def line(**given: Any) -> str:
    return boot_line(boot_parameters(context(**{**PLAIN, **given})))


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("4.14.336", "isolcpus=1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"),
        ("4.15.0", OLD),
        ("4.19.0-27-amd64", OLD),
        ("5.4.0-150-generic", OLD),
        ("5.5.19", OLD),
        ("4.18.0-394.el8.x86_64", FULL),
        ("4.18.0-394.el8uek.x86_64", OLD),
        ("5.6.0", FULL),
        ("5.10.0-28-amd64", FULL),
        ("6.1.0-13-amd64", FULL),
        ("6.12.117+deb12-rt-amd64", FULL),
        ("custom", "isolcpus=1,5 nohz_full=1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"),
    ],
)
def test_the_line_of_a_kernel(release: str, expected: str) -> None:
    assert line(release=release) == expected


def test_a_kernel_without_nohz_full_gets_no_such_parameter() -> None:
    assert line(nohz_full=gone()) == "isolcpus=domain,managed_irq,1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"
    assert line(nohz_full=gone(state=SourceState.DENIED)) == FULL


def test_a_fix_is_the_line_with_its_undoing() -> None:
    fix = boot_fix(context(**PLAIN), "do it")
    assert (fix.kind, fix.text, fix.reboot) == (FixKind.BOOT, f"do it: {FULL}", True)
    assert boot_line(fix.boot) == FULL
    assert fix.undo == "remove the parameters and reboot"


def asked(line: str, **given: Any) -> Context:
    """Booted with this line, and in force as given."""
    values: dict[str, Any] = {**PLAIN, "cmdline": line, "isolated": cpus(1, 5), "nohz_full": cpus(1, 5)}
    return context(**{**values, "default_affinity": cpus(0, 2, 3, 4), **given})


def test_where_all_is_in_force_a_fix_has_no_line() -> None:
    ctx = asked(FULL)
    assert in_force(ctx)
    fix = boot_fix(ctx, "what else")
    assert (fix.kind, fix.text, dict(fix.boot), fix.reboot) == (FixKind.RUNTIME, "what else", {}, False)


@pytest.mark.parametrize(
    "given",
    [
        {"isolated": cpus(1)},
        {"isolated": gone()},
        {"nohz_full": cpus(5)},
        {"nohz_full": gone(state=SourceState.DENIED)},
        {"default_affinity": cpus(0, 1)},
        {"default_affinity": gone()},
        {"release": "custom"},
        {"cmdline": gone()},
        {"cmdline": OLD},
    ],
)
def test_anything_that_lacks_or_is_not_known_calls_for_the_line(given: dict[str, Any]) -> None:
    assert not in_force(asked(FULL, **given))


def test_without_proc_irq_it_is_not_known() -> None:
    assert not in_force(edit(asked(FULL), "after.config.affinity", gone()))


@pytest.mark.parametrize("release", ["4.19.0", "5.4.0"])
def test_managed_irq_is_not_missed_where_the_kernel_has_none(release: str) -> None:
    assert in_force(asked(OLD, release=release))


def test_nohz_full_is_not_missed_where_the_kernel_has_none() -> None:
    short = "isolcpus=domain,managed_irq,1,5 rcu_nocbs=1,5 irqaffinity=0,2-4"
    assert in_force(asked(short, nohz_full=gone()))
    assert not in_force(asked(short.replace(" rcu_nocbs=1,5", ""), nohz_full=gone()))


def test_the_boot_cpu_can_not_be_had_and_is_not_missed() -> None:
    booted = "isolcpus=domain,managed_irq,0-1 nohz_full=0-1 rcu_nocbs=0-1 irqaffinity=2"
    ctx = asked(
        booted,
        audited=(0, 1),
        control=(2,),
        isolated=cpus(0, 1),
        nohz_full=cpus(1),
        default_affinity=cpus(0, 2),
    )
    assert in_force(ctx)


def test_the_document_has_the_line_only_where_something_is_to_be_mended() -> None:
    assert audit(context(**PLAIN), FACTS).boot_line == FULL
    assert audit(asked(FULL), FACTS).boot_line is None
    noisy = asked(FULL, rows={"CAL": {1: 5000}}, threads=[], switches={1: 500})
    assert audit(noisy, FACTS).boot_line is None


def on_arm64(**given: Any) -> Context:
    ctx = context(**{**PLAIN, **given})
    return edit(ctx, "facts.kernel.arch", "aarch64")


def test_arm64_can_not_isolate_the_cpu_that_boots() -> None:
    ctx = on_arm64(audited=(0, 3), control=(1, 2))
    fix = boot_fix(ctx, "do it")
    expected = "isolcpus=domain,managed_irq,3 nohz_full=3 rcu_nocbs=3 irqaffinity=0-2"
    assert boot_line(fix.boot) == expected
    assert fix.text == f"do it: {expected} (CPU 0 boots: arm64 can't isolate it)"
    assert boot_line(boot_parameters(on_arm64())) == FULL
    alone = boot_parameters(on_arm64(audited=(0,), control=(1, 2)))
    assert alone["isolcpus"] == "domain,managed_irq,0"


def test_on_arm64_all_that_can_be_in_force_is() -> None:
    given: dict[str, Any] = {"audited": (0, 3), "control": (1, 2), "isolated": cpus(3), "nohz_full": cpus(3)}
    line = "isolcpus=domain,managed_irq,3 nohz_full=3 rcu_nocbs=3 irqaffinity=0-2"
    assert in_force(on_arm64(**given, cmdline=line, default_affinity=cpus(0, 1, 2)))
