"""The points around the search: PreEnqueue, Reserve, Permit, PreBind, Bind, PostBind, and what plugins register."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.runtime import MAX_PERMIT_WAIT_S, MAX_SPECS
from kscheduler.framework.status import SKIP, Code, Status, unschedulable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.support.framework_bench import Bench
from tests.support.storage import with_claims

POD = PodInfo(make_pod("p").obj())
NO = unschedulable("no")
STATE = CycleState()


class Reported:
    """Answers as configured at every point, and records its calls in a list that several may share."""

    def __init__(self, name: str, answer: Any, asked: list[str]) -> None:
        self.name = name
        self._answer = answer
        self._asked = asked

    def _do(self, *args: Any) -> Any:
        self._asked.append(self.name)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def _do_later(self, *args: Any) -> Any:
        return self._do()

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._asked.append(f"un{self.name}")
        if isinstance(self._answer, Exception):
            raise self._answer

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return SKIP if self.name == "idle" else None

    pre_enqueue = reserve = permit = post_bind = _do
    pre_bind = bind = _do_later


def bench(point: str, *answers: tuple[str, Any]) -> tuple[Bench, list[str]]:
    """A framework with these plugins at the point, and the list of who was asked."""
    asked: list[str] = []
    return Bench({point: [Reported(name, answer, asked) for name, answer in answers]}), asked


# --- PreEnqueue, Reserve ------------------------------------------------------------------------------------------


def test_the_first_pre_enqueue_plugin_that_refuses_holds_the_pod_back() -> None:
    made, asked = bench("preEnqueue", ("a", None), ("b", NO), ("c", NO))
    assert made.framework.run_pre_enqueue(POD) == NO.of("b")
    assert asked == ["a", "b"]
    assert Bench({}).framework.run_pre_enqueue(POD) is None


class BySpec(Reported):
    gates_by_spec = True


class OfSome(Reported):
    may_gate = ("uid-held",)


def test_a_plugin_that_gates_by_the_spec_is_asked_once_about_pods_that_share_it() -> None:
    asked: list[str] = []
    made = Bench({"preEnqueue": [BySpec("spec", None, asked), Reported("any", None, asked)]})
    other = PodInfo(make_pod("q").obj())
    for pod in (POD, PodInfo(structs.replace(other.pod, spec=POD.pod.spec)), other):
        assert made.framework.run_pre_enqueue(pod) is None
    assert asked == ["spec", "any", "any", "spec", "any"]


def test_a_spec_that_is_gated_is_looked_at_again() -> None:
    asked: list[str] = []
    made = Bench({"preEnqueue": [BySpec("spec", NO, asked)]})
    for _ in range(2):
        assert made.framework.run_pre_enqueue(POD) == NO.of("spec")
    assert asked == ["spec", "spec"]


def test_a_plugin_that_names_the_pods_it_may_gate_is_not_asked_about_others() -> None:
    asked: list[str] = []
    made = Bench({"preEnqueue": [OfSome("some", NO, asked)]})
    assert made.framework.run_pre_enqueue(POD) is None
    assert made.framework.run_pre_enqueue(PodInfo(make_pod("held").uid("uid-held").obj())) == NO.of("some")
    assert asked == ["some"]


def test_reserve_stops_at_the_first_failure_and_unreserve_asks_all_in_reverse() -> None:
    made, asked = bench("reserve", ("a", None), ("b", NO), ("c", None))
    assert made.framework.run_reserve(STATE, POD, "n1") == NO.of("b")
    assert made.framework.run_unreserve(STATE, POD, "n1") == []
    assert asked == ["a", "b", "unc", "unb", "una"]


def test_an_unreserve_that_raises_stops_none_of_the_others() -> None:
    made, asked = bench("reserve", ("a", None), ("b", RuntimeError("boom")))
    (fault,) = made.framework.run_unreserve(STATE, POD, "n1")
    assert fault.message == 'running Unreserve plugin "b": RuntimeError: boom'
    assert asked == ["unb", "una"]


# --- Permit -------------------------------------------------------------------------------------------------------


def test_permit_collects_who_wants_to_wait_and_for_how_long_at_most() -> None:
    wait = Status(Code.WAIT)
    made, _ = bench("permit", ("a", (None, 0.0)), ("b", (wait, 10.0)), ("c", (wait, 10_000.0)))
    assert made.framework.run_permit(STATE, POD, "n1") == (None, {"b": 10.0, "c": MAX_PERMIT_WAIT_S})


def test_a_permit_rejection_ends_the_waits_of_those_before_it() -> None:
    made, asked = bench("permit", ("a", (Status(Code.WAIT), 10.0)), ("b", (NO, 0.0)), ("c", (None, 0.0)))
    assert made.framework.run_permit(STATE, POD, "n1") == (NO.of("b"), {})
    assert asked == ["a", "b"]


# --- PreBind, Bind, PostBind --------------------------------------------------------------------------------------


async def test_pre_bind_leaves_out_who_has_nothing_to_do_and_stops_at_the_first_failure() -> None:
    made, asked = bench("preBind", ("idle", NO), ("a", None), ("b", NO), ("c", None))
    state = CycleState()
    assert made.framework.run_pre_bind_pre_flights(state, POD, "n1") is None
    assert await made.framework.run_pre_bind(state, POD, "n1") == NO.of("b")
    assert asked == ["a", "b"]


def test_nobody_has_anything_to_do_before_binding_if_all_skip() -> None:
    made, _ = bench("preBind", ("idle", None))
    assert made.framework.run_pre_bind_pre_flights(CycleState(), POD, "n1") == SKIP
    assert Bench({}).framework.run_pre_bind_pre_flights(CycleState(), POD, "n1") == SKIP


@pytest.mark.parametrize("answer", [RuntimeError("boom"), "yes", NO, Status(Code.ERROR, ("out of order",))])
def test_before_binding_a_plugin_says_whether_it_has_work_and_nothing_else(answer: Any) -> None:
    class Rogue(Reported):
        def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
            return self._do()  # type: ignore[no-any-return]

    made = Bench({"preBind": [Rogue("rogue", answer, [])]})
    status = made.framework.run_pre_bind_pre_flights(CycleState(), POD, "n1")
    assert status is not None
    assert (status.code, status.plugin) == (Code.ERROR, "rogue")
    if isinstance(answer, Status) and answer.is_rejected:
        assert status.message == (
            'PreBindPreFlight rogue returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status"
        )
    else:
        assert status.message.startswith('running PreBindPreFlight "rogue": ')


async def test_the_first_bind_plugin_that_does_not_skip_binds() -> None:
    made, asked = bench("bind", ("a", SKIP), ("b", None), ("c", None))
    assert await made.framework.run_bind(STATE, POD, "n1") is None
    assert asked == ["a", "b"]


async def test_a_pod_that_no_bind_plugin_takes_is_a_fault() -> None:
    made, _ = bench("bind", ("a", SKIP))
    status = await made.framework.run_bind(STATE, POD, "n1")
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "no Bind plugin took pod default/p: all of them skipped")


def test_post_bind_asks_all_whatever_happens() -> None:
    made, asked = bench("postBind", ("a", RuntimeError("boom")), ("b", None))
    (fault,) = made.framework.run_post_bind(STATE, POD, "n1")
    assert fault.plugin == "a"
    assert asked == ["a", "b"]


# --- faults -------------------------------------------------------------------------------------------------------

POINTS = ["preEnqueue", "reserve", "permit", "preBind", "bind"]


async def run(made: Bench, point: str) -> Status | None:
    framework = made.framework
    if point == "preEnqueue":
        return framework.run_pre_enqueue(POD)
    if point == "reserve":
        return framework.run_reserve(STATE, POD, "n1")
    if point == "permit":
        return framework.run_permit(STATE, POD, "n1")[0]
    return await (framework.run_pre_bind if point == "preBind" else framework.run_bind)(STATE, POD, "n1")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("answer", [RuntimeError("boom"), "yes", (1, 2, 3), ("yes", 1.0), (Status(Code.WAIT), "long")])
async def test_plugins_that_raise_or_answer_nonsense_are_named_with_their_point(point: str, answer: Any) -> None:
    made, _ = bench(point, ("rogue", answer))
    status = await run(made, point)
    assert status is not None
    assert (status.code, status.plugin) == (Code.ERROR, "rogue")
    assert status.message.startswith(f'running {point[0].upper()}{point[1:]} plugin "rogue": ')


@pytest.mark.parametrize("point", POINTS[1:])
async def test_errors_name_the_plugin_and_rejections_stay_as_they_are(point: str) -> None:
    cause = RuntimeError("boom")
    for answer in (Status(Code.ERROR, ("out of order",), error=cause), Status(Code.ERROR, ("out of order",), "other")):
        made, _ = bench(point, ("rogue", (answer, 0.0) if point == "permit" else answer))
        text = f'running {point[0].upper()}{point[1:]} plugin "rogue": out of order'
        assert await run(made, point) == Status(Code.ERROR, (text,), "rogue", answer.error)
    made, _ = bench(point, ("rogue", (NO, 0.0) if point == "permit" else NO))
    assert await run(made, point) == NO.of("rogue")


@pytest.mark.parametrize("point", POINTS)
async def test_success_spelt_out_is_success(point: str) -> None:
    good: Any = Status(Code.SUCCESS)
    made, _ = bench(point, ("a", (good, 0.0) if point == "permit" else good))
    assert await run(made, point) is None


# --- queue --------------------------------------------------------------------------------------------------------


def test_a_plugin_that_can_reject_and_does_not_say_what_may_help_is_woken_by_everything() -> None:
    class Talking:
        name = "Talking"

        def filter(self, *args: Any) -> Status | None:
            return None

        def events_to_register(self) -> Sequence[ClusterEvent]:
            return (ClusterEvent(EventResource.NODE, Action.ADD),)

    class Silent:
        name = "Silent"

        def filter(self, *args: Any) -> Status | None:
            return None

    class Harmless:
        name = "Harmless"

        def score(self, *args: Any) -> tuple[int, Status | None]:
            return 0, None

    made = Bench({"filter": [Talking(), Silent()], "score": [Harmless()]})
    assert {name: list(events) for name, events in made.framework.events_by_plugin().items()} == {
        "Talking": [ClusterEvent(EventResource.NODE, Action.ADD)],
        "Silent": [ClusterEvent(EventResource.WILDCARD, Action.ALL)],
    }


def test_the_sort_key_is_the_queue_sort_plugins() -> None:
    class Sort:
        name = "Sort"

        def sort_key(self, priority: int, timestamp: float) -> tuple[float, ...]:
            return (timestamp, -priority)

    assert Bench({"queueSort": [Sort()]}).framework.sort_key(3, 5.0) == (5.0, -3)


class OfStorage(Reported):
    """Says which fields of a pod can concern it."""

    concerned_by = ("uses_storage", "pod.spec.volumes")

    def concerns(self, pod: PodInfo) -> bool:
        return pod.uses_storage


class Binds(Reported):
    """A Bind plugin that writes the default binding."""

    writes_default_binding = True


class OfWantedStorage(OfStorage):
    """Has work for the same pod at one time, and at another not."""

    wanted = False

    def concerns(self, pod: PodInfo) -> bool:
        self._asked.append(self.name)
        return self.wanted


def test_pods_of_one_spec_are_asked_about_again_only_if_some_plugin_has_to_say_whether_they_concern_it() -> None:
    asked: list[str] = []
    storage = OfWantedStorage("storage", None, asked)
    made = Bench({"reserve": [storage], "bind": [Binds("binds", None, [])]}).framework
    with_volume = PodInfo(with_claims(make_pod("v"), "claim").obj())
    assert [made.only_binds(POD), made.only_binds(POD), asked] == [True, True, []]
    assert [made.only_binds(with_volume), asked] == [True, ["storage"]]
    storage.wanted = True
    assert [made.only_binds(with_volume), made.only_binds(POD), asked] == [False, True, ["storage"] * 2]
    storage.wanted = False
    assert [made.only_binds(with_volume), asked] == [True, ["storage"] * 3]


def test_more_specs_than_are_remembered_are_still_distinguished() -> None:
    made = Bench({"reserve": [OfStorage("storage", None, [])], "bind": [Binds("binds", None, [])]}).framework
    for number in range(MAX_SPECS + 2):  # an object's id may be that of a spec which is gone
        assert made.only_binds(PodInfo(make_pod(f"p{number}").obj()))
        assert not made.only_binds(PodInfo(with_claims(make_pod(f"v{number}"), "claim").obj()))


async def test_a_plugin_that_a_pod_cannot_concern_is_not_asked_to_reserve_or_to_prepare_the_binding() -> None:
    asked: list[str] = []
    storage, other = OfStorage("storage", None, asked), Reported("other", None, asked)
    made, state = Bench({"reserve": [storage, other], "preBind": [storage, other]}).framework, CycleState()
    assert made.run_reserve(state, POD, "n1") is None
    assert made.run_pre_bind_pre_flights(state, POD, "n1") is None
    assert (asked, state.skip_pre_bind) == (["other"], frozenset({"storage"}))
    with_volume = PodInfo(with_claims(make_pod("v"), "claim").obj())
    assert made.run_reserve(state, with_volume, "n1") is None
    assert made.run_pre_bind_pre_flights(state, with_volume, "n1") is None
    assert (asked, state.skip_pre_bind) == (["other", "storage", "other"], frozenset())
