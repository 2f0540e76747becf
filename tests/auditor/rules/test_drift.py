"""Boot configuration against the line that the kernel was started with."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.context import Context
from auditor.model import Axis, Evidence, FixKind, Kind, Outcome
from auditor.rules.drift import GRUB_MKCONFIG, KERNEL_INSTALL
from probes.boot_files import Asked, BootFiles
from probes.host import SourceState
from tests.auditor.build import context, edit, gone, only, outcomes

GRUB = "etc/default/grub"


def asked(value: str, name: str = "isolcpus", path: str = GRUB) -> Asked:
    return Asked(path=path, name=name, value=value)


def booted(*wanted: Asked, cmdline: Any = "quiet isolcpus=1 nohz_full=1", unread: Any = ()) -> Context:
    files = BootFiles(paths=(GRUB,), unread=unread, asked=wanted)
    return edit(context(cmdline=cmdline), "facts.boot_files", files)


@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        ((), "boot files: they ask for no isolation"),
        ((asked("1"),), "boot files: the kernel was started with what they ask for"),
        ((asked("1"), asked("1", "nohz_full")), "boot files: the kernel was started with what they ask for"),
    ],
)
def test_in_force(wanted: tuple[Asked, ...], detail: str) -> None:
    found = only(booted(*wanted), "CFG.DRIFT")
    assert (found.outcome, found.detail, found.fix) == (Outcome.PASS, detail, None)


@pytest.mark.parametrize("cmdline", ["quiet", "isolcpus=2", "isolcpus=1,50", "isolcpus", "-- isolcpus=1,5"])
def test_not_in_force(cmdline: str) -> None:
    found = only(booted(asked("1,5"), cmdline=cmdline), "CFG.DRIFT")
    assert (found.outcome, found.axis, found.kind) == (Outcome.WARN, Axis.ISOLATION, Kind.RISK)
    assert found.detail.startswith("isolcpus=1,5: in the boot loader's configuration, and not what the kernel was")
    assert found.evidence == (Evidence(path=f"/{GRUB}", field="isolcpus", value="1,5"),)
    assert found.fix is not None
    assert (found.fix.kind, found.fix.reboot, found.fix.commands) == (FixKind.BOOT, True, (GRUB_MKCONFIG,))


def test_where_entries_decide_they_are_changed() -> None:
    """Red Hat: update-grub and /etc/default/grub do not reach the kernel's command line."""
    note = "GRUB_ENABLE_BLSCFG=true: the entries in /boot/loader/entries decide, not /etc/default/grub"
    wanted = (asked("managed_irq,1,5-6"), asked("1", "nohz_full"), asked("$(reboot)'", "rcu_nocbs"))
    files = BootFiles(paths=(GRUB,), unread=(), asked=wanted, by_entries=True)
    found = only(edit(context(cmdline="quiet"), "facts.boot_files", files), "CFG.DRIFT")
    assert found.outcome is Outcome.WARN
    assert found.detail.endswith(f"; {note}")
    assert found.fix is not None
    assert found.fix.commands == ("sudo grubby --update-kernel=ALL --args='isolcpus=managed_irq,1,5-6 nohz_full=1'",)
    files = BootFiles(paths=(GRUB,), unread=(), asked=wanted[2:], by_entries=True)
    found = only(edit(context(cmdline="quiet"), "facts.boot_files", files), "CFG.DRIFT")
    assert found.fix is not None
    assert found.fix.commands == ()
    files = BootFiles(paths=(GRUB,), unread=(), asked=(), by_entries=True)
    found = only(edit(context(cmdline="quiet"), "facts.boot_files", files), "CFG.DRIFT")
    assert (found.outcome, found.detail) == (Outcome.PASS, f"boot files: they ask for no isolation; {note}")


def test_many_words_are_cut() -> None:
    found = only(booted(*(asked(f"{'9' * 99}{number}") for number in range(6)), cmdline="quiet"), "CFG.DRIFT")
    assert len(found.evidence) == 4
    assert f"isolcpus={'9' * 60}:" in found.detail
    several = only(booted(*(asked(str(number)) for number in range(6)), cmdline="quiet"), "CFG.DRIFT")
    assert "isolcpus=3 and 2 more: " in several.detail


@pytest.mark.parametrize(
    ("path", "commands"),
    [
        ("etc/default/grub.d/a.cfg", (GRUB_MKCONFIG,)),
        ("etc/kernel/cmdline", (KERNEL_INSTALL,)),
        ("boot/loader/entries/a.conf", ()),
    ],
)
def test_how_each_is_applied(path: str, commands: tuple[str, ...]) -> None:
    found = only(booted(asked("7", path=path)), "CFG.DRIFT")
    assert found.fix is not None
    assert found.fix.commands == commands


def test_what_may_not_be_read_may_ask_for_more() -> None:
    denied = gone(state=SourceState.DENIED)
    assert outcomes(booted(asked("1"), unread=(denied,)), "CFG.DRIFT") == [Outcome.UNKNOWN]
    assert outcomes(booted(asked("7"), unread=(denied,)), "CFG.DRIFT") == [Outcome.WARN]


def test_without_files_or_command_line() -> None:
    assert outcomes(context(), "CFG.DRIFT") == [Outcome.NOT_APPLICABLE]
    assert outcomes(booted(asked("1"), cmdline=gone()), "CFG.DRIFT") == [Outcome.UNKNOWN]
    assert outcomes(edit(context(), "facts.boot_files", gone()), "CFG.DRIFT") == [Outcome.UNKNOWN]
