"""The policy file: TOML in, Policy out. Whatever is wrong with it is an error that says where and what to write."""

from __future__ import annotations

import difflib
import importlib
import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from auditor.errors import UsageError
from auditor.policy import LIMITS, Limit, Policy, Waiver
from auditor.rules import BY_ID
from probes.cpulist import parse_cpulist
from probes.host import ProbeError

KEYS = ("busy_poll", "wakeup_budget_us", "own_interrupts", "allowed_interrupts", "limits", "waivers")
LIMIT_KEYS = ("warn", "fail")
WAIVER_KEYS = ("rule", "cpus", "reason", "expires")
MAX_BYTES = 1 << 20
MAX_RATE = 1e9
MAX_BUDGET_US = 1_000_000


class PolicyError(UsageError):
    """A policy that can't be used; the message names the file, the key and what is expected."""


def read_policy(path: str) -> Policy:
    """The policy in a file. Raises PolicyError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"policy {path!a}: {error.strerror}; `cpu-audit policy init` prints one") from None
    if len(data) > MAX_BYTES:
        raise PolicyError(f"policy {path!a}: larger than {MAX_BYTES} bytes")
    try:
        return replace(parse_policy(data.decode()), source=path)
    except UnicodeDecodeError:
        raise PolicyError(f"policy {path!a}: no UTF-8 text") from None
    except PolicyError as error:
        raise PolicyError(f"policy {path!a}: {error}") from None


def parse_policy(text: str) -> Policy:
    """The policy in a TOML text; what it does not name has its default. Raises PolicyError."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, Any] = toml.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of open brackets
        raise PolicyError(f"no TOML: {ascii(str(error))[1:-1]}") from None
    _known(table, KEYS, "")
    return Policy(
        limits=_limits(_table(table.get("limits", {}), "limits")),
        busy_poll=_flag(table.get("busy_poll", False), "busy_poll"),
        wakeup_budget_us=_budget(table.get("wakeup_budget_us")),
        own_interrupts=_names(table.get("own_interrupts", []), "own_interrupts"),
        allowed_interrupts=_names(table.get("allowed_interrupts", []), "allowed_interrupts"),
        waivers=_waivers(table.get("waivers", [])),
    )


def _known(table: Mapping[str, object], names: Collection[str], where: str) -> None:
    """Refuses a key that means nothing: a misspelt limit would silently be the default."""
    for key in table:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1) or [", ".join(names)]
            raise PolicyError(f"{where}unknown key {key[:60]!a}; there is {close[0]}")


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError(f"{where}: a table was expected")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(f"{where}: true or false was expected")
    return value


def _budget(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_BUDGET_US:
        raise PolicyError(f"wakeup_budget_us: whole microseconds from 0 to {MAX_BUDGET_US} were expected")
    return value


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise PolicyError(f'{where}: a list of numbers or names in quotes was expected, as in ["31", "eth0-*"]')
    return tuple(value)


def _limits(table: Mapping[str, Any]) -> Mapping[str, Limit]:
    for rule in table.keys() & BY_ID.keys() - LIMITS.keys():
        raise PolicyError(f"limits: {rule} has no limit that can be set")
    _known(table, LIMITS, "limits: ")
    return {**LIMITS, **{rule: _limit(rule, _table(value, f"limits.{rule}")) for rule, value in table.items()}}


def _limit(rule: str, table: Mapping[str, Any]) -> Limit:
    """What a control CPU has to reach never gets less: a fail limit near 0 would call everything exercised."""
    where, default = f"limits.{rule}", LIMITS[rule]
    _known(table, LIMIT_KEYS, f"{where}: ")
    warn = _rate(table.get("warn", default.warn), f"{where}.warn")
    fail = _rate(table.get("fail", default.fail), f"{where}.fail")
    if not 0 < fail >= warn:
        raise PolicyError(f"{where}: fail ({fail:g}) must be above 0 and not below warn ({warn:g})")
    return Limit(warn=warn, fail=fail, exercised=default.fail)


def _rate(value: object, where: str) -> float:
    endless = isinstance(value, float) and not math.isfinite(value)  # math.isfinite() takes no int of 400 digits
    if endless or isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PolicyError(f"{where}: a number was expected")
    if not 0 <= value <= MAX_RATE:
        raise PolicyError(f"{where}: a number from 0 to {MAX_RATE:g} was expected")
    return float(value)


def _waivers(value: object) -> tuple[Waiver, ...]:
    if not isinstance(value, list):
        raise PolicyError("waivers: each begins with a line [[waivers]]")
    return tuple(_waiver(_table(item, f"waivers[{n}]"), f"waivers[{n}]") for n, item in enumerate(value, 1))


def _waiver(table: Mapping[str, Any], where: str) -> Waiver:
    _known(table, WAIVER_KEYS, f"{where}: ")
    if missing := [key for key in WAIVER_KEYS if key not in table]:
        raise PolicyError(f"{where}: {missing[0]} is missing; a waiver has {', '.join(WAIVER_KEYS)}")
    reason, expires = table["reason"], table["expires"]
    if not isinstance(reason, str) or not reason.strip():
        raise PolicyError(f"{where}.reason: a sentence was expected")
    if isinstance(expires, datetime) or not isinstance(expires, date):
        raise PolicyError(f"{where}.expires: a day without quotes was expected, as in 2026-12-31")
    return Waiver(rule=_rule(table["rule"], where), cpus=_cpus(table["cpus"], where), reason=reason, expires=expires)


def _rule(value: object, where: str) -> str:
    if isinstance(value, str) and value in BY_ID:
        return value
    close = difflib.get_close_matches(value, BY_ID, n=1) if isinstance(value, str) else []
    advice = f"there is {close[0]}" if close else "`cpu-audit rules` lists them"
    raise PolicyError(f"{where}.rule: no rule {str(value)[:60]!a}; {advice}")


def _cpus(value: object, where: str) -> frozenset[int]:
    try:
        cpus = parse_cpulist(value) if isinstance(value, str) else frozenset[int]()
    except ProbeError:
        cpus = frozenset()
    if not cpus:
        raise PolicyError(f'{where}.cpus: a CPU list in quotes was expected, as in "1,5" or "2-7"')
    return cpus


HEAD = """\
# Policy of cpu-audit: what a site decides for itself. TOML; give it to `cpu-audit run --policy FILE`.
# Lines with # and no blank after it are settings; what is not set has its default. Unknown keys are errors:
# `cpu-audit policy check FILE`.

# The workload polls: the tick is decisive, also where nohz_full was never asked for.
#busy_poll = false

# What a wake-up may cost in microseconds: C-states that take longer to leave then fail (CST.DEEP), else they warn.
#wakeup_budget_us = 50

# Interrupts by number, or by a shell pattern over the names of their handlers. Those of the workload are own, as with
# --own-irq; those that are allowed belong to others, and may fire on the audited CPUs all the same. Neither is judged,
# both are shown.
#own_interrupts = ["eth0-TxRx-*"]
#allowed_interrupts = ["ptp0"]

# Limits: events per second and CPU (TICK.LOC: per busy second). Above warn a warning (0: at any event); above fail, by
# the lower 95 % bound of the rate, a failure.
#[limits]
"""
TAIL = """
# A waiver: what a rule finds on these CPUs is known and put up with, up to and including the day. A finding of several
# CPUs is waived only by a waiver that names all of them. It stays visible; the verdict is `disturbed` at best and says
# that there are waivers. Unknown evidence can't be waived. Repeat the block for more.
#[[waivers]]
#rule = "IRQ.DEVICE"
#cpus = "1,5"
#reason = "the NIC moves to socket 1 with the next maintenance"
#expires = 2026-12-31
"""


def default_text() -> str:
    """The default policy, commented: what `cpu-audit policy init` prints."""
    lines = [f'#"{rule}" = {{ warn = {limit.warn:g}, fail = {limit.fail:g} }}' for rule, limit in LIMITS.items()]
    return HEAD + "\n".join(lines) + "\n" + TAIL
