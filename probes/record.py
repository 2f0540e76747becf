"""Recordings: the files of a run, written as they were read and replayed on any machine.

A directory or a .tar.gz of one: ``recording.json``, then the trees ``t0``, ``samples/0001`` …, ``t1``. Files of processes
lie in a tree's ``bundle.txt`` as ``path:line``, the way ``grep -H ''`` prints them. A recording is untrusted input.
"""

from __future__ import annotations

import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from probes.host import MAX_BYTES, DictHost, Host, ProbeError, SourceState, decode

SCHEMA = "cpu-audit/recording/v1"
MAX_FILES = 500_000
MAX_TOTAL_BYTES = 1 << 30
BUNDLE = "bundle.txt"


class RecordingError(Exception):
    """A recording that can't be used; the message says where and why."""


@dataclass(kw_only=True, slots=True)
class Tree:
    """What was read in one phase: texts, errors, modes."""

    files: dict[str, str] = field(default_factory=dict)
    errors: dict[str, ProbeError] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def host(self) -> DictHost:
        """The tree as a host: what was not recorded is missing."""
        return DictHost({**self.files, **self.errors}, self.links, self.modes)


class Recorder:
    """A host that remembers everything that is read through it, phase by phase."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.trees: dict[str, Tree] = {}
        self._tree = self.trees.setdefault("t0", Tree())

    def phase(self, name: str) -> None:
        """What is read from now on belongs to this phase."""
        self._tree = self.trees.setdefault(name, Tree())

    def read(self, path: str) -> str:
        """Reads and remembers, also that it failed."""
        try:
            text = self._tree.files[path] = self.host.read(path)
        except ProbeError as error:
            self._tree.errors[path] = error
            raise
        return text

    def listdir(self, path: str) -> list[str]:
        """Names are implied by what is then read."""
        return self.host.listdir(path)

    def readlink(self, path: str) -> str:
        """Reads and remembers a link."""
        target = self._tree.links[path] = self.host.readlink(path)
        return target

    def mode(self, path: str) -> int:
        """Reads and remembers the permission bits."""
        mode = self._tree.modes[path] = self.host.mode(path)
        return mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A recording in memory: its trees by phase, and ``recording.json`` (empty for one made by hand)."""

    trees: Mapping[str, Tree]
    meta: Mapping[str, object]

    @property
    def samples(self) -> list[str]:
        """Names of the sample phases, in order."""
        return sorted(name for name in self.trees if name.startswith("samples/"))

    def time_ns(self, phase: str) -> int | None:
        """Monotonic time of a phase, None where it was not recorded."""
        times = self.meta.get("times_ns")
        value = times.get(phase) if isinstance(times, dict) else None
        return value if isinstance(value, int) and value >= 0 else None

    def text(self, name: str) -> str:
        """A text of recording.json, "" where there is none."""
        value = self.meta.get(name)
        return value if isinstance(value, str) else ""


def describe_files(trees: Mapping[str, Tree]) -> dict[str, dict[str, object]]:
    """``files`` of recording.json: what a plain file can't say, its mode or why it could not be read."""
    found: dict[str, dict[str, object]] = {}
    for phase, tree in trees.items():
        for path, mode in tree.modes.items():
            found.setdefault(f"{phase}/{path}", {})["mode"] = mode
        for path, error in tree.errors.items():
            found.setdefault(f"{phase}/{path}", {})["error"] = f"{error.state.value}: {error.reason}"
    return found


def entries(trees: Mapping[str, Tree]) -> Iterator[tuple[str, bytes]]:
    """The files of a recording, below its directory."""
    for phase, tree in trees.items():
        bundle = []
        for path, text in sorted(tree.files.items()):
            if _bundled(path, text):
                bundle += [f"{path}:{line}\n" for line in text.removesuffix("\n").split("\n")]
            else:
                yield f"{phase}/{path}", text.encode()
        if bundle:
            yield f"{phase}/{BUNDLE}", "".join(bundle).encode()


def _bundled(path: str, text: str) -> bool:
    """Thousands of small files of threads go into one; an empty text has no line there, so it stays a file."""
    return path.startswith("proc/") and path.split("/")[1].isdecimal() and text.endswith("\n")


def load_recording(path: str) -> Recording:
    """Raises RecordingError for what is no recording, leaves its directory, or is larger than its bounds."""
    trees: dict[str, Tree] = {}
    meta: Mapping[str, object] = {}
    total = 0
    for count, (name, data) in enumerate(_members(path)):
        total += len(data)
        if count >= MAX_FILES or total > MAX_TOTAL_BYTES:
            raise RecordingError(f"{path}: more than {MAX_FILES} files or {MAX_TOTAL_BYTES >> 20} MiB")
        if name == "recording.json":
            meta = _parse_meta(path, data)
        elif placed := _place(name):
            _add(trees.setdefault(placed[0], Tree()), placed[1], decode(data))
    if "t0" not in trees or "t1" not in trees:
        raise RecordingError(f"{path}: no trees t0 and t1: not a recording")
    _apply_meta(trees, meta)
    return Recording(trees=trees, meta=meta)


def _place(name: str) -> tuple[str, str] | None:
    """Splits a member's name into its phase and the host's path."""
    parts = PurePosixPath(name).parts
    depth = 2 if parts[:1] == ("samples",) else 1
    if len(parts) <= depth or parts[0] not in ("t0", "t1", "samples"):
        return None
    return "/".join(parts[:depth]), "/".join(parts[depth:])


def _add(tree: Tree, path: str, text: str) -> None:
    if path != BUNDLE:
        tree.files[path] = text
        return
    lines: dict[str, list[str]] = {}
    for line in text.split("\n"):
        name, colon, content = line.partition(":")
        if colon and ".." not in name.split("/"):
            lines.setdefault(name.lstrip("/"), []).append(content + "\n")
    tree.files.update({name: "".join(content) for name, content in lines.items()})


def _parse_meta(path: str, data: bytes) -> Mapping[str, object]:
    try:
        meta = json.loads(data)
    except (ValueError, RecursionError):
        raise RecordingError(f"{path}/recording.json: not JSON") from None
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        raise RecordingError(f"{path}/recording.json: schema is not {SCHEMA}")
    return meta


def _apply_meta(trees: Mapping[str, Tree], meta: Mapping[str, object]) -> None:
    files = meta.get("files")
    for name, facts in (files if isinstance(files, dict) else {}).items():
        placed = _place(name)
        if not placed or placed[0] not in trees or not isinstance(facts, dict):
            continue
        tree, path = trees[placed[0]], placed[1]
        if isinstance(facts.get("mode"), int):
            tree.modes[path] = facts["mode"]
        if isinstance(facts.get("error"), str):
            tree.errors[path] = _as_error(path, facts["error"])


def _as_error(path: str, text: str) -> ProbeError:
    state, _, reason = text.partition(": ")
    known = {item.value: item for item in SourceState}
    return ProbeError(path, reason, known.get(state, SourceState.MALFORMED))


def _members(path: str) -> Iterator[tuple[str, bytes]]:
    if os.path.isdir(path):
        yield from _walk(path)
        return
    try:
        with tarfile.open(path, "r:*") as archive:
            yield from _untar(path, archive)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise RecordingError(f"{path}: not a recording: {error}") from None


def _walk(root: str) -> Iterator[tuple[str, bytes]]:
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            full = os.path.join(folder, name)
            if not stat.S_ISREG(os.lstat(full).st_mode):
                raise RecordingError(f"{full}: a recording holds only plain files")
            with open(full, "rb") as file:
                yield os.path.relpath(full, root), _bounded(full, file.read(MAX_BYTES + 1))


def _untar(path: str, archive: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    """Member by member into memory: nothing is ever extracted, so no name or link can lead anywhere."""
    prefix: str | None = None
    for member in archive:
        name = member.name.removeprefix("./")
        if member.isdir():
            continue
        if not member.isreg() or ".." in name.split("/") or name.startswith("/"):
            raise RecordingError(f"{path}: {member.name!r}: a recording holds only plain files below its directory")
        if member.size > MAX_BYTES:
            raise RecordingError(f"{path}: {member.name!r} is larger than {MAX_BYTES >> 20} MiB")
        if prefix is None:
            prefix = "" if _place(name) or name == "recording.json" else name.split("/")[0] + "/"
        file = archive.extractfile(member)
        yield name.removeprefix(prefix), file.read() if file else b""


def _bounded(name: str, data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise RecordingError(f"{name}: larger than {MAX_BYTES >> 20} MiB")
    return data
