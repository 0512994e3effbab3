"""Which of the Events that wait goes next, and which is dropped. What the recorder does is in test_recorder.py."""

from __future__ import annotations

from collections import Counter

from kscheduler.client.event_queue import EventQueue, Worth


class Item:
    def __init__(self, worth: Worth, uid: str = "") -> None:
        self.worth = worth
        self.uid = uid
        self.is_queued = False


def test_every_tenth_event_is_a_failure_and_every_hundredth_a_superseded_one() -> None:
    queue: EventQueue[Item] = EventQueue(1_000)
    for number in range(40):
        queue.push(Item(Worth.FAILURE, f"p{number}"))
    for number in range(3):  # pods that are bound after all
        queue.push(Item(Worth.OUTCOME, f"p{number}"))
    for _ in range(300):
        queue.push(Item(Worth.OUTCOME))
    found = [item.worth for _ in range(200) if (item := queue.pop()) is not None]
    assert [place for place, worth in enumerate(found, 1) if worth is Worth.SUPERSEDED] == [100, 200]
    failures = [place for place, worth in enumerate(found, 1) if worth is Worth.FAILURE]
    assert failures == [place for place in range(10, 200, 10) if place != 100]
    assert Counter(found)[Worth.OUTCOME] == 200 - 2 - 18


def test_failures_of_nothing_that_has_a_uid_supersede_none() -> None:
    queue: EventQueue[Item] = EventQueue(1_000)
    failures = [Item(Worth.FAILURE) for _ in range(3)]
    for failure in failures:
        queue.push(failure)
    queue.push(Item(Worth.OUTCOME))
    assert queue.waiting(Worth.FAILURE) == 3
    assert [queue.pop() for _ in range(4)][1:] == failures


def test_whose_turn_it_is_leaves_it_to_others_if_none_waits() -> None:
    queue: EventQueue[Item] = EventQueue(1_000)
    for _ in range(150):
        queue.push(Item(Worth.OUTCOME))
    taken = [queue.pop() for _ in range(150)]
    assert None not in taken
    assert queue.pop() is None
    assert not len(queue)


def test_a_full_queue_drops_the_oldest_of_the_least_important_events_and_a_new_one_if_all_others_are_more_so() -> None:
    queue: EventQueue[Item] = EventQueue(2)
    first, second, third = (Item(Worth.OUTCOME) for _ in range(3))
    failure = Item(Worth.FAILURE, "p")
    assert [queue.push(item) for item in (first, second)] == [None, None]
    assert queue.push(failure) is failure
    assert queue.push(third) is first
    assert [queue.pop(), queue.pop(), queue.pop()] == [second, third, None]
