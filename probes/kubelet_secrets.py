"""What a recording keeps of a kubelet's files and command line: what an audit reads, for the rest may hold secrets.

k3s keeps the token of its cluster in the file that also holds the kubelet's flags, and a kubeconfig may lie where a
distribution has the kubelet's configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from probes.host import ProbeError
from probes.kubelet_config import KEYS
from probes.kubelet_document import load
from probes.kubelet_flags import FLAGS, PATHS, parse_argv, parse_flags

COMMANDS = ("kubelet", "server", "agent")
NOT_KEPT = '["not kept: no map of names"]\n'
"""Stands for what can't be read either: it is malformed to every reader, as the original was."""
_ARGV = re.compile(r"proc/\d+/cmdline", re.ASCII)
_KERNELS = re.compile(r"(?:proc/(?!\d+/root/)|sys/|dev/|boot/|lib/modules/)", re.ASCII)
_KEPT_KEYS = KEYS | {"kind", "apiVersion"}


def only_settings(path: str, text: str) -> str:
    """A file as a recording keeps it: those of the kernel whole, a state whole, of all others the settings."""
    if _ARGV.fullmatch(path):
        return only_known_flags(text)
    if _KERNELS.match(path) or path.endswith("/cpu_manager_state"):
        return text
    return only_known_keys(text)


def only_known_flags(text: str) -> str:
    """A command line cut down to its program, its command and the flags that are read."""
    try:
        argv = parse_argv(text)
    except ProbeError:
        return ""
    program, *words = argv[0].split(" ")
    name = " ".join([program, *(word for word in words[:1] if word in COMMANDS)])
    command = [word for word in argv[1:2] if word in COMMANDS]
    return "".join(f"{word}\0" for word in [name, *command, *_flags(parse_flags(argv[1:]))])


def _flags(flags: Mapping[str, list[str]]) -> list[str]:
    known = [f"--{name}={value}" for name, values in flags.items() if name in (*FLAGS, *PATHS) for value in values]
    return known + [f"--kubelet-arg={word}" for word in _arguments(flags.get("kubelet-arg", []))]


def _arguments(words: object) -> list[str]:
    """The kubelet's flags among those that k3s hands on, as ``name=value``."""
    listed = words if isinstance(words, list) else [words]
    named = [(str(word), str(word).partition("=")[0].lstrip("-").replace("_", "-")) for word in listed]
    return [word for word, name in named if name in (*FLAGS, *PATHS)]


def only_known_keys(text: str) -> str:
    """A configuration cut down to the keys that are read, as JSON; of lines of flags those that are read."""
    if not text.strip():
        return text
    lines = [line.strip() for line in text.split("\n")]
    if any(line.startswith("--") for line in lines) and not any(line.startswith("---") for line in lines):
        return "".join(f"{word}\n" for word in _flags(parse_flags([line for line in lines if line[:1] != "#"])))
    try:
        document = load(text, path="")
    except ProbeError:
        return NOT_KEPT
    kept = {key: value for key, value in document.items() if key in _KEPT_KEYS}
    if "kubelet-arg" in document:
        kept["kubelet-arg"] = _arguments(document["kubelet-arg"])
    return json.dumps(kept, default=str) + "\n"
