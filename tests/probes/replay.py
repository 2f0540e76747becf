"""What a probe reads through a recorder, written and read back: a recording must say the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from probes.host import DictHost, Host, ProbeError
from probes.record import SCHEMA, Recorder, describe_files, entries, load_recording

T = TypeVar("T")


def replayed(
    directory: Path, files: Mapping[str, str | ProbeError], read: Callable[[Host], T]
) -> tuple[T | str, T | str]:
    """What ``read`` gives live and from the recording of that; an error as its text."""
    recorder = Recorder(DictHost(files))
    live = _told(read, recorder)
    recorder.phase("t1")
    for name, data in entries(recorder.trees):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    (directory / "t0").mkdir(exist_ok=True)
    (directory / "t0" / "kept").write_text("")
    (directory / "t1").mkdir(exist_ok=True)
    (directory / "t1" / "kept").write_text("")
    meta = {"schema": SCHEMA, "files": describe_files(recorder.trees)}
    (directory / "recording.json").write_text(json.dumps(meta))
    return live, _told(read, load_recording(str(directory)).trees["t0"].host())


def _told(read: Callable[[Host], T], host: Host) -> T | str:
    try:
        return read(host)
    except ProbeError as error:
        return f"{error.state.value}: {error}"
