"""Plugins of others in a running scheduler: at every extension point, well behaved and not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.client.protocol import Binding
from kscheduler.client.recorder import NOTE_BYTES
from kscheduler.cut_text import MOST_BYTES
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ASSIGNED_POD_DELETE, Registration
from kscheduler.framework.status import SKIP, Code, Status, unschedulable
from kscheduler.scheduler import Options
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.scenarios.plugins import Guard, Moody
from tests.support.election import Follower
from tests.support.world import World, in_virtual_time


class Rogue:
    """Lets pods named "good" through and misbehaves for all others, at the point it is put."""

    name = "Rogue"

    def __init__(self, misbehave: Callable[[], Any], good: Any) -> None:
        self._misbehave = misbehave
        self._good = good

    def _answer(self, pod: PodInfo) -> Any:
        return self._good if pod.pod.metadata.name.startswith("good") else self._misbehave()

    def pre_enqueue(self, pod: PodInfo) -> Any:
        return self._answer(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Any:
        return self._answer(pod)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Any:
        return self._answer(pod)

    def pre_score(self, state: CycleState, pod: PodInfo) -> Any:
        return self._answer(pod)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Any:
        return self._answer(pod)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer(pod)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer(pod)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer(pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer(pod)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        return self._answer(pod)


def explode() -> Any:
    raise RuntimeError("boom")


# Where the plugin is put -> what it answers there when all is well.
POINTS: dict[str, Any] = {
    "preFilter": (None, None),
    "filter": None,
    "preScore": None,
    "score": (50, None),
    "reserve": None,
    "permit": (None, 0.0),
    "preBind": None,
    "bind": SKIP,
}
NONSENSE: dict[str, Callable[[], Any]] = {
    "raises": explode,
    "a string": lambda: "yes",
    "an error": lambda: Status(Code.ERROR, ("out of order",)),
    "a tuple of three": lambda: (None, None, None),
}


@pytest.mark.parametrize("misbehaviour", NONSENSE)
@pytest.mark.parametrize("point", POINTS)
def test_a_plugin_that_misbehaves_costs_its_own_pod_and_nobody_else(point: str, misbehaviour: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        rogue = Rogue(NONSENSE[misbehaviour], POINTS[point])
        async with World(plugins={point: [rogue]}) as world:
            world.add_nodes(4, cpu="1")
            world.add_pod(make_pod("bad").req(cpu="1").priority(100))
            world.add_pod(make_pod("good-1").req(cpu="1"))
            world.add_pod(make_pod("good-2").req(cpu="1"))
            await world.until(lambda: len(world.pending()) == 1, within_s=10)
            await world.until(lambda: world.condition("bad") is not None)
            condition = world.condition("bad")
            assert condition is not None
            assert condition.reason == "SchedulerError"
            # kube-scheduler's words where it has some for the point, else ours.
            expected = (
                "out of order",
                'plugin "Rogue": ',
                'running "Rogue" filter plugin: ',
                'plugin "Rogue" failed with: ',
            )
            assert any(text in condition.message for text in expected)
            await world.sleep(30)

    scenario()


TOO_MUCH = "far too much " * 400_000  # more than an apiserver accepts


def say_too_much() -> Any:
    raise RuntimeError(TOO_MUCH)


@pytest.mark.parametrize(
    "answer", [say_too_much, lambda: unschedulable(TOO_MUCH), lambda: unschedulable(*["too much"] * 400_000)]
)
def test_what_a_plugin_says_is_cut_to_what_a_condition_can_have(answer: Callable[[], Any]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(plugins={"reserve": [Rogue(answer, None)]}) as world:
            world.add_node("n1")
            world.add_pod(make_pod("bad").req(cpu="1"))
            await world.until(lambda: world.condition("bad") is not None)
            condition = world.condition("bad")
            assert condition is not None
            assert len(condition.message) == MOST_BYTES
            assert condition.message.endswith(" ...")
            assert len(world.events("bad", "FailedScheduling")[0].note) == NOTE_BYTES

    scenario()


@pytest.mark.parametrize("score", [-1, 101, 10**30])
def test_a_score_out_of_bounds_is_a_fault_that_names_plugin_and_score(score: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(plugins={"score": [Rogue(lambda: (score, None), (50, None))]}) as world:
            world.add_nodes(2)
            world.add_pod(make_pod("bad"))
            world.add_pod(make_pod("good"))
            await world.until(lambda: world.condition("bad") is not None and bool(world.node_of("good")))
            condition = world.condition("bad")
            assert condition is not None
            assert condition.reason == "SchedulerError"
            assert "Rogue" in condition.message

    scenario()


def test_a_pre_enqueue_plugin_that_raises_gates_its_pod_and_nobody_else() -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(plugins={"preEnqueue": [Rogue(explode, None)]}, expect_conditions=False) as world:
            world.add_node("n1")
            world.add_pod(make_pod("bad"))
            world.add_pod(make_pod("good"))
            await world.until(lambda: bool(world.node_of("good")))
            assert world.scheduler.queue.counts().gated == 1

    scenario()


@in_virtual_time
async def test_pods_that_a_permit_plugin_holds_wait_with_their_room_held() -> None:
    async with World(plugins={"permit": [Guard()]}) as world:
        world.add_node("n1", cpu="2")
        pods = [world.add_pod(make_pod(f"p{index}").req(cpu="1")) for index in range(3)]
        await world.sleep(1)
        waiting = world.scheduler.waiting_pods
        held = [pod for pod in pods if waiting.get(pod.metadata.uid) is not None]
        assert len(held) == 2
        allowed = waiting.get(held[0].metadata.uid)
        rejected = waiting.get(held[1].metadata.uid)
        assert allowed is not None
        assert rejected is not None
        allowed.allow("Guard")
        rejected.reject("Guard", "not today")
        await world.sleep(0.1)
        assert world.node_of(held[0].metadata.name) == "n1"
        assert world.events(held[1].metadata.name)[0].note == "not today"
        world.cluster.delete_pod(held[1].key)
        other = next(pod for pod in pods if pod not in held)
        await world.sleep(5)
        last = waiting.get(other.metadata.uid)
        assert last is not None
        last.allow("Guard")
        await world.until(world.all_bound)


class Suspended:
    """A participant in leader election that has not noticed yet whether it still holds the Lease."""

    is_leader = False


class Patient:
    """Keeps something for each pod from Reserve on, and lets it wait at Permit."""

    name = "Patient"

    def __init__(self) -> None:
        self.kept: list[str] = []  # names of pods
        self.given_back: list[str] = []

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.kept.append(pod.pod.metadata.name)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.kept.remove(pod.pod.metadata.name)
        self.given_back.append(pod.pod.metadata.name)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return Status(Code.WAIT), 10.0


@pytest.mark.parametrize("point", ["reserve", "permit", "preBind", "bind"])
def test_what_one_plugin_keeps_is_given_back_when_another_fails_and_kept_again_by_the_next_attempt(point: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        fault = Status(Code.ERROR, ("out of order",))
        answers: list[Any] = [(fault, 0.0) if point == "permit" else fault]
        patient = Patient()
        failing = Rogue(lambda: answers.pop() if answers else POINTS[point], POINTS[point])
        plugins: dict[str, list[Any]] = {"reserve": [patient], "permit": [patient]}
        plugins.setdefault(point, []).append(failing)
        async with World(plugins=plugins) as world:
            world.add_node("n1", cpu="2")
            uids = [world.add_pod(make_pod(name).req(cpu="1")).metadata.uid for name in ("bad", "good")]

            def allow_those_who_wait() -> bool:
                for waiting in filter(None, map(world.scheduler.waiting_pods.get, uids)):
                    waiting.allow("Patient")
                return world.all_bound()

            await world.until(allow_those_who_wait, within_s=15)
            assert sorted(patient.kept) == ["bad", "good"]
            assert patient.given_back == ["bad"]
            assert not answers

    scenario()


@in_virtual_time
async def test_a_binding_that_is_not_sent_since_the_lease_is_lost_is_reported_to_nobody() -> None:
    async with World(plugins={"permit": [Guard()]}, expect_conditions=False) as world:
        world.add_node("n1", cpu="1")
        pod = world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(lambda: bool(world.scheduler.waiting_pods))
        before = world.metrics.exposition()
        world.scheduler.permission.depend_on(Follower())
        waiting = world.scheduler.waiting_pods.get(pod.metadata.uid)
        assert waiting is not None
        waiting.allow("Guard")
        await world.sleep(5)
        assert not world.scheduler.waiting_pods
        assert (world.node_of("p"), world.condition("p"), world.events("p")) == ("", None, [])
        attempts = [line for line in before.decode().splitlines() if line.startswith("scheduler_schedule_attempts")]
        after = world.metrics.exposition().decode().splitlines()
        assert [line for line in after if line.startswith("scheduler_schedule_attempts")] == attempts
        world.cluster.delete_pod("default/p")


@in_virtual_time
async def test_a_leader_whose_lease_has_run_out_decides_nothing_until_it_leads_again() -> None:
    async with World() as world:
        world.add_node("n1")
        elected = Suspended()
        world.scheduler.permission.depend_on(elected)
        world.add_pod(make_pod("p").req(cpu="1"))
        world.add_pod(make_pod("large").req(cpu="100"))
        await world.sleep(5)
        assert world.judge.decisions == {}
        assert (world.condition("large"), world.events("large")) == (None, [])
        elected.is_leader = True
        await world.until(lambda: bool(world.node_of("p")), within_s=1.0)


@in_virtual_time
async def test_a_pod_that_waits_for_permission_too_long_gives_its_room_back() -> None:
    async with World(plugins={"permit": [Guard()]}) as world:
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(lambda: world.condition("p") is not None)
        condition = world.condition("p")
        assert condition is not None
        assert condition.message == "rejected due to timeout after waiting 10s at plugin Guard"
        assert world.clock.now() >= 10
        world.cluster.delete_pod("default/p")
        await world.sleep(20)


@in_virtual_time
async def test_a_pod_deleted_while_it_waits_for_permission_gives_its_room_to_others_at_once() -> None:
    async with World(plugins={"permit": [Guard()]}) as world:
        world.add_node("n1", cpu="1")
        first = world.add_pod(make_pod("first").req(cpu="1").priority(1))
        await world.sleep(1)
        assert world.scheduler.waiting_pods.get(first.metadata.uid) is not None
        second = world.add_pod(make_pod("second").req(cpu="1"))
        await world.sleep(1)
        world.cluster.delete_pod("default/first")
        await world.sleep(3)
        waiting = world.scheduler.waiting_pods.get(second.metadata.uid)
        assert waiting is not None
        waiting.allow("Guard")
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_pod_whose_node_is_deleted_while_it_waits_for_permission_goes_to_another() -> None:
    async with World(plugins={"permit": [Guard()]}) as world:
        world.add_node("n1")
        pod = world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(lambda: bool(world.scheduler.waiting_pods))
        world.cluster.delete_node("n1")
        world.add_node("n2")
        await world.sleep(1)

        def allow() -> bool:
            waiting = world.scheduler.waiting_pods.get(pod.metadata.uid)
            if waiting is not None:
                waiting.allow("Guard")
            return world.all_bound()

        await world.until(allow)
        assert world.node_of("p") == "n2"
        assert [event.note for event in world.events("p", "FailedScheduling")] == [
            'node "n1" was deleted before the pod was bound to it'
        ]


class OneDevice(Patient):
    """As Patient, with something to keep that only one pod can have at a time."""

    name = "OneDevice"

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[None, Status | None]:
        return None, unschedulable("the device is in use") if self.kept else None

    def events_to_register(self) -> tuple[Registration, ...]:
        return (Registration(ASSIGNED_POD_DELETE),)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), 600.0) if pod.pod.metadata.name == "first" else (None, 0.0)


@pytest.mark.parametrize("hand", ["deleted", "recreated", "bound"])
def test_what_is_kept_for_a_pod_that_leaves_while_it_waits_for_permission_is_given_to_others_at_once(hand: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        device = OneDevice()
        points = ("preFilter", "reserve", "permit")
        async with World(plugins={point: [device] for point in points}) as world:
            world.add_node("n1")
            world.add_node("n2")
            first = world.add_pod(make_pod("first").req(cpu="1")).metadata.uid
            await world.until(lambda: bool(world.scheduler.waiting_pods))
            held = world.scheduler.cache.get(first)
            assert held is not None
            other = "n2" if held.node_name == "n1" else "n1"
            world.add_pod(make_pod("second").req(cpu="1"))
            await world.until(lambda: world.condition("second") is not None)
            if hand == "bound":
                world.bind_elsewhere("first", other)
            else:
                world.cluster.delete_pod("default/first")
            if hand == "recreated":
                world.add_pod(make_pod("first").req(cpu="1").node(other))
            await world.until(lambda: bool(world.node_of("second")), within_s=5)
            assert device.given_back == ["first"]
            assert not world.scheduler.waiting_pods

    scenario()


@in_virtual_time
async def test_a_pod_that_no_event_wakes_is_tried_again_after_five_minutes() -> None:
    moody = Moody()
    async with World(plugins={"filter": [moody]}) as world:
        world.add_node("n1")
        world.add_pod(make_pod("p"))
        await world.until(lambda: world.condition("p") is not None)
        moody.in_a_mood = False
        world.add_node("n2")
        await world.sleep(299)
        assert not world.node_of("p")
        await world.until(world.all_bound, within_s=40)


# --- bindings that go through plugins and hang ----------------------------------------------------------------------


class Hanging(Rogue):
    """Has something to do for each pod at the point it is put, and comes to no end for those named "hung"."""

    name = "Hanging"

    def __init__(self) -> None:
        super().__init__(lambda: None, None)
        self.released = asyncio.Event()

    async def _pass(self, pod: PodInfo) -> None:
        if pod.pod.metadata.name.startswith("hung"):
            await self.released.wait()

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        await self._pass(pod)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        await self._pass(pod)
        return SKIP


@pytest.mark.parametrize("point", ["preBind", "bind"])
def test_plugins_that_hang_while_they_bind_do_not_stop_other_pods(point: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        hanging = Hanging()
        # No more room than pods that hang, so that they would take all of it.
        async with World(plugins={point: [hanging]}, options=Options(bind_concurrency=4)) as world:
            world.add_nodes(4, cpu="100")
            for number in range(4):
                world.add_pod(make_pod(f"hung-{number}").priority(100))
            await world.until(lambda: len(world.scheduler.bindings) == 4)
            for number in range(40):
                world.add_pod(make_pod(f"good-{number}"))
            await world.until(lambda: all(world.node_of(f"good-{number}") for number in range(40)), within_s=3.0)
            assert len(world.scheduler.bindings) == 4
            hanging.released.set()
            await world.until(world.all_bound)

    scenario()


@pytest.mark.parametrize(("verb", "point"), [(Verb.BIND, "bind"), (Verb.PATCH_STATUS, "preBind")])
def test_an_apiserver_without_an_answer_for_pods_that_plugins_bind_does_not_stop_others(verb: Verb, point: str) -> None:
    def concerns(subject: object) -> bool:
        name = subject.name if isinstance(subject, Binding) else getattr(subject, "key", "").partition("/")[2]
        return name.startswith("hung")

    @in_virtual_time
    async def scenario() -> None:
        # With a plugin of its own there no pod goes the way of those that are only bound.
        plugin = Rogue(lambda: POINTS[point], POINTS[point])
        async with World(plugins={point: [plugin]}, options=Options(bind_concurrency=4)) as world:
            world.faults.add(FaultKind.TIMEOUT, verb, delay_s=30.0, count=40, matches=concerns)
            world.add_nodes(4, cpu="100")
            for number in range(4):
                world.add_pod(make_pod(f"hung-{number}").priority(100))
            await world.until(lambda: len(world.scheduler.bindings) == 4)
            for number in range(40):
                world.add_pod(make_pod(f"good-{number}"))
            await world.until(lambda: all(world.node_of(f"good-{number}") for number in range(40)), within_s=3.0)
            await world.until(world.all_bound, within_s=600.0)

    scenario()
