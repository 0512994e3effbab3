"""Both cycles of one pod, with real cache, queue and framework, and a binding that answers as configured."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from kscheduler.client.protocol import Binding
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.errors import APIError, Conflict, NotFound
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import PostFilterResult
from kscheduler.framework.status import SKIP, Code, Status, unschedulable
from kscheduler.queue.pod_info import Pool
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.cycle.bench import NAME, Bench, Recorded, Steps
from tests.support.checks import check_cache

# --- the scheduling cycle -----------------------------------------------------------------------------------------


def test_a_decision_holds_the_room_before_anything_is_written() -> None:
    bench = Bench()
    bench.node("n1")
    cycle = bench.decide(make_pod("p").req(cpu="3"))
    assert cycle.node_name == "n1"
    assert bench.cache.is_assumed("uid-default-p")
    assert bench.one.schedule(bench.pop(make_pod("q").req(cpu="2"))) is None
    assert bench.bound == []


def test_a_pod_that_fits_nowhere_is_queued_with_the_plugins_to_blame_and_the_reason_is_recorded() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    assert bench.one.schedule(bench.pop(make_pod("p").req(cpu="2"))) is None
    waiting = bench.queue.get("uid-default-p")
    assert waiting is not None
    assert waiting.unschedulable_plugins == {"NodeResourcesFit"}
    message = "0/1 nodes are available: 1 Insufficient cpu."
    assert bench.events.recorded == [
        Recorded("default/p", "Warning", "FailedScheduling", "Scheduling", message, NAME),
    ]
    ((key, condition),) = bench.conditions.patched
    assert key == "default/p"
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.message == message
    assert bench.attempts("unschedulable") == 1


def test_a_pod_that_is_being_deleted_is_skipped_with_an_event() -> None:
    bench = Bench()
    bench.node("n1")
    queued = bench.pop(make_pod("p").terminating())
    assert bench.one.schedule(queued) is None
    assert [recorded.note for recorded in bench.events.recorded] == ["skip schedule deleting pod: default/p"]
    assert not bench.queue.is_in_flight("uid-default-p")
    assert len(bench.queue) == 0


def test_a_pod_that_is_being_deleted_keeps_no_room_on_the_node_it_was_nominated_for() -> None:
    bench = Bench()
    bench.node("n1")
    queued = bench.pop(make_pod("p").terminating())
    bench.nominations.nominate(queued.pod_info, "n1")
    assert bench.one.schedule(queued) is None
    assert not bench.nominations.by_pod


def test_a_pod_that_the_cache_holds_already_is_skipped_in_silence() -> None:
    bench = Bench()
    bench.node("n1")
    queued = bench.pop(make_pod("p"))
    bench.cache.set_pod(PodInfo(make_pod("p").node("n1").obj()))
    assert bench.one.schedule(queued) is None
    assert bench.events.recorded == []
    bench.queue.check()


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_rejection_after_the_decision_undoes_it(point: str) -> None:
    answers = {point: unschedulable("not here")}
    steps = Steps(**answers)
    bench = Bench({"reserve": [steps], "permit": [steps]})
    bench.node("n1")
    assert bench.one.schedule(bench.pop(make_pod("p"))) is None
    assert steps.asked[-1] == "unreserve"
    assert not bench.cache.is_assumed("uid-default-p")
    waiting = bench.queue.get("uid-default-p")
    assert waiting is not None
    assert waiting.unschedulable_plugins == {"Steps"}
    assert bench.events.recorded[0].note == "not here"


def test_a_pending_rejection_waits_for_its_plugin_without_backoff() -> None:
    steps = Steps(permit=Status(Code.PENDING, ("soon",)))
    bench = Bench({"permit": [steps]})
    bench.node("n1")
    assert bench.one.schedule(bench.pop(make_pod("p"))) is None
    waiting = bench.queue.get("uid-default-p")
    assert waiting is not None
    assert waiting.pending_plugins == {"Steps"}
    assert not waiting.unschedulable_plugins


def test_a_fault_of_a_plugin_is_an_error_with_its_backoff() -> None:
    steps = Steps(reserve=Status(Code.ERROR, ("out of order",)))
    bench = Bench({"reserve": [steps]})
    bench.node("n1")
    assert bench.one.schedule(bench.pop(make_pod("p"))) is None
    assert bench.attempts("error") == 1
    assert bench.queue.counts().backoff == 1
    ((_, condition),) = bench.conditions.patched
    assert condition.reason == "SchedulerError"
    assert condition.message == 'running Reserve plugin "Steps": out of order'


# --- the binding cycle --------------------------------------------------------------------------------------------


async def test_after_pre_bind_a_plain_binding_is_left_to_the_caller() -> None:
    bench = Bench({"preBind": [Before(None)]})
    bench.node("n1")
    cycle = bench.decide(make_pod("p"))
    written: list[tuple[BindingCycle, Binding]] = []
    await bench.one.bind(cycle, lambda *each: written.append(each))
    assert written == [(cycle, Binding("default", "p", "uid-default-p", "n1"))]
    assert bench.bound == []
    assert bench.queue.is_in_flight("uid-default-p")  # until the caller finishes the cycle
    bench.one.finish_binding(cycle, None)
    assert not bench.queue.is_in_flight("uid-default-p")


async def test_after_pre_bind_a_plugin_that_binds_in_its_own_way_is_called() -> None:
    bench = Bench({"preBind": [Before(None)]})
    bench.node("n1")
    bench.framework.binds_by_default = False
    cycle = bench.decide(make_pod("p"))
    await bench.one.bind(cycle, lambda *each: pytest.fail(f"{each} was to be written"))
    assert bench.bound == [("default/p", "n1")]
    assert not bench.queue.is_in_flight("uid-default-p")


async def test_nothing_is_written_for_a_pod_that_pre_bind_turns_down() -> None:
    bench = Bench({"preBind": [Before(None, unschedulable("not prepared"))]})
    bench.node("n1")
    cycle = bench.decide(make_pod("p"))
    await bench.one.bind(cycle, lambda *each: pytest.fail(f"{each} was to be written"))
    assert bench.bound == []
    assert not bench.cache.is_assumed("uid-default-p")
    assert bench.attempts("unschedulable") == 1


async def test_a_binding_that_works_ends_the_flight_and_is_reported_to_all() -> None:
    steps = Steps()
    bench = Bench({"postBind": [steps]})
    bench.node("n1")
    bench.conditions.known.add("uid-default-p")
    cycle = bench.decide(make_pod("p"))
    assert bench.queue.is_in_flight("uid-default-p")
    bench.clock.advance(0.5)
    await bench.one.bind(cycle)
    assert bench.bound == [("default/p", "n1")]
    assert not bench.queue.is_in_flight("uid-default-p")
    assert bench.cache.is_assumed("uid-default-p")  # until the watch confirms
    assert steps.asked == ["post_bind"]
    assert bench.conditions.forgotten == ["uid-default-p"]
    note = "Successfully assigned default/p to n1"
    assert bench.events.recorded == [Recorded("default/p", "Normal", "Scheduled", "Binding", note, NAME)]
    assert bench.attempts("scheduled") == 1
    attempt = bench.metrics.scheduling_attempt_duration_seconds.labels("scheduled", NAME)
    assert (attempt.count, attempt.sum) == (1, 0.5)


def points_of(bench: Bench) -> dict[tuple[str, str], tuple[int, float]]:
    """(extension point after the decision, how it ended) -> how often, and the seconds it took."""
    family = bench.metrics.framework_extension_point_duration_seconds
    searching = ("PreFilter", "Filter", "PreScore", "Score")
    return {
        (point, status): (child.count, child.sum)
        for (point, status, _), child in family.items()
        if point not in searching
    }


async def test_all_extension_points_that_plugins_have_a_say_in_are_measured() -> None:
    steps = Steps()
    bench = Bench({"reserve": [steps], "permit": [steps], "postBind": [steps]})
    bench.node("n1")
    cycle = bench.decide(make_pod("p"))
    bench.clock.advance(0.5)
    written: list[Binding] = []
    await bench.one.bind(cycle, lambda cycle, binding: written.append(binding))
    bench.clock.advance(0.25)
    bench.one.finish_binding(cycle, None)
    assert points_of(bench) == {
        ("Reserve", "Success"): (1, 0.0),
        ("Permit", "Success"): (1, 0.0),
        ("PreBindPreFlight", "Skip"): (1, 0.0),
        ("Bind", "Success"): (1, 0.25),
        ("PostBind", "Success"): (1, 0.0),
    }


async def test_of_a_pod_that_no_plugin_has_a_say_in_the_binding_is_measured() -> None:
    bench = Bench()
    bench.node("n1")
    cycle = bench.decide(make_pod("p"))
    assert bench.one.direct_binding(cycle) is not None
    bench.clock.advance(0.5)
    bench.one.finish_binding(cycle, None)
    assert points_of(bench) == {("Bind", "Success"): (1, 0.5)}


async def test_a_binding_that_is_refused_is_measured_as_an_error() -> None:
    bench = Bench()
    bench.node("n1")
    cycle = bench.decide(make_pod("p"))
    bench.clock.advance(0.5)
    bench.one.finish_binding(cycle, Conflict("taken", status=409))
    assert points_of(bench) == {("Bind", "Error"): (1, 0.5)}


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_pod_that_is_rejected_after_the_decision_is_measured_until_then(point: str) -> None:
    steps = Steps(**{point: unschedulable("no")})
    bench = Bench({"reserve": [steps], "permit": [steps]})
    bench.node("n1")
    assert bench.one.schedule(bench.pop(make_pod("p"))) is None
    found = set(points_of(bench))
    assert (point.title(), "Unschedulable") in found
    assert ("Unreserve", "Success") in found
    assert not any(reached == "Bind" for reached, _ in found)


@pytest.mark.parametrize(
    "error", [Conflict("taken", status=409), NotFound("no such pod", status=404), APIError("no", status=422)]
)
async def test_a_binding_that_fails_gives_the_room_back_and_the_pod_to_the_queue(error: APIError) -> None:
    steps = Steps()
    bench = Bench({"reserve": [steps]})
    bench.node("n1")
    bench.answer = error
    await bench.one.bind(bench.decide(make_pod("p")))
    assert steps.asked == ["reserve", "unreserve"]
    assert bench.cache.get("uid-default-p") is None
    assert bench.queue.counts().backoff == 1
    assert bench.attempts("error") == 1
    assert bench.events.recorded[0].note == f'running Bind plugin "DefaultBinder": {error}'
    assert bench.metrics.bind_conflicts_total.value == isinstance(error, Conflict)
    bench.queue.check()
    check_cache(bench.cache)


async def test_room_given_back_wakes_those_who_were_turned_away_meanwhile() -> None:
    bench = Bench()
    bench.node("n1", cpu="1")
    first = bench.decide(make_pod("first").req(cpu="1"))
    assert bench.one.schedule(bench.pop(make_pod("second").req(cpu="1"))) is None
    assert bench.queue.counts().unschedulable == 1
    bench.answer = Conflict("taken", status=409)
    await bench.one.bind(first)
    assert bench.queue.counts().unschedulable == 0


async def test_a_pod_that_was_deleted_meanwhile_does_not_come_back() -> None:
    bench = Bench()
    bench.node("n1")
    bench.answer = NotFound("gone", status=404)
    cycle = bench.decide(make_pod("p"))
    del bench.watched["default/p"]
    await bench.one.bind(cycle)
    assert len(bench.queue) == 0
    assert not bench.queue.is_in_flight("uid-default-p")
    assert bench.events.recorded == []
    assert bench.conditions.patched == []


async def test_a_pod_recreated_or_bound_elsewhere_meanwhile_does_not_come_back_either() -> None:
    for now in (make_pod("p").uid("another"), make_pod("p").node("n2")):
        bench = Bench()
        bench.node("n1")
        bench.answer = Conflict("taken", status=409)
        cycle = bench.decide(make_pod("p"))
        bench.watched["default/p"] = now.obj()
        await bench.one.bind(cycle)
        assert len(bench.queue) == 0
        assert bench.conditions.patched == []


async def test_a_pod_confirmed_by_the_watch_before_the_answer_failed_keeps_its_room() -> None:
    bench = Bench()
    bench.node("n1")
    bench.answer = Conflict("already assigned", status=409)
    cycle = bench.decide(make_pod("p"))
    confirmed = make_pod("p").node("n1").obj()
    bench.watched["default/p"] = confirmed
    bench.cache.set_pod(PodInfo(confirmed))
    await bench.one.bind(cycle)
    assert bench.cache.get("uid-default-p") is not None


async def test_what_a_pod_became_while_its_binding_failed_is_what_is_tried_next() -> None:
    bench = Bench()
    bench.node("n1")
    bench.answer = Conflict("taken", status=409)
    cycle = bench.decide(make_pod("p"))
    changed = make_pod("p").label(version="2").obj()
    bench.watched["default/p"] = changed
    bench.queue.update(None, PodInfo(changed), bench.clock.now())
    await bench.one.bind(cycle)
    waiting = bench.queue.get("uid-default-p")
    assert waiting is not None
    assert waiting.pod_info.pod is changed


async def test_a_pod_that_has_to_wait_is_bound_when_it_is_allowed() -> None:
    steps = Steps(permit=Status(Code.WAIT))
    bench = Bench({"permit": [steps]})
    bench.node("n1")
    cycle = bench.decide(make_pod("p"))
    assert cycle.waits == {"Steps": 5.0}
    binding = asyncio.ensure_future(bench.one.bind(cycle))
    await asyncio.sleep(0)
    waiting = bench.waiting.get("uid-default-p")
    assert waiting is not None
    waiting.allow("Steps")
    await binding
    assert bench.bound == [("default/p", "n1")]
    assert len(bench.waiting) == 0
    assert bench.metrics.permit_wait_duration_seconds.labels("Success").count == 1


# --- nominations --------------------------------------------------------------------------------------------------


class Promise:
    """PostFilter: this nomination."""

    name = "Promise"

    def __init__(self, node_name: str | None) -> None:
        self._node_name = node_name

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        return PostFilterResult(self._node_name), None


BIG = make_pod("p").req(cpu="9")


@pytest.mark.parametrize(
    ("before", "promise", "written", "known"),
    [("", "n1", "n1", "n1"), ("n1", "", "", ""), ("n1", None, None, "n1"), ("", None, None, "")],
)
def test_what_post_filter_plugins_promise_is_known_at_once_and_written_with_the_condition(
    before: str, promise: str | None, written: str | None, known: str
) -> None:
    bench = Bench({"postFilter": [Promise(promise)]})
    bench.node("n1")
    assert bench.one.schedule(bench.pop(BIG.nominated_node(before))) is None
    assert bench.conditions.nominations == [written]
    assert bench.nominations.node_of("uid-default-p") == known


def test_without_preemption_a_pod_that_fits_nowhere_loses_its_nomination() -> None:
    bench = Bench()
    bench.node("n1")
    queued = bench.pop(BIG.nominated_node("n1"))
    bench.nominations.nominate(queued.pod_info, None)
    assert bench.one.schedule(queued) is None
    assert bench.conditions.nominations == [""]
    assert bench.nominations.node_of("uid-default-p") == ""


def test_a_pod_that_fits_on_the_nominated_node_goes_there_and_claims_it_no_longer() -> None:
    bench = Bench()
    for name in ("n1", "n2", "n3"):
        bench.node(name, cpu="4" if name == "n2" else "64")
    queued = bench.pop(make_pod("p").nominated_node("n2"))
    bench.nominations.nominate(queued.pod_info, None)
    cycle = bench.one.schedule(queued)
    assert cycle is not None
    assert cycle.node_name == "n2"
    assert len(bench.nominations) == 0


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_pod_turned_away_after_the_decision_loses_its_nomination(point: str) -> None:
    answers = {point: unschedulable("not here")}
    steps = Steps(**answers)
    bench = Bench({"reserve": [steps], "permit": [steps], "postFilter": [Promise("n1")]})
    bench.node("n1")
    assert bench.one.schedule(bench.pop(make_pod("p").nominated_node("n1"))) is None
    assert bench.conditions.nominations == [""]
    assert len(bench.nominations) == 0


async def test_a_pod_whose_binding_failed_loses_its_nomination() -> None:
    bench = Bench()
    bench.node("n1")
    bench.answer = Conflict("taken", status=409)
    await bench.one.bind(bench.decide(make_pod("p").nominated_node("n1")))
    assert bench.conditions.nominations == [""]
    assert len(bench.nominations) == 0


def test_a_pod_that_was_deleted_meanwhile_is_nominated_no_more() -> None:
    bench = Bench({"postFilter": [Promise("n1")]})
    bench.node("n1")
    queued = bench.pop(BIG)
    bench.nominations.nominate(queued.pod_info, "n1")
    bench.watched.clear()
    assert bench.one.schedule(queued) is None
    assert len(bench.nominations) == 0


class Before:
    """PreBind: work to do or not, or a fault at its flight check; and who asked for what, in order."""

    name = "Before"

    def __init__(self, flight: Status | None, outcome: Status | None = None) -> None:
        self._flight, self._outcome = flight, outcome
        self.asked: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.asked.append("flight")
        return self._flight

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.asked.append("work")
        await self.may_end.wait()
        return self._outcome


@pytest.mark.parametrize(
    ("flight", "permit", "nominated"),
    [(SKIP, None, False), (None, None, True), (SKIP, Status(Code.WAIT), True), (None, Status(Code.WAIT), True)],
)
async def test_a_pod_that_cannot_be_bound_at_once_is_nominated_first(
    flight: Status | None, permit: Status | None, nominated: bool
) -> None:
    before, steps = Before(flight), Steps(permit=permit)
    bench = Bench({"preBind": [before], "permit": [steps]})
    bench.node("n1")
    binding = asyncio.ensure_future(bench.one.bind(bench.decide(make_pod("p"))))
    await asyncio.sleep(0)
    assert bench.conditions.nominated == ([("default/p", "n1")] if nominated else [])
    waiting = bench.waiting.get("uid-default-p")
    assert (waiting is not None) == (permit is not None)
    if waiting is not None:
        assert before.asked == ["flight"]
        waiting.allow("Steps")
    await binding
    assert before.asked == (["flight"] if flight == SKIP else ["flight", "work"])
    assert bench.bound == [("default/p", "n1")]
    assert len(bench.waiting) == len(bench.pre_binds) == 0


async def test_a_fault_before_pre_bind_ends_the_binding_before_anybody_waits() -> None:
    before, steps = Before(Status(Code.ERROR, ("out of order",))), Steps(permit=Status(Code.WAIT))
    bench = Bench({"preBind": [before], "permit": [steps]})
    bench.node("n1")
    await bench.one.bind(bench.decide(make_pod("p")))
    assert bench.conditions.nominated == bench.bound == []
    assert before.asked == ["flight"]
    ((_, condition),) = bench.conditions.patched
    assert condition.message == 'running PreBindPreFlight "Before": out of order'
    assert not bench.cache.is_assumed("uid-default-p")


async def test_a_pod_whose_room_is_needed_can_be_stopped_while_it_waits_for_permit_plugins() -> None:
    bench = Bench({"permit": [Steps(permit=Status(Code.WAIT))]})
    bench.node("n1")
    binding = asyncio.ensure_future(bench.one.bind(bench.decide(make_pod("p"))))
    await asyncio.sleep(0)
    (waiting,) = bench.waiting
    assert waiting.preempt("Steps", "preempted")
    await binding
    assert bench.bound == []
    ((_, condition),) = bench.conditions.patched
    assert (condition.reason, condition.message) == ("SchedulerError", "waiting on permit for pod: preempted")


async def test_a_pod_whose_room_is_needed_can_be_stopped_in_pre_bind() -> None:
    before = Before(None)
    before.may_end.clear()
    bench = Bench({"preBind": [before]})
    bench.node("n1")
    binding = asyncio.ensure_future(bench.one.bind(bench.decide(make_pod("p"))))
    await asyncio.sleep(0)
    assert bench.pre_binds.break_off("uid-default-p", "preempted")
    await binding
    assert bench.bound == []
    assert bench.queue.counts().backoff == 1
    assert not bench.pre_binds.break_off("uid-default-p", "too late")


# --- pods that plugins activate -----------------------------------------------------------------------------------


class Activating(Steps):
    """Names a pod at Reserve, and another one when bound."""

    def __init__(self, first: PodInfo, second: PodInfo) -> None:
        super().__init__()
        self._first, self._second = first, second

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        state.pods_to_activate[self._first.uid] = self._first
        return None

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        state.pods_to_activate[self._second.uid] = self._second


async def test_pods_that_plugins_name_are_activated_with_the_decision_and_with_the_binding() -> None:
    steps = Activating(*(PodInfo(make_pod(name).uid(name).obj()) for name in ("first", "second")))
    bench = Bench({"reserve": [steps], "postBind": [steps]})
    bench.node("n1")
    waiting = [bench.pop(make_pod(name).uid(name)) for name in ("first", "second")]
    for queued in waiting:
        bench.queue.add_unschedulable_if_not_present(queued, bench.clock.now(), {"NodeAffinity"})
    cycle = bench.decide(make_pod("p"))
    assert [queued.pool for queued in waiting] == [Pool.ACTIVE, Pool.UNSCHEDULABLE]
    await bench.one.bind(cycle)
    assert [queued.pool for queued in waiting] == [Pool.ACTIVE, Pool.ACTIVE]
