"""Which version a kubelet is, as far as files tell without asking it: the path of its program, or who installed it.

RKE2 and minikube name the directory of the program by the version; kind writes a file into its nodes; a snap and a
Debian package have a version. RPM's database is no text, and of a program that was replaced while it ran no file tells.
"""

from __future__ import annotations

import re

from probes.host import Host, ProbeError

KIND, DPKG, SNAP = "kind/version", "var/lib/dpkg/status", "meta/snap.yaml"
FILES = (KIND, DPKG, SNAP)
"""How the paths end that are read here."""
KEPT = ("Package", "Status", "Version")
PACKAGED = "/usr/bin/kubelet"
DELETED = " (deleted)"
"""What the kernel appends to the link of a program whose file is gone (fs/d_path.c)."""
_IN_PATH = re.compile(r"/v(1\.\d{1,3}\.\d{1,3})(?:[-+][^/]*)?/", re.ASCII)
_SNAP = re.compile(r"/snap/[a-z0-9-]+/[x0-9]+(?=/)", re.ASCII)
_SNAP_LINE = re.compile(r"^version: ['\"]?v?(1\.\d{1,3}\.\d{1,3})\b.*$", re.ASCII | re.MULTILINE)
_KIND_LINE = re.compile(r"\s*v?(1\.\d{1,3}\.\d{1,3})\b[^\n]*\n?", re.ASCII)
_STANZA = re.compile(r"(?:^|\n\n)Package: kubelet\n(?:[^\n]+(?:\n|$))*", re.ASCII)
_INSTALLED = re.compile(r"^Status: (?:install|hold) ok installed$", re.ASCII | re.MULTILINE)
_DPKG_LINE = re.compile(r"^Version: (?:\d+:)?(1\.\d{1,3}\.\d{1,3})\b.*$", re.ASCII | re.MULTILINE)


def read_kubelet_version(host: Host, pid: int, root: str) -> str | None:
    """``1.33.2`` of the kubelet that runs with this id, None where nothing tells. Never raises.

    ``root`` is what its paths are below ("" or ``proc/PID/root``). Only root may follow the link to its program.
    """
    try:
        program = host.readlink(f"proc/{pid}/exe")
    except ProbeError:
        return None
    if match := _IN_PATH.search(program):
        return match[1]
    if program.endswith(DELETED):
        return None
    prefix = f"{root}/" if root else ""
    if snap := _SNAP.match(program):
        return _first(_SNAP_LINE, _text(host, f"{prefix}{snap[0][1:]}/{SNAP}"))
    if program != PACKAGED:
        return None
    if root and (found := _KIND_LINE.match(_text(host, f"{prefix}{KIND}"))):
        return found[1]
    return installed_version(_text(host, f"{prefix}{DPKG}"))


def installed_version(text: str) -> str | None:
    """Of /var/lib/dpkg/status: the version of the package kubelet, if it is wholly installed."""
    stanza = _STANZA.search(text)
    return _first(_DPKG_LINE, stanza[0]) if stanza and _INSTALLED.search(stanza[0]) else None


def only_version(path: str, text: str) -> str:
    """What a recording keeps of such a file: what says the version."""
    if path.endswith(DPKG):
        stanza = _STANZA.search(text)
        lines = stanza[0].strip("\n").split("\n") if stanza else []
        return "".join(f"{line}\n" for line in lines if line.partition(":")[0] in KEPT)
    match = _SNAP_LINE.search(text) if path.endswith(SNAP) else _KIND_LINE.match(text)
    return match[0].strip("\n") + "\n" if match else ""


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except ProbeError:
        return ""


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None
