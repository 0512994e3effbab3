"""The Events lane on the cluster in memory, in virtual time."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec import structs

from kscheduler.api.objects import ObjectMeta, Pod, PodSpec
from kscheduler.client.protocol import Event, EventSeries, EventSlot, OnAnswered, Regarding
from kscheduler.client.recorder import HOLD_S, KEEP_S, LONGEST_HOLD_S, MOST_HELD, WORKERS, EventRecorder, cut_note
from kscheduler.errors import APIError, TooManyRequests, Unreachable
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual

POD = Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u1", resource_version="5"))


def numbered(i: int, version: str = "5") -> Pod:
    return Pod(metadata=ObjectMeta(name=f"p{i}", namespace="ns", uid=f"u{i}", resource_version=version))


def replace_uid(pod: Pod, uid: str) -> Pod:
    return structs.replace(pod, metadata=structs.replace(pod.metadata, uid=uid))


class Sending:
    """A client that can create Events without a task of the recorder's, too.

    `at_once`: it has a slot as soon as an Event is recorded.
    """

    def __init__(self, client: ClusterClient, *, at_once: bool = False) -> None:
        self._client = client
        self._at_once = at_once
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def take_event_slot(self, waited_s: float) -> EventSlot | None:
        return None

    def send_event(self, event: Event, slot: EventSlot | None, on_answer: OnAnswered) -> bool:
        if slot is None and not self._at_once:
            return False
        self.sent += 1
        work = asyncio.ensure_future(self._client.create_event(event, slot))
        work.add_done_callback(lambda done: None if done.cancelled() else on_answer(_outcome(done)))
        return True


class SendingTogether(Sending):
    """A client that can create several Events in one write, too."""

    def __init__(self, client: ClusterClient) -> None:
        super().__init__(client)
        self.writes: list[int] = []  # how many Events went in each
        self.is_open = True
        self.more: list[int] = []  # how many were to go beside one that had its slot
        self.tokens = 0  # for how many of those there are tokens
        self.put_back = 0  # tokens taken for those that went alone after all

    def take_event_tokens(self, most: int) -> int:
        self.more.append(most)
        return min(most, self.tokens)

    def put_back_event_tokens(self, count: int) -> None:
        self.put_back += count

    def send_events(self, events: Sequence[tuple[Event, OnAnswered]], slot: EventSlot | None = None) -> bool:
        if self.is_open:
            self.writes.append(len(events))
            for event, on_answer in events:
                self.send_event(event, Given(), on_answer)
        return self.is_open


class Given:
    """A slot that nobody else waits for."""

    def give_back(self) -> None:
        pass


def _outcome(done: asyncio.Future[None]) -> APIError | None:
    error = done.exception()
    assert error is None or isinstance(error, APIError)
    return error


class World:
    def __init__(self, *, sends: bool = False, at_once: bool = False, together: bool = False, **options: Any) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.client: ClusterClient = self.cluster.client()
        self.sending = Sending(self.client, at_once=at_once)
        self.together = SendingTogether(self.client)
        self.lost: list[tuple[str, str]] = []
        self.recorder = EventRecorder(
            self.together if together else self.sending if sends else self.client,
            self.clock,
            random.Random(1),
            controller="default-scheduler",
            instance="host_1",
            on_dropped=lambda reason, worth: self.lost.append((reason, worth)),
            **options,
        )

    def fail(self, pod: Pod = POD, note: str = "0/1 nodes are available") -> None:
        self.recorder.record(pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note)

    def bound(self, pod: Pod = POD) -> None:
        self.recorder.record(pod, type="Normal", reason="Scheduled", action="Binding", note="Successfully assigned")

    @property
    def events(self) -> list[Event]:
        return list(self.cluster.events)

    def series(self, index: int = 0) -> EventSeries | None:
        return self.events[index].series


def simulate(scenario: Callable[[World], Awaitable[None]], **options: Any) -> None:
    """Play a scenario with a client that awaits each answer, and with one that calls back, soon or at once."""
    for sends, at_once in ((False, False), (True, False), (True, True)):
        _simulate(scenario, sends=sends, at_once=at_once, **options)


def _simulate(scenario: Callable[[World], Awaitable[None]], **options: Any) -> None:
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
            regarding=Regarding("Pod", "v1", "ns", "web", "u1", "5"),
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


def test_a_pod_in_another_version_gets_an_event_of_its_own() -> None:
    async def scenario(world: World) -> None:
        changed = Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u1", resource_version="6"))
        world.fail(note="too large")
        world.fail(changed, note="too late")
        world.fail(changed, note="too late again")
        await asyncio.sleep(1)
        found = {event.note: event.series for event in world.events}
        assert found == {"too large": None, "too late": EventSeries(2, 1_700_000_000.0)}

    simulate(scenario)


def test_a_series_whose_event_expired_is_created_again() -> None:
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
        assert sorted(event.regarding.name for event in world.events) == ["p3", "p4", "p5", "p6", "p7"]

    simulate(scenario, max_queued=5)
    assert caplog.text.count("event queue is full") == 3  # once with each client


def test_what_may_pass_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        faults = world.client.faults
        faults.add(FaultKind.SERVER_ERROR, Verb.CREATE_EVENT, count=1)
        faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.CREATE_EVENT, count=1, retry_after_s=5)
        faults.add(FaultKind.LOST_ANSWER, Verb.CREATE_EVENT, count=1)
        world.fail()
        await asyncio.sleep(60)
        assert len(world.events) == 1
        assert world.recorder.failed == 0

    simulate(scenario)


def test_what_cannot_pass_is_given_up() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.NOT_FOUND, Verb.CREATE_EVENT, count=1)  # the namespace is going away
        world.fail()
        await asyncio.sleep(60)
        assert (world.events, world.recorder.failed) == ([], 1)

    simulate(scenario)


def test_events_of_an_outage_are_written_when_it_ends() -> None:
    async def scenario(world: World) -> None:
        world.cluster.stop()
        for i in range(500):
            world.bound(numbered(i))
        await asyncio.sleep(600)
        assert (world.recorder.failed, world.recorder.dropped) == (0, 0)
        world.cluster.start()
        await asyncio.sleep(11)  # the longest pause between two attempts is ten seconds
        assert len(world.events) == 500
        assert world.recorder.queued == 0

    simulate(scenario)


def test_while_nothing_can_be_reached_one_event_at_a_time_is_tried() -> None:
    async def scenario(world: World) -> None:
        attempts = 0

        async def refuse(event: Event, slot: EventSlot | None = None) -> None:
            nonlocal attempts
            attempts += 1
            raise Unreachable("no route")

        world.client.create_event = refuse  # type: ignore[method-assign]
        for i in range(500):
            world.bound(numbered(i))
        await asyncio.sleep(100)
        assert attempts < WORKERS + 30

    simulate(scenario)


def test_in_an_outage_each_event_that_failed_waits_for_its_own_time() -> None:
    async def scenario(world: World) -> None:
        tried: list[float] = []

        async def never_answer(event: Event, slot: EventSlot | None = None) -> None:
            tried.append(world.clock.now())
            raise Unreachable("timed out")

        world.client.create_event = never_answer  # type: ignore[method-assign]
        world.bound()
        await asyncio.sleep(600)
        pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
        assert min(pauses[6:]) >= 15.0  # half of the longest, by chance
        assert len(tried) < 50

    simulate(scenario)


def test_events_that_wait_to_be_repeated_count_among_the_queued() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.SERVER_ERROR, Verb.CREATE_EVENT)
        for start in range(0, 100, 10):
            for i in range(start, start + 10):
                world.bound(numbered(i))
                assert world.recorder.queued <= 20
            await asyncio.sleep(0.1)
            assert world.recorder.queued <= 20
        # New ones always found room beside those that fail.
        assert len(world.lost) == 100 - world.recorder.queued
        world.client.faults.clear()
        for i in range(100, 110):
            world.bound(numbered(i))
        await asyncio.sleep(60)
        assert {f"p{i}" for i in range(100, 110)} <= {event.regarding.name for event in world.events}
        assert world.recorder.queued == 0

    simulate(scenario, max_queued=20)


def test_a_failed_event_takes_the_place_of_one_that_is_worth_less() -> None:
    async def scenario(world: World) -> None:
        create = world.client.create_event

        async def fail_after_a_while(event: Event, slot: EventSlot | None = None) -> None:
            world.client.create_event = create  # type: ignore[method-assign]
            await asyncio.sleep(0.5)
            raise APIError("failed calling webhook", status=500)

        world.client.create_event = fail_after_a_while  # type: ignore[method-assign]
        world.bound()
        await asyncio.sleep(0.1)
        for i in range(4):
            world.fail(numbered(i))
        await asyncio.sleep(60)
        assert world.lost == [("queue_full", "failure")]
        assert sorted(event.regarding.name for event in world.events) == ["p1", "p2", "p3", "web"]

    simulate(scenario, max_queued=4, workers=1)


def test_new_events_need_no_task_and_repeated_ones_do() -> None:
    async def scenario(world: World) -> None:
        for i in range(20):
            world.bound(numbered(i))
        await asyncio.sleep(1)
        assert world.sending.sent == 20
        world.fail()
        await asyncio.sleep(1)
        world.fail()
        await asyncio.sleep(1)
        assert world.sending.sent == 21
        assert len(world.events) == 21
        assert world.series(20) is not None
        assert await world.recorder.drain(1.0)

    _simulate(scenario, sends=True)


def test_an_event_whose_token_was_refused_goes_the_way_that_reads_it_again() -> None:
    async def scenario(world: World) -> None:
        create, tried = world.client.create_event, 0

        async def refuse_once(event: Event, slot: EventSlot | None = None) -> None:
            nonlocal tried
            tried += 1
            if tried == 1:
                raise APIError("the token has expired", status=401)
            await create(event)

        world.client.create_event = refuse_once  # type: ignore[method-assign]
        world.bound()
        await asyncio.sleep(0)
        assert await world.recorder.drain(1.0)
        assert (tried, world.sending.sent, len(world.events)) == (2, 1, 1)
        assert world.recorder.failed == 0

    _simulate(scenario, sends=True)


def test_a_way_that_is_closed_is_not_taken() -> None:
    async def scenario(world: World) -> None:
        world.sending.send_event = lambda *event: False  # type: ignore[method-assign]
        world.bound()
        await asyncio.sleep(1)
        assert len(world.events) == 1

    _simulate(scenario, sends=True)


class FewSlots:
    """Slots that come free when the test says so."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(0)
        self.given_back = 0
        self.asked: list[float] = []

    async def event_slot(self, waited_s: float) -> EventSlot:
        self.asked.append(waited_s)
        await self.free.acquire()
        return self

    def give_back(self) -> None:
        self.given_back += 1
        self.free.release()


def test_a_scheduled_event_overtakes_failures_until_a_slot_is_there() -> None:
    async def scenario(world: World) -> None:
        slots = FewSlots()
        world.client.event_slot = slots.event_slot  # type: ignore[method-assign]
        for i in range(200):
            world.fail(numbered(i))
        await asyncio.sleep(3)
        world.bound()
        for expected in (["Scheduled"], ["Scheduled", "FailedScheduling"]):
            slots.free.release()
            await asyncio.sleep(1)
            assert [event.reason for event in world.events] == expected
        assert slots.asked[:2] == [0.0, 3.0]  # since when some have been waiting
        for _ in range(199):
            slots.free.release()
        await asyncio.sleep(10)
        assert len(world.events) == 201
        assert slots.given_back == 0

    simulate(scenario)


def test_a_slot_that_comes_in_an_outage_is_given_back() -> None:
    async def scenario(world: World) -> None:
        slots = FewSlots()
        world.client.event_slot = slots.event_slot  # type: ignore[method-assign]
        create = world.client.create_event

        async def refuse_after_a_while(event: Event, slot: EventSlot | None = None) -> None:
            world.client.create_event = create  # type: ignore[method-assign]
            await asyncio.sleep(0.5)
            raise TooManyRequests("slow down", status=429, retry_after_s=5)

        world.client.create_event = refuse_after_a_while  # type: ignore[method-assign]
        for i in range(3):
            world.bound(numbered(i))
        slots.free.release()
        await asyncio.sleep(1)
        slots.free.release()
        await asyncio.sleep(1)
        assert (world.events, slots.given_back) == ([], 1)
        slots.free.release()
        slots.free.release()
        await asyncio.sleep(30)
        assert len(world.events) == 3

    simulate(scenario)


def test_an_event_that_outlived_what_the_apiserver_keeps_is_given_up() -> None:
    async def scenario(world: World) -> None:
        world.cluster.stop()
        world.bound()
        await asyncio.sleep(KEEP_S + 60)
        assert world.lost == [("error", "outcome")]
        assert await world.recorder.drain(1)

    simulate(scenario)


def test_a_webhook_that_fails_for_one_pod_does_not_hold_up_the_others() -> None:
    async def scenario(world: World) -> None:
        create = world.client.create_event

        async def fail_for_p0(event: Event, slot: EventSlot | None = None) -> None:
            if event.regarding.name == "p0":
                raise APIError("failed calling webhook", status=500)
            await create(event)

        world.client.create_event = fail_for_p0  # type: ignore[method-assign]
        for i in range(100):
            world.bound(numbered(i))
        await asyncio.sleep(0.4)
        assert len(world.events) == 99
        assert world.recorder.queued == 1
        world.client.create_event = create  # type: ignore[method-assign]
        await asyncio.sleep(31)
        assert len(world.events) == 100

    simulate(scenario)


def test_scheduled_goes_before_older_failures_and_a_lone_failure_is_not_starved() -> None:
    async def scenario(world: World) -> None:
        for i in range(100):
            world.fail(numbered(i))
        for i in range(50, 100):
            world.bound(numbered(i))
        await asyncio.sleep(100)
        order = [(event.reason, event.regarding.name) for event in world.events]
        assert len(order) == 150
        # Of the first 56, every tenth is a failure; last come the failures of pods that were bound meanwhile.
        assert [reason for reason, _ in order[:55]].count("Scheduled") == 50
        assert {reason for reason, _ in order[9:55:10]} == {"FailedScheduling"}
        assert {name for _, name in order[-49:]} == {f"p{i}" for i in range(50, 100)} - {"p50"}

    simulate(scenario, workers=1)


def test_a_full_queue_drops_what_is_worth_least_and_counts_it() -> None:
    async def scenario(world: World) -> None:
        for i in range(3):
            world.bound(numbered(i))
        world.fail(numbered(3))
        world.fail(numbered(3, version="6"))
        for i in range(4, 6):
            world.bound(numbered(i))
        world.fail(numbered(6))
        assert world.lost == [
            ("queue_full", "superseded"),
            ("queue_full", "failure"),
            ("queue_full", "failure"),
        ]
        await asyncio.sleep(1)
        assert [event.reason for event in world.events] == ["Scheduled"] * 5

    simulate(scenario, max_queued=5)


def test_a_successor_writes_scheduled_events_that_are_missing_and_doubles_none() -> None:
    async def scenario(world: World) -> None:
        bound = Pod(metadata=POD.metadata, spec=PodSpec(node_name="n1", scheduler_name="default-scheduler"))
        other = replace_uid(bound, "u2")
        world.bound(bound)
        await asyncio.sleep(1)
        successor = EventRecorder(
            world.client, world.clock, random.Random(2), controller="default-scheduler", instance="host_2"
        )
        task = asyncio.ensure_future(successor.run())
        for pod in (bound, other):
            successor.record_past_binding(pod, 1_699_999_990.0)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [event.regarding.uid for event in world.events] == ["u1", "u2"]
        missing = world.events[1]
        assert (missing.type, missing.reason, missing.action) == ("Normal", "Scheduled", "Binding")
        assert missing.note == "Successfully assigned ns/web to n1"
        assert missing.event_time_s == 1_699_999_990.0
        assert re.fullmatch(r"web\.[0-9a-f]{16}", missing.name)

    simulate(scenario)


def test_a_leader_that_is_stopped_leaves_the_events_of_earlier_bindings_to_the_next_and_sends_all_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.SLOW, Verb.CREATE_EVENT, delay_s=1.0)
        for number in range(1, 1_000):
            world.recorder.record_past_binding(numbered(number), 1_699_999_990.0)
        world.fail(numbered(0))
        world.fail(numbered(0, "6"))  # supersedes it
        world.bound(numbered(0, "7"))
        assert await world.recorder.drain(5)
        assert world.clock.now() <= 2.0
        mine = [event.reason for event in world.events if event.regarding.name == "p0"]
        assert sorted(mine) == ["FailedScheduling", "FailedScheduling", "Scheduled"]

    caplog.set_level(logging.INFO, logger="kscheduler.client")
    _simulate(scenario)
    [record] = caplog.records
    said = "events of earlier leaders' bindings are left to the next leader"
    assert (record.levelno, record.getMessage()) == (logging.INFO, said)
    assert vars(record)["events"] == 999


def test_events_of_earlier_bindings_whose_write_failed_are_left_to_the_next_leader_too() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.SERVER_ERROR, Verb.CREATE_EVENT)
        world.recorder.record_past_binding(numbered(1), 1_699_999_990.0)
        await asyncio.sleep(0.1)  # it waits to be repeated
        assert world.recorder.queued == 1
        assert await world.recorder.drain(5)
        assert (world.clock.now(), world.recorder.queued) == (0.1, 0)

    simulate(scenario)


def test_an_event_of_an_earlier_binding_whose_write_fails_while_a_leader_stops_does_not_hold_it() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.TIMEOUT, Verb.CREATE_EVENT, delay_s=1.0)
        world.recorder.record_past_binding(numbered(1), 1_699_999_990.0)
        await asyncio.sleep(0.5)  # it is under way
        assert await world.recorder.drain(5)
        assert world.clock.now() == 1.0
        assert (world.recorder.queued, world.lost, world.recorder.failed) == (0, [], 0)

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


def test_a_scheduled_event_is_sent_at_once_and_says_where_to() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(0.01)
        pod = structs.replace(POD, spec=PodSpec(scheduler_name="mine"))
        world.recorder.record_scheduled(pod, "node-1")
        assert world.sending.sent == 1
        world.recorder.record_scheduled(pod, "node-1")  # again, under the same name: it exists
        await asyncio.sleep(1)
        (event,) = world.events
        suffix = hashlib.blake2b(b"u1", digest_size=8).hexdigest()
        assert event == Event(
            namespace="ns",
            name=f"web.{suffix}",
            regarding=Regarding("Pod", "v1", "ns", "web", "u1", "5"),
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note="Successfully assigned ns/web to node-1",
            reporting_controller="mine",
            reporting_instance="host_1",
            event_time_s=1_700_000_000.01,
        )
        assert await world.recorder.drain(1.0)
        assert world.recorder.failed == world.recorder.dropped == 0

    _simulate(scenario, sends=True, at_once=True)


def test_scheduled_events_alone_are_left_out_where_nobody_reads_them() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(0.01)
        world.recorder.record_scheduled(POD, "node-1")
        world.fail()
        await asyncio.sleep(1)
        assert [event.reason for event in world.events] == ["FailedScheduling"]

    _simulate(scenario, sends=True, writes_scheduled=False)


def test_no_event_is_sent_at_once_before_those_that_wait_nor_while_the_apiserver_takes_none() -> None:
    async def scenario(world: World) -> None:
        create, is_away = world.client.create_event, True

        async def fail(event: Event, slot: EventSlot | None = None) -> None:
            if is_away:
                raise Unreachable("connection refused")
            await create(event)

        world.client.create_event = fail  # type: ignore[method-assign]
        await asyncio.sleep(0.01)
        world.bound(numbered(0))
        assert world.sending.sent == 1
        await asyncio.sleep(0.01)  # it was refused: from now on one Event at a time is tried
        world.recorder.record_scheduled(numbered(1), "n")
        assert (world.sending.sent, world.recorder.queued) == (1, 2)
        is_away = False
        await asyncio.sleep(60)
        assert len(world.events) == 2
        assert world.recorder.queued == 0

    _simulate(scenario, sends=True, at_once=True)


def test_scheduled_events_that_come_one_by_one_wait_for_each_other_and_go_in_one_write() -> None:
    async def scenario(world: World) -> None:
        began_s = world.clock.wall()
        for number in range(4):
            await asyncio.sleep(0.01)
            world.recorder.record_scheduled(numbered(number), "n")
        assert (world.together.writes, world.recorder.queued) == ([], 4)
        await asyncio.sleep(LONGEST_HOLD_S)
        assert (world.together.writes, world.recorder.queued) == ([4], 0)
        times_s = [event.event_time_s - began_s for event in world.events]
        assert times_s == pytest.approx([0.01, 0.02, 0.03, 0.04])  # of the bindings
        for number in range(MOST_HELD):
            world.recorder.record_scheduled(numbered(10 + number), "n")
        assert world.together.writes == [4, MOST_HELD]  # as many as go in one write need not wait
        await asyncio.sleep(2 * HOLD_S)
        assert world.together.writes == [4, MOST_HELD]

    _simulate(scenario, together=True)


def test_scheduled_events_that_have_waited_go_with_the_next_one() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(0.01)
        world.recorder.record_scheduled(numbered(0), "n")
        await asyncio.sleep(HOLD_S + 0.01)
        assert world.together.writes == []
        world.recorder.record_scheduled(numbered(1), "n")
        assert world.together.writes == [2]
        world.recorder.record_scheduled(numbered(2), "n")
        await asyncio.sleep(LONGEST_HOLD_S - 0.01)
        assert world.together.writes == [2]
        await asyncio.sleep(0.02)
        assert world.together.writes == [2, 1]

    _simulate(scenario, together=True)


def test_events_that_cannot_go_in_one_write_now_are_queued_and_others_behind_them() -> None:
    async def scenario(world: World) -> None:
        world.together.is_open = False
        world.recorder.record_scheduled(numbered(0), "n")
        await asyncio.sleep(0)
        world.fail(numbered(1))  # it waits in the queue for its worker
        world.recorder.record_scheduled(numbered(2), "n")
        await asyncio.sleep(2 * HOLD_S)
        assert {event.regarding.name for event in world.events} == {"p0", "p1", "p2"}
        assert world.together.writes == []

    _simulate(scenario, together=True)


def test_events_that_wait_go_with_the_one_that_has_its_slot_as_far_as_there_are_tokens() -> None:
    async def scenario(world: World) -> None:
        slots = FewSlots()
        world.client.event_slot = slots.event_slot  # type: ignore[method-assign]
        world.together.tokens = 5
        for i in range(20):
            world.fail(numbered(i))
        for i in range(3):
            world.bound(numbered(100 + i))
        for expected in (6, 12, 18, 23):
            slots.free.release()
            await asyncio.sleep(1)
            assert len(world.events) == expected
        assert world.together.more[:4] == [MOST_HELD - 1] * 3 + [4]  # never more than wait
        assert [event.reason for event in world.events][:3] == ["Scheduled"] * 3  # the most important first
        assert slots.given_back == 0

    _simulate(scenario, together=True)


def test_events_that_were_to_go_in_one_write_are_written_another_way_where_that_is_closed() -> None:
    async def scenario(world: World) -> None:
        slots = FewSlots()
        world.client.event_slot = slots.event_slot  # type: ignore[method-assign]
        world.together.is_open = False
        world.together.tokens = 7
        for i in range(20):
            world.fail(numbered(i))
        await asyncio.sleep(1)
        for _ in range(20):
            slots.free.release()
        await asyncio.sleep(1)
        assert sorted(event.regarding.name for event in world.events) == sorted(f"p{i}" for i in range(20))
        assert world.together.writes == []
        assert world.together.put_back == sum(world.together.more)
        assert world.recorder.queued == 0

    _simulate(scenario, together=True)


def test_a_repetition_that_waits_behind_a_new_event_is_counted_in_its_series() -> None:
    async def scenario(world: World) -> None:
        world.fail()
        await asyncio.sleep(1)
        slots = FewSlots()
        world.client.event_slot = slots.event_slot  # type: ignore[method-assign]
        world.together.tokens = 7
        world.bound(numbered(1))
        world.fail()
        slots.free.release()
        slots.free.release()
        await asyncio.sleep(1)
        assert [event.regarding.name for event in world.events] == ["web", "p1"]
        series = world.series()
        assert series is not None
        assert series.count == 2
        assert world.together.put_back == 1  # its write takes a token of its own

    _simulate(scenario, together=True)


def test_no_event_waits_for_others_at_the_end() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(0)
        world.recorder.record_scheduled(numbered(0), "n")
        assert await world.recorder.drain(HOLD_S / 2)
        assert len(world.events) == 1

    _simulate(scenario, together=True)


def test_an_event_that_waits_for_others_when_writing_ends_is_written_when_it_begins_again() -> None:
    async def main() -> None:
        world = World(together=True)
        for name in ("p0", "p1"):
            run = asyncio.ensure_future(world.recorder.run())
            await asyncio.sleep(0.01)
            assert {event.regarding.name for event in world.events} == ({"p0"} if name == "p1" else set())
            world.recorder.record_scheduled(numbered(int(name[1:])), "n")
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            assert world.recorder.queued == 1

    run_virtual(main())


@pytest.mark.parametrize("error", [Unreachable("the connection broke"), TooManyRequests("", status=429)])
def test_events_of_one_write_that_failed_are_repeated(error: APIError) -> None:
    async def scenario(world: World) -> None:
        create, left = world.client.create_event, 3

        async def fail_first(event: Event, slot: EventSlot | None = None) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                raise error
            await create(event)

        world.client.create_event = fail_first  # type: ignore[method-assign]
        await asyncio.sleep(0)
        for number in range(3):
            world.recorder.record_scheduled(numbered(number), "n")
        await asyncio.sleep(60)
        assert world.together.writes == [3]
        assert len(world.events) == 3
        assert world.recorder.queued == 0

    _simulate(scenario, together=True)


def test_memory_of_series_is_bounded() -> None:
    async def scenario(world: World) -> None:
        for i in range(100):
            world.bound(Pod(metadata=ObjectMeta(name=f"p{i}", namespace="ns", uid=str(i))))
        await asyncio.sleep(1)
        assert len(world.recorder._series) == 10
        assert len(world.events) == 100

    simulate(scenario, max_series=10)


def test_attempts_of_thousands_of_pods_are_counted_instead_of_creating_an_event_each() -> None:
    async def scenario(world: World) -> None:
        for _ in range(4):
            for i in range(6_000):
                world.fail(numbered(i))
            await asyncio.sleep(20)
        assert len(world.events) == 6_000

    _simulate(scenario, sends=True)


def test_events_about_cluster_scoped_objects_are_in_default() -> None:
    async def scenario(world: World) -> None:
        node = Regarding("Node", "v1", "", "n1", "u9")
        world.recorder.record(node, type="Normal", reason="R", action="A", note="n")
        await asyncio.sleep(1)
        assert (world.events[0].namespace, world.events[0].regarding.namespace) == ("default", "")

    simulate(scenario)


@pytest.mark.parametrize("letter", ["x", "é", "🙂"])
def test_a_note_is_cut_to_1024_bytes(letter: str) -> None:
    note = cut_note(letter * 2000)
    assert 1020 <= len(note.encode()) <= 1024
    assert note.endswith(letter + " ...")
    assert cut_note("short") == "short"
