"""Whether the audited CPUs have a part of the caches to themselves, where the host divides them (resctrl)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.ends import alike, both
from probes.cpulist import format_cpulist
from probes.host import ProbeError, known
from probes.resctrl import DEFAULT, ROOT, Masks, Resctrl


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.RDT."""
    ends = [end for end in both(ctx, lambda config: config.resctrl) if end is not None and len(end.groups) > 1]
    if not ends:
        text = "caches are not divided here (resctrl): who else fills them is not seen by this tool"
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail=text)
        return

    def judge(cpu: int) -> tuple[Outcome, str]:
        problems = next((found for end in reversed(ends) if (found := list(_problems(ctx, end, cpu)))), [])
        names = ", ".join(_mine(ctx, ends[-1], cpu))
        return (
            (Outcome.WARN, "; ".join(problems))
            if problems
            else (Outcome.PASS, f"in group {names}, whose part of the caches nobody else may fill")
        )

    yield from alike(
        ctx,
        rule,
        judge,
        evidence=lambda cpus: _evidence(ctx, ends[-1], cpus),
        fix=lambda cpus: _fix(ctx, ends[-1], cpus),
    )


def _mine(ctx: Context, resctrl: Resctrl, cpu: int) -> list[str]:
    """Groups of what runs on the CPU: that of each own process, where it has none of its own that of the CPU."""
    told = ctx.observation.after.limits.resctrl
    groups = [told[pid] for pid in sorted({key.pid for key in ctx.own_on(cpu)}) if pid in told]
    names = set[str]()
    for group in groups:
        if isinstance(group, ProbeError):
            raise group
        names.add(group)
    if not names or DEFAULT in names:
        names = names - {DEFAULT} | {resctrl.group_of(cpu)}
    return sorted(names)


def _problems(ctx: Context, resctrl: Resctrl, cpu: int) -> Iterator[str]:
    for name in _mine(ctx, resctrl, cpu):
        if name == DEFAULT:
            yield "in the default group, with everybody who is in no other"
            continue
        group = known(resctrl.groups.get(name, ProbeError(f"{ROOT}/{name}", "no such group")))
        if isinstance(group.cpus, frozenset) and (beside := group.cpus - ctx.targets.audited):
            yield f"group {name} is that of CPUs {format_cpulist(beside)} too"
        if not _masks(resctrl, name):
            yield f"group {name} has no part of a cache of its own"
        for other, cache, domain, shared in _overlaps(resctrl, name, cpu):
            yield f"group {other} may fill {shared.bit_count()} of its ways of {cache} (domain {domain})"


def _masks(resctrl: Resctrl, name: str) -> Masks:
    group = resctrl.groups[name]
    return known(known(group).masks)


def _overlaps(resctrl: Resctrl, name: str, cpu: int) -> Iterator[tuple[str, str, int, int]]:
    """Others that may fill the same ways: group, cache, domain, common bits. In the domain of the CPU, else in any."""
    for other in resctrl.groups:
        for cache, parts in _masks(resctrl, name).items():
            here = resctrl.domains.get((int(cache[1]), cpu))
            theirs = _masks(resctrl, other).get(cache, {}) if other != name else {}
            for domain in parts if here is None else [here]:
                if shared := parts.get(domain, 0) & theirs.get(domain, 0):
                    yield other, cache, domain, shared


def _directory(name: str) -> str:
    return f"/{ROOT}" if name == DEFAULT else f"/{ROOT}/{name}"


def _evidence(ctx: Context, resctrl: Resctrl, cpus: list[int]) -> Iterator[Evidence]:
    """The ways of the groups that meet here; nothing where the groups are not known."""
    try:
        mine = {name for cpu in cpus for name in _mine(ctx, resctrl, cpu) if name in resctrl.groups}
        others = {other for cpu in cpus for name in mine for other, *_ in _overlaps(resctrl, name, cpu)}
        ways = {name: _masks(resctrl, name) for name in (*sorted(mine), *sorted(others - mine))}
    except ProbeError:
        return
    for name, masks in ways.items():
        for cache, parts in masks.items():
            text = ";".join(f"{domain}={mask:x}" for domain, mask in parts.items())
            yield Evidence(path=f"{_directory(name)}/schemata", field=cache, value=text)


def _fix(ctx: Context, resctrl: Resctrl, cpus: list[int]) -> Fix:
    """Takes the common ways from the others, where what is left to them is one piece, as processors want it."""
    commands: dict[str, None] = {}
    undo: dict[str, None] = {}
    for cpu in cpus:
        for name in _mine(ctx, resctrl, cpu):
            overlaps = _overlaps(resctrl, name, cpu) if name != DEFAULT else ()
            for other, cache, domain, shared in overlaps:
                before = _masks(resctrl, other)[cache][domain]
                if _in_one_piece(left := before & ~shared) and other.isascii():
                    commands[_write(other, f"{cache}:{domain}={left:x}")] = None
                    undo[_write(other, f"{cache}:{domain}={before:x}")] = None
    return Fix(
        kind=FixKind.RUNTIME,
        text="make a group with these CPUs alone in its cpus_list, and take the ways in its schemata from all others, "
        "the default group too; where an agent sets the groups, tell that one, lest it undoes this",
        commands=tuple(commands),
        undo="; ".join(undo),
    )


def _in_one_piece(mask: int) -> bool:
    return mask > 0 and "0" not in f"{mask:b}".rstrip("0")


def _write(group: str, line: str) -> str:
    return f"echo {shlex.quote(line)} | sudo tee {shlex.quote(f'{_directory(group)}/schemata')}"


CFG_RDT = Rule(
    id="CFG.RDT",
    title="division of the caches",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""CPUs of one socket fill the same last-level cache: a neighbour that streams through memory takes the
workload's data out of it, and no counter of this tool shows it. Where the host divides the caches (resctrl), this
rule looks whether the division is for these CPUs.""",
    sources=(f"/{ROOT}/cpus_list", f"/{ROOT}/schemata", f"/{ROOT}/*/cpus_list", f"/{ROOT}/*/schemata"),
    warns="where groups are set up, and the CPU or workload is in the default one, or others may fill the same ways",
    cure="a group of their own, with ways that no other group has, the default one included",
    check=check,
)
