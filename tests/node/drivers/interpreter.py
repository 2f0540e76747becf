"""Runs in a guest behind the shell function cpu_audit (audits.py): forks the command for each request.

Usage: interpreter.py IN OUT, two FIFOs. A request is a line in IN: the PID of a process whose stdin, stdout and stderr
the command gets, and its arguments, with tabs between them. The exit code is a line in OUT.
"""

from __future__ import annotations

import os
import sys

from tests.node.drivers.forks import Fork, load


def answer(request: str) -> int:
    """The exit code of one audit."""
    client, *argv = request.split("\t")
    stdin = os.open(f"/proc/{client}/fd/0", os.O_RDONLY)
    stdout, stderr = (os.open(f"/proc/{client}/fd/{number}", os.O_WRONLY | os.O_APPEND) for number in (1, 2))
    code = Fork(argv, stdout, stderr, stdin).wait()
    for file in (stdin, stdout, stderr):
        os.close(file)
    return code


def main(requests: str, answers: str) -> None:
    """Until the guest goes."""
    load()
    while True:
        with open(requests, encoding="utf-8") as file:
            line = file.readline().rstrip("\n")
        with open(answers, "w", encoding="utf-8") as file:
            file.write(f"{answer(line)}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
