"""Threads that may come: only where the load balancer may send them."""

from __future__ import annotations

import pytest

from auditor.model import Axis, Kind, Outcome
from tests.auditor.build import Thread, context, cpus, edit, findings, gone, only, outcomes

BALANCED = {0: [cpus(0, 1)], 1: [cpus(0, 1)]}
EVERYWHERE = cpus(0, 1)


def daemon(tid: int, name: str, on: frozenset[int] = EVERYWHERE, *, kernel: bool = False) -> Thread:
    return Thread(tid=tid, name=name, on=on, kernel=kernel)


def test_in_a_domain_they_may_come() -> None:
    others = [daemon(10 + n, name) for n, name in enumerate(("sshd", "cron", "sshd", "a", "b", "c"))]
    others += [daemon(30, "kworker", kernel=True), daemon(31, "pinned", cpus(0))]
    found = only(context(domains=BALANCED, threads=others, own=[Thread()]), "THR.ALLOWED")
    assert (found.outcome, found.axis, found.kind) == (Outcome.WARN, Axis.ISOLATION, Kind.RISK)
    assert found.detail == "6 user threads of others may run here: sshd, a, b, c and 1 more"
    assert found.fix is not None


def test_out_of_all_domains_nobody_is_sent() -> None:
    found = only(context(threads=[daemon(10, "sshd")], domains={0: [EVERYWHERE]}), "THR.ALLOWED")
    assert (found.outcome, found.detail, found.fix) == (Outcome.PASS, "the load balancer sends nobody here", None)


def test_nobody_may() -> None:
    found = only(context(domains=BALANCED, threads=[daemon(10, "sshd", cpus(0))]), "THR.ALLOWED")
    assert (found.outcome, found.detail) == (Outcome.PASS, "no user thread of others may run here")


def test_cpus_that_are_alike_share_a_finding() -> None:
    wide = cpus(0, 1, 5)
    ctx = context(audited=(1, 5), domains={1: [wide], 5: [wide]}, threads=[daemon(10, "sshd", wide)])
    assert [(item.cpus, item.outcome) for item in findings(ctx, "THR.ALLOWED")] == [((1, 5), Outcome.WARN)]


@pytest.mark.parametrize(("threads", "outcome"), [([], Outcome.UNKNOWN), ([daemon(10, "sshd")], Outcome.WARN)])
def test_where_threads_are_hidden(threads: list[Thread], outcome: Outcome) -> None:
    assert outcomes(context(domains=BALANCED, complete=False, threads=threads), "THR.ALLOWED") == [outcome]


def test_without_a_census() -> None:
    assert outcomes(edit(context(), "after.census", gone()), "THR.ALLOWED") == [Outcome.UNKNOWN]
