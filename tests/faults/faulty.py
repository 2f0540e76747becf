"""What may become of a source: pure functions from its text to what a read gives instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from probes.host import DictHost, ProbeError, SourceState

Content: TypeAlias = str | ProbeError
Fault: TypeAlias = Callable[[str, str], Content]
"""From a path and its text to what is there instead."""
_NUMBER = re.compile(r"(?<![\w.-])\d+(?![\w.-])", re.ASCII)


def missing(path: str, text: str) -> Content:
    """The kernel is built without it, or the process ended."""
    return ProbeError(path, "no such file", SourceState.MISSING)


def denied(path: str, text: str) -> Content:
    """Not for this user."""
    return ProbeError(path, "permission denied", SourceState.DENIED)


def empty(path: str, text: str) -> Content:
    """A container runtime mounted /dev/null over it."""
    return ""


def zeroed(path: str, text: str) -> Content:
    """Made up: in the right form, and 0 wherever a number stands for itself."""
    return _NUMBER.sub("0", text)


def cut(path: str, text: str) -> Content:
    """Ends in the middle, and there in the middle of a line."""
    half = text[: len(text) // 2]
    return half[:-1] if half.endswith("\n") else half


def garbled(path: str, text: str) -> Content:
    """One place in the middle is overwritten."""
    half = len(text) // 2
    return text[:half] + "\\xfe\x00~" + text[half + 3 :]


OF_FILES: Mapping[str, Fault] = {fault.__name__: fault for fault in (missing, empty, denied, zeroed, cut, garbled)}
OF_FOLDERS: Mapping[str, Fault] = {fault.__name__: fault for fault in (missing, empty, denied)}
OF_OTHERS: Mapping[str, Fault] = {fault.__name__: fault for fault in (missing, denied)}
"""What may happen to a file, to a directory, to a link or a mode."""


class FaultyHost:
    """A host with other contents at some paths, and paths that are not listed."""

    def __init__(self, base: DictHost, contents: Mapping[str, Content], gone: frozenset[str] = frozenset()) -> None:
        self.base, self.contents, self.gone = base, contents, gone

    def _fail(self, path: str) -> None:
        content = self.contents.get(path)
        if isinstance(content, ProbeError):
            raise content

    def read(self, path: str) -> str:
        content = self.contents.get(path.lstrip("/"))
        if isinstance(content, ProbeError):
            raise content
        return self.base.read(path) if content is None else content

    def listdir(self, path: str) -> list[str]:
        path = path.strip("/")
        content = self.contents.get(path)
        if isinstance(content, ProbeError):
            raise content
        if content is not None:
            return []
        names = self.base.listdir(path)
        return [name for name in names if f"{path}/{name}" not in self.gone]

    def readlink(self, path: str) -> str:
        self._fail(path.lstrip("/"))
        return self.base.readlink(path)

    def mode(self, path: str) -> int:
        self._fail(f"mode {path.lstrip('/')}")
        return self.base.mode(path)

    def mtime(self, path: str) -> int:
        self._fail(f"mtime {path.lstrip('/')}")
        return self.base.mtime(path)
