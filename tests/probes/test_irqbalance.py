"""What irqbalance is told: by its environment, and by the file that the next one is started with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError, SourceState
from probes.irqbalance import (
    FILES,
    LIST,
    MASK,
    Ban,
    ban_of,
    only_variables,
    parse_env_file,
    parse_environ,
    read_irqbalance,
)

VENDOR, DEBIAN, REDHAT = FILES
ENVIRON = "proc/7/environ"


def cpus(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


@pytest.mark.parametrize(
    ("variables", "setting", "banned"),
    [
        ({}, "", None),
        ({LIST: "1,3-4"}, f"{LIST}=1,3-4", cpus(1, 3, 4)),
        ({MASK: "a"}, f"{MASK}=a", cpus(1, 3)),
        ({MASK: "1,00000002"}, f"{MASK}=1,00000002", cpus(1, 32)),
        ({MASK: "2", LIST: "5"}, f"{MASK}=2", cpus(1)),
        ({MASK: " ", LIST: "5"}, f"{LIST}=5", cpus(5)),
        ({MASK: "0"}, f"{MASK}=0", cpus()),
    ],
)
def test_the_mask_outranks_the_list_and_both_the_default(
    variables: dict[str, str], setting: str, banned: frozenset[int] | None
) -> None:
    assert ban_of(variables, "x") == Ban(path="x", setting=setting, cpus=banned)


@pytest.mark.parametrize("name", [MASK, LIST])
def test_set_and_empty_is_neither(name: str) -> None:
    assert ban_of({name: ""}, "x") == Ban(path="x", setting=f"{name}=", cpus=None, empty=True)


@pytest.mark.parametrize(("name", "value"), [(MASK, "0xf"), (MASK, "1 2"), (LIST, "1;3"), (LIST, "all")])
def test_what_is_no_cpu_set_is_an_error(name: str, value: str) -> None:
    assert isinstance(ban_of({name: value}, "x").cpus, ProbeError)


def test_an_environment_has_entries_that_end_in_nul_and_the_first_counts() -> None:
    text = f"PATH=/bin\0{LIST}=1\0{LIST}=2\0X{MASK}=3\0{MASK}=a=b\0"
    assert parse_environ(text) == {LIST: "1", MASK: "a=b"}
    assert parse_environ("") == {}


def test_nothing_else_of_an_environment_is_kept() -> None:
    assert only_variables(f"TOKEN=secret\0{LIST}=1\0PASSWORD=x") == f"{LIST}=1\0"
    assert only_variables("TOKEN=secret\0") == ""


@given(st.lists(st.sampled_from(["A=b", f"{LIST}=1", f"{MASK}=", "", f"{LIST}=\n2"])).map("\0".join) | st.text())
def test_what_is_kept_says_the_same(text: str) -> None:
    assert parse_environ(only_variables(text)) == parse_environ(text)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (f"{LIST}=1,3", "1,3"),
        (f'{LIST}="1,3"', "1,3"),
        (f"{LIST}='1,3' # why", "1,3"),
        (f"  export {LIST}=1,3  # why", "1,3"),
        (f"{LIST}=", ""),
        (f'{LIST}=""', ""),
        (f"#{LIST}=1,3", None),
        (f"# {LIST}=1,3", None),
        (f"{LIST} = 1", None),
        (f"OTHER_{LIST}=1", None),
    ],
)
def test_lines_of_an_environment_file(line: str, value: str | None) -> None:
    assert parse_env_file(f"IRQBALANCE_ARGS=\n{line}\n").get(LIST) == value


def test_the_last_line_counts() -> None:
    assert parse_env_file(f"{LIST}=1\n{LIST}=2\n{MASK}=3") == {LIST: "2", MASK: "3"}


@given(st.text(max_size=80))
def test_any_text_is_an_environment_file(text: str) -> None:
    assert set(parse_env_file(text)) <= {MASK, LIST}


def test_the_running_one_and_what_the_next_start_reads() -> None:
    host = DictHost({ENVIRON: f"{LIST}=1\0", DEBIAN: f"{LIST}=1,3\n", VENDOR: f"{MASK}=\n"})
    (found,) = read_irqbalance(host, [7, 7])
    assert found.pid == 7
    assert found.environment == Ban(path=ENVIRON, setting=f"{LIST}=1", cpus=cpus(1))
    assert found.file == Ban(path=DEBIAN, setting=f"{LIST}=1,3", cpus=cpus(1, 3))


def test_a_later_file_outranks_an_earlier_one() -> None:
    (found,) = read_irqbalance(DictHost({VENDOR: f"{LIST}=1\n", REDHAT: "\n"}), [7])
    assert found.file == Ban(path=REDHAT, setting=f"{LIST}=1", cpus=cpus(1))


def test_where_nothing_may_be_read() -> None:
    denied = {path: ProbeError(path, "permission denied", SourceState.DENIED) for path in (ENVIRON, DEBIAN)}
    (found,) = read_irqbalance(DictHost({**denied, REDHAT: f"{LIST}=1\n"}), [7])
    assert (found.environment, found.file) == (denied[ENVIRON], denied[DEBIAN])
    (found,) = read_irqbalance(DictHost({}), [7])
    assert isinstance(found.file, ProbeError)
    assert found.file.state is SourceState.MISSING


def test_where_none_runs_no_file_is_read() -> None:
    assert read_irqbalance(DictHost({}), []) == ()
