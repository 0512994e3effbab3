"""By the rules of 1.36 a group is decided and reported in kube-scheduler's words; see tests/parity too."""

from __future__ import annotations

import pytest

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import unschedulable
from kscheduler.gangs.rules import UPSTREAM_1_36
from kscheduler.queue.pod_info import Pool
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.gangs.bench import GangBench
from tests.gangs.builders import key_of

NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu."
TOO_FEW = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def member(number: int, cpu: int = 2) -> PodBuilder:
    return make_pod(f"train-{number}").label(POD_GROUP_LABEL, "train").req(cpu=cpu)


def bench(least: int, *pods: PodBuilder) -> tuple[GangBench, list[str]]:
    """Return a world of two nodes with 4 CPUs each after an attempt to place a group, and the members it placed."""
    world = GangBench(UPSTREAM_1_36)
    world.set_gang("train", least)
    world.add(*pods)
    return world, world.run()


def notes(world: GangBench) -> dict[str, str]:
    return {record.pod.partition("/")[2]: record.note for record in world.events.recorded}


def pool_of(world: GangBench) -> Pool:
    stand_in = world.gangs.stand_in(key_of("train"))
    assert stand_in is not None
    return stand_in.pool


def test_members_beyond_the_minimum_that_have_no_room_say_why() -> None:
    world, placed = bench(3, *(member(number) for number in range(5)))
    assert placed == ["train-0", "train-1", "train-2", "train-3"]
    assert notes(world)["train-4"] == NO_ROOM
    assert pool_of(world) is Pool.UNSCHEDULABLE, "it waits for an event"


def test_of_a_group_without_room_those_that_fit_wait_for_the_minimum() -> None:
    world, placed = bench(5, *(member(number) for number in range(6)))
    assert placed == []
    assert world.cache.sizes()["assumed_pods"] == 0
    assert notes(world) == {
        **{f"train-{number}": TOO_FEW for number in range(4)},
        "train-4": NO_ROOM,
        "train-5": NO_ROOM,
    }
    assert pool_of(world) is Pool.ERROR_BACKOFF, "it is tried again without an event"


def test_all_members_are_tried_even_if_the_minimum_is_out_of_reach() -> None:
    world, _ = bench(3, member(0, cpu=9), member(1), member(2))
    assert notes(world) == {"train-0": NO_ROOM, "train-1": TOO_FEW, "train-2": TOO_FEW}


def test_a_group_of_which_nobody_fits_waits_for_an_event() -> None:
    world, _ = bench(2, member(0, cpu=9), member(1, cpu=9))
    assert pool_of(world) is Pool.UNSCHEDULABLE


def test_a_pod_that_is_terminating_is_left_out() -> None:
    world, _ = bench(2, member(0), member(1).terminating())
    assert notes(world)["train-0"] == TOO_FEW


def test_a_member_that_makes_room_keeps_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GangBench(UPSTREAM_1_36)
    world.set_gang("train", 2)
    search = world.framework.schedule_pod

    def preempt(state: CycleState, pod: PodInfo) -> Decision | Rejection:
        if pod.pod.metadata.name == "train-1":
            return Rejection(unschedulable("makes room"), Diagnosis(2), "n1")
        return search(state, pod)

    monkeypatch.setattr(world.framework, "schedule_pod", preempt)
    world.add(member(0), member(1, cpu=9), member(2))
    assert world.run() == []
    waits = "pod group is unschedulable, pod group is waiting for preemption to complete"
    assert notes(world) == {"train-0": waits, "train-1": "makes room", "train-2": waits}
    assert world.nominations.node_of("uid-default-train-1") == "n1"
    assert world.nominations.node_of("uid-default-train-0") != "", "its room is kept as well"


def test_a_fault_of_one_member_keeps_all_others_from_being_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GangBench(UPSTREAM_1_36)
    world.set_gang("train", 2)
    monkeypatch.setattr(world.batch.gangs.planner, "_lane", None)
    search = world.framework.schedule_pod

    def fail(state: CycleState, pod: PodInfo) -> Decision | Rejection:
        if pod.pod.metadata.name == "train-1":
            raise RuntimeError("broken")
        return search(state, pod)

    monkeypatch.setattr(world.framework, "schedule_pod", fail)
    world.add(member(0), member(1), member(2))
    assert world.run() == []
    assert world.cache.sizes()["assumed_pods"] == 0


def test_pods_of_different_schedulers_are_refused() -> None:
    world, placed = bench(2, member(0), member(1).scheduler_name("another"))
    assert placed == []
    text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "another" and "'
    assert all(note.startswith(text) for note in notes(world).values())
