"""Pods of one lane are popped apart from those of another, and lanes come in the order of one queue."""

from __future__ import annotations

from kscheduler.queue.pod_info import PLAIN, Lane, Pool
from kscheduler.queue.scheduling_queue import SchedulingQueue
from tests.queue.harness import FIT, NODE_ALLOCATABLE, lane_by_label, make_pod, make_queue, pool_of


def queue_of(**pods: tuple[str, int]) -> SchedulingQueue:
    """name -> (lane, priority)."""
    queue = make_queue(lane_of=lane_by_label)
    for name, (lane, priority) in pods.items():
        queue.add(make_pod(name, priority=priority, labels=lane), 0.0)
    return queue


def name_of_next(queue: SchedulingQueue, lane: Lane = PLAIN) -> str:
    qpi = queue.pop(0.0, lane)
    return "" if qpi is None else qpi.pod_info.pod.metadata.name


def test_each_lane_gives_its_own_pods_in_order() -> None:
    queue = queue_of(a=("", 1), b=("7", 5), c=("7", 9), d=("", 3))
    assert [name_of_next(queue) for _ in range(3)] == ["d", "a", ""]
    assert [name_of_next(queue, (7,)) for _ in range(3)] == ["c", "b", ""]


def test_lanes_are_listed_in_the_order_in_which_their_pods_would_come() -> None:
    queue = queue_of(plain=("", 100), low=("1", 1), high=("2", 9), middle=("3", 5), late=("2", 0))
    assert queue.lanes() == [(2,), (3,), (1,)]
    name_of_next(queue, (2,))
    assert queue.lanes() == [(3,), (1,), (2,)]
    name_of_next(queue, (2,))
    assert queue.lanes() == [(3,), (1,)]


def test_counts_are_of_all_lanes() -> None:
    queue = queue_of(a=("", 1), b=("1", 1), c=("2", 1))
    assert (queue.counts().active, len(queue)) == (3, 3)
    assert {qpi.uid for qpi in queue.pending_pods()} == {"uid-a", "uid-b", "uid-c"}


def test_a_pod_whose_lane_changes_moves_there() -> None:
    queue = queue_of(a=("1", 1))
    queue.update(None, make_pod("a", priority=1, labels="2"), 0.0)
    assert queue.lanes() == [(2,)]
    assert name_of_next(queue, (1,)) == ""
    assert name_of_next(queue, (2,)) == "a"


def test_a_backoff_is_cut_short_for_its_own_lane_when_nothing_is_active() -> None:
    queue = queue_of(a=("1", 1))
    qpi = queue.pop(0.0, (1,))
    assert qpi is not None
    queue.add_unschedulable_if_not_present(qpi, 0.0, FIT)
    assert queue.lanes() == []
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 0.0)
    assert pool_of(qpi) is Pool.BACKOFF
    assert queue.pop(0.0) is None  # the plain lane has nothing to gain from it
    queue.add(make_pod("plain"), 0.0)
    assert queue.lanes() == []
    assert name_of_next(queue, (1,)) == ""
    assert name_of_next(queue) == "plain"
    assert queue.lanes() == [(1,)]
    assert name_of_next(queue, (1,)) == "a"


def test_a_backoff_that_is_over_makes_the_pod_active_in_its_lane() -> None:
    queue = queue_of(a=("1", 1))
    qpi = queue.pop(0.0, (1,))
    assert qpi is not None
    queue.requeue_after_error(qpi, 0.0)
    assert queue.lanes() == []
    deadline = queue.next_deadline(0.0)
    assert deadline is not None
    queue.flush(deadline)
    assert pool_of(qpi) is Pool.ACTIVE
    assert name_of_next(queue, (1,)) == "a"
