"""A plan decides members as single pods would be decided, each with those before it; undone, it leaves no trace."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Status, error_status, unschedulable
from kscheduler.gangs.planner import Planner
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_node, make_pod
from tests.gangs.planning import SHAPES, nodes_of, state_of, workers
from tests.support.checks import check_cache
from tests.support.lanes import Side

LANES = pytest.mark.parametrize("has_lane", [True, False], ids=["by kernels", "one by one"])


def cluster(nodes: int = 3, cpu: int = 4) -> Side:
    side = Side(first_on_tie=True)
    for i in range(nodes):
        zone = f"z{i % 2}"
        node = make_node(f"n{i}").capacity(cpu=cpu, memory="64Gi", pods=110).label("zone", zone)
        side.cache.set_node(node.label("kubernetes.io/hostname", f"n{i}").obj())
    return side


def planner(side: Side, has_lane: bool = True) -> Planner:
    return Planner(side.cache, side.profiles, side.lane if has_lane else None)


@LANES
def test_a_gang_that_fits_is_placed_and_assumed(has_lane: bool) -> None:
    side = cluster()
    plan = planner(side, has_lane).plan(workers(6), 6)
    assert plan.reaches(6)
    assert len(plan.placed) == 6
    assert not plan.failed
    assert not plan.not_tried
    assert side.cache.sizes()["assumed_pods"] == 6
    check_cache(side.cache)


@LANES
def test_a_gang_that_does_not_fit_says_why_and_leaves_no_trace(has_lane: bool) -> None:
    side = cluster()
    before = state_of(side)
    plan = planner(side, has_lane).plan(workers(8), 8)
    assert not plan.reaches(8)
    (failed,) = plan.failed
    assert failed.queued.pod_info.pod.metadata.name == "w6"
    assert failed.rejection.message == "0/3 nodes are available: 3 Insufficient cpu."
    assert [queued.pod_info.pod.metadata.name for queued in plan.not_tried] == ["w7"]
    plan.placed.undo()
    assert len(plan.placed) == 0
    assert state_of(side) == before
    assert side.cache.sizes()["assumed_pods"] == 0
    check_cache(side.cache)


@LANES
def test_surplus_that_does_not_fit_does_not_keep_the_rest_from_a_node(has_lane: bool) -> None:
    side = cluster()
    members = [*workers(3), *workers(2, make_pod("x").req(cpu=100), "big"), *workers(1, name="z")]
    plan = planner(side, has_lane).plan(members, 3)
    assert plan.reaches(3)
    assert sorted(nodes_of(plan)) == ["w0", "w1", "w2", "z0"]
    assert [failed.queued.pod_info.pod.metadata.name for failed in plan.failed] == ["big0", "big1"]


def test_an_equal_member_of_one_that_failed_is_not_searched_for_again() -> None:
    side = cluster()
    framework = side.profiles["default-scheduler"]
    searched: list[str] = []
    search = framework.schedule_pod

    def count(state: CycleState, pod: PodInfo) -> object:
        searched.append(pod.pod.metadata.name)
        return search(state, pod)

    framework.schedule_pod = count  # type: ignore[method-assign, assignment]
    plan = planner(side).plan(workers(50), 1)
    assert len(plan.placed) == 6
    assert len(plan.failed) == 44
    assert searched == ["w6"]


@LANES
def test_members_see_those_before_them_in_affinity_and_spreading(has_lane: bool) -> None:
    side = cluster(nodes=4)
    together = make_pod("x").label(app="a").req(cpu=1).pod_affinity("zone", {"app": "a"})
    plan = planner(side, has_lane).plan(workers(8, together), 8)
    assert plan.reaches(8)
    assert len({int(name[1:]) % 2 for name in nodes_of(plan).values()}) == 1, "all in one zone"
    plan.placed.undo()
    check_cache(side.cache)
    apart = make_pod("x").label(app="a").req(cpu=1).pod_anti_affinity("kubernetes.io/hostname", {"app": "a"})
    plan = planner(side, has_lane).plan(workers(5, apart), 5)
    assert len(plan.placed) == 4
    assert not plan.reaches(5)
    plan.placed.undo()
    check_cache(side.cache)


class Refusing:
    """A Reserve plugin that rejects, or fails for, the pods with these names."""

    name = "Refusing"

    def __init__(self, status: Status, *names: str) -> None:
        self.status = status
        self.names = names
        self.reserved: list[str] = []

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        name = pod.pod.metadata.name
        if name in self.names:
            return self.status
        self.reserved.append(name)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        name = pod.pod.metadata.name
        if name in self.reserved:
            self.reserved.remove(name)


def with_reserve(side: Side, plugin: Refusing) -> None:
    framework = side.profiles["default-scheduler"]
    framework._reserve, framework._reserve_if = [plugin], [(plugin, None)]
    framework._may_only_bind = False


@LANES
def test_a_member_that_reserve_rejects_is_taken_back_and_the_others_stay(has_lane: bool) -> None:
    side = cluster()
    plugin = Refusing(unschedulable("no disk"), "w1")
    with_reserve(side, plugin)
    plan = planner(side, has_lane).plan(workers(4), 2)
    assert plan.reaches(2)
    assert sorted(nodes_of(plan)) == ["w0", "w2", "w3"]
    assert plan.failed[0].rejection.message == "no disk"
    assert plugin.reserved == ["w0", "w2", "w3"]
    plan.placed.undo()
    assert plugin.reserved == []
    check_cache(side.cache)


@LANES
def test_a_fault_ends_the_plan(has_lane: bool) -> None:
    side = cluster()
    with_reserve(side, Refusing(error_status("no answer"), "w1"))
    plan = planner(side, has_lane).plan(workers(2), 1)
    assert plan.fault is not None
    assert plan.fault.queued.pod_info.pod.metadata.name == "w1"
    assert not plan.reaches(1)
    plan.placed.undo()
    check_cache(side.cache)


def test_a_search_that_raises_leaves_nothing_placed() -> None:
    side = cluster()
    framework = side.profiles["default-scheduler"]
    search = framework.schedule_pod

    def fail_later(state: CycleState, pod: PodInfo) -> object:
        if pod.pod.metadata.name == "w2":
            raise ZeroDivisionError
        return search(state, pod)

    framework.schedule_pod = fail_later  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError):
        planner(side, False).plan(workers(4), 1)
    assert side.cache.sizes()["assumed_pods"] == 0
    check_cache(side.cache)


def test_a_faulty_lane_costs_speed_but_no_decision(caplog: pytest.LogCaptureFixture) -> None:
    side = cluster()

    def fail(pods: Sequence[PodInfo]) -> object:
        raise ZeroDivisionError

    side.lane.place = fail  # type: ignore[method-assign, assignment]
    plan = planner(side).plan(workers(6), 6)
    assert plan.reaches(6)
    assert "the compiled lane failed" in caplog.text
    assert side.lane.is_broken, "batches of other pods do not use it any more, either"
    check_cache(side.cache)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(range(len(SHAPES))), min_size=1, max_size=14), st.integers(1, 14))
def test_kernels_and_plugins_make_equal_plans_and_undo_them(shapes: list[int], missing: int) -> None:
    plans = []
    for has_lane in (True, False):
        side = cluster()
        before = state_of(side)
        members = [each for i, shape in enumerate(shapes) for each in workers(1, SHAPES[shape], f"w{i}-")]
        plan = planner(side, has_lane).plan(members, missing)
        plans.append(
            (
                nodes_of(plan),
                [(failed.queued.uid, failed.rejection.message) for failed in plan.failed],
                [queued.uid for queued in plan.not_tried],
            )
        )
        check_cache(side.cache)
        plan.placed.undo()
        check_cache(side.cache)
        assert state_of(side) == before
    assert plans[0] == plans[1]


def test_as_in_kube_scheduler_nominations_of_members_do_not_count_for_each_other_and_are_there_again_when_undone() -> (
    None
):
    side = cluster(nodes=1)
    nominations = side.handle.nominations
    members = workers(3)
    nominations.nominate(members[2].pod_info, "n0")
    plan = Planner(side.cache, side.profiles, None, asks_again=True, nominations=nominations).plan(members, 2)
    assert nodes_of(plan) == {"w0": "n0", "w1": "n0"}
    plan.placed.undo()
    assert nominations.node_of("uid-w2") == "n0"
