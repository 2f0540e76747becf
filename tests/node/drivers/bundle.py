"""What the command imports, in one file and compiled to the last word.

An emulated CPU imports it in fourteen seconds of its time: four hundred files are looked for, opened and read over the
network file system, and dataclasses write the source of eight hundred methods and have it compiled. All of that is the
same in every guest, for the interpreter is this machine's own.
"""

from __future__ import annotations

import dataclasses
import importlib.abc
import marshal
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

Module = tuple[str, "list[str] | None", CodeType]
"""Its file, its directories where it is a package, its code."""


def modules() -> dict[str, Module]:
    """Every module imported here that comes from a Python file."""
    found = {}
    for name, module in sys.modules.items():
        spec = getattr(module, "__spec__", None)
        if spec and spec.origin and spec.name == name and isinstance(spec.loader, SourceFileLoader):
            places = spec.submodule_search_locations
            code = spec.loader.get_code(name)
            assert code is not None
            found[name] = (spec.origin, None if places is None else list(places), code)
    return found


class Sources:
    """Stands in for exec() in the module dataclasses: what it was given, compiled."""

    def __init__(self, compiled: dict[str, CodeType]) -> None:
        self.compiled = compiled

    def __call__(self, source: str, names: dict[str, Any], into: dict[str, Any]) -> None:
        if source not in self.compiled:
            self.compiled[source] = compile(source, "<string>", "exec")
        exec(self.compiled[source], names, into)

    def stand_in(self) -> None:
        """From now on, for every dataclass."""
        vars(dataclasses)["exec"] = self


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the modules of a bundle; all else is left to the next finder."""

    def __init__(self, packed: Mapping[str, Module]) -> None:
        self.packed = packed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As importlib asks a finder."""
        if fullname not in self.packed:
            return None
        file, places, _ = self.packed[fullname]
        spec = ModuleSpec(fullname, self, origin=file, is_package=places is not None)
        spec.submodule_search_locations = places
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """As importlib asks a loader."""
        exec(self.packed[module.__name__][2], module.__dict__)


def write(target: Path, compiled: dict[str, CodeType]) -> None:
    """The bundle of all that is imported by now."""
    target.write_bytes(marshal.dumps((modules(), compiled)))


def use(source: Path) -> None:
    """Imports from it as far as it goes."""
    packed, compiled = marshal.loads(source.read_bytes())
    Sources(compiled).stand_in()
    sys.meta_path.insert(0, Finder(packed))


def main(target: str) -> None:
    """Writes the bundle of the command."""
    from tests.node.drivers.forks import load

    sources = Sources({})
    sources.stand_in()
    load()
    write(Path(target), sources.compiled)


if __name__ == "__main__":
    main(sys.argv[1])
