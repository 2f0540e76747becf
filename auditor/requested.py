"""What the command line of this host asks its kernel for."""

from __future__ import annotations

from auditor.context import Context
from probes.host import ProbeError, SourceState
from probes.isolation_params import Requested, predict
from probes.kernel_version import features_of

BOOT_CPU = 0


def requested(ctx: Context) -> Requested:
    """What the kernel should have made of its command line. Raises ProbeError without a line or a release."""
    facts = ctx.observation.facts
    if isinstance(facts.cmdline, ProbeError):
        raise facts.cmdline
    if ctx.version is None:
        raise ProbeError("proc/sys/kernel/osrelease", "no kernel release: the command line can't be interpreted")
    nohz = ctx.observation.after.config.isolation.nohz_full
    missing = isinstance(nohz, ProbeError) and nohz.state is SourceState.MISSING
    return predict(
        facts.cmdline,
        possible=facts.topology.possible,
        present=facts.topology.present,
        online=facts.topology.online,
        features=features_of(ctx.version),
        boot_cpu=BOOT_CPU,
        arch=facts.kernel.arch or "x86_64",
        has_nohz_full=not missing if not isinstance(nohz, ProbeError) or missing else None,
    )
