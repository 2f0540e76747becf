"""Between a run and its recording: what recording.json says, and a run made of it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

from auditor import __version__
from auditor.audit import RunFacts
from auditor.errors import UsageError
from auditor.model import Overhead
from auditor.overhead import NOT_MEASURED
from auditor.own import OwnRule
from auditor.replay import ReplayTimeline
from auditor.session import Measured, targets_of
from auditor.window import Observation, observe
from probes.cpulist import format_cpulist
from probes.delta import diff
from probes.host import ProbeError
from probes.record import (
    SCHEMA,
    Recorder,
    Recording,
    RecordingError,
    describe_files,
    describe_links,
    entries,
    load_recording,
)
from probes.snapshot import read_facts

MAX_TIMER_HZ = 1_000_000


def recording_entries(measured: Measured, recorder: Recorder) -> Iterator[tuple[str, bytes]]:
    """Every file of a recording, ``recording.json`` first."""
    yield "recording.json", json.dumps(_meta(measured, recorder), indent=1).encode() + b"\n"
    yield from entries(recorder.trees)


def _meta(measured: Measured, recorder: Recorder) -> dict[str, object]:
    observation, own, run = measured.observation, measured.own, measured.run
    times = {"t0": observation.before.counters.taken_ns, "t1": observation.after.counters.taken_ns}
    times |= {f"samples/{number:04d}": sample.taken_ns for number, sample in enumerate(observation.samples, 1)}
    return {
        "schema": SCHEMA,
        "tool": f"cpu-audit {__version__}",
        "cpus": format_cpulist(measured.targets.audited),
        "chosen_by": measured.targets.chosen_by,
        "started": run.started,
        "requested_ms": run.requested_ms,
        "interrupted": run.interrupted,
        "times_ns": dict(sorted(times.items())),
        "kernel": observation.facts.kernel.release,
        "arch": observation.facts.kernel.arch,
        "clock_ticks_per_s": 100,
        "workload": own.workload,
        "own_irqs": list(own.irqs),
        "work_pids": sorted(own.work_pids),
        "work_timer_hz": own.work_timer_hz,
        "overhead": asdict(run.overhead),
        "load": run.load,
        "work": run.work,
        "files": describe_files(recorder.trees),
        "links": describe_links(recorder.trees),
    }


def replay(
    path: str, cpus: str | None, workload: str | None, window_s: float | None, own_irqs: tuple[str, ...] = ()
) -> Measured:
    """A run from a recording. Raises UsageError for one that can't be used."""
    try:
        recording = load_recording(path)
    except RecordingError as error:
        raise UsageError(f"--from {error}") from None
    timeline = ReplayTimeline(recording=recording, window_s=window_s)
    host = timeline.host("t0")
    try:
        targets = targets_of(host, cpus or recording.text("cpus") or None)
        facts = read_facts(host, arch=recording.text("arch"))
    except ProbeError as error:
        raise UsageError(f"--from {path}: {error}: the CPUs of this host can't be told") from None
    if cpus is None and recording.text("chosen_by"):
        targets = replace(targets, chosen_by=recording.text("chosen_by"))
    own = _own(recording, targets.audited, workload, own_irqs)
    observation = observe(timeline, facts, targets, own)
    window_ns = observation.after.counters.taken_ns - observation.before.counters.taken_ns
    if window_ns <= 0:
        raise UsageError(f"--from {path}: t1 is not after t0")
    check_window(path, observation, window_ns / 1e9)
    if diff(observation.before.counters, observation.after.counters, targets.counted).another_boot:
        raise UsageError(f"--from {path}: counters fell between t0 and t1: they are not of one boot")
    boots = {config.boot_id for config in (observation.before.config, observation.after.config)}
    if len([boot for boot in boots if isinstance(boot, str) and boot]) > 1:
        raise UsageError(f"--from {path}: t0 and t1 have different boot ids")
    return Measured(observation=observation, targets=targets, own=own, run=_run(recording, window_ns, own))


def check_window(path: str, observation: Observation, window_s: float) -> None:
    """The time that is said against the time that /proc/stat counted. Raises UsageError where they are far apart."""
    before, after = observation.before.counters.cpustat, observation.after.counters.cpustat
    if isinstance(before, ProbeError) or isinstance(after, ProbeError) or window_s < 1:
        return
    grown = [after.cpus[cpu].total_ticks - times.total_ticks for cpu, times in before.cpus.items() if cpu in after.cpus]
    counted_s = max(grown, default=0) / 100
    if counted_s > 0 and not counted_s / 2 <= window_s <= counted_s * 2:
        raise UsageError(
            f"--from {path}: the window is said to be {window_s:.6g} s long, /proc/stat counted {counted_s:.6g} s: "
            "give the right one with --window, if the recording was made by hand"
        )


def _own(recording: Recording, audited: frozenset[int], workload: str | None, own_irqs: tuple[str, ...]) -> OwnRule:
    """What the recording run was told, unless something else is said now."""
    pids = recording.meta.get("work_pids")
    timer = recording.meta.get("work_timer_hz")
    irqs = recording.meta.get("own_irqs")
    recorded = tuple(name for name in irqs if isinstance(name, str)) if isinstance(irqs, list) else ()
    return OwnRule(
        audited=audited,
        workload=workload or recording.text("workload") or None,
        work_pids=frozenset(pid for pid in pids if isinstance(pid, int)) if isinstance(pids, list) else frozenset(),
        irqs=own_irqs or recorded,
        work_timer_hz=float(timer) if isinstance(timer, (int, float)) and 0 < timer <= MAX_TIMER_HZ else None,
    )


def _overhead(recording: Recording) -> Overhead:
    """What the recording run cost; not known of one made by hand or by hand edited."""
    known = recording.meta.get("overhead")
    if not isinstance(known, dict):
        return NOT_MEASURED
    numbers = [known.get("cpu_ms"), known.get("switches")]
    off, check = known.get("on_audited_cpus"), known.get("self_check")
    if not all(type(number) is int for number in numbers) or type(off) is not bool or not isinstance(check, str):
        return NOT_MEASURED
    return Overhead(cpu_ms=known["cpu_ms"], switches=known["switches"], on_audited_cpus=off, self_check=check)


def _run(recording: Recording, window_ns: int, own: OwnRule) -> RunFacts:
    asked = recording.meta.get("requested_ms")
    return RunFacts(
        started=recording.text("started"),
        requested_ms=asked if isinstance(asked, int) else window_ns // 1_000_000,
        load=recording.text("load") or None,
        work=recording.text("work") or None,
        overhead=_overhead(recording),
        interrupted=recording.meta.get("interrupted") is True,
        workload=own.workload,
    )
