"""By the rules of 1.37 a group is checked, rejected and reported in kube-scheduler's words; see tests/parity too."""

from __future__ import annotations

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.gangs.rules import UPSTREAM_1_37
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.gangs.bench import GangBench

NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu."


def member(number: int, cpu: int = 2) -> PodBuilder:
    return make_pod(f"train-{number}").label(POD_GROUP_LABEL, "train").req(cpu=cpu)


def bench(least: int, *pods: PodBuilder) -> tuple[GangBench, list[str]]:
    """Return a world of two nodes with 4 CPUs each after an attempt to place a group, and the members it placed."""
    world = GangBench(UPSTREAM_1_37)
    world.set_gang("train", least)
    world.add(*pods)
    return world, world.run()


def notes(world: GangBench) -> dict[str, str]:
    return {record.pod.partition("/")[2]: record.note for record in world.events.recorded}


def test_members_beyond_the_minimum_that_have_no_room_say_why_and_are_tried_again() -> None:
    world, placed = bench(3, *(member(number) for number in range(5)))
    assert placed == ["train-0", "train-1", "train-2", "train-3"]
    assert notes(world)["train-4"] == NO_ROOM
    assert world.cache.sizes()["assumed_pods"] == 4


def test_of_a_group_without_room_each_pod_says_what_its_own_search_or_the_group_says() -> None:
    world, placed = bench(5, *(member(number) for number in range(6)))
    assert placed == []
    assert world.cache.sizes()["assumed_pods"] == 0
    out_of_reach = "minCount (5) cannot be satisfied: 4 scheduled, 0 remaining"
    assert notes(world) == {
        **{f"train-{number}": f"pod group is unschedulable, {out_of_reach}, " for number in range(4)},
        "train-4": NO_ROOM,
        "train-5": NO_ROOM,
    }


def test_the_search_ends_once_the_minimum_is_out_of_reach() -> None:
    world, _ = bench(3, member(0, cpu=9), member(1), member(2))
    out_of_reach = "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
    assert notes(world) == {"train-0": NO_ROOM, "train-1": out_of_reach, "train-2": out_of_reach}


def test_a_group_of_which_too_few_can_be_tried_is_rejected_before_any_is() -> None:
    world, placed = bench(2, member(0), member(1).terminating())
    assert placed == []
    assert notes(world) == {
        "train-0": "pod group is unschedulable, minCount (2) cannot be satisfied: 0 scheduled, 1 remaining",
        "train-1": "skip schedule deleting pod: default/train-1",
    }


def test_pods_of_another_priority_than_their_group_are_refused_as_a_fault() -> None:
    world, placed = bench(2, member(0), member(1).priority(5))
    assert placed == []
    text = "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0"
    assert notes(world) == {"train-0": text, "train-1": text}
    assert {condition.reason for _, condition in world.conditions.patched} == {"SchedulerError"}


def test_a_pod_of_another_preemption_policy_is_refused_as_a_fault() -> None:
    world, _ = bench(2, member(0), member(1).preemption_policy("Never"))
    assert notes(world)["train-0"] == (
        "all pods in a single pod group should have the same preemption policy, got Never and PreemptLowerPriority"
    )


def test_a_rejected_group_waits_for_its_backoff_and_not_for_events() -> None:
    world, _ = bench(5, *(member(number) for number in range(5)))
    assert world.queue.counts().backoff == 5
    world.clock.advance(60)
    world.queue.flush(world.clock.now())
    assert world.queue.counts().active == 5
