"""Isolation that was written into the configuration of the boot loader, and is not what the kernel was started with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditor.context import Context
from auditor.model import Evidence, Finding, Fix, FixKind, Kind, Outcome
from auditor.rules.base import Rule
from probes.boot_files import ENTRIES, GRUB, GRUB_DIR, KERNEL_CMDLINE, Asked
from probes.cmdline import Cmdline
from probes.host import ProbeError

MAX_SHOWN = 4
MAX_VALUE = 60
GRUB_MKCONFIG = (
    "if command -v update-grub >/dev/null; then sudo update-grub; else sudo grub2-mkconfig -o /boot/grub2/grub.cfg; fi"
)
BY_ENTRIES = f"GRUB_ENABLE_BLSCFG=true: the entries in /{ENTRIES} decide, not /{GRUB}"
PLAIN = re.compile(r"[a-z0-9_,:/N-]{1,200}", re.ASCII)
KERNEL_INSTALL = 'sudo kernel-install add "$(uname -r)" "/lib/modules/$(uname -r)/vmlinuz"'


def check(ctx: Context, rule: Rule) -> Iterator[Finding]:
    """CFG.DRIFT."""
    files, line = ctx.observation.facts.boot_files, ctx.observation.facts.cmdline
    if isinstance(files, ProbeError):
        raise files
    if isinstance(line, ProbeError):
        raise line
    lost = [asked for asked in files.asked if not _started_with(line, asked)]
    if lost:
        yield _drifted(ctx, rule, lost, by_entries=files.by_entries)
    elif files.unread:
        raise files.unread[0]
    elif not files.paths:
        yield rule.finding(Outcome.NOT_APPLICABLE, ctx.audited, detail="no boot loader's configuration is seen here")
    else:
        text = "the kernel was started with what they ask for" if files.asked else "they ask for no isolation"
        text += f"; {BY_ENTRIES}" if files.by_entries else ""
        yield rule.finding(Outcome.PASS, ctx.audited, detail=f"boot files: {text}")


def _started_with(line: Cmdline, asked: Asked) -> bool:
    return any(param.value == asked.value for param in line.find(asked.name))


def _drifted(ctx: Context, rule: Rule, lost: list[Asked], *, by_entries: bool) -> Finding:
    words = list(dict.fromkeys(f"{item.name}={item.value[:MAX_VALUE]}" for item in lost))
    more = f" and {len(words) - MAX_SHOWN} more" if len(words) > MAX_SHOWN else ""
    return rule.finding(
        Outcome.WARN,
        ctx.audited,
        detail=f"{', '.join(words[:MAX_SHOWN])}{more}: in the boot loader's configuration, and not what the kernel "
        "was started with (edited but not applied, not rebooted, or replaced by a later file)"
        + (f"; {BY_ENTRIES}" if by_entries else ""),
        evidence=[
            Evidence(path=f"/{item.path}", field=item.name, value=item.value[:MAX_VALUE]) for item in lost[:MAX_SHOWN]
        ],
        fix=_fix(lost, by_entries=by_entries),
    )


def _fix(lost: list[Asked], *, by_entries: bool) -> Fix:
    """What the files hold was written by others: of that only plain CPU lists and flags get into a command."""
    commands = []
    of_grub = [item for item in lost if item.path.startswith((GRUB, f"{GRUB_DIR}/"))]
    if of_grub and by_entries:
        words = dict.fromkeys(f"{item.name}={item.value}" for item in of_grub if PLAIN.fullmatch(item.value))
        commands += [f"sudo grubby --update-kernel=ALL --args='{' '.join(words)}'"] if words else []
    elif of_grub:
        commands.append(GRUB_MKCONFIG)
    if any(item.path == KERNEL_CMDLINE for item in lost):
        commands.append(KERNEL_INSTALL)
    return Fix(
        kind=FixKind.BOOT,
        text="apply the configuration and reboot, or take out what is no longer wanted",
        commands=tuple(commands),
        undo="take the parameters out of the file, apply and reboot",
        reboot=True,
    )


CFG_DRIFT = Rule(
    id="CFG.DRIFT",
    title="boot configuration that is not in force",
    kind=Kind.RISK,
    why="""isolcpus, nohz_full, rcu_nocbs or irqaffinity stand in the boot loader's configuration, and /proc/cmdline
lacks them or says otherwise: it was edited and not applied, a later file replaces it, or the node was not rebooted. The
next boot may isolate other CPUs than this one.""",
    sources=("/proc/cmdline", f"/{GRUB}", f"/{GRUB_DIR}/*.cfg", f"/{KERNEL_CMDLINE}", f"/{ENTRIES}/*.conf"),
    warns="where a file asks for isolation that the command line lacks",
    cure="apply it (update-grub, grub2-mkconfig, kernel-install) and reboot, or take it out",
    check=check,
)
