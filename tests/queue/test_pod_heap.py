from __future__ import annotations

import random
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.queue.pod_heap import PodHeap
from kscheduler.queue.pod_info import QueuedPodInfo
from tests.queue.harness import make_pod


def make_pods(number: int) -> list[QueuedPodInfo]:
    return [QueuedPodInfo(make_pod(str(index)), float(index)) for index in range(number)]


def test_pods_leave_in_order_of_keys_and_removed_ones_do_not() -> None:
    heap, pods = PodHeap(count(1)), make_pods(500)
    shuffled = random.Random(1).sample(pods, len(pods))
    for qpi in shuffled:
        heap.push(qpi, (qpi.timestamp,))
    for qpi in pods[::3]:
        heap.remove(qpi)
    heap.check()
    left = [qpi for index, qpi in enumerate(pods) if index % 3]
    assert heap.first() is left[0]
    assert [heap.pop() for _ in left] == left
    assert heap.pop() is None
    assert heap.first() is None


def test_a_pod_that_moved_to_another_heap_is_no_longer_in_the_first() -> None:
    tickets = count(1)
    first, second = PodHeap(tickets), PodHeap(tickets)
    [qpi] = make_pods(1)
    first.push(qpi, (1.0,))
    first.remove(qpi)
    second.push(qpi, (1.0,))
    assert first.pop() is None
    assert (len(first), len(second)) == (0, 1)
    first.check()
    second.check()


def test_a_pod_that_came_back_counts_once_with_its_new_key() -> None:
    heap = PodHeap(count(1))
    a, b = make_pods(2)
    heap.push(a, (1.0,))
    heap.push(b, (2.0,))
    heap.remove(a)
    heap.push(a, (3.0,))
    heap.check()
    assert [heap.pop(), heap.pop(), heap.pop()] == [b, a, None]


def test_removed_entries_do_not_pile_up() -> None:
    heap, pods = PodHeap(count(1)), make_pods(3000)
    for qpi in random.Random(1).sample(pods, len(pods)):
        heap.push(qpi, (qpi.timestamp,))
    for qpi in pods[100:]:
        heap.remove(qpi)
    assert len(heap._entries) <= 2 * len(heap) + 64
    heap.check()
    assert [heap.pop() for _ in range(100)] == pods[:100]


def test_pods_are_listed_in_the_order_in_which_they_would_leave() -> None:
    heap, pods = PodHeap(count(1)), make_pods(300)
    for qpi in random.Random(2).sample(pods, len(pods)):
        heap.push(qpi, (qpi.timestamp // 7,))
    for qpi in pods[::5]:
        heap.remove(qpi)
    listed = [entry[-1] for entry in heap.in_order()]
    assert len(listed) == len(heap)
    assert listed == heap.pop_many(300)
    assert list(heap.in_order()) == []


PUSH = st.tuples(st.just("push"), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(PUSH, PUSH, st.tuples(st.sampled_from(["pop", "put back", "remove", "advance"]), st.integers(1, 5))),
    max_size=60,
)


@given(STEPS)
def test_whatever_comes_and_goes_pods_leave_in_the_order_of_keys_and_of_arrival(steps: list[tuple[str, int]]) -> None:
    heap, returns = PodHeap(count(1)), count(-1, -1)
    waiting: list[tuple[float, int, QueuedPodInfo]] = []  # key, ticket, pod
    for number, (what, amount) in enumerate(steps):
        if what == "push":
            [qpi] = make_pods(1)
            qpi.attempts = number
            is_last = heap.push(qpi, (float(amount),))
            waiting.append((float(amount), qpi.ticket, qpi))
            assert not is_last or max(waiting, key=lambda entry: entry[:2])[2] is qpi
        elif what == "remove" and waiting:
            _, _, qpi = waiting.pop(amount % len(waiting))
            heap.remove(qpi)
        elif what == "advance":
            waiting = sorted(waiting, key=lambda entry: entry[:2])[1:]
            assert heap.advance() is (waiting[0][-1] if waiting else None)
        else:
            waiting.sort(key=lambda entry: entry[:2])
            expected, waiting = waiting[:amount], waiting[amount:]
            assert heap.pop_many(amount) == [qpi for _, _, qpi in expected]
            if what == "put back":
                for key, _, qpi in reversed(expected):
                    heap.push(qpi, (key,), next(returns))
                    waiting.append((key, qpi.ticket, qpi))
        heap.check()
        first = min(waiting, key=lambda entry: entry[:2], default=None)
        assert heap.first() is (None if first is None else first[2])
        known = heap.run(amount)
        assert known == [entry[-1] for entry in sorted(waiting, key=lambda entry: entry[:2])[: len(known)]]
