"""/proc/PID/task/TID/stat of every thread of real machines."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache

from auditor.model import BAD
from auditor.rules import RULES
from probes.threads import is_service, parse_processor
from tests.auditor.build import Thread, context, findings
from tests.cases.claims import claim
from tests.probes.collected import CASES

KIND = "threads"
BOUND = re.compile(r"(?:migration|ksoftirqd|watchdog|cpuhp|rcuc|irq_work)/(\d+)|kworker/(\d+):.*", re.ASCII)


@cache
def stats(name: str) -> tuple[str, ...]:
    return tuple((CASES / KIND / f"{name}.stat").read_text(encoding="utf-8").splitlines())


def comm(line: str) -> str:
    return line.partition("(")[2].rpartition(")")[0]


def ran_on(name: str, match: re.Match[str]) -> None:
    lines = stats(name)
    assert len(lines) == int(match[1])
    assert dict(Counter(parse_processor(f"{line}\n") for line in lines)) == ast.literal_eval(match[2])


def hostile_names(name: str, match: re.Match[str]) -> None:
    """Each of them has a processor field all the same, and bound threads are where their names say."""
    hostile = [line for line in stats(name) if re.search(r"[][() ]", comm(line))]
    names = [] if match[1] == "none" else ast.literal_eval(match[1])
    assert (sorted({comm(line) for line in hostile}), len(hostile)) == (names, int(match[2]))
    assert all(parse_processor(f"{line}\n") >= 0 for line in hostile)
    bound = [(found, line) for line in stats(name) if (found := BOUND.fullmatch(comm(line)))]
    assert bound
    assert all(parse_processor(f"{line}\n") == int(found[1] or found[2]) for found, line in bound)


def bound_threads_are_no_breach(name: str, match: re.Match[str]) -> None:
    """Seen on their CPU, and not run in the window: no rule warns of them."""
    names = sorted({comm(line) for line in stats(name) if BOUND.fullmatch(comm(line)) and "/1" in comm(line)})
    assert {"migration/1", "ksoftirqd/1"} <= set(names)
    threads = [Thread(tid=900 + at, name=found, kernel=True, seen={1: 5}) for at, found in enumerate(names)]
    ctx = context(threads=threads)
    judged = {rule.id: [item.outcome for item in findings(ctx, rule.id)] for rule in RULES if rule.id[:4] == "THR."}
    assert set(judged) >= {"THR.FOREIGN", "THR.KBOUND", "THR.KUNBOUND", "THR.USER"}
    assert not [rule for rule, outcomes in judged.items() if set(outcomes) & set(BAD)]
    assert is_service(threads[names.index("migration/1")].status(after=True))


CLAIMS = (
    claim(r"(\d+) threads; last-ran-on counts: (\{.*\}); lines without a processor field: 0", ran_on),
    claim(
        r"comm values with blank or bracket: (.*) \((\d+) threads\); "
        r"per-CPU kthreads found on another CPU than their name says: none",
        hostile_names,
    ),
    claim(r"a per-CPU kthread \(.*\) on CPU N is no isolation breach by itself", bound_threads_are_no_breach),
)
