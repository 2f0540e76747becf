"""The boot parameters that isolate these CPUs on this kernel."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.context import Context
from auditor.model import Fix, FixKind
from auditor.requested import BOOT_CPU, requested
from probes.cpulist import format_cpulist
from probes.host import ProbeError, SourceState

ORDER = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity")


def boot_parameters(ctx: Context) -> Mapping[str, str]:
    """isolcpus, nohz_full, rcu_nocbs and irqaffinity for the audited CPUs; one list, as kernels before 5.18 demand.

    Before 5.6 (and where the release is not known to be newer) managed_irq would make the kernel drop the whole
    parameter; a kernel without CONFIG_NO_HZ_FULL has no nohz_full file and gets no such parameter; before 4.15 there
    were no flags.
    """
    audited = _can_be_isolated(ctx)
    cpus, flags = format_cpulist(audited), _flags(ctx)
    line = {"isolcpus": f"{flags},{cpus}" if flags else cpus}
    if has_nohz_full(ctx):
        line["nohz_full"] = cpus
    line["rcu_nocbs"] = cpus
    line["irqaffinity"] = format_cpulist(ctx.targets.housekeeping | (ctx.targets.audited - audited))
    return line


def _can_be_isolated(ctx: Context) -> frozenset[int]:
    """The audited CPUs; on arm64 without the boot CPU.

    There it is the only present one when isolcpus= and nohz_full= are read, and housekeeping must keep a present CPU
    (kernel/sched/isolation.c housekeeping_setup): asked for it, the kernel leaves it out.
    """
    audited = ctx.targets.audited
    return audited - {BOOT_CPU} or audited if ctx.observation.facts.kernel.arch == "aarch64" else audited


def _flags(ctx: Context) -> str:
    if ctx.since(5, 6) or (ctx.version is not None and ctx.version.is_el8):
        return "domain,managed_irq"
    return "domain" if ctx.since(4, 15) else ""


def has_nohz_full(ctx: Context) -> bool:
    """Whether this kernel can stop the tick at all: the file is missing where CONFIG_NO_HZ_FULL is."""
    nohz = ctx.observation.after.config.isolation.nohz_full
    return not (isinstance(nohz, ProbeError) and nohz.state is SourceState.MISSING)


def nohz_words(ctx: Context, text: str) -> str:
    """What nohz_full would do, or that it takes another kernel."""
    if has_nohz_full(ctx):
        return text
    return f"this kernel has no CONFIG_NO_HZ_FULL; with one that has, {text}"


def boot_line(parameters: Mapping[str, str]) -> str:
    """The parameters as one line, in a fixed order."""
    return " ".join(f"{name}={parameters[name]}" for name in ORDER if name in parameters)


def in_force(ctx: Context) -> bool:
    """Whether everything that the line asks for is there: by effect, and what shows no effect by the model.

    The boot CPU can't be had: the kernel takes it out of nohz_full, and irqaffinity always includes it.
    """
    config, line, audited = ctx.observation.after.config, boot_parameters(ctx), _can_be_isolated(ctx)
    default = config.affinity if isinstance(config.affinity, ProbeError) else config.affinity.default
    try:
        asked = requested(ctx)
    except ProbeError:
        return False
    sets = [(config.isolation.boot, audited)]
    if "managed_irq" in line["isolcpus"]:
        sets.append((asked.managed_irq or frozenset(), audited))
    if "nohz_full" in line:
        sets.append((config.isolation.nohz_full, audited - {BOOT_CPU}))
    else:
        sets.append((asked.rcu_nocbs or frozenset(), audited))
    if any(isinstance(known, ProbeError) or not wanted <= known for known, wanted in sets):
        return False
    return not isinstance(default, ProbeError) and not default & (audited - {BOOT_CPU})


def boot_fix(ctx: Context, text: str = "isolate these CPUs at boot") -> Fix:
    """The boot line as a fix; where it is in force already, only the words."""
    if in_force(ctx):
        return Fix(kind=FixKind.RUNTIME, text=text)
    parameters = boot_parameters(ctx)
    lost = "" if _can_be_isolated(ctx) == ctx.targets.audited else f" (CPU {BOOT_CPU} boots: arm64 can't isolate it)"
    return Fix(
        kind=FixKind.BOOT,
        text=f"{text}: {boot_line(parameters)}{lost}",
        boot=parameters,
        undo="remove the parameters and reboot",
        reboot=True,
    )
