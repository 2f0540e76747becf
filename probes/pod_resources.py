"""What the kubelet itself says of its pods' CPUs, on its socket: podresources v1, List and GetAllocatableResources.

It needs grpcio (the extra ``podresources``); of the messages a few fields are read, so no generated code is needed. As
text, and in a recording at the socket's path, the answer is JSON: ``{"list": [{"namespace": …, "name": …, "cpu_ids":
[…], "containers": [{"name": …, "cpu_ids": […]}]}], "allocatable_cpu_ids": […]}``.
Source: k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from probes.host import Host, ProbeError, SourceState, visible

SOCKET = "pod-resources/kubelet.sock"
SERVICE = "/v1.PodResourcesLister"
TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 16 << 20
MAX_CPU = 1 << 20
INSTALL = "grpcio is not installed (pip install 'cpu-audit[podresources]')"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types (protobuf.dev/programming-guides/encoding)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerCpus:
    """CPUs of one container; ``container`` "" for a pod as a whole (since 1.37). Empty: those of the shared pool."""

    namespace: str
    pod: str
    container: str
    cpus: frozenset[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class PodResources:
    """What one kubelet says. Init containers that are not restartable are never listed."""

    containers: tuple[ContainerCpus, ...]
    allocatable: frozenset[int] | None
    """CPUs that are not reserved, given away or not; None before 1.21. Empty with policy none."""


def read_pod_resources(host: Host, root_dir: str) -> PodResources:
    """Asks the kubelet with this root directory. Raises ProbeError. Only root may."""
    path = f"{root_dir.rstrip('/')}/{SOCKET}"
    return parse_pod_resources(host.read(path), path=path)


def parse_pod_resources(text: str, *, path: str = SOCKET) -> PodResources:
    """The answer as JSON. Raises ProbeError."""
    try:
        found = json.loads(text)
        allocatable = found.get("allocatable_cpu_ids")
        return PodResources(
            containers=tuple(item for pod in found["list"] for item in _containers(pod)),
            allocatable=None if allocatable is None else _cpus(allocatable),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProbeError(path, "no answer of a kubelet") from None


def _containers(pod: dict[str, Any]) -> Iterator[ContainerCpus]:
    """Raises what a document of another form raises."""
    named = [("", pod["cpu_ids"])] if pod.get("cpu_ids") else []
    named += [(item["name"], item["cpu_ids"]) for item in pod["containers"]]
    for name, numbers in named:
        yield ContainerCpus(
            namespace=visible(pod["namespace"]), pod=visible(pod["name"]), container=visible(name), cpus=_cpus(numbers)
        )


def _cpus(numbers: list[object]) -> frozenset[int]:
    cpus = frozenset(number for number in numbers if type(number) is int and 0 <= number < MAX_CPU)
    if len(cpus) != len(numbers):
        raise ValueError("not CPUs, each once")
    return cpus


def ask(path: str) -> str:
    """The answer of the kubelet that listens at this path of this machine, as JSON. Raises ProbeError."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes to stderr by itself
    try:
        grpc = importlib.import_module("grpc")
    except ImportError:
        raise ProbeError(path, INSTALL, SourceState.MISSING) from None
    options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", MAX_ANSWER_BYTES)]
    try:
        with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
            pods = _call(channel, "List")
            try:
                allocatable: bytes | None = _call(channel, "GetAllocatableResources")
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                allocatable = None
    except grpc.RpcError as error:
        raise ProbeError(path, f"the kubelet does not answer: {error.code().name.lower()}") from None
    answer = {"list": decode_list(pods, path=path)}
    if allocatable is not None:
        answer["allocatable_cpu_ids"] = _numbers(allocatable, 2, path)
    return json.dumps(answer) + "\n"


def _call(channel: Any, method: str) -> bytes:
    """One call without arguments: an empty message is no bytes."""
    call = channel.unary_unary(f"{SERVICE}/{method}", request_serializer=bytes, response_deserializer=bytes)
    answer: bytes = call(b"", timeout=TIMEOUT_S)
    return answer


def decode_list(data: bytes, *, path: str = SOCKET) -> list[Any]:
    """ListPodResourcesResponse as in the JSON. Raises ProbeError."""
    return [
        {
            "namespace": _text(pod, 2, path),
            "name": _text(pod, 1, path),
            "cpu_ids": _numbers(pod, 4, path),
            "containers": [
                {"name": _text(item, 1, path), "cpu_ids": _numbers(item, 3, path)} for item in _messages(pod, 3, path)
            ],
        }
        for pod in _messages(data, 1, path)
    ]


def _messages(data: bytes, number: int, path: str) -> list[bytes]:
    return [value for field, value in _fields(data, path) if field == number and isinstance(value, bytes)]


def _text(data: bytes, number: int, path: str) -> str:
    return next(reversed(_messages(data, number, path)), b"").decode("utf-8", "backslashreplace")


def _numbers(data: bytes, number: int, path: str) -> list[int]:
    """Repeated int64, packed or not."""
    found: list[int] = []
    for field, value in _fields(data, path):
        if field == number and isinstance(value, int):
            found.append(value)
        elif field == number and isinstance(value, bytes):
            at = 0
            while at < len(value):
                one, at = _varint(value, at, path)
                found.append(one)
    return found


def _fields(data: bytes, path: str) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message; values of fixed size are passed over."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at, path)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at, path)
            yield key >> 3, value
            continue
        size, at = _varint(data, at, path) if kind == BYTES else ({FIXED64: 8, FIXED32: 4}.get(kind, -1), at)
        if size < 0 or at + size > len(data):
            raise ProbeError(path, "the kubelet's answer is cut, or no message")
        if kind == BYTES:
            yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int, path: str) -> tuple[int, int]:
    """Seven bits in each byte, the low ones first; at most ten bytes."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    raise ProbeError(path, "the kubelet's answer is cut, or no message")
