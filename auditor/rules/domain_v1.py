"""The scheduler domain on cgroup v1, where a flag of every cpuset decides and no partition is named."""

from __future__ import annotations

from auditor.context import Context
from auditor.model import Evidence, Outcome
from probes.cpulist import format_cpulist
from probes.cpuset_v1 import BALANCE, V1_ROOT
from probes.host import ProbeError
from probes.snapshot import Config


def by_cpusets_v1(ctx: Context, cpu: int) -> tuple[Outcome, str, list[Evidence]] | None:
    """What the CPU is balanced with by the cpusets; only where it is known that the boot line did not take it out."""
    configs = (ctx.observation.before.config, ctx.observation.after.config)
    spans = [span for config in configs if (span := _span_v1(config, cpu)) is not None]
    evidence = [Evidence(path=f"/{V1_ROOT}", field=BALANCE, value=f"CPU {cpu}: {_listed_v1(configs[-1], cpu)}")]
    if open_to := [span for span in spans if not span <= ctx.targets.audited]:
        widest = max(open_to, key=len)
        listed = format_cpulist(widest)
        return Outcome.FAIL, f"balanced with CPUs {listed}: any thread may be placed here", evidence
    if len(spans) < len(configs):
        return None
    if not any(spans):
        return Outcome.PASS, "in no cpuset that is balanced (cgroup v1)", evidence
    widest = max(spans, key=len)
    listed = format_cpulist(widest)
    return Outcome.PASS, f"balanced only among the audited CPUs {listed} (cgroup v1)", evidence


def _span_v1(config: Config, cpu: int) -> frozenset[int] | None:
    """None where that can't be told."""
    cpusets, boot = config.isolation.cpusets_v1, config.isolation.boot
    span = None if isinstance(cpusets, ProbeError) else cpusets.span(cpu)
    if not span:
        return span
    return None if isinstance(boot, ProbeError) else span - boot if cpu not in boot else frozenset()


def _listed_v1(config: Config, cpu: int) -> str:
    cpusets = config.isolation.cpusets_v1
    known = () if isinstance(cpusets, ProbeError) else cpusets.balancing
    here = [
        item.path.removeprefix(V1_ROOT) or "/"
        for item in known
        if not isinstance(item.cpus, ProbeError) and cpu in item.cpus
    ]
    return f"1 in {', '.join(here[:4])}" if here else "1 in no cpuset"
