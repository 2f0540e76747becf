"""The kubelet's command line: flags outrank its configuration files.

Flags are parsed as pflag does, ``_`` for ``-``. A map on the command line replaces that of the files, only feature
gates are merged. Sources: cmd/kubelet/app/server.go (kubeletConfigFlagPrecedence), cmd/kubelet/app/options/options.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from probes.host import ProbeError, SourceState

MAX_TEXT = 1 << 20


class Kind(Enum):
    """How the value of a flag is read."""

    TEXT = "text"
    BOOL = "bool"
    PAIRS = "pairs"
    """``a=b,c=d``, and the flag may be repeated."""
    PAIR = "pair"
    """One ``a=b`` for each time it is given: a comma belongs to the value."""
    GATES = "gates"


FLAGS: Mapping[str, tuple[str, Kind]] = {
    "cgroup-root": ("cgroupRoot", Kind.TEXT),
    "cpu-cfs-quota": ("cpuCFSQuota", Kind.BOOL),
    "cpu-cfs-quota-period": ("cpuCFSQuotaPeriod", Kind.TEXT),
    "cpu-manager-policy": ("cpuManagerPolicy", Kind.TEXT),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", Kind.PAIR),
    "cpu-manager-reconcile-period": ("cpuManagerReconcilePeriod", Kind.TEXT),
    "feature-gates": ("featureGates", Kind.GATES),
    "kube-reserved": ("kubeReserved", Kind.PAIRS),
    "memory-manager-policy": ("memoryManagerPolicy", Kind.TEXT),
    "reserved-cpus": ("reservedSystemCPUs", Kind.TEXT),
    "system-reserved": ("systemReserved", Kind.PAIRS),
    "topology-manager-policy": ("topologyManagerPolicy", Kind.TEXT),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", Kind.PAIR),
    "topology-manager-scope": ("topologyManagerScope", Kind.TEXT),
}
"""Those that set a key of the configuration that an audit needs."""
PATHS = ("config", "config-dir", "root-dir", "kubelet-args-file")
_VALUED = frozenset((*PATHS, *(name for name, (_, kind) in FLAGS.items() if kind is not Kind.BOOL)))
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


def parse_argv(text: str, path: str = "cmdline") -> tuple[str, ...]:
    """The arguments in /proc/PID/cmdline, each ended by NUL. ProbeError: MASKED where empty, as of a zombie."""
    if not text.strip("\0"):
        raise ProbeError(path, "empty", SourceState.MASKED)
    if len(text) > MAX_TEXT:
        raise ProbeError(path, f"longer than {MAX_TEXT} characters")
    return tuple(text.removesuffix("\0").split("\0"))


def parse_flags(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Every flag with its values in order; ``true`` for one without a value. ``--`` ends them."""
    found: dict[str, list[str]] = {}
    left = list(arguments)[::-1]
    while left and (word := left.pop()) != "--":
        if not word.startswith("--"):
            continue  # a command of hyperkube, or -v=2
        name, equals, value = word[2:].partition("=")
        name = name.replace("_", "-")
        if not equals:
            value = left.pop() if left and _takes_next(name, left[-1]) else "true"
        found.setdefault(name, []).append(value)
    return found


def _takes_next(name: str, word: str) -> bool:
    """A flag that is known takes whatever follows; of one that is not, a word that is no flag is its value."""
    return name in _VALUED or (name not in FLAGS and not word.startswith("-"))


def configured_by(flags: Mapping[str, Sequence[str]], path: str) -> dict[str, object]:
    """Keys and values of a KubeletConfiguration that flags set."""
    return {FLAGS[name][0]: _value(FLAGS[name][1], values, path) for name, values in flags.items() if name in FLAGS}


def _value(kind: Kind, values: Sequence[str], path: str) -> object:
    if kind is Kind.TEXT:
        return values[-1]
    if kind is Kind.BOOL:
        return _boolean(values[-1], path)
    words = values if kind is Kind.PAIR else [word for value in values for word in value.split(",")]
    pairs = _pairs(words, path)
    return {name: _boolean(value, path) for name, value in pairs.items()} if kind is Kind.GATES else pairs


def _boolean(text: str, path: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise ProbeError(path, f"no boolean: {text[:40]!r}")
    return text in _TRUE


def _pairs(words: Iterable[str], path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if word and not equals:
            raise ProbeError(path, f"no NAME=VALUE: {word[:40]!r}")
        if word:
            found[name.strip()] = value.strip()
    return found
