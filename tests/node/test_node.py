"""What happens around a guest, with QEMU played by a function."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.node import __main__ as cli
from tests.node import artifacts, node, require
from tests.node.errors import GuestDied, NodeError, NodeTimeout, last_words
from tests.node.machine import Machine
from tests.node.node import CHECKOUT, GUEST_ENV, Node, guest_command

ENV = " ".join(f"{name}={value}" for name, value in GUEST_ENV.items())
Qemu = Callable[[Sequence[str], Path, float], "int | None"]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Qemu], None]:
    """Replaces QEMU and all that it boots from."""

    def machine(self: Node, job: Path) -> Machine:
        return Machine(vmlinux=job / "v", initramfs=job / "i", modules=Path("/m"), job=job)

    def replace(qemu: Qemu) -> None:
        monkeypatch.setattr(Node, "_machine", machine)
        monkeypatch.setattr(artifacts, "make_scratch", Path.touch)
        monkeypatch.setattr(node, "_run_qemu", qemu)

    return replace


def test_a_string_is_for_bash_and_a_sequence_is_an_argv() -> None:
    assert guest_command("echo $OUT", {}, Path("/a b")) == (
        f"cd '/a b' && exec /usr/bin/env -i {ENV} /bin/bash -c 'echo $OUT'\n"
    )
    assert guest_command(["echo", "$OUT"], {"K": "v w"}, Path("/c")) == (
        f"cd /c && exec /usr/bin/env -i {ENV} 'K=v w' echo '$OUT'\n"
    )


def test_result_of_a_finished_guest(play: Callable[[Qemu], None], tmp_path: Path) -> None:
    def qemu(argv: Sequence[str], errors: Path, timeout_s: float) -> int:
        assert (tmp_path / "modules").read_text() == "/m\n"
        assert (tmp_path / "scratch.img").exists()
        assert timeout_s == 300
        (tmp_path / "stdout").write_bytes(b"a\xff\n")
        (tmp_path / "stderr").write_text("b\n")
        (tmp_path / "out" / "file").write_text("c")
        (tmp_path / "code").write_text("7\n")
        return 0

    play(qemu)
    result = Node().run("x", job=tmp_path)
    assert (result.code, result.stdout, result.stderr, result.deaths) == (7, "a�\n", "b\n", 0)
    assert (result.out / "file").read_text() == "c"
    assert not (tmp_path / "scratch.img").exists()


def test_a_dead_guest_is_booted_once_more(play: Callable[[Qemu], None], tmp_path: Path) -> None:
    boots: list[float] = []

    def qemu(argv: Sequence[str], errors: Path, timeout_s: float) -> int:
        boots.append(timeout_s)
        if len(boots) == 1:
            (tmp_path / "console.log").write_text("Oops: int3")
            (tmp_path / "stdout").write_text("half")
            (tmp_path / "out" / "half").touch()
            return 0
        assert not (tmp_path / "stdout").exists()
        (tmp_path / "code").write_text("0\n")
        return 0

    play(qemu)
    result = Node().run("x", timeout=9, job=tmp_path)
    assert (result.code, result.deaths, boots) == (0, 1, [9, 9])
    assert list(result.out.iterdir()) == []
    assert (tmp_path / "console-died.log").read_text() == "Oops: int3"


@pytest.mark.parametrize(("retry", "boots"), [(True, 2), (False, 1)])
def test_a_guest_that_keeps_dying(play: Callable[[Qemu], None], tmp_path: Path, retry: bool, boots: int) -> None:
    count: list[int] = []

    def qemu(argv: Sequence[str], errors: Path, timeout_s: float) -> int:
        count.append(1)
        (tmp_path / "console.log").write_text("Kernel panic")
        return -11

    play(qemu)
    with pytest.raises(GuestDied, match=r"the guest died after 0\.\d s; its console:\nKernel panic") as died:
        Node(retry=retry).run("x", job=tmp_path)
    assert (died.value.result.code, len(count)) == (125, boots)


def test_timeout_is_not_retried(play: Callable[[Qemu], None], tmp_path: Path) -> None:
    count: list[int] = []

    def qemu(argv: Sequence[str], errors: Path, timeout_s: float) -> None:
        count.append(1)
        (tmp_path / "stdout").write_text("so far")

    play(qemu)
    with pytest.raises(NodeTimeout) as late:
        Node().run("x", job=tmp_path)
    assert (late.value.result.code, late.value.result.stdout, len(count)) == (124, "so far", 1)


def test_qemu_that_refuses_its_arguments(play: Callable[[Qemu], None], tmp_path: Path) -> None:
    def qemu(argv: Sequence[str], errors: Path, timeout_s: float) -> int:
        errors.write_text("qemu: invalid option\n")
        return 1

    play(qemu)
    with pytest.raises(NodeError, match="QEMU refused: qemu: invalid option"):
        Node().run("x", job=tmp_path)


def test_run_qemu_reports_the_status_and_kills_what_is_late(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert node._run_qemu(["sh", "-c", "echo why >&2; exit 3"], log, 10) == 3
    assert log.read_text() == "why\n"
    pid = tmp_path / "pid"
    started = time.monotonic()
    assert node._run_qemu(["sh", "-c", f"echo $$ >{pid}; exec sleep 60"], log, 0.5) is None
    assert time.monotonic() - started < 30
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_qemu_goes_with_a_killed_parent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"""
from pathlib import Path
from tests.node import node
node._run_qemu(["sh", "-c", "echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 60"], Path("{pid}.log"), 60)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT)
    _until(pid.exists)
    parent.kill()
    parent.wait()
    _until(lambda: _gone(int(pid.read_text())))


def test_last_words_start_with_the_death() -> None:
    lines = [str(number) for number in range(60)]
    assert last_words("\n".join(lines)).splitlines() == lines[35:]
    assert last_words("\n".join([*lines[:9], "BUG: x", *lines])).splitlines() == ["BUG: x", *lines[:24]]
    assert last_words("a\nb") == "a\nb"
    assert last_words("") == ""


def _gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"  # nobody may be left to reap it


def _until(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_temporary_jobs_go_with_the_process() -> None:
    script = "from tests.node import node; print(node._temporary_job())"
    shown = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert Path(shown.stdout.strip()).name.startswith("cpu-audit-node-")
    assert not Path(shown.stdout.strip()).exists()


def test_options_of_the_command_line() -> None:
    words = "--cpus 6 --mem 512 --append isolcpus=1,5 --kernel 6.1-rt --tcg single --acpi-idle --smp threads=2"
    more = ["--all-cpus-at-once", "--env", "A=b=c", "--no-retry", "--qemu=-name", "--qemu", "x"]
    command = ["ls", "-l", "--", "x"]
    args = cli._parser().parse_args([*words.split(), *more, "--", *command])
    assert args.command == command
    assert cli._node(args) == Node(
        kernel="6.1-rt",
        cpus=6,
        mem_mib=512,
        append="isolcpus=1,5",
        smp="threads=2",
        tcg="single",
        late_cpus=False,
        acpi_idle=True,
        env={"A": "b=c"},
        retry=False,
        extra=["-name", "x"],
    )


def test_an_unusable_setting_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as usage:
        cli._parser().parse_args(["--env", "A", "--", "ls"])
    assert usage.value.code == 2
    assert "argument --env: 'A' is not K=V" in capsys.readouterr().err


def test_unavailable_skips_unless_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert require.available() == "nodes share the host's root: that takes root"
    monkeypatch.delenv("REQUIRE_NODE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="that takes root"):
        require.require_node()
    monkeypatch.setenv("REQUIRE_NODE", "1")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE_NODE=1, but: nodes share"):
        require.require_node()


def test_unavailable_without_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(require, "TOOLS", ("sh", "no-such-qemu"))
    assert require.available() == "no-such-qemu not found (see tests/node/packages.txt)"
    monkeypatch.setattr(require, "TOOLS", ())
    monkeypatch.setattr(require, "BUSYBOX", Path(sys.executable))
    assert require.available() == f"{sys.executable} is absent or not static (package busybox-static)"
