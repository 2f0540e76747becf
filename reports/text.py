"""The terminal report: the answer first, then what to change, then why one may believe it. At most 100 columns."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model import Audit, Axis, Cause, Finding, Fix, FixKind, Kind, Outcome, OwnInterrupt, Status
from reports.escape import bounded
from reports.layout import (
    INDENT,
    MISSING,
    WIDTH,
    Column,
    clip,
    cpu_list,
    cpus_named,
    number,
    prose,
    seconds,
    table,
    with_waivers,
)
from reports.shell import shell_lines
from reports.text_cpus import cpu_sections, with_detail
from reports.text_policy import policy_lines

MAX_CAUSES = 10
ABSENT = "CFG.CPUS"
NOT_RECORDED = "unknown: not recorded"
RED, YELLOW, GREEN, BOLD, RESET = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[1m", "\x1b[0m"
BOUNDED = (Status.ISOLATED, Status.DISTURBED)
"""Verdicts that are never printed without the bound within which they hold."""
COLOURS = {
    Status.NOT_ISOLATED: RED,
    Status.EXPOSED: RED,
    Status.UNKNOWN: YELLOW,
    Status.DISTURBED: YELLOW,
    Status.ISOLATED: GREEN,
}


def render(audit: Audit, *, color: bool = False) -> str:
    """The report as lines of at most 100 columns; ``color`` adds ANSI colours to the verdict and the headings."""
    sections = [_causes(audit), _boot_line(audit), *cpu_sections(audit), _risks(audit), _config(audit),
                policy_lines(audit.policy), _coverage(audit), _measured(audit), _next(audit)]  # fmt: skip
    head, *rest = [_head(audit), *(section for section in sections if section)]
    if color:
        word = audit.verdict.status.value
        head[0] = COLOURS[audit.verdict.status] + BOLD + word + RESET + head[0][len(word) :]
        rest = [[BOLD + section[0] + RESET, *section[1:]] for section in rest]
    return "\n\n".join("\n".join(section) for section in [head, *rest]) + "\n"


def _head(audit: Audit) -> list[str]:
    """Verdict, host and, where the CPUs are isolated, the bound of that; then the reason and the second axis."""
    status = audit.verdict.status.value
    if audit.verdict.status is Status.ISOLATED and audit.host.hypervisor is not None:
        status += " (guest view)"
    status = with_waivers(status, audit.verdict.waivers)
    host = f"{cpus_named(clip(audit.cpus.audited, 400))} on {clip(audit.host.name or 'an unnamed host', 64)}"
    first = f"{status}  {host} ({clip(audit.host.kernel or 'kernel unknown', 64)}, {_window(audit)})"
    bounds = f": {bounded(audit.verdict.bounds)}" if audit.verdict.status in BOUNDED else ""
    readiness = f"{with_waivers(audit.readiness.status.value, audit.readiness.waivers)}: {audit.readiness.reason}"
    return [
        *prose(first + bounds, rest=INDENT),
        *prose(audit.verdict.reason, INDENT),
        *prose(f"readiness {readiness}", INDENT),
        *_first_step(audit),
    ]


def _first_step(audit: Audit) -> list[str]:
    """The change that does most, before anyone has to scroll: the boot line, else the fix of the first cause.

    What only readiness failed for comes after everything that changes the verdict.
    """
    causes = [cause for cause in audit.causes if cause.fix and not cause.waived]
    first = next((cause for cause in causes if not _of_readiness(audit, cause)), next(iter(causes), None))
    if first is None or first.fix is None or audit.verdict.status is Status.UNKNOWN:
        return []
    room = WIDTH - len(INDENT)
    if _of_readiness(audit, first):
        return [INDENT + clip(f"do first, for readiness: {first.fix.text}", room)]
    line = f"do first: {f'reboot with {audit.boot_line}' if audit.boot_line else first.fix.text}"
    if audit.boot_line and len(line) > room:
        line = "do first: reboot with the boot line below"
    return [INDENT + clip(line, room)]


def _of_readiness(audit: Audit, cause: Cause) -> bool:
    """Whether nothing of isolation came true in it (auditor/causes.py)."""
    found = [finding for finding in audit.findings if finding.rule in cause.rules and finding.kind is not Kind.RISK]
    return bool(found) and all(finding.axis is Axis.READINESS for finding in found)


def _window(audit: Audit) -> str:
    window = audit.window
    if not window.window_ms:
        return "configuration only"
    if audit.interrupted:
        return f"interrupted after {seconds(window.window_ms)} of {seconds(window.requested_ms)}"
    return seconds(window.window_ms)


def _next(audit: Audit) -> list[str]:
    """The last line of an unknown verdict: the command that would tell."""
    return shell_lines(f"next: {audit.next_command}", "", WIDTH) if audit.next_command else []


def _causes(audit: Audit) -> list[str]:
    if not audit.causes:
        return []
    known = any(cause.share is not None or cause.per_second is not None for cause in audit.causes)
    lines = [_heading(audit)]
    for rank, cause in enumerate(audit.causes[:MAX_CAUSES], 1):
        lines += _cause(audit, cause, f"{rank:>2}. ", known=known)
        same = next((i for i, other in enumerate(audit.causes[: rank - 1], 1) if other.fix == cause.fix), None)
        if cause.fix and same:
            lines += [f"    fix: as for {same}"]
        elif cause.fix:
            lines += fix_lines(cause.fix, boot_line=audit.boot_line)
    if len(audit.causes) > MAX_CAUSES:
        lines += [f"    {len(audit.causes) - MAX_CAUSES} smaller causes are in the JSON document"]
    return lines


def _heading(audit: Audit) -> str:
    """By share where something was measured on the CPUs; else what the causes are: no share is theirs."""
    readiness = [cause for cause in audit.causes if _of_readiness(audit, cause)]
    isolation = [cause for cause in audit.causes if cause not in readiness]
    if any(cause.share is not None or cause.per_second is not None for cause in isolation):
        return "Causes, by their share of the disturbance"
    parts = ["what limits readiness"] * bool(readiness) + ["open doors, through which nothing came"] * bool(isolation)
    return f"Causes: {', and '.join(parts)}"


def _cause(audit: Audit, cause: Cause, rank: str, *, known: bool) -> list[str]:
    share = MISSING if cause.share is None else "<1 %" if 0 < cause.share < 0.01 else f"{100 * cause.share:.0f} %"
    rate = MISSING if cause.per_second is None else f"{number(cause.per_second)}/s"
    figures = f"{clip(share, 6):>5}  {clip(rate, 12):>7}  " if known else ""
    rules = ", ".join(bounded(rule, 24) for rule in cause.rules)
    waived = "  (waived)" if cause.waived else ""
    return prose(f"{bounded(cause.title)}  [{rules}]{waived}", first=f"{rank}{figures}{_where(audit, cause.cpus)}  ")


def _where(audit: Audit, cpus: Sequence[int]) -> str:
    """The CPUs of a cause if they are few, else how many of the audited ones they are."""
    listed = cpu_list(cpus)
    if len(listed) <= 12:
        return cpus_named(listed)
    return f"{len(cpus)} of {max(len(audit.cpu_verdicts), len(cpus))} CPUs"


def fix_lines(fix: Fix, *, boot_line: str | None, indent: str = INDENT * 2) -> list[str]:
    """What to change: a sentence, then each command on lines that can be copied, then how to undo it.

    A fix that the boot line makes is told in a sentence: the line and its undoing have a section of their own.
    """
    in_line = bool(fix.boot) and boot_line is not None
    text = fix.text.replace(f": {boot_line}", "") if in_line else fix.text
    lines = prose(text, first=f"{indent}fix ({_how(fix, in_line=in_line)}): ", rest=indent + INDENT)
    if fix.boot and not in_line:
        lines += shell_lines(" ".join(f"{name}={value}" for name, value in fix.boot.items()), indent + INDENT, WIDTH)
    for command in fix.commands:
        lines += shell_lines(command, indent + INDENT, WIDTH)
    if fix.undo and (fix.commands or not in_line):
        lines += prose(fix.undo, first=f"{indent}undo: ", rest=indent + INDENT)
    return lines


def _how(fix: Fix, *, in_line: bool) -> str:
    if in_line:
        if fix.commands and fix.kind is FixKind.BOOT:
            return "boot line below, and then"
        return f"{fix.kind.value}, or the boot line below" if fix.commands else "boot line below"
    return f"{fix.kind.value}, reboot needed" if fix.reboot else fix.kind.value


def _boot_line(audit: Audit) -> list[str]:
    if audit.boot_line is None:
        return []
    heading = "Boot line to add: the whole of it, for these CPUs on this kernel; reboot needed"
    fixes = [cause.fix for cause in audit.causes] + [finding.fix for finding in audit.findings]
    undo = next((fix.undo for fix in fixes if fix and fix.boot and fix.undo and not fix.commands), "")
    lines = shell_lines(audit.boot_line, INDENT, WIDTH)
    return [heading, *lines, *(prose(undo, f"{INDENT}undo: ", INDENT * 2) if undo else [])]


def _risks(audit: Audit) -> list[str]:
    outcomes = (Outcome.WARN, Outcome.FAIL)
    risks = [f for f in audit.findings if f.kind is Kind.RISK and (f.outcome in outcomes or _keeps_open(f))]
    lines = []
    for risk in risks:
        lines += _risk(audit, risk)
    part = f"{ABSENT} keeps the verdict open" if any(map(_keeps_open, risks)) else "and no part of the verdict"
    return [f"Risks: no noise yet, {part}", *lines] if lines else []


def _keeps_open(risk: Finding) -> bool:
    """An audited CPU that was not there throughout: the other rules saw a part."""
    return risk.rule == ABSENT and risk.outcome in (Outcome.UNKNOWN, Outcome.FAIL)


def _risk(audit: Audit, risk: Finding) -> list[str]:
    named = f"{cpus_named(clip(cpu_list(risk.cpus), 40))}: " if set(risk.cpus) != set(audit.cpu_verdicts) else ""
    lines = prose(f"{bounded(risk.rule, 24)}  {named}{bounded(with_detail(risk))}", first=INDENT, rest=INDENT * 2)
    return lines + (fix_lines(risk.fix, boot_line=audit.boot_line) if risk.fix else [])


def _config(audit: Audit) -> list[str]:
    columns = [Column(head="setting", width=23), Column(head="asked for", width=24), Column(head="in force", width=24),
               Column(head="read from")]  # fmt: skip
    rows = [[s.name, s.requested or MISSING, s.effective or MISSING, "/" + s.path.lstrip("/")] for s in audit.config]
    return ["Asked for and in force", *table(columns, rows)] if rows else []


def _coverage(audit: Audit) -> list[str]:
    """What this audit could not see; one that saw all its sources says so in a line."""
    lines = []
    for source in audit.coverage:
        if source.state != "read":
            reason = f" ({source.reason})" if source.reason else ""
            costs = f": {source.costs}" if source.costs else ""
            lines += prose(f"/{source.source.lstrip('/')} {source.state}{reason}{costs}", INDENT, INDENT * 2)
    if audit.verdict.status not in BOUNDED and audit.verdict.bounds:
        lines += prose(audit.verdict.bounds, INDENT)
    read = sum(source.state == "read" for source in audit.coverage)
    return [f"Evidence: {read} of {len(audit.coverage)} sources read", *lines] if audit.coverage or lines else []


def _measured(audit: Audit) -> list[str]:
    """How it was measured, and what the measuring itself did."""
    own = audit.own
    threads = f"{own.threads} thread{'' if own.threads == 1 else 's'}"
    whose = f"{own.description} ({own.source}, {threads})" if own.threads else "none"
    over, window = audit.overhead, audit.window
    where = "some of it on audited CPUs" if over.on_audited_cpus else "none of it on audited CPUs"
    cost = f"{over.cpu_ms} ms CPU, {over.switches} switches, {where}; self-check {over.self_check}"
    parts = [
        f"{cpus_named(audit.cpus.audited)} chosen by {audit.cpus.chosen_by}, own workload: {whose}",
        *(f"own interrupt: {_own_interrupt(item)}" for item in own.interrupts),
        f"housekeeping {audit.cpus.housekeeping or MISSING}, control {audit.cpus.control or MISSING}",
        f"load: {window.load or 'none'}, work: {window.work or 'none'}, {window.samples} samples from {window.started}",
        f"overhead: {'not recorded' if over.self_check == NOT_RECORDED else cost}",
    ]
    return ["How it was measured", *(line for part in parts for line in prose(part, INDENT, INDENT * 2))]


def _own_interrupt(item: OwnInterrupt) -> str:
    """Its name, why it is own, and how often it fired where."""
    fired = [f"{number(count)} on CPU {cpu}" for cpu, count in sorted(item.fired.items()) if count]
    return f"{item.irq} {bounded(item.name, 64)} ({item.claim}): {', '.join(fired) or 'none fired here'}"
