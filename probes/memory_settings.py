"""What the kernel does to memory by itself: transparent huge pages, and the merging of equal pages (KSM).

Formats: Documentation/admin-guide/mm/transhuge.rst (the choice in force stands in brackets), mm/ksm.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from probes.counters import parse_number
from probes.host import Host, ProbeError, SourceState

MM_DIR = "sys/kernel/mm"
THP = f"{MM_DIR}/transparent_hugepage/enabled"
COLLAPSED = f"{MM_DIR}/transparent_hugepage/khugepaged/pages_collapsed"
KSM = f"{MM_DIR}/ksm/run"
_CHOSEN = re.compile(r"\[([a-z]{1,20})\]", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySettings:
    """One instant. None: the kernel has no such thing (PREEMPT_RT has no transparent huge pages)."""

    thp: str | ProbeError | None
    """always, madvise or never."""
    collapsed: int | ProbeError
    """Huge pages that khugepaged made since boot."""
    ksm_run: int | ProbeError | None
    """0: stopped, 1: runs, 2: stopped, and all pages apart again."""


def read_memory_settings(host: Host) -> MemorySettings:
    """Never raises."""
    return MemorySettings(thp=_thp(host), collapsed=_collapsed(host), ksm_run=_ksm(host))


def _thp(host: Host) -> str | ProbeError | None:
    try:
        return parse_choice(host.read(THP), path=THP)
    except ProbeError as error:
        return _absent(host, error)


def _ksm(host: Host) -> int | ProbeError | None:
    try:
        return parse_number(host.read(KSM), path=KSM)
    except ProbeError as error:
        return _absent(host, error)


def _collapsed(host: Host) -> int | ProbeError:
    try:
        return parse_number(host.read(COLLAPSED), path=COLLAPSED)
    except ProbeError as error:
        return error


def _absent(host: Host, error: ProbeError) -> ProbeError | None:
    """None where the directory of such settings is there, and this one is not in it."""
    if error.state is not SourceState.MISSING:
        return error
    try:
        host.listdir(MM_DIR)
    except ProbeError:
        return error
    return None


def parse_choice(text: str, *, path: str = "") -> str:
    """``always [madvise] never`` → madvise. Raises ProbeError: MASKED where it is empty, else MALFORMED."""
    if not text.strip():
        raise ProbeError(path, "empty: masked", SourceState.MASKED)
    chosen = _CHOSEN.findall(text)
    if len(chosen) != 1:
        raise ProbeError(path, f"no one choice in brackets: {text.strip()[:40]!r}")
    return str(chosen[0])
