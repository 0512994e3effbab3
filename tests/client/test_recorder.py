"""The Events lane on the cluster in memory, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.client.protocol import Event, EventSeries, Regarding
from kscheduler.client.recorder import EventRecorder, cut_note
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual

POD = Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u1", resource_version="5"))


class World:
    def __init__(self, **options: Any) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.client: ClusterClient = self.cluster.client()
        self.recorder = EventRecorder(
            self.client, self.clock, random.Random(1), controller="default-scheduler", instance="host_1", **options
        )

    def fail(self, pod: Pod = POD, note: str = "0/1 nodes are available") -> None:
        self.recorder.record(pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note)

    def bound(self, pod: Pod = POD) -> None:
        self.recorder.record(pod, type="Normal", reason="Scheduled", action="Binding", note="Successfully assigned")

    @property
    def events(self) -> list[Event]:
        return list(self.cluster.events)

    def series(self, index: int = 0) -> EventSeries | None:
        return self.cluster.series_of(self.events[index])


def simulate(scenario: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        world = World(**options)
        task = asyncio.ensure_future(world.recorder.run())
        try:
            await scenario(world)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


def test_an_event_says_who_what_and_about_whom() -> None:
    async def scenario(world: World) -> None:
        world.fail()
        await asyncio.sleep(1)
        (event,) = world.events
        assert event == Event(
            namespace="ns",
            name="web.17979cfe362a0000",  # the epoch's nanoseconds
            regarding_kind="Pod",
            regarding_api_version="v1",
            regarding_namespace="ns",
            regarding_name="web",
            regarding_uid="u1",
            regarding_resource_version="5",
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note="0/1 nodes are available",
            reporting_controller="default-scheduler",
            reporting_instance="host_1",
            event_time_s=1_700_000_000.0,
        )

    simulate(scenario)


def test_the_second_occurrence_starts_a_series_and_later_ones_are_only_counted() -> None:
    async def scenario(world: World) -> None:
        for _ in range(5):
            world.fail(note=f"at {world.clock.now()}")
            await asyncio.sleep(10)
        assert len(world.events) == 1
        assert world.series() == EventSeries(2, 1_700_000_010.0)
        await asyncio.sleep(420)  # quiet for six minutes: the series ends, and its count is written
        assert world.series() == EventSeries(5, 1_700_000_040.0)
        world.fail()
        await asyncio.sleep(1)
        assert len(world.events) == 2

    simulate(scenario)


def test_a_series_that_goes_on_is_refreshed_every_half_hour() -> None:
    async def scenario(world: World) -> None:
        for _ in range(40):
            world.fail()
            await asyncio.sleep(60)
        assert len(world.events) == 1
        series = world.series()
        assert series is not None
        assert series.count >= 31

    simulate(scenario)


def test_other_pods_reasons_and_uids_are_other_events() -> None:
    async def scenario(world: World) -> None:
        world.fail()
        world.bound()
        world.fail(Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u2")))
        await asyncio.sleep(1)
        assert len({event.name for event in world.events}) == 3

    simulate(scenario)


def test_a_pod_in_another_version_is_told_anew() -> None:
    async def scenario(world: World) -> None:
        changed = Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u1", resource_version="6"))
        world.fail(note="too large")
        world.fail(changed, note="too late")
        world.fail(changed, note="too late again")
        await asyncio.sleep(1)
        assert [event.note for event in world.events] == ["too large", "too late"]
        assert [world.series(0), world.series(1)] == [None, EventSeries(2, 1_700_000_000.0)]

    simulate(scenario)


def test_a_series_whose_event_expired_is_created_anew() -> None:
    async def scenario(world: World) -> None:
        world.fail()
        await asyncio.sleep(1)
        world.client.faults.add(FaultKind.NOT_FOUND, Verb.PATCH_EVENT, count=1)
        world.cluster.__dict__.get("_events", {}).clear()
        world.fail()
        await asyncio.sleep(1)
        assert world.recorder.failed == 0

    simulate(scenario)


def test_recording_never_waits_and_a_full_queue_drops_its_oldest(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.SLOW, Verb.CREATE_EVENT, delay_s=1.0)
        for i in range(8):
            world.bound(Pod(metadata=ObjectMeta(name=f"p{i}", namespace="ns", uid=str(i))))
        assert world.clock.now() == 0.0
        assert (world.recorder.queued, world.recorder.dropped) == (5, 3)
        await asyncio.sleep(60)
        assert [event.regarding_name for event in world.events] == ["p3", "p4", "p5", "p6", "p7"]

    simulate(scenario, max_queued=5)
    assert caplog.text.count("event queue is full") == 1


def test_what_may_pass_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        faults = world.client.faults
        faults.add(FaultKind.SERVER_ERROR, Verb.CREATE_EVENT, count=1)
        faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.CREATE_EVENT, count=1, retry_after_s=5)
        faults.add(FaultKind.LOST_ANSWER, Verb.CREATE_EVENT, count=1)
        world.fail()
        await asyncio.sleep(60)
        assert len(world.events) == 1
        assert (world.recorder.sent, world.recorder.failed) == (1, 0)

    simulate(scenario)


def test_what_cannot_pass_is_given_up() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.NOT_FOUND, Verb.CREATE_EVENT, count=1)  # the namespace is going away
        world.fail()
        await asyncio.sleep(60)
        assert (world.events, world.recorder.failed) == ([], 1)

    simulate(scenario)


def test_an_outage_costs_some_tries_and_no_more() -> None:
    async def scenario(world: World) -> None:
        world.cluster.stop()
        world.fail()
        await asyncio.sleep(600)
        assert world.recorder.failed == 1
        assert await world.recorder.drain(1)

    simulate(scenario)


def test_draining_sends_what_is_queued_and_what_was_counted() -> None:
    async def scenario(world: World) -> None:
        for _ in range(4):
            world.fail()
            await asyncio.sleep(1)
        world.bound()
        assert await world.recorder.drain(5)
        assert len(world.events) == 2
        assert world.series() == EventSeries(4, 1_700_000_003.0)

    simulate(scenario)


def test_draining_gives_up_in_time() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.TIMEOUT, Verb.CREATE_EVENT, delay_s=100.0)
        world.fail()
        assert not await world.recorder.drain(5)
        assert world.clock.now() == 5.0

    simulate(scenario)


def test_memory_of_series_is_bounded() -> None:
    async def scenario(world: World) -> None:
        for i in range(100):
            world.bound(Pod(metadata=ObjectMeta(name=f"p{i}", namespace="ns", uid=str(i))))
        await asyncio.sleep(1)
        assert len(world.recorder._series) == 10
        assert len(world.events) == 100

    simulate(scenario, max_series=10)


def test_events_about_cluster_scoped_objects_are_in_default() -> None:
    async def scenario(world: World) -> None:
        node = Regarding("Node", "v1", "", "n1", "u9")
        world.recorder.record(node, type="Normal", reason="R", action="A", note="n")
        await asyncio.sleep(1)
        assert (world.events[0].namespace, world.events[0].regarding_namespace) == ("default", "")

    simulate(scenario)


@pytest.mark.parametrize("letter", ["x", "é", "🙂"])
def test_a_note_is_cut_to_1024_bytes(letter: str) -> None:
    note = cut_note(letter * 2000)
    assert 1020 <= len(note.encode()) <= 1024
    assert note.endswith(letter + " ...")
    assert cut_note("short") == "short"
