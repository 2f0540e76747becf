"""The audits that a guest runs, as shell lines, and what came of them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from tests.node.node import NodeResult

PYTHON = sys.executable
AUDITED = "1,3"
# The clocksource watchdog of an emulated TSC visits every CPU; real hardware of today does without it.
TSC = "tsc=reliable"
ISOLATED = f"isolcpus=domain,managed_irq,{AUDITED} nohz_full={AUDITED} rcu_nocbs={AUDITED} irqaffinity=0,2 {TSC}"
"""The whole boot line for the audited CPUs of four."""


def in_background(program: str, cpus: str = "") -> str:
    """The line that leaves a small Python program running, pinned or not; its PID is in $!."""
    pin = f"taskset -c {cpus} " if cpus else ""
    return f"{pin}{PYTHON} -S -c '{program}' &"


# A daemon of the host: awake fifty times a second, and a little work each time.
DAEMON = "import time\nwhile True: time.sleep(0.02); sum(range(500))"
# Three such daemons, lazier, and a log that is synced, which keeps the disk's interrupts flowing. One start: that costs
# the most. Emulated, every wake-up is four milliseconds of the host: more of them and two guests starve each other.
HOST = """import os, time
if os.fork() and os.fork() and os.fork():
    log = os.open("/scratch/log", os.O_CREAT | os.O_WRONLY)
    while True: os.pwrite(log, b"x" * 4096, 0); os.fsync(log); time.sleep(0.1)
while True: time.sleep(0.09); sum(range(500))"""
NOISE = in_background(HOST)
"""What a host does by itself, pinned nowhere. Lighter than --load, so that two guests can run side by side."""


def audit(name: str, *options: str, cpus: str = AUDITED, window: str = "10s", load: bool = False) -> str:
    """The line that runs the command; NAME.json, NAME.txt, NAME.err and NAME.code are left in $OUT."""
    words = ["cpu_audit", "run", "--cpus", cpus, "--window", window, *(["--load"] * load), *options]
    files = f"-o $OUT/{name}.json >$OUT/{name}.txt 2>$OUT/{name}.err"
    return f"{' '.join(words)} {files}; echo $? >$OUT/{name}.code"


def obey(name: str, rule: str) -> str:
    """The lines that type what an audit tells to type for a rule, each command once; NAME.obeyed is how that ended."""
    return f"""{PYTHON} -S -c '
import json, os
found = json.load(open(os.environ["OUT"] + "/{name}.json"))["findings"]
lines = [line for f in found if f["rule"] == "{rule}" and f["fix"] for line in f["fix"]["commands"]]
print("\\n".join(dict.fromkeys(lines)))
' | sed "s/sudo //" >$OUT/{name}.sh; sh -e $OUT/{name}.sh; echo $? >$OUT/{name}.obeyed"""


@dataclass(frozen=True)
class Judged:
    """An audit as the command line gave it."""

    code: int
    text: str
    errors: str
    document: dict[str, Any]

    @property
    def status(self) -> str:
        """The verdict of the host."""
        return str(self.document["verdict"]["status"])

    @property
    def rules(self) -> set[str]:
        """Every rule behind a cause."""
        return {rule for cause in self.document["causes"] for rule in cause["rules"]}

    def cpu_status(self, cpu: int) -> str:
        """The verdict of one CPU."""
        return str(self.document["cpu_verdicts"][str(cpu)]["status"])

    def findings(self, rule: str) -> list[dict[str, Any]]:
        """What a rule found, CPU by CPU."""
        return [finding for finding in self.document["findings"] if finding["rule"] == rule]

    def outcomes(self, rule: str) -> list[str]:
        """Its outcomes."""
        return [finding["outcome"] for finding in self.findings(rule)]

    def details(self, rule: str) -> str:
        """Its sentences."""
        return "\n".join(finding["detail"] for finding in self.findings(rule))

    def turned(self, prefix: str = "", *outcomes: str) -> set[str]:
        """Rules whose id begins so and that warned or failed."""
        wanted = outcomes or ("warn", "fail")
        found = {f["rule"] for f in self.document["findings"] if f["outcome"] in wanted}
        return {rule for rule in found if rule.startswith(prefix)}

    def failed(self) -> list[str]:
        """Everything that failed, for the message of an assertion."""
        return [f"{f['rule']}: {f['detail']}" for f in self.document["findings"] if f["outcome"] == "fail"]


def judged(result: NodeResult, name: str) -> Judged:
    """Reads an audit back; fails the test where it never ended."""
    out = result.out
    assert (out / f"{name}.code").exists(), f"{name} did not end: {result.stderr}"
    document = out / f"{name}.json"
    return Judged(
        code=int((out / f"{name}.code").read_text()),
        text=(out / f"{name}.txt").read_text(),
        errors=(out / f"{name}.err").read_text(),
        document=json.loads(document.read_text()) if document.exists() else {},
    )
