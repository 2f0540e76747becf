"""Boots a node, runs one command in it, brings back what it printed and wrote."""

import atexit
import logging
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.node import artifacts
from tests.node.errors import DIED_CODE, TIMEOUT_CODE, GuestDied, NodeError, NodeTimeout
from tests.node.machine import Machine, qemu_argv

CHECKOUT = artifacts.CHECKOUT
GUEST_ENV = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "OUT": "/job/out",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
    "TMPDIR": "/run/tmp",
}
LEFT_BY_A_RUN = ("code", ".code", "stdout", "stderr", "console.log", "qemu.log")

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeResult:
    """A finished command: its exit code and output, the directory that was $OUT, the kernel's console."""

    code: int
    stdout: str
    stderr: str
    out: Path
    console: str
    wall_s: float
    deaths: int = 0


def guest_command(command: str | Sequence[str], env: Mapping[str, str], cwd: Path) -> str:
    """The script that runs ``command`` in the guest: a string goes to bash, a sequence is an argv."""
    argv = ["/bin/bash", "-c", command] if isinstance(command, str) else list(command)
    settings = [f"{name}={value}" for name, value in {**GUEST_ENV, **env}.items()]
    return f"cd {shlex.quote(str(cwd))} && exec /usr/bin/env -i {shlex.join([*settings, *argv])}\n"


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _result(job: Path, code: int, wall_s: float, deaths: int) -> NodeResult:
    return NodeResult(
        code=code,
        stdout=_text(job / "stdout"),
        stderr=_text(job / "stderr"),
        out=job / "out",
        console=_text(job / "console.log") + _text(job / "qemu.log"),
        wall_s=wall_s,
        deaths=deaths,
    )


def _temporary_job() -> Path:
    job = Path(tempfile.mkdtemp(prefix="cpu-audit-node-"))
    atexit.register(shutil.rmtree, job, ignore_errors=True)
    return job


def _clear(job: Path) -> None:
    for name in LEFT_BY_A_RUN:
        (job / name).unlink(missing_ok=True)
    shutil.rmtree(job / "out", ignore_errors=True)
    (job / "out").mkdir(parents=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A machine to boot. ``run`` may be called often, also from several threads: every call boots a guest of its own.

    ``smp`` is added to QEMU's -smp ("threads=2"), ``extra`` to its argv; ``queues`` of the disk: 0 is one per CPU;
    ``acpi_idle`` gives the CPUs idle states.
    A guest that dies is booted once more unless ``retry`` is false: under ``tcg="multi"`` a kernel now and then panics
    for no fault of the command; ``tcg="single"`` lets a spinning CPU starve the others. ``late_cpus`` starts all CPUs
    but CPU 0 from the initramfs (see LATE_CPUS in machine.py); false when CPU 0 is no housekeeping CPU.
    """

    kernel: str = "6.12-rt"
    cpus: int = 4
    mem_mib: int = 2048
    append: str = ""
    smp: str = ""
    queues: int = 0
    tcg: str = "multi"
    late_cpus: bool = True
    acpi_idle: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = CHECKOUT
    retry: bool = True
    extra: Sequence[str] = ()

    def run(self, command: str | Sequence[str], *, timeout: float = 300, job: Path | None = None) -> NodeResult:
        """Runs ``command`` as root in ``cwd`` (a string in bash, a sequence as argv), each boot for ``timeout`` s.

        ``job`` keeps the files (out/, stdout, stderr, console.log); without it they go when this process ends.
        Raises GuestDied, NodeTimeout, or NodeError when no node can be built here.
        """
        machine = self._machine((job or _temporary_job()).resolve())
        try:
            return self._boot(machine, command, timeout, deaths=0)
        except GuestDied as death:
            if not self.retry:
                raise
            (machine.job / "console-died.log").write_text(death.result.console)
            log.warning("%s", death)
        return self._boot(machine, command, timeout, deaths=1)

    def _machine(self, job: Path) -> Machine:
        kernel = artifacts.fetch_kernel(self.kernel)
        return Machine(
            vmlinux=artifacts.vmlinux(kernel),
            initramfs=artifacts.initramfs(kernel),
            modules=kernel.modules,
            job=job,
            cpus=self.cpus,
            mem_mib=self.mem_mib,
            append=self.append,
            smp=self.smp,
            queues=self.queues,
            tcg=self.tcg,
            late_cpus=self.late_cpus,
            idle_table=artifacts.idle_table(self.cpus) if self.acpi_idle else None,
            extra=self.extra,
        )

    def _boot(self, machine: Machine, command: str | Sequence[str], timeout_s: float, deaths: int) -> NodeResult:
        job = machine.job
        _clear(job)
        (job / "command").write_text(guest_command(command, self.env, self.cwd))
        (job / "modules").write_text(f"{machine.modules}\n")
        artifacts.make_scratch(machine.scratch)
        started = time.monotonic()
        try:
            status = _run_qemu(qemu_argv(machine), job / "qemu.log", timeout_s)
        finally:
            machine.scratch.unlink(missing_ok=True)
        wall_s = time.monotonic() - started
        code = _text(job / "code").strip()
        if code:
            return _result(job, int(code), wall_s, deaths)
        if status is None:
            raise NodeTimeout("the guest was killed", _result(job, TIMEOUT_CODE, wall_s, deaths))
        if status > 0:  # a panic ends QEMU with 0, a crash of QEMU itself with a signal
            raise NodeError(f"QEMU refused: {_text(job / 'qemu.log').strip()}")
        raise GuestDied("the guest died", _result(job, DIED_CODE, wall_s, deaths))


def _run_qemu(argv: Sequence[str], errors: Path, timeout_s: float) -> int | None:
    """QEMU's exit status at its end, None when ``timeout_s`` passed first. No way out of here leaves it running."""
    # setpriv: QEMU goes with us even when we are killed by SIGKILL.
    with errors.open("wb") as stderr:
        qemu = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *argv],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )
    try:
        return qemu.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        qemu.kill()
        qemu.wait()
