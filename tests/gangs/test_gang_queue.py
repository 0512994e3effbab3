"""A gang is one entry of the queue: parked until it can be tried, popped whole, back in order, backoff and events."""

from __future__ import annotations

import pytest

from kscheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD
from kscheduler.framework.status import unresolvable
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.gangs.rules import UPSTREAM_1_36, UPSTREAM_1_37, WHOLE, GangRules
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.queue.pod_info import Pool
from kscheduler.snapshot.pod_info import PodInfo
from tests.gangs.builders import key_of, parked_gangs, pod
from tests.gangs.world import World
from tests.queue.harness import AFFINITY, FIT, Incoming

EITHER = pytest.mark.parametrize("rules", [WHOLE, UPSTREAM_1_36, UPSTREAM_1_37])


# --- parked -----------------------------------------------------------------------------------------------------


@EITHER
def test_a_gang_is_popped_once_its_object_and_its_minimum_are_there_in_any_order(rules: GangRules) -> None:
    pods = [pod("a", "train"), pod("b", "train")]
    for steps in ("oab", "aob", "abo"):
        world = World(rules)
        for step in steps:
            assert world.pop() == []
            assert parked_gangs(world.queue, world.registry) == (1 if world.registry.members else 0)
            if step == "o":
                world.set("train", 2)
            else:
                world.add(pods["ab".index(step)])
        assert parked_gangs(world.queue, world.registry) == 0
        assert world.pop() == ["train: a b"], steps


def test_parked_gangs_are_looked_at_by_no_event() -> None:
    world = World()
    world.set("train", 2)
    world.add(pod("a", "train"))
    assert world.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, world.now) == 0
    assert world.queue.activate(["uid-default-a"], world.now) == 0
    assert world.queue.next_deadline(world.now) is None
    assert world.queue.counts().gated == 1
    assert len(world.queue) == 1
    assert world.queue.get("uid-default-a") is not None


def test_a_gang_is_parked_again_when_a_member_or_its_object_goes() -> None:
    world = World()
    world.ready("train", 2)
    world.delete("train-0")
    assert world.pop() == []
    assert parked_gangs(world.queue, world.registry) == 1
    world.add(pod("c", "train"))
    assert parked_gangs(world.queue, world.registry) == 0
    world.registry.remove_gang(key_of("train"))
    world.queue.reconsider(key_of("train"), world.now)
    assert world.pop() == []
    world.delete("train-1")
    world.delete("c")
    assert len(world.queue) == 0
    assert len(world.registry) == 0


def test_a_raised_minimum_parks_a_gang_and_a_lowered_one_releases_it() -> None:
    world = World()
    world.ready("train", 2)
    world.set("train", 3)
    assert world.pop() == []
    world.set("train", 1)
    assert world.pop() == ["train: train-0 train-1"]


def test_a_gated_member_stays_out_by_our_rules_and_holds_all_back_by_upstreams() -> None:
    for rules, popped in ((WHOLE, ["train: a b"]), (UPSTREAM_1_37, [])):
        world = World(rules)
        world.set("train", 2)
        world.add(pod("a", "train"), pod("c", "train", gate="wait"), pod("b", "train"))
        assert world.pop() == popped
        assert world.queue.counts().gated == (3 if not popped else 1)
        world.update(pod("c", "train"))  # its gates are removed
        if not popped:
            assert world.pop() == ["train: a b c"]


def test_gates_of_needed_members_hold_a_gang_back_by_all_rules() -> None:
    world = World()
    world.set("train", 2)
    world.add(pod("a", "train", gate="wait"), pod("b", "train"))
    assert world.pop() == []
    world.update(pod("a", "train"))
    assert world.pop() == ["train: a b"]


# --- order ------------------------------------------------------------------------------------------------------


def test_pods_and_gangs_are_popped_in_one_order_and_a_gang_comes_alone() -> None:
    world = World()
    world.add(pod("first"))
    world.now += 1
    world.ready("train", 2)
    world.now += 1
    world.add(pod("last"), pod("urgent", priority=5))
    assert world.pop() == ["urgent", "first"]
    assert world.pop() == ["train: train-0 train-1"]
    assert world.pop() == ["last"]


def test_a_gang_has_its_own_priority_or_that_of_its_most_important_member() -> None:
    world = World()
    world.add(pod("middle", priority=5))
    world.set("train", 2)
    world.add(pod("a", "train"), pod("b", "train", priority=9))
    world.set("low", 1, priority=1)
    world.add(pod("c", "low", priority=100))
    assert world.pop() == ["train: b a"]
    assert world.pop() == ["middle"]
    assert world.pop() == ["low: c"]


def test_a_gang_is_no_more_important_than_its_pods_that_still_wait() -> None:
    world = World()
    world.set("train", 2)
    world.add(pod("a", "train", priority=9), pod("b", "train"), pod("c", "train"))
    stand_in = world.pop_gang()
    for qpi in [*stand_in.flying.values()][:2]:
        world.assume(qpi)
    last = stand_in.flying["uid-default-c"]
    world.queue.add_unschedulable_if_not_present(last, world.now, FIT)
    world.queue.return_gang(stand_in, Outcome.PLACED, world.now)
    world.add(pod("middle", priority=5))
    assert world.pop() == ["middle"]
    assert world.pop() == ["train: c"]


def test_a_gang_keeps_its_age_by_our_rules_and_goes_to_the_end_by_upstreams() -> None:
    for rules, expected in ((WHOLE, ["old", "new"]), (UPSTREAM_1_37, ["new", "old"])):
        world = World(rules)
        world.ready("old", 1)
        old = world.pop_gang()
        world.now += 1
        world.ready("new", 1)
        world.reject(old)
        world.now += 20
        world.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, world.now)
        world.queue.flush(world.now)
        assert [world.pop_gang().gang_key.name for _ in range(2)] == expected


def test_members_are_tried_in_kube_schedulers_order() -> None:
    world = World()
    world.set("train", 1)
    world.add(pod("b", "train"), pod("a", "train"))
    world.now += 1
    world.add(pod("c", "train"), pod("d", "train", priority=1))
    assert world.pop() == ["train: d a b c"]


# --- attempts ---------------------------------------------------------------------------------------------------


def test_a_placed_gang_leaves_the_queue() -> None:
    world = World()
    world.ready("train", 2)
    members = world.place(world.pop_gang())
    assert len(world.queue) == 0
    assert world.queue.stand_in(key_of("train")) is None
    for qpi in members:
        world.bind(qpi)
    assert not world.queue.is_in_flight("uid-default-train-0")
    tracked = world.registry.get(key_of("train"))
    assert tracked is not None
    assert tracked.placed == 2


def test_a_rejected_gang_waits_for_an_event_of_the_plugin_that_rejected_it() -> None:
    world = World()
    world.ready("train", 2)
    assert world.reject(world.pop_gang(), AFFINITY) is Pool.UNSCHEDULABLE
    assert world.queue.counts().unschedulable == 2
    assert world.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, None, None, world.now) == 0
    assert world.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, world.now) == 1
    assert world.queue.counts().backoff == 2
    world.now += 2
    world.queue.flush(world.now)
    assert world.pop() == ["train: train-0 train-1"]


def test_an_event_that_came_while_a_gang_was_in_flight_is_not_missed() -> None:
    world = World()
    world.ready("train", 2)
    stand_in = world.pop_gang()
    world.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, world.now)
    assert world.reject(stand_in) is Pool.BACKOFF


def test_a_gang_rejected_by_upstreams_rules_only_backs_off_and_longer_for_many_members() -> None:
    ends = []
    for members in (1, 9):
        world = World(UPSTREAM_1_37)
        world.ready("train", members)
        for _ in range(5):
            stand_in = world.pop_gang()
            assert world.reject(stand_in) is Pool.ERROR_BACKOFF
            ends.append(stand_in.backoff_expiration - world.now)
            world.now += 40
            world.queue.flush(world.now)
    assert ends == [1, 2, 4, 8, 10, 1, 2, 4, 8, 16]


def test_plugins_see_the_member_that_failed_under_the_gangs_name() -> None:
    world = World()
    world.ready("train", 2, priority=3)
    stand_in = world.pop_gang()
    world.reject(stand_in, failed=1)
    face = stand_in.pod_info
    assert face.pod.metadata.name == "train"
    assert face.uid == "gang:scheduling.x-k8s.io/default/train"
    assert face.priority == 3
    assert face.pod.spec.containers is next(
        qpi.pod_info.pod.spec.containers
        for qpi in stand_in.members.values()
        if qpi.pod_info.pod.metadata.name == "train-1"
    )


def test_surplus_that_found_no_node_waits_for_events_by_our_rules_and_is_tried_at_once_by_upstreams() -> None:
    for rules, expected in ((WHOLE, Pool.UNSCHEDULABLE), (UPSTREAM_1_37, Pool.ACTIVE)):
        world = World(rules)
        world.ready("train", 1)
        world.add(pod("more", "train"))
        stand_in = world.pop_gang()
        placed, surplus = sorted(stand_in.flying.values(), key=lambda qpi: qpi.pod_info.pod.metadata.name, reverse=True)
        world.assume(placed)
        world.queue.add_unschedulable_if_not_present(surplus, world.now, FIT)
        pool = world.queue.return_gang(stand_in, Outcome.PLACED, world.now, FIT, failed=surplus)
        world.queue.check()
        assert pool is expected


def test_a_new_member_lets_a_rejected_gang_be_tried_after_its_backoff() -> None:
    world = World()
    world.ready("train", 2)
    world.reject(world.pop_gang())
    world.add(pod("more", "train"))
    assert world.queue.counts().backoff == 3
    assert world.pop() == ["train: train-0 train-1 more"], "nothing else is active: backoff may be cut short"


def test_a_gang_that_met_a_fault_backs_off_and_is_never_popped_early() -> None:
    world = World()
    world.ready("train", 1)
    stand_in = world.pop_gang()
    for qpi in stand_in.flying.values():
        world.queue.requeue_after_error(qpi, world.now)
    assert world.queue.return_gang(stand_in, Outcome.FAULT, world.now) is Pool.ERROR_BACKOFF
    assert world.pop() == []
    assert world.queue.end_error_backoffs(["uid-default-train-0"], world.now) == 1
    assert world.pop() == ["train: train-0"]


def test_members_whose_attempt_a_bug_left_open_are_not_lost() -> None:
    world = World()
    world.ready("train", 2)
    assert world.queue.return_gang(world.pop_gang(), Outcome.FAULT, world.now) is Pool.ERROR_BACKOFF
    world.queue.check()
    assert world.queue.counts().backoff == 2


def test_a_gang_that_is_put_back_is_as_before() -> None:
    world = World()
    world.ready("train", 2)
    world.add(pod("later"))
    stand_in = world.pop_gang()
    world.queue.put_back([stand_in])
    world.queue.check()
    assert stand_in.attempts == 0
    assert all(qpi.attempts == 0 for qpi in stand_in.members.values())
    assert world.pop() == ["train: train-0 train-1"]
    assert world.pop() == ["later"]


def test_a_terminating_member_counts_on_until_it_is_gone() -> None:
    world = World()
    world.ready("train", 2)
    stand_in = world.pop_gang()
    terminating, other = stand_in.flying.values()
    world.queue.done(terminating.uid)  # nothing is decided about it
    world.queue.add_unschedulable_if_not_present(other, world.now, FIT)
    assert world.queue.return_gang(stand_in, Outcome.REJECTED, world.now, FIT) is Pool.UNSCHEDULABLE
    world.queue.check()
    assert world.registry.members[terminating.uid].stage is Stage.KNOWN
    world.delete("train-0")
    assert parked_gangs(world.queue, world.registry) == 1


# --- broken gangs -----------------------------------------------------------------------------------------------


def test_a_member_that_could_not_be_bound_comes_back_at_once_before_others_of_its_priority() -> None:
    world = World()
    world.ready("train", 2)
    first, second = world.place(world.pop_gang())
    world.bind(first)
    world.now -= 0.5
    world.add(pod("older"))
    world.now += 1
    world.add(pod("urgent", priority=1))
    world.fail_to_bind(second)
    assert world.pop() == ["urgent"]
    assert world.pop() == ["train: train-1"]
    assert world.pop() == ["older"]


def test_the_second_failure_of_a_member_backs_off() -> None:
    world = World()
    world.ready("train", 2)
    first, second = world.place(world.pop_gang())
    world.bind(first)
    world.fail_to_bind(second)
    world.place(world.pop_gang())
    world.fail_to_bind(second)
    assert world.queue.counts().backoff == 1
    assert world.pop() == []


def test_a_gang_that_breaks_while_its_surplus_waits_becomes_active() -> None:
    world = World()
    world.ready("train", 2)
    world.add(pod("more", "train"))
    stand_in = world.pop_gang()
    *placed, surplus = stand_in.flying.values()
    for qpi in placed:
        world.assume(qpi)
    world.queue.add_unschedulable_if_not_present(surplus, world.now, FIT)
    assert world.queue.return_gang(stand_in, Outcome.PLACED, world.now, FIT) is Pool.UNSCHEDULABLE
    for qpi in placed:
        world.bind(qpi)
    world.registry.remove_member(placed[0].uid)  # a bound member is deleted
    world.queue.reconsider(key_of("train"), world.now)
    world.queue.check()
    assert world.pop() == [f"train: {surplus.pod_info.pod.metadata.name}"]


# --- changes ----------------------------------------------------------------------------------------------------


def test_a_waiting_pod_may_change_its_gang_or_leave_it() -> None:
    world = World()
    world.ready("train", 2)
    world.ready("serve", 1)
    world.update(pod("train-0", "serve"))
    assert world.pop() == ["serve: serve-0 train-0"]
    assert parked_gangs(world.queue, world.registry) == 1
    world.update(pod("train-1"))
    assert parked_gangs(world.queue, world.registry) == 0
    assert world.pop() == ["train-1"]


def test_an_ordinary_pod_may_join_a_gang_while_it_waits() -> None:
    world = World()
    world.ready("train", 1)
    world.add(pod("a"), pod("b", gate="wait"))
    world.update(pod("a", "train"))
    world.update(pod("b", "train"))
    assert world.pop() == ["train: a b train-0"]


def test_a_pod_that_changes_its_gang_in_flight_returns_to_the_new_one() -> None:
    world = World()
    world.ready("train", 2)
    world.ready("serve", 1)
    stand_in = world.pop_gang()
    world.update(pod("train-0", "serve"))
    world.update(pod("train-1"))
    world.reject(stand_in)
    assert world.queue.stand_in(key_of("train")) is None
    assert world.pop() == ["serve: train-0 serve-0"]
    ordinary = world.queue.get("uid-default-train-1")
    assert ordinary is not None
    assert ordinary.pool is Pool.UNSCHEDULABLE


def test_pods_deleted_in_flight_do_not_come_back() -> None:
    world = World()
    world.ready("train", 2)
    stand_in = world.pop_gang()
    world.delete("train-0")
    assert world.reject(stand_in) is Pool.PARKED
    world.delete("train-1")
    assert len(world.queue) == 0

    other = World()
    other.ready("train", 2)
    stand_in = other.pop_gang()
    other.delete("train-0")
    other.queue.put_back([stand_in])
    other.queue.check()
    assert parked_gangs(other.queue, other.registry) == 1
    assert other.pop() == []


def test_a_change_of_its_spec_lets_a_rejected_member_be_tried_again() -> None:
    world = World()
    world.ready("train", 1)
    world.reject(world.pop_gang(), AFFINITY)
    world.update(pod("train-0", "train"))
    assert world.queue.counts().unschedulable == 1, "nothing has changed"
    world.update(pod("train-0", "train", priority=4))
    assert world.queue.counts().backoff == 1


def test_members_count_where_their_gang_is() -> None:
    observer = Incoming()
    world = World(observer=observer)
    world.ready("train", 3)
    assert world.queue.counts().active == 3
    assert len(list(world.queue.pending_pods())) == 3
    assert observer.counts["active", "UnscheduledPodAdd"] == 3
    world.reject(world.pop_gang())
    assert observer.counts["unschedulable", "ScheduleAttemptFailure"] == 3
    assert world.queue.rejections() == {("NodeResourcesFit", "default-scheduler"): 3}


# --- while room is made for it ----------------------------------------------------------------------------------


def test_a_rejected_gang_that_is_gated_waits_with_all_its_members_for_an_event_that_may_help_one() -> None:
    world = World(UPSTREAM_1_37)
    world.ready("train", 2)
    world.queue.gate = lambda face: unresolvable("busy").of("NodeResourcesFit")
    stand_in = world.queue.stand_in(key_of("train"))
    assert stand_in is not None
    world.reject(world.pop_gang())
    assert (stand_in.pool, stand_in.unschedulable_plugins, world.queue.counts().gated) == (Pool.GATED, FIT, 2)
    world.add(pod("late", "train"))
    assert world.queue.counts().gated == 3
    world.now += 100.0
    world.queue.flush(world.now)
    assert world.pop() == []
    world.queue.gate = lambda face: None
    world.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod("victim").pod, None, world.now)
    world.queue.check()
    assert world.pop() == ["train: train-0 train-1 late"]


def test_a_gated_gang_that_loses_a_member_is_parked_and_tried_when_the_member_is_replaced() -> None:
    world = World(UPSTREAM_1_37)
    world.ready("train", 2)
    world.queue.gate = lambda face: unresolvable("busy").of("NodeResourcesFit")
    world.reject(world.pop_gang())
    world.delete("train-0")
    assert parked_gangs(world.queue, world.registry) == 1
    world.queue.gate = lambda face: None
    world.add(pod("again", "train"))
    world.now += 100.0
    world.queue.flush(world.now)
    assert world.pop() == ["train: train-1 again"]


def test_a_gang_for_which_others_are_still_to_leave_is_not_tried_for_each_that_does() -> None:
    world = World(WHOLE)
    world.ready("train", 2)
    world.reject(world.pop_gang())
    world.queue.waits_for_others = lambda face: True
    world.now += 100.0
    world.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod("victim").pod, None, world.now)
    world.queue.check()
    assert world.pop() == []
    world.queue.move_all_to_active_or_backoff(NODE_ADD, None, None, world.now)
    assert world.pop() == ["train: train-0 train-1"], "other room is no matter of those that leave"


def test_a_gang_is_tried_when_the_last_one_has_left() -> None:
    world = World(WHOLE)
    world.ready("train", 2)
    world.reject(world.pop_gang())
    leaving = [2]

    def waits(face: PodInfo) -> bool:
        leaving[0] -= 1
        return leaving[0] > 0

    world.queue.waits_for_others = waits
    world.now += 100.0
    for popped in ([], ["train: train-0 train-1"]):
        world.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod("victim").pod, None, world.now)
        assert world.pop() == popped
