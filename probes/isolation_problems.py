"""Why an isolation parameter is not in force, or not as written: one sentence for each.

Most of these leave no trace in the kernel log, so the sentence says what was asked for, what happens, and why.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.cmdline import Cmdline, Param
from probes.cpulist import format_cpulist
from probes.housekeeping import HkType, Setup
from probes.isolation_outcome import Outcome, Problem, ProblemKind, name_cpus, problem_of, short, token_of
from probes.isolation_setup_problems import bad_list, setup_problems
from probes.isolation_words import Request, readable_cpus, requests


def find_problems(cmdline: Cmdline, outcome: Outcome, online: frozenset[int] | None) -> tuple[Problem, ...]:
    """Every problem of the isolation parameters, in the order of the line as far as it has one."""
    found: list[Problem] = []
    setups = {setup.param: setup for setup in outcome.setups}
    for request in requests(cmdline.params):
        setup = setups.get(request.param)
        found += _name_problems(request, setup, outcome)
        if setup is not None:
            found += setup_problems(request, setup, outcome)
        elif not request.misspelt and request.parameter == "rcu_nocbs":
            found += _rcu_problems(request, cmdline, outcome)
        elif not request.misspelt and request.parameter == "irqaffinity":
            found += _irqaffinity_problems(request, cmdline, outcome)
    found += [_after_dashes(request, outcome) for request in requests(cmdline.init_args)]
    found += _line_problems(cmdline, outcome)
    found += _offline_problems(outcome, online)
    return tuple(found)


def _name_problems(request: Request, setup: Setup | None, outcome: Outcome) -> Iterator[Problem]:
    missing = outcome.missing(request)
    bare_legal = request.parameter == "rcu_nocbs" and outcome.machine.features.rcu_nocbs_bare
    if request.misspelt:
        yield problem_of(request, ProblemKind.MISSPELT, _misspelt_text(request), missing or True)
    elif request.param.value is None and not bare_legal:
        text = f"{request.parameter} without = does nothing: write {request.parameter}=LIST."
        yield problem_of(request, ProblemKind.NO_VALUE, text, missing or True)
    if request.fragments and not (setup is not None and setup.value.past_end):
        yield _stray(request, outcome)


def _misspelt_text(request: Request) -> str:
    dropped = "takes it for a module's parameter and drops it" if "." in request.param.name else "hands it to init"
    return (
        f"{token_of(request)} is no kernel parameter, {request.parameter} is meant: "
        f"the kernel {dropped} without an error, and nothing is set."
    )


def _stray(request: Request, outcome: Outcome) -> Problem:
    words = " ".join(param.token for param in request.fragments)
    if request.maybe_runlevel:
        text = (
            f"{words} behind {token_of(request)} is not part of its list: right if a run level is meant, lost if a CPU."
        )
        return problem_of(request, ProblemKind.STRAY_WORDS, text, lost=False)
    cpus = readable_cpus(words, outcome.machine.nr_cpu_ids) & outcome.missing(request)
    text = (
        f"{short(words)} behind {token_of(request)} is not in its list: a blank ends the value, the rest goes to init."
    )
    return problem_of(request, ProblemKind.STRAY_WORDS, text, cpus)


def _after_dashes(request: Request, outcome: Outcome) -> Problem:
    text = f"{token_of(request)} stands behind --: the kernel leaves all that to init and does not look at it."
    return problem_of(request, ProblemKind.AFTER_DASHES, text, outcome.missing(request))


def _rcu_problems(request: Request, cmdline: Cmdline, outcome: Outcome) -> Iterator[Problem]:
    machine, token = outcome.machine, token_of(request)
    if request.param.value is None:
        return
    yield from _overridden(request, cmdline.find("rcu_nocbs"), outcome)
    parsed = machine.parse(request.param.value)
    everything = request.param.value.lower() == "all" and machine.features.rcu_nocbs_all
    if parsed.error is not None and not everything:
        to_all = machine.features.rcu_nocbs_bad_list_is_all
        effect = "so the callbacks of ALL CPUs are offloaded" if to_all else "and what follows is dropped"
        kind, text = bad_list(token, parsed, machine, effect)
        yield problem_of(request, ProblemKind.ALL_CPUS if to_all else kind, text, outcome.missing(request) or True)
    elif not parsed.cpus and not everything:
        text = f"{token} has an empty CPU list: no callback is offloaded by it."
        yield problem_of(request, ProblemKind.EMPTY_LIST, text, not outcome.rcu_nocbs)


def _irqaffinity_problems(request: Request, cmdline: Cmdline, outcome: Outcome) -> Iterator[Problem]:
    machine, token = outcome.machine, token_of(request)
    if request.param.value is None:
        return
    yield from _overridden(request, cmdline.find("irqaffinity"), outcome)
    parsed = machine.parse(request.param.value)
    if parsed.error is not None:
        kept = name_cpus(parsed.cpus | {machine.boot_cpu})
        kind, text = bad_list(token, parsed, machine, f"so the default is what precedes it and the boot CPU: {kept}")
        yield problem_of(request, kind, text, outcome.missing(request) or True)
    elif machine.boot_cpu not in parsed.cpus:
        text = f"{token}: the kernel adds the boot CPU {machine.boot_cpu} to the default affinity."
        yield problem_of(request, ProblemKind.BOOT_CPU, text, lost=False)


def _overridden(request: Request, occurrences: tuple[Param, ...], outcome: Outcome) -> Iterator[Problem]:
    last = occurrences[-1]
    if last.end == request.param.end or last.value == request.param.value:
        return
    text = f"{token_of(request)} has no effect: the last one wins, {short(last.token)}."
    yield problem_of(request, ProblemKind.REPEATED, text, outcome.missing(request))


def _line_problems(cmdline: Cmdline, outcome: Outcome) -> Iterator[Problem]:
    for param in cmdline.find("kthread_cpus"):
        text = f"{short(param.token)} is no parameter of the mainline kernel, which hands it to init: nothing is set."
        yield _plain("kthread_cpus", param.value, ProblemKind.NOT_MAINLINE, text, frozenset())
    boot_cpu = outcome.machine.boot_cpu
    cleared = [s for s in outcome.setups if s.rejection is None and HkType.TICK in s.value.types and boot_cpu in s.cpus]
    for setup in cleared:
        text = f"{short(setup.param.token)}: the kernel takes the boot CPU {boot_cpu} out, it keeps the time."
        if boot_cpu not in outcome.nohz_full:
            yield _plain(setup.param.name, setup.param.value, ProblemKind.BOOT_CPU, text, frozenset({boot_cpu}))
    if outcome.nohz_full and _is_off(cmdline.last_value("nohz") or ""):
        text = "nohz=off keeps the tick running on every CPU, nohz_full or not."
        yield _plain("nohz", cmdline.last_value("nohz"), ProblemKind.NOHZ_OFF, text, outcome.nohz_full)


def _is_off(value: str) -> bool:
    """``kstrtobool`` looks at the first letters only."""
    return value[:1] in ("0", "n", "N") or value[:2].lower() == "of"


def _offline_problems(outcome: Outcome, online: frozenset[int] | None) -> Iterator[Problem]:
    for name, cpus in (("isolcpus", outcome.domain), ("nohz_full", outcome.nohz_full)):
        if online is not None and cpus - online:
            text = f"{name} covers {name_cpus(cpus - online)}, not online; usable: {name_cpus(cpus & online)}."
            yield _plain(name, format_cpulist(cpus), ProblemKind.NOT_ONLINE, text, frozenset())


def _plain(parameter: str, value: str | None, kind: ProblemKind, text: str, cpus: frozenset[int]) -> Problem:
    return Problem(parameter=parameter, value=value or "", kind=kind, text=text, lost=bool(cpus), cpus=cpus)
