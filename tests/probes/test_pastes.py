"""What is pasted instead of a file: cut, wrapped, with lines left out, several snapshots. Refused, the line named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from probes.cgroup_cpu_text import parse_throttling
from probes.cmdline import read_cmdline
from probes.cpu_manager_state import read_cpu_manager_state
from probes.cpustat import read_cpustat
from probes.host import DictHost, Host, ProbeError
from probes.schedstat import read_schedstat
from probes.softirqs import read_softirqs

SOFTIRQS = """\
                    CPU0       CPU1       CPU2
          HI:          1          0          0
       TIMER:     424191     108342          5
       SCHED:     378895     152852          6
"""
STAT = """\
cpu  60 0 30 900 3 0 2 0 0 0
cpu0 20 0 10 300 1 0 1 0 0 0
cpu1 20 0 10 300 1 0 1 0 0 0
cpu2 20 0 10 300 1 0 0 0 0 0
intr 5555 0 0 9
ctxt 777
btime 1700000000
softirq 12 1 2 3
"""
DOMAIN = "domain0 7" + " 0" * 36
SCHEDSTAT = f"""\
version 15
timestamp 4295
cpu0 0 0 0 0 0 0 100 20 3
{DOMAIN}
cpu1 0 0 0 0 0 0 100 20 3
{DOMAIN}
cpu2 0 0 0 0 0 0 100 20 3
{DOMAIN}
"""
STATE = '{"policyName":"static","defaultCpuSet":"0-1,6-7","entries":{"7f1c":{"app":"2-3"},"9ab2":{"db":"4"}}}'
CMDLINE = "BOOT_IMAGE=/vmlinuz-6.8.0 root=/dev/sda1 ro isolcpus=domain,managed_irq,2-15 nohz_full=2-15 quiet\n"
CPU_STAT = "nr_periods 100\nnr_throttled 20\nthrottled_time 12070000\n"


def throttling(host: Host) -> object:
    return parse_throttling(host.read("cpu.stat"), version=1)


READERS: dict[str, tuple[str, str, Callable[[Host], object]]] = {
    "softirqs": ("proc/softirqs", SOFTIRQS, read_softirqs),
    "stat": ("proc/stat", STAT, read_cpustat),
    "schedstat": ("proc/schedstat", SCHEDSTAT, read_schedstat),
    "state": ("var/lib/kubelet/cpu_manager_state", STATE, read_cpu_manager_state),
    "cmdline": ("proc/cmdline", CMDLINE, read_cmdline),
    "cpu.stat": ("cpu.stat", CPU_STAT, throttling),
}


def lines(text: str, *changes: tuple[int, str]) -> str:
    """Lines changed by number; a change that ends in a line end adds a line before it."""
    found = text.splitlines(keepends=True)
    for number, line in changes:
        found[number - 1] = line + found[number - 1] if line.endswith("\n") else line + "\n"
    return "".join(found)


@pytest.mark.parametrize("name", READERS)
def test_as_it_is_it_is_read(name: str) -> None:
    path, text, read = READERS[name]
    assert read(DictHost({path: text})) is not None


@pytest.mark.parametrize(
    ("name", "paste", "reason"),
    [
        # cut, mid-line or behind one
        ("softirqs", SOFTIRQS[:-4], "line 4: no line end, the file is cut"),
        ("softirqs", SOFTIRQS[:60], "line 2: no line end, the file is cut"),
        ("stat", STAT[:-2], "line 8: no line end, the file is cut"),
        ("stat", lines(STAT, (4, "cpu2 20 0 10 300 1 0")), "line 4: a second cpu2, or other columns"),
        ("schedstat", SCHEDSTAT[:-9], "line 8: no line end, the file is cut"),
        ("schedstat", SCHEDSTAT.rpartition("domain0")[0], "cpu2 has no domain, yet it is in that of another CPU"),
        ("state", STATE[:60], "no JSON: Expecting property name .* line 1 column 6"),
        ("state", STATE[:-3], "no JSON: Expecting ',' .*: line 1 column 9"),
        ("cmdline", CMDLINE[:55], "line 1: no line end, the file is cut"),
        ("cpu.stat", CPU_STAT[:20], "empty or cut"),
        ("cpu.stat", CPU_STAT[:15], "lacks nr_throttled, throttled_time"),
        # wrapped
        ("softirqs", SOFTIRQS.replace("       CPU2", "\nCPU2", 1), "line 2: not 2 counts"),
        ("softirqs", SOFTIRQS.replace("     108342", "\n     108342"), "line 3: not 3 counts"),
        ("stat", STAT.replace(" 300 1 0 1", "\n300 1 0 1"), "line 2: not 7 to 10 numbers"),
        ("stat", "".join(f"cpu{cpu} 20 0 10 300 1 0 1\n0 0 0\n" for cpu in (0, 1)), "line 2: no row of this file"),
        ("stat", STAT.replace("5555 0", "5555\n0"), "line 6: no row of this file: '0 0 9'"),
        (
            "schedstat",
            SCHEDSTAT.replace("domain0 7 0 0", "domain0 7\n0 0", 1),
            "line 4: not a mask",
        ),
        ("schedstat", SCHEDSTAT.replace("0 0 100", "0 0\n100", 1), "line 3: not the 9 numbers"),
        ("state", STATE.replace("managed", "x").replace('"static"', '"sta\ntic"'), "no JSON: Invalid control .*line 1"),
        ("cpu.stat", CPU_STAT.replace("_throttled 20", "_throttled\n20"), "line 2: not a name and a number"),
        # lines left out
        ("softirqs", lines(SOFTIRQS, (3, "...\n")), "line 3: no row of this file, or its second: '...'"),
        ("softirqs", SOFTIRQS.replace("424191     108342", "424191  ..."), "line 3: not 3 counts"),
        ("softirqs", SOFTIRQS.replace("CPU1", "..."), "line 1: no plain CPU header"),
        ("stat", lines(STAT, (3, "...\n")), "line 3: no row of this file: '...'"),
        ("stat", lines(STAT, (3, "[...]\n")), r"line 3: no row of this file: '\[...\]'"),
        ("stat", lines(STAT, (2, "cpu0 20 0 ...")), "line 2: not 7 to 10 numbers"),
        ("schedstat", lines(SCHEDSTAT, (5, "...\n")), "line 5: out of place: '...'"),
        ("schedstat", lines(SCHEDSTAT, (4, "domain0 7 0 0 ...")), "line 4: not a mask"),
        ("state", STATE.replace('"7f1c"', '..., "7f1c"'), "no JSON: Expecting property name .*line 1"),
        ("state", STATE.replace(',"entries"', '\n...\n,"entries"'), "no JSON: Expecting .*line 2"),
        ("cmdline", CMDLINE.replace("ro isol", "... isol"), "line 1: '...' stands for words that were left out"),
        ("cmdline", CMDLINE.replace("quiet", "[...]"), r"line 1: '\[...\]' stands for words that were left out"),
        ("cmdline", CMDLINE.replace("ro isol", "ro\n… isol"), "line 2: '…' stands for words that were left out"),
        ("cpu.stat", lines(CPU_STAT, (2, "...\n")), "line 2: not a name and a number"),
        # several snapshots, or what stood around one
        ("softirqs", SOFTIRQS + SOFTIRQS, "line 5: no row of this file"),
        ("softirqs", "$ cat /proc/softirqs\n" + SOFTIRQS, "line 1: no plain CPU header"),
        ("softirqs", SOFTIRQS + lines(SOFTIRQS, (1, "")), "line 6: no row of this file, or its second: 'HI:"),
        ("stat", STAT + STAT, "line 10: a second cpu0"),
        ("stat", "Timestamp: 17.5\n" + STAT, "line 1: no row of this file: 'Timestamp: 17.5'"),
        ("stat", "$ cat /proc/stat\n" + STAT, "line 1: no row of this file"),
        ("schedstat", SCHEDSTAT + SCHEDSTAT, "line 9: out of place: 'version'"),
        ("schedstat", "==> /proc/schedstat <==\n" + SCHEDSTAT, "line 1: neither of the versions"),
        ("state", f"{STATE}\n{STATE}\n", "no JSON: Extra data: line 2 column 1"),
        ("state", f"# cat state\n{STATE}\n", "no JSON: Expecting value: line 1 column 1"),
        ("cmdline", CMDLINE + CMDLINE, "line 2: a second command line: several snapshots in one file"),
        ("cpu.stat", CPU_STAT + CPU_STAT, "line 4: not a name and a number, or its second: 'nr_periods 100'"),
    ],
)
def test_a_paste_is_refused(name: str, paste: str, reason: str) -> None:
    path, text, read = READERS[name]
    assert paste != text
    with pytest.raises(ProbeError, match=reason):
        read(DictHost({path: paste}))


def test_a_command_line_wrapped_between_its_words_is_whole() -> None:
    """isspace() of the kernel takes a line end for a blank."""
    wrapped = CMDLINE.replace(" nohz", " \n\nnohz")
    assert [param.token for param in read_cmdline(DictHost({"proc/cmdline": wrapped})).params] == CMDLINE.split()


def test_the_image_named_twice_within_a_line_is_a_copied_line() -> None:
    line = CMDLINE.replace("quiet", "BOOT_IMAGE=/vmlinuz-6.8.0 quiet")
    assert read_cmdline(DictHost({"proc/cmdline": line})).last_value("nohz_full") == "2-15"
