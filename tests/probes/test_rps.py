"""Receive packet steering: every queue of every device, and what of it can't be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import rps
from probes.host import DictHost, ProbeError, SourceState
from probes.rps import DEFAULT, NET_DIR, Rps, read_rps

LO, ETH = f"{NET_DIR}/lo/queues/rx-0/rps_cpus", f"{NET_DIR}/eth0/queues/rx-0/rps_cpus"


def test_every_receive_queue_of_every_device() -> None:
    host = DictHost(
        {
            LO: "0\n",
            ETH: "00000001,00000002\n",
            f"{NET_DIR}/eth0/queues/rx-1/rps_cpus": "a\n",
            f"{NET_DIR}/eth0/queues/tx-0/xps_cpus": "f\n",
            f"{NET_DIR}/bonding_masters": "bond0\n",
            DEFAULT: "3\n",
        }
    )
    assert read_rps(host) == Rps(
        queues={
            ETH: frozenset({1, 32}),
            f"{NET_DIR}/eth0/queues/rx-1/rps_cpus": frozenset({1, 3}),
            LO: frozenset(),
        },
        default=frozenset({0, 1}),
    )


def test_a_kernel_without_a_default_and_one_that_does_not_tell_it() -> None:
    assert read_rps(DictHost({LO: "0\n"})).default is None
    denied = ProbeError(DEFAULT, "permission denied", SourceState.DENIED)
    assert read_rps(DictHost({LO: "0\n", DEFAULT: denied})).default is denied
    assert isinstance(read_rps(DictHost({LO: "0\n", DEFAULT: "x\n"})).default, ProbeError)


def test_a_queue_that_can_not_be_read_is_its_error_and_one_that_went_is_none() -> None:
    denied = ProbeError(LO, "permission denied", SourceState.DENIED)
    found = read_rps(DictHost({LO: denied, ETH: ProbeError(ETH, "no such file", SourceState.MISSING)}))
    assert found.queues == {LO: denied}
    assert [*read_rps(DictHost({LO: "", ETH: "zz\n"})).queues] == [ETH, LO]


def test_a_machine_without_a_network_has_no_queue() -> None:
    assert read_rps(DictHost({"sys/class/tty/x": ""})) == Rps(queues={}, default=None)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {NET_DIR: ProbeError(NET_DIR, "permission denied", SourceState.DENIED)},
        {
            LO: "0\n",
            f"{NET_DIR}/eth0/queues": ProbeError(f"{NET_DIR}/eth0/queues", "permission denied", SourceState.DENIED),
        },
    ],
)
def test_where_the_devices_are_not_told_nothing_is(files: dict[str, str | ProbeError]) -> None:
    with pytest.raises(ProbeError):
        read_rps(DictHost(files))


def test_more_queues_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rps, "MAX_QUEUES", 1)
    assert read_rps(DictHost({ETH: "0\n"})).cut is False
    found = read_rps(DictHost({LO: "0\n", ETH: "0\n"}))
    assert (list(found.queues), found.cut) == ([ETH], True)


@given(st.dictionaries(st.sampled_from([LO, ETH, DEFAULT]), st.text(max_size=12), min_size=1))
def test_any_text_is_a_value_or_an_error(files: dict[str, str]) -> None:
    found = read_rps(DictHost({**files, "sys/class/x": ""}))
    assert isinstance(found, Rps)


def test_not_even_lo_is_masked() -> None:
    class Empty(DictHost):
        def listdir(self, path: str) -> list[str]:
            return []

    with pytest.raises(ProbeError, match="not even lo") as caught:
        read_rps(Empty({}))
    assert caught.value.state is SourceState.MASKED
