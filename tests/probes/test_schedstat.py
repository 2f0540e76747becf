from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.schedstat import CpuSched, parse_schedstat, read_schedstat
from tests.probes.outcome import outcome

ZEROS_36 = " 0" * 36
ZEROS_45 = " 0" * 45

V15 = f"""\
version 15
timestamp 4294892296
cpu0 0 0 900 400 700 300 5000000 70000 500
domain0 00000000,00000011{ZEROS_36}
cpu1 0 0 0 0 0 0 1250 30 7
cpu4 2 0 90 40 70 30 600 80 50
domain0 00000000,00000011{ZEROS_36}
"""

V17 = f"""\
version 17
timestamp 4294892296
cpu0 0 0 900 400 700 300 5000000 70000 500
domain0 SMT 3{ZEROS_45}
domain1 MC f{ZEROS_45}
cpu1 0 0 900 400 700 300 1 2 3
domain0 SMT 3{ZEROS_45}
domain1 MC f{ZEROS_45}
cpu2 0 0 900 400 700 300 4 5 6
domain1 MC f{ZEROS_45}
cpu3 0 0 900 400 700 300 7 8 9
domain1 MC f{ZEROS_45}
"""


def test_run_wait_and_switches_are_fields_7_to_9_and_no_domain_lines_mean_no_domain() -> None:
    found = parse_schedstat(V15)
    assert found.version == 15
    assert found.cpus == {
        0: CpuSched(run_ns=5000000, wait_ns=70000, switches=500, domains=(frozenset({0, 4}),)),
        1: CpuSched(run_ns=1250, wait_ns=30, switches=7, domains=()),
        4: CpuSched(run_ns=600, wait_ns=80, switches=50, domains=(frozenset({0, 4}),)),
    }


def test_version_16_reads_like_15() -> None:
    assert parse_schedstat(V15.replace("version 15", "version 16")).cpus == parse_schedstat(V15).cpus


def test_version_17_names_its_domains() -> None:
    found = parse_schedstat(V17)
    assert found.cpus[0].domains == (frozenset({0, 1}), frozenset({0, 1, 2, 3}))
    assert found.cpus[2].domains == (frozenset({0, 1, 2, 3}),)
    assert found.cpus[3].switches == 9


def test_version_14_has_three_more_fields_in_front() -> None:
    found = parse_schedstat("version 14\ntimestamp 1\ncpu0 0 0 0 0 1 2 3 4 5 600 70 8\n")
    assert found.cpus == {0: CpuSched(run_ns=600, wait_ns=70, switches=8, domains=())}


def test_wide_masks() -> None:
    mask = "1," + "00000000," * 2 + "00000001"
    cpus = "cpu0 0 0 0 0 0 0 1 2 3\n{d}cpu96 0 0 0 0 0 0 1 2 3\n{d}".format(d=f"domain0 {mask}{ZEROS_36}\n")
    assert parse_schedstat(f"version 15\ntimestamp 1\n{cpus}").cpus[96].domains == (frozenset({0, 96}),)


ONLINE = "sys/devices/system/cpu/online"


def test_reading_takes_the_file_of_the_host() -> None:
    assert read_schedstat(DictHost({"proc/schedstat": V15})) == parse_schedstat(V15)
    assert read_schedstat(DictHost({"proc/schedstat": V15, ONLINE: "0-1,4\n"})) == parse_schedstat(V15)


def test_every_online_cpu_must_be_there() -> None:
    with pytest.raises(ProbeError, match="cpu5 is online and has no line"):
        read_schedstat(DictHost({"proc/schedstat": V15, ONLINE: "0-1,4-6\n"}))


CPU = "cpu0 0 0 0 0 0 0 1 2 3\n"
HEAD = "version 15\ntimestamp 1\n"


@pytest.mark.parametrize(
    ("text", "reason", "state"),
    [
        ("", "empty", SourceState.MASKED),
        (HEAD + CPU[:-1], "line 3: no line end", SourceState.MALFORMED),
        (HEAD, "no cpuN lines", SourceState.MALFORMED),
        ("version 13\n", "line 1: neither of the versions 14 to 17: 'version 13'", SourceState.MALFORMED),
        ("version 18\n" + CPU, "line 1: neither", SourceState.MALFORMED),
        ("version x\n", "line 1: neither", SourceState.MALFORMED),
        (CPU, "line 1: neither", SourceState.MALFORMED),
        (HEAD + "cpu0 0 0 0 0 0 0 1 2\n", "line 3: not the 9 numbers of version 15", SourceState.MALFORMED),
        (HEAD + "cpu0 0 0 0 0 0 0 1 2 3 4\n", "line 3: not the 9 numbers", SourceState.MALFORMED),
        (HEAD + "cpu0 0 0 0 0 0 0 1 2 x\n", "line 3: not the 9 numbers", SourceState.MALFORMED),
        ("version 14\n" + CPU, "line 2: not the 12 numbers of version 14", SourceState.MALFORMED),
        (HEAD + CPU + CPU, "line 4: out of place: 'cpu0'", SourceState.MALFORMED),
        (HEAD + f"domain0 1{ZEROS_36}\n", "line 3: out of place: 'domain0'", SourceState.MALFORMED),
        (HEAD + "...\n", r"line 3: out of place: '\.\.\.'", SourceState.MALFORMED),
        (HEAD + CPU + "domain0 1 0 0\n", "line 4: not a mask and the 36 numbers", SourceState.MALFORMED),
        (HEAD + CPU + "domain0\n", "line 4: not a mask", SourceState.MALFORMED),
        (HEAD + CPU + f"domain0 1{' x' * 36}\n", "line 4: not a mask", SourceState.MALFORMED),
        (HEAD + CPU + f"domain0 SMT{ZEROS_36}\n", "line 4: no CPU mask: 'SMT'", SourceState.MALFORMED),
        (HEAD + CPU + f"domain0 3{ZEROS_36}\n", "cpu1 has no domain, yet", SourceState.MALFORMED),
    ],
)
def test_damage_is_refused(text: str, reason: str, state: SourceState) -> None:
    with pytest.raises(ProbeError, match=f"^/proc/schedstat: {reason}") as caught:
        parse_schedstat(text)
    assert caught.value.state is state


@settings(deadline=None)
@given(st.text() | st.text(alphabet="cpudomain01 \n9f,").map(lambda text: HEAD + text + "\n"))
def test_any_text_is_a_value_or_a_probe_error(text: str) -> None:
    found = outcome(lambda: parse_schedstat(text, path="some/path"))
    if isinstance(found, ProbeError):
        assert found.path == "some/path"
    else:
        assert found.cpus


@pytest.mark.parametrize(("text", "online"), [(V15, "0-1,4\n"), (V17, "0-3\n")])
def test_no_cut_makes_a_cpu_look_isolated(text: str, online: str) -> None:
    whole = parse_schedstat(text)
    for size in range(len(text)):
        host = DictHost({"proc/schedstat": text[:size], ONLINE: online})
        found = outcome(lambda host=host: read_schedstat(host))  # type: ignore[misc]
        if not isinstance(found, ProbeError):
            assert {cpu: bool(s.domains) for cpu, s in found.cpus.items()} == {
                cpu: bool(s.domains) for cpu, s in whole.cpus.items()
            }


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 3), min_size=1, max_size=4))
def test_printed_as_the_kernel_prints_it_comes_back(table: list[tuple[int, int, int]]) -> None:
    span = f"{(1 << len(table)) - 1:08x}"
    lines = [
        f"cpu{cpu} 0 0 1 2 3 4 {run} {wait} {count}\ndomain0 PKG {span}{ZEROS_45}\n"
        for cpu, (run, wait, count) in enumerate(table)
    ]
    found = parse_schedstat("version 17\ntimestamp 5\n" + "".join(lines))
    assert [(cpu.run_ns, cpu.wait_ns, cpu.switches) for cpu in found.cpus.values()] == table
    assert {cpu.domains for cpu in found.cpus.values()} == {(frozenset(range(len(table))),)}
