"""What the kernel does to memory by itself, and whom that interrupts."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from auditor.rules.ends import both
from probes.host import ProbeError
from probes.memory_settings import COLLAPSED, KSM, THP, MemorySettings


def _known(value: str | int | ProbeError | None) -> str | int | None:
    if isinstance(value, ProbeError):
        raise value
    return value


def check_thp(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.THP."""
    before, after = both(ctx, lambda config: config.memory)
    ends = [_known(before.thp), _known(after.thp)]
    if ends == [None, None]:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="the kernel has no transparent huge pages")
        return
    always = "always" in ends
    text = f"transparent huge pages: {after.thp if after.thp in ends else 'unknown'}"
    yield rule.finding(
        Outcome.WARN if always else Outcome.PASS,
        ctx.audited,
        detail=text + (f"; {_cost(ctx)}{_made(before, after)}" if always else ""),
        evidence=[Evidence(path=f"/{THP}", field="in brackets", value=str(after.thp)), *_collapsed(before, after)],
        fix=_fix(THP, "madvise", str(after.thp), "only for those who ask (madvise)") if after.thp == "always" else None,
    )


def _cost(ctx: Context) -> str:
    if ctx.since(6, 1):
        return "khugepaged interrupts every online CPU for each huge page that it makes (since 6.1)"
    return "page faults may zero and compact 2 MiB at a time, khugepaged takes mmap locks"


def _growth(before: MemorySettings, after: MemorySettings) -> int | None:
    if isinstance(before.collapsed, ProbeError) or isinstance(after.collapsed, ProbeError):
        return None
    return max(0, after.collapsed - before.collapsed)


def _made(before: MemorySettings, after: MemorySettings) -> str:
    made = _growth(before, after)
    return "" if made is None else f"; {made} made in the window"


def _collapsed(before: MemorySettings, after: MemorySettings) -> list[Evidence]:
    made = _growth(before, after)
    return [] if made is None else [Evidence(path=f"/{COLLAPSED}", field="pages", value=f"+{made}")]


def _fix(path: str, value: str, old: str, text: str) -> Fix:
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"{text}; until the next boot, so set it where the host sets it (tuned, a unit, sysfs.d)",
        commands=(f"echo {value} | sudo tee /{path}",),
        undo=f"echo {old} | sudo tee /{path}",
    )


def check_ksm(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.KSM."""
    before, after = both(ctx, lambda config: config.memory)
    ends = [_known(before.ksm_run), _known(after.ksm_run)]
    if ends == [None, None]:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="the kernel merges no pages (no CONFIG_KSM)")
        return
    runs = 1 in ends
    yield rule.finding(
        Outcome.WARN if runs else Outcome.PASS,
        ctx.audited,
        detail="ksmd scans and merges pages, whose next write is a fault that copies them" if runs else "ksmd is off",
        evidence=[Evidence(path=f"/{KSM}", field="run", value=str(after.ksm_run))],
        fix=_fix(KSM, "2", "1", "stop it and take merged pages apart") if after.ksm_run == 1 else None,
    )


CFG_THP = Rule(
    id="CFG.THP",
    title="transparent huge pages",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""With always, any large mapping may be made of huge pages behind its owner's back: faults that zero and
compact memory, and khugepaged, which from 6.1 on sends an interrupt to every online CPU, isolated or not, for each page
table that it replaces.""",
    sources=(f"/{THP}", f"/{COLLAPSED}"),
    warns="where they are always on",
    cure="madvise or never",
    check=check_thp,
)
CFG_KSM = Rule(
    id="CFG.KSM",
    title="merging of equal pages (KSM)",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""ksmd write-protects and merges equal pages of processes that allow it: TLB flushes, and a fault at the next
write.""",
    sources=(f"/{KSM}",),
    warns="where it runs",
    cure="stop it: 0, or 2 to take merged pages apart",
    check=check_ksm,
)
