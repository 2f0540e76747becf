"""Guests in the background, two side by side: a test asks for the result of a boot that is on its way already."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from tests.node import artifacts
from tests.node.node import Node, NodeResult

SIDE_BY_SIDE = 2
"""On two host CPUs. A third one keeps them busy all the time, and the whole set takes as long: each guest is slower."""
# On a tmpfs no device interrupt flows: the load of the audit writes to the disk.
ENV = MappingProxyType({"CPU_AUDIT_SCRATCH": "/scratch", "PYTHON": sys.executable})
PRELUDE = ". tests/node/drivers/cpu_audit.sh\n"


class Bootable(Protocol):
    """What a fleet can run: one boot, or several that follow from each other."""

    @property
    def name(self) -> str:
        """Unique in a session; names the directory of its files."""
        ...

    @property
    def kernel(self) -> str:
        """The series it boots."""
        ...

    def run(self, job: Path) -> NodeResult:
        """Boots; what it writes to $OUT lies in the result's ``out``."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One boot of a node of four CPUs, and the bash script that runs in it; ``cpu_audit`` is the command there."""

    name: str
    script: str
    kernel: str = "6.12-rt"
    cpus: int = 4
    append: str = ""
    smp: str = ""
    queues: int = 0
    tcg: str = "multi"
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600

    def run(self, job: Path) -> NodeResult:
        """Raises GuestDied where it died twice, NodeTimeout where it took too long."""
        node = Node(
            kernel=self.kernel,
            cpus=self.cpus,
            append=self.append,
            smp=self.smp,
            queues=self.queues,
            tcg=self.tcg,
            env={**ENV, "BUNDLE": str(artifacts.bundle()), **self.env},
        )
        return node.run(PRELUDE + self.script, job=job, timeout=self.timeout_s)


class Fleet:
    """Runs what is ordered, in that order; ``result`` waits for one of them."""

    def __init__(self, directory: Path, guests: int = SIDE_BY_SIDE) -> None:
        self._directory = directory
        self._pool = ThreadPoolExecutor(guests)
        self._boots: dict[str, Future[NodeResult]] = {}

    def order(self, scenarios: Iterable[Bootable]) -> None:
        """Each name once, however many tests look at it."""
        for scenario in scenarios:
            if scenario.name not in self._boots:
                self._boots[scenario.name] = self._pool.submit(scenario.run, self._directory / scenario.name)

    def result(self, scenario: Bootable) -> NodeResult:
        """Raises what its run raised: a guest that died is an error of the test's set-up, not a failed test."""
        self.order([scenario])
        return self._boots[scenario.name].result()

    def close(self) -> None:
        """Waits for the guests that run; those still waiting never start."""
        self._pool.shutdown(cancel_futures=True)
