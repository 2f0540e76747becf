from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cmdline import Param, parse_cmdline, read_cmdline
from probes.host import DictHost, ProbeError, SourceState


def pairs(text: str) -> list[tuple[str, str | None]]:
    return [(param.name, param.value) for param in parse_cmdline(text).params]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quiet isolcpus=1,5\n", [("quiet", None), ("isolcpus", "1,5")]),
        ('isolcpus="1, 5" ro', [("isolcpus", "1, 5"), ("ro", None)]),
        ('"isolcpus=1, 5"', [("isolcpus", "1, 5")]),
        ("isolcpus='1,5'", [("isolcpus", "'1,5'")]),
        ("isolcpus==1", [("isolcpus", "=1")]),
        ("isolcpus=1, 5", [("isolcpus", "1,"), ("5", None)]),
        ("nohz-full=1 rcu-nocbs=a-b", [("nohz_full", "1"), ("rcu_nocbs", "a-b")]),
        ("a=b=c", [("a", "b=c")]),
        ("=a=b", [("=a", "b")]),
        ("a=", [("a", "")]),
        ('a="', [("a", "")]),
        ('a="x"y', [("a", 'x"y')]),
        ('a=x"y z"', [("a", 'x"y z"')]),
        ('a="open rest of it', [("a", "open rest of it")]),
        ('"quiet" ""', [("quiet", None), ("", None)]),
        ('"a="b c', [("a", "b"), ("c", None)]),
        ("a  b\t\tc\n\nd\n", [("a", None), ("b", None), ("c", None), ("d", None)]),
        ("a\\ b", [("a\\", None), ("b", None)]),
        ("a=1\x1fb", [("a", "1\x1fb")]),
        # The blanks of the kernel are Latin-1: a pasted no-break space splits between its two bytes.
        ("isolcpus=1,5\u00a0quiet", [("isolcpus", "1,5\\xc2"), ("quiet", None)]),
        ("a=1\u20135", [("a", "1\u20135")]),
        ("", []),
        ("\n", []),
    ],
)
def test_words(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert pairs(text) == expected


@pytest.mark.parametrize("dashes", ["--", '"--"'])
def test_what_follows_the_dashes_is_for_init(dashes: str) -> None:
    cmdline = parse_cmdline(f"a=1 --b {dashes} isolcpus=1 -- x")
    assert [param.token for param in cmdline.params] == ["a=1", "--b"]
    assert [param.token for param in cmdline.init_args] == ["isolcpus=1", "--", "x"]


def test_dashes_with_a_value_are_a_word() -> None:
    assert pairs("--=x b") == [("__", "x"), ("b", None)]


def test_param() -> None:
    assert parse_cmdline('nohz-full="1 2" ro').params[0] == Param(
        name="nohz_full", raw_name="nohz-full", value="1 2", token='nohz-full="1 2"', end=15, quoted=True
    )


def test_lookups() -> None:
    cmdline = parse_cmdline("audit=1 nohz_full=1 audit=0 audit x")
    assert [param.value for param in cmdline.find("audit")] == ["1", "0", None]
    assert cmdline.last_value("audit") == "0"
    assert cmdline.last_value("x") is None
    assert cmdline.last_value("absent") is None
    assert cmdline.tail(cmdline.params[1]) == "audit=0 audit x"
    assert cmdline.tail(cmdline.params[-1]) == ""


def test_refused() -> None:
    with pytest.raises(ProbeError, match="NUL"):
        parse_cmdline("a\0b")
    with pytest.raises(ProbeError, match="longer than 16384 bytes"):
        parse_cmdline("a" * 16385)


def test_read() -> None:
    assert read_cmdline(DictHost({"proc/cmdline": "ro quiet\n"})).params[1].name == "quiet"
    assert read_cmdline(DictHost({"proc/cmdline": "\n"})).params == ()
    with pytest.raises(ProbeError) as caught:
        read_cmdline(DictHost({"proc/cmdline": ""}))
    assert caught.value.state is SourceState.MASKED


@given(st.text() | st.text(alphabet="ab=\"- \n'0"))
def test_any_text_is_split(text: str) -> None:
    try:
        cmdline = parse_cmdline(text)
    except ProbeError:
        assert "\0" in text or len(text.encode()) > 16384
        return
    ends = [param.end for param in cmdline.params]
    assert ends == sorted(set(ends))
    for param in cmdline.params:
        assert param.name == param.raw_name.replace("-", "_")
        assert param.raw_name in param.token
        assert (param.value or "") in param.token
