"""The document put together, and what to type next."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor import __version__
from auditor.audit import RunFacts, audit, next_command
from auditor.cli import app
from auditor.context import Context
from auditor.engine import run
from auditor.model import CpuSets, HostFacts, Outcome, OwnFacts, OwnInterrupt, Status, WindowFacts
from auditor.own import OwnRule
from auditor.rules import RULES
from probes.host import SourceState
from tests.auditor.build import FACTS, Thread, context, cpus, edit, gone, irq

OPEN: dict[str, Any] = {"rows": {"30 eth0": {0: 0}}, "affinity": {30: irq(30, cpus(1), settable=False)}}


def parsed(command: str) -> dict[str, Any]:
    """What the command line makes of a command, without running it."""
    words = shlex.split(command)
    assert words[: words.index("run") + 1][-2:] == ["cpu-audit", "run"]
    group = typer.main.get_command(app)
    found = group.commands["run"]  # type: ignore[attr-defined]
    context = found.make_context("run", words[words.index("run") + 1 :], resilient_parsing=False)
    return dict(context.params)


def following(ctx: Context, facts: RunFacts = FACTS) -> str:
    return next_command(ctx, facts, run(RULES, ctx))


def test_an_audit_of_an_isolated_cpu() -> None:
    found = audit(context(hz=250), FACTS)
    assert found.tool == f"cpu-audit {__version__}"
    assert found.host == HostFacts(
        name="node1",
        kernel="6.1.0-13-amd64",
        arch="x86_64",
        cpu_model="Some CPU",
        hypervisor=None,
        hz=250,
        online="0-1",
        boot_id="b",
    )
    assert found.window == WindowFacts(
        started="2026-03-02T10:00:00.000+00:00",
        window_ms=10_000,
        requested_ms=10_000,
        samples=5,
        load=None,
        work=None,
    )
    assert found.cpus == CpuSets(audited="1", control="0", housekeeping="0", chosen_by="--cpus")
    assert found.own == OwnFacts(source="none", description="no thread", threads=0)
    assert found.verdict.status is Status.ISOLATED
    assert set(found.cpu_verdicts) == {1}
    assert (found.causes, found.boot_line, found.next_command, found.interrupted) == ((), None, None, False)
    assert found.findings == run(RULES, context(hz=250))


def test_whose_cpus_they_were() -> None:
    own = audit(context(own=[Thread()]), FACTS).own
    assert own == OwnFacts(source="affinity", description="allowed only on these CPUs: app (100)", threads=1)
    blind = edit(context(own=[Thread()]), "after.census", gone("proc"))
    assert audit(blind, FACTS).own == OwnFacts(source="none", description="no thread is visible", threads=0)


def test_which_interrupts_are_theirs() -> None:
    rule = OwnRule(audited=cpus(1), irqs=("eth0*",))
    ctx = context(rows={"30 eth0-rx-1": {1: 50}}, own_rule=rule)
    expected = (OwnInterrupt(irq=30, name="eth0-rx-1", claim="named with --own-irq", fired={1: 50}),)
    assert audit(ctx, FACTS).own.interrupts == expected
    assert audit(edit(ctx, "after.census", gone("proc")), FACTS).own.interrupts == expected


def test_the_worst_cpu_speaks_and_each_has_its_verdict() -> None:
    found = audit(context(audited=(1, 5), rows={"30 eth0": {5: 50}}, affinity={30: irq(30, cpus(5))}), FACTS)
    assert {cpu: verdict.status for cpu, verdict in found.cpu_verdicts.items()} == {
        1: Status.ISOLATED,
        5: Status.NOT_ISOLATED,
    }
    assert found.verdict == found.cpu_verdicts[5]
    assert found.causes[0].title == "device interrupts: eth0"


QUIET = context(domains={1: [cpus(0, 1)]}, isolated=cpus())
DENIED = edit(context(), "after.counters.interrupts", gone("proc/interrupts", SourceState.DENIED))
MASKED = edit(context(), "after.counters.interrupts", gone("proc/interrupts", SourceState.MASKED))

HIDEPID = context(complete=False, domains={1: [cpus(0, 1)]}, rows={"30 a": {0: 900}}, affinity={30: irq(30, cpus(0))})
NAMESPACE = context(
    complete=False,
    domains={1: [cpus(0, 1)]},
    rows={"30 a": {0: 900}},
    affinity={30: irq(30, cpus(0))},
    own=[Thread(pid=1)],
)


@pytest.mark.parametrize(
    ("ctx", "facts", "command"),
    [
        (QUIET, FACTS, "cpu-audit run --cpus 1 --load --work spin"),
        (QUIET, replace(FACTS, work="cyclictest"), "cpu-audit run --cpus 1 --load --work cyclictest"),
        (QUIET, replace(FACTS, load="stress-ng"), "cpu-audit run --cpus 1 --load --work spin --window 60s"),
        (
            context(window_s=100, domains={1: [cpus(0, 1)]}, own=[Thread()]),
            replace(FACTS, load="stress-ng"),
            "cpu-audit run --cpus 1 --load --window 200s",
        ),
        (context(own=[Thread(switches=5, ended=True)], switches={1: 5000}), FACTS, "cpu-audit run --cpus 1 --load"),
        (
            context(own=[Thread(switches=5, ended=True)], switches={1: 5000}),
            replace(FACTS, load="stress-ng"),
            "cpu-audit run --cpus 1 --load",
        ),
        (DENIED, FACTS, 'sudo env "PATH=$PATH" cpu-audit run --cpus 1'),
        (HIDEPID, FACTS, 'sudo env "PATH=$PATH" cpu-audit run --cpus 1 --load --work spin'),
        (NAMESPACE, FACTS, "cpu-audit run --cpus 1 --root /host --load"),
        (MASKED, FACTS, "cpu-audit run --cpus 1 --root /host"),
        (
            context(
                domains={1: [cpus(0, 1)]},
                isolated=cpus(),
                rows={"30 a b": {0: 1}},
                affinity={30: irq(30, cpus(0))},
                own_rule=OwnRule(audited=cpus(1), irqs=("30", "a*")),
            ),
            FACTS,
            "cpu-audit run --cpus 1 --own-irq 30 --own-irq 'a*' --load --work spin",
        ),
        (QUIET, replace(FACTS, workload="a b"), "cpu-audit run --cpus 1 --workload 'a b' --load --work spin"),
        (
            edit(context(audited=(1, 5)), "after.config.online", cpus(0, 1)),
            FACTS,
            "cpu-audit run --cpus 1 --load --work spin",
        ),
        (edit(QUIET, "after.config.online", gone()), FACTS, "cpu-audit run --cpus 1 --load --work spin"),
    ],
)
def test_what_to_type_next(ctx: Context, facts: RunFacts, command: str) -> None:
    assert following(ctx, facts) == command
    assert parsed(command)["cpus"] == "1"


def test_it_is_said_only_after_an_unknown() -> None:
    unknown = audit(DENIED, FACTS)
    assert (unknown.verdict.status, unknown.next_command) == (
        Status.UNKNOWN,
        'sudo env "PATH=$PATH" cpu-audit run --cpus 1',
    )


@given(
    workload=st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)),
    load=st.booleans(),
    work=st.sampled_from([None, "spin", "cyclictest"]),
    ctx=st.sampled_from([QUIET, DENIED, MASKED, context(own=[Thread()])]),
)
@settings(max_examples=60, deadline=None)
def test_it_is_always_a_line_that_the_command_line_takes(
    workload: str | None, load: bool, work: str | None, ctx: Context
) -> None:
    facts = replace(FACTS, workload=workload, load="x" if load else None, work=work)
    found = parsed(following(ctx, facts))
    assert (found["cpus"], found["workload"]) == ("1", workload)


def test_the_config_and_the_coverage_are_of_this_host() -> None:
    found = audit(context(own_rule=OwnRule(audited=cpus(1), workload="app"), own=[Thread()]), FACTS)
    assert found.config[0].name == "isolcpus (domain)"
    assert {line.state for line in found.coverage} == {"read"}
    assert found.own.source == "workload"
    assert not [finding for finding in found.findings if finding.outcome is Outcome.UNKNOWN]
