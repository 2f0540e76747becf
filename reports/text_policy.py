"""The policy in the terminal report and in `cpu-audit policy check`: its file, what it changes, its waivers."""

from __future__ import annotations

from auditor.model import PolicyFacts, WaiverState, WaiverUse
from reports.escape import bounded
from reports.layout import INDENT, cpus_named, prose

STATES = {
    WaiverState.EXPIRED: "expired, no effect",
    WaiverState.UNDATED: "no effect: the day of the window is not known",
    WaiverState.UNUSED: "in effect, and nothing to waive",
}


def policy_lines(facts: PolicyFacts, *, judged: bool = True) -> list[str]:
    """A section; none for the defaults. ``judged``: what the waivers met is known."""
    if not facts.source and not facts.waivers:
        return []
    parts = [*facts.changes, *(_waiver(use, judged=judged) for use in facts.waivers)] or ["nothing but the defaults"]
    return [
        *prose(f"Policy {bounded(facts.source)}", rest=INDENT),
        *(line for part in parts for line in prose(part, INDENT, INDENT * 2)),
    ]


def _waiver(use: WaiverUse, *, judged: bool) -> str:
    findings = f"in effect, {use.findings} finding{'' if use.findings == 1 else 's'} waived"
    state = STATES.get(use.state, findings) if judged or use.state is not WaiverState.UNUSED else "in effect"
    place = f"{bounded(use.rule, 24)} on {cpus_named(bounded(use.cpus, 400))}"
    return f"waiver of {place} until {bounded(use.expires, 24)}: {state}; {bounded(use.reason)}"
