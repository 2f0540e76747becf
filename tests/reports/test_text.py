"""The terminal report, whole, and what no name may do to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from auditor.model import (
    Audit,
    Axis,
    Cause,
    Fix,
    FixKind,
    Kind,
    Outcome,
    PolicyFacts,
    Readiness,
    ReadinessVerdict,
    Status,
    Verdict,
    WaiverState,
    WaiverUse,
)
from reports import text
from reports.escape import printable
from tests.reports.audits import AUDITS, BOUNDS, EXPOSED, ISOLATED, NOT_ISOLATED, UNKNOWN, found
from tests.reports.strategies import HOSTILE, audits


@pytest.mark.parametrize("name", AUDITS)
def test_whole_output(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.txt", text.render(AUDITS[name]))


def harmless(report: str) -> None:
    """At most 100 columns, one column per character, nothing that a terminal obeys."""
    assert report.endswith("\n")
    for line in report.split("\n"):
        assert len(line) <= 100
        assert printable(line) == line


@settings(max_examples=80, deadline=None)
@given(audits())
def test_no_name_widens_or_breaks_a_line(audit: Audit) -> None:
    harmless(text.render(audit))


@pytest.mark.parametrize("bad", HOSTILE)
def test_hostile_names_everywhere(bad: str) -> None:
    cpu = NOT_ISOLATED.activity.cpus[1]
    threads = tuple(replace(thread, name=bad, cgroup=bad, allowed=bad) for thread in cpu.threads)
    counters = tuple(replace(counter, name=bad) for counter in cpu.interrupts)
    audit = replace(
        NOT_ISOLATED,
        host=replace(NOT_ISOLATED.host, name=bad, kernel=bad),
        activity=replace(NOT_ISOLATED.activity, cpus={1: replace(cpu, threads=threads, interrupts=counters)}),
        findings=tuple(replace(finding, title=bad, detail=bad) for finding in NOT_ISOLATED.findings),
        causes=tuple(replace(cause, title=bad) for cause in NOT_ISOLATED.causes),
        next_command=f"cpu-audit run '{bad}'",
        boot_line=bad,
    )
    harmless(text.render(audit))


def lines_of(audit: Audit) -> list[str]:
    return text.render(audit).splitlines()


@pytest.mark.parametrize(
    ("audit", "start"),
    [
        (ISOLATED, "isolated (guest view)  CPUs 1-2 on node7 (6.12.117-rt-amd64, 30 s): no disturbance visible"),
        (NOT_ISOLATED, "not-isolated  CPUs 1,5 on lab (6.8.0-41-generic, 40 s)"),
        (EXPOSED, "exposed  CPUs 1-2 on node7 (6.1.0-39-amd64, 30 s)"),
        (UNKNOWN, "unknown  CPUs 1-2 on node7 (6.12.117-rt-amd64, interrupted after 12.2 s of 30 s)"),
    ],
)
def test_the_first_line_answers(audit: Audit, start: str) -> None:
    assert lines_of(audit)[0].startswith(start)


def test_bare_metal_is_isolated_without_a_view() -> None:
    assert lines_of(replace(ISOLATED, host=replace(ISOLATED.host, hypervisor=None)))[0].startswith("isolated  CPUs")


def test_a_disturbed_verdict_has_its_bound_in_the_first_line() -> None:
    verdict = Verdict(status=Status.DISTURBED, reason="9.2/s TLB shootdowns (limit 1/s)", bounds=BOUNDS)
    assert lines_of(replace(ISOLATED, verdict=verdict))[0].startswith(
        "disturbed  CPUs 1-2 on node7 (6.12.117-rt-amd64, 30 s): no disturbance"
    )


def test_without_a_window() -> None:
    audit = replace(EXPOSED, window=replace(EXPOSED.window, window_ms=0))
    assert lines_of(audit)[0] == "exposed  CPUs 1-2 on node7 (6.1.0-39-amd64, configuration only)"


def test_the_answer_stands_in_the_first_five_lines_and_what_to_do() -> None:
    top = "\n".join(lines_of(NOT_ISOLATED)[:5])
    for part in ("not-isolated", "CPUs 1,5", "316/s SCHED softirqs (limit 1/s)", "readiness limited"):
        assert part in top
    assert "  do first: reboot with the boot line below" in top
    assert "55 %" in lines_of(NOT_ISOLATED)[6]


def throttled(audit: Audit, *, first: bool = False) -> Audit:
    """The audit with a CPU limit that ran out."""
    limit = found("CFG.QUOTA", Outcome.FAIL, (1,), "CPU limit: /app", axis=Axis.READINESS, origin="tick:quota /app")
    risk = found("CFG.IRQAFF", Outcome.WARN, (1,), "default interrupt affinity", kind=Kind.RISK)
    lift = Fix(kind=FixKind.RUNTIME, text="lift the CPU limit", commands=("echo max | sudo tee /x/cpu.max",))
    cause = Cause(
        title="readiness: CPU limit: /app", rules=("CFG.QUOTA",), cpus=(1,), share=None, per_second=0.4, fix=lift
    )
    return replace(
        audit,
        readiness=ReadinessVerdict(status=Readiness.NOT_READY, reason="CPU limit: /app"),
        causes=(cause, *audit.causes) if first else (*audit.causes, cause),
        findings=(*audit.findings, limit, risk),
    )


def test_a_cause_of_readiness_alone_is_none_of_isolation() -> None:
    """Nor is the boot line, which some risk asks for, what helps first."""
    line = "isolcpus=domain,managed_irq,1-2 irqaffinity=0,3"
    lines = lines_of(replace(throttled(ISOLATED), boot_line=line))
    assert lines[0].startswith("isolated (guest view)  CPUs 1-2 on node7")
    assert "  readiness not-ready: CPU limit: /app" in lines
    assert "  do first, for readiness: lift the CPU limit" in lines
    at = lines.index("Causes: what limits readiness")
    assert lines[at + 1] == " 1.     -    0.4/s  CPU 1  readiness: CPU limit: /app  [CFG.QUOTA]"
    assert not [line for line in lines if "disturbance" in line and line.startswith("Causes")]


def test_what_opens_a_door_is_done_before_what_makes_ready() -> None:
    lines = lines_of(throttled(EXPOSED, first=True))
    assert "Causes: what limits readiness, and open doors, through which nothing came" in lines
    assert any(line.startswith("  do first: reboot with isolcpus=") for line in lines)
    measured = lines_of(throttled(NOT_ISOLATED))
    assert "Causes, by their share of the disturbance" in measured
    assert "  do first: reboot with the boot line below" in measured


def test_the_last_line_is_the_next_command() -> None:
    assert lines_of(UNKNOWN)[-1] == "next: sudo cpu-audit run --cpus 1-2 --window 30s --load --work spin"


def test_commands_stand_alone_on_their_lines() -> None:
    assert "      echo 0,2-4,6-7 > /proc/irq/127/smp_affinity_list" in lines_of(NOT_ISOLATED)


def test_a_fix_is_told_once() -> None:
    causes = (NOT_ISOLATED.causes[0], replace(NOT_ISOLATED.causes[1], fix=NOT_ISOLATED.causes[0].fix))
    lines = lines_of(replace(NOT_ISOLATED, causes=causes))
    assert lines.count("    fix: as for 1") == 1


def test_boot_parameters_stand_with_the_fix_where_there_is_no_boot_line() -> None:
    lines = lines_of(replace(EXPOSED, boot_line=None))
    assert "      isolcpus=domain,managed_irq,1-2" in lines


def test_a_small_share_is_not_shown_as_none() -> None:
    report = text.render(replace(NOT_ISOLATED, causes=(replace(NOT_ISOLATED.causes[0], share=0.004),)))
    assert " 1.  <1 %    749/s  CPUs 1,5  the CPUs" in report


def test_many_causes_are_cut_and_it_is_said() -> None:
    lines = lines_of(replace(NOT_ISOLATED, causes=NOT_ISOLATED.causes[1:2] * 13))
    assert "    3 smaller causes are in the JSON document" in lines


def many_cpus(count: int) -> Audit:
    cpu, verdict = NOT_ISOLATED.activity.cpus[1], NOT_ISOLATED.cpu_verdicts[1]
    ids = tuple(range(0, 2 * count, 2))
    return replace(
        NOT_ISOLATED,
        cpu_verdicts=dict.fromkeys(ids, verdict),
        activity=replace(NOT_ISOLATED.activity, cpus={i: replace(cpu, busy=i / 1000) for i in ids}),
        findings=tuple(replace(finding, cpus=ids) for finding in NOT_ISOLATED.findings),
        causes=tuple(replace(cause, cpus=ids[1:]) for cause in NOT_ISOLATED.causes),
    )


def test_equal_cpus_share_a_table_and_causes_count_them() -> None:
    report = text.render(many_cpus(64))
    assert report.count("outcome  rule") == 1
    assert " 1.  55 %    749/s  63 of 64 CPUs  the CPUs are in a scheduler domain" in report
    assert re.search(r"^  in 40 s +mean +most +mean of control CPUs$", report, re.MULTILINE)
    assert re.search(r"^  busy % +6\.3 +12\.6 +87$", report, re.MULTILINE)
    harmless(report)


def test_a_finding_about_part_of_a_group_names_its_cpus() -> None:
    title = "row 127 fires"
    first, second = (
        found("IRQ.DEVICE", Outcome.FAIL, (1,), title),
        found("IRQ.DEVICE", Outcome.FAIL, (5,), "x"),
    )
    report = text.render(replace(NOT_ISOLATED, findings=(first, second)))
    assert "CPU 1: row 127 fires" in report
    assert "CPU 5: x" in report


def test_findings_about_no_audited_cpu_are_those_of_the_host() -> None:
    host = found("CFG.CMDLINE", Outcome.FAIL, (), "isolcpus= is not in force")
    lines = lines_of(replace(ISOLATED, findings=(*ISOLATED.findings, host)))
    place = lines.index("The host as a whole")
    assert lines[place + 2].split() == ["fail", "CFG.CMDLINE", "isolcpus=", "is", "not", "in", "force"]


def test_a_cpu_without_a_verdict_is_shown_without_one() -> None:
    assert "CPU 2 (idle)" in lines_of(
        replace(ISOLATED, cpu_verdicts={1: ISOLATED.cpu_verdicts[1]}, findings=ISOLATED.findings[5:6])
    )


def test_rows_beyond_the_limit_are_counted() -> None:
    many = tuple(found("IRQ.DEVICE", Outcome.FAIL, (1, 5), f"row {i} fires") for i in range(23))
    assert "  more in the JSON document: 20 fail IRQ.DEVICE" in lines_of(replace(NOT_ISOLATED, findings=many))


def test_threads_beyond_the_limit_are_counted() -> None:
    cpu = NOT_ISOLATED.activity.cpus[1]
    threads = tuple(replace(cpu.threads[0], name=f"t{i}") for i in range(11))
    activity = replace(NOT_ISOLATED.activity, cpus={1: replace(cpu, threads=threads)})
    assert "  3 more rows of threads are in the JSON document" in lines_of(replace(NOT_ISOLATED, activity=activity))


def test_threads_of_one_name_share_a_row() -> None:
    cpu = NOT_ISOLATED.activity.cpus[1]
    threads = tuple(replace(cpu.threads[0], tid=tid, switches=2) for tid in range(100, 111))
    lines = lines_of(
        replace(NOT_ISOLATED, activity=replace(NOT_ISOLATED.activity, cpus={1: replace(cpu, threads=threads)}))
    )
    row = next(line for line in lines if line.startswith("  kubelet "))
    assert row.split() == [
        "kubelet",
        "11",
        "threads",
        "foreign",
        "1",
        "22",
        "121",
        "0-7",
        "/system.slice/kubelet.service",
    ]


def test_a_detail_does_not_repeat_the_subject() -> None:
    finding = found("THR.USER", Outcome.FAIL, (1, 5), "foreign thread: etcd", detail="etcd: seen in 9 samples")
    assert "foreign thread: etcd: seen in 9 samples" in text.render(replace(NOT_ISOLATED, findings=(finding,)))
    finding = found("IRQ.DEVICE", Outcome.FAIL, (1, 5), "interrupts: virtio1", detail="virtio1-req.0 fired")
    assert "interrupts: virtio1: virtio1-req.0 fired" in text.render(replace(NOT_ISOLATED, findings=(finding,)))


def test_the_boot_line_is_told_once() -> None:
    fix = replace(NOT_ISOLATED.causes[0].fix, text=f"isolate them: {NOT_ISOLATED.boot_line}")  # type: ignore[type-var]
    report = text.render(replace(NOT_ISOLATED, causes=(replace(NOT_ISOLATED.causes[0], fix=fix),)))
    assert "    fix (boot line below): isolate them\n" in report
    assert report.count("nohz_full=1,5") == 1
    assert report.count("undo: delete /etc/default/grub.d") == 1


def test_a_command_that_the_boot_line_would_make_lasting() -> None:
    cause = NOT_ISOLATED.causes[2]
    fix = replace(cause.fix, boot={"irqaffinity": "0,2-4,6-7"})  # type: ignore[type-var]
    lines = lines_of(replace(NOT_ISOLATED, causes=(replace(cause, fix=fix),)))
    assert any(line.startswith("    fix (runtime, or the boot line below): route") for line in lines)
    assert "    undo: echo 0-7 > /proc/irq/127/smp_affinity_list" in lines


def test_a_boot_line_that_does_not_do_all() -> None:
    fix = replace(NOT_ISOLATED.causes[0].fix, commands=("sudo taskset -pc 0 500",))  # type: ignore[type-var]
    lines = lines_of(replace(NOT_ISOLATED, causes=(replace(NOT_ISOLATED.causes[0], fix=fix),)))
    assert any(line.startswith("    fix (boot line below, and then): ") for line in lines)
    assert "      sudo taskset -pc 0 500" in lines


def test_an_unknown_row_is_no_zero() -> None:
    cpu = replace(
        NOT_ISOLATED.activity.cpus[1], interrupts=(replace(ISOLATED.activity.cpus[1].interrupts[0], count=None),)
    )
    activity = replace(NOT_ISOLATED.activity, cpus={1: cpu, 5: NOT_ISOLATED.activity.cpus[5]}, control={})
    report = text.render(replace(NOT_ISOLATED, activity=activity))
    assert re.search(r"^  interrupt LOC Local timer interrupts +- +6384 +-$", report, re.MULTILINE)


def test_colour_is_asked_for_and_changes_no_text() -> None:
    plain = text.render(NOT_ISOLATED)
    coloured = text.render(NOT_ISOLATED, color=True)
    assert "\x1b" not in plain
    assert coloured.startswith("\x1b[31m\x1b[1mnot-isolated\x1b[0m  CPUs 1,5 on lab")
    assert re.sub(r"\x1b\[[0-9]*m", "", coloured) == plain


@pytest.mark.parametrize(
    ("rule", "outcome", "heading"),
    [
        ("CFG.CPUS", Outcome.FAIL, "Risks: no noise yet, CFG.CPUS keeps the verdict open"),
        ("CFG.CPUS", Outcome.UNKNOWN, "Risks: no noise yet, CFG.CPUS keeps the verdict open"),
        ("CFG.CPUS", Outcome.WARN, "Risks: no noise yet, and no part of the verdict"),
        ("CFG.NOHZ", Outcome.FAIL, "Risks: no noise yet, and no part of the verdict"),
        ("CFG.NOHZ", Outcome.UNKNOWN, ""),
    ],
)
def test_a_cpu_that_was_offline_is_told_apart_from_risks(rule: str, outcome: Outcome, heading: str) -> None:
    absent = found(rule, outcome, (1,), "offline CPU", kind=Kind.RISK, detail="went offline")
    lines = text.render(replace(UNKNOWN, findings=(absent,))).splitlines()
    headings = [line for line in lines if line.startswith("Risks")]
    assert headings == ([heading] if heading else [])
    if heading:
        assert f"  {rule}  CPU 1: offline CPU: went offline" in lines


def waived_audit() -> Audit:
    """Everything that failed is waived; a second waiver has expired."""
    reason = "until 2026-12-31: known \x1b[31m"
    findings = tuple(
        replace(f, waived=reason) if f.outcome in (Outcome.FAIL, Outcome.WARN) else f for f in NOT_ISOLATED.findings
    )
    use = WaiverUse(
        rule="IRQ.DEVICE", cpus="1", reason="known", expires="2026-12-31", state=WaiverState.IN_EFFECT, findings=1
    )
    uses = (
        use,
        replace(use, state=WaiverState.EXPIRED, findings=0, reason="x\x1b[31m"),
        replace(use, state=WaiverState.UNDATED, findings=0),
        replace(use, state=WaiverState.UNUSED, findings=0),
    )
    return replace(
        NOT_ISOLATED,
        verdict=Verdict(status=Status.DISTURBED, reason="waived", bounds="bounds", waivers=2),
        readiness=replace(NOT_ISOLATED.readiness, waivers=1),
        cpu_verdicts={cpu: replace(verdict, waivers=1) for cpu, verdict in NOT_ISOLATED.cpu_verdicts.items()},
        causes=tuple(replace(cause, waived=True) for cause in NOT_ISOLATED.causes),
        findings=findings,
        policy=PolicyFacts(source="site.toml", changes=("busy-poll: the tick is decisive",), waivers=uses),
    )


def test_waivers_are_told_wherever_something_is_waived() -> None:
    lines = text.render(waived_audit()).splitlines()
    assert lines[0].startswith("disturbed with 2 waivers  ")
    assert next(line for line in lines if line.startswith("  readiness ")).startswith(
        "  readiness limited with 1 waiver: "
    )
    assert not [line for line in lines if line.startswith("  do first")]
    assert sum("  (waived)" in line for line in lines) >= 1
    assert sum("not-isolated with 1 waiver" in line for line in lines) >= 1
    start = lines.index("Policy site.toml")
    assert lines[start : start + 7] == [
        "Policy site.toml",
        "  busy-poll: the tick is decisive",
        "  waiver of IRQ.DEVICE on CPU 1 until 2026-12-31: in effect, 1 finding waived; known",
        "  waiver of IRQ.DEVICE on CPU 1 until 2026-12-31: expired, no effect; x\\x1b[31m",
        "  waiver of IRQ.DEVICE on CPU 1 until 2026-12-31: no effect: the day of the window is not known;",
        "    known",
        "  waiver of IRQ.DEVICE on CPU 1 until 2026-12-31: in effect, and nothing to waive; known",
    ]
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if "\x1b" in line]


def test_the_defaults_need_no_words() -> None:
    assert "olicy" not in text.render(NOT_ISOLATED).replace("cpuset", "")
