"""Kernels whose CPU limits throttle threads that did not use them up: slices that expire (4.18 to 5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Axis, Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from probes.host import ProbeError
from probes.kernel_version import OSRELEASE

FIXED = (5, 4)
EL7, EL8 = (1062, 8, 1), (147, 2, 1)
"""The first builds with the fix: 3.10.0-1062.8.1.el7, 4.18.0-147.2.1.el8_1."""
UBUNTU = {(4, 15): 67, (5, 3): 24}
"""First ABI numbers with the fix, of the kernels named -generic."""
STABLE = {(4, 14): 154, (4, 19): 84, (5, 3): 9}
"""First patch levels with the fix."""
INTRODUCED = (4, 18)
_BUILD = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,5})(?:-(\d{1,6}(?:\.\d{1,6}){0,3}))?", re.ASCII)
_DEBIAN = re.compile(r"\bDebian (\d{1,4}\.\d{1,4}\.\d{1,5})", re.ASCII)


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.CFSBUG: only where a limit is."""
    if ctx.version is None:
        raise ProbeError(OSRELEASE, "no kernel release: whether its CPU limits are exact is unknown")
    if ctx.version.at_least(*FIXED):
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="fixed since 5.4")
    elif not ctx.quotas.finite and not ctx.quotas.unknown and ctx.own_visible:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="no CPU limit on the own threads")
    else:
        kernel = ctx.observation.facts.kernel
        yield _judged(ctx, rule, has_fix(kernel.release, kernel.version))


def _judged(ctx: Context, rule: Rule, fixed: bool | None) -> Finding:
    kernel = ctx.observation.facts.kernel
    outcome = Outcome.UNKNOWN if fixed is None else Outcome.PASS if fixed else Outcome.WARN
    if outcome is Outcome.WARN and not ctx.quotas.finite:
        outcome = Outcome.UNKNOWN  # limits are hidden: there may be none
    text = {None: "is not known to have the fix or the fault", True: "has the fix", False: "is older than the fix"}
    return rule.finding(
        outcome,
        ctx.audited,
        detail=f"this build {text[fixed]}"
        + ("" if fixed else ": threads below a CPU limit may be throttled before they used it up"),
        evidence=[Evidence(path=f"/{OSRELEASE}", field="release", value=kernel.release[:80])],
        fix=Fix(kind=FixKind.BOOT, text="take a kernel with the fix (de53fd7aedb1), or lift the CPU limit", reboot=True)
        if outcome is Outcome.WARN
        else None,
    )


def has_fix(release: str, version: str) -> bool | None:
    """Whether a kernel before 5.4 has the fix, or never had the fault; None where its build does not tell.

    ``version`` is that of ``uname -v``, in which Debian names the patch level. Vendors are judged by their builds.
    """
    build = _BUILD.match(release)
    if build is None:
        return None
    series, patch = (int(build[1]), int(build[2])), int(build[3])
    numbers = tuple(int(part) for part in (build[4] or "0").split("."))
    if re.search(r"\.el[78](?![0-9a-z])", release):
        return {(3, 10): numbers >= EL7, (4, 18): numbers >= EL8}.get(series)
    if "Ubuntu" in version or release.endswith("-generic"):
        return numbers[0] >= UBUNTU[series] if series in UBUNTU and release.endswith("-generic") else None
    if debian := _DEBIAN.search(version):
        return has_fix(debian[1], "")
    if build[4] and patch == 0:
        return None  # some vendor's numbering
    return _stable(series, patch)


def _stable(series: tuple[int, int], patch: int) -> bool | None:
    if series in STABLE and patch >= STABLE[series]:
        return True
    if series == (4, 14):
        return None  # the fault came with one of its patch levels
    return series < INTRODUCED


CFG_CFSBUG = Rule(
    id="CFG.CFSBUG",
    title="CPU limits of a faulty kernel",
    axis=Axis.READINESS,
    kind=Kind.RISK,
    why="""From 4.18 on (and in kernels that took the change, 512ac999d275) unused slices of a CPU limit expired, so
that threads on several CPUs were throttled well below their limit. 5.4, 5.3.9, 4.19.84 and 4.14.154 have the fix;
vendors' kernels are told by their builds.""",
    sources=(f"/{OSRELEASE}", "/proc/sys/kernel/version", "/sys/fs/cgroup/**/cpu.max"),
    warns="where own threads are below a CPU limit and the build is older than the fix",
    cure="a kernel with the fix, or no CPU limit",
    check=check,
)
