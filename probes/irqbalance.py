"""irqbalance: which CPUs a running one keeps interrupts off.

It bans the CPUs of IRQBALANCE_BANNED_CPUS (a mask), else of IRQBALANCE_BANNED_CPULIST (a list, since 1.8), else by
default those that sysfs calls isolated or nohz_full (irqbalance: cputree.c setup_banned_cpus). No option of its command
line bans a CPU. What irqbalance-ui tells it over its socket is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from probes.cpulist import parse_cpulist, parse_cpumask
from probes.host import Host, ProbeError, SourceState

NAME = "irqbalance"
MASK, LIST = "IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST"
VARIABLES = (MASK, LIST)
FILES = ("usr/lib/irqbalance/defaults.env", "etc/default/irqbalance", "etc/sysconfig/irqbalance")
"""EnvironmentFile of the units of upstream, Debian and Red Hat; a later one outranks an earlier one."""
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Z_]+)=(.*)", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ban:
    """What one source says."""

    path: str
    """The file that says it."""
    setting: str
    """As it stands there, ``IRQBALANCE_BANNED_CPULIST=1``; "" where neither variable is set."""
    cpus: frozenset[int] | ProbeError | None
    """None: by default, the CPUs that sysfs calls isolated or nohz_full."""
    empty: bool = False
    """Set and empty: some versions then ban no CPU, others take the default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Irqbalance:
    """A running irqbalance, or one that may run: what it was started with, and what the next start will read."""

    pid: int
    environment: Ban | ProbeError
    file: Ban | ProbeError
    """Of the file that the next start takes the variables from; MISSING where none of FILES is there."""


def read_irqbalance(host: Host, pids: Iterable[int]) -> tuple[Irqbalance, ...]:
    """One for each of the processes."""
    found = sorted(set(pids))
    file = _read_file(host) if found else None
    return tuple(Irqbalance(pid=pid, environment=_read_environment(host, pid), file=file) for pid in found if file)


def _read_environment(host: Host, pid: int) -> Ban | ProbeError:
    path = f"proc/{pid}/environ"
    try:
        return ban_of(parse_environ(host.read(path)), path)
    except ProbeError as error:
        return error


def _read_file(host: Host) -> Ban | ProbeError:
    """What systemd would give to the next one. A file that may not be read outranks what earlier ones say."""
    variables: dict[str, str] = {}
    last: str | ProbeError = ProbeError(FILES[1], "no file with its environment", SourceState.MISSING)
    for path in FILES:
        try:
            variables |= parse_env_file(host.read(path))
            last = path
        except ProbeError as error:
            if error.state is not SourceState.MISSING:
                return error
    return last if isinstance(last, ProbeError) else ban_of(variables, last)


def parse_environ(text: str) -> dict[str, str]:
    """The two variables in a process's environment: ``NAME=value``, each ended by NUL. getenv() sees the first."""
    found: dict[str, str] = {}
    for entry in text.split("\0"):
        name, _, value = entry.partition("=")
        if name in VARIABLES:
            found.setdefault(name, value)
    return found


def only_variables(text: str) -> str:
    """An environment cut down to the two variables, in the same form: the rest may hold secrets."""
    return "".join(f"{name}={value}\0" for name, value in parse_environ(text).items())


def parse_env_file(text: str) -> dict[str, str]:
    """The two variables in lines ``NAME=value`` as systemd, or with ``export`` a shell, reads them; the last counts."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        match = _ASSIGNMENT.fullmatch(line)
        if match and match[1] in VARIABLES:
            found[match[1]] = _unquoted(match[2].strip())
    return found


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1:].partition(value[0])[0]
    return value.partition(" #")[0].strip()


def ban_of(variables: Mapping[str, str], path: str) -> Ban:
    """What these variables ban. The mask outranks the list, unless it is empty."""
    for name in VARIABLES:
        if value := variables.get(name, "").strip():
            return Ban(path=path, setting=f"{name}={value}", cpus=_cpus(name, value, path))
    empty = next((name for name in VARIABLES if name in variables), "")
    return Ban(path=path, setting=f"{empty}=" if empty else "", cpus=None, empty=bool(empty))


def _cpus(name: str, value: str, path: str) -> frozenset[int] | ProbeError:
    try:
        return parse_cpumask(value, path=path) if name == MASK else parse_cpulist(value, path=path)
    except ProbeError as error:
        return error
