"""Writes the recorded hosts that lie beside this file: ``python -m tests.hosts.build``."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.hosts.lab import HOSTS
from tests.hosts.machine import Recorded, record

HERE = Path(__file__).parent


def write(host: Recorded, directory: Path) -> Path:
    """Writes a recording into a new directory, and returns that."""
    for name, text in host.files().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory


def main() -> None:
    """Rewrites every recorded host."""
    for name, machine in HOSTS.items():
        shutil.rmtree(HERE / name, ignore_errors=True)
        write(record(machine), HERE / name)


if __name__ == "__main__":
    main()
