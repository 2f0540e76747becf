"""Configurations of kubelets as people keep and paste them, and what lies beside them: irqbalance, tuned."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from auditor.kubelet_cpus import kubelet_cpus
from auditor.model import Outcome
from probes.cpu_manager_state import parse_cpu_manager_state
from probes.cpulist import parse_cpulist
from probes.host import DictHost, ProbeError
from probes.irqbalance import FILES, Irqbalance, ban_of, parse_env_file, read_irqbalance
from probes.kubelet_config import KubeletConfig, parse_kubelet_config
from probes.kubelet_document import parse_document
from tests.auditor.build import context, cpus, only
from tests.cases.claims import claim, differs
from tests.probes.collected import CASES

KIND = "kubelet_config"
TUNED = ("tuned-cpu-partitioning-vars", "tuned-realtime-host-vars", "tuned-realtime-vars")


@cache
def text(name: str) -> str:
    (path,) = (path for path in (CASES / KIND).glob(f"{name}.*") if path.suffix != ".md")
    return path.read_text(encoding="utf-8")


def parsed(name: str) -> KubeletConfig:
    return parse_kubelet_config(text(name))


def settings(name: str, match: re.Match[str]) -> None:
    found = parsed(name)
    options = {} if match[5] == "none" else dict([match[5].replace('"', "").split(": ")])
    assert (found.cpu_manager_policy, found.reserved_system_cpus) == (match[1], parse_cpulist(match[2]))
    assert (found.topology_manager_policy, found.reconcile_ns) == (match[3], int(match[4]) * 10**9)
    assert (found.cpu_manager_policy_options, found.memory_manager_policy) == (options, match[6])


def wrapped(name: str, match: re.Match[str]) -> None:
    assert parse_document(text(name), path="x")["cpuManagerPolicy"] == "static"
    with pytest.raises(ProbeError, match="no KubeletConfiguration, its kind is 'KubeletConfig'"):
        parse_document(text(name), path="x", wrapped=False)  # as the kubelet itself reads it


def banned(name: str, match: re.Match[str]) -> None:
    ban = ban_of(parse_env_file(text(name)), FILES[2])
    assert ban.cpus == parse_cpulist(match[1])
    # No argument and no ONESHOT bans a CPU: neither is read.
    assert set(parse_env_file(text(name))) == {"IRQBALANCE_BANNED_CPUS"}
    assert f'IRQBALANCE_ARGS="{match[2]}"' in text(name)


def default_is_replaced(name: str, match: re.Match[str]) -> None:
    (found,) = read_irqbalance(DictHost({"proc/7/environ": "", FILES[2]: text(name)}), [7])
    assert isinstance(found, Irqbalance)
    running = Irqbalance(pid=7, environment=ban_of(parse_env_file(text(name)), FILES[2]), file=found.file)
    judged = only(context(balancers=(running,)), "CFG.IRQBALANCE")  # CPU 1 is isolated, and not in the mask
    assert (judged.outcome, judged.detail) == (
        Outcome.WARN,
        f"process 7: {match[1]}=f8 replaces its default: kept free are CPUs 3-7, not 1",
    )


def no_kubelet_of_tuned(name: str, match: re.Match[str]) -> None:
    with pytest.raises(ProbeError, match="its kind is 'Tuned'"):
        parsed(name)
    assert match[1] in text(name)


def the_number_0(name: str, match: re.Match[str]) -> None:
    assert (parsed(name).cpu_manager_policy, parsed(name).reserved_system_cpus) == (match[1], cpus(int(match[2])))


def strict(name: str, match: re.Match[str]) -> None:
    found = parsed(name)
    reserved = parse_cpulist(match[2])
    assert (found.cpu_manager_policy, found.reserved_system_cpus, len(reserved)) == (match[1], reserved, int(match[3]))
    assert found.strict_reservation
    state = (CASES / "cpu_manager_state" / "strict-on-64.json").read_text(encoding="utf-8")
    joined = kubelet_cpus(parse_cpu_manager_state(state), found, frozenset(range(64)))
    assert (joined.reserved, joined.nobodys) == (reserved, cpus())
    assert joined.shared == joined.free == frozenset(range(64)) - reserved


def ellipsis_named(name: str, match: re.Match[str]) -> None:
    with pytest.raises(ProbeError, match=f"no YAML: line {match[1]}: '...' stands for lines that were left out"):
        parsed(name)


def no_reservation(name: str, match: re.Match[str]) -> None:
    assert (parsed(name).cpu_manager_policy, parsed(name).reserves_cpus()) == ("static", False)


def state_of_another_policy(name: str, match: re.Match[str]) -> None:
    state = parse_cpu_manager_state(f'{{"policyName":"{match[2]}","defaultCpuSet":"","checksum":0}}')
    assert parsed(name).cpu_manager_policy == match[1]
    assert kubelet_cpus(state, parsed(name), cpus(0, 1)).policy_differs is True


def variables_of_tuned(name: str, match: re.Match[str]) -> None:
    """Only that the file says so; as a configuration of a kubelet or of irqbalance it says nothing."""
    lines = [line for line in text(name).splitlines() if line.strip() and not line.startswith("#")]
    assert lines == ast.literal_eval(match[1])
    assert parse_env_file(text(name)) == {}
    with pytest.raises(ProbeError):
        parsed(name)


def never_taken_for_set(name: str, match: re.Match[str]) -> None:
    """What tuned makes of it is seen by its effects: the command line, sysfs, affinities."""
    assert "${f:" in text(name)
    with pytest.raises(ProbeError):
        parse_cpulist(re.findall(r"(?m)^isolated_cores=(.*)", text(name))[0])


NOT_READ = "files of tuned are not read: what they did is seen in the command line, in sysfs and in affinities"
CLAIMS = (
    claim(
        r"cpuManagerPolicy=(\S+), reservedSystemCPUs=(\S+), topologyManagerPolicy=(\S+), reconcile=(\d+)s, "
        r"options=(.+), memoryManagerPolicy=(\S+)",
        settings,
    ),
    claim(r"settings live under spec\.kubeletConfig, not at top level", wrapped),
    claim(r'banned CPUs = (\S+); IRQBALANCE_ARGS="(.*)"; ONESHOT not set', banned),
    claim(r"setting (IRQBALANCE_BANNED_CPUS) switches OFF irqbalance's own detection .*", default_is_replaced),
    differs(
        r"cmdline_isolation=\+(isolcpus=managed_irq),\$\{isolated_cores\}: managed_irq only, no domain isolation; .*",
        f"{NOT_READ}; a command line with managed_irq alone is told so (cmdline/ocp-multiline)",
        no_kubelet_of_tuned,
        "ocp-tuned-profile",
    ),
    claim(r'policy (\w+); reserved CPU = \{(\d+)\}: integer 0 must not be taken as "not set"', the_number_0),
    claim(r"(static), reserved = (\S+) \((\d+) CPUs\); strict: shared pool excludes them", strict),
    claim(r'indented "\.\.\." must give a clear parse error naming line (\d+), .*', ellipsis_named),
    claim(r"static found under machine\.kubelet\.extraConfig; no .*: static policy requires .*", no_reservation),
    claim(
        r'issue evidence: "configured policy \\"(\w+)\\" differs from state checkpoint policy \\"(\w+)\\"": .*',
        state_of_another_policy,
    ),
    differs(r"active \(non-comment\) lines: (\[.*\])", NOT_READ, variables_of_tuned, *TUNED),
    differs(r"isolated_cores counts as set only if its value resolves .*", NOT_READ, never_taken_for_set, *TUNED),
)
