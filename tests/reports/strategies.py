"""Any audit at all, with names chosen by others at their worst."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum
from typing import TypeVar

from hypothesis import strategies as st

from auditor.model import (
    Audit,
    Cause,
    Counter,
    Coverage,
    CpuActivity,
    Evidence,
    Finding,
    Fix,
    IdleUse,
    OwnInterrupt,
    PolicyFacts,
    Setting,
    Switches,
    ThreadSeen,
    Verdict,
    WaiverUse,
)
from tests.reports.audits import NOT_ISOLATED

T = TypeVar("T")
HOSTILE = (
    "\x1b[2J\x1b]0;x\x07",
    "a\nb\r\nc",
    "\u202egnp",
    "x" * 300,
    "漢字" * 60,
    "e\u0301\u200d",
    "'; rm -rf / #",
    "\x9b31m\x00",
)
names = st.one_of(st.text(max_size=12), st.sampled_from(HOSTILE))
numbers = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: float(f"{x:.6g}"))
counts = st.integers(min_value=0, max_value=2**64)
maybe_counts = st.none() | counts
cpu_ids = st.integers(min_value=0, max_value=8191)
cpu_tuples = st.lists(cpu_ids, max_size=6, unique=True).map(lambda ids: tuple(sorted(ids)))


def few(strategy: st.SearchStrategy[object], size: int = 2) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=size).map(tuple)


_fixes = st.builds(Fix, text=names, commands=few(names), boot=st.dictionaries(names, names, max_size=2), undo=names)
_evidence = st.builds(
    Evidence, path=names, field=names, before=maybe_counts, after=maybe_counts, value=st.none() | names
)
_findings = st.builds(
    Finding, rule=names, cpus=cpu_tuples, observed=st.none() | numbers, limit=st.none() | numbers, unit=names,
    title=names, detail=names, evidence=few(_evidence), fix=st.none() | _fixes, origin=names, per_second=numbers,
    cost_us_per_s=numbers, waived=names,
)  # fmt: skip
_causes = st.builds(
    Cause, title=names, rules=few(names, 3), cpus=cpu_tuples, share=st.none() | numbers,
    per_second=st.none() | numbers, fix=st.none() | _fixes, waived=st.booleans(),
)  # fmt: skip
_own_interrupts = st.builds(
    OwnInterrupt, irq=counts, name=names, claim=names, fired=st.dictionaries(cpu_ids, counts, max_size=3)
)
_verdicts = st.builds(Verdict, reason=names, bounds=names, waivers=st.integers(0, 99))
_waivers = st.builds(WaiverUse, rule=names, cpus=names, reason=names, expires=names, findings=counts)
_policies = st.builds(PolicyFacts, source=names, changes=few(names), waivers=few(_waivers))
_counters = st.builds(Counter, label=names, name=names, count=maybe_counts, per_second=st.none() | numbers)
_threads = st.builds(
    ThreadSeen, pid=counts, tid=counts, name=names, cgroup=names, allowed=names, switches=maybe_counts,
    run_ms=st.none() | numbers, sightings=counts,
)  # fmt: skip
_activity = st.builds(
    CpuActivity, busy=st.none() | numbers, interrupts=few(_counters), softirqs=few(_counters),
    cpuidle=few(st.builds(IdleUse, name=names, latency_us=counts, entries=counts, time_us=counts)),
    switches=st.builds(Switches, total=maybe_counts, own=maybe_counts, foreign=maybe_counts), threads=few(_threads),
)  # fmt: skip


def audits() -> st.SearchStrategy[Audit]:
    """Audits whose parts need not fit each other: a document may come from anyone."""

    def build(draw: st.DrawFn) -> Audit:
        base = NOT_ISOLATED
        ids = draw(st.lists(cpu_ids, max_size=5, unique=True))
        per_cpu = st.lists(_activity, min_size=len(ids), max_size=len(ids))
        return Audit(
            tool=draw(names),
            host=_renamed(draw, base.host, hypervisor=st.none() | names, hz=maybe_counts),
            window=_renamed(draw, base.window, load=st.none() | names, work=st.none() | names),
            cpus=_renamed(draw, base.cpus),
            own=_renamed(draw, base.own, interrupts=few(_own_interrupts)),
            verdict=draw(_verdicts),
            readiness=_renamed(draw, base.readiness),
            cpu_verdicts={cpu: draw(_verdicts) for cpu in sorted(ids)},
            causes=draw(few(_causes)),  # type: ignore[arg-type]
            boot_line=draw(st.none() | names),
            findings=draw(few(_findings, 4)),  # type: ignore[arg-type]
            activity=type(base.activity)(
                cpus=dict(zip(sorted(ids), draw(per_cpu), strict=True)),
                control=dict(zip(sorted(ids), draw(per_cpu), strict=True)) if draw(st.booleans()) else {},
            ),
            config=draw(few(st.builds(Setting, name=names, requested=names, effective=names, path=names))),  # type: ignore[arg-type]
            coverage=draw(few(st.builds(Coverage, source=names, state=names, reason=names, costs=names))),  # type: ignore[arg-type]
            overhead=_renamed(draw, base.overhead),
            next_command=draw(st.none() | names),
            interrupted=draw(st.booleans()),
            policy=draw(_policies),
        )

    return st.composite(build)()


def _renamed(draw: st.DrawFn, value: T, **more: st.SearchStrategy[object]) -> T:
    """The value with every text replaced and the given fields drawn."""
    texts = {f.name: names for f in fields(value) if isinstance(getattr(value, f.name), str)}  # type: ignore[arg-type]
    keep = {f.name for f in fields(value) if isinstance(getattr(value, f.name), Enum)}  # type: ignore[arg-type]
    chosen = {**{name: s for name, s in texts.items() if name not in keep}, **more}
    return replace(value, **{name: draw(s) for name, s in chosen.items()})  # type: ignore[type-var]
