"""Objects of gangs reach the registry and the queue, whatever they say and whenever they come."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.pod_groups import (
    TOPOLOGY_REQUIRED,
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    CoschedulingPodGroupStatus,
)
from kscheduler.gangs.doors import COSCHEDULING_DOOR
from kscheduler.gangs.gang import Topology
from kscheduler.gangs.group_events import GroupEvents
from kscheduler.gangs.tracked_gang import Lack, TrackedGang
from kscheduler.observability.measurements import Measurements
from tests.gangs.builders import key_of, parked_gangs, pod
from tests.gangs.world import World
from tests.support.clocks import ManualClock


class BadObjects(Measurements):
    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def bad_object(self, resource: str) -> None:
        self.bad.append(resource)


def group(least: int, uid: str = "u1", **status: Any) -> CoschedulingPodGroup:
    return CoschedulingPodGroup(
        ObjectMeta(name="train", namespace="default", uid=uid),
        CoschedulingPodGroupSpec(min_member=least),
        CoschedulingPodGroupStatus(**status),
    )


class Watched:
    def __init__(self) -> None:
        self.world = World()
        self.measure = BadObjects()
        self.woken = 0
        self.events = GroupEvents(
            COSCHEDULING_DOOR,
            self.world.registry,
            self.world.queue,
            self.world.queue.reconsider,
            clock=ManualClock(self.world.now),
            measurements=self.measure,
            wake=self.wake,
        )

    def wake(self) -> None:
        self.woken += 1

    def tracked(self) -> TrackedGang:
        tracked = self.world.registry.get(key_of("train"))
        assert tracked is not None
        return tracked


def test_an_object_wakes_the_pods_that_wait_for_it() -> None:
    watched = Watched()
    watched.world.add(pod("a", "train"))
    watched.events.on_add(group(1))
    assert watched.woken == 1
    assert watched.world.pop() == ["train: a"]


def test_an_object_without_pods_wakes_nobody() -> None:
    watched = Watched()
    watched.events.on_add(group(1))
    assert watched.woken == 0
    assert watched.tracked().lack is Lack.MEMBERS


def test_a_lowered_minimum_releases_a_gang() -> None:
    watched = Watched()
    watched.world.add(pod("a", "train"))
    watched.events.on_add(group(2))
    assert watched.world.pop() == []
    watched.events.on_update(group(2), group(1))
    assert watched.world.pop() == ["train: a"]


def test_a_change_of_the_status_is_no_event() -> None:
    watched = Watched()
    watched.events.on_add(group(1))
    before = watched.tracked().gang
    watched.events.on_update(group(1), group(1, phase="Running"))
    assert watched.tracked().gang is before
    watched.events.on_update(group(1), group(1, uid="u2"))
    after = watched.tracked().gang
    assert after is not None
    assert after.uid == "u2"


def test_what_annotations_ask_for_is_part_of_a_gang() -> None:
    watched = Watched()
    watched.events.on_add(group(1))
    asking = group(1)
    asking = replace(asking, metadata=replace(asking.metadata, annotations={TOPOLOGY_REQUIRED: "rack", "other": "x"}))
    watched.events.on_update(group(1), asking)
    gang = watched.tracked().gang
    assert gang is not None
    assert gang.topology == Topology("rack")


def test_an_invalid_object_parks_its_pods_until_it_is_mended(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.world.add(pod("a", "train"))
    watched.events.on_add(group(-1))
    assert watched.measure.bad == ["podgroups"]
    assert watched.tracked().lack is Lack.FAULT
    assert "expected a number from 0" in watched.tracked().fault
    assert "the object of a gang is invalid" in caplog.text
    assert watched.world.pop() == []
    watched.events.on_update(group(-1), group(1))
    assert watched.world.pop() == ["train: a"]


def test_pods_of_a_deleted_object_are_parked() -> None:
    watched = Watched()
    watched.world.add(pod("a", "train"))
    watched.events.on_add(group(1))
    watched.events.on_delete(group(1))
    assert watched.tracked().lack is Lack.OBJECT
    assert watched.world.pop() == []
    assert parked_gangs(watched.world.queue, watched.world.registry) == 1
