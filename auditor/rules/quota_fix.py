"""How a CPU limit is lifted: where it is set, by whoever set it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from auditor.model import Fix, FixKind
from auditor.quotas import Quota

UNITS = (".service", ".scope", ".slice")
DEFAULT_PERIOD_US = 100_000


def lift_fix(quotas: Sequence[Quota]) -> Fix:
    """Lifts these limits. A limit that the kubelet or systemd set comes back unless it is lifted there."""
    kube = any(_of_kubelet(quota.group.path) for quota in quotas)
    text = "lift the CPU limit: threads with CPUs of their own need none"
    if kube:
        text += (
            "; the kubelet drops it by itself from 1.33 on for Guaranteed pods with exclusive CPUs (static policy), "
            "cpuCFSQuota: false in its configuration drops it everywhere; by hand it holds until the pod is restarted"
        )
    return Fix(
        kind=FixKind.KUBELET if kube else FixKind.RUNTIME,
        text=text,
        commands=tuple(_lift(quota) for quota in quotas),
        undo="; ".join(_restore(quota) for quota in quotas),
    )


def limit_file(quota: Quota) -> str:
    """The file that holds the quota."""
    return f"/{quota.group.directory}/{'cpu.cfs_quota_us' if quota.group.version == 1 else 'cpu.max'}"


def _of_kubelet(path: str) -> bool:
    return any(part.startswith("kubepods") for part in path.split("/"))


def _unit(path: str) -> str | None:
    """The system unit that a cgroup is; not the kubelet's, whose runtime sets limits past systemd, nor a user's own."""
    name = path.rpartition("/")[2]
    if _of_kubelet(path) or "/user@" in path or not name.endswith(UNITS):
        return None
    return name


def _lift(quota: Quota) -> str:
    if unit := _unit(quota.group.path):
        return f"sudo systemctl set-property -- {shlex.quote(unit)} CPUQuota="
    return f"echo {'-1' if quota.group.version == 1 else 'max'} | sudo tee {shlex.quote(limit_file(quota))}"


def _restore(quota: Quota) -> str:
    limit = quota.limit
    if unit := _unit(quota.group.path):
        period = "" if limit.period_us == DEFAULT_PERIOD_US else f" CPUQuotaPeriodSec={limit.period_us}us"
        return f"sudo systemctl set-property -- {shlex.quote(unit)} CPUQuota={100 * limit.cpus:.10g}%{period}"
    old = str(limit.quota_us) if quota.group.version == 1 else f"'{limit.quota_us} {limit.period_us}'"
    return f"echo {old} | sudo tee {shlex.quote(limit_file(quota))}"
