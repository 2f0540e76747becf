"""The README says what the program says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.model import ExitCode, Readiness, Status

ROOT = Path(__file__).parents[1]
PATH = ROOT / "README.md"
README = PATH.read_text(encoding="utf-8")
HELP = re.compile(r"(?<=<!-- help: run -->\n```text\n).*?(?=```\n)", re.DOTALL)
CONSOLE_SCRIPT = "import sys; sys.argv[0] = 'cpu-audit'; from auditor.__main__ import main; sys.exit(main())"


def help_text(*command: str) -> str:
    """What ``cpu-audit COMMAND --help`` prints on a terminal of 100 columns without colours."""
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    argv = [sys.executable, "-c", CONSOLE_SCRIPT, *command, "--help"]
    return (
        subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout.strip()
        + "\n"
    )


def test_help_block_is_the_help(request: pytest.FixtureRequest) -> None:
    expected = help_text("run")
    if request.config.getoption("--update-golden"):
        PATH.write_text(HELP.sub(lambda _: expected, README), encoding="utf-8")
    block = HELP.search(PATH.read_text(encoding="utf-8"))
    assert block is not None
    assert block.group() == expected


def head_of(recording: str) -> str:
    """What ``cpu-audit run --from`` prints of a recorded host before it goes into the CPUs."""
    argv = [sys.executable, "-m", "auditor", "run", "--from", f"tests/hosts/{recording}"]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return re.split(r"^CPUs? [0-9,-]+ \(", text, maxsplit=1, flags=re.MULTILINE)[0].strip() + "\n"


@pytest.mark.parametrize("recording", ["pinning-lab-without", "pinning-lab-with"])
def test_output_block_is_the_output(request: pytest.FixtureRequest, recording: str) -> None:
    expected = head_of(recording)
    block = re.compile(rf"(?<=<!-- output: {recording} -->\n```text\n).*?(?=```\n)", re.DOTALL)
    if request.config.getoption("--update-golden"):
        PATH.write_text(block.sub(lambda _: expected, PATH.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    found = block.search(PATH.read_text(encoding="utf-8"))
    assert found is not None
    assert found.group() == expected


def table(first_head: str) -> list[list[str]]:
    """Rows of the table whose first column has this head, without its two head lines."""
    lines = README.split(f"\n| {first_head} | ")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_exit_codes_are_those_of_the_model() -> None:
    assert [int(row[0]) for row in table("exit code")] == [code.value for code in ExitCode]


def test_verdicts_are_those_of_the_model_best_first_but_the_unknown() -> None:
    assert {row[0].strip("`") for row in table("verdict")} == {status.value for status in Status}


def test_exit_code_of_each_verdict() -> None:
    from auditor.verdict import exit_code

    codes = {row[0].strip("`"): row[2] for row in table("verdict")}
    for status in Status:
        assert int(codes[status.value].split(",")[0]) == exit_code(status, Readiness.READY)
    assert (
        codes["disturbed"]
        == f"0, with `--fail-on warn` {exit_code(Status.DISTURBED, Readiness.READY, fail_on_warn=True)}"
    )


@pytest.mark.parametrize("name", ["run", "tests"])
def test_commands_are_one_line_to_copy(name: str) -> None:
    block = README.split(f"<!-- ci: {name} -->\n```sh\n")[1].split("```")[0]
    assert block.count("\n") == 1
    assert block.startswith("apt-get update && apt-get install -y ")


def test_the_test_command_installs_what_nodes_need() -> None:
    command = README.split("<!-- ci: tests -->\n```sh\n")[1].split("```")[0]
    packages = (ROOT / "tests/node/packages.txt").read_text(encoding="utf-8").split()
    assert set(packages) <= set(command.split())


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
