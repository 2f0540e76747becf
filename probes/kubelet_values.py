"""Values of a KubeletConfiguration as Go reads them: strings, booleans, maps, durations, CPU quantities.

A value of another type makes the kubelet refuse the file, so it is an error here and never the default.
Sources: staging/src/k8s.io/kubelet/config/v1beta1/types.go, time.ParseDuration of Go, apimachinery resource.Quantity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TypeVar

from probes.cpulist import parse_cpulist
from probes.host import ProbeError, visible

V = TypeVar("V")

_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_MILLI = {"n": Decimal(10) ** -6, "u": Decimal(10) ** -3, "m": Decimal(1), "": Decimal(10) ** 3, "k": Decimal(10) ** 6}
_PART = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_QUANTITY = re.compile(r"\+?([0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})([numk]?)", re.ASCII)
_CPUSET = re.compile(r"[0-9][0-9,-]*", re.ASCII)


def parse_duration(text: str, path: str = "") -> int:
    """Nanoseconds of a Go duration, ``1m0s`` or ``100ms``. ProbeError on anything else; none here may be negative."""
    parts = _PART.findall(text)
    if text != "0" and (not parts or "".join(number + unit for number, unit in parts) != text):
        raise ProbeError(path, f"no duration: {text[:40]!r}")
    return int(sum(Decimal(number) * _NS[unit] for number, unit in parts))


def parse_cpu_quantity(text: str, path: str = "") -> int:
    """Thousandths of a CPU of a quantity, ``500m`` or ``1.5``, rounded up as Kubernetes does."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ProbeError(path, f"no CPU quantity: {text[:40]!r}")
    return int((Decimal(found[1]) * _MILLI[found[2]]).to_integral_value(ROUND_CEILING))


@dataclass(frozen=True, kw_only=True, slots=True)
class Fields:
    """The merged keys of a KubeletConfiguration, and the file or command line that each was set by last."""

    values: Mapping[str, object]
    origins: Mapping[str, str]

    def error(self, key: str, problem: str) -> ProbeError:
        """One about a key, at the place that set it."""
        return ProbeError(self.origins.get(key, ""), f"{key} is {problem}: {str(self.values.get(key))[:40]!r}")

    def text(self, key: str, default: str = "") -> str:
        """A string; the default where it is absent or empty."""
        value = self.values.get(key)
        if value is None or value == "":
            return default
        if not isinstance(value, str):
            raise self.error(key, "no string")
        return visible(value)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """One of the choices, the first by default."""
        value = self.text(key, choices[0])
        if value not in choices:
            raise self.error(key, f"none of {', '.join(choices)}")
        return value

    def boolean(self, key: str, *, default: bool) -> bool:
        """A boolean; the default where it is absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, "no boolean")
        return value

    def duration_ns(self, key: str, default_ns: int) -> int:
        """Nanoseconds; the default where it is absent or 0."""
        return parse_duration(self.text(key, "0"), self.origins.get(key, "")) or default_ns

    def strings(self, key: str) -> dict[str, str]:
        """A map of strings; empty where it is absent."""
        found = {name: visible(value) for name, value in self._map(key).items() if isinstance(value, str)}
        return self._whole(key, found)

    def booleans(self, key: str) -> dict[str, bool]:
        """A map of booleans; empty where it is absent."""
        found = {name: value for name, value in self._map(key).items() if isinstance(value, bool)}
        return self._whole(key, found)

    def _map(self, key: str) -> dict[str, object]:
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise self.error(key, "no map of names")
        return {visible(name): inner for name, inner in value.items()}

    def _whole(self, key: str, found: dict[str, V]) -> dict[str, V]:
        if len(found) < len(self._map(key)):
            raise self.error(key, "a map with values of another type")
        return found

    def cpus(self, key: str) -> frozenset[int] | None:
        """A set of CPUs; None where it is absent or empty."""
        value = self.text(key)
        if not value:
            return None
        if not _CPUSET.fullmatch(value):
            raise self.error(key, "no CPU list")
        return parse_cpulist(value, path=self.origins.get(key, ""))

    def cpu_millis(self, key: str) -> int:
        """The quantity under ``cpu`` of a map of resources, in thousandths of a CPU; 0 where there is none."""
        return parse_cpu_quantity(self.strings(key).get("cpu", "0"), self.origins.get(key, ""))
