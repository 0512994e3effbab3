"""Fair shares that change let pods reclaim that could not before."""

from __future__ import annotations

from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.quotas.division_changes import DivisionChanges
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.testing import make_node, make_pod

LABEL = "kscheduler.io/queue"


def pod(queue: str, number: int, node: str = "") -> Pod:
    made = make_pod(f"{queue}{number}").uid(f"{queue}{number}").req(cpu="1").label(LABEL, queue)
    return (made.node(node) if node else made).obj()


def lent() -> ShareQueues:
    """Six cpu: `a` uses four, `b` two, and `b` and `c` ask for more."""
    made = ShareQueues()
    for name in "abc":
        made.set(name, QueueObject(ObjectMeta(name=name), QueueSpec(resources={"cpu": QueueResource(0)})))
    made.set_node(make_node("n").capacity(cpu="6").obj())
    for number in range(4):
        made.pod_added(pod("a", number, "n"))
    for number in range(2):
        made.pod_added(pod("b", number, "n"))
        made.pod_waits(pod("c", number))
    made.pod_waits(pod("b", 2))
    return made


def test_what_others_no_longer_ask_for_helps_those_below_their_new_share() -> None:
    queues = lent()
    changes, demand = DivisionChanges(queues), queues.demands.of(pod("b", 2))
    changes.are_helpful()
    assert not changes.are_helpful(), "nothing has changed"
    assert not changes.may_reclaim(demand), "its queue has its share"
    for number in range(2):
        queues.waits_no_more(f"c{number}")
    assert changes.are_helpful()
    assert changes.may_reclaim(demand)


def test_a_demand_that_only_takes_from_others_helps_nobody_else() -> None:
    queues = lent()
    changes = DivisionChanges(queues)
    changes.are_helpful()
    queues.pod_waits(pod("b", 3))  # beyond its share: the division stays
    assert not changes.are_helpful()


def test_nothing_is_reclaimed_where_nobody_is_above_its_share_or_no_queue_takes_the_pod() -> None:
    queues = lent()
    changes = DivisionChanges(queues)
    for number in range(2):
        queues.waits_no_more(f"c{number}")
    queues.pod_removed(pod("a", 3, "n"))
    changes.are_helpful()
    assert not changes.may_reclaim(queues.demands.of(pod("b", 2)))
    assert not changes.may_reclaim(queues.demands.of(pod("unknown", 0)))
