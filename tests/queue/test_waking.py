"""Events that have more to do than fits into one piece, and how many hints they ask."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kscheduler.api.objects import Pod
from kscheduler.framework.events import (
    NODE_ADD,
    ONE_GROUP,
    ClusterEvent,
    Grouping,
    Registration,
)
from kscheduler.framework.narrowing import Narrowing
from kscheduler.framework.status import Status, unschedulable
from kscheduler.queue import waking
from kscheduler.queue.pod_info import Pool
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo
from tests.queue.harness import (
    AFFINITY,
    FIT,
    NODE_ALLOCATABLE,
    NODE_LABEL,
    Incoming,
    make_pod,
    make_queue,
    pool_of,
    pop,
    pop_names,
    reject,
)


class Asked:
    """A hint that remembers of whom it was asked, and says yes for some labels."""

    def __init__(self, *wanted: str) -> None:
        self.pods: list[str] = []
        self._wanted = wanted

    def __call__(self, pod: Pod, old: object, new: object) -> bool:
        self.pods.append(pod.metadata.name)
        return (pod.metadata.labels or {})["v"] in self._wanted


BY_LABEL = Grouping(lambda pod: (pod.pod.metadata.labels or {})["v"])


def reject_labelled(queue: SchedulingQueue, names: str, label: str, priority: int = 0, now: float = 0.0) -> None:
    for name in names:
        queue.add(make_pod(name, priority=priority, labels=label), now)
        queue.add_unschedulable_if_not_present(pop(queue, now), now, FIT)


def test_a_hint_is_asked_once_for_pods_that_it_cannot_distinguish() -> None:
    hint = Asked("red")
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, hint, BY_LABEL)]})
    reject_labelled(queue, "abc", "red")
    reject_labelled(queue, "de", "blue")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0) == 3
    assert hint.pods == ["a", "d"]
    assert pop_names(queue, 50.0) == ["a", "b", "c"]


def test_a_pod_whose_group_cannot_be_computed_is_asked_about_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    hint = Asked("red")
    broken = Grouping(lambda pod: 1 // 0)
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, hint, broken)]})
    reject_labelled(queue, "ab", "red")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0) == 2
    assert hint.pods == ["a", "b"]
    assert caplog.text.count("a key of the hint index could not be computed") == 1


def test_an_index_leaves_out_groups_that_cannot_be_helped() -> None:
    hint = Asked("red", "blue")
    index = Grouping(BY_LABEL.key, lambda: Narrowing(lambda key: ([[key]],), lambda old, new: [new]))
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, hint, index)]})
    reject_labelled(queue, "ab", "red")
    reject_labelled(queue, "cd", "blue")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, "blue", 50.0) == 2
    assert hint.pods == ["c"]
    queue.check()


def test_an_index_that_fails_hides_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(old: object, new: object) -> list[str]:
        raise ValueError("no idea")

    index = Grouping(BY_LABEL.key, lambda: Narrowing(lambda key: ([[key]],), fail))
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, Asked("red"), index)]})
    reject_labelled(queue, "ab", "red")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0) == 2
    assert "a hint index failed" in caplog.text


INDEXED = Grouping(BY_LABEL.key, lambda: Narrowing(lambda key: ([[key]],), lambda old, new: [new]))


def gating_queue(hint: Asked, closed: set[str], other: Asked | None = None) -> SchedulingQueue:
    """A queue with a plugin that gates the pods named in `closed`, and whose hint has an index by label."""

    def gate(pod: PodInfo) -> Status | None:
        return unschedulable("closed").of("Gate") if pod.pod.metadata.name in closed else None

    registered: dict[str, list[ClusterEvent | Registration]] = {"Gate": [Registration(NODE_ADD, hint, INDEXED)]}
    if other is not None:
        registered["NodeResourcesFit"] = [Registration(NODE_ADD, other, BY_LABEL)]
    return make_queue(registered=dict(registered), pre_enqueue=gate)


def test_an_index_leaves_out_gated_pods_that_cannot_be_helped() -> None:
    hint, closed = Asked("red", "blue"), {"a", "b", "c"}
    queue = gating_queue(hint, closed)
    for name, label in zip("abc", ["red", "blue", "blue"], strict=True):
        queue.add(make_pod(name, labels=label), 0.0)
    closed.remove("b")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, "blue", 50.0) == 1
    assert hint.pods == ["b"]  # which speaks for c, too
    queue.check()
    assert pop_names(queue, 50.0) == ["b"]


def test_a_gated_pod_is_found_by_what_it_has_become() -> None:
    hint, closed = Asked("red"), {"a"}
    queue = gating_queue(hint, closed)
    before = make_pod("a", labels="blue")
    queue.add(before, 0.0)
    queue.update(before.pod, make_pod("a", labels="red"), 0.0)
    queue.check()
    closed.clear()
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, "blue", 50.0) == 0
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, "red", 50.0) == 1


def test_a_gated_pod_that_another_plugin_has_rejected_is_woken_by_either() -> None:
    hint, other, closed = Asked(), Asked("red"), set[str]()
    queue = gating_queue(hint, closed, other)
    reject_labelled(queue, "a", "red")
    closed.add("a")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, "red", 50.0)
    queue.check()
    closed.clear()
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, "blue", 100.0) == 1  # no pod the index knows of
    assert other.pods == ["a", "a"]


def test_an_event_about_a_waiting_pod_itself_says_nothing_about_others() -> None:
    def is_itself(pod: Pod, old: object, new: object) -> bool:
        return isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid

    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, is_itself, ONE_GROUP)]})
    reject_labelled(queue, "abc", "red")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, make_pod("a").pod, 50.0) == 1
    assert pop_names(queue, 50.0) == ["a"]


def test_each_profile_is_asked_by_its_own_plugins() -> None:
    yes, no = Asked("red"), Asked()
    queue = SchedulingQueue(
        lambda qpi: (qpi.timestamp,),
        lambda pod: None,
        registered={
            "default-scheduler": {"NodeResourcesFit": [Registration(NODE_ADD, no)]},
            "second": {"NodeResourcesFit": [Registration(NODE_ADD, yes)]},
        },
    )
    reject_labelled(queue, "a", "red")
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0) == 0
    assert (no.pods, yes.pods) == (["a"], [])


# --- pieces ---------------------------------------------------------------------------------------------------------


def many(queue: SchedulingQueue, number: int, priority: int = 0) -> None:
    for index in range(number):
        reject(queue, f"p{priority}-{index:02}", 0.0, FIT, priority)


def test_a_wake_of_many_goes_on_in_pieces_and_loses_nobody() -> None:
    queue = make_queue(piece_steps=10)
    many(queue, 25)
    assert queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0) == 9  # and one hint
    assert queue.next_deadline(50.0) == 50.0
    queue.check()
    assert [queue.flush(50.0), queue.flush(50.0)] == [10, 6]
    assert queue.counts().active == 25
    assert queue.flush(50.0) == 0


def test_the_most_urgent_wake_first() -> None:
    queue = make_queue(piece_steps=10)
    for priority in (1, 3, 2):
        many(queue, 5, priority)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0)
    assert {qpi.pod_info.priority for qpi in queue.pending_pods() if qpi.pool is Pool.ACTIVE} == {3, 2}


def test_time_bounds_a_piece_too() -> None:
    ticks = iter(range(10_000))
    queue = SchedulingQueue(
        lambda qpi: (qpi.timestamp,),
        lambda pod: None,
        registered={"": {"NodeResourcesFit": [NODE_ALLOCATABLE]}},
        clock=lambda: next(ticks) * waking.PIECE_S,
    )
    many(queue, 30)
    assert 0 < queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0) <= waking.STEPS_A_LOOK
    for _ in range(10):
        queue.flush(50.0)
    assert queue.counts().active == 30


def test_events_line_up_behind_one_that_is_not_done() -> None:
    queue = make_queue(piece_steps=4)
    many(queue, 6)
    late = reject(queue, "late", 0.0, AFFINITY)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0)
    assert queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 50.0) == 0
    assert pool_of(late) is Pool.UNSCHEDULABLE
    queue.flush(50.0)
    queue.flush(50.0)
    assert pool_of(late) is Pool.ACTIVE


def test_a_pod_rejected_after_an_event_is_not_woken_by_it() -> None:
    queue = make_queue(piece_steps=4)
    many(queue, 6)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0)
    new = pop(queue, 50.0)
    queue.add_unschedulable_if_not_present(new, 50.0, FIT)
    while queue.next_deadline(50.0) == 50.0:
        queue.flush(50.0)
    assert new.pool is Pool.UNSCHEDULABLE
    assert queue.counts().active == 5


def test_an_event_on_its_way_counts_for_a_pod_as_it_was_before_it_changed() -> None:
    hint = Asked("red")
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, hint, BY_LABEL)]}, piece_steps=1)
    reject_labelled(queue, "ab", "red")
    reject_labelled(queue, "c", "red")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0)
    queue.update(None, make_pod("c", labels="blue"), 50.0)
    qpi = queue.get("uid-c")
    assert qpi is not None
    assert qpi.pool is Pool.ACTIVE
    queue.check()


def test_a_pod_that_goes_while_it_is_to_be_woken_stays_gone() -> None:
    queue = make_queue(piece_steps=4)
    many(queue, 6)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0)
    queue.delete("uid-p0-05")
    while queue.next_deadline(50.0) == 50.0:
        queue.flush(50.0)
    assert queue.counts() == (5, 0, 0, 0)


def test_timeouts_come_in_pieces_too() -> None:
    queue = make_queue(piece_steps=10)
    many(queue, 25)
    assert queue.flush(330.0) == 10
    assert queue.next_deadline(330.0) == 330.0
    assert [queue.flush(330.0), queue.flush(330.0)] == [10, 5]
    assert all(qpi.was_flushed for qpi in queue.pending_pods())


def test_hints_are_given_up_when_events_come_too_fast(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waking, "MAX_WAKES", 5)
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, Asked())]}, piece_steps=1)
    many(queue, 4)
    other = reject(queue, "other", 0.0, AFFINITY)
    for _ in range(10):
        queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0)
        queue.check()
    while queue.next_deadline(50.0) == 50.0:
        queue.flush(50.0)
    assert queue.counts().active == 4
    assert other.pool is Pool.UNSCHEDULABLE
    assert "events come faster than queueing hints can be asked" in caplog.text


def test_events_that_help_nobody_do_not_queue_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waking, "MAX_WAKES", 5)
    hint = Asked("red")
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, hint, INDEXED)]}, piece_steps=1)
    reject_labelled(queue, "abc", "red")
    for label in ["red", *["blue"] * 10, "red"]:
        queue.move_all_to_active_or_backoff(NODE_ADD, None, label, 50.0)
        queue.check()
    while queue.next_deadline(50.0) == 50.0:
        queue.flush(50.0)
    assert queue.counts().active == 3
    assert hint.pods == ["a"]
    assert not caplog.text


def test_an_event_for_lower_priorities_leaves_higher_ones_alone() -> None:
    queue = make_queue()
    for priority in (1, 2, 3):
        many(queue, 1, priority)
    assert queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0, up_to_priority=2) == 2
    assert pop_names(queue, 50.0) == ["p2-00", "p1-00"]


# --- what is reported -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "answer"), [("red", "Queue"), ("blue", "QueueSkip")])
def test_hints_are_reported_with_their_answer(wanted: str, answer: str) -> None:
    observer = Incoming()
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, Asked(wanted))]}, observer=observer)
    reject_labelled(queue, "a", "red")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0)
    assert observer.hints == {("NodeResourcesFit", "NodeAdd", answer): 1}


def test_every_hint_that_fails_is_reported_and_the_first_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(pod: Pod, old: object, new: object) -> bool:
        raise ValueError("no idea")

    observer = Incoming()
    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, broken)]}, observer=observer)
    many(queue, 20)
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0) == 20
    assert observer.hints == {("NodeResourcesFit", "NodeAdd", "Error"): 20}
    assert caplog.text.count("queueing hint failed") == 1


# --- the clock ------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_back_shortens_no_wait_and_stops_nothing() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 1000.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 1000.0)
    assert pool_of(qpi) is Pool.BACKOFF
    assert queue.flush(10.0) == 0
    queue.add(make_pod("b"), 10.0)
    assert pop(queue, 10.0).key == "default/b"
    other = queue.get("uid-a")
    assert other is not None
    assert queue.next_deadline(10.0) == 1002.0
    assert queue.flush(1002.0) == 1


def test_a_clock_that_jumps_forward_ends_all_waits_that_lie_between() -> None:
    queue = make_queue()
    backing_off = reject(queue, "a", 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.0)
    reject(queue, "b", 0.0)
    queue.flush(1_000_000.0)
    assert backing_off.pool is Pool.ACTIVE
    assert queue.counts().unschedulable == 0


# --- gates ----------------------------------------------------------------------------------------------------------


def test_a_gate_is_asked_again_when_its_event_helps_with_another_rejection() -> None:
    """As with preemption: its gate hears of pods that go, and leaves it to the others whether that helps."""
    is_closed = False

    def gate(_: PodInfo) -> Status | None:
        return unschedulable("busy").of("Door") if is_closed else None

    hint = Asked("red")
    registered: dict[str, Sequence[ClusterEvent | Registration]] = {
        "Door": [Registration(NODE_ADD, Asked())],
        "NodeResourcesFit": [Registration(NODE_ADD, hint)],
    }
    queue = make_queue(pre_enqueue=gate, registered=registered)
    reject_labelled(queue, "a", "red")
    reject_labelled(queue, "b", "blue")
    is_closed = True
    queue.activate(["uid-a", "uid-b"], 50.0)
    assert queue.counts().gated == 2
    is_closed = False
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 60.0) == 1
    assert pop_names(queue, 60.0) == ["a"]
    queue.check()
