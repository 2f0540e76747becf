"""Imports run one way, one file opens the host, and only the command line prints and exits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {"probes": ("auditor", "reports"), "auditor": ("reports",), "reports": ("probes",)}
COMMAND_LINE = ("auditor/cli.py", "auditor/__main__.py")
MAY_OPEN = (
    "probes/host.py",  # the host
    "probes/record.py",  # asks the host it records
    "probes/recorded_files.py",  # recordings
    "probes/bench/",  # what benchmarks leave and read
    "auditor/output.py",  # what -o names
    "auditor/policy_file.py",  # what --policy names
)
MODULES = sorted(path for package in FORBIDDEN for path in (ROOT / package).rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in MODULES]


def parsed(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(encoding="utf-8"), name)


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Top-level packages that a tree imports, with the line; a relative import stays within its package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node.lineno


def at_start(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """What is imported when the module is: everything outside functions and TYPE_CHECKING."""
    for node in tree.body:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not typing_only:
            yield from imports(node)


def called(node: ast.Call) -> str:
    """The name of what is called: ``open``, ``os.open``, ``….read_text``."""
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else "…"
        return f"{owner}.{node.func.attr}"
    return node.func.id if isinstance(node.func, ast.Name) else ""


OPENS = re.compile(
    r"open|fdopen|.+\.(open|fdopen|read_text|read_bytes|write_text|write_bytes|listdir|scandir|readlink|iterdir|rglob|glob)"
)
ASKS_A_HOST = re.compile(r"(.*_)?host\.(listdir|readlink)|self\._?host\.(listdir|readlink)")


def test_there_is_something_to_look_at() -> None:
    assert {"probes/host.py", "auditor/model.py", "reports/text.py"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_imports_run_one_way(name: str) -> None:
    forbidden = FORBIDDEN[name.split("/")[0]]
    if name == "auditor/cli.py":
        assert [(package, line) for package, line in at_start(parsed(name)) if package in forbidden] == []
    else:
        assert [(package, line) for package, line in imports(parsed(name)) if package in forbidden] == []


@pytest.mark.parametrize("name", NAMES)
def test_only_the_doors_open_files(name: str) -> None:
    if name.startswith(MAY_OPEN):
        return
    calls = [node for node in ast.walk(parsed(name)) if isinstance(node, ast.Call)]
    opened = [(node.lineno, called(node)) for node in calls if OPENS.fullmatch(called(node))]
    assert [(line, call) for line, call in opened if not ASKS_A_HOST.fullmatch(call)] == []


def is_program(node: ast.stmt) -> bool:
    """``if __name__ == "__main__":`` of what is run as a child process."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_below_the_command_line_prints_or_exits(name: str) -> None:
    if name in COMMAND_LINE:
        return
    tree = parsed(name)
    tree.body = [node for node in tree.body if not is_program(node)]
    bad = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write"}
    calls = [(n.lineno, called(n)) for n in ast.walk(tree) if isinstance(n, ast.Call) and called(n) in bad]
    raised = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Raise) and "SystemExit" in ast.unparse(n)]
    assert (calls, raised) == ([], [])


def test_allowances_are_used() -> None:
    assert [allowed for allowed in MAY_OPEN if not any(name.startswith(allowed) for name in NAMES)] == []


def test_reports_hold_no_markup_of_their_own() -> None:
    """Autoescape is the only thing between a thread's name and a browser."""
    banned = re.compile(r"\|\s*safe\b|\bMarkup\b|autoescape\s*(=\s*False|false)")
    texts = [p for p in (ROOT / "reports").rglob("*") if p.suffix in {".py", ".j2", ".html", ".svg", ".xml"}]
    assert [str(path) for path in texts if banned.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os\nos.open('x', 0)", ["os.open"]),
        ("open('x')", ["open"]),
        ("from pathlib import Path\nPath('x').read_text()", ["….read_text"]),
        ("host.listdir('proc')", []),
        ("host.read('proc/stat')", []),
    ],
)
def test_the_search_finds_what_it_is_for(source: str, expected: list[str]) -> None:
    calls = [called(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    assert [c for c in calls if OPENS.fullmatch(c) and not ASKS_A_HOST.fullmatch(c)] == expected


def test_lazy_imports_are_told_from_those_at_start() -> None:
    tree = ast.parse("from reports import a\ndef f():\n    import reports\nif TYPE_CHECKING:\n    import reports\n")
    assert list(at_start(tree)) == [("reports", 1)]
    assert sorted(line for _, line in imports(tree)) == [1, 3, 5]
