"""A recording as a timeline: the same window, read from files. Nothing of the machine it runs on is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.errors import UsageError
from probes.host import DictHost, Host
from probes.record import Recording


@dataclass(kw_only=True, slots=True)
class ReplayTimeline:
    """Phases and times of a recording. ``window_s`` gives the time of one made by hand."""

    recording: Recording
    window_s: float | None = None
    interrupted: bool = False

    def host(self, phase: str) -> Host:
        """The tree of this phase."""
        tree = self.recording.trees.get(phase)
        return tree.host() if tree else DictHost({})

    def now_ns(self, phase: str) -> int:
        """The recorded time; of a recording made by hand 0 and the given window."""
        if (recorded := self.recording.time_ns(phase)) is not None:
            return recorded
        if self.window_s is None:
            raise UsageError("the recording does not say how long its window was: give it with --window")
        return 0 if phase == "t0" else int(self.window_s * 1e9)

    def samples(self) -> Iterator[tuple[str, bool]]:
        """The samples that were recorded."""
        names = self.recording.samples
        for name in names:
            yield name, name == names[-1]
