"""Plugins from outside in a running scheduler, as a profile loads them: well behaved and not."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.assembly import LEAVE_AFTER_S
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework import Code, CycleState, Handle, NodeInfo, PluginArgs, PodInfo, Status, unschedulable
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.testing import make_pod
from tests.support.world import World, in_virtual_time

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class OddName:
    """Score: likes the node that its arguments name; answers nonsense for pods called "bad"."""

    name = "OddName"

    class Args(PluginArgs, frozen=True):
        favourite: str

    def __init__(self, args: Args, handle: Handle) -> None:
        self._favourite = args.favourite

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[Any, Status | None]:
        if pod.pod.metadata.name == "bad":
            return float("nan"), None
        return 100 if node.name == self._favourite else 0, None


class Sluggish:
    """PreBind: never comes back for pods called "bad"."""

    name = "Sluggish"
    timeout_s = 20.0

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        pass

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if pod.pod.metadata.name == "bad":
            await asyncio.Event().wait()
        return None


class Stubborn(Sluggish):
    """PreBind: does not come back for pods called "bad" while it goes on, not even when it is cancelled."""

    name = "Stubborn"
    goes_on = True

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        while pod.pod.metadata.name == "bad" and self.goes_on:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1.0)
        return None


class Leaver:
    """Filter and PostBind: tries to end the process for pods called "bad"."""

    name = "Leaver"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.pod.metadata.name == "bad":
            raise SystemExit("enough")
        return None

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        raise SystemExit("enough")


class Gang:
    """Permit and Reserve: pods with the label `gang` are bound together, as many as its value says, or not at all."""

    name = "Gang"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        self._handle = handle

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        size = int(_gang(pod))
        if not size:
            return None, 0.0
        others = [wait for wait in self._handle.waiting_pods if _gang(wait.pod)]
        if len(others) + 1 < size:
            return Status(Code.WAIT), 30.0
        for wait in others:
            wait.allow(self.name)
        return None, 0.0

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        for wait in self._handle.waiting_pods:
            if _gang(wait.pod) and wait.pending_plugins == [self.name]:
                wait.reject(self.name, f"{pod.pod.metadata.name} of the gang has no place")


def _gang(pod: PodInfo) -> str:
    return (pod.pod.metadata.labels or {}).get("gang", "0")


def profile(kind: type, args: str = "{}") -> SchedulerConfig:
    name = f"{kind.__module__}:{kind.__qualname__}"
    text = f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: '{name}', weight: 50}}]}}}}, "
    return parse_config(HEAD + text + f"pluginConfig: [{{name: '{name}', args: {args}}}]}}]", find_plugins=find_plugins)


@in_virtual_time
async def test_a_plugin_of_a_profile_decides_with_its_arguments() -> None:
    async with World(config=profile(OddName, "{favourite: n2}")) as world:
        world.add_nodes(4)
        for index in range(3):
            world.add_pod(make_pod(f"p{index}").req(cpu="1"))
        await world.until(world.all_bound)
        assert {world.node_of(f"p{index}") for index in range(3)} == {"n2"}


FAULTS = {
    OddName: 'running Score plugins: plugin "OddName" failed with: WrongAnswer: expected an integer as score, got nan',
    Sluggish: 'running PreBind plugin "Sluggish": TookTooLong: no answer within 20 s',
    Stubborn: 'running PreBind plugin "Stubborn": TookTooLong: no answer within 20 s',
    Leaver: 'running "Leaver" filter plugin: Exited: called exit(enough)',
}


@pytest.mark.parametrize("kind", FAULTS)
def test_its_misbehaviour_is_recorded_in_the_condition_of_its_pod_and_hurts_nobody_else(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = "{favourite: n1}" if kind is OddName else "{}"

    @in_virtual_time
    async def scenario() -> None:
        async with World(config=profile(kind, args)) as world:
            world.add_nodes(3)
            world.add_pod(make_pod("bad").req(cpu="1").priority(5))
            world.add_pod(make_pod("good").req(cpu="1"))
            await world.until(lambda: bool(world.node_of("good")), within_s=5)
            await world.until(lambda: world.condition("bad") is not None)
            condition = world.condition("bad")
            assert condition is not None
            assert (condition.reason, condition.message) == ("SchedulerError", FAULTS[kind])
            world.cluster.delete_pod("default/bad")
            await world.sleep(30)
            monkeypatch.setattr(Stubborn, "goes_on", False)  # the calls that were left behind end with the world

    scenario()


@in_virtual_time
async def test_pods_of_a_gang_are_bound_together_by_a_plugin_that_sees_who_waits() -> None:
    async with World(config=profile(Gang)) as world:
        world.add_nodes(3)
        for index in range(3):
            world.add_pod(make_pod(f"member-{index}").label(gang="3").req(cpu="1"))
        world.add_pod(make_pod("single").req(cpu="1"))
        await world.until(world.all_bound, within_s=2)


@in_virtual_time
async def test_a_gang_that_does_not_fit_gives_all_its_room_back_when_the_first_has_waited_too_long() -> None:
    async with World(config=profile(Gang)) as world:
        world.add_node("n1", cpu="2")
        for index in range(3):
            world.add_pod(make_pod(f"member-{index}").label(gang="3").req(cpu="1"))
            await world.sleep(5)
        assert [wait.pod.key for wait in world.scheduler.waiting_pods] == ["default/member-0", "default/member-1"]
        await world.sleep(16)
        first, second = (world.events(name, "FailedScheduling")[0].note for name in ("member-0", "member-1"))
        assert first == "rejected due to timeout after waiting 30s at plugin Gang"
        assert second == "member-0 of the gang has no place"
        assert not any(world.node_of(f"member-{index}") for index in range(3))
        world.add_node("n2", cpu="3")
        await world.until(world.all_bound, within_s=120)


class Hinting:
    """Filter: rejects pods called "bad"; its queueing hint ends the task in which it is called."""

    name = "Hinting"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("no") if pod.pod.metadata.name == "bad" else None

    def events_to_register(self) -> list[Registration]:
        def hint(*_: object) -> bool:
            raise asyncio.CancelledError

        return [Registration(ClusterEvent(EventResource.NODE, Action.ADD), hint)]


@in_virtual_time
async def test_a_queueing_hint_that_ends_its_task_ends_no_watch() -> None:
    async with World(config=profile(Hinting)) as world:
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("bad").req(cpu="1"))
        await world.until(lambda: world.condition("bad") is not None)
        world.add_pod(make_pod("first").req(cpu="1"))
        world.add_pod(make_pod("second").req(cpu="1"))
        await world.until(lambda: bool(world.node_of("first")))
        world.add_node("n2", cpu="1")
        await world.until(lambda: world.node_of("second") == "n2", within_s=30)


class InTheMiddle(Exception):
    """Leaves a world while work is under way."""


async def leave_in_the_middle(world: World, condition: Callable[[], bool]) -> None:
    async with world:
        await world.until(condition)
        raise InTheMiddle


@in_virtual_time
async def test_a_scheduler_can_be_stopped_while_a_plugin_ignores_its_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(config=profile(Stubborn))
    world.add_node("n1", cpu="2")
    world.add_pod(make_pod("bad").req(cpu="1"))
    with pytest.raises(InTheMiddle):
        await leave_in_the_middle(world, lambda: len(world.scheduler.bindings) == 1)
    assert world.clock.now() == 0.01 + LEAVE_AFTER_S
    monkeypatch.setattr(Stubborn, "goes_on", False)


class Panic(BaseException):
    """As PyO3 raises for a panic in Rust."""


FATAL: dict[str, BaseException] = {
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError(),
    "generator": GeneratorExit(),
    "panic": Panic("no"),
}


class _FailsLate:
    """Raises, after it has waited, what a pod's label `raises` names, at the pod's first attempt."""

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        self._handle = handle
        self._failed: set[str] = set()

    async def _fail_once(self, pod: PodInfo) -> None:
        await self._handle.sleep(1.0)
        raised = (pod.pod.metadata.labels or {}).get("raises")
        if raised and pod.uid not in self._failed:
            self._failed.add(pod.uid)
            raise FATAL[raised]


class LatePreBind(_FailsLate):
    """PreBind."""

    name = "LatePreBind"

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        await self._fail_once(pod)
        return None


class LateBind(_FailsLate):
    """Bind: passes pods on to the next plugin."""

    name = "LateBind"

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        await self._fail_once(pod)
        return Status(Code.SKIP)


@pytest.mark.parametrize("kind", [LatePreBind, LateBind])
def test_what_would_end_a_task_or_the_process_costs_the_pod_its_attempt_also_after_an_await(
    kind: type[_FailsLate], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in `kscheduler run`, whose loop handles the signal: else KeyboardInterrupt could be the user's.
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    name = f"{kind.__module__}:{kind.__qualname__}"
    plugins = {
        LatePreBind: f"preBind: {{enabled: [{{name: '{name}'}}]}}",
        LateBind: f"bind: {{disabled: [{{name: '*'}}], enabled: [{{name: '{name}'}}, {{name: DefaultBinder}}]}}",
    }[kind]
    config = parse_config(HEAD + f"profiles: [{{plugins: {{{plugins}}}}}]", find_plugins=find_plugins)

    @in_virtual_time
    async def scenario() -> None:
        async with World(config=config) as world:
            world.add_node("n1", cpu="5")
            for raised in FATAL:
                world.add_pod(make_pod(raised).label(raises=raised).req(cpu="1"))
            await world.until(lambda: all(world.condition(raised) is not None for raised in FATAL))
            said = {raised: str(getattr(world.condition(raised), "message", "")) for raised in FATAL}
            assert all("Exited: " in message for message in said.values()), said
            await world.until(world.all_bound, within_s=30)

    scenario()
