"""Answers of the collected cases, line by line: each is claimed by one assertion, or named as an exception.

A line is known by its form alone (a regular expression for the whole of it), so that nothing of the cases is copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from probes.cpulist import parse_cpulist
from tests.probes.collected import right_lines

Check = Callable[[str, "re.Match[str]"], None]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Lines of one form and what must hold for them: called with the name of the case and the match."""

    form: str
    check: Check
    only: frozenset[str] | None = None
    """The cases it speaks of; None: all that have such a line."""
    reason: str = ""
    """Why what holds is not what the line says: an exception."""

    def match(self, name: str, line: str) -> re.Match[str] | None:
        """Whether this speaks of the line of that case."""
        if self.only is not None and name not in self.only:
            return None
        return re.fullmatch(self.form, line)


def claim(form: str, check: Check, *only: str) -> Claim:
    """Holds as the line says."""
    return Claim(form=form, check=check, only=frozenset(only) or None)


def differs(form: str, reason: str, check: Check, *only: str) -> Claim:
    """An exception: what holds instead, for which cases, and why. It outranks the claims for the same line."""
    assert reason
    assert only
    return Claim(form=form, check=check, only=frozenset(only), reason=reason)


def claimed_by(claims: tuple[Claim, ...], name: str, line: str) -> list[Claim]:
    """Who speaks of a line: exceptions first."""
    found = [item for item in claims if item.match(name, line)]
    return [item for item in found if item.reason] or found


def hold(kind: str, claims: tuple[Claim, ...], name: str, number: int) -> None:
    """One answer is claimed once, and holds."""
    line = right_lines(kind, name)[number]
    found = claimed_by(claims, name, line)
    assert len(found) == 1, f"{len(found)} assertions speak of {name}: {line[:80]}"
    match = found[0].match(name, line)
    assert match
    found[0].check(name, match)


def cpus(text: str) -> frozenset[int]:
    """A CPU list; "none" and "empty" are the empty one."""
    return frozenset() if text in ("none", "empty") else parse_cpulist(text)


def numbers(text: str) -> list[int]:
    """All numbers in a text."""
    return [int(number) for number in re.findall(r"\d+", text)]
