from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Pod, PodSpec, Toleration
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.errors import InternalError
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    NODE_DELETE,
    SHARE_DIVISION,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventResource,
    Registration,
)
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.queue.pod_info import Pool
from kscheduler.queue.scheduling_queue import DEFER_S, MOST_EVENTS, QueueCounts
from kscheduler.snapshot.pod_info import PodInfo
from tests.queue.harness import (
    AFFINITY,
    FIT,
    NODE_ALLOCATABLE,
    NODE_LABEL,
    NODE_TAINT,
    REGISTERED,
    Incoming,
    make_pod,
    make_queue,
    pool_of,
    pop,
    pop_names,
    reject,
)

# --- order --------------------------------------------------------------------------------------------------------


def test_pods_leave_by_priority_then_by_time() -> None:
    queue = make_queue()
    for number, (name, priority) in enumerate([("early", 0), ("late", 0), ("vip", 9), ("poor", -1)]):
        queue.add(make_pod(name, priority=priority), float(number))
    assert pop_names(queue, 10.0) == ["vip", "early", "late", "poor"]


def test_pods_with_equal_keys_leave_in_the_order_they_came() -> None:
    queue = make_queue()
    for name in "zyxwv":
        queue.add(make_pod(name), 1.0)
    assert pop_names(queue, 1.0) == list("zyxwv")


def test_pods_that_are_put_back_stand_before_their_equals_again() -> None:
    queue = make_queue()
    for name in "zyxwv":
        queue.add(make_pod(name), 1.0)
    popped = queue.pop_many(1.0, 4)
    queue.put_back(popped[1:])
    assert [qpi.pod_info.pod.metadata.name for qpi in popped] == list("zyxw")
    assert [qpi.attempts for qpi in popped] == [1, 0, 0, 0]
    queue.put_back(queue.pop_many(1.0, 2))
    assert pop_names(queue, 1.0) == list("yxwv")


def test_what_happened_to_a_pod_in_between_counts_when_it_is_put_back() -> None:
    queue = make_queue()
    for name in "abc":
        queue.add(make_pod(name), 1.0)
    popped = queue.pop_many(1.0, 3)
    queue.delete(popped[0].uid)
    changed = make_pod("b", priority=-1)
    queue.update(None, changed, 1.0)
    queue.put_back(popped)
    assert popped[0].pool is Pool.GONE
    assert popped[1].pod_info is changed
    assert pop_names(queue, 1.0) == ["c", "b"]


def test_putting_back_a_pod_that_was_not_popped_is_a_fault() -> None:
    queue = make_queue()
    queue.add(make_pod("p"), 1.0)
    popped = queue.pop_many(1.0, 1)
    queue.put_back(popped)
    with pytest.raises(InternalError, match=r"pod default/p was put back, but is not in flight"):
        queue.put_back(popped)


def test_an_empty_queue_pops_nothing() -> None:
    assert make_queue().pop(0.0) is None


def test_popping_counts_the_attempt_and_keeps_the_first_times() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 3.0)
    qpi = pop(queue, 5.0)
    assert (qpi.attempts, qpi.timestamp, qpi.initial_attempt_timestamp) == (1, 3.0, 3.0)
    assert pool_of(qpi) is Pool.IN_FLIGHT
    assert queue.is_in_flight(qpi.uid)
    assert queue.get(qpi.uid) is None


def test_adding_a_pod_twice_leaves_one() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 1.0)
    queue.add(make_pod("a"), 2.0)
    queue.check()
    assert pop_names(queue, 2.0) == ["a"]


def test_the_first_pods_of_each_pool_are_listed_in_order_and_stay() -> None:
    queue = make_queue()
    for name, time in (("sooner", 0.0), ("later", 0.5)):
        reject(queue, name, time)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 0.6)
    reject(queue, "waits", 0.7, AFFINITY)
    queue.add(make_pod("gated", gates=["g"]), 0.8)
    for name, priority in (("low", 0), ("high", 5), ("lower", -1)):
        queue.add(make_pod(name, priority=priority), 0.9)

    def listed(most: int) -> list[list[str]]:
        return [[queued.pod_info.pod.metadata.name for queued in pods] for pods in queue.first_pods(most)]

    assert listed(2) == [["high", "low"], ["sooner", "later"], ["waits"], ["gated"]]
    assert listed(100) == [["high", "low", "lower"], ["sooner", "later"], ["waits"], ["gated"]]
    assert queue.rejected_by() == {"NodeAffinity": 1}
    assert pop_names(queue, 0.9)[:3] == ["high", "low", "lower"]


# --- rejection, events and backoff ----------------------------------------------------------------------------------


def test_a_rejected_pod_waits_for_an_event() -> None:
    queue = make_queue()
    reject(queue, "a", 0.0)
    assert queue.counts() == QueueCounts(0, 0, 1, 0)
    assert queue.pop(100.0) is None


def test_an_event_of_its_rejector_sends_a_pod_through_backoff() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 10.3)
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 10.5) == 1
    assert pool_of(qpi) is Pool.BACKOFF
    assert queue.next_deadline(10.5) == 12.0  # 10.3 + 1 falls into second 11, which has to pass


def test_an_event_after_the_backoff_makes_a_pod_active_at_once() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 10.3)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 12.0)
    assert pool_of(qpi) is Pool.ACTIVE


def test_an_event_that_no_rejector_registered_wakes_nobody() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 0.0, AFFINITY)
    for event in (NODE_ALLOCATABLE, ASSIGNED_POD_DELETE, NODE_DELETE):
        assert queue.move_all_to_active_or_backoff(event, None, None, 50.0) == 0
    assert pool_of(qpi) is Pool.UNSCHEDULABLE
    assert queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 50.0) == 1


def test_who_waits_for_nodes_is_woken_by_taints_too() -> None:
    queue = make_queue()
    reject(queue, "a", 0.0, AFFINITY)
    assert queue.move_all_to_active_or_backoff(NODE_TAINT, None, None, 50.0) == 1


def test_a_pod_rejected_by_two_plugins_is_woken_once_by_an_event_of_both() -> None:
    queue = make_queue()
    reject(queue, "a", 0.0, FIT | AFFINITY)
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0) == 1
    queue.check()


def test_a_hint_decides_for_its_pod_and_sees_the_objects() -> None:
    seen: list[tuple[str, object, object]] = []

    def only_b(pod: object, old: object, new: object) -> bool:
        name = pod.metadata.name  # type: ignore[attr-defined]
        seen.append((name, old, new))
        return bool(name == "b")

    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ALLOCATABLE, only_b)]})
    reject(queue, "a", 0.0)
    reject(queue, "b", 0.0)
    assert queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, "before", "after", 50.0) == 1
    assert pop_names(queue, 50.0) == ["b"]
    assert seen == [("a", "before", "after"), ("b", "before", "after")]


def test_a_hint_that_fails_queues_the_pod(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> bool:
        raise ValueError("no idea")

    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ALLOCATABLE, broken)]})
    reject(queue, "a", 0.0)
    assert queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 50.0) == 1
    assert "queueing hint failed" in caplog.text


def test_a_pending_plugin_wakes_its_pod_without_backoff() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.add_unschedulable_if_not_present(qpi, 0.0, AFFINITY, pending_plugins=FIT)
    queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 0.1)
    assert pool_of(qpi) is Pool.BACKOFF  # wanted by the plugin that had rejected it: ordinary backoff
    assert pop(queue, 0.1) is qpi
    queue.add_unschedulable_if_not_present(qpi, 0.2, AFFINITY, pending_plugins=FIT)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.3)
    assert pool_of(qpi) is Pool.ACTIVE


def test_a_pending_plugin_is_heard_after_others() -> None:
    queue = make_queue(registered={"NodeAffinity": [NODE_ADD], "NodeResourcesFit": [NODE_ADD]})
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.add_unschedulable_if_not_present(qpi, 0.0, AFFINITY, pending_plugins=FIT)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    assert qpi.pool is Pool.ACTIVE


def test_rejections_lengthen_the_backoff_and_refresh_the_timestamp() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 0.0)
    ends = [qpi.backoff_expiration]
    for now in (100.0, 200.0, 300.0, 400.0):
        queue.move_all_to_active_or_backoff(NODE_ADD, None, None, now)
        assert pop(queue, now) is qpi
        queue.add_unschedulable_if_not_present(qpi, now, FIT)
        ends.append(qpi.backoff_expiration)
        assert qpi.timestamp == now
    assert ends == [1.0, 102.0, 204.0, 308.0, 410.0]
    assert (qpi.attempts, qpi.unschedulable_count, qpi.initial_attempt_timestamp) == (5, 5, 0.0)


def test_no_backoff_at_all_when_its_maximum_is_zero() -> None:
    queue = make_queue(max_backoff_s=0.0)
    qpi = reject(queue, "a", 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.0)
    assert pool_of(qpi) is Pool.ACTIVE
    assert pop(queue, 0.0) is qpi
    assert queue.requeue_after_error(qpi, 0.0) is Pool.ACTIVE


@pytest.mark.parametrize("longest_s", [0.0, -1.0])
def test_pods_that_are_to_stay_for_no_time_are_tried_again_at_the_next_sweep_and_not_before(longest_s: float) -> None:
    queue = make_queue(max_in_unschedulable_s=longest_s)
    qpi = reject(queue, "a", 31.0)
    assert queue.next_deadline(31.5) == 60.0
    assert queue.flush(59.9) == 0
    assert queue.flush(60.0) == 1
    assert pop(queue, 60.0) is qpi
    queue.add_unschedulable_if_not_present(qpi, 60.5, FIT)
    assert queue.next_deadline(60.5) == 90.0


# --- faults ---------------------------------------------------------------------------------------------------------


def test_a_fault_counts_by_itself_and_a_rejection_ends_the_count() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 0.0)
    queue.activate([qpi.uid], 20.0)
    assert pop(queue, 20.0) is qpi
    assert queue.requeue_after_error(qpi, 20.0) is Pool.ERROR_BACKOFF
    assert (qpi.unschedulable_count, qpi.consecutive_errors_count, qpi.backoff_expiration) == (1, 1, 21.0)
    queue.flush(22.0)
    assert pop(queue, 22.0) is qpi
    queue.requeue_after_error(qpi, 22.0)
    assert (qpi.consecutive_errors_count, qpi.backoff_expiration) == (2, 24.0)
    queue.flush(25.0)
    assert pop(queue, 25.0) is qpi
    queue.add_unschedulable_if_not_present(qpi, 25.0, FIT)
    assert (qpi.unschedulable_count, qpi.consecutive_errors_count) == (2, 0)


def test_a_rejection_without_plugins_is_a_fault() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    assert queue.add_unschedulable_if_not_present(pop(queue, 0.0), 0.0, frozenset()) is Pool.ERROR_BACKOFF


def test_returning_a_pod_twice_changes_nothing() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 0.0)
    assert queue.requeue_after_error(qpi, 1.0) is Pool.UNSCHEDULABLE
    assert queue.add_unschedulable_if_not_present(qpi, 1.0, AFFINITY) is Pool.UNSCHEDULABLE
    assert (qpi.unschedulable_count, qpi.consecutive_errors_count, qpi.timestamp) == (1, 0, 0.0)
    queue.check()


# --- popping early --------------------------------------------------------------------------------------------------


def test_when_nothing_is_active_a_rejected_pod_leaves_its_backoff_early() -> None:
    observer = Incoming()
    queue = make_queue(observer=observer)
    qpi = reject(queue, "a", 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    assert pop(queue, 0.2) is qpi
    assert observer.counts["active", "PopFromBackoffQ"] == 1


def test_active_pods_go_before_those_in_backoff() -> None:
    queue = make_queue()
    reject(queue, "a", 0.0, priority=9)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    queue.add(make_pod("b"), 0.2)
    assert pop_names(queue, 0.2) == ["b", "a"]


def test_a_pod_that_hit_a_fault_is_never_popped_early() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    queue.requeue_after_error(pop(queue, 0.0), 0.0)
    assert queue.pop(1.9) is None
    queue.flush(1.9)
    assert queue.pop(1.9) is None
    queue.flush(2.0)
    assert pop_names(queue, 2.0) == ["a"]


def test_within_one_second_backoff_ends_in_queue_order() -> None:
    queue = make_queue()
    for name, now, priority in (("low", 0.1, 1), ("high", 0.2, 5), ("next", 1.1, 9)):
        reject(queue, name, now, priority=priority)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 1.2)
    assert pop_names(queue, 1.2) == ["high", "low", "next"]


def test_events_made_for_the_moment_are_judged_by_what_they_are() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 0.5)
    for _ in range(2 * MOST_EVENTS):
        useless = ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_CONDITION)
        assert queue.move_all_to_active_or_backoff(useless, None, None, 0.6) == 0
    assert queue.move_all_to_active_or_backoff(ClusterEvent(EventResource.NODE, Action.ADD), None, None, 0.7) == 1
    assert pool_of(qpi) is Pool.BACKOFF


# --- time -----------------------------------------------------------------------------------------------------------


def test_backoff_ends_when_its_second_has_passed() -> None:
    observer = Incoming()
    queue = make_queue(observer=observer)
    qpi = reject(queue, "a", 10.3)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 10.4)
    assert queue.flush(11.999) == 0
    assert queue.flush(12.0) == 1
    assert pool_of(qpi) is Pool.ACTIVE
    assert observer.counts["active", "BackoffComplete"] == 1


def test_a_pod_unschedulable_for_five_minutes_is_tried_again_on_the_30_s_grid() -> None:
    observer = Incoming()
    queue = make_queue(observer=observer)
    qpi = reject(queue, "a", 10.0)
    assert queue.next_deadline(11.0) == 330.0
    assert queue.flush(329.9) == 0
    assert queue.flush(330.0) == 1
    assert pool_of(qpi) is Pool.ACTIVE
    assert qpi.was_flushed
    assert observer.counts["active", "UnschedulableTimeout"] == 1


def test_five_minutes_exactly_are_not_yet_too_long() -> None:
    queue = make_queue()
    reject(queue, "a", 30.0)
    assert queue.next_deadline(31.0) == 360.0
    assert queue.flush(330.0) == 0
    assert queue.flush(360.0) == 1


def test_a_late_flush_does_what_was_due() -> None:
    queue = make_queue()
    reject(queue, "a", 0.0)
    assert queue.next_deadline(5000.0) == 5000.0
    assert queue.flush(5000.0) == 1


def test_a_queue_with_nothing_due_has_no_deadline() -> None:
    queue = make_queue()
    assert queue.next_deadline(0.0) is None
    queue.add(make_pod("active"), 0.0)
    queue.add(make_pod("gated", gates=["wait"]), 0.0)
    assert queue.next_deadline(0.0) is None


def test_flushing_at_each_deadline_drains_backoff_without_polling() -> None:
    queue = make_queue()
    pods = []
    for name in "abc":
        queue.add(make_pod(name), 0.0)
        pods.append(pop(queue, 0.0))
    for number, qpi in enumerate(pods):
        queue.requeue_after_error(qpi, 1.5 * number)
    deadlines = []
    now = 3.0
    while (deadline := queue.next_deadline(now)) is not None:
        now = deadline
        assert queue.flush(now) > 0
        deadlines.append(now)
    assert deadlines == [3.0, 5.0]  # seconds 1 and 2 had passed when we began at 3, and second 4 passes at 5
    assert sorted(pop_names(queue, now)) == ["a", "b", "c"]


def test_the_mark_of_a_timeout_lasts_until_the_next_attempt_failed() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 0.0)
    queue.flush(330.0)
    assert pop(queue, 330.0).was_flushed
    queue.add_unschedulable_if_not_present(qpi, 330.0, FIT)
    assert not qpi.was_flushed


# --- in flight ------------------------------------------------------------------------------------------------------


def test_an_event_during_the_attempt_is_not_lost() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    assert queue.add_unschedulable_if_not_present(qpi, 0.2, FIT) is Pool.BACKOFF


def test_an_event_during_the_attempt_must_matter_to_a_rejector() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 0.1)
    assert queue.add_unschedulable_if_not_present(qpi, 0.2, AFFINITY) is Pool.UNSCHEDULABLE


def test_the_room_a_pod_gives_back_itself_does_not_wake_it() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    a, b = pop(queue, 0.0), pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, a.pod_info.pod, None, 0.1)
    assert queue.add_unschedulable_if_not_present(a, 0.2, FIT) is Pool.UNSCHEDULABLE
    assert queue.add_unschedulable_if_not_present(b, 0.2, FIT) is Pool.BACKOFF


def test_an_event_before_the_attempt_is_not_replayed() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    queue.add(make_pod("b"), 0.0)
    pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    b = pop(queue, 0.2)
    assert queue.add_unschedulable_if_not_present(b, 0.3, FIT) is Pool.UNSCHEDULABLE


def test_a_pending_pod_that_missed_its_event_is_active_at_once() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 0.1)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 0.1)
    assert queue.add_unschedulable_if_not_present(qpi, 0.2, AFFINITY, pending_plugins=FIT) is Pool.ACTIVE


def test_events_are_kept_only_while_somebody_is_in_flight() -> None:
    queue = make_queue()
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.0)
    assert queue.in_flight_events() == {"PodPopped": 0}
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    queue.move_all_to_active_or_backoff(NODE_DELETE, None, None, 0.1)  # nobody registered it
    assert queue.in_flight_events() == {"NodeAdd": 1, "PodPopped": 1}
    queue.done(qpi.uid)
    assert queue.in_flight_events() == {"PodPopped": 0}


def test_events_that_all_in_flight_have_seen_are_dropped() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    a = pop(queue, 0.0)
    for _ in range(100):
        queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    pop(queue, 0.2)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.3)
    queue.done(a.uid)
    assert queue.in_flight_events() == {"NodeAdd": 1, "PodPopped": 1}
    queue.check()


def test_events_are_replayed_rightly_after_older_ones_were_dropped() -> None:
    queue = make_queue()
    for name in "abc":
        queue.add(make_pod(name), 0.0)
    a = pop(queue, 0.0)
    for _ in range(10):
        queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 0.1)
    b = pop(queue, 0.2)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 0.3)
    c = pop(queue, 0.4)
    queue.done(a.uid)
    queue.check()
    assert queue.add_unschedulable_if_not_present(c, 0.5, FIT) is Pool.UNSCHEDULABLE
    assert queue.add_unschedulable_if_not_present(b, 0.5, FIT) is Pool.BACKOFF


def test_a_bound_pod_is_gone_and_done_may_be_called_twice() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.done(qpi.uid)
    queue.done(qpi.uid)
    queue.done("uid-unknown")
    assert pool_of(qpi) is Pool.GONE
    assert not queue.is_in_flight(qpi.uid)


def test_a_pod_that_the_watch_shows_bound_is_gone_before_its_attempt_has_ended() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    flying, waiting = pop(queue, 0.0), queue.get("uid-b")
    assert waiting is not None
    for uid in (flying.uid, waiting.uid, "uid-unknown"):
        queue.drop_bound(uid)
    assert (pool_of(flying), pool_of(waiting), len(queue)) == (Pool.GONE, Pool.GONE, 0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    assert queue.in_flight_events() == {"PodPopped": 0}
    queue.done(flying.uid)
    queue.check()


def test_a_pod_deleted_in_flight_does_not_come_back() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.delete(qpi.uid)
    assert queue.requeue_after_error(qpi, 0.1) is Pool.GONE
    assert len(queue) == 0
    assert not queue.is_in_flight(qpi.uid)


def test_a_pod_that_reappears_while_in_flight_comes_back() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.delete(qpi.uid)
    queue.add(make_pod("a"), 0.1)
    assert len(queue) == 0  # it is still being scheduled
    assert queue.requeue_after_error(qpi, 0.2) is Pool.ERROR_BACKOFF


def test_a_pod_updated_in_flight_comes_back_as_updated() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    before = qpi.pod_info
    update = make_pod("a", labels="new")
    queue.update(before.pod, update, 0.1)
    assert qpi.pod_info is before  # the running cycle is not disturbed
    queue.add_unschedulable_if_not_present(qpi, 0.2, FIT)
    assert qpi.pod_info is update


def test_an_update_in_flight_that_helps_is_replayed_to_its_pod_only() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    a, b = pop(queue, 0.0), pop(queue, 0.0)
    queue.update(None, with_toleration(a.pod_info), 0.1)
    plugins = frozenset({"TaintToleration"})
    assert queue.add_unschedulable_if_not_present(a, 0.2, plugins) is Pool.BACKOFF
    assert queue.add_unschedulable_if_not_present(b, 0.2, plugins) is Pool.UNSCHEDULABLE


@pytest.mark.parametrize(("label", "pool"), [("wanted", Pool.BACKOFF), ("other", Pool.UNSCHEDULABLE)])
def test_what_came_in_flight_is_judged_for_the_pod_as_it_has_become(label: str, pool: Pool) -> None:
    def hint(pod: Pod, old: object, new: object) -> bool:
        return (pod.metadata.labels or {})["v"] == "wanted"

    queue = make_queue(registered={"NodeResourcesFit": [Registration(NODE_ADD, hint)]})
    queue.add(make_pod("a", labels="before"), 0.0)
    qpi = pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    queue.update(qpi.pod_info.pod, make_pod("a", labels=label), 0.2)
    assert queue.add_unschedulable_if_not_present(qpi, 0.3, FIT) is pool


def with_toleration(pod_info: PodInfo) -> PodInfo:
    pod = pod_info.pod
    return PodInfo(msgspec.structs.replace(pod, spec=PodSpec(tolerations=[Toleration(operator="Exists")])))


# --- gates ----------------------------------------------------------------------------------------------------------


def test_a_gated_pod_waits_apart_and_has_not_begun() -> None:
    observer = Incoming()
    queue = make_queue(observer=observer)
    queue.add(make_pod("a", gates=["wait"]), 0.0)
    qpi = queue.get("uid-a")
    assert qpi is not None
    assert (qpi.pool, qpi.gated_by, qpi.initial_attempt_timestamp) == (Pool.GATED, "SchedulingGates", None)
    assert queue.counts() == QueueCounts(0, 0, 0, 1)
    assert observer.counts == {("unschedulable", "UnschedulablePodAdd"): 1}


def test_a_plugin_that_fails_at_pre_enqueue_is_logged_once_for_a_pod(caplog: pytest.LogCaptureFixture) -> None:
    fault = Status(Code.ERROR, ("broken",), "Gate")
    queue = make_queue(pre_enqueue=lambda pod: fault)
    old = make_pod("a")
    queue.add(old, 0.0)
    queue.update(old.pod, make_pod("a", labels="b"), 1.0)
    [record] = caplog.records
    assert record.message == "PreEnqueue plugin failed, so the pod is held back"
    assert [record.__dict__[field] for field in ("pod", "plugin", "err")] == ["default/a", "Gate", "broken"]
    assert queue.counts().gated == 1


def test_a_plugin_that_holds_a_pod_back_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    make_queue().add(make_pod("a", gates=["wait"]), 0.0)
    assert not caplog.records


def test_a_gated_pod_becomes_active_when_its_last_gate_is_removed() -> None:
    queue = make_queue()
    old = make_pod("a", gates=["x", "y"])
    queue.add(old, 0.0)
    half = make_pod("a", gates=["x"])
    queue.update(old.pod, half, 1.0)
    assert queue.counts().gated == 1
    queue.update(half.pod, make_pod("a"), 2.0)
    qpi = pop(queue, 3.0)
    assert (qpi.gated_by, qpi.initial_attempt_timestamp, qpi.timestamp) == (None, 2.0, 0.0)


def test_cluster_events_timeouts_and_wildcards_leave_gated_pods_alone_in_1_36() -> None:
    queue = make_queue(release=RELEASE_1_36)
    queue.add(make_pod("a", gates=["wait"]), 0.0)
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 1.0) == 0
    assert queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, None, 1.0) == 0
    assert queue.flush(1000.0) == 0
    assert queue.counts().gated == 1


class Door:
    """A gate that closes and opens, whose plugin registers only that a node's labels change."""

    def __init__(self, release: Release) -> None:
        self.is_closed = True
        self.asked = 0
        self.observer = Incoming()
        self.queue = make_queue(
            pre_enqueue=self._ask, registered={"Door": [NODE_LABEL]}, observer=self.observer, release=release
        )

    def _ask(self, _: PodInfo) -> Status | None:
        self.asked += 1
        return unschedulable("not yet").of("Door") if self.is_closed else None


def test_a_wildcard_event_asks_all_gates_again_in_1_37() -> None:
    door = Door(RELEASE_1_37)
    queue = door.queue
    queue.add(make_pod("a"), 0.0)
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 1.0) == 0
    assert door.asked == 1
    assert queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, None, 1.0) == 0
    assert door.asked == 2
    door.is_closed = False
    assert queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, None, 2.0) == 1
    assert pop_names(queue, 2.0) == ["a"]


@pytest.mark.parametrize(("release", "asked_at"), [(RELEASE_1_36, []), (RELEASE_1_37, [330.0, 630.0, 930.0])])
def test_a_gated_pod_is_asked_for_every_five_minutes_in_1_37(release: Release, asked_at: list[float]) -> None:
    door = Door(release)
    queue = door.queue
    queue.add(make_pod("a"), 10.0)
    found, now = [], 10.0
    while now < 1000.0:
        asked = door.asked
        now += 30.0
        queue.flush(now - 10.0)
        if door.asked > asked:
            found.append(now - 10.0)
    assert found == asked_at
    assert door.observer.counts["unschedulable", "UnschedulableTimeout"] == len(asked_at)
    assert queue.next_deadline(now) == (1230.0 if asked_at else None)


def test_each_gated_pod_is_asked_for_in_its_own_time_in_1_37() -> None:
    door = Door(RELEASE_1_37)
    queue = door.queue
    queue.add(make_pod("a"), 0.0)
    queue.add(make_pod("b"), 100.0)
    queue.flush(330.0)
    assert door.asked == 3
    assert queue.next_deadline(330.0) == 420.0
    queue.flush(420.0)
    assert door.asked == 4
    assert queue.next_deadline(420.0) == 630.0
    queue.delete("uid-a")
    queue.flush(630.0)  # found out only now that nobody is due
    assert door.asked == 4
    assert queue.next_deadline(630.0) == 720.0
    door.is_closed = False
    assert queue.flush(720.0) == 1
    assert queue.next_deadline(720.0) is None


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
def test_a_pod_that_was_gated_for_long_counts_as_flushed_in_1_36(release: Release) -> None:
    door = Door(release)
    queue = door.queue
    queue.add(make_pod("long"), 0.0)
    queue.flush(330.0)
    queue.add(make_pod("short"), 330.0)
    door.is_closed = False
    assert queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 340.0) == 2
    found = {qpi.pod_info.pod.metadata.name: qpi.was_flushed for qpi in queue.pop_many(340.0, 2)}
    assert found == {"long": release is RELEASE_1_36, "short": False}


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
def test_a_timeout_that_ends_at_a_gate_is_forgotten_in_1_37(release: Release) -> None:
    door = Door(release)
    door.is_closed = False
    qpi = reject(door.queue, "a", 0.0, frozenset({"Door"}))
    door.is_closed = True
    assert door.queue.flush(330.0) == 0
    assert pool_of(qpi) is Pool.GATED
    assert qpi.was_flushed is (release is RELEASE_1_36)


def test_a_gate_is_asked_again_when_its_own_event_comes() -> None:
    closed = True

    def gate(_: PodInfo) -> Status | None:
        return unschedulable("not yet").of("Door") if closed else None

    queue = make_queue(pre_enqueue=gate, registered={"Door": [NODE_ADD], **REGISTERED})
    queue.add(make_pod("a"), 0.0)
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 1.0) == 0
    closed = False
    assert queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 2.0) == 0
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 2.0) == 1
    assert pop_names(queue, 2.0) == ["a"]


def test_a_gate_that_asked_for_everything_is_asked_again_at_timeouts() -> None:
    closed = True

    def gate(_: PodInfo) -> Status | None:
        return unschedulable("not yet").of("Door") if closed else None

    everything = ClusterEvent(EventResource.WILDCARD, Action.ALL)
    queue = make_queue(pre_enqueue=gate, registered={"Door": [everything]})
    queue.add(make_pod("a"), 0.0)
    assert queue.next_deadline(0.0) == 330.0
    assert queue.flush(330.0) == 0
    assert queue.next_deadline(330.0) == 360.0
    closed = False
    assert queue.flush(360.0) == 1


def test_a_pod_may_be_gated_on_its_way_back_to_the_queue() -> None:
    closed = False

    def gate(_: PodInfo) -> Status | None:
        return unschedulable("busy").of("Door") if closed else None

    queue = make_queue(pre_enqueue=gate, registered={"Door": [NODE_LABEL], **REGISTERED})
    qpi = reject(queue, "a", 0.0)
    closed = True
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 50.0) == 0
    assert (qpi.pool, qpi.gated_by) == (Pool.GATED, "Door")
    queue.check()
    closed = False
    assert queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 60.0) == 0  # the gate did not ask for it
    assert queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 60.0) == 1


def test_a_gate_without_a_name_is_reported_as_a_bug() -> None:
    queue = make_queue(pre_enqueue=lambda _: unschedulable("anonymous"))
    with pytest.raises(InternalError, match="default/a: expected a status signed by its plugin"):
        queue.add(make_pod("a"), 0.0)


# --- updates and deletion -------------------------------------------------------------------------------------------


def test_an_active_pod_is_updated_in_place() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    update = make_pod("a", labels="new")
    queue.update(None, update, 5.0)
    qpi = pop(queue, 6.0)
    assert (qpi.pod_info, qpi.timestamp) == (update, 0.0)


def test_an_update_that_changes_the_sort_key_moves_the_pod() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    queue.update(None, make_pod("b", priority=5), 1.0)
    queue.check()
    assert pop_names(queue, 1.0) == ["b", "a"]


def test_a_pod_in_backoff_is_updated_in_place() -> None:
    queue = make_queue()
    qpi = reject(queue, "a", 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    update = make_pod("a", priority=7)
    queue.update(None, update, 0.2)
    queue.check()
    assert (qpi.pool, qpi.pod_info, qpi.backoff_expiration) == (Pool.BACKOFF, update, 1.0)


def test_an_unschedulable_pod_is_woken_by_an_update_its_rejector_registered() -> None:
    observer = Incoming()
    queue = make_queue(observer=observer)
    qpi = reject(queue, "a", 0.0, frozenset({"TaintToleration"}))
    queue.update(qpi.pod_info.pod, make_pod("a", labels="new"), 50.0)
    assert pool_of(qpi) is Pool.UNSCHEDULABLE
    queue.update(qpi.pod_info.pod, with_toleration(qpi.pod_info), 51.0)
    assert pool_of(qpi) is Pool.ACTIVE
    assert observer.counts["active", "UnschedulablePodUpdatePodToleration"] == 1


@pytest.mark.parametrize(
    ("release", "label"), [(RELEASE_1_36, "UnschedulablePodUpdate"), (RELEASE_1_37, "UnscheduledPodAdd")]
)
def test_an_update_of_an_unknown_pod_adds_it(release: Release, label: str) -> None:
    observer = Incoming()
    queue = make_queue(observer=observer, release=release)
    queue.update(None, make_pod("a"), 1.0)
    assert observer.counts == {("active", label): 1}
    assert pop_names(queue, 1.0) == ["a"]


@pytest.mark.parametrize(
    ("release", "added", "updated"),
    [
        (RELEASE_1_36, "UnschedulablePodAdd", "UnschedulablePodUpdatePodToleration"),
        (RELEASE_1_37, "UnscheduledPodAdd", "TargetPodUpdatePodToleration"),
    ],
)
def test_the_release_names_the_events_of_waiting_pods(release: Release, added: str, updated: str) -> None:
    observer = Incoming()
    queue = make_queue(observer=observer, release=release)
    qpi = reject(queue, "a", 0.0, frozenset({"TaintToleration"}))
    queue.update(qpi.pod_info.pod, with_toleration(qpi.pod_info), 20.0)
    assert observer.counts == {
        ("active", added): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("active", updated): 1,
    }


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
def test_an_update_in_flight_is_judged_as_the_pods_own(release: Release) -> None:
    queue = make_queue(release=release)
    queue.add(make_pod("a"), 0.0)
    qpi = pop(queue, 0.0)
    queue.update(qpi.pod_info.pod, with_toleration(qpi.pod_info), 0.5)
    expected = "TargetPod" if release is RELEASE_1_37 else "UnschedulablePod"
    assert [each.event.resource for each in queue._in_flight.missed(qpi)] == [expected]
    assert queue.add_unschedulable_if_not_present(qpi, 1.0, frozenset({"TaintToleration"})) is Pool.BACKOFF


@pytest.mark.parametrize(("release", "woken"), [(RELEASE_1_36, 1), (RELEASE_1_37, 0)])
def test_taints_wake_those_that_wait_for_new_nodes_in_1_36(release: Release, woken: int) -> None:
    queue = make_queue(release=release)
    reject(queue, "a", 0.0, AFFINITY)
    assert queue.move_all_to_active_or_backoff(NODE_TAINT, None, None, 10.0) == woken


def test_a_pod_can_be_deleted_from_every_pool() -> None:
    queue = make_queue()
    reject(queue, "unschedulable", 0.0, AFFINITY)
    reject(queue, "backoff", 0.0)
    queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, None, None, 0.0)
    queue.add(make_pod("error"), 0.0)
    queue.requeue_after_error(pop(queue, 0.0), 0.0)
    queue.add(make_pod("active"), 0.0)
    queue.add(make_pod("gated", gates=["x"]), 0.0)
    assert queue.counts() == QueueCounts(1, 2, 1, 1)
    for name in ("unschedulable", "backoff", "error", "active", "gated"):
        queue.delete(f"uid-{name}")
        queue.check()
    queue.delete("uid-unknown")
    assert len(queue) == 0
    assert queue.pop(100.0) is None


# --- activation -----------------------------------------------------------------------------------------------------


def test_activation_ignores_backoff_and_events() -> None:
    observer = Incoming()
    queue = make_queue(observer=observer)
    waiting = reject(queue, "waiting", 0.0, AFFINITY)
    backing_off = reject(queue, "backing-off", 0.0)
    queue.move_all_to_active_or_backoff(NODE_ALLOCATABLE, None, None, 0.1)
    assert pool_of(backing_off) is Pool.BACKOFF
    assert queue.activate([waiting.uid, backing_off.uid, "uid-unknown"], 0.2) == 2
    assert queue.counts().active == 2
    assert observer.counts["active", "ForceActivate"] == 2


def test_activation_out_of_backoff_does_not_ask_the_gates_again() -> None:
    asked: list[str] = []

    def gate(pod_info: PodInfo) -> Status | None:
        asked.append(pod_info.uid)
        return None

    queue = make_queue(pre_enqueue=gate)
    qpi = reject(queue, "a", 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    assert len(asked) == 2  # on its way into the active queue, then into backoff
    queue.activate([qpi.uid], 0.2)
    assert len(asked) == 2


def test_activation_does_not_open_gates() -> None:
    queue = make_queue()
    queue.add(make_pod("a", gates=["x"]), 0.0)
    assert queue.activate(["uid-a"], 1.0) == 0
    queue.check()
    assert queue.counts().gated == 1


def test_rejected_pods_that_are_wanted_are_tried_again_after_their_backoff_and_no_others() -> None:
    queue = make_queue()
    wanted, other = reject(queue, "wanted", 0.0, AFFINITY), reject(queue, "other", 0.0, AFFINITY)
    queue.add(make_pod("flying"), 0.1)
    flying = pop(queue, 0.1)
    uids = {wanted.uid, flying.uid}
    assert queue.try_again(lambda qpi: qpi.uid in uids, SHARE_DIVISION, 0.2) == 1
    assert pool_of(wanted) is Pool.BACKOFF
    assert pool_of(other) is Pool.UNSCHEDULABLE
    assert queue.add_unschedulable_if_not_present(flying, 0.3, AFFINITY) is Pool.BACKOFF


def test_activation_in_flight_brings_the_pod_back_after_its_backoff() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    a, b = pop(queue, 0.0), pop(queue, 0.0)
    queue.activate([a.uid], 0.1)
    assert queue.add_unschedulable_if_not_present(a, 0.2, AFFINITY) is Pool.BACKOFF
    assert queue.add_unschedulable_if_not_present(b, 0.2, AFFINITY) is Pool.UNSCHEDULABLE


def test_a_wildcard_event_with_a_pod_is_for_that_pod() -> None:
    queue = make_queue()
    a = reject(queue, "a", 0.0)
    b = reject(queue, "b", 0.0)
    assert queue.move_all_to_active_or_backoff(FORCE_ACTIVATE, None, b.pod_info.pod, 50.0) == 1
    assert (a.pool, b.pool) == (Pool.UNSCHEDULABLE, Pool.ACTIVE)


# --- looking --------------------------------------------------------------------------------------------------------


def test_incoming_pods_are_reported_with_kube_schedulers_labels() -> None:
    observer = Incoming()
    queue = make_queue(observer=observer)
    reject(queue, "a", 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.1)
    assert observer.counts == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
    }


def test_rejections_are_counted_by_plugin_and_profile() -> None:
    queue = make_queue()
    reject(queue, "a", 0.0, FIT | AFFINITY)
    reject(queue, "b", 0.0, FIT)
    assert queue.rejections() == {
        ("NodeResourcesFit", "default-scheduler"): 2,
        ("NodeAffinity", "default-scheduler"): 1,
    }


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37])
def test_a_pod_that_is_deleted_counts_no_more_in_any_pool(release: Release) -> None:
    queue = make_queue(release=release)
    for name in ("active", "backoff", "unschedulable"):
        reject(queue, name, 0.0, AFFINITY if name == "unschedulable" else FIT)
    queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, None, None, 0.0)
    queue.activate(["uid-active"], 0.0)
    assert [pool_of(qpi).value for qpi in queue.pending_pods()] == ["active", "backoff", "unschedulable"]
    for left, name in ((2, "active"), (1, "backoff"), (0, "unschedulable")):
        queue.delete(f"uid-{name}")
        assert queue.rejections().total() == left


def test_pending_pods_lists_every_pool() -> None:
    queue = make_queue()
    reject(queue, "unschedulable", 0.0)
    queue.add(make_pod("gated", gates=["x"]), 0.0)
    queue.add(make_pod("active"), 0.0)
    assert {qpi.pod_info.pod.metadata.name for qpi in queue.pending_pods()} == {"active", "gated", "unschedulable"}
    qpi = pop(queue, 0.0)
    assert [flying.uid for flying in queue._in_flight] == [qpi.uid]


def test_check_notices_a_pod_in_two_pools() -> None:
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    qpi = queue.get("uid-a")
    assert qpi is not None
    qpi.pool = Pool.BACKOFF
    with pytest.raises(AssertionError):
        queue.check()


def test_debug_mode_checks_after_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.queue.scheduling_queue._DEBUG", True)
    queue = make_queue()
    queue.add(make_pod("a"), 0.0)
    queue._pods["uid-ghost"] = replace(queue._pods["uid-a"])
    with pytest.raises(AssertionError, match="uid-ghost"):
        queue.add(make_pod("b"), 0.0)


# --- put aside --------------------------------------------------------------------------------------------------------


def test_a_pod_that_is_put_aside_comes_back_at_an_event_as_if_it_had_not_been_popped() -> None:
    queue = make_queue()
    queue.add(make_pod("p"), 0.0)
    qpi = pop(queue, 0.0)
    assert queue.defer(qpi, 0.25, "NodeResourcesFit")
    assert (qpi.pool, qpi.attempts, qpi.unschedulable_count) == (Pool.UNSCHEDULABLE, 0, 0)
    assert queue.move_all_to_active_or_backoff(NODE_LABEL, None, None, 0.5) == 0
    assert queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.5) == 1
    assert pool_of(qpi) is Pool.ACTIVE
    assert pop(queue, 0.5).attempts == 1


def test_a_pod_that_is_put_aside_comes_back_after_a_second() -> None:
    queue = make_queue()
    queue.add(make_pod("p"), 0.0)
    qpi = pop(queue, 0.0)
    assert queue.defer(qpi, 0.25, "NodeResourcesFit")
    assert queue.next_deadline(0.25) == 0.25 + DEFER_S
    assert queue.flush(1.0) == 0
    assert queue.flush(0.25 + DEFER_S) == 1
    assert pool_of(qpi) is Pool.ACTIVE
    assert queue.next_deadline(2.0) is None


def test_a_pod_is_put_aside_once() -> None:
    queue = make_queue()
    queue.add(make_pod("p"), 0.0)
    assert queue.defer(pop(queue, 0.0), 0.0, "NodeResourcesFit")
    queue.flush(DEFER_S)
    qpi = pop(queue, DEFER_S)
    assert not queue.defer(qpi, DEFER_S, "NodeResourcesFit")
    assert qpi.pool is Pool.IN_FLIGHT


def test_a_pod_that_was_put_aside_and_then_rejected_waits_for_its_event() -> None:
    queue = make_queue()
    queue.add(make_pod("p"), 0.0)
    assert queue.defer(pop(queue, 0.0), 0.0, "NodeResourcesFit")
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.5)
    qpi = pop(queue, 0.5)
    queue.add_unschedulable_if_not_present(qpi, 0.5, FIT)
    assert queue.flush(DEFER_S) == 0
    assert qpi.pool is Pool.UNSCHEDULABLE


def test_an_event_that_came_while_a_pod_was_in_flight_keeps_it_from_being_put_aside() -> None:
    queue = make_queue()
    queue.add(make_pod("p"), 0.0)
    qpi = pop(queue, 0.0)
    queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0.0)
    assert queue.defer(qpi, 0.0, "NodeResourcesFit")
    assert qpi.pool is Pool.ACTIVE


def test_a_pod_that_is_deleted_while_it_is_put_aside_does_not_come_back() -> None:
    queue = make_queue()
    for name in "ab":
        queue.add(make_pod(name), 0.0)
    popped = queue.pop_many(0.0, 2)
    queue.delete(popped[0].uid)
    for qpi in popped:
        assert queue.defer(qpi, 0.0, "NodeResourcesFit")
    queue.delete(popped[1].uid)
    assert queue.flush(DEFER_S) == 0
    assert [qpi.pool for qpi in popped] == [Pool.GONE, Pool.GONE]


def test_gated_pods_that_wait_for_a_timeout_in_1_36_are_asked_for_each_in_its_own_time() -> None:
    asked: list[str] = []

    def close(pod_info: PodInfo) -> Status:
        asked.append(pod_info.pod.metadata.name)
        return unschedulable("not yet").of("Door")

    every = ClusterEvent(EventResource.WILDCARD, Action.ALL)
    queue = make_queue(pre_enqueue=close, registered={"Door": [every]}, release=RELEASE_1_36)
    queue.add(make_pod("early"), 10.0)
    queue.add(make_pod("late"), 200.0)
    asked.clear()
    assert queue.next_deadline(201.0) == 330.0
    queue.flush(330.0)
    assert asked == ["early"]
