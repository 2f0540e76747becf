"""What a recording keeps of files and command lines that may hold secrets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import DictHost, ProbeError
from probes.kubelet_document import load
from probes.kubelet_flags import FLAGS, PATHS, parse_argv, parse_flags
from probes.kubelet_secrets import NOT_KEPT, only_known_flags, only_known_keys, only_settings
from probes.record import Recorder

KUBECONFIG = "apiVersion: v1\nkind: Config\nusers:\n- name: n\n  user:\n    token: SECRET\n"


def argv(*words: str) -> str:
    return "".join(f"{word}\0" for word in words)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("/usr/bin/kubelet", "--config=/c", "--v=2"), ("/usr/bin/kubelet", "--config=/c")),
        (("kubelet", "--config", "/c", "--token", "SECRET"), ("kubelet", "--config=/c")),
        (("kubelet", "SECRET"), ("kubelet",)),
        (("kubelet", "--", "--config=/c"), ("kubelet",)),
        (("kubelet", "--cpu-cfs-quota", "--reserved_cpus=0"), ("kubelet", "--cpu-cfs-quota=true", "--reserved-cpus=0")),
        (("hyperkube", "kubelet", "--root-dir=/r"), ("hyperkube", "kubelet", "--root-dir=/r")),
        (("/usr/bin/k3s server", "--token=SECRET"), ("/usr/bin/k3s server",)),
        (("/usr/bin/k3s SECRET",), ("/usr/bin/k3s",)),
        (
            ("k3s", "agent", "--kubelet-arg=reserved-cpus=0", "--kubelet-arg=x=SECRET"),
            ("k3s", "agent", "--kubelet-arg=reserved-cpus=0"),
        ),
    ],
)
def test_command_lines(given: tuple[str, ...], kept: tuple[str, ...]) -> None:
    assert only_settings("proc/7/cmdline", argv(*given)) == argv(*kept)


def test_no_command_line_stays_none() -> None:
    assert only_known_flags("") == ""


def test_a_configuration_keeps_the_keys_that_are_read() -> None:
    text = "kind: KubeletConfiguration\ncpuManagerPolicy: static\nstaticPodURLHeader:\n  Authorization: [SECRET]\n"
    kept = only_settings("var/lib/kubelet/config.yaml", text)
    assert json.loads(kept) == {"kind": "KubeletConfiguration", "cpuManagerPolicy": "static"}


def test_the_token_of_k3s_is_not_kept() -> None:
    text = "token: SECRET\nkubelet-arg:\n- cpu-manager-policy=static\n- provider-id=SECRET\n"
    kept = only_settings("proc/7/root/etc/rancher/k3s/config.yaml", text)
    assert json.loads(kept) == {"kubelet-arg": ["cpu-manager-policy=static"]}


def test_a_kubeconfig_keeps_only_what_it_is() -> None:
    assert json.loads(only_known_keys(KUBECONFIG)) == {"apiVersion": "v1", "kind": "Config"}


def test_lines_of_flags() -> None:
    text = "# comment\n--token=SECRET\n--cpu-manager-policy=static\n"
    assert only_settings("var/snap/microk8s/current/args/kubelet", text) == "--cpu-manager-policy=static\n"


@pytest.mark.parametrize("text", ["SECRET", "- SECRET\n", "a: [SECRET", "a: &b SECRET\nc: *b\n"])
def test_what_can_t_be_read_is_not_kept(text: str) -> None:
    assert only_known_keys(text) == NOT_KEPT
    with pytest.raises(ProbeError, match="no map of names"):
        load(NOT_KEPT, path="x")


@pytest.mark.parametrize(
    "path",
    ["proc/interrupts", "sys/x", "boot/config-6.1", "lib/modules/6.1/config", "r/var/lib/kubelet/cpu_manager_state"],
)
def test_these_are_kept_whole(path: str) -> None:
    assert only_settings(path, "--any text: here\n") == "--any text: here\n"


def test_empty_stays_empty() -> None:
    assert only_known_keys(" \n") == " \n"


def test_a_recorder_keeps_and_gives_the_same() -> None:
    recorder = Recorder(DictHost({"etc/kubernetes/kubelet.conf": KUBECONFIG}))
    assert "SECRET" not in recorder.read("etc/kubernetes/kubelet.conf")
    assert "SECRET" not in str(recorder.trees["t0"].files)


WORDS = st.lists(st.text(max_size=12) | st.sampled_from(["--config", "--token", "--reserved-cpus=0", "--", "server"]))


@given(WORDS)
def test_flags_that_are_read_say_the_same_afterwards(words: list[str]) -> None:
    text = argv("kubelet", *(word.replace("\0", "") for word in words))
    before, after = (parse_flags(parse_argv(line)[1:]) for line in (text, only_known_flags(text)))
    for name in (*FLAGS, *PATHS):
        assert before.get(name) == after.get(name)


@given(st.text(max_size=200))
def test_any_text_is_cut_down_without_an_error(text: str) -> None:
    only_known_keys(text)
    only_known_flags(text)
