"""A queue keeps room for a gang within its share, and its younger pods of no higher priority do not count for that."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.gangs.entitlement import Entitlement
from kscheduler.gangs.room_to_come import RoomToCome
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from tests.scenarios.share_queues import LABEL, queue

EARLY, THEN, LATE = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z"


def pod(name: str, created: str, cpu: int = 2, of: str = "a") -> PodBuilder:
    return make_pod(name).label(LABEL, of).req(cpu=cpu).created(created)


def shares(*on_nodes: PodBuilder) -> ShareQueues:
    """Queues `a` and `b` that deserve 4 CPUs each, of 8."""
    queues = ShareQueues()
    for name in "ab":
        queues.set(name, queue(name, deserved=4))
    queues.set_node(make_node("n").capacity(cpu=8).obj())
    queues.pod_waits(pod("waits", EARLY, 8, "b").obj())
    for each in on_nodes:
        queues.pod_added(each.node("n").obj())
    return queues


def entitlement(queues: ShareQueues, *members: PodBuilder, missing: int = 2) -> Entitlement | None:
    waiting = [QueuedPodInfo(PodInfo(each.obj()), 0.0) for each in members]
    return Entitlement.of(queues, waiting, missing, frozenset())


def covers(queues: ShareQueues, *awaited: str) -> bool:
    """Whether queue `a` may use room for two pods once some others have ended; nothing is changed by the answer."""
    before = queues.tree.queues["a"].allocated()
    found = entitlement(queues, pod("g-0", THEN), pod("g-1", THEN))
    assert found is not None
    covered = found.covers(RoomToCome({}, frozenset(awaited), None))
    assert queues.tree.queues["a"].allocated() == before
    return covered


def test_a_queue_may_use_what_it_deserves() -> None:
    assert covers(shares())
    assert covers(shares(pod("other", EARLY, of="b")))


def test_older_pods_of_the_queue_count_and_younger_ones_do_not() -> None:
    assert not covers(shares(pod("old", EARLY)))
    assert covers(shares(pod("young", LATE)))
    assert not covers(shares(pod("old", EARLY), pod("young", LATE)))


def test_younger_pods_of_a_higher_priority_count() -> None:
    assert not covers(shares(pod("urgent", LATE).priority(10)))


def test_pods_that_are_waited_for_do_not_count() -> None:
    queues = shares(pod("old", EARLY))
    assert covers(queues, "uid-default-old")


def test_a_queue_that_may_never_use_so_much_has_no_entitlement() -> None:
    queues = shares()
    assert entitlement(queues, pod("g-0", THEN, 3), pod("g-1", THEN, 3)) is None
    assert entitlement(queues, pod("g-0", THEN, 3), pod("g-1", THEN, 3), missing=1) is not None


def test_a_gang_in_several_queues_or_in_one_that_does_not_exist_has_no_entitlement() -> None:
    queues = shares()
    assert entitlement(queues, pod("g-0", THEN), pod("g-1", THEN, of="b")) is None
    assert entitlement(queues, pod("g-0", THEN, of="c"), pod("g-1", THEN, of="c")) is None


def test_members_above_the_minimum_do_not_move_the_time_from_which_pods_have_overtaken_it() -> None:
    queues = shares(pod("young", "2026-01-01T11:30:00Z"))
    found = entitlement(queues, pod("g-0", THEN), pod("g-1", THEN), pod("g-2", LATE))
    assert found is not None
    assert list(found.overtakers) == ["uid-default-young"]


def test_what_a_queue_may_use_follows_what_others_ask_for() -> None:
    queues = ShareQueues()
    for name in "ab":
        queues.set(name, queue(name, deserved=4))
    queues.set_node(make_node("n").capacity(cpu=8).obj())
    members = pod("g-0", THEN, 3), pod("g-1", THEN, 3)
    for each in members:
        queues.pod_waits(each.obj())
    assert entitlement(queues, *members) is not None
    queues.pod_waits(pod("waits", EARLY, 8, "b").obj())
    assert entitlement(queues, *members) is None


@pytest.mark.parametrize(("missing", "overtakers"), [(1, ["uid-default-young"]), (2, [])])
def test_pods_overtake_a_gang_once_it_has_enough_members_in_whatever_order_they_are_given(
    missing: int, overtakers: list[str]
) -> None:
    queues = shares(pod("young", "2026-01-01T11:30:00Z"))
    found = entitlement(queues, pod("g-0", LATE), pod("g-1", THEN), missing=missing)
    assert found is not None
    assert list(found.overtakers) == overtakers


def test_nobody_overtakes_a_gang_whose_age_is_not_known() -> None:
    found = entitlement(shares(pod("young", LATE)), pod("g-0", ""), pod("g-1", ""))
    assert found is not None
    assert list(found.overtakers) == []


def test_pods_have_overtaken_a_gang_only_if_they_are_no_more_important_than_any_of_its_members() -> None:
    queues = shares(pod("young", LATE).priority(5))
    found = entitlement(queues, pod("g-0", THEN).priority(3), pod("g-1", THEN).priority(9))
    assert found is not None
    assert list(found.overtakers) == []


def test_a_queue_needs_its_share_of_every_resource_that_the_gang_asks_for() -> None:
    queues = ShareQueues()
    both = {"cpu": QueueResource(4, "unlimited", 1), "memory": QueueResource("4Gi", "unlimited", 1)}
    for name in "ab":
        queues.set(name, QueueObject(ObjectMeta(name=name), QueueSpec("", 100, both)))
    queues.set_node(make_node("n").capacity(cpu=8, memory="8Gi").obj())
    queues.pod_waits(make_pod("waits").label(LABEL, "b").req(cpu=8, memory="8Gi").created(EARLY).obj())
    assert entitlement(queues, pod("g-0", THEN).req(cpu=2, memory="2Gi"), pod("g-1", THEN)) is not None
    assert entitlement(queues, pod("g-0", THEN).req(cpu=2, memory="5Gi"), pod("g-1", THEN)) is None
