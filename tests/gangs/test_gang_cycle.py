"""A gang is bound whole or not at all, beside pods that belong to none; faults cost attempts, and never half a gang."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import Pod
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.errors import Conflict, Forbidden
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ASSIGNED_POD_DELETE
from kscheduler.framework.status import Status, unschedulable
from kscheduler.gangs.stand_in import StandIn
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod
from tests.gangs.bench import GangBench, member, members
from tests.gangs.builders import key_of, parked_gangs


def test_a_gang_that_fits_is_bound_whole() -> None:
    bench = GangBench()
    bench.set_gang("train", 4)
    bench.add(*members(4))
    assert bench.run() == ["train-0", "train-1", "train-2", "train-3"]
    assert bench.cache.sizes()["assumed_pods"] == 4
    for name in ("train-0", "train-1", "train-2", "train-3"):
        bench.finish(name)
    assert len(bench.queue) == 0
    assert {record.reason for record in bench.events.recorded} == {"Scheduled"}


def test_of_a_gang_that_does_not_fit_nothing_is_held_and_each_pod_says_why() -> None:
    bench = GangBench()
    bench.set_gang("train", 5)
    bench.add(*members(5))
    assert bench.run() == []
    assert bench.cache.sizes()["assumed_pods"] == 0
    notes = {record.pod: record.note for record in bench.events.recorded}
    assert notes["default/train-4"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert notes["default/train-0"] == (
        "gang default/train needs nodes for 5 pods at once, and 4 would have one: "
        "pod train-4: 0/2 nodes are available: 2 Insufficient cpu."
    )
    assert bench.queue.counts().unschedulable == 5
    assert len(bench.conditions.patched) == 5


def test_two_gangs_that_do_not_fit_together_do_not_hold_half_each() -> None:
    bench = GangBench()
    bench.set_gang("train", 3)
    bench.set_gang("serve", 3)
    first, second = members(3, "train"), members(3, "serve")
    bench.add(*(each for pair in zip(first, second, strict=True) for each in pair))
    assert bench.run() == ["train-0", "train-1", "train-2"]
    assert bench.queue.counts().unschedulable == 3


def test_a_rejected_gang_is_tried_again_when_room_is_released() -> None:
    bench = GangBench()
    bench.add(make_pod("other").req(cpu=4))
    assert bench.run() == ["other"]
    bench.set_gang("train", 4)
    bench.add(*members(4))
    assert bench.run() == []
    bench.cache.forget("uid-default-other")
    pod: Pod = bench.watched["default/other"]
    bench.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None, bench.clock.now())
    bench.clock.advance(5)
    bench.queue.flush(bench.clock.now())
    assert len(bench.run()) == 4


def test_surplus_without_a_node_waits_and_pods_of_no_gang_go_on() -> None:
    bench = GangBench()
    bench.set_gang("train", 2)
    bench.add(*members(5), make_pod("small").req(cpu="1m"))
    assert bench.run() == ["train-0", "train-1", "train-2", "train-3"]
    assert bench.queue.counts().unschedulable == 2, "no CPU is left for the other pod"
    stand_in = bench.gangs.stand_in(key_of("train"))
    assert isinstance(stand_in, StandIn)
    assert not stand_in.is_first


def test_a_gang_of_which_a_pod_terminates_is_not_bound_without_it() -> None:
    bench = GangBench()
    bench.set_gang("train", 2)
    bench.add(member("train-0"), member("train-1").terminating())
    assert bench.run() == []
    notes = {record.pod: record.note for record in bench.events.recorded}
    assert notes["default/train-0"] == (
        "gang default/train needs nodes for 2 pods at once, and 1 can be tried: others are terminating"
    )
    bench.queue.delete("uid-default-train-1")
    assert parked_gangs(bench.gangs, bench.registry) == 1


def test_a_permit_plugin_that_rejects_one_member_lets_none_be_bound() -> None:
    bench = GangBench()
    bench.set_gang("train", 2)

    class Refusing:
        name = "Refusing"

        def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
            return (unschedulable("no licence") if pod.pod.metadata.name == "train-1" else None), 0.0

    bench.framework._permit = [Refusing()]
    bench.framework._may_only_bind = False
    bench.add(*members(2))
    assert bench.run() == []
    assert bench.cache.sizes()["assumed_pods"] == 0
    notes = {record.pod: record.note for record in bench.events.recorded}
    assert notes["default/train-1"] == "no licence"
    assert notes["default/train-0"] == (
        "gang default/train needs nodes for 2 pods at once, and Reserve and Permit plugins allow 1"
    )


@pytest.mark.parametrize("fault", [Conflict("changed"), Forbidden("denied")])
def test_a_member_that_is_not_bound_is_placed_again_at_once(fault: Conflict | Forbidden) -> None:
    bench = GangBench()
    bench.set_gang("train", 2)
    bench.add(*members(2))
    assert bench.run() == ["train-0", "train-1"]
    bench.finish("train-0")
    bench.finish("train-1", fault)
    assert bench.run() == ["train-1"]
    bench.finish("train-1")
    tracked = bench.registry.get(key_of("train"))
    assert tracked is not None
    assert tracked.placed == 2


def test_a_fault_before_the_bindings_begin_leaves_nothing_held(caplog: pytest.LogCaptureFixture) -> None:
    bench = GangBench()
    bench.set_gang("train", 2)
    bench.add(*members(2))
    hold = bench.one.hold_reserved

    def fail_later(cycle: BindingCycle) -> BindingCycle | None:
        if cycle.pod.pod.metadata.name == "train-1":
            raise ZeroDivisionError
        return hold(cycle)

    bench.one.hold_reserved = fail_later  # type: ignore[method-assign]
    assert bench.run() == []
    assert bench.cache.sizes()["assumed_pods"] == 0
    assert bench.queue.counts().backoff == 2
    assert "a gang could not be decided" in caplog.text


def test_a_binding_that_cannot_begin_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = GangBench()
    bench.set_gang("train", 2)
    bench.add(*members(2))
    cycle_of = bench.batch.gangs
    begin, faults = cycle_of._dispatch, ["train-1"]

    def fail_once(cycle: BindingCycle) -> None:
        if cycle.pod.pod.metadata.name in faults:
            faults.clear()
            raise ZeroDivisionError
        begin(cycle)

    cycle_of._dispatch = fail_once
    assert bench.run() == ["train-0", "train-1"]
    assert "could not begin" in caplog.text


def test_a_plan_that_raises_costs_the_gang_an_attempt_and_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = GangBench()
    bench.set_gang("train", 2)
    bench.add(*members(2), make_pod("other"))
    planner = bench.batch.gangs.planner
    place_all = planner._place_all

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    planner._place_all = fail  # type: ignore[method-assign, assignment]
    assert bench.run() == ["other"]
    assert "a gang could not be decided" in caplog.text
    assert bench.queue.counts().backoff == 2
    planner._place_all = place_all  # type: ignore[method-assign]
    bench.clock.advance(5)
    bench.queue.flush(bench.clock.now())
    assert bench.run() == ["train-0", "train-1"]
