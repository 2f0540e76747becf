"""The version of a kubelet from the path of its program and from what installed it; and when nothing tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError
from probes.kubelet_version import DPKG, FILES, installed_version, only_version, read_kubelet_version
from probes.record import Recorder

PACKAGES = """Package: kubectl
Status: install ok installed
Version: 1.30.0-1.1

Package: kubelet
Status: {status}
Priority: optional
Maintainer: Kubernetes Authors <dev@kubernetes.io>
Version: {version}
Conffiles:
 /etc/default/kubelet 5de9c1c0c4b1f2e4a5d1e2f3a4b5c6d7
Description: Node agent for Kubernetes

Package: zlib1g
Status: install ok installed
Version: 1:1.99.5-2
"""
INSTALLED = PACKAGES.format(status="hold ok installed", version="1.33.2-1.1")


def version(program: str | None, files: dict[str, str] | None = None, root: str = "") -> str | None:
    links = {} if program is None else {"proc/7/exe": program}
    return read_kubelet_version(DictHost(files or {}, links), 7, root)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/var/lib/rancher/rke2/data/v1.30.1-rke2r1-0a7f1c/bin/kubelet", "1.30.1"),
        ("/var/lib/minikube/binaries/v1.31.0/kubelet", "1.31.0"),
        ("/var/lib/minikube/binaries/v1.31.0/kubelet (deleted)", "1.31.0"),
        ("/opt/v2.31.0/kubelet", None),
        ("/opt/kubelet-v1.31.0", None),
        ("/usr/local/bin/kubelet", None),
        (None, None),
    ],
)
def test_the_path_of_the_program(program: str | None, expected: str | None) -> None:
    assert version(program, {DPKG: INSTALLED}) == expected


def test_a_package_tells_of_the_program_that_it_installed() -> None:
    assert version("/usr/bin/kubelet", {DPKG: INSTALLED}) == "1.33.2"
    assert version("/usr/bin/kubelet (deleted)", {DPKG: INSTALLED}) is None
    assert version("/usr/bin/kubelet") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INSTALLED, "1.33.2"),
        (PACKAGES.format(status="install ok installed", version="1:1.29.0-00"), "1.29.0"),
        (PACKAGES.format(status="deinstall ok config-files", version="1.33.2-1.1"), None),
        (PACKAGES.format(status="install ok unpacked", version="1.33.2-1.1"), None),
        (PACKAGES.format(status="install ok installed", version="unknown"), None),
        ("Package: kubelet\nVersion: 1.33.2\n", None),
        ("Package: kubelet-extra\nStatus: install ok installed\nVersion: 1.33.2\n", None),
        ("", None),
    ],
)
def test_only_what_is_wholly_installed_counts(text: str, expected: str | None) -> None:
    assert installed_version(text) == expected
    assert installed_version(only_version(DPKG, text)) == expected


def test_nodes_of_kind_and_snaps() -> None:
    files = {"proc/7/root/kind/version": "v1.34.0\n", DPKG: INSTALLED}
    assert version("/usr/bin/kubelet", files, "proc/7/root") == "1.34.0"
    assert version("/usr/bin/kubelet", {f"proc/7/root/{DPKG}": INSTALLED}, "proc/7/root") == "1.33.2"
    snap = {"snap/microk8s/8511/meta/snap.yaml": "name: microk8s\nversion: 'v1.32.9'\nsummary: x\n"}
    assert version("/snap/microk8s/8511/kubelite", snap) == "1.32.9"
    assert version("/snap/microk8s/8512/kubelite", snap) is None


@pytest.mark.parametrize(
    ("program", "root", "path", "text", "kept"),
    [
        (
            "/usr/bin/kubelet",
            "",
            DPKG,
            INSTALLED,
            "Package: kubelet\nStatus: hold ok installed\nVersion: 1.33.2-1.1\n",
        ),
        ("/usr/bin/kubelet", "proc/7/root", "proc/7/root/kind/version", "v1.33.2\nSECRET\n", "v1.33.2\n"),
        (
            "/snap/microk8s/8511/kubelite",
            "",
            "snap/microk8s/8511/meta/snap.yaml",
            "environment: {A: SECRET}\nversion: v1.33.2\n",
            "version: v1.33.2\n",
        ),
    ],
)
def test_a_recording_keeps_the_version_and_nothing_else(
    program: str, root: str, path: str, text: str, kept: str
) -> None:
    recorder = Recorder(DictHost({path: text}, {"proc/7/exe": program}))
    assert read_kubelet_version(recorder, 7, root) == "1.33.2"
    assert recorder.trees["t0"].files == {path: kept}
    assert read_kubelet_version(recorder.trees["t0"].host(), 7, root) == "1.33.2"


@pytest.mark.parametrize("path", FILES)
@given(text=st.text(max_size=60) | st.lists(st.sampled_from(INSTALLED.split("\n"))).map("\n".join))
def test_any_text_is_cut_to_what_says_the_same(path: str, text: str) -> None:
    kept = only_version(path, text)
    assert len(kept) <= len(text) + 1
    assert only_version(path, kept) == kept
    assert installed_version(only_version(DPKG, text)) == installed_version(text)


def test_a_link_that_may_not_be_followed() -> None:
    error = ProbeError("proc/7/exe", "permission denied")

    class Denied(DictHost):
        def readlink(self, path: str) -> str:
            raise error

    assert read_kubelet_version(Denied({DPKG: INSTALLED}), 7, "") is None


def test_a_snap_of_ones_own() -> None:
    assert version("/snap/microk8s/x1/kubelite", {"snap/microk8s/x1/meta/snap.yaml": "version: v1.33.0+git\n"}) == (
        "1.33.0"
    )
