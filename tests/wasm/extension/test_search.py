"""A filter guest that has to be asked for each pod: about no more nodes than it takes, and beside the event loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kscheduler._fast import Verdicts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import AnswersToCome, CycleFault
from kscheduler.framework.fence import Fence
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision
from kscheduler.framework.status import Code
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_node
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.extension import points
from kscheduler.wasm.extension.search import MAX_INTERRUPTIONS, MAX_KEPT
from tests.wasm.extension.kit import Room, info, module, reason

NODES = [f"n{number:03}" for number in range(300)]
# Out are nodes whose name ends with 7; `prefilter` has to come first. Its number of calls is at 8, of filter's at 12.
_COUNT = "(i32.store (i32.const {0}) (i32.add (i32.load (i32.const {0})) (i32.const 1)))"
GUEST = module(
    "node_name",
    "reason",
    text="sevens stay free",
    prefilter=f"{_COUNT.format(8)} (i32.const 0)",
    filter=f"""
      {_COUNT.format(12)}
      (if (i32.eqz (i32.load (i32.const 8))) (then unreachable))
      (drop (call $node_name (i32.const 4096) (i32.const 100)))
      (if (result i32) (i32.eq (i32.load8_u (i32.const 4099)) (i32.const 55))
        (then {reason("sevens stay free")} (i32.const 2)) (else (i32.const 0)))""",
)
TRAPS_AT_SEVENS = module(
    "node_name",
    prefilter="(i32.const 0)",
    filter="""
      (drop (call $node_name (i32.const 4096) (i32.const 100)))
      (if (i32.eq (i32.load8_u (i32.const 4099)) (i32.const 55)) (then unreachable)) (i32.const 0)""",
)


class Asked:
    """A room that notes which nodes its guest is asked about."""

    def __init__(self, data: bytes = GUEST, *, apart: bool = False, **arguments: Any) -> None:
        self.room = Room(data, [make_node(name) for name in NODES], **arguments)
        self.rows: list[int] = []
        self.table = self.room.cache.table
        plugin = self.plugin = self.room.plugin
        self.surroundings = self.room.surroundings
        self.surroundings.filter_threads = BindingThreads(2) if apart else None
        here, there = plugin.answers, plugin.answers_apart

        def answers(export: str, cycle: Any, rows: Any, ends: Any) -> Any:
            self.rows += rows
            return here(export, cycle, rows, ends)

        async def answers_apart(threads: Any, export: str, cycle: Any, rows: Any, ends: Any) -> Any:
            self.rows += rows
            return await there(threads, export, cycle, rows, ends)

        plugin.answers, plugin.answers_apart = answers, answers_apart

    def close(self) -> None:
        if self.surroundings.filter_threads is not None:
            self.surroundings.filter_threads.close()
        self.plugin._sharing.close()

    def search(self, pod: PodInfo, *, start: int = 0, enough: int = 300, may_wait: bool = True) -> Verdicts:
        verdicts, state = Verdicts(), CycleState()
        state.may_wait = may_wait
        verdicts.reset(self.table.columns)
        self.plugin.pre_filter(state, pod)
        self.plugin.filter_until(state, pod, self.table, verdicts, 1, start, enough)
        return verdicts

    async def search_apart(self, pod: PodInfo, **options: Any) -> tuple[Verdicts, int]:
        """The verdicts, and how often it was interrupted."""
        for interruptions in range(10):
            try:
                return self.search(pod, **options), interruptions
            except AnswersToCome as waiting:
                await waiting.ask()
        raise AssertionError("it never ends")


def test_nodes_are_asked_about_in_a_circle_until_enough_fit() -> None:
    asked = Asked()
    verdicts = asked.search(info(), start=290, enough=20)
    # n297, n007 are out: two waves more.
    assert asked.rows == [*range(290, 300), *range(10), 10, 11]
    assert [row for row in range(300) if row not in verdicts.feasible_rows()] == [7, 297]


@pytest.mark.parametrize(("percentage", "expected"), [(0, 144), (40, 120), (100, 300)])
def test_a_search_asks_about_no_more_nodes_than_kube_scheduler_looks_for(percentage: int, expected: int) -> None:
    """With 300 nodes and no percentage these are 48 %: 144. The decision is as if all had been asked about."""
    asked, room = Asked(), Asked().room

    def framework(plugin: Any) -> Framework:
        return Framework(
            "p",
            {"preFilter": [(plugin, 1)], "filter": [(plugin, 1)]},
            room.handle,
            observer=Measurements(),
            stopwatch=lambda: 0.0,
            percentage_of_nodes_to_score=percentage,
            first_on_tie=True,
        )

    searching = framework(Fence(asked.plugin, asked.room.handle))
    whole = framework(_Whole(room.plugin))
    whole.algorithm._searching = searching.algorithm._searching and {"nobody"}  # the same number of nodes
    for number in range(4):
        pod = PodInfo(info().pod)
        found, truth = searching.schedule_pod(CycleState(), pod), whole.schedule_pod(CycleState(), pod)
        assert isinstance(found, Decision)
        assert found == truth
        assert found.feasible == (270 if expected == 300 else expected), number
    assert len(asked.rows) <= 4 * (expected * 10 // 9 + 20)


class _Whole:
    """The plugin as a filter that is always asked about every node."""

    name = "guest"

    def __init__(self, plugin: Any) -> None:
        self.pre_filter, self.filter = plugin.pre_filter, plugin.filter
        self.filter_table, self.explain = plugin.filter_table, plugin.explain


async def test_questions_that_take_long_are_asked_beside_the_event_loop_once() -> None:
    asked, on = Asked(apart=True), threading.get_ident()
    ran: set[int] = set()
    attempt = asked.plugin.pool.attempt

    def noting(work: Any, uid: str | None = None) -> Any:
        ran.add(threading.get_ident())
        return attempt(work, uid)

    pod = info()
    with pytest.raises(AnswersToCome) as raised:
        asked.search(pod)
    asked.plugin.pool.attempt = noting
    await raised.value.ask()
    assert ran
    assert on not in ran
    del asked.plugin.pool.attempt
    count = len(asked.rows)
    verdicts = asked.search(pod)
    assert len(asked.rows) == count == 300
    assert set(range(300)) - set(verdicts.feasible_rows()) == set(range(7, 300, 10))
    asked.close()


@pytest.mark.parametrize("arguments", [{}, {"parallel": True}, {"parallel": False}])
async def test_the_verdicts_are_those_of_one_instance_asked_node_by_node(arguments: Any) -> None:
    asked, here = Asked(apart=True, **arguments), Asked(parallel=False)
    for start, enough in ((0, 300), (123, 50), (299, 101)):
        pod = info()
        found, interruptions = await asked.search_apart(pod, start=start, enough=enough)
        truth = here.search(pod, start=start, enough=enough)
        assert interruptions == 1
        assert found.feasible_rows() == truth.feasible_rows()
        asked.plugin._sharing._usual_s.clear()  # as if it took long
    asked.close()


async def test_a_node_that_changed_meanwhile_is_asked_about_again() -> None:
    asked, pod = Asked(apart=True), info()
    with pytest.raises(AnswersToCome) as raised:
        asked.search(pod)
    await raised.value.ask()
    asked.rows.clear()
    asked.room.cache.set_node(make_node("n042").label(new="yes").obj())
    asked.plugin._sharing._usual_s["filter"] = 1e-6
    asked.search(pod)
    assert asked.rows == [42]
    asked.close()


async def test_where_nodes_change_all_the_time_the_pod_is_decided_nevertheless() -> None:
    asked, pod = Asked(apart=True), info()
    for turn in range(MAX_INTERRUPTIONS):
        asked.plugin._sharing._usual_s["filter"] = 1.0
        with pytest.raises(AnswersToCome) as raised:
            asked.search(pod)
        await raised.value.ask()
        asked.room.cache.set_node(make_node("n042").label(turn=str(turn)).obj())
    asked.plugin._sharing._usual_s["filter"] = 1.0
    assert len(asked.search(pod).feasible_rows()) == 270
    asked.close()


async def test_another_version_of_the_pod_is_another_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "LONG_S", 0.0)  # however fast the machine is
    asked = Asked(apart=True)
    with pytest.raises(AnswersToCome) as raised:
        asked.search(info())
    await raised.value.ask()
    with pytest.raises(AnswersToCome):
        asked.search(info())  # equal, but another object
    asked.close()


async def test_a_fault_beside_the_event_loop_is_the_pods_and_counts_once() -> None:
    asked, pod = Asked(TRAPS_AT_SEVENS, apart=True), info()
    for _ in range(3):
        with pytest.raises(CycleFault) as raised:
            await asked.search_apart(pod)
        assert raised.value.status.code is Code.ERROR
        assert raised.value.status.message.startswith('running "guest" filter plugin: wasm: filter error: ')
    assert asked.plugin.pool.is_quarantined
    asked.close()


async def test_a_guest_that_may_be_ignored_is_left_out_whole() -> None:
    asked = Asked(TRAPS_AT_SEVENS, apart=True, failurePolicy="ignore")
    verdicts, _ = await asked.search_apart(info())
    assert len(verdicts.feasible_rows()) == 300
    asked.close()


async def test_searches_that_are_never_taken_up_hold_few_instances() -> None:
    asked = Asked(apart=True)
    for _ in range(3 * MAX_KEPT):
        with pytest.raises(AnswersToCome):
            asked.search(PodInfo(info().pod))
    assert asked.plugin.pool.holders <= MAX_KEPT
    asked.close()


@pytest.mark.parametrize(
    ("exports", "arguments", "is_divided"),
    [
        ({"filter"}, {}, True),
        ({"enqueue", "prefilter", "filter"}, {}, True),
        ({"prefilter", "filter", "reserve"}, {}, False),  # what filter left behind may be read there
        ({"filter", "score"}, {}, False),
        ({"filter", "addpod", "prefilter"}, {}, False),
        ({"prefilter", "filter", "reserve"}, {"parallel": True}, True),
        ({"filter"}, {"parallel": False}, False),
    ],
)
def test_nodes_are_divided_where_no_guest_could_notice_or_the_user_says_so(
    exports: set[str], arguments: Any, is_divided: bool
) -> None:
    bodies = {export: "(i64.const 0)" if export == "score" else "(i32.const 0)" for export in exports}
    if "enqueue" in bodies:
        bodies["enqueue"] = "nop"
    assert Room(module(**bodies), **arguments).plugin.is_divided("filter") is is_divided


async def test_the_attempt_goes_on_on_its_own_instance_after_an_interruption() -> None:
    """A guest with a say in binding keeps what it knows from `prefilter` and `filter`."""
    remembers = module(
        "node_name",
        prefilter=f"{_COUNT.format(8)} (i32.const 0)",
        filter=f"{_COUNT.format(12)} (i32.const 0)",
        reserve="""
          (if (i32.ne (i32.load (i32.const 8)) (i32.const 1)) (then unreachable))
          (if (i32.ne (i32.load (i32.const 12)) (i32.const 300)) (then unreachable)) (i32.const 0)""",
    )
    asked, pod = Asked(remembers, apart=True), info()
    verdicts, state = Verdicts(), CycleState()
    with pytest.raises(AnswersToCome) as raised:
        asked.search(pod)
    await raised.value.ask()
    state.may_wait = True
    verdicts.reset(asked.table.columns)
    asked.plugin.pre_filter(state, pod)
    asked.plugin.filter_until(state, pod, asked.table, verdicts, 1, 0, 300)
    assert asked.plugin.reserve(state, pod, "n000") is None
    asked.close()
