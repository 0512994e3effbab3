"""A gang that stays broken for longer than its timeout is reported once, while pods of it wait."""

from __future__ import annotations

import asyncio

from kscheduler.clock import Clock
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.mending import PAUSE_S, Mending
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import WHOLE
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.gangs.builders import DOORS, gang, key_of, pod
from tests.support.clocks import ManualClock


class Watched:
    """A gang of two of which one pod is bound and one waits; reports are kept."""

    def __init__(self, clock: Clock | None = None, **fields: float) -> None:
        self.manual = ManualClock()
        self.clock = clock or self.manual
        self.registry = Registry(DOORS, WHOLE)
        self.registry.set_gang(gang("train", 2, **fields))
        self.registry.set_member(pod("a", "train", node="n1").pod, Stage.BOUND)
        self.registry.set_member(pod("b", "train").pod, Stage.QUEUED)
        self.waiting = True
        self.may_report = True
        self.reported: list[tuple[str, float]] = []
        self.mending = Mending(self.registry, waits=self.waits, report=self.report, timeout_s=60.0, clock=self.clock)
        self.mending.look(key_of("train"))

    def waits(self, key: GangKey) -> bool:
        return self.waiting

    def report(self, tracked: TrackedGang, seconds: float) -> bool:
        if self.may_report:
            self.reported.append((str(tracked.key), seconds))
        return self.may_report

    def move(self, stage: Stage) -> None:
        """Let the second pod be at another stage."""
        self.registry.move("uid-default-b", stage)
        self.mending.look(key_of("train"))

    def due_after(self, seconds: float) -> float | None:
        """Let time pass, and return in how many seconds it wants to be asked again."""
        self.manual.advance(seconds)
        until = self.mending.due(self.clock.now())
        return None if until is None else until - self.clock.now()


def test_it_is_reported_once_after_the_configured_time() -> None:
    watched = Watched()
    assert watched.due_after(0) == 60
    assert watched.due_after(59) == 1
    assert watched.reported == []
    assert watched.due_after(1) is None
    assert watched.due_after(500) is None
    assert watched.reported == [("default/train", 60.0)]


def test_its_own_timeout_comes_first() -> None:
    watched = Watched(timeout_s=5.0)
    assert watched.due_after(5) is None
    assert watched.reported == [("default/train", 5.0)]


def test_nothing_is_reported_while_no_pod_waits_or_another_replica_leads() -> None:
    watched = Watched()
    watched.waiting = False
    assert watched.due_after(100) == PAUSE_S
    watched.waiting, watched.may_report = True, False
    assert watched.due_after(PAUSE_S) == PAUSE_S
    assert watched.reported == []
    watched.may_report = True
    assert watched.due_after(PAUSE_S) is None
    assert len(watched.reported) == 1


def test_a_mended_gang_that_breaks_again_is_reported_again() -> None:
    watched = Watched()
    watched.due_after(60)
    watched.move(Stage.BOUND)
    assert watched.mending.broken_since == {}
    assert watched.due_after(1000) is None
    watched.move(Stage.IN_FLIGHT)
    assert watched.due_after(59) == 1
    watched.due_after(1)
    assert len(watched.reported) == 2


def test_a_binding_under_way_does_not_end_the_time_and_nothing_is_reported_meanwhile() -> None:
    watched = Watched()
    watched.due_after(40)
    watched.move(Stage.ASSUMED)
    assert watched.due_after(20) == PAUSE_S
    assert watched.reported == []
    watched.move(Stage.QUEUED)  # the binding was refused
    assert watched.due_after(PAUSE_S) is None
    assert watched.reported == [("default/train", 60.0 + PAUSE_S)]


def test_a_binding_that_stays_under_way_after_the_timeout_keeps_a_gang_from_being_reported_for_a_moment_only() -> None:
    watched = Watched()
    watched.due_after(40)
    watched.move(Stage.ASSUMED)
    watched.waiting = False
    assert watched.due_after(20) == PAUSE_S
    assert watched.reported == []
    assert watched.due_after(PAUSE_S) is None
    assert watched.reported == [("default/train", 60.0 + PAUSE_S)]
    watched.move(Stage.BOUND)
    assert watched.mending.stale == set()


def test_a_gang_whose_bindings_are_carried_out_one_after_the_other_is_not_reported() -> None:
    watched = Watched()
    watched.registry.set_gang(gang("train", 3))
    watched.registry.set_member(pod("c", "train").pod, Stage.ASSUMED)
    watched.move(Stage.ASSUMED)
    assert watched.due_after(60) == PAUSE_S
    watched.move(Stage.BOUND)
    assert watched.due_after(PAUSE_S) == PAUSE_S
    assert watched.reported == []
    assert watched.due_after(PAUSE_S) is None
    assert len(watched.reported) == 1


def test_a_gang_is_reported_at_once_when_a_binding_fails_after_the_timeout() -> None:
    async def scenario() -> None:
        watched = Watched(clock=LoopClock(asyncio.get_running_loop()))
        task = asyncio.create_task(watched.mending.run())
        await asyncio.sleep(59)
        watched.move(Stage.ASSUMED)
        await asyncio.sleep(2)
        assert watched.reported == []
        watched.move(Stage.QUEUED)
        await asyncio.sleep(0.1)
        assert [seconds for _, seconds in watched.reported] == [61.0]
        task.cancel()

    run_virtual(scenario())


def test_a_timeout_that_is_shortened_counts_at_once() -> None:
    async def scenario() -> None:
        watched = Watched(clock=LoopClock(asyncio.get_running_loop()))
        task = asyncio.create_task(watched.mending.run())
        await asyncio.sleep(10)
        watched.registry.set_gang(gang("train", 2, timeout_s=15.0))
        watched.mending.look(key_of("train"))
        await asyncio.sleep(6)
        assert [seconds for _, seconds in watched.reported] == [15.0]
        task.cancel()

    run_virtual(scenario())


def test_a_gang_none_of_whose_pods_has_a_node_any_more_is_not_broken() -> None:
    watched = Watched()
    watched.move(Stage.ASSUMED)
    watched.registry.move("uid-default-a", Stage.QUEUED)
    watched.move(Stage.QUEUED)
    assert watched.mending.broken_since == {}
