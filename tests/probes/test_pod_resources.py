"""What a kubelet says on its socket: the messages, the JSON that stands for them, and a real server that speaks it."""

from __future__ import annotations

import importlib
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import pod_resources as module
from probes.host import DictHost, ProbeError, SourceState, TreeHost
from probes.kubelet import ask_kubelet
from probes.pod_resources import (
    INSTALL,
    SOCKET,
    ContainerCpus,
    PodResources,
    decode_list,
    parse_pod_resources,
    read_pod_resources,
)
from probes.record import Recorder
from tests.auditor.build import cpus, kubelet
from tests.probes.collected import SHARED
from tests.probes.outcome import outcome

RECORDED = sorted((SHARED / "recordings").glob("kubelet-*.txt"))


def varint(value: int) -> bytes:
    done = b""
    while value > 0x7F:
        done, value = done + bytes([value & 0x7F | 0x80]), value >> 7
    return done + bytes([value])


def field(number: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def packed(number: int, *values: int) -> bytes:
    return field(number, b"".join(map(varint, values)))


APP = field(1, "app") + packed(3, 300, 2) + field(2, "a device")
POOL = field(1, "pool") + field(5, b"\x08\x01")
BENCH = field(1, "bench") + field(2, "rig") + field(3, APP) + field(3, POOL)
WHOLE = field(1, "level") + field(2, "rig") + packed(4, 5, 4)
LIST = field(1, BENCH) + field(1, WHOLE)
ALLOCATABLE = field(1, "a device") + packed(2, 2, 3, 300)
ANSWER = PodResources(
    containers=(
        ContainerCpus(namespace="rig", pod="bench", container="app", cpus=cpus(2, 300)),
        ContainerCpus(namespace="rig", pod="bench", container="pool", cpus=cpus()),
        ContainerCpus(namespace="rig", pod="level", container="", cpus=cpus(4, 5)),
    ),
    allocatable=cpus(2, 3, 300),
)


def test_messages() -> None:
    assert decode_list(LIST) == [
        {
            "namespace": "rig",
            "name": "bench",
            "cpu_ids": [],
            "containers": [{"name": "app", "cpu_ids": [300, 2]}, {"name": "pool", "cpu_ids": []}],
        },
        {"namespace": "rig", "name": "level", "cpu_ids": [5, 4], "containers": []},
    ]
    assert decode_list(b"") == []


def test_numbers_need_not_be_packed_and_unknown_fields_are_passed_over() -> None:
    container = field(1, "x") + varint(3 << 3) + varint(7) + varint(3 << 3) + varint(300)
    container += varint(9 << 3 | 1) + b"8 bytes." + varint(10 << 3 | 5) + b"four" + varint(11 << 3) + varint(1 << 60)
    (pod,) = decode_list(field(1, field(3, container)))
    assert pod["containers"] == [{"name": "x", "cpu_ids": [7, 300]}]


@pytest.mark.parametrize("data", [LIST[:-1], b"\x0a", b"\x0a\x05ab", b"\x80" * 11, b"\x0b", b"\x09short", b"\xff"])
def test_what_is_cut_or_no_message(data: bytes) -> None:
    found = outcome(lambda: decode_list(data))
    assert isinstance(found, ProbeError)
    assert found.reason == "the kubelet's answer is cut, or no message"


@given(st.binary(max_size=60) | st.lists(st.sampled_from([LIST, BENCH, b"\x0a", b"\x1a\x02"])).map(b"".join))
def test_any_bytes_are_a_list_or_an_error(data: bytes) -> None:
    assert isinstance(outcome(lambda: decode_list(data)), list | ProbeError)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_answers_of_a_real_kubelet(path: Path) -> None:
    text = path.read_text(encoding="utf-8").partition("=== PODRES\n")[2].partition("\n")[0]
    found = parse_pod_resources(text)
    assert found.allocatable == cpus(2, 3, 4, 5, 6, 7)
    given_away = {item.container: item.cpus for item in found.containers if item.cpus}
    expected = {
        "kubelet-1.36.2-default": {"app": cpus(2, 3), "one": cpus(4)},
        "kubelet-1.36.2-pod-level": {"app": cpus(2, 3), "ex": cpus(6), "sh1": cpus(4, 5)},
        "kubelet-1.36.2-strict": {},
    }
    assert given_away == expected[path.stem]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"list": 5}',
        '{"list": [{}]}',
        '{"list": [], "allocatable_cpu_ids": [-1]}',
        '{"list": [], "allocatable_cpu_ids": [1, 1]}',
        '{"list": [], "allocatable_cpu_ids": [true]}',
        '{"list": [{"namespace": 1, "name": "x", "containers": [{"name": "y", "cpu_ids": []}]}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_answer(text: str) -> None:
    found = outcome(lambda: parse_pod_resources(text))
    assert isinstance(found, ProbeError)
    assert (found.state, found.reason) == (SourceState.MALFORMED, "no answer of a kubelet")


@given(st.text(max_size=40))
def test_any_text_is_an_answer_or_an_error(text: str) -> None:
    assert isinstance(outcome(lambda: parse_pod_resources(text)), PodResources | ProbeError)


def test_before_1_21_nothing_is_said_of_the_rest() -> None:
    assert parse_pod_resources('{"list": []}') == PodResources(containers=(), allocatable=None)


def test_one_that_does_not_run_is_not_asked() -> None:
    left = kubelet(pid=None)
    assert ask_kubelet(DictHost({}), left) is left


def test_the_socket_of_a_kubelet_in_a_container_lies_in_its_root() -> None:
    text = json.dumps({"list": [], "allocatable_cpu_ids": [3]})
    host = DictHost({f"proc/7/root/data/{SOCKET}": text}, {"proc/7/root/var/lib/kubelet": "/data"})
    inside = replace(kubelet(pid=7, root="proc/7/root"), state_path="proc/7/root/var/lib/kubelet/cpu_manager_state")
    asked = ask_kubelet(host, inside)
    assert asked.resources == PodResources(containers=(), allocatable=cpus(3))
    alone = ask_kubelet(DictHost({}), kubelet())
    assert isinstance(alone.resources, ProbeError)
    assert (alone.resources.path, alone.resources.state) == (f"var/lib/kubelet/{SOCKET}", SourceState.MISSING)


def test_without_grpcio_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def absent(name: str) -> Any:
        if name == "grpc":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with listening(tmp_path):
        found = outcome(lambda: read_pod_resources(TreeHost(str(tmp_path)), "k"))
    assert isinstance(found, ProbeError)
    assert (found.path, found.state, found.reason) == (f"k/{SOCKET}", SourceState.MISSING, INSTALL)


def listening(directory: Path) -> socket.socket:
    """A socket that nobody answers on."""
    path = directory / "k" / SOCKET
    path.parent.mkdir(parents=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    return server


def need_grpc() -> Any:
    """grpcio, or the test is skipped unless REQUIRE_TOOLS says that it has to be there."""
    try:
        return importlib.import_module("grpc")
    except ImportError:
        if os.environ.get("REQUIRE_TOOLS"):
            pytest.fail("grpcio is not installed, and REQUIRE_TOOLS is set")
        return pytest.skip("grpcio is not installed")


class Kubelet:
    """A server at tmp/k/pod-resources/kubelet.sock that answers with these bytes, or with a status."""

    def __init__(self, directory: Path, answers: dict[str, Any]) -> None:
        self.grpc, self.directory, self.answers = need_grpc(), directory, answers

    def __enter__(self) -> TreeHost:
        handlers = {name: self.grpc.unary_unary_rpc_method_handler(self._answer(name)) for name in self.answers}
        self.server = self.grpc.server(ThreadPoolExecutor(max_workers=1))
        service = self.grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)
        self.server.add_generic_rpc_handlers((service,))
        path = self.directory / "k" / SOCKET
        path.parent.mkdir(parents=True)
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()
        return TreeHost(str(self.directory))

    def _answer(self, name: str) -> Any:
        def respond(request: bytes, context: Any) -> bytes:
            assert request == b""
            answer = self.answers[name]
            return answer if isinstance(answer, bytes) else context.abort(answer, "no")

        return respond

    def __exit__(self, *_: object) -> None:
        self.server.stop(None).wait()


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path of a socket has at most 107 characters."""
    return tmp_path_factory.mktemp("s")


def test_a_real_server_and_the_recording_of_its_answer(short: Path) -> None:
    with Kubelet(short, {"List": LIST, "GetAllocatableResources": ALLOCATABLE}) as host:
        recorder = Recorder(host)
        assert read_pod_resources(recorder, "k") == ANSWER
    assert read_pod_resources(recorder.trees["t0"].host(), "k") == ANSWER


def test_a_server_that_only_lists(short: Path) -> None:
    with Kubelet(short, {"List": LIST}) as host:
        assert read_pod_resources(host, "k") == PodResources(containers=ANSWER.containers, allocatable=None)


@pytest.mark.parametrize("method", ["List", "GetAllocatableResources"])
def test_a_server_that_refuses(short: Path, method: str) -> None:
    refusal = need_grpc().StatusCode.RESOURCE_EXHAUSTED
    with Kubelet(short, {"List": LIST, "GetAllocatableResources": ALLOCATABLE, method: refusal}) as host:
        found = outcome(lambda: read_pod_resources(host, "k"))
    assert isinstance(found, ProbeError)
    assert found.reason == "the kubelet does not answer: resource_exhausted"


def test_a_socket_that_nobody_answers_on(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_grpc()
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    with listening(short):
        found = outcome(lambda: read_pod_resources(TreeHost(str(short)), "k"))
    assert isinstance(found, ProbeError)
    assert found.reason in (
        "the kubelet does not answer: unavailable",
        "the kubelet does not answer: deadline_exceeded",
    )


def test_any_other_socket_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "k/other.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        found = outcome(lambda: TreeHost(str(tmp_path)).read("k/other.sock"))
    assert isinstance(found, ProbeError)
    assert found.state is SourceState.MISSING
