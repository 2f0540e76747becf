"""One run on a live host: pin, start what was asked for, measure, undo."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from auditor.audit import RunFacts, audit
from auditor.context import prepare
from auditor.errors import Interrupted, ResourceError, UsageError
from auditor.kubelet_view import views
from auditor.model import Audit
from auditor.overhead import Meter, pin, self_check
from auditor.own import OwnRule, describe
from auditor.policy import Policy
from auditor.remedies import remedy_for_cpus
from auditor.stop import Stop
from auditor.targets import Targets, choose, parse_asked
from auditor.window import LiveTimeline, Observation, nothing, observe
from probes.bench.errors import ToolError
from probes.bench.leftovers import clean_leftovers
from probes.bench.load import load_command, scratch_dir, scratch_note
from probes.bench.process import Command, Running, start
from probes.bench.work import cyclictest_command, spin_command
from probes.cpulist import format_cpulist
from probes.cpustat import read_cpustat
from probes.host import Host, ProbeError, TreeHost, attempt
from probes.isolation import read_isolation
from probes.record import Recorder
from probes.snapshot import Facts, read_census, read_facts, read_kubernetes
from probes.topology import read_topology

SETTLE_S = 2.0
"""Until stress-ng has forked its stressors and the workload has left its start-up behind."""
LOAD_UP_S = 20.0
LOADED = 0.5
NICE = -10
SPARE_S = 30.0
"""By how much a load may outlive the window, should this tool be stopped in between."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the command line asks of a live run."""

    cpus: str | None
    window_s: float
    workload: str | None = None
    own_irqs: tuple[str, ...] = ()
    root: str = "/"
    load: bool = False
    work: str | None = None
    force: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A finished window with what is needed to judge or to record it."""

    observation: Observation
    targets: Targets
    own: OwnRule
    run: RunFacts


def measure(options: Options, stop: Stop, log: Callable[[str], None], recorder: Recorder | None = None) -> Measured:
    """Raises UsageError, ResourceError or Interrupted; everything that was started is ended again in any case."""
    pin_early(options.cpus)
    host: Host = recorder or TreeHost(options.root)
    try:
        targets = targets_of(host, options.cpus)
        take_seat(targets)
        facts = read_facts(host, arch=os.uname().machine)
    except ProbeError as error:
        way_out = remedy_for_cpus(error, options.root)
        raise UsageError(f"{error}: the CPUs of this host can't be told; {way_out}") from None
    for undone in clean_leftovers():
        log(f"left behind by an earlier run: {undone}")
    if options.work and not options.force:
        refuse_owned(host, targets)
    try:
        with contextlib.ExitStack() as children:
            running = []
            for command in commands(options, targets, log):
                running.append(children.enter_context(start(command)))
                if is_load(command):
                    wait_for_load(host, command.cpus, stop, log)
                go_on(stop)
            if running:
                stop.wait(SETTLE_S)
                go_on(stop)
            if options.load:
                keep_pace()
            return _window(options, host, facts, targets, running, stop, recorder)
    except ToolError as error:
        go_on(stop)  # the signal may have been for the children too
        raise ResourceError(str(error)) from None


def targets_of(host: Host, cpus: str | None) -> Targets:
    """The CPUs that are asked for; only where none are, the kubelets are asked. Raises UsageError or ProbeError."""
    topology, isolation = read_topology(host), read_isolation(host)
    if cpus is not None:
        return choose(topology, isolation, cpus)
    kubernetes = read_kubernetes(host, attempt(lambda: read_census(host)))
    stat = attempt(lambda: read_cpustat(host)) if kubernetes.kubelets else None
    return choose(topology, isolation, None, views(kubernetes, topology.online, stat))


def go_on(stop: Stop) -> None:
    """Raises Interrupted where a signal came: there is no window yet whose result could be kept."""
    if stop.asked:
        raise Interrupted


def pin_early(asked: str | None) -> None:
    """Leaves the CPUs that --cpus names before anything is read; where none is left, ``pin`` explains it later."""
    if asked is not None and (left := os.sched_getaffinity(0) - parse_asked(asked)):
        os.sched_setaffinity(0, left)


def take_seat(targets: Targets) -> None:
    """Pins this process where it disturbs least. Raises UsageError where it may not run off the audited CPUs."""
    try:
        pin(targets.seats, targets.audited)
    except UsageError:  # its cpuset may hold other housekeeping CPUs
        pin(targets.roam, targets.audited)


def refuse_owned(host: Host, targets: Targets) -> None:
    """--work is for empty CPUs: a pod or a pinned process there would be disturbed. Raises UsageError."""
    try:
        census = read_census(host)
    except ProbeError as error:
        raise UsageError(f"--work: who owns these CPUs can't be told ({error}); --force starts it anyway") from None
    rule = OwnRule(audited=targets.audited)
    if owned := rule.threads(census):
        raise UsageError(
            f"--work would disturb what runs on CPUs {format_cpulist(targets.audited)}: "
            f"{describe(rule, census, owned)}; leave --work away, or add --force"
        )


def commands(options: Options, targets: Targets, log: Callable[[str], None]) -> Iterator[Command]:
    """What is to be started, announced one by one."""
    seconds = options.window_s + LOAD_UP_S + SETTLE_S + SPARE_S
    if options.load:
        scratch = scratch_dir()
        if note := scratch_note(scratch):
            log(note)
        yield _announced(load_command(targets.roam, seconds=seconds, scratch=scratch), log)
    if options.work == "spin":
        for cpu in sorted(targets.audited):
            yield _announced(spin_command(cpu, seconds=seconds), log)
    if options.work == "cyclictest":
        yield _announced(cyclictest_command(targets.audited, seconds=seconds, housekeeping=targets.roam), log)


def _announced(command: Command, log: Callable[[str], None]) -> Command:
    log(
        f"starting on CPUs {format_cpulist(command.cpus)} for at most {command.max_s:.0f} s: "
        f"{command.note or command.name}"
    )
    return command


def is_load(command: Command) -> bool:
    """Whether it is the neighbour's load, not the own workload."""
    return command.name == "stress-ng"


def wait_for_load(host: Host, cpus: frozenset[int], stop: Stop, log: Callable[[str], None]) -> None:
    """Until the load keeps its CPUs busy for a second: a slow machine takes a while to start it."""
    busy, waited = mean_busy(host, cpus, stop), 1.0
    while busy < LOADED and waited < LOAD_UP_S and not stop.asked:
        busy, waited = mean_busy(host, cpus, stop), waited + 1
    if busy < LOADED:
        log(f"the load keeps CPUs {format_cpulist(cpus)} only {busy:.0%} busy")


def mean_busy(host: Host, cpus: frozenset[int], stop: Stop) -> float:
    """Busy part of the next second, over these CPUs; 1 where /proc/stat does not tell."""
    before = attempt(lambda: read_cpustat(host))
    stop.wait(1.0)
    after = attempt(lambda: read_cpustat(host))
    if isinstance(before, ProbeError) or isinstance(after, ProbeError):
        return 1.0
    both = [(before.cpus[cpu], after.cpus[cpu]) for cpu in cpus if cpu in before.cpus and cpu in after.cpus]
    total = sum(end.total_ticks - start.total_ticks for start, end in both)
    return sum(end.busy_ticks - start.busy_ticks for start, end in both) / total if total > 0 else 0.0


def keep_pace() -> None:
    """Ahead of the load that this run has started on the same CPUs, lest the window stretch; where the user may."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)


def _window(
    options: Options,
    host: Host,
    facts: Facts,
    targets: Targets,
    running: list[Running],
    stop: Stop,
    recorder: Recorder | None,
) -> Measured:
    own = own_rule(options, targets, running)
    meter = Meter(targets.audited)
    timeline = LiveTimeline(
        live=host,
        window_s=options.window_s,
        clock_ns=time.monotonic_ns,
        wait=stop.wait,
        on_phase=recorder.phase if recorder else nothing,
        on_time=meter.mark,
    )
    checked = self_check(TreeHost(options.root), targets.audited, time.monotonic_ns)
    started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    observation = observe(timeline, facts, targets, own)
    for child in running:
        if not stop.asked:  # who ends a service or a session ends its children as well
            child.check()
    run = RunFacts(
        started=started,
        requested_ms=round(options.window_s * 1000),
        load=next((child.command.note for child in running if is_load(child.command)), None),
        work=options.work,
        overhead=meter.overhead(checked),
        interrupted=stop.asked,
        workload=options.workload,
    )
    return Measured(observation=observation, targets=targets, own=own, run=run)


def own_rule(options: Options, targets: Targets, running: list[Running]) -> OwnRule:
    """Own is what --workload names, and what --work started."""
    work = [child for child in running if not is_load(child.command)]
    timers = {child.command.timer_hz for child in work if child.command.timer_hz}
    return OwnRule(
        audited=targets.audited,
        workload=options.workload,
        work_pids=frozenset(child.pid for child in work),
        irqs=options.own_irqs,
        work_timer_hz=max(timers) if timers else None,
        tool_pid=os.getpid(),
    )


def interrupted(measured: Measured, stop: Stop) -> Measured:
    """The same, marked where a signal came: within the window, or until its result is written."""
    return replace(measured, run=replace(measured.run, interrupted=stop.asked))


def judge(measured: Measured, policy: Policy) -> Audit:
    """The audit of a finished window."""
    context = prepare(measured.observation, measured.targets, policy, measured.own)
    return audit(context, measured.run)
