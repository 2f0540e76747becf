"""C-states of real machines: tables, growth, what is barred."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from probes.cpuidle import CpuIdle, read_cpuidle, read_idle_driver
from probes.delta import diff
from probes.host import DictHost, ProbeError
from probes.snapshot import Counters
from probes.topology import read_cpus
from tests.cases.claims import claim, cpus, differs, numbers
from tests.probes.collected import case_file, text_of

KIND = "cpuidle"
CPU_DIR = "sys/devices/system/cpu"
IDLE_DIR = f"{CPU_DIR}/cpuidle"
UNREAD = ProbeError("x", "not read here")


@cache
def host(name: str) -> DictHost:
    """From the two forms that the cases have: ``path:`` above its value, and ``mode|path|value``."""
    text = text_of(case_file(KIND, name))
    if "|/sys/" in text:
        rows = [line.split("|", 2) for line in text.splitlines() if line]
        return DictHost({path.lstrip("/"): f"{value}\n" for _, path, value in rows})
    pairs = re.findall(r"^(/sys/\S+):\n(.*)\n", text, re.MULTILINE)
    return DictHost({path.lstrip("/"): f"{value}\n" for path, value in pairs})


@cache
def told(name: str) -> tuple[int, ...]:
    """CPUs whose states are in the case."""
    names = [re.fullmatch(r"cpu(\d+)", name) for name in host(name).listdir(CPU_DIR)]
    return tuple(sorted(int(match[1]) for match in names if match))


@cache
def states(name: str) -> dict[int, CpuIdle]:
    return {cpu: read_cpuidle(host(name), cpu) for cpu in told(name)}


def tables(name: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for cpu, idle in states(name).items():
        found["/".join(f"{state.name}:{state.latency_us}" for state in idle.states)].append(cpu)
    return found


def states_of_cpu_0(name: str, text: str) -> None:
    said = re.findall(r"state(\d+)=(\S+) lat (\d+)us( disable=1)?", text)
    assert [
        (str(s.index), s.name, str(s.latency_us), " disable=1" if s.disabled else "") for s in states(name)[0].states
    ] == said


def machine(name: str, match: re.Match[str]) -> None:
    assert told(name) == tuple(range(int(match[2]), int(match[3]) + 1))
    assert len(told(name)) == int(match[1])
    assert read_idle_driver(host(name)) == match[4]
    assert host(name).read(f"{IDLE_DIR}/current_governor").strip() == match[5]
    states_of_cpu_0(name, match[6])


def one_table(name: str, match: re.Match[str]) -> None:
    assert {table: frozenset(where) for table, where in tables(name).items()} == {match[2]: cpus(match[1])}


def growth(name: str, match: re.Match[str]) -> None:
    ends = [
        Counters(
            taken_ns=at * 10**10, interrupts=UNREAD, softirqs=UNREAD, cpustat=UNREAD, schedstat=UNREAD, cpuidle=found
        )
        for at, found in enumerate((states(name), states(name.replace("before", "after"))))
    ]
    idle = diff(ends[0], ends[1], told(name)).idle
    assert not any(isinstance(found, ProbeError) for found in idle.values())  # as one would be where a counter fell
    for cpu, usages in re.findall(r"CPU(\d+) (\[[\d, ]+\])", match[1]):
        found = idle[int(cpu)]
        assert not isinstance(found, ProbeError)
        assert [state.entries for state in found] == ast.literal_eval(usages)


def barred(name: str) -> set[tuple[int, int]]:
    return {(cpu, state.index) for cpu, idle in states(name).items() for state in idle.states if state.disabled}


def none_barred(name: str, match: re.Match[str]) -> None:
    assert barred(name) == set()


def barred_everywhere(name: str, match: re.Match[str]) -> None:
    """The list of the answer is cut; its whole entries are right, and so is every other CPU."""
    assert barred(name) == {(cpu, 2) for cpu in told(name)}
    assert barred(name) >= {(numbers(word)[0], numbers(word)[1]) for word in match[1].split(", ")[:-1]}


def global_files(name: str, match: re.Match[str]) -> None:
    said = ast.literal_eval(match[1])
    assert read_cpus(host(name), "online") == cpus(said.pop("online"))
    assert read_cpus(host(name), "present") == cpus(said.pop("present"))
    assert read_idle_driver(host(name)) == said.pop("current_driver")
    for file, value in said.items():
        assert host(name).read(f"{IDLE_DIR}/{file}") == f"{value}\n"


def whole_machine(name: str, match: re.Match[str]) -> None:
    """The data holds CPUs 0 to 3 of it alone; how many there are say the online ones."""
    assert len(read_cpus(host(name), "online")) == int(match[1])
    assert told(name) == (0, 1, 2, 3)
    states_of_cpu_0(name, match[2])


def one_table_none_barred(name: str, match: re.Match[str]) -> None:
    assert len(tables(name)) == 1
    assert barred(name) == set()


CLAIMS = (
    claim(r"(\d+) CPUs \((\d+)-(\d+)\) with cpuidle; driver (\w+), governor (\w+); (CPU0: .*)", machine),
    claim(r"1 distinct state tables: CPUs (\S+): (\S+)", one_table),
    claim(r"pair after-before usage: (.*); negative deltas: 0", growth),
    claim(r"disabled states: none; no CPU is latency-capped: deep states are enabled everywhere", none_barred),
    differs(
        r"disabled states: (.*); no CPU is latency-capped: deep states are enabled everywhere",
        "the answer contradicts itself: its list, which is cut, names barred states, and they are barred on every CPU",
        barred_everywhere,
        "pair-knl0.before",
    ),
    claim(r"global files: (\{.*\})", global_files),
    claim(r"whole machine: (\d+) CPUs have state directories; (CPU0: .*)", whole_machine),
    claim(r"1 distinct state tables over all CPUs; disabled: none", one_table_none_barred),
)
