"""A gang that stays broken for longer than its timeout is reported once, while pods of it wait."""

from __future__ import annotations

from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.mending import PAUSE_S, Mending
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import WHOLE
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from tests.gangs.builders import DOORS, gang, key_of, pod
from tests.support.clocks import ManualClock


class Watched:
    """A gang of two of which one pod is bound and one waits; reports are kept."""

    def __init__(self, **fields: float) -> None:
        self.clock = ManualClock()
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

    def due_after(self, seconds: float) -> float | None:
        """Let time pass, and return in how many seconds it wants to be asked again."""
        self.clock.advance(seconds)
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


def test_nobody_is_told_while_no_pod_waits_or_another_replica_leads() -> None:
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
    watched.registry.move("uid-default-b", Stage.BOUND)
    watched.mending.look(key_of("train"))
    assert watched.mending.broken_since == {}
    assert watched.due_after(1000) is None
    watched.registry.move("uid-default-b", Stage.IN_FLIGHT)
    watched.mending.look(key_of("train"))
    assert watched.due_after(59) == 1
    watched.due_after(1)
    assert len(watched.reported) == 2


def test_a_binding_under_way_does_not_end_the_time_and_nothing_is_reported_meanwhile() -> None:
    watched = Watched()
    watched.due_after(40)
    watched.registry.move("uid-default-b", Stage.ASSUMED)
    watched.mending.look(key_of("train"))
    assert watched.due_after(20) == PAUSE_S
    assert watched.reported == []
    watched.registry.move("uid-default-b", Stage.QUEUED)  # the binding was refused
    watched.mending.look(key_of("train"))
    assert watched.due_after(PAUSE_S) is None
    assert watched.reported == [("default/train", 60.0 + PAUSE_S)]


def test_a_gang_none_of_whose_pods_has_a_node_any_more_is_not_broken() -> None:
    watched = Watched()
    watched.registry.move("uid-default-b", Stage.ASSUMED)
    watched.mending.look(key_of("train"))
    watched.registry.move("uid-default-a", Stage.QUEUED)
    watched.registry.move("uid-default-b", Stage.QUEUED)
    watched.mending.look(key_of("train"))
    assert watched.mending.broken_since == {}
