"""The two doors, from values: scheduler domains at both ends, and where interrupts in use may fire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.context import Context
from auditor.engine import run
from auditor.model import Evidence, FixKind, Outcome, Status
from auditor.rules import RULES
from auditor.rules.doors import balanced_inside, fires_on, irq_door
from auditor.verdict import judge_cpu
from probes.cpuset_v1 import V1_ROOT, CpusetsV1, CpusetV1
from probes.host import ProbeError, SourceState
from probes.interrupts import Interrupts
from probes.irq_affinity import IrqAffinities, IrqAffinity
from probes.isolation import Partition
from probes.schedstat import CpuSched, SchedStat
from tests.auditor.build import context, cpus, edit, findings, gone, irq, only, outcomes

NIC = {"30 eth0": {0: 0}}
QUEUE = {"40 nvme0q3": {0: 0}}
SHARED = {0: [cpus(0, 2)], 2: [cpus(0, 2)]}
"""Two housekeeping CPUs that are balanced among themselves."""
ISOLATED = (Partition(path="/pod", state="isolated", cpus=cpus(1)),)


def sched(*spans: frozenset[int], cpu: int = 1) -> SchedStat:
    return SchedStat(version=15, cpus={cpu: CpuSched(run_ns=0, wait_ns=0, switches=5000, domains=spans)})


def affinities(*items: IrqAffinity, default: frozenset[int] = cpus(0), modes_tell: bool = False) -> IrqAffinities:
    return IrqAffinities(irqs={item.irq: item for item in items}, default=default, modes_tell=modes_tell)


def blind(state: SourceState = SourceState.MISSING, **given: Any) -> Context:
    """Without /proc/schedstat at both ends."""
    ctx = edit(context(**given), "before.counters.schedstat", gone("proc/schedstat", state))
    return edit(ctx, "after.counters.schedstat", gone("proc/schedstat", state))


def test_no_domain_line_is_isolated() -> None:
    found = only(context(control=(0, 2), domains=SHARED, isolated=cpus()), "CFG.DOMAIN")
    assert (found.outcome, found.detail, found.origin) == (Outcome.PASS, "in no scheduler domain", "door:domain")
    assert found.evidence == (Evidence(path="/proc/schedstat", field="cpu1", value="no domain line"),)


@pytest.mark.parametrize("control", [(0,), (0, 2, 3)])
@pytest.mark.parametrize(
    ("given", "outcome", "detail"),
    [
        ({"isolated": cpus()}, Outcome.UNKNOWN, "neither /proc/schedstat nor sysfs tells of scheduler domains"),
        ({"isolated": cpus(1)}, Outcome.PASS, "isolated at boot"),
        ({"isolated": cpus(), "partitions": ISOLATED}, Outcome.PASS, "in an isolated cpuset partition"),
    ],
)
def test_without_a_domain_line_of_any_cpu_schedstat_proves_nothing(
    control: tuple[int, ...], given: dict[str, Any], outcome: Outcome, detail: str
) -> None:
    found = only(context(control=control, **given), "CFG.DOMAIN")
    assert (found.outcome, found.detail) == (outcome, detail)


@pytest.mark.parametrize("end", ["before", "after"])
def test_domain_lines_lost_at_one_end_prove_nothing(end: str) -> None:
    ctx = context(control=(0, 2), domains=SHARED, isolated=cpus())
    assert only(edit(ctx, f"{end}.counters.schedstat", sched()), "CFG.DOMAIN").outcome is Outcome.UNKNOWN


def test_a_domain_with_others_is_open_whatever_sysfs_says() -> None:
    found = only(context(domains={1: [cpus(0, 1)]}, isolated=cpus(1)), "CFG.DOMAIN")
    assert found.outcome is Outcome.FAIL
    assert found.detail == "in a scheduler domain with CPUs 0-1: any thread may be placed here"
    assert found.evidence[0].value == "domain over CPUs 0-1"
    assert found.fix is not None


def test_the_fix_is_the_boot_line_and_since_6_8_a_partition_too() -> None:
    texts = {}
    for release in ("6.7.0", "6.8.0", "nonsense"):
        ctx = context(domains={1: [cpus(0, 1)]}, isolated=cpus(), nohz_full=cpus(), release=release)
        fix = only(ctx, "CFG.DOMAIN").fix
        assert fix is not None
        assert fix.kind is FixKind.BOOT
        texts[release] = "partition" in fix.text
    assert texts == {"6.7.0": False, "6.8.0": True, "nonsense": False}


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_domain_at_one_end_of_the_window_is_open(end: str) -> None:
    ctx = edit(context(), f"{end}.counters.schedstat", sched(cpus(0, 1)))
    assert only(ctx, "CFG.DOMAIN").outcome is Outcome.FAIL


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_domain_at_one_end_is_open_also_where_the_other_end_does_not_tell(end: str) -> None:
    other = "after" if end == "before" else "before"
    ctx = edit(context(isolated=cpus(1)), f"{end}.counters.schedstat", sched(cpus(0, 1)))
    ctx = edit(ctx, f"{other}.counters.schedstat", gone())
    assert only(ctx, "CFG.DOMAIN").outcome is Outcome.FAIL


def test_a_small_domain_with_others_is_open_beside_a_large_one_inside() -> None:
    ctx = context(audited=(1, 2, 3), control=(0,), domains={1: [cpus(1, 2, 3)]})
    ctx = edit(ctx, "before.counters.schedstat", sched(cpus(0, 1)))
    assert findings(ctx, "CFG.DOMAIN")[0].outcome is Outcome.FAIL


def test_a_root_partition_within_the_audited_cpus_is_isolation() -> None:
    ctx = context(audited=(1, 5), domains={1: [cpus(1, 5)], 5: [cpus(1, 5)]}, isolated=cpus())
    assert [(f.outcome, f.detail) for f in findings(ctx, "CFG.DOMAIN")] == [
        (Outcome.PASS, "balanced only among the audited CPUs 1,5 (cpuset root partition)")
    ] * 2
    assert balanced_inside(ctx, 1)


def test_a_root_partition_that_reaches_beyond_the_audited_cpus_is_not() -> None:
    ctx = context(audited=(1,), control=(0, 5), domains={1: [cpus(1, 5)]})
    assert only(ctx, "CFG.DOMAIN").outcome is Outcome.FAIL
    assert not balanced_inside(ctx, 1)


@pytest.mark.parametrize(
    ("given", "outcome", "detail"),
    [
        ({"isolated": cpus(1)}, Outcome.PASS, "isolated at boot"),
        ({"isolated": cpus(2)}, Outcome.UNKNOWN, "neither /proc/schedstat nor sysfs tells of scheduler domains"),
        ({"isolated": gone()}, Outcome.UNKNOWN, "neither /proc/schedstat nor sysfs tells of scheduler domains"),
        ({"isolated": cpus(), "partitions": ISOLATED}, Outcome.PASS, "in an isolated cpuset partition"),
        ({"isolated": cpus(), "cgroup_isolated": cpus(1)}, Outcome.PASS, "in an isolated cpuset partition"),
        (
            {"isolated": cpus(), "partitions": (Partition(path="/p", state="isolated invalid (x)", cpus=cpus(1)),)},
            Outcome.UNKNOWN,
            "neither /proc/schedstat nor sysfs tells of scheduler domains",
        ),
        (
            {"isolated": cpus(), "partitions": (Partition(path="/p", state="root", cpus=cpus(1)),)},
            Outcome.UNKNOWN,
            "neither /proc/schedstat nor sysfs tells of scheduler domains",
        ),
        ({"isolated": gone(), "partitions": gone()}, Outcome.UNKNOWN, "neither /proc/schedstat nor sysfs tells of "),
    ],
)
def test_without_schedstat_only_a_proof_of_isolation_counts(
    given: dict[str, Any], outcome: Outcome, detail: str
) -> None:
    found = only(blind(**given), "CFG.DOMAIN")
    assert found.outcome is outcome
    assert found.detail.startswith(detail)


@pytest.mark.parametrize("end", ["before", "after"])
def test_without_schedstat_a_partition_must_be_there_at_both_ends(end: str) -> None:
    ctx = edit(blind(isolated=cpus(), partitions=ISOLATED), f"{end}.config.isolation.partitions", ())
    assert only(ctx, "CFG.DOMAIN").outcome is Outcome.UNKNOWN


def test_a_cpu_without_a_line_in_schedstat_is_judged_by_sysfs() -> None:
    ctx = edit(context(isolated=cpus()), "after.counters.schedstat", sched(cpu=0))
    assert only(ctx, "CFG.DOMAIN").outcome is Outcome.UNKNOWN


ROOT_V1 = CpusetV1(path=V1_ROOT, cpus=cpus(0, 1, 2, 3), exclusive=True)


def v1(*balanced: frozenset[int] | ProbeError, **given: Any) -> CpusetsV1:
    return CpusetsV1(
        balancing=tuple(
            CpusetV1(path=f"{V1_ROOT}/s{at}", cpus=item, exclusive=False) for at, item in enumerate(balanced)
        ),
        unbalanced=(),
        **given,
    )


def with_v1(before: object, after: object, **given: Any) -> Context:
    ctx = edit(blind(**{"isolated": cpus(), **given}), "before.config.isolation.cpusets_v1", before)
    return edit(ctx, "after.config.isolation.cpusets_v1", after)


@pytest.mark.parametrize(
    ("cpusets", "outcome", "detail", "evidence"),
    [
        (v1(cpus(0, 2)), Outcome.PASS, "in no cpuset that is balanced (cgroup v1)", "CPU 1: 1 in no cpuset"),
        (v1(cpus(0), cpus(1)), Outcome.PASS, "balanced only among the audited CPUs 1 (cgroup v1)", "CPU 1: 1 in /s1"),
        (v1(cpus(1), cpus(0, 2)), Outcome.PASS, "balanced only among the audited", "CPU 1: 1 in /s0"),
        (
            v1(cpus(0, 2), cpus(1, 2)),
            Outcome.FAIL,
            "balanced with CPUs 0-2: any thread may be placed here",
            "CPU 1: 1 in /s1",
        ),
        (
            CpusetsV1(balancing=(ROOT_V1,), unbalanced=()),
            Outcome.FAIL,
            "balanced with CPUs 0-3: any thread may be placed here",
            "CPU 1: 1 in /",
        ),
    ],
)
def test_on_cgroup_v1_the_balanced_cpusets_are_the_domains(
    cpusets: CpusetsV1, outcome: Outcome, detail: str, evidence: str
) -> None:
    found = only(with_v1(cpusets, cpusets), "CFG.DOMAIN")
    assert (found.outcome, found.fix is not None) == (outcome, outcome is Outcome.FAIL)
    assert found.detail.startswith(detail)
    assert found.evidence == (Evidence(path=f"/{V1_ROOT}", field="cpuset.sched_load_balance", value=evidence),)


@pytest.mark.parametrize(
    "gap",
    [gone(V1_ROOT), gone(V1_ROOT, SourceState.DENIED), v1(gone()), v1(whole=False), v1(cut=True), v1(unread=(gone(),))],
)
def test_what_is_not_known_of_cpusets_proves_nothing(gap: Any) -> None:
    for ends in ((gap, gap), (gap, v1(cpus(0))), (v1(cpus(0)), gap)):
        assert only(with_v1(*ends), "CFG.DOMAIN").outcome is Outcome.UNKNOWN
    for ends in ((gap, v1(cpus(0, 1))), (v1(cpus(0, 1)), gap)):  # an open door at one end is open
        assert only(with_v1(*ends), "CFG.DOMAIN").outcome is Outcome.FAIL


def test_what_the_boot_line_took_out_no_cpuset_brings_back() -> None:
    whole = v1(cpus(0, 1, 5))
    assert only(with_v1(whole, whole, isolated=gone()), "CFG.DOMAIN").outcome is Outcome.UNKNOWN
    isolated = with_v1(whole, whole, isolated=cpus(0, 5))
    assert only(isolated, "CFG.DOMAIN").detail == "balanced only among the audited CPUs 1 (cgroup v1)"
    half = edit(with_v1(whole, whole, isolated=cpus(1)), "before.config.isolation.boot", cpus())
    assert only(half, "CFG.DOMAIN").outcome is Outcome.FAIL


def test_schedstat_outranks_the_flags() -> None:
    ctx = edit(
        context(control=(0, 2), domains=SHARED, isolated=cpus()), "after.config.isolation.cpusets_v1", v1(cpus(0, 1))
    )
    assert only(ctx, "CFG.DOMAIN").detail == "in no scheduler domain"


def test_no_interrupt_in_use_is_routed_here() -> None:
    ctx = context(rows=NIC, affinity={30: irq(30, cpus(0)), 31: irq(31, cpus(1))})
    found = only(ctx, "IRQ.AFFINITY")
    assert (found.outcome, found.detail) == (Outcome.PASS, "no active device interrupt is routed here")


def test_an_interrupt_in_use_that_may_fire_here_is_an_open_door() -> None:
    ctx = context(rows=NIC, affinity={30: irq(30, cpus(0, 1), cpus(1))})
    found = only(ctx, "IRQ.AFFINITY")
    assert (found.outcome, found.observed, found.limit, found.unit) == (Outcome.FAIL, 1, 0, "interrupts")
    assert found.detail == "routed here: 30 (eth0)"
    assert found.evidence == (Evidence(path="/proc/irq/30/effective_affinity_list", field="list", value="1"),)
    assert found.fix is not None
    assert found.fix.commands == ("echo 0 | sudo tee /proc/irq/30/smp_affinity_list",)
    assert found.fix.undo == "echo 0-1 | sudo tee /proc/irq/30/smp_affinity_list"
    assert irq_door(ctx, 1) is Outcome.FAIL


def test_a_wide_mask_with_the_chip_elsewhere_is_closed() -> None:
    ctx = context(rows=NIC, affinity={30: irq(30, cpus(0, 1), cpus(0))})
    assert outcomes(ctx, "IRQ.AFFINITY") == [Outcome.PASS]


def test_a_move_that_is_pending_still_lets_one_event_in() -> None:
    ctx = context(rows={"30 eth0": {0: 0, 1: 0}}, affinity={30: irq(30, cpus(0), cpus(1))})
    found = only(ctx, "IRQ.AFFINITY")
    assert (found.outcome, found.fix) == (Outcome.WARN, None)
    assert found.detail == "steered away, and each moves with its next event, which still lands here: 30 (eth0)"
    verdict = judge_cpu(ctx, run(RULES, ctx), 1)
    assert (verdict.status, verdict.reason) == (
        Status.DISTURBED,
        "doors closed; above the warning limit: where device interrupts may fire",
    )


@pytest.mark.parametrize(
    ("count", "requested"),
    [(1, cpus(0)), (None, cpus(0)), (0, cpus(7)), (0, cpus(0, 1)), (0, cpus(1))],
)
def test_what_fired_here_meanwhile_or_has_nowhere_to_go_does_not_leave(
    count: int | None, requested: frozenset[int]
) -> None:
    ctx = context(rows={"30 eth0": {0: 0, 1: count}}, affinity={30: irq(30, requested, cpus(1))})
    assert outcomes(ctx, "IRQ.AFFINITY") == [Outcome.FAIL]


def test_one_that_left_with_the_event_of_this_window_is_on_its_way_no_more() -> None:
    """Before: still here, with the mask that waits. Its one event moved it."""
    ctx = context(rows={"30 eth0": {0: 0, 1: 1}}, affinity={30: irq(30, cpus(0), cpus(1))})
    config = ctx.observation.after.config
    moved = edit(ctx, "after.config", replace(config, affinity=affinities(irq(30, cpus(0), cpus(0)))))
    assert outcomes(moved, "IRQ.AFFINITY") == [Outcome.WARN]
    silenced = edit(ctx, "after.config", replace(config, affinity=affinities(irq(30, cpus(0), cpus()))))
    assert outcomes(silenced, "IRQ.AFFINITY") == [Outcome.FAIL]
    assert outcomes(edit(ctx, "after.config.affinity", gone()), "IRQ.AFFINITY") == [Outcome.FAIL]


def test_beside_one_that_leaves_only_the_one_that_stays_is_named() -> None:
    ctx = context(
        rows={"30 eth0": {0: 0, 1: 0}, "31 eth1": {0: 0, 1: 0}},
        affinity={30: irq(30, cpus(0), cpus(1)), 31: irq(31, cpus(0, 1), cpus(1))},
    )
    found = only(ctx, "IRQ.AFFINITY")
    assert (found.outcome, found.observed, found.detail) == (Outcome.FAIL, 1, "routed here: 31 (eth1)")
    assert found.fix is not None
    assert found.fix.commands == ("echo 0 | sudo tee /proc/irq/31/smp_affinity_list",)


def test_such_a_chip_whose_line_never_fired_is_no_open_door() -> None:
    """A GPIO line in use keeps the default mask; nothing says that anything would come."""
    ctx = context(rows=NIC, affinity={30: irq(30, cpus(0, 1), cpus())})
    for end in ("before", "after"):
        counters = getattr(ctx.observation, end).counters
        assert isinstance(counters.interrupts, Interrupts)
        rows = tuple(replace(row, counts=dict.fromkeys(row.counts, 0)) for row in counters.interrupts.rows)
        ctx = edit(ctx, f"{end}.counters.interrupts", replace(counters.interrupts, rows=rows))
    assert outcomes(ctx, "IRQ.AFFINITY") == [Outcome.PASS]


def test_where_the_kernel_does_not_say_what_is_in_force_the_request_counts() -> None:
    silent = IrqAffinity(irq=30, requested=cpus(0, 1), effective=None, settable=None)
    found = only(context(rows=NIC, affinity={30: silent}), "IRQ.AFFINITY")
    assert found.outcome is Outcome.FAIL
    assert found.evidence == (Evidence(path="/proc/irq/30/smp_affinity_list", field="list", value="0-1"),)


def test_a_chip_that_can_not_be_told_fires_where_it_was_requested() -> None:
    """Demultiplexed MSI and GPIO chips have no set_affinity: the effective list is empty, and yet they fire."""
    for requested, outcome in ((cpus(0, 1), Outcome.FAIL), (cpus(0), Outcome.PASS)):
        ctx = context(rows=NIC, affinity={30: irq(30, requested, cpus())})
        assert outcomes(ctx, "IRQ.AFFINITY") == [outcome]
    found = only(context(rows=NIC, affinity={30: irq(30, cpus(0, 1), cpus())}), "IRQ.AFFINITY")
    assert found.evidence == (Evidence(path="/proc/irq/30/smp_affinity_list", field="list", value="0-1"),)
    assert fires_on(irq(40, cpus(1), cpus()), managed=True) == cpus()


def test_a_shut_down_managed_queue_fires_nowhere() -> None:
    assert fires_on(irq(40, cpus(3), cpus(0)), managed=True) == cpus()
    assert fires_on(irq(40, cpus(3), cpus(0))) == cpus(0)


def test_more_than_four_are_counted_not_listed() -> None:
    rows = {f"{number} eth{number}": {0: 0} for number in range(30, 36)}
    found = only(context(rows=rows, affinity={n: irq(n, cpus(1)) for n in range(30, 36)}), "IRQ.AFFINITY")
    assert found.observed == 6
    assert found.detail == "routed here: 30 (eth30), 31 (eth31), 32 (eth32), 33 (eth33) …"


@pytest.mark.parametrize(
    ("settable", "modes_tell", "door", "armed"),
    [
        (False, True, Outcome.PASS, Outcome.WARN),
        (True, True, Outcome.FAIL, Outcome.PASS),
        (None, False, Outcome.PASS, Outcome.WARN),  # by the driver's name
        (True, False, Outcome.PASS, Outcome.WARN),  # 0644 says nothing before 6.12
    ],
)
def test_managed_queues_are_a_risk_and_no_door(
    settable: bool | None, modes_tell: bool, door: Outcome, armed: Outcome
) -> None:
    ctx = context(rows=QUEUE, affinity={40: irq(40, cpus(1), settable=settable)}, modes_tell=modes_tell)
    assert outcomes(ctx, "IRQ.AFFINITY") == [door]
    assert outcomes(ctx, "CFG.MIRQ") == [armed]


def test_an_interrupt_that_is_marked_but_not_known_by_name_is_managed_only_where_modes_tell() -> None:
    for modes_tell, outcome in ((True, Outcome.PASS), (False, Outcome.FAIL)):
        ctx = context(rows=NIC, affinity={30: irq(30, cpus(1), settable=False)}, modes_tell=modes_tell)
        assert outcomes(ctx, "IRQ.AFFINITY") == [outcome]


@pytest.mark.parametrize("end", ["before", "after"])
def test_routed_here_at_one_end_of_the_window(end: str) -> None:
    ctx = context(rows=NIC, affinity={30: irq(30, cpus(0))})
    assert outcomes(edit(ctx, f"{end}.config.affinity", affinities(irq(30, cpus(1)))), "IRQ.AFFINITY") == [Outcome.FAIL]


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("source", ["config.affinity", "counters.interrupts"])
def test_an_end_that_can_not_be_read_leaves_the_door_undecided(end: str, source: str) -> None:
    ctx = edit(context(rows=NIC, affinity={30: irq(30, cpus(0))}), f"{end}.{source}", gone())
    assert outcomes(ctx, "IRQ.AFFINITY") == [Outcome.UNKNOWN]
    assert irq_door(ctx, 1) is Outcome.UNKNOWN


def test_an_open_door_is_open_though_another_interrupt_can_not_be_read() -> None:
    rows = {"30 eth0": {0: 0}, "31 eth1": {0: 0}}
    for other, outcome in ((cpus(1), Outcome.FAIL), (cpus(0), Outcome.UNKNOWN)):
        affinity: dict[int, IrqAffinity | ProbeError] = {30: gone("proc/irq/30"), 31: irq(31, other)}
        assert outcomes(context(rows=rows, affinity=affinity), "IRQ.AFFINITY") == [outcome]


def test_an_interrupt_in_use_without_a_directory_leaves_the_door_undecided() -> None:
    found = only(context(rows=NIC, affinity={}), "IRQ.AFFINITY")
    assert found.outcome is Outcome.UNKNOWN
    assert found.detail == "/proc/irq/30: not there, though the interrupt is in use"


def test_an_interrupt_that_came_or_went_may_lack_its_directory() -> None:
    ctx = context(rows=NIC, affinity={30: irq(30, cpus(0))})
    without = context()
    ctx = edit(ctx, "before.counters.interrupts", without.observation.before.counters.interrupts)
    ctx = edit(ctx, "before.config.affinity", affinities())
    assert outcomes(ctx, "IRQ.AFFINITY") == [Outcome.PASS]


def test_devices_without_a_number_go_to_any_cpu() -> None:
    """The adapters of s390 have no /proc/irq, so that no mask can keep them away."""
    ctx = context(rows={"QAI": {0: 50}})
    assert irq_door(ctx, 1) is Outcome.UNKNOWN
    found = only(ctx, "IRQ.AFFINITY")
    assert (found.outcome, found.detail) == (
        Outcome.UNKNOWN,
        "/proc/interrupts: row QAI has no number: its interrupts go to any CPU",
    )
    assert only(context(rows={"QAI": {0: 50_000}}), "IRQ.DEVICE").outcome is Outcome.PASS
    assert only(context(rows={"QAI": {1: 50}}), "IRQ.DEVICE").outcome is Outcome.FAIL


def test_an_interrupt_that_nobody_handles_is_no_door() -> None:
    ctx = context(rows={"30 ": {0: 0}}, affinity={30: irq(30, cpus(1))})
    assert outcomes(ctx, "IRQ.AFFINITY") == [Outcome.PASS]
