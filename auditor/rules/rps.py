"""Receive packet steering onto audited CPUs: packets that another CPU's interrupt brought are handled there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.policy import Thresholds
from auditor.rules.base import Rule
from probes.cpulist import format_cpulist, format_cpumask
from probes.host import ProbeError
from probes.rps import DEFAULT, MAX_QUEUES, NET_DIR, Rps
from probes.threads import ThreadStatus

ORIGIN = "rps"
BACKLOG = "backlog_napi/"
"""Threads that handle packets sent to their CPU on PREEMPT_RT, since 6.10."""
MAX_NAMED = 4


def is_backlog(status: ThreadStatus) -> bool:
    """Whether the thread does what elsewhere is a NET_RX softirq for packets that came by RPS."""
    return status.kernel and status.name.startswith(BACKLOG)


def steered_to(ctx: Context, cpu: int) -> list[str]:
    """Paths of the masks that hold this CPU, at either end of the window; the default for new devices is one.

    Raises ProbeError where none of those that can be read holds it, and not all can be read.
    """
    found: dict[str, None] = {}
    unread: list[ProbeError] = []
    for config in (ctx.observation.before.config, ctx.observation.after.config):
        if isinstance(config.rps, ProbeError):
            unread.append(config.rps)
            continue
        for path, mask in _masks(config.rps).items():
            if isinstance(mask, ProbeError):
                unread.append(mask)
            elif cpu in mask:
                found[path] = None
        if config.rps.cut:
            unread.append(ProbeError(NET_DIR, f"more than {MAX_QUEUES} receive queues: not all were read"))
    if unread and not found:
        raise unread[0]
    return list(found)


def _masks(rps: Rps) -> Mapping[str, frozenset[int] | ProbeError]:
    return rps.queues if rps.default is None else {**rps.queues, DEFAULT: rps.default}


def brings_packets(ctx: Context, cpu: int) -> bool | None:
    """Whether a queue's packets are sent to this CPU; None where that is not known. The default alone sends none."""
    try:
        return any(path != DEFAULT for path in steered_to(ctx, cpu))
    except ProbeError:
        return None


def check_rps(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.RPS."""
    rps = ctx.observation.after.config.rps
    for cpu in ctx.audited:
        try:
            paths = steered_to(ctx, cpu)
        except ProbeError as error:
            yield rule.finding(Outcome.UNKNOWN, [cpu], detail=str(error))
            continue
        if not paths and isinstance(rps, Rps) and not rps.queues:
            yield rule.finding(Outcome.NOT_APPLICABLE, [cpu], detail="no network device has a receive queue")
        elif not paths:
            yield rule.finding(Outcome.PASS, [cpu], detail="no rps_cpus mask holds this CPU")
        else:
            yield _steered(ctx, rule, cpu, paths)


def _steered(ctx: Context, rule: Rule, cpu: int, paths: list[str]) -> Finding:
    names = ", ".join(_name(path) for path in paths[:MAX_NAMED]) + (" …" if len(paths) > MAX_NAMED else "")
    felt = bool(brings_packets(ctx, cpu)) and _received(ctx, cpu)
    return rule.finding(
        Outcome.WARN,
        [cpu],
        observed=len(paths),
        limit=0,
        unit="masks",
        detail=f"in the mask of {names}: packets that arrive elsewhere are handled here",
        evidence=[
            Evidence(path=f"/{path}", field="mask", value=format_cpumask(_now(ctx, path))) for path in paths[:MAX_NAMED]
        ],
        fix=rps_fix(ctx),
        origin=ORIGIN if felt else "",
    )


def _received(ctx: Context, cpu: int) -> bool:
    """Whether packets were handled here at all: in a softirq, or in the thread that takes its place."""
    try:
        softirqs = ctx.softirq("NET_RX", cpu)
    except ProbeError:
        softirqs = None
    threads = [runner for runner in ctx.runners if cpu in runner.allowed and is_backlog(runner.status)]
    return bool(softirqs or threads)


def _name(path: str) -> str:
    """``eth0 rx-3``."""
    if path == DEFAULT:
        return "new devices (rps_default_mask)"
    parts = path.removeprefix(f"{NET_DIR}/").split("/")
    return f"{parts[0]} {parts[2]}"


def _now(ctx: Context, path: str) -> frozenset[int]:
    """The mask at the end of the window; empty where the queue is gone."""
    rps = ctx.observation.after.config.rps
    mask = frozenset[int]() if isinstance(rps, ProbeError) else _masks(rps).get(path)
    return mask if isinstance(mask, frozenset) else frozenset()


def rps_fix(ctx: Context) -> Fix:
    """Takes the audited CPUs out of every mask that holds one of them."""
    held = {path: _now(ctx, path) for cpu in ctx.audited for path in steered_to_if_known(ctx, cpu)}
    held = {path: mask for path, mask in held.items() if mask & ctx.targets.audited}
    return Fix(
        kind=FixKind.RUNTIME,
        text=f"take CPUs {format_cpulist(ctx.targets.audited)} out of the rps_cpus masks, and out of whatever sets "
        "them (udev, tuned, a script of the driver)",
        commands=tuple(_writes(ctx, {path: mask - ctx.targets.audited for path, mask in held.items()})),
        undo="; ".join(_writes(ctx, held)),
    )


def steered_to_if_known(ctx: Context, cpu: int) -> list[str]:
    """As ``steered_to``; nothing where that is not known."""
    try:
        return steered_to(ctx, cpu)
    except ProbeError:
        return []


def _writes(ctx: Context, masks: Mapping[str, frozenset[int]]) -> Iterator[str]:
    """One shell line for each value that is to be written."""
    by_mask: dict[str, list[str]] = {}
    for path, mask in masks.items():
        by_mask.setdefault(format_cpumask(mask), []).append(path)
    for value, paths in by_mask.items():
        yield f"echo {value} | sudo tee {' '.join(_words(ctx, paths))}"


def _words(ctx: Context, paths: list[str]) -> Iterator[str]:
    """The files as words of a shell; all of a device's many queues as one pattern."""
    rps = ctx.observation.after.config.rps
    every = [] if isinstance(rps, ProbeError) else list(rps.queues)
    devices = dict.fromkeys(path.rpartition("/rx-")[0] for path in paths)
    for folder in devices:
        mine = [path for path in paths if path.rpartition("/rx-")[0] == folder]
        if folder and len(mine) > 1 and len(mine) == sum(path.startswith(f"{folder}/rx-") for path in every):
            yield shlex.quote(f"/{folder}") + "/rx-*/rps_cpus"
        else:
            yield from (shlex.quote(f"/{path}") for path in mine)


CFG_RPS = Rule(
    id="CFG.RPS",
    title="receive packet steering",
    kind=Kind.RISK,
    why="""An rps_cpus mask that holds the CPU sends it packets whose interrupt fired elsewhere. The kernel leaves out
boot-isolated and nohz_full CPUs when a mask is written (since 5.9), not those of a cpuset partition. Devices of other
network namespaces (pods) are not seen.""",
    sources=("/sys/class/net/*/queues/rx-*/rps_cpus", "/proc/sys/net/core/rps_default_mask"),
    warns="at any mask that holds the CPU",
    cure="take the CPU out of the masks, and out of whatever sets them",
    thresholds=lambda _: Thresholds(warn=0, unit="masks"),
    check=check_rps,
)
