"""What the CPU manager of the kubelet wrote: every version, its checksum, and damaged files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.cpu_manager_checksum import dumps, fnv1a_32
from probes.cpu_manager_state import (
    Assignment,
    Checksum,
    CpuManagerState,
    parse_cpu_manager_state,
    read_cpu_manager_state,
)
from probes.cpulist import parse_cpulist
from probes.host import DictHost, ProbeError, SourceState
from tests.probes.collected import SHARED

KIND = "cpu_manager_state"
POD, STATIC_POD = "c5eb47f4-a9a7-4682-ac98-4f2d187e3994", "5f7d4788a2e201c71c6472e9bb4cfe79"
CONTAINER = "cdc2c5cc531dd48bceb064e5411259a46bd8b8e70974fce10a3620b5b5da2c05"
POD_LEVEL = (
    '{"policyName":"static","defaultCpuSet":"0-1,7","entries":{"5f7d4788a2e201c71c6472e9bb4cfe79":{"ex":"6","sh1":"4-5"'
    '},"b930f583721fb9c7aa5034482168d52c":{"app":"2-3","warm":"2"}},"podEntries":{"5f7d4788a2e201c71c6472e9bb4cfe79":'
    '{"cpuSet":"4-6"}},"checksum":3591620859}'
)
DATA = '{"policyName":"static","defaultCpuSet":"0-1"}'


def cpus(text: str) -> frozenset[int]:
    return parse_cpulist(text)


def state(**keys: object) -> str:
    return json.dumps({"policyName": "static", "defaultCpuSet": "0-1", **keys})


def error_of(text: str) -> ProbeError:
    with pytest.raises(ProbeError) as caught:
        parse_cpu_manager_state(text)
    return caught.value


def test_v0_has_ids_and_no_checksum() -> None:
    assert parse_cpu_manager_state(state(entries={CONTAINER: "2-5"})) == CpuManagerState(
        version=0,
        policy="static",
        default=cpus("0-1"),
        entries=(Assignment(pod="", container=CONTAINER, cpus=cpus("2-5")),),
        pod_entries=(),
        checksum=Checksum.ABSENT,
    )
    assert parse_cpu_manager_state('{"policyName":"static","defaultCpuSet":"0-111"}').version == 0


def test_v1_has_ids() -> None:
    found = parse_cpu_manager_state(
        f'{{"policyName":"static","defaultCpuSet":"0-1,6-17","entries":{{"{CONTAINER}":"2-5"}},"checksum":148873334}}'
    )
    assert (found.version, found.checksum, found.exclusive()) == (1, Checksum.RIGHT, cpus("2-5"))


def test_v2_has_pods_and_an_edited_one_is_wrong() -> None:
    text = (
        '{"policyName":"static","defaultCpuSet":"0-9,11-77,79-85,87-151",'
        f'"entries":{{"{POD}":{{"busybox":"10,86"}}}}, "checksum":3322146737}}'
    )
    found = parse_cpu_manager_state(text)
    assert (found.version, found.checksum) == (2, Checksum.WRONG)
    assert found.entries == (Assignment(pod=POD, container="busybox", cpus=cpus("10,86")),)


def test_v3_has_sets_of_pods() -> None:
    found = parse_cpu_manager_state(POD_LEVEL)
    assert (found.version, found.checksum, found.default) == (3, Checksum.RIGHT, cpus("0-1,7"))
    assert found.pod_entries == (Assignment(pod=STATIC_POD, container="", cpus=cpus("4-6")),)
    assert found.exclusive() == cpus("2-6")
    assert parse_cpu_manager_state(POD_LEVEL.replace('"4-6"', '"4-5"')).checksum is Checksum.WRONG


def test_v3_without_sets_of_pods_is_told_by_its_checksum() -> None:
    file: dict[str, object] = {"policyName": "static", "defaultCpuSet": "0-1", "entries": {POD: {"a": "2"}}}
    text = state(entries={POD: {"a": "2"}}, checksum=fnv1a_32(dumps(file, {})[3]))
    found = parse_cpu_manager_state(text)
    assert (found.version, found.checksum) == (3, Checksum.RIGHT)


def test_v4_counts_its_data() -> None:
    text = state(defaultCpuSet="0-7", checksum=0, data=DATA, dataChecksum=989860433)
    found = parse_cpu_manager_state(text)
    assert (found.version, found.default, found.checksum) == (4, cpus("0-1"), Checksum.RIGHT)
    assert parse_cpu_manager_state(text.replace("989860433", "989860434")).checksum is Checksum.WRONG
    assert parse_cpu_manager_state(state(checksum=0, data=DATA)).checksum is Checksum.ABSENT


def test_data_alone_is_read_and_its_checksum_not_judged() -> None:
    found = parse_cpu_manager_state(json.dumps({"data": DATA, "checksum": 17}))
    assert (found.version, found.default, found.checksum) == (4, cpus("0-1"), Checksum.UNKNOWN)


def test_empty_data_does_not_count() -> None:
    assert parse_cpu_manager_state(state(data="", checksum=1636926438)).checksum is Checksum.RIGHT


@pytest.mark.parametrize(
    ("policy", "default", "checksum", "version"),
    [
        ("none", "", 1353318690, 2),
        ("none", "", 3242152201, 1),
        ("static", "0-63", 1058907510, 2),
        ("static", "0-1", 1636926438, 2),
    ],
)
def test_without_entries_the_checksum_tells_the_version(policy: str, default: str, checksum: int, version: int) -> None:
    text = json.dumps({"policyName": policy, "defaultCpuSet": default, "checksum": checksum})
    found = parse_cpu_manager_state(text)
    assert (found.version, found.checksum, found.exclusive()) == (version, Checksum.RIGHT, frozenset())
    wrong = parse_cpu_manager_state(text.replace(str(checksum), "1"))
    assert (wrong.version, wrong.checksum) == (None, Checksum.WRONG)


@pytest.mark.parametrize(
    ("keys", "version"),
    [({}, None), ({"entries": {POD: {"a": "2"}}}, 2), ({"podEntries": {POD: {"cpuSet": "2"}}}, 3)],
)
def test_a_checksum_of_0_is_none(keys: dict[str, object], version: int | None) -> None:
    found = parse_cpu_manager_state(state(checksum=0, **keys))
    assert (found.version, found.checksum) == (version, Checksum.ABSENT)


def test_only_sharing_across_pods_is_sharing() -> None:
    assert parse_cpu_manager_state(POD_LEVEL).shared_by_pods() == frozenset()
    two = state(entries={POD: {"a": "2-3", "init": "2"}, STATIC_POD: {"b": "3-4"}})
    assert parse_cpu_manager_state(two).shared_by_pods() == cpus("3")
    ids = state(entries={"a": "2-3", "b": "3"})
    assert parse_cpu_manager_state(ids).shared_by_pods() == cpus("3")


@pytest.mark.parametrize("text", ["", "\n", " "])
def test_empty_is_masked(text: str) -> None:
    assert error_of(text).state is SourceState.MASKED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (POD_LEVEL[:-1], "no JSON"),
        (POD_LEVEL + POD_LEVEL, "no JSON"),
        ("[" * 200_000, "no JSON"),
        ('{"policyName":' + "9" * 5000 + "}", "no JSON"),
        ("[]", "the file is no JSON object"),
        ("{}", "policyName is no string"),
        (state(policyName=""), "policyName is empty"),
        ('{"policyName":"static"}', "defaultCpuSet is no string"),
        (state(defaultCpuSet="(null)"), "defaultCpuSet is no CPU list"),
        (state(defaultCpuSet=",1"), "defaultCpuSet is no CPU list"),
        (state(defaultCpuSet="0-"), "no CPU list"),
        (state(defaultCpuSet="3-1"), "no CPU list: '3-1' runs backwards"),
        (state(entries=[]), "entries is no JSON object"),
        (state(entries=None), "entries is no JSON object"),
        (state(entries={"a": "1", POD: {"b": "2"}}), "entries.a is no JSON object"),
        (state(entries={"": {"a": "1"}}), "a pod of entries has no UID"),
        (state(entries={POD: {"a": 2}}), "the set of a is no string"),
        (state(podEntries={POD: "2"}), f"podEntries.{POD} is no JSON object"),
        (state(podEntries={POD: {}}), f"the set of {POD} is no string"),
        (state(checksum="1"), "checksum is no 32-bit number"),
        (state(checksum=True), "checksum is no 32-bit number"),
        (state(checksum=1 << 32), "checksum is no 32-bit number"),
        (state(data=3), "data is no string"),
        (state(data=DATA[:-2]), "no JSON"),
        ('{"policyName":"none","policyName":"static","defaultCpuSet":""}', "no JSON: a key is there twice"),
        (" " * (4 << 20) + "{}", "longer than"),
    ],
)
def test_what_is_torn_or_odd_is_malformed(text: str, reason: str) -> None:
    error = error_of(text)
    assert error.state is SourceState.MALFORMED
    assert error.reason.startswith(reason)


def test_it_lies_below_the_root_directory() -> None:
    host = DictHost({"var/lib/k0s/kubelet/cpu_manager_state": POD_LEVEL})
    assert read_cpu_manager_state(host, "var/lib/k0s/kubelet/") == parse_cpu_manager_state(POD_LEVEL)
    with pytest.raises(ProbeError) as caught:
        read_cpu_manager_state(host)
    assert (caught.value.path, caught.value.state) == ("var/lib/kubelet/cpu_manager_state", SourceState.MISSING)


@given(st.integers(0, len(POD_LEVEL) - 1))
def test_no_cut_is_taken_for_the_whole(end: int) -> None:
    assert error_of(POD_LEVEL[:end]).state in (SourceState.MALFORMED, SourceState.MASKED)


names = st.sampled_from([POD, "a", "", "\ud800"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["0-3", "5", DATA]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names | st.just("cpuSet"), inner, max_size=2),
    max_leaves=6,
)
keys = st.sampled_from(
    ["policyName", "defaultCpuSet", "entries", "podEntries", "checksum", "data", "dataChecksum", "other"]
)


@given(
    st.text() | st.dictionaries(keys, values).map(json.dumps) | st.dictionaries(keys, values).map(lambda k: state(**k))
)
def test_nothing_but_a_probe_error(text: str) -> None:
    try:
        found = parse_cpu_manager_state(text)
    except ProbeError:
        return
    assert found.policy
    assert found.shared_by_pods() <= found.exclusive()


sets = st.frozensets(st.integers(0, 40)).map(lambda found: ",".join(map(str, sorted(found))))


@given(
    st.dictionaries(st.sampled_from([POD, STATIC_POD]), st.dictionaries(st.sampled_from("ab"), sets, min_size=1)),
    st.integers(2, 3),
)
def test_what_is_written_with_its_checksum_is_right(entries: dict[str, dict[str, str]], version: int) -> None:
    file: dict[str, object] = {"policyName": "static", "defaultCpuSet": "0-1", "entries": entries}
    checksum = fnv1a_32(dumps(file, {})[version])
    found = parse_cpu_manager_state(json.dumps({**file, "checksum": checksum}))
    assert (found.version, found.checksum) == (version, Checksum.RIGHT)
    assert {(e.pod, e.container): e.cpus for e in found.entries} == {
        (pod, name): cpus(text) for pod, names in entries.items() for name, text in names.items()
    }


@pytest.mark.parametrize(
    ("run", "version", "exclusive"), [("default", 2, "2-4"), ("pod-level", 3, "2-6"), ("strict", 2, "")]
)
def test_recorded_kubelets_wrote_right_checksums(run: str, version: int, exclusive: str) -> None:
    path = SHARED / "recordings" / f"kubelet-1.36.2-{run}.txt"
    if not path.is_file():
        pytest.skip("no recordings beside the repository")
    line = path.read_text(encoding="utf-8").partition("=== STATE\n")[2].partition("\n")[0]
    found = parse_cpu_manager_state(line)
    assert (found.version, found.checksum, found.exclusive()) == (version, Checksum.RIGHT, cpus(exclusive))
