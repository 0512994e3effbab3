"""Active pods of queues with shares leave in turns, and no pod is lost on the way."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.queue.active_queue import ActiveQueue
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.queues_in_turn import QueuesInTurn
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod

LABEL = "kscheduler.io/queue"
NAMES = ("a", "b", "", "unknown", "team")


def share_queues() -> ShareQueues:
    made = ShareQueues()
    for name, parent, deserved in (("team", "", "2"), ("a", "team", "1"), ("b", "team", "1"), ("c", "", "0")):
        spec = QueueSpec(parent, 100, {"cpu": QueueResource(deserved)})
        made.set(name, QueueObject(ObjectMeta(name=name), spec))
    made.set_node(make_node("n").capacity(cpu="8").obj())
    return made


def less_key(qpi: QueuedPodInfo) -> tuple[float, ...]:
    return (-qpi.pod_info.priority, qpi.timestamp)


def active(queues: ShareQueues) -> QueuesInTurn:
    demands = queues.demands
    return QueuesInTurn(less_key, count(1), queues, lambda qpi: demands.of(qpi.pod_info.pod))


def queued(number: int, queue: str = "", priority: int = 0, cpu: str = "1") -> QueuedPodInfo:
    pod = make_pod(f"p{number}").uid(f"p{number}").req(cpu=cpu).priority(priority)
    return QueuedPodInfo(PodInfo((pod.label(LABEL, queue) if queue else pod).obj()), float(number))


def names(popped: list[QueuedPodInfo]) -> list[str]:
    return [qpi.pod_info.pod.metadata.name for qpi in popped]


def test_queues_take_turns_and_within_one_the_order_of_the_profile_applies() -> None:
    queues = share_queues()
    made = active(queues)
    for number, (queue, priority) in enumerate((("a", 0), ("a", 5), ("a", 0), ("b", 0), ("b", 0), ("c", 0))):
        each = queued(number, queue, priority)
        queues.pod_waits(each.pod_info.pod)
        made.push(each)
    expected = ["p1", "p3", "p0", "p4", "p5", "p2"]
    assert names(made.first(9)) == expected
    assert names(made.pop_many(9)) == expected
    assert made.pop() is None


def test_pods_in_no_queue_come_where_the_profiles_order_puts_them() -> None:
    made = active(share_queues())
    for number, (queue, priority) in enumerate((("a", 0), ("", 0), ("unknown", 9), ("b", 0), ("team", 0))):
        made.push(queued(number, queue, priority))
    assert names(made.pop_many(9)) == ["p2", "p0", "p1", "p3", "p4"]


def test_a_pod_that_is_put_back_comes_before_equal_ones_and_one_that_changes_its_queue_moves() -> None:
    made = active(share_queues())
    first, second = queued(1, "a"), queued(1, "a")
    second = replace(second, pod_info=queued(2, "a").pod_info)
    for each in (first, second):
        made.push(each)
    assert made.pop() is first
    made.put_back(first)
    assert made.pop() is first
    second.pod_info = queued(2, "b").pod_info
    assert made.is_misplaced(second)
    made.remove(second)
    made.push(second)
    assert not made.is_misplaced(second)
    made.check()


def test_a_first_pod_that_asks_for_more_than_before_has_its_turn_by_that() -> None:
    queues = share_queues()
    made = active(queues)
    first, other = queued(0, "a"), queued(1, "b")
    for each in (first, other):
        queues.pod_waits(each.pod_info.pod)
        made.push(each)
    assert names(made.first(2)) == ["p0", "p1"]
    made.put_back(made.pop_many(1)[0])  # its first pods are known now
    first.pod_info = queued(0, "a", cpu="2").pod_info
    assert not made.is_misplaced(first)
    made.check()
    assert names(made.pop_many(2)) == ["p1", "p0"], "with it, its queue is beyond what it deserves"


def test_pods_that_call_extenders_are_popped_by_themselves() -> None:
    made = active(share_queues())
    calling = queued(0, "a")
    calling.lane = (1,)
    made.push(calling)
    made.push(queued(1, "a"))
    assert len(made) == 2
    assert names(made.first(5)) == ["p1", "p0"]
    assert made.lanes() == [(1,)]
    assert names(made.pop_many(5)) == ["p1"]
    assert made.pop((1,)) is calling
    assert not made


def test_when_other_queues_take_pods_than_before_no_pod_loses_its_place() -> None:
    queues = share_queues()
    made = active(queues)
    for number, queue in enumerate(("new", "a", "new", "b", "a")):
        each = queued(number, queue)
        queues.pod_waits(each.pod_info.pod)
        made.push(each)
    popped = made.pop()
    assert popped is not None
    made.put_back(popped)
    spec = QueueSpec("", 200, {"cpu": QueueResource("9")})
    queues.set("new", QueueObject(ObjectMeta(name="new"), spec))
    assert names(made.first(9))[:2] == ["p0", "p2"]
    queues.remove("a")
    assert names(made.pop_many(9)) == ["p0", "p1", "p2", "p3", "p4"]


STEPS = st.lists(st.tuples(st.sampled_from(["push", "pop", "many", "remove", "back", "first"]), st.integers(0, 40)))


@given(STEPS)
def test_every_pod_that_comes_leaves_once(steps: list[tuple[str, int]]) -> None:
    made = active(share_queues())
    inside: dict[str, QueuedPodInfo] = {}
    last: list[QueuedPodInfo] = []
    numbers = count()
    for step, value in steps:
        if step == "push":
            number = next(numbers)
            each = queued(number, NAMES[value % 5], value % 3, str(1 + value % 4))
            inside[each.uid] = each
            made.push(each)
            last = []
        elif step in ("pop", "many"):
            foreseen = made.first(1 if step == "pop" else value)
            popped = made.pop_many(1 if step == "pop" else value)
            assert popped == foreseen
            last = popped
            for each in popped:
                del inside[each.uid]
        elif step == "remove" and inside:
            each = inside.pop(list(inside)[value % len(inside)])
            made.remove(each)
            last = []
        elif step == "back":
            for each in reversed(last):
                made.put_back(each)
                inside[each.uid] = each
            again = made.pop_many(len(last))
            assert {each.uid for each in again} == {each.uid for each in last}
            for each in again:
                del inside[each.uid]
            last = []
        made.check()
        assert len(made) == len(inside)
        assert {each.uid for each in made} == set(inside)


@given(st.lists(st.integers(0, 9), min_size=20, max_size=90), st.lists(st.integers(1, 25), min_size=1))
def test_pods_that_ask_for_as_much_leave_together_in_the_order_of_the_turns(come: list[int], sizes: list[int]) -> None:
    made, by_one = active(share_queues()), active(share_queues())
    for number, value in enumerate(come):
        for each in (made, by_one):
            each.push(queued(number, "abc"[value % 3], cpu="2" if value == 9 else "1"))
    numbers, left = count(len(come)), len(come)
    for size in sizes:
        popped = made.pop_many(size)
        made.check()
        assert names(popped) == names(one_by_one(by_one, size))
        left -= len(popped)
        if size % 2:  # others come meanwhile, after or before those that are there
            number = next(numbers)
            for each in (made, by_one):
                each.push(queued(number, "abc"[size % 3], size % 5 // 4))
            left += 1
    assert left == len(made)


def one_by_one(active_queue: QueuesInTurn, most: int) -> list[QueuedPodInfo]:
    """Pop pods as if none was known to ask for as much as the one before it."""
    turn = active_queue._turns.begin(active_queue._jobs, active_queue._look_again())
    try:
        return active_queue._pop_one_by_one(most, turn)
    finally:
        active_queue._turns.end()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9))))
def test_without_queues_the_order_is_that_of_the_plain_queue(stated: list[tuple[int, int]]) -> None:
    plain, made = ActiveQueue(less_key, count(1)), active(ShareQueues())
    for number, (priority, at) in enumerate(stated):
        for each in (plain, made):
            qpi = queued(number, NAMES[at % 5], priority)
            qpi.timestamp = float(at)
            each.push(qpi)
    assert names(made.pop_many(99)) == names(plain.pop_many(99))
