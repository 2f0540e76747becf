"""Recordings: the files of a run, written as they were read and replayed on any machine.

A directory or a .tar.gz of one: ``recording.json``, then the trees ``t0``, ``samples/0001`` …, ``t1``. Files of
processes lie in a tree's ``bundle.txt`` as ``path:line``, the way ``grep -H ''`` prints them. A recording is untrusted.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from probes.boot_files import GRUB, KERNEL_CMDLINE, only_cmdlines
from probes.host import KUBELET_SOCKET, MAX_BYTES, DictHost, Host, ProbeError, SourceState, decode, visible
from probes.irqbalance import FILES as IRQBALANCE_FILES
from probes.irqbalance import only_variables
from probes.kubelet_secrets import only_settings
from probes.kubelet_version import FILES as VERSION_FILES
from probes.kubelet_version import only_version
from probes.recorded_files import MAX_FILES, MAX_TOTAL_BYTES, META, recorded_files
from probes.recorded_files import RecordingError as RecordingError

SCHEMA = "cpu-audit/recording/v1"
BUNDLE = "bundle.txt"
MAX_BUNDLE_CHARS = 32 << 20
"""What is written into one bundle; the files of more threads than that lie beside it, each for itself."""
MAX_BUNDLE_LINES = 2_000_000
MAX_BUNDLED = 2_000_000
"""Files in all bundles: those of a minute of a machine of 30000 threads. Each costs little, as most repeat."""
MAX_META_BYTES = 32 << 20
MAX_PATH = 1024
MAX_DEPTH = 32
"""Characters and parts of a path in a recording: every part costs memory when the tree is a host."""
MAX_NS = 1 << 63
MAX_SAMPLES = 100_000  # a day has 86400 seconds
_SAMPLE = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(kw_only=True, slots=True)
class Tree:
    """What was read in one phase: texts, errors of files and directories, modes, times of change, links.

    What worked once outranks what failed: a thread may end between two reads of a phase.
    """

    files: dict[str, str] = field(default_factory=dict)
    errors: dict[str, ProbeError] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    mtimes: dict[str, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)

    def fail(self, path: str, error: ProbeError) -> None:
        """Remembers that a file or directory could not be read."""
        if path not in self.files and path not in self.listed:
            self.errors[path] = error

    def host(self) -> DictHost:
        """The tree as a host: what was not recorded is missing."""
        return DictHost({**self.errors, **self.files}, self.links, self.modes, self.mtimes)


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
        path = path.lstrip("/")
        try:
            text = self._tree.files[path] = _harmless(path, self.host.read(path))
        except ProbeError as error:
            self._tree.fail(path, error)
            raise
        self._tree.errors.pop(path, None)
        return text

    def listdir(self, path: str) -> list[str]:
        """Names are implied by what is then read or found missing; a failure is remembered."""
        path = path.strip("/")
        try:
            names = self.host.listdir(path)
        except ProbeError as error:
            self._tree.fail(path, error)
            raise
        self._tree.listed.add(path)
        self._tree.errors.pop(path, None)
        return names

    def readlink(self, path: str) -> str:
        """Reads and remembers a link."""
        target = self._tree.links[path.lstrip("/")] = self.host.readlink(path)
        return target

    def mode(self, path: str) -> int:
        """Reads and remembers the permission bits."""
        mode = self._tree.modes[path.lstrip("/")] = self.host.mode(path)
        return mode

    def mtime(self, path: str) -> int:
        """Reads and remembers when a file was last written."""
        mtime = self._tree.mtimes[path.lstrip("/")] = self.host.mtime(path)
        return mtime


def _harmless(path: str, text: str) -> str:
    """What may be kept of what may hold secrets: environments, command lines, configurations. Only what is read."""
    if path.startswith(GRUB):
        return only_cmdlines(text)
    if path.startswith("proc/") and path.endswith("/environ"):
        return only_variables(text)
    if path.endswith(KUBELET_SOCKET):
        return text
    if path.endswith(VERSION_FILES):
        return only_version(path, text)
    return text if path in (*IRQBALANCE_FILES, KERNEL_CMDLINE) else only_settings(path, text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A recording in memory: its trees by phase, and ``recording.json`` (empty for one made by hand)."""

    trees: Mapping[str, Tree]
    meta: Mapping[str, object]

    @property
    def samples(self) -> list[str]:
        """Names of the sample phases, in order: ``samples/10000`` comes after ``samples/9999``."""
        return sorted((name for name in self.trees if name.startswith("samples/")), key=lambda name: (len(name), name))

    def time_ns(self, phase: str) -> int | None:
        """Monotonic time of a phase, None where it was not recorded."""
        times = self.meta.get("times_ns")
        value = times.get(phase) if isinstance(times, dict) else None
        return value if type(value) is int and 0 <= value < MAX_NS else None

    def text(self, name: str) -> str:
        """A text of recording.json, "" where there is none."""
        value = self.meta.get(name)
        return visible(value) if isinstance(value, str) else ""


def describe_files(trees: Mapping[str, Tree]) -> dict[str, dict[str, object]]:
    """``files`` of recording.json: what a plain file can't say: its mode, its time, why it could not be read."""
    found: dict[str, dict[str, object]] = {}
    for phase, tree in trees.items():
        for path, mode in tree.modes.items():
            found.setdefault(f"{phase}/{path}", {})["mode"] = mode
        for path, mtime in tree.mtimes.items():
            found.setdefault(f"{phase}/{path}", {})["mtime_ns"] = mtime
        for path, error in tree.errors.items():
            found.setdefault(f"{phase}/{path}", {})["error"] = f"{error.state.value}: {error.reason}"
    return found


def describe_links(trees: Mapping[str, Tree]) -> dict[str, str]:
    """``links`` of recording.json: targets, which a plain file can't be."""
    return {f"{phase}/{path}": target for phase, tree in trees.items() for path, target in tree.links.items()}


def entries(trees: Mapping[str, Tree]) -> Iterator[tuple[str, bytes]]:
    """The files of a recording, below its directory."""
    for phase, tree in trees.items():
        bundle: list[str] = []
        chars = 0
        for path, text in sorted(tree.files.items()):
            lines = [f"{path}:{line}\n" for line in text.split("\n")[:-1]] if _bundled(path, text) else []
            size = sum(map(len, lines))
            if lines and chars + size <= MAX_BUNDLE_CHARS and len(bundle) + len(lines) <= MAX_BUNDLE_LINES:
                bundle += lines
                chars += size
            else:
                yield f"{phase}/{path}", text.encode()
        if bundle:
            yield f"{phase}/{BUNDLE}", "".join(bundle).encode()


def _bundled(path: str, text: str) -> bool:
    """Thousands of small files of threads go into one; an empty text has no line there, so it stays a file."""
    of_process = path.startswith("proc/") and path.split("/")[1].isdecimal()
    return of_process and text.endswith("\n") and ":" not in path and "\n" not in path


@dataclass(kw_only=True, slots=True)
class _Size:
    """How much a recording holds: files that lie for themselves, files in bundles, bytes."""

    files: int = 0
    bundled: int = 0
    total_bytes: int = 0

    def excess(self) -> str | None:
        """The bound that is passed, None where none is."""
        if self.files > MAX_FILES or self.total_bytes > MAX_TOTAL_BYTES:
            return f"more than {MAX_FILES} files or {MAX_TOTAL_BYTES >> 20} MiB"
        return f"more than {MAX_BUNDLED} files in bundles" if self.bundled > MAX_BUNDLED else None


def check_bounds(files: Iterable[tuple[str, bytes]]) -> None:
    """What is about to be written must be what ``load_recording`` accepts: raises RecordingError.

    ``files`` are all of the recording, ``recording.json`` too, by their names below its directory.
    """
    size = _Size()
    for name, data in files:
        if len(data) > (MAX_META_BYTES if name == META else MAX_BYTES):
            raise RecordingError(f"{name} would be too large to be read again: shorten --window")
        if PurePosixPath(name).name == BUNDLE:
            size.bundled += len({line.partition(b":")[0] for line in data.split(b"\n") if line})
        else:
            size.files += 1
        size.total_bytes += len(data)
        if excess := size.excess():
            raise RecordingError(f"the recording would hold {excess}: shorten --window")


@dataclass(kw_only=True, slots=True)
class _Known:
    """Paths and texts of bundles, each kept once: a sleeping thread is the same in every sample."""

    paths: dict[str, str | None] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def path(self, name: str) -> str | None:
        """The host's path of a line in a bundle, None where it is none."""
        if name not in self.paths:
            placed = _place(f"t0/{name.lstrip('/')}")
            self.paths[name] = placed[1] if placed else None
        return self.paths[name]

    def text(self, text: str) -> str:
        """The same text, in the copy that is kept."""
        return self.texts.setdefault(text, text)


def load_recording(path: str) -> Recording:
    """Raises RecordingError for what is no recording, leaves its directory, or is larger than its bounds."""
    trees: dict[str, Tree] = {}
    known, size = _Known(), _Size()
    meta: Mapping[str, object] = {}
    seen: set[str] = set()
    for name, data in recorded_files(path):
        if name in seen:
            raise RecordingError(f"{path}: {name!r} is there twice")
        seen.add(name)
        if name == META:
            meta = _parse_meta(path, data)
            continue
        text = decode(data)
        size.total_bytes += max(len(data), len(text))  # bytes that are no UTF-8 come as four characters each
        if placed := _place(name):
            tree = trees.setdefault(placed[0], Tree())
            if placed[1] == BUNDLE:
                size.bundled += _unbundle(tree, text, known, f"{path}: {name!r}")
            else:
                tree.files[placed[1]] = text
                size.files += 1
        if excess := size.excess():
            raise RecordingError(f"{path}: {excess}")
    if "t0" not in trees or "t1" not in trees:
        raise RecordingError(f"{path}: no trees t0 and t1: not a recording")
    _apply_meta(trees, meta)
    return Recording(trees=trees, meta=meta)


def _place(name: str) -> tuple[str, str] | None:
    """Splits a name into its phase and the host's path; None for what lies nowhere in a recording."""
    parts = PurePosixPath(name).parts if len(name) <= MAX_PATH else ()
    depth = 2 if parts[:1] == ("samples",) else 1
    if not depth < len(parts) <= MAX_DEPTH or ".." in parts or not _is_phase("/".join(parts[:depth])):
        return None
    return "/".join(parts[:depth]), "/".join(parts[depth:])


def _is_phase(name: str) -> bool:
    folder, _, number = name.partition("/")
    return name in ("t0", "t1") or (folder == "samples" and _SAMPLE.fullmatch(number) is not None)


def _unbundle(tree: Tree, text: str, known: _Known, where: str) -> int:
    """The files of a bundle; one that is there both ways is what lies there for itself. Returns how many."""
    lines: dict[str, list[str]] = {}
    for count, line in enumerate(io.StringIO(text, newline="\n")):
        if count >= MAX_BUNDLE_LINES:
            raise RecordingError(f"{where}: more than {MAX_BUNDLE_LINES} lines")
        name, colon, content = line.partition(":")
        if colon:
            lines.setdefault(name, []).append(content if content.endswith("\n") else content + "\n")
    for name, contents in lines.items():
        if path := known.path(name):
            tree.files.setdefault(path, known.text("".join(contents)))
    return len(lines)


def _parse_meta(path: str, data: bytes) -> Mapping[str, object]:
    if len(data) > MAX_META_BYTES:
        raise RecordingError(f"{path}/{META}: larger than {MAX_META_BYTES >> 20} MiB")
    try:
        meta = json.loads(data)
    except (ValueError, RecursionError):
        raise RecordingError(f"{path}/{META}: not JSON") from None
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        raise RecordingError(f"{path}/{META}: schema is not {SCHEMA}")
    return meta


def _apply_meta(trees: dict[str, Tree], meta: Mapping[str, object]) -> None:
    for phase in _mapping(meta.get("times_ns")):
        if phase.startswith("samples/") and _is_phase(phase) and len(trees) < MAX_SAMPLES:
            trees.setdefault(phase, Tree())  # a sample in which nothing could be read is one all the same
    for name, facts in _mapping(meta.get("files")).items():
        placed = _place(name)
        if placed and placed[0] in trees:
            _apply_facts(trees[placed[0]], placed[1], _mapping(facts))
    for name, target in _mapping(meta.get("links")).items():
        placed = _place(name)
        if placed and placed[0] in trees and isinstance(target, str):
            trees[placed[0]].links[placed[1]] = visible(target)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _apply_facts(tree: Tree, path: str, facts: Mapping[str, object]) -> None:
    mode, mtime, error = facts.get("mode"), facts.get("mtime_ns"), facts.get("error")
    if type(mode) is int and 0 <= mode <= 0o7777:
        tree.modes[path] = mode
    if type(mtime) is int and 0 <= mtime < MAX_NS:
        tree.mtimes[path] = mtime
    if isinstance(error, str):
        tree.fail(path, _as_error(path, error))


def _as_error(path: str, text: str) -> ProbeError:
    state, _, reason = text.partition(": ")
    known = {item.value: item for item in SourceState if item is not SourceState.READ}
    return ProbeError(path, visible(reason), known.get(state, SourceState.MALFORMED))
