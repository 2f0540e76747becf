"""The command line, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from auditor import cli, output, session
from auditor.errors import UsageError
from auditor.model import Audit
from auditor.policy import Policy
from auditor.recordings import recording_entries, replay
from auditor.session import Options, judge, measure
from auditor.stop import Stop
from probes.host import TreeHost
from probes.interrupts import InterruptKind, read_interrupts
from probes.record import Recorder

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to audit and another one to run on"
)
LAST = max(os.sched_getaffinity(0))
CPUS = ("--cpus", str(LAST))
HOST = Path(__file__).parents[1] / "hosts" / "pinning-lab-with"
ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "auditor")


def cpu_audit(*arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
    values: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": False, **given}
    return subprocess.run((*COMMAND, *arguments), **values)


def refused(arguments: Sequence[str], code: int = 2) -> str:
    """The one line on stderr."""
    done = cpu_audit(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("cpu-audit: ")
    return lines[0].removeprefix("cpu-audit: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cpus", "4095"], r"CPU 4095 is not online \(online: .*\); choose others with --cpus"),
        (["--cpus", "all-of-them"], r"--cpus 'all-of-them': no CPU list: 'all-of-them'; write it as in 1,5 or 2-7"),
        (["--cpus", "1 5"], r"--cpus '1 5': no CPU list: '1 5'; write it as in 1,5 or 2-7"),
        (["--cpus", "\x1b[31m"], r"--cpus '\\x1b\[31m': no CPU list.*"),
        (["--cpus", ""], r"--cpus names no CPU; .*"),
        ([*CPUS, "--window", "0.5s"], r"--window '0.5s': give a duration from 1s to 24h, as in 30s or 5m"),
        ([*CPUS, "--window", "25h"], r"--window '25h': .*"),
        ([*CPUS, "--window", "soon"], r"--window 'soon': .*"),
        ([*CPUS, "-o", "/proc/a.json"], r"-o /proc/a.json: /proc is not writable \(.*\)"),
        ([*CPUS, "-o", "/nonexistent/a.json"], r"-o /nonexistent/a.json: there is no directory /nonexistent"),
        ([*CPUS, "-o", "/tmp"], r"no report is written as ''; known are .*"),
        ([*CPUS, "-o", "a.docx"], r"no report is written as '.docx'; known are .*"),
        (
            ["--from", str(HOST), "--own-irq", "nvme9q*"],
            r"--own-irq 'nvme9q\*': no device interrupt has .* nvme0q\d \(.*",
        ),
        ([*CPUS, "--own-irq", "nothing-of-this-name"], r"--own-irq 'nothing-of-this-name': no device interrupt .*"),
        (["--from", "/nonexistent"], r"--from /nonexistent: .*"),
        (["--from", ""], r"--from .*"),
        (["--from", "/proc/self/fd"], r"--from .*"),
        ([*CPUS, "--workload", "nothing"], r"--workload 'nothing': no such process, unit or cgroup is visible; .*"),
        (
            ["--from", "x", "--work", "spin"],
            r"--from judges a recording: --root, --load and --work are for a live host",
        ),
        (["--from", "x", "--load"], r"--from judges a recording: .*"),
    ],
)
def test_what_can_not_be_used_is_refused_in_one_line(arguments: list[str], message: str) -> None:
    assert re.fullmatch(message, refused(["run", *arguments]))


def test_a_directory_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    assert refused(["run", "--from", str(tmp_path)]) == f"--from {tmp_path}: no trees t0 and t1: not a recording"
    (tmp_path / "a.json").write_text("{}")
    assert "--from" in refused(["run", "--from", str(tmp_path / "a.json")])


def test_all_cpus_can_not_be_audited() -> None:
    online = Path("/sys/devices/system/cpu/online").read_text().strip()
    assert refused(["run", "--cpus", online]).startswith(f"all online CPUs ({online}) are audited")


def test_a_recording_is_not_written_over_anything(tmp_path: Path) -> None:
    assert refused(["record", *CPUS, "-o", str(tmp_path)]).endswith(
        "exists already; name a new directory, or a file ending in .tar.gz"
    )
    assert refused(["record", *CPUS, "-o", "/nonexistent/a.tar.gz"]).endswith("there is no directory /nonexistent")


def test_what_typer_refuses_is_2_without_a_traceback() -> None:
    for arguments in (["run", "--nothing"], ["run", "--work", "nap"], ["nothing"], ["record"]):
        done = cpu_audit(*arguments)
        assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)


def test_the_version_and_the_help() -> None:
    assert cpu_audit("--version").stdout.startswith("cpu-audit ")
    assert cpu_audit("run", "--help").returncode == 0


def test_a_run_prints_and_writes_in_the_formats_of_the_suffixes(tmp_path: Path) -> None:
    one, two = tmp_path / "a.json", tmp_path / "b.txt"
    done = cpu_audit("run", "--from", str(HOST), "-o", str(one), "-o", str(two), "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(one.read_text()) == json.loads(done.stdout)
    assert json.loads(done.stdout)["schema"] == "cpu-audit/audit/v1"
    assert two.read_text().startswith("isolated  CPUs 1,5 on ")
    assert sorted(os.listdir(tmp_path)) == ["a.json", "b.txt"]


@pytest.mark.parametrize(
    ("host", "arguments", "code"),
    [("pinning-lab-with", [], 0), ("pinning-lab-without", [], 3), ("pinning-lab-without", ["--fail-on", "warn"], 3)],
)
def test_exit_codes_of_recorded_hosts(host: str, arguments: list[str], code: int) -> None:
    assert cpu_audit("run", "--from", str(HOST.parent / host), *arguments).returncode == code


def test_a_full_disk_under_stdout_is_1_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = cpu_audit("run", "--from", str(HOST), stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert (done.returncode, done.stderr) == (1, "cpu-audit: stdout: No space left on device\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed:
        done = cpu_audit("run", "--from", str(HOST), stdout=closed, stderr=subprocess.PIPE, capture_output=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_our_signs_gets_escapes() -> None:
    done = cpu_audit("run", "--from", str(HOST), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "\\u2264" in done.stdout


def wait_for_the_window(process: subprocess.Popen[bytes]) -> None:
    """Until the tool has left the audited CPU, which it does first, and then sleeps: it samples once a second."""
    seen = []
    for _ in range(600):
        assert process.poll() is None
        status = Path(f"/proc/{process.pid}/status").read_text()
        pinned = LAST not in os.sched_getaffinity(process.pid)
        switches = [line for line in status.splitlines() if "ctxt_switches" in line]
        seen.append(switches if pinned and "State:\tS" in status else None)
        if len(seen) > 7 and seen[-1] and seen[-8:] == [seen[-1]] * 8:
            return
        time.sleep(0.05)
    raise AssertionError("it never slept")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_window_and_what_was_measured_is_written(tmp_path: Path, number: signal.Signals) -> None:
    result = tmp_path / "a.json"
    running = subprocess.Popen(
        (*COMMAND, "run", *CPUS, "--window", "30s", "-o", str(result)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for_the_window(running)
    sent = time.monotonic()
    running.send_signal(number)
    _, errors = running.communicate(timeout=30)
    took = time.monotonic() - sent
    assert (running.returncode, errors) == (130, b"")
    assert took < 10  # a busy machine; by itself it takes a tenth of a second
    document = json.loads(result.read_text())
    assert document["interrupted"] is True
    assert document["window"]["requested_ms"] == 30_000
    assert 0 < document["window"]["window_ms"] < 20_000


def test_a_signal_before_the_window_leaves_nothing(tmp_path: Path) -> None:
    """While modules are loaded: the tool ends at once, as any other."""
    running = subprocess.Popen(
        (*COMMAND, "run", *CPUS, "-o", str(tmp_path / "a.json")), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=30)
    assert running.returncode in (-signal.SIGTERM, 130)
    assert running.returncode == 130 or (output, os.listdir(tmp_path)) == (b"", [])


def test_a_run_and_its_recording_find_the_same(tmp_path: Path) -> None:
    """The same observation, judged where it was made and from its files."""
    before = os.sched_getaffinity(0)
    recorder = Recorder(TreeHost("/"))
    try:
        with Stop() as stop:
            measured = measure(Options(cpus=str(LAST), window_s=2), stop, lambda text: None, recorder)
    finally:
        os.sched_setaffinity(0, before)
    directory = tmp_path / "rec"
    for name, data in recording_entries(measured, recorder):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    live, again = judge(measured, Policy()), judge(replay(str(directory), None, None, None), Policy())
    assert [finding for finding in again.findings if finding not in live.findings] == []
    assert again.findings == live.findings
    assert (again.causes, again.cpu_verdicts, again.activity) == (live.causes, live.cpu_verdicts, live.activity)
    assert (again.coverage, again.config, again.overhead) == (live.coverage, live.config, live.overhead)
    assert again == live


def test_own_interrupts_are_kept_by_a_recording_and_in_the_document(tmp_path: Path) -> None:
    rows = read_interrupts(TreeHost()).rows
    number = next((row.irq for row in rows if row.kind is InterruptKind.DEVICE and row.actions), None)
    if number is None:
        pytest.skip("this machine has no device interrupt")
    target = str(tmp_path / "rec")
    assert cpu_audit("record", *CPUS, "--window", "1s", "--own-irq", str(number), "-o", target).returncode == 0
    document = json.loads(cpu_audit("run", "--from", target, "--format", "json").stdout)
    assert [item["irq"] for item in document["own"]["interrupts"]] == [number]


@pytest.mark.parametrize("name", ["rec", "rec.tar.gz"])
def test_record_and_run_from_it(tmp_path: Path, name: str) -> None:
    target = str(tmp_path / name)
    done = cpu_audit("record", *CPUS, "--window", "1s", "-o", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"cpu-audit: recorded: cpu-audit run --from {target}\n"
    first, second = (cpu_audit("run", "--from", target, "--format", "json") for _ in range(2))
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    assert document["cpus"]["audited"] == str(LAST)
    assert document["window"]["requested_ms"] == 1000
    assert first.returncode in (3, 4)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("30s", 30), ("1", 1), ("1000ms", 1), ("1.5s", 1.5), ("5m", 300), ("24h", 86_400), (" 2s ", 2)],
)
def test_durations(text: str, seconds: float) -> None:
    assert cli.parse_window(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "0", "0.999s", "999ms", "24.1h", "-5s", "1e3s", "5 s", "1d", "٣s", "inf", "nan"]
)
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="give a duration from 1s to 24h"):
        cli.parse_window(text)


@pytest.mark.parametrize(
    ("path", "suffix"),
    [("a.json", ".json"), ("/x.d/a", ""), ("a.tar.gz", ".gz"), ("/x/.json", ".json"), ("a.", "."), ("", "")],
)
def test_suffixes(path: str, suffix: str) -> None:
    assert cli.suffix(path) == suffix


def test_where_a_recording_goes(tmp_path: Path) -> None:
    assert cli.check_recording(str(tmp_path / "a.tar.gz")) == "a"
    assert cli.check_recording(str(tmp_path / "a.tgz")) == "a"
    assert cli.check_recording(str(tmp_path / ".tar.gz")) == "recording"
    assert cli.check_recording(str(tmp_path / "a")) is None
    assert cli.check_recording(str(tmp_path / "a") + "/") is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--bogus"), "No such option: --bogus"),
        (("run", "--work", "sleep"), "'sleep' is not one of 'spin', 'cyclictest'"),
        (("bogus",), "No such command 'bogus'"),
        (("record",), "Missing option"),
        (("run", "--cpus"), "'--cpus' requires an argument"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = cpu_audit(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
    assert done.stderr.startswith("cpu-audit: ")


def test_without_a_command_it_helps_and_does_not_pass() -> None:
    done = cpu_audit()
    assert (done.returncode, done.stderr) == (2, "")
    assert "Commands:" in done.stdout


def test_a_file_that_fails_does_not_cost_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a disk does that is full for the first file: the other is written, the report printed, then the error told."""

    def full_for_the_first(path: str, data: bytes) -> None:
        if path.endswith("bad.json"):
            raise output.OutputError(f"{path}: no space left on device")
        Path(path).write_bytes(data)

    monkeypatch.setattr(output, "write_file", full_for_the_first)
    good = tmp_path / "good.json"
    with pytest.raises(output.OutputError, match="no space left"):
        run_in_process("--from", str(HOST), "-o", str(tmp_path / "bad.json"), "-o", str(good))
    assert json.loads(good.read_text())["verdict"]["status"] == "isolated"
    assert capsys.readouterr().out.startswith("isolated")


def run_in_process(*arguments: str) -> Any:
    return cli.app(["run", *arguments], standalone_mode=False)


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_who_leaves_while_the_report_is_printed_has_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "write_stdout", interrupt)
    assert run_in_process("--from", str(HOST), "-o", str(tmp_path / "a.json")) == 0
    assert json.loads((tmp_path / "a.json").read_text())["verdict"]["status"] == "isolated"
    monkeypatch.setattr(sys, "argv", ["cpu-audit", "run", "--from", str(HOST)])
    assert cli._run() == 130


@pytest.fixture
def _as_before() -> Iterator[None]:
    """What a live run in this process changes."""
    cpus, handlers = os.sched_getaffinity(0), {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    yield
    os.sched_setaffinity(0, cpus)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_as_before")
def test_a_signal_while_judging_is_told_and_one_while_writing_is_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(measured: object, policy: Policy) -> Audit:
        if early:
            os.kill(os.getpid(), signal.SIGINT)
        return judge(replay(str(HOST), None, None, None), Policy())

    def write(path: str, data: bytes) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        written(path, data)

    written = output.write_file
    monkeypatch.setattr(session, "judge", judged)
    monkeypatch.setattr(session, "measure", lambda *_: None)
    monkeypatch.setattr(output, "write_file", write)
    for early, code in ((True, 130), (False, 0)):
        assert run_in_process(*CPUS, "-o", str(tmp_path / "a.json")) == code
        assert json.loads((tmp_path / "a.json").read_text())["interrupted"] is early


@pytest.mark.usefixtures("_as_before")
def test_signals_are_ignored_once_the_exit_code_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", interrupt)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == [signal.SIG_IGN] * 2


def test_what_a_killed_run_was_writing_is_removed_and_said(tmp_path: Path) -> None:
    left = tmp_path / f"{output._prefix().replace(str(os.getpid()), '999999999')}x"
    left.write_text("half")
    done = cpu_audit("run", "--from", str(HOST), "-o", str(tmp_path / "a.json"))
    assert (done.returncode, os.listdir(tmp_path)) == (0, ["a.json"])
    assert done.stderr == f"cpu-audit: left behind by an earlier run: removed {left.name}\n"


@pytest.mark.parametrize("name", ["a.json", "a.html"])
def test_a_recording_is_no_report(tmp_path: Path, name: str) -> None:
    assert "a recording is a directory or a .tar.gz" in refused(["record", *CPUS, "-o", str(tmp_path / name)])


def test_rules_prints_the_catalogue_and_one_rule() -> None:
    every, one = cpu_audit("rules"), cpu_audit("rules", "stEAL")
    golden = Path(__file__).parents[1] / "reports" / "golden"
    assert (every.returncode, every.stderr) == (0, "")
    assert every.stdout == (golden / "rules.txt").read_text(encoding="utf-8")
    assert (one.returncode, one.stderr) == (0, "")
    assert one.stdout.startswith("STEAL  time stolen by the hypervisor\n")


def test_rules_as_a_document() -> None:
    every, one = (json.loads(cpu_audit("rules", *ids, "--format", "json").stdout) for ids in ((), ("TICK.LOC",)))
    assert every["schema"] == one["schema"] == "cpu-audit/rules/v1"
    assert one["rules"] == [rule for rule in every["rules"] if rule["id"] == "TICK.LOC"]


def test_a_rule_that_is_none_is_refused() -> None:
    assert refused(["rules", "IRQ.DEVISE"]) == "no rule 'IRQ.DEVISE': there is IRQ.DEVICE"


WAIVED = """
[[waivers]]
rule = "IRQ.DEVICE"
cpus = "1,5"
reason = "wifi \u202e stays"
expires = 2999-12-31
[[waivers]]
rule = "CFG.DOMAIN"
cpus = "1,5"
reason = "old"
expires = 2020-12-31
"""


def test_policy_init_prints_what_policy_check_takes(tmp_path: Path) -> None:
    printed = cpu_audit("policy", "init")
    assert (printed.returncode, printed.stderr) == (0, "")
    path = tmp_path / "site.toml"
    path.write_text(printed.stdout, encoding="utf-8")
    checked = cpu_audit("policy", "check", "site.toml", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout == "Policy site.toml\n  nothing but the defaults\n"


def test_policy_check_tells_what_it_changes_and_which_waivers_hold(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("busy_poll = true\n" + WAIVED, encoding="utf-8")
    done = cpu_audit("policy", "check", "p", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Policy p\n"
        "  busy-poll: the tick is decisive\n"
        "  waiver of IRQ.DEVICE on CPUs 1,5 until 2999-12-31: in effect; wifi \\u202e stays\n"
        "  waiver of CFG.DOMAIN on CPUs 1,5 until 2020-12-31: expired, no effect; old\n"
    )


def test_a_policy_that_can_not_be_used_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text("bussy_poll = true", encoding="utf-8")
    message = f"policy {str(path)!r}: unknown key 'bussy_poll'; there is busy_poll"
    assert refused(["policy", "check", str(path)]) == message
    assert refused(["run", *CPUS, "--window", "20m", "--policy", str(path)]) == message
    assert refused(["run", "--policy", str(path) + "x"]) == (
        f"policy {str(path) + 'x'!r}: No such file or directory; `cpu-audit policy init` prints one"
    )


def test_a_run_by_a_policy_says_so(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text(WAIVED, encoding="utf-8")
    host = HOST.with_name("pinning-lab-without")
    done = cpu_audit("run", "--from", str(host), "--policy", str(path), "--format", "json")
    assert (done.returncode, done.stderr) == (3, "")
    document = json.loads(done.stdout)
    assert document["policy"]["source"] == str(path)
    assert [(use["rule"], use["state"], use["findings"]) for use in document["policy"]["waivers"]] == [
        ("IRQ.DEVICE", "in-effect", 3),
        ("CFG.DOMAIN", "expired", 0),
    ]
    assert document["verdict"]["waivers"] == 1
    waived = [finding for finding in document["findings"] if finding["waived"]]
    assert {(finding["rule"], finding["outcome"], finding["waived"]) for finding in waived} == {
        ("IRQ.DEVICE", "fail", "until 2999-12-31: wifi \u202e stays")
    }
    text = cpu_audit("run", "--from", str(host), "--policy", str(path)).stdout
    assert text.startswith("not-isolated with 1 waiver  CPUs 1,5 on pinning-lab ")
    assert "device interrupts: iwlwifi  [IRQ.DEVICE]  (waived)\n" in text
    assert "waiver of CFG.DOMAIN on CPUs 1,5 until 2020-12-31: expired, no effect; old\n" in text
