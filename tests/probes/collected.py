"""Where inputs collected from real machines lie beside the repository, where they do: read in place, never copied."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
CASES = SHARED / "cases"
BOOTED = SHARED / "recordings" / "booted"


def text_of(path: Path) -> str:
    """Content of a case, unpacked where it is packed."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".bz2":
        data = bz2.decompress(data)
    return data.decode("utf-8")


def case_file(kind: str, name: str) -> Path:
    """The data file of one case: NAME.txt, .txt.gz or .txt.bz2."""
    return next(path for path in sorted((CASES / kind).glob(f"{name}.txt*")))


def case_names(kind: str) -> list[str]:
    """Names of all cases of a kind that carry an answer; none where the folder does not exist."""
    return sorted(path.name.removesuffix(".md") for path in (CASES / kind).glob("*.md"))


def right_lines(kind: str, name: str) -> list[str]:
    """The answers of one case."""
    lines = (CASES / kind / f"{name}.md").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("- RIGHT: ") for line in lines if line.startswith("- RIGHT: ")]
