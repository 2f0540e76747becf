"""The command line: parse, call, render, exit. The only place that maps errors to exit codes."""

from __future__ import annotations

import re
import signal
import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from auditor.errors import AuditError, Interrupted, UsageError
from auditor.model import Audit, ExitCode

if TYPE_CHECKING:
    from auditor.policy import Policy
    from auditor.session import Measured, Options

app = typer.Typer(
    name="cpu-audit",
    help="Does pinning really isolate these CPUs, and if not, who is on them and what exactly to change?",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)

USAGE_ERROR: Any = typer.BadParameter.__bases__[0]
"""What any wrong argument raises; typer exports only this child of it (and from 0.26 on carries its own click)."""
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)")
UNIT_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
MAX_WINDOW_S = 86400.0
REPORT_SUFFIXES = (".json", ".txt", ".html", ".md", ".xml", ".sarif", ".prom")
DEFAULT_WINDOW = "30s"


class Work(str, Enum):
    """Workloads that a run may start on the audited CPUs."""

    SPIN = "spin"
    CYCLICTEST = "cyclictest"


class Format(str, Enum):
    """Formats of the report on stdout."""

    TEXT = "text"
    JSON = "json"


class FailOn(str, Enum):
    """From what on the exit code is 3."""

    FAIL = "fail"
    WARN = "warn"


Cpus = Annotated[
    str | None,
    typer.Option(
        metavar="CPULIST",
        help="CPUs to audit, as in 1,5 or 2-7. Default: those the kubelet gave to containers, else those the kernel "
        "isolates.",
    ),
]
Window = Annotated[str, typer.Option(metavar="TIME", help="How long to measure: 30s, 5m (at least 1s).")]
RunWindow = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="How long to measure (at least 1s, default 30s); with --from: between the ends of one made by hand.",
    ),
]
Workload = Annotated[
    str | None,
    typer.Option(
        metavar="WHO",
        help="Whom the CPUs belong to: PID, command name, unit or cgroup path. Default: threads allowed only there.",
    ),
]
OwnIrqs = Annotated[
    list[str] | None,
    typer.Option(
        "--own-irq",
        metavar="NAME",
        help="An interrupt of the workload: number, or shell pattern over names (eth0-TxRx-*). Repeatable.",
    ),
]
Root = Annotated[str, typer.Option(metavar="DIR", help="Where the host's root is mounted (/host in a pod).")]
PolicyFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Limits, interrupts and waivers of this site (cpu-audit policy init)."),
]
Load = Annotated[bool, typer.Option("--load", help="Load the housekeeping CPUs with stress-ng, block I/O included.")]
WorkOption = Annotated[Work | None, typer.Option(help="Start a workload on the audited CPUs.")]
Force = Annotated[bool, typer.Option("--force", help="Let --work run on CPUs that someone owns.")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Does pinning really isolate these CPUs, and if not, who is on them and what exactly to change?"""
    if version:
        from auditor import __version__

        typer.echo(f"cpu-audit {__version__}")
        raise typer.Exit(ExitCode.OK)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(ExitCode.USAGE)  # a script whose command is an empty variable must not pass


@app.command()
def run(
    cpus: Cpus = None,
    window: RunWindow = None,
    workload: Workload = None,
    own_irq: OwnIrqs = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="RECORDING", help="Judge a recording instead of this machine.")
    ] = None,
    root: Root = "/",
    policy: PolicyFile = None,
    load: Load = False,
    work: WorkOption = None,
    force: Force = False,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the report to a file; its suffix gives the format. Repeatable.",
        ),
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="Format on stdout.")] = Format.TEXT,
    fail_on: Annotated[FailOn, typer.Option(help="Exit 3 from what on.")] = FailOn.FAIL,
) -> None:
    """Audit CPUs: measure for a window, judge, name the causes and their fixes."""
    from dataclasses import replace

    from auditor.session import judge, measure
    from auditor.stop import Stop
    from auditor.verdict import exit_code
    from reports import format_of_suffix

    site = _policy(policy)
    outputs = output or []
    for path in outputs:
        format_of_suffix(suffix(path))
        prepare_output(path)
    options = _options(cpus, window or DEFAULT_WINDOW, workload, own_irq, root, load=load, work=work, force=force)
    if from_ is None:
        with Stop() as stop:
            audit = judge(measure(options, stop, log), site)
            audit = replace(audit, interrupted=stop.asked)
            failed = _write(audit, outputs)
    else:
        audit = judge(_replayed(from_, options, timed=window is not None), site)
        failed = _write(audit, outputs)
    try:
        _print(audit, format_)
    except KeyboardInterrupt:
        if not outputs:
            raise
        # As leaving a pager: the result is written, and the exit code is the one that it tells.
    if failed:
        raise failed[0]
    code = exit_code(audit.verdict.status, audit.readiness.status, fail_on_warn=fail_on is FailOn.WARN)
    raise typer.Exit(ExitCode.INTERRUPTED if audit.interrupted and from_ is None else code)


@app.command()
def record(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to: a directory, or a file ending in .tar.gz.")
    ],
    cpus: Cpus = None,
    window: Window = DEFAULT_WINDOW,
    workload: Workload = None,
    own_irq: OwnIrqs = None,
    root: Root = "/",
    load: Load = False,
    work: WorkOption = None,
    force: Force = False,
) -> None:
    """Capture now, judge later: `run --from` gives the same verdict on any machine."""
    from auditor.output import OutputError, tar_gz, write_file, write_tree
    from auditor.recordings import recording_entries
    from auditor.session import interrupted, measure
    from auditor.stop import Stop
    from probes.host import TreeHost
    from probes.record import Recorder, RecordingError, check_bounds

    name = check_recording(output)
    options = _options(cpus, window, workload, own_irq, root, load=load, work=work, force=force)
    recorder = Recorder(TreeHost(root))
    with Stop() as stop:
        measured = interrupted(measure(options, stop, log, recorder), stop)
        files = list(recording_entries(measured, recorder))
        try:
            check_bounds(files)
        except RecordingError as error:
            raise OutputError(f"-o {output}: {error}") from None
        if name is None:
            write_tree(output, files)
        else:
            write_file(output, tar_gz(name, files))
    log(f"recorded: cpu-audit run --from {output}")
    raise typer.Exit(ExitCode.INTERRUPTED if measured.run.interrupted else ExitCode.OK)


@app.command()
def rules(
    rule: Annotated[str | None, typer.Argument(metavar="[ID]", help="One rule, as in IRQ.DEVICE.")] = None,
    format_: Annotated[Format, typer.Option("--format", help="Format on stdout.")] = Format.TEXT,
) -> None:
    """List what is judged; with an ID why, by which files and limits, and the typical fix."""
    from auditor.catalogue import catalogue, find
    from auditor.output import write_stdout
    from auditor.policy import Policy
    from reports.rules import entry_text, table_text, to_json

    entries = catalogue(Policy()) if rule is None else (find(rule, Policy()),)
    if format_ is Format.JSON:
        write_stdout(to_json(entries))
    else:
        write_stdout(table_text(entries) if rule is None else entry_text(entries[0]))


policy_app = typer.Typer(help="The policy of a site: limits, interrupts, waivers.", rich_markup_mode=None)
app.add_typer(policy_app, name="policy")


@policy_app.command()
def init() -> None:
    """Print the default policy, commented."""
    from auditor.output import write_stdout
    from auditor.policy_file import default_text

    write_stdout(default_text())


@policy_app.command()
def check(path: Annotated[str, typer.Argument(metavar="FILE", help="A policy.")]) -> None:
    """Validate a policy, and tell what it changes and which waivers hold today."""
    from datetime import datetime, timezone

    from auditor.output import write_stdout
    from auditor.policy_file import read_policy
    from auditor.waivers import waive
    from reports.text_policy import policy_lines

    _, facts = waive((), read_policy(path), datetime.now(timezone.utc).isoformat())
    write_stdout("\n".join([*policy_lines(facts, judged=False), ""]))


def _policy(path: str | None) -> Policy:
    """What is judged by."""
    from auditor.policy import Policy
    from auditor.policy_file import read_policy

    return Policy() if path is None else read_policy(path)


def _options(
    cpus: str | None,
    window: str,
    workload: str | None,
    own_irq: list[str] | None,
    root: str,
    *,
    load: bool,
    work: Work | None,
    force: bool,
) -> Options:
    """What `run` and `record` have in common. Raises UsageError."""
    from auditor.session import Options

    return Options(
        cpus=cpus,
        window_s=parse_window(window),
        workload=workload,
        own_irqs=tuple(own_irq or ()),
        root=root,
        load=load,
        work=work.value if work else None,
        force=force,
    )


def _replayed(path: str, options: Options, *, timed: bool) -> Measured:
    """A default is no evidence of how long someone's own copies lay apart: without --window the recording must tell."""
    from auditor.recordings import replay

    if options.load or options.work or options.root != "/":
        raise UsageError("--from judges a recording: --root, --load and --work are for a live host")
    window_s = options.window_s if timed else None
    return replay(path, options.cpus, options.workload, window_s, options.own_irqs)


def _write(audit: Audit, outputs: list[str]) -> list[AuditError]:
    """Every file; what could not be written is returned: a full disk costs one file, not the measurement."""
    from auditor.output import write_file
    from reports import format_of_suffix, render

    failed: list[AuditError] = []
    for path in outputs:
        try:
            write_file(path, render(audit, format_of_suffix(suffix(path))).encode())
        except AuditError as error:
            failed.append(error)
    return failed


def _print(audit: Audit, format_: Format) -> None:
    """The report on stdout."""
    from auditor.output import write_stdout
    from reports import render

    write_stdout(render(audit, format_.value, color=format_ is Format.TEXT and wants_color()))


def wants_color() -> bool:
    """A terminal that takes colours and a user who did not forbid them (no-color.org)."""
    import os

    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def suffix(path: str) -> str:
    """What gives a result file its format."""
    return "." + path.rpartition("/")[2].rpartition(".")[2] if "." in path.rpartition("/")[2] else ""


def check_recording(path: str) -> str | None:
    """The directory inside a .tar.gz, None for a plain directory. Raises UsageError where it can't be written."""
    import os

    base = os.path.basename(os.path.abspath(path))
    for ending in (".tar.gz", ".tgz"):
        if base.endswith(ending):
            prepare_output(path)
            return base.removesuffix(ending) or "recording"
    if suffix(base).lower() in REPORT_SUFFIXES:
        raise UsageError(f"-o {path}: a recording is a directory or a .tar.gz; `run --from` makes a report of it")
    if os.path.exists(path):
        raise UsageError(f"-o {path}: exists already; name a new directory, or a file ending in .tar.gz")
    prepare_output(os.path.abspath(path))
    return None


def prepare_output(path: str) -> None:
    """Whether it can be written, and what a killed run left beside it. Raises UsageError."""
    from auditor.output import check_writable, clean_beside

    check_writable(path)
    for name in clean_beside(path):
        log(f"left behind by an earlier run: removed {name}")


def parse_window(text: str) -> float:
    """Seconds of a duration as in 30s, 500ms, 5m. Raises UsageError below one second or above a day."""
    match = DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * UNIT_S[match[2]] if match else 0.0
    if not match or not 1 <= seconds <= MAX_WINDOW_S:
        raise UsageError(f"--window {text!r}: give a duration from 1s to 24h, as in 30s or 5m")
    return seconds


def log(text: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(f"cpu-audit: {text}\n")


def main() -> NoReturn:
    """Runs a command. Any error that a user can cause ends as one line on stderr and its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = _run()
    _deaf()
    sys.exit(code)


def _run() -> int:
    try:
        return int(app(standalone_mode=False) or ExitCode.OK)
    except AuditError as error:
        log(str(error))
        return error.exit_code
    except USAGE_ERROR as error:
        log(f"{error.format_message()} See cpu-audit --help, cpu-audit run --help.")
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        _deaf()
        log(str(Interrupted()))
        return ExitCode.INTERRUPTED


def _deaf() -> None:
    """The exit code is settled: a signal that comes while Python shuts down would only print a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
