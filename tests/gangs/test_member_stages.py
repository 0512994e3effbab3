"""The cache's pods move the members of gangs through their stages, and what happens to one of them moves its gang."""

from __future__ import annotations

import msgspec

from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.member_stages import MemberStages
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import WHOLE
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.testing.wrappers import make_pod
from tests.gangs.builders import DOORS, gang, key_of, pod

WAITING = pod("a", "train").pod
BOUND = pod("a", "train", node="n1").pod
UID = "uid-default-a"


class Followed:
    """A registry that follows a cache, with the gangs that it was asked to look at again."""

    def __init__(self) -> None:
        self.registry = Registry(DOORS, WHOLE)
        self.registry.set_gang(gang("train", 2))
        self.returning: set[str] = set()
        self.changed: list[GangKey] = []
        self.stages = MemberStages(self.registry, will_return=self.returning.__contains__, changed=self.changed.append)

    def stage(self) -> Stage | None:
        member = self.registry.members.get(UID)
        return None if member is None else member.stage


def test_an_assumed_pod_is_bound_once_the_watch_says_so() -> None:
    followed = Followed()
    followed.registry.set_member(WAITING, Stage.IN_FLIGHT)
    followed.stages.pod_added(WAITING)
    assert followed.stage() is Stage.ASSUMED
    followed.stages.pod_changed(WAITING, BOUND)
    assert followed.stage() is Stage.BOUND
    assert followed.changed == [key_of("train")] * 2


def test_an_assumed_pod_is_bound_though_its_labels_are_the_same_object() -> None:
    followed = Followed()
    followed.stages.pod_added(WAITING)
    bound = msgspec.structs.replace(BOUND, metadata=WAITING.metadata)
    followed.stages.pod_changed(WAITING, bound)
    assert followed.stage() is Stage.BOUND


def test_a_change_of_a_bound_pod_that_keeps_its_labels_does_not_move_its_gang() -> None:
    followed = Followed()
    followed.stages.pod_added(BOUND)
    resized = msgspec.structs.replace(BOUND, spec=make_pod("a").node("n1").priority(1).obj().spec)
    followed.stages.pod_changed(BOUND, resized)
    assert followed.registry.members[UID].pod is resized
    assert followed.changed == [key_of("train")]


def test_a_decision_that_is_given_back_leaves_the_pod_in_flight() -> None:
    followed = Followed()
    followed.registry.set_member(WAITING, Stage.ASSUMED)
    followed.returning.add(UID)
    followed.stages.pod_removed(WAITING)
    assert followed.stage() is Stage.IN_FLIGHT


def test_a_pod_that_was_deleted_while_it_was_assumed_leaves_its_gang() -> None:
    followed = Followed()
    followed.registry.set_member(WAITING, Stage.ASSUMED)
    followed.stages.pod_removed(WAITING)
    assert followed.stage() is None
    assert followed.changed == [key_of("train")]


def test_bound_pods_of_any_scheduler_count_and_leave_when_they_go() -> None:
    followed = Followed()
    followed.stages.pod_added(BOUND)
    tracked = followed.registry.get(key_of("train"))
    assert tracked is not None
    assert tracked.placed == 1
    followed.stages.pod_removed(BOUND)
    assert tracked.placed == 0
    assert followed.stage() is None


def test_a_bound_pod_may_change_its_gang() -> None:
    followed = Followed()
    followed.stages.pod_added(BOUND)
    followed.stages.pod_changed(BOUND, pod("a", "serve", node="n1").pod)
    assert followed.changed[1:] == [key_of("train"), key_of("serve")]
    followed.stages.pod_changed(BOUND, make_pod("a").node("n1").obj())
    assert followed.stage() is None


def test_pods_without_a_gang_change_nothing() -> None:
    followed = Followed()
    ordinary = make_pod("a").node("n1").obj()
    followed.stages.pod_added(ordinary)
    followed.stages.pod_changed(ordinary, ordinary)
    followed.stages.pod_removed(ordinary)
    assert followed.changed == []
    followed.registry.check()
