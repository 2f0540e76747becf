"""What makes a source readable that was not: a mount, more rights, another kernel. "" where nobody can tell."""

from __future__ import annotations

from probes.host import ProbeError, SourceState

AS_ROOT = "run it with sudo, or in a privileged container"
HOST_MOUNT = (
    "run it on the host, or mount the host's / at /host (docker run -v /:/host:ro; a pod: a hostPath volume) and give "
    "--root /host"
)
HIDDEN = "the processes of others are hidden (/proc is mounted with hidepid)"
OTHER_NAMESPACE = "the host's processes are hidden (this is another PID namespace)"
BUILT_WITH = {
    "/proc/schedstat": "CONFIG_SCHEDSTATS",
    "/proc/*/task/*/schedstat": "CONFIG_SCHED_INFO",
    "/sys/devices/system/cpu/nohz_full": "CONFIG_NO_HZ_FULL",
}
"""Files that some kernels do not have, however much one may read."""


def remedy(source: str, error: ProbeError) -> str:
    """What to do about a source of ``coverage[]``, as the end of a sentence."""
    if error.state is SourceState.DENIED:
        return AS_ROOT
    if error.state is SourceState.MASKED:
        return HOST_MOUNT
    if error.state is SourceState.MISSING and source in BUILT_WITH:
        return f"only a kernel with {BUILT_WITH[source]} tells it"
    return ""


def remedy_for_cpus(error: ProbeError, root: str) -> str:
    """What to do where the CPUs of a host can't be told at all."""
    if error.state is SourceState.DENIED:
        return AS_ROOT
    if root != "/":
        return f"{root!a} must be the root of a host, with its /proc and /sys (docker run -v /:/host:ro)"
    mount = "proc /proc" if error.path.lstrip("/").startswith("proc") else "sysfs /sys"
    return f"mount it (sudo mount -t {mount.split()[0]} {mount}), or give --root"
