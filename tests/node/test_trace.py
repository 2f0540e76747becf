"""The text of a trace."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.node.trace import (
    Event,
    LostEventsError,
    between,
    caused,
    chance,
    family,
    happened,
    parse_trace,
    shown,
    visits,
)

TRACE = """# tracer: nop
#
# entries-in-buffer/entries-written: 10/10   #P:4
#
#                                _-----=> irqs-off/BH-disabled
#           TASK-PID     CPU#  |||||||  TIMESTAMP  FUNCTION
#              | |         |   |||||||      |         |
          python-100     [000] .......   10.000000: tracing_mark_write: begin with
          python-100     [000] .....11   10.100000: sched_process_fork: comm=python pid=100 child_comm=x child_pid=101
     my - comm-7-101     [002] d..3.11   10.200000: sched_waking: comm=app pid=9 prio=120 target_cpu=001
          <idle>-0       [001] dNh2.11   10.200100: sched_waking: comm=rcuc/1 pid=20 prio=98 target_cpu=001
          <idle>-0       [001] d..2.11   10.200200: sched_switch: prev_comm=swapper/1 prev_pid=0 ==> next_comm=app
          python-101     [002] d....11   10.300000: ipi_send_cpumask: cpumask=0000000a callsite=x+0x1/0x2 callback=y
          python-101     [002] d.h..11   10.400000: ipi_send_cpu: cpu=3 callsite=x callback=y
          python-101     [002] d....11   10.500000: sched_migrate_task: comm=kthread pid=8 prio=9 orig_cpu=1 dest_cpu=2
          python-101     [002] d....11   10.600000: workqueue_queue_work: work struct=0 function=f req_cpu=8192 cpu=3
"""


@pytest.fixture
def events() -> list[Event]:
    return parse_trace(TRACE)


def test_lines_become_events(events: list[Event]) -> None:
    assert len(events) == 9
    assert events[2] == Event(
        comm="my - comm-7",
        pid=101,
        cpu=2,
        flags="d..3.11",
        at_s=10.2,
        name="sched_waking",
        text="comm=app pid=9 prio=120 target_cpu=001",
    )


def test_targets(events: list[Event]) -> None:
    assert [sorted(event.targets) for event in events] == [[], [], [1], [1], [], [1, 3], [3], [2], [3]]


def test_a_family_is_followed_through_its_forks(events: list[Event]) -> None:
    assert family(events, 100) == {100, 101}
    assert family(events, 101) == {101}


def test_what_threads_caused_is_not_what_interrupted_them(events: list[Event]) -> None:
    found = caused(events, {100, 101}, {1, 3})
    assert [event.name for event in found] == ["sched_waking", "ipi_send_cpumask", "workqueue_queue_work"]
    assert caused(events, {100}, {1, 3}) == []
    assert [event.name for event in caused(events, {0}, {1})] == ["sched_switch"]


def test_what_happened_on_a_cpu(events: list[Event]) -> None:
    assert happened(events, {1, 3}) == Counter(sched_waking=1, sched_switch=1)


def test_between_leaves_the_markers_out(events: list[Event]) -> None:
    assert [event.at_s for event in between(events, 10.0, 10.2)] == [10.1]


def test_a_burst_is_one_visit(events: list[Event]) -> None:
    assert (visits(events, 1), visits(events, 3), visits(events, 2)) == (1, 0, 5)
    assert visits(events, 1, gap_s=0.00005) == 2


@pytest.mark.parametrize(
    ("counts", "likely"), [((0, 0), 1), ((5, 0), 1), ((0, 1), 1 / 2), ((0, 10), 2**-10), ((1, 1), 3 / 4)]
)
def test_the_chance_of_a_difference(counts: tuple[int, int], likely: float) -> None:
    assert chance(counts[0], 10, counts[1], 10) == pytest.approx(likely)


def test_a_longer_time_may_have_more() -> None:
    assert chance(1, 10, 3, 30) == pytest.approx(0.75**4 + 4 * 0.25 * 0.75**3)


def test_lost_events_and_other_lines_are_refused() -> None:
    with pytest.raises(LostEventsError, match="line 1: 17 events lost"):
        parse_trace("CPU:2 [LOST 17 EVENTS]\n")
    with pytest.raises(ValueError, match="line 1 is no event: 'hello'"):
        parse_trace("hello\n")


def test_shown_names_the_first(events: list[Event]) -> None:
    assert shown(events[2:], 1) == (
        "10.200000 [2] my - comm-7-101 d..3.11 sched_waking: comm=app pid=9 prio=120 target_cpu=001"
    )
