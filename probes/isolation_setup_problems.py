"""Why an isolcpus= or nohz_full= is dropped or not as written, and why a CPU list is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.housekeeping import BootMachine, Rejection, Setup
from probes.isolation_outcome import Outcome, Problem, ProblemKind, problem_of, short, token_of
from probes.isolation_words import Request
from probes.kernel_cpulist import BLANKS, KernelCpulist, ListError
from probes.kernel_version import KernelFeatures

_RANGE = re.compile("(?:[0-9]+|N)-(?:[0-9]+|N)(?:[:,\\s]|$)", re.ASCII)


def setup_problems(request: Request, setup: Setup, outcome: Outcome) -> Iterator[Problem]:
    """What became of one isolcpus= or nohz_full=, in sentences."""
    missing = outcome.missing(request)
    if setup.rejection is not None:
        kind, text = _rejected(request, setup, outcome)
        # An empty list or a broken word names no CPU, yet nothing of what was wanted is in force.
        accepted = any(other.rejection is None and other.param.name == setup.param.name for other in outcome.setups)
        yield problem_of(request, kind, text, missing or not accepted)
    elif setup.value.past_end:
        yield problem_of(request, ProblemKind.READ_PAST_END, _past_end_text(request, setup), lost=False)
    if setup.rejection is None and setup.boot_cpu_kept:
        yield _boot_cpu_kept(request, outcome.machine)
    if setup.param.name == "isolcpus" and setup.rejection is not Rejection.BAD_FLAG:
        yield from _flag_problems(request, setup, outcome)


def _past_end_text(request: Request, setup: Setup) -> str:
    return (
        f"{token_of(request)} ends in a word without a comma: the kernel skips it with the end of the value "
        f"and reads the rest of the line, {short(setup.value.list_text.strip())}, as the list. It works by accident."
    )


def _boot_cpu_kept(request: Request, machine: BootMachine) -> Problem:
    text = (
        f"{token_of(request)} leaves no CPU that is present at boot: the kernel keeps the boot CPU {machine.boot_cpu} "
        "for housekeeping."
    )
    asked = machine.boot_cpu in request.cpus(machine.nr_cpu_ids) and (request.value or "").lower() != "all"
    return problem_of(request, ProblemKind.BOOT_CPU, text, frozenset({machine.boot_cpu}) if asked else False)


def _rejected(request: Request, setup: Setup, outcome: Outcome) -> tuple[ProblemKind, str]:
    token, machine = token_of(request), outcome.machine
    if setup.rejection is Rejection.BAD_FLAG:
        return ProblemKind.BAD_FLAG, _bad_flag_text(token, setup.value.bad_flag or "", machine.features)
    if setup.rejection is Rejection.NO_NOHZ_FULL:
        return ProblemKind.UNSUPPORTED, f"{token} is ignored: this kernel is built without CONFIG_NO_HZ_FULL."
    if setup.value.skipped and (setup.value.past_end or setup.rejection is Rejection.EMPTY):
        return ProblemKind.WORD_AS_FLAG, _word_as_flag_text(token, setup)
    if setup.rejection is Rejection.BAD_LIST:
        return bad_list(token, setup.parsed, machine, "so the whole parameter is dropped")
    if setup.rejection is Rejection.EMPTY and setup.boot_cpu_kept and setup.parsed.cpus:
        return ProblemKind.BOOT_CPU, f"{token} names no CPU but those that must stay for housekeeping: nothing is set."
    if setup.rejection is Rejection.EMPTY:
        return ProblemKind.EMPTY_LIST, f"{token} has an empty CPU list: nothing is set."
    if setup.rejection is Rejection.NO_HOUSEKEEPING:
        return ProblemKind.NO_HOUSEKEEPING, (
            f"{token} is dropped: with the parameters before it no present CPU would be left "
            "outside nohz_full and isolcpus."
        )
    return _mismatch(token, setup, outcome)


def _bad_flag_text(token: str, word: str, features: KernelFeatures) -> str:
    if features.unknown_flag_skipped:
        reason = "is no flag and holds more than letters and _"
    elif word == "managed_irq" and not features.managed_irq_flag:
        reason = "is a flag only since 5.6"
    else:
        reason = "is no flag of this kernel followed by a comma"
    return f"{token} is dropped whole: {short(word)!r} {reason}."


def _word_as_flag_text(token: str, setup: Setup) -> str:
    word = setup.value.skipped[-1]
    behind = setup.value.list_text.strip()
    tail = f"; the rest of the line, {short(behind)!r}, is read as the list and is none" if behind else ""
    return (
        f"{token}: {short(word)!r} is taken for an unknown flag{tail}, so no CPU is isolated: "
        "flags need a comma behind them, CPUs a number."
    )


def _mismatch(token: str, setup: Setup, outcome: Outcome) -> tuple[ProblemKind, str]:
    same = [
        other.param.token
        for other in outcome.setups
        if other.rejection is None and other.param.name == setup.param.name and other.param.end < setup.param.end
    ]
    if same:
        return ProblemKind.REPEATED, f"{token} is dropped: the first one wins, {short(same[0])}, and the lists differ."
    single = "" if outcome.machine.features.per_type_masks else " (one list serves both parameters before 5.18)"
    first = next(other.param.token for other in outcome.setups if other.rejection is None)
    return ProblemKind.MISMATCH, f"{token} is dropped whole: it must name the same CPUs as {short(first)}{single}."


def _flag_problems(request: Request, setup: Setup, outcome: Outcome) -> Iterator[Problem]:
    value = setup.value
    # The word at the end of the value has its own sentence; it is named again only if what it asked for is lost.
    missing = outcome.missing(request)  # once: a value of thousands of words is legal
    told = value.past_end and (setup.rejection is not None or not missing)
    for word in dict.fromkeys(value.skipped[:-1] if told else value.skipped):
        yield _unknown_flag(request, word, setup, missing)
    if setup.rejection is not None:
        return
    if not outcome.domain:
        flags = ",".join(value.flags)
        text = f"{token_of(request)} takes nobody out of the scheduler: the flag {flags} alone does not imply domain."
        yield problem_of(request, ProblemKind.NO_DOMAIN_FLAG, text, lost=False)
    if "nohz" in value.flags and not outcome.kernel_noise and not outcome.machine.features.nohz_flag_is_nohz_full:
        text = (
            f"{token_of(request)}: before 6.14 the flag nohz stops the tick only; unbound work, timers and kernel "
            "threads keep off a CPU only with nohz_full=."
        )
        yield problem_of(request, ProblemKind.TICK_ONLY, text, lost=False)


def _unknown_flag(request: Request, word: str, setup: Setup, missing: frozenset[int]) -> Problem:
    known = word in ("nohz", "domain", "managed_irq")
    reason = "has no comma behind it" if known else "is no flag"
    instead = "" if setup.value.flags else ", and without a known flag isolcpus= means domain"
    text = f"{token_of(request)}: {short(word)!r} {reason} and is skipped: nothing is done for it{instead}."
    return problem_of(request, ProblemKind.UNKNOWN_FLAG, text, missing)


def bad_list(token: str, parsed: KernelCpulist, machine: BootMachine, effect: str) -> tuple[ProblemKind, str]:
    """Why the kernel refused a CPU list; ``effect`` ends the sentence."""
    if parsed.error in (None, ListError.ERANGE):
        last = machine.nr_cpu_ids - 1
        return ProblemKind.OUT_OF_RANGE, f"{token} names a CPU above the last possible one, {last}, {effect}."
    return ProblemKind.BAD_LIST, f"{token} {_list_reason(parsed.rest, machine.features)}, {effect}."


def _list_reason(rest: str, features: KernelFeatures) -> str:
    region = rest.partition(",")[0]
    if "'" in rest or '"' in rest:
        return "has quotes inside its value (only double quotes around it are taken off)"
    if not rest.isascii() or "\\x" in rest:
        return "holds a character that is not ASCII, a pasted dash or blank"
    if region[:2].lower() == "0x":
        return "is hexadecimal, and a CPU list is decimal"
    if ("N" in region and not features.cpulist_last) or (region.lower().startswith("all") and not features.cpulist_all):
        return f"uses {short(region)!r}, which this kernel does not know"
    if any(blank in region for blank in BLANKS) and not features.cpulist_rewritten:
        return "has blanks between numbers, which this kernel does not take"
    if _RANGE.match(region):
        return f"has a range that runs backwards, {short(region)!r}"
    return f"is no CPU list at {short(region)!r}"
