"""irqbalance: what it is told to keep off, what it keeps off by default, and what to write where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.model import Evidence, Outcome
from probes.host import ProbeError, SourceState
from probes.irqbalance import FILES, LIST, MASK, Ban, Irqbalance
from probes.isolation import Partition
from tests.auditor.build import context, cpus, edit, findings, gone, irq, only, outcomes

DENIED = ProbeError("proc/7/environ", "permission denied", SourceState.DENIED)
NO_FILE = ProbeError(FILES[1], "no file with its environment", SourceState.MISSING)
ENVIRON = "proc/7/environ"
UNSET = Ban(path=ENVIRON, setting="", cpus=None)


def ban(*numbers: int, path: str = ENVIRON) -> Ban:
    listed = ",".join(str(number) for number in numbers)
    return Ban(path=path, setting=f"{LIST}={listed}", cpus=cpus(*numbers))


def running(environment: Ban | ProbeError = UNSET, file: Ban | ProbeError = NO_FILE) -> tuple[Irqbalance, ...]:
    return (Irqbalance(pid=7, environment=environment, file=file),)


def judged(environment: Ban | ProbeError = UNSET, file: Ban | ProbeError = NO_FILE, **given: Any) -> Any:
    return only(context(balancers=running(environment, file), **given), "CFG.IRQBALANCE")


def test_none_runs() -> None:
    found = only(context(audited=(1, 5)), "CFG.IRQBALANCE")
    assert (found.outcome, found.cpus, found.detail) == (Outcome.NOT_APPLICABLE, (1, 5), "no irqbalance is running")


def test_one_may_hide() -> None:
    assert outcomes(context(complete=False), "CFG.IRQBALANCE") == [Outcome.UNKNOWN]
    assert outcomes(edit(context(), "after.census", gone()), "CFG.IRQBALANCE") == [Outcome.UNKNOWN]


def test_by_default_it_keeps_off_what_the_boot_line_isolates() -> None:
    found = judged()
    assert (found.outcome, found.fix) == (Outcome.PASS, None)
    assert found.detail == "process 7: by default it keeps off the CPUs that the boot line isolates (1)"
    assert found.evidence == (Evidence(path=f"/{ENVIRON}", field=f"{MASK} {LIST}", value="not set"),)
    assert judged(isolated=cpus(), nohz_full=cpus(1)).outcome is Outcome.PASS
    assert judged(nohz_full=gone()).outcome is Outcome.PASS  # a kernel without CONFIG_NO_HZ_FULL


def test_the_default_knows_no_partition() -> None:
    partition = Partition(path="/app", cpus=cpus(1), state="isolated")
    found = judged(isolated=cpus(), nohz_full=cpus(), partitions=(partition,))
    assert found.outcome is Outcome.WARN
    assert found.detail.endswith("that the boot line isolates (none), not 1; it knows no cpuset partition")
    assert judged(isolated=cpus(), nohz_full=cpus()).detail.endswith("isolates (none), not 1")


@pytest.mark.parametrize(
    "given",
    [{"isolated": gone()}, {"nohz_full": gone("x", SourceState.DENIED)}, {"isolated": gone(), "nohz_full": gone()}],
)
def test_a_default_that_is_not_known(given: Any) -> None:
    found = judged(**given)
    assert found.outcome is Outcome.UNKNOWN
    assert "and these are not known" in found.detail


def test_what_is_set_replaces_the_default() -> None:
    ctx = context(audited=(1, 3), balancers=running(ban(1)))
    found = findings(ctx, "CFG.IRQBALANCE")
    assert [finding.outcome for finding in found] == [Outcome.PASS, Outcome.WARN]
    assert found[0].detail == f"process 7: {LIST}=1 replaces its default: kept free are CPUs 1"
    assert found[1].detail == f"process 7: {LIST}=1 replaces its default: kept free are CPUs 1, not 3"
    assert found[1].evidence[0].value == f"{LIST}=1"


def test_a_mask_of_no_cpu_keeps_none_free() -> None:
    found = judged(Ban(path=ENVIRON, setting=f"{MASK}=0", cpus=cpus()))
    assert (found.outcome, found.detail.endswith("kept free are CPUs none, not 1")) == (Outcome.WARN, True)


def test_what_is_no_cpu_set() -> None:
    wrong = Ban(path=ENVIRON, setting=f"{LIST}=all", cpus=ProbeError(ENVIRON, "no CPU list: 'all'"))
    found = judged(wrong)
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        f"process 7: {LIST}=all is no CPU set: no CPU list: 'all'",
    )


def test_set_and_empty_depends_on_the_version() -> None:
    empty = Ban(path=ENVIRON, setting=f"{LIST}=", cpus=None, empty=True)
    assert judged(empty).outcome is Outcome.UNKNOWN
    assert "is empty: some versions then keep off no CPU" in judged(empty).detail
    assert judged(empty, isolated=cpus(), nohz_full=cpus()).outcome is Outcome.WARN


@pytest.mark.parametrize(
    ("file", "outcome"),
    [
        (ban(1, path=FILES[1]), Outcome.UNKNOWN),
        (ban(3, path=FILES[1]), Outcome.WARN),
        (Ban(path=FILES[2], setting="", cpus=None), Outcome.UNKNOWN),
        (NO_FILE, Outcome.UNKNOWN),
        (DENIED, Outcome.UNKNOWN),
    ],
)
def test_a_file_may_be_newer_than_the_process_it_proves_nothing_but_a_risk(
    file: Ban | ProbeError, outcome: Outcome
) -> None:
    found = judged(DENIED, file)
    assert found.outcome is outcome
    assert found.detail.startswith(
        "process 7: its environment can't be read (/proc/7/environ: permission denied); what would start it next: "
    )


def test_two_of_them_are_judged_apart() -> None:
    both = (*running(ban(3)), Irqbalance(pid=8, environment=ban(1), file=NO_FILE))
    assert outcomes(context(balancers=both), "CFG.IRQBALANCE") == [Outcome.WARN, Outcome.PASS]


def fix(environment: Ban | ProbeError, file: Ban | ProbeError, **given: Any) -> tuple[tuple[str, ...], str]:
    found = judged(environment, file, **given).fix
    return found.commands, found.undo


def test_where_the_default_would_do_what_is_set_is_taken_out() -> None:
    commands, undo = fix(ban(), ban(path=FILES[1]))
    assert commands == (
        "sudo sed -i.bak '/IRQBALANCE_BANNED_CPU/s/^[^#]/#&/' /etc/default/irqbalance",
        "sudo systemctl restart irqbalance",
    )
    assert undo == "sudo mv /etc/default/irqbalance.bak /etc/default/irqbalance; sudo systemctl restart irqbalance"


def test_else_a_list_is_set_that_keeps_what_was_free() -> None:
    commands, _ = fix(ban(3), ban(3, path=FILES[2]), isolated=cpus(), nohz_full=cpus())
    assert commands == (
        "sudo sed -i.bak '/IRQBALANCE_BANNED_CPU/s/^[^#]/#&/' /etc/sysconfig/irqbalance",
        f"echo {LIST}=1,3 | sudo tee -a /etc/sysconfig/irqbalance",
        "sudo systemctl restart irqbalance",
    )
    assert fix(ban(3), ban(3, path=FILES[2]))[0] == commands  # the default does not keep CPU 3 free


@pytest.mark.parametrize("file", [NO_FILE, Ban(path=FILES[0], setting="", cpus=None)])
def test_where_no_file_is_there_one_is_made_and_a_packages_own_is_left_alone(file: Ban | ProbeError) -> None:
    commands, undo = fix(UNSET, file, isolated=cpus(), nohz_full=cpus())
    assert commands == (
        f"echo {LIST}=1 | sudo tee -a /etc/default/irqbalance",
        "sudo systemctl restart irqbalance",
    )
    assert undo == "sudo rm /etc/default/irqbalance; sudo systemctl restart irqbalance"


def test_a_denied_environment_keeps_what_the_file_says() -> None:
    commands, _ = fix(DENIED, ban(3, path=FILES[1]), isolated=cpus(), nohz_full=cpus())
    assert commands[1] == f"echo {LIST}=1,3 | sudo tee -a /etc/default/irqbalance"


def test_what_is_steered_away_is_kept_away_first() -> None:
    """A running irqbalance that does not keep off moves it back within ten seconds."""
    here = {30: irq(30, cpus(1))}
    given: dict[str, Any] = {"rows": {"30 eth0": {1: 50}}, "affinity": here}
    steer = "echo 0 | sudo tee /proc/irq/30/smp_affinity_list"
    fix = only(context(balancers=running(ban(5)), **given), "IRQ.AFFINITY").fix
    assert fix is not None
    assert fix.commands == (
        f"echo {LIST}=1,5 | sudo tee -a /etc/default/irqbalance",
        "sudo systemctl restart irqbalance",
        steer,
    )
    assert fix.text.startswith("let irqbalance keep off these CPUs")
    assert fix.undo == (
        "echo 1 | sudo tee /proc/irq/30/smp_affinity_list; "
        "sudo rm /etc/default/irqbalance; sudo systemctl restart irqbalance"
    )
    for balancers in (running(ban(1)), running(DENIED), ()):
        quiet = only(context(balancers=balancers, **given), "IRQ.AFFINITY").fix
        assert quiet is not None
        assert quiet.commands == (steer,)
