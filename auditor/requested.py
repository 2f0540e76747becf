"""What the command line of this host asks its kernel for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.host import ProbeError, SourceState
from probes.isolation_params import Requested, predict
from probes.kernel_version import KernelVersion, features_of
from probes.snapshot import Config, Facts

if TYPE_CHECKING:
    from auditor.context import Context

BOOT_CPU = 0


def requested(ctx: Context) -> Requested:
    """What the kernel should have made of its command line. Raises ProbeError without a line or a release."""
    if isinstance(ctx.requested, ProbeError):
        raise ctx.requested
    return ctx.requested


def interpret(facts: Facts, config: Config, version: KernelVersion | None) -> Requested | ProbeError:
    """Interprets the line, once for every rule and fix that asks: a long hostile one takes seconds."""
    if isinstance(facts.cmdline, ProbeError):
        return facts.cmdline
    if version is None:
        return ProbeError("proc/sys/kernel/osrelease", "no kernel release: the command line can't be interpreted")
    nohz = config.isolation.nohz_full
    missing = isinstance(nohz, ProbeError) and nohz.state is SourceState.MISSING
    return predict(
        facts.cmdline,
        possible=facts.topology.possible,
        present=facts.topology.present,
        online=facts.topology.online,
        features=features_of(version),
        boot_cpu=BOOT_CPU,
        arch=facts.kernel.arch or "x86_64",
        has_nohz_full=not missing if not isinstance(nohz, ProbeError) or missing else None,
    )
