"""A policy file is what it says, or an error that tells what to write."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.policy import LIMITS, Limit, Policy, Waiver
from auditor.policy_file import KEYS, PolicyError, default_text, parse_policy, read_policy

WAIVER = '[[waivers]]\nrule = "IRQ.DEVICE"\ncpus = "1,5-6"\nreason = "known"\nexpires = 2026-12-31\n'


def without(key: str) -> str:
    return "".join(line for line in WAIVER.splitlines(keepends=True) if not line.startswith(key))


def changed(key: str, value: str) -> str:
    return without(key) + f"{key} = {value}\n"


def test_an_empty_file_is_the_default() -> None:
    assert parse_policy("") == Policy()


def test_every_key() -> None:
    policy = parse_policy(
        'busy_poll = true\nwakeup_budget_us = 50\nown_interrupts = ["31", "eth0-*"]\nallowed_interrupts = ["ptp0"]\n'
        f'[limits]\n"IRQ.DEVICE" = {{ warn = 0.5, fail = 7 }}\n"TICK.LOC" = {{ fail = 20 }}\n{WAIVER}'
    )
    limits = {
        **LIMITS,
        "IRQ.DEVICE": Limit(warn=0.5, fail=7, exercised=1),
        "TICK.LOC": Limit(warn=2, fail=20, exercised=10),
    }
    assert policy == Policy(
        limits=limits,
        busy_poll=True,
        wakeup_budget_us=50,
        own_interrupts=("31", "eth0-*"),
        allowed_interrupts=("ptp0",),
        waivers=(Waiver(rule="IRQ.DEVICE", cpus=frozenset({1, 5, 6}), reason="known", expires=date(2026, 12, 31)),),
    )


def test_the_default_text_says_the_defaults() -> None:
    assert parse_policy(default_text()) == Policy()
    settings = re.sub(r"^#(?! |$)", "", default_text(), flags=re.MULTILINE)
    policy = parse_policy(settings)
    assert {rule: (limit.warn, limit.fail) for rule, limit in policy.limits.items()} == {
        rule: (limit.warn, limit.fail) for rule, limit in LIMITS.items()
    }
    assert policy.busy_poll is False
    assert policy.waivers[0].expires == date(2026, 12, 31)
    assert max(map(len, default_text().splitlines())) <= 120


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("busypoll = true", "unknown key 'busypoll'; there is busy_poll"),
        (
            "zzz = 1",
            f"unknown key 'zzz'; there is {', '.join(KEYS)}",
        ),
        ('"\\u001b[31m" = 1', r"unknown key '\\x1b\[31m'; there is busy_poll, .*"),
        ("busy_poll = 1", "busy_poll: true or false was expected"),
        ("wakeup_budget_us = true", "wakeup_budget_us: whole microseconds from 0 to 1000000 were expected"),
        ("wakeup_budget_us = -1", "wakeup_budget_us: whole microseconds from 0 to 1000000 were expected"),
        ("wakeup_budget_us = 1.5", "wakeup_budget_us: whole microseconds from 0 to 1000000 were expected"),
        ("own_interrupts = 31", "own_interrupts: a list of numbers or names in quotes was expected, .*"),
        ("allowed_interrupts = [31]", "allowed_interrupts: a list of numbers or names in quotes was expected, .*"),
        ('own_interrupts = [""]', "own_interrupts: a list of numbers or names in quotes was expected, .*"),
        ("limits = 1", "limits: a table was expected"),
        ('[limits]\n"IRQ.DEVISE" = { fail = 1 }', "limits: unknown key 'IRQ.DEVISE'; there is IRQ.DEVICE"),
        ('[limits]\n"CFG.DOMAIN" = { fail = 1 }', "limits: CFG.DOMAIN has no limit that can be set"),
        ("[limits]\nIRQ.DEVICE = { fail = 1 }", "limits: unknown key 'IRQ'; there is .*"),
        ('[limits]\n"IRQ.DEVICE" = 1', "limits.IRQ.DEVICE: a table was expected"),
        ('[limits]\n"IRQ.DEVICE" = { fial = 1 }', "limits.IRQ.DEVICE: unknown key 'fial'; there is fail"),
        ('[limits]\n"IRQ.DEVICE" = { fail = "1" }', "limits.IRQ.DEVICE.fail: a number was expected"),
        ('[limits]\n"IRQ.DEVICE" = { fail = true }', "limits.IRQ.DEVICE.fail: a number was expected"),
        ('[limits]\n"IRQ.DEVICE" = { fail = inf }', "limits.IRQ.DEVICE.fail: a number was expected"),
        ('[limits]\n"IRQ.DEVICE" = { warn = nan }', "limits.IRQ.DEVICE.warn: a number was expected"),
        ('[limits]\n"IRQ.DEVICE" = { warn = -1 }', "limits.IRQ.DEVICE.warn: a number from 0 to 1e.09 was expected"),
        (
            f'[limits]\n"IRQ.DEVICE" = {{ fail = {"9" * 400} }}',
            "limits.IRQ.DEVICE.fail: a number from 0 to 1e.09 was expected",
        ),
        (f'[limits]\n"IRQ.DEVICE" = {{ fail = {"9" * 5000} }}', ".*"),
        (
            '[limits]\n"IRQ.DEVICE" = { fail = 0 }',
            r"limits.IRQ.DEVICE: fail \(0\) must be above 0 and not below warn \(0\)",
        ),
        (
            '[limits]\n"TICK.LOC" = { fail = 1 }',
            r"limits.TICK.LOC: fail \(1\) must be above 0 and not below warn \(2\)",
        ),
        ("waivers = 1", r"waivers: each begins with a line \[\[waivers\]\]"),
        ("waivers = [1]", r"waivers\[1\]: a table was expected"),
        (without("reason"), r"waivers\[1\]: reason is missing; a waiver has rule, cpus, reason, expires"),
        (WAIVER + 'until = "x"', r"waivers\[1\]: unknown key 'until'; there is .*"),
        (WAIVER + without("expires"), r"waivers\[2\]: expires is missing; a waiver has rule, cpus, reason, expires"),
        (changed("reason", '" "'), r"waivers\[1\].reason: a sentence was expected"),
        (changed("expires", '"2026-12-31"'), r"waivers\[1\].expires: a day without quotes was expected, as in .*"),
        (changed("expires", "2026-12-31T10:00:00Z"), r"waivers\[1\].expires: a day without quotes was expected, .*"),
        (changed("rule", '"IRQ.DEVIC"'), r"waivers\[1\].rule: no rule 'IRQ.DEVIC'; there is IRQ.DEVICE"),
        (changed("rule", '"irq*"'), r"waivers\[1\].rule: no rule 'irq\*'; `cpu-audit rules` lists them"),
        (changed("rule", "7"), r"waivers\[1\].rule: no rule '7'; `cpu-audit rules` lists them"),
        (changed("cpus", "1"), r'waivers\[1\].cpus: a CPU list in quotes was expected, as in "1,5" or "2-7"'),
        (changed("cpus", '""'), r"waivers\[1\].cpus: a CPU list in quotes was expected, .*"),
        (changed("cpus", '"all"'), r"waivers\[1\].cpus: a CPU list in quotes was expected, .*"),
        ("busy_poll = maybe", r"no TOML: Invalid value \(at line 1, column 13\)"),
        ("a = " + "[" * 100_000, "no TOML: .*"),
    ],
)
def test_what_is_wrong_is_told(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert re.fullmatch(message, str(caught.value)), str(caught.value)
    assert caught.value.exit_code == 2


@given(st.text(max_size=60) | st.text(alphabet='[]{}=".#\n limtsIRQ.DEVCE019-', max_size=60))
def test_nothing_but_a_policy_error_leaves_the_parser(text: str) -> None:
    with contextlib.suppress(PolicyError):
        assert isinstance(parse_policy(text), Policy)


def test_a_file_is_read_and_named(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text("busy_poll = true\n", encoding="utf-8")
    assert read_policy(str(path)) == replace(Policy(), busy_poll=True, source=str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "no UTF-8 text"),
        (b"#" * (1 << 20) + b"#", "larger than 1048576 bytes"),
        (b"bussy_poll = true", "unknown key 'bussy_poll'; there is busy_poll"),
    ],
)
def test_a_file_that_can_not_be_used_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "site.toml"
    path.write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        read_policy(str(path))
    assert str(caught.value) == f"policy {str(path)!r}: {message}"


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(str(tmp_path))
    assert str(caught.value) == f"policy {str(tmp_path)!r}: Is a directory; `cpu-audit policy init` prints one"
