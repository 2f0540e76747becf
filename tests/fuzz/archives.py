"""Recordings by strangers: archives with hostile members, damaged bytes, and damaged files in a whole recording."""

from __future__ import annotations

import gzip
import io
import os
import random
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from auditor.errors import UsageError
from auditor.policy import Policy
from auditor.recordings import replay
from auditor.session import judge
from probes.record import RecordingError, load_recording
from reports import render
from tests.fuzz.mutate import damaged, mutate

HOST = Path(__file__).parents[1] / "hosts" / "pinning-lab-with"
META = b'{"schema": "cpu-audit/recording/v1", "times_ns": {"t0": 1, "t1": 2}, "files": {"t0/proc/stat": {"mode": 292}}}'
SMALL = {
    "recording.json": META,
    "t0/proc/stat": b"cpu0 1 2 3 4\n",
    "t0/bundle.txt": b"proc/1/stat:1 (a) S\nproc/1/status:Name:\ta\nproc/1/status:State:\tS\n",
    "t1/proc/stat": b"cpu0 1 2 3 5\n",
    "samples/0001/proc/stat": b"cpu0 1 2 3 4\n",
}
NAMES = (
    "../etc/passwd",
    "rec/../../x",
    "/etc/passwd",
    "rec//t0/./proc/stat",
    "rec/t0/proc/stat",
    "rec/t0/" + "d/" * 60 + "x",
    "rec/t0/" + "n" * 5000,
    "rec/t0/bundle.txt",
    "rec/samples/9999999999/x",
    "rec/samples/٣/x",
    "",
    "rec/t0",
    "rec/recording.json",
    "rec/t0/a\nb",
    "rec/t0/\udcff",
)
TYPES = (
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
    tarfile.DIRTYPE,
    tarfile.GNUTYPE_SPARSE,
    tarfile.CONTTYPE,
    b"Z",
)
SIZES = (0, 1, 511, 512, 1 << 33, 8**11 - 1, -1)


def hostile_tar(rng: random.Random) -> bytes:
    """An archive of a small recording with a few members that should not be there, packed or not, cut or not."""
    members: list[tuple[str, bytes, bytes, int | None]] = [
        (f"rec/{name}", data, tarfile.REGTYPE, None) for name, data in SMALL.items()
    ]
    for _ in range(rng.randrange(4)):
        member = (rng.choice(NAMES), rng.choice((b"", b"x\n", META)), rng.choice(TYPES), rng.choice((None, *SIZES)))
        members.insert(rng.randrange(len(members) + 1), member)
    file = io.BytesIO()
    kind = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        for name, data, what, size in members:
            _add(archive, file, name, data, what, size)
    data = file.getvalue()
    data = damaged(rng, data) if rng.random() < 0.4 else data
    data = gzip.compress(data, 1, mtime=0) if rng.random() < 0.7 else data
    return damaged(rng, data) if rng.random() < 0.3 else data


def _add(archive: tarfile.TarFile, file: io.BytesIO, name: str, data: bytes, what: bytes, size: int | None) -> None:
    """The header may claim another size than what follows it."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = what, "/etc/passwd", len(data)
    try:
        if size is None:
            archive.addfile(info, io.BytesIO(data))
        else:
            info.size = max(size, 0)
            file.write(info.tobuf(archive.format, "utf-8", "surrogateescape"))
    except ValueError:
        pass  # this format has no place for such a name


def bomb() -> bytes:
    """A member of 64 GiB of zeros in 64 KiB: told by its header, and by a stream that does not end."""
    info = tarfile.TarInfo("rec/t0/x")
    info.size = 8**11 - 1
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(64 << 20), 9, mtime=0)


def hostile_bundle(rng: random.Random) -> dict[str, bytes]:
    """A recording whose bundle or recording.json is damaged."""
    name = rng.choice(("t0/bundle.txt", "recording.json"))
    text = SMALL[name].decode()
    return {**SMALL, name: mutate(rng, text, [text, "../x:1\n", "/proc/stat:cpu\n", ":::\n", "a" * 2000 + ":b\n"])}


@cache
def whole_files() -> dict[str, bytes]:
    """A recorded host."""
    return {str(path.relative_to(HOST)): path.read_bytes() for path in sorted(HOST.rglob("*")) if path.is_file()}


def damage_whole(rng: random.Random) -> dict[str, bytes | None]:
    """One to three files of a recorded host: changed, emptied, gone."""
    files = whole_files()
    changed: dict[str, bytes | None] = {}
    for name in rng.sample(sorted(files), rng.choice((1, 1, 2, 3))):
        text = files[name].decode()
        changed[name] = rng.choice((None, b"", *([mutate(rng, text, [text])] * 6)))
    return changed


def judged(directory: Path) -> str:
    """The whole way of a recording, to the text and the JSON of its report."""
    audit = judge(replay(str(directory), None, None, None), Policy())
    return render(audit, "text") + render(audit, "json")


def write(directory: Path, files: dict[str, bytes | None]) -> None:
    """Writes files below a directory; None removes."""
    for name, data in files.items():
        path = directory / name
        if data is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


class Archives:
    """Runs recordings through the reader. Whatever else than a refusal comes of one is noted; nothing may be left."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.rng = directory, random.Random(f"{seed} archives")
        self.accepted = 0
        self.bugs: list[str] = []

    def tar(self) -> None:
        """One archive."""
        path = self.directory / "r.tar.gz"
        path.write_bytes(hostile_tar(self.rng))
        self._look(lambda: load_recording(str(path)), path.read_bytes())

    def bundle(self) -> None:
        """One directory."""
        root = self.directory / "small"
        files = hostile_bundle(self.rng)
        write(root, dict(files))
        self._look(lambda: load_recording(str(root)), files)

    def whole(self) -> None:
        """One recorded host, all the way to its report."""
        root = self.directory / "whole"
        if not root.exists():
            write(root, dict(whole_files()))
        changed = damage_whole(self.rng)
        write(root, changed)
        self._look(lambda: judged(root), changed)
        write(root, {name: whole_files()[name] for name in changed})

    def _look(self, read: Callable[[], object], what: object) -> None:
        before = set(os.listdir(self.directory))
        try:
            read()
            self.accepted += 1
        except (RecordingError, UsageError):
            pass
        except Exception as error:  # noqa: BLE001 whatever it is, it is a bug
            self.bugs.append(f"{type(error).__name__}: {error}: {what!r}")
        if set(os.listdir(self.directory)) != before:
            self.bugs.append(f"left something: {what!r}")
