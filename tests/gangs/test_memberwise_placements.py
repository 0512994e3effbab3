"""Groups of 1.36 are planned in each placement; tests/parity compares with a real kube-scheduler."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.gangs.domains import DomainIndex
from kscheduler.gangs.gang import Topology
from kscheduler.gangs.memberwise_placements import MemberwisePlacements
from kscheduler.gangs.memberwise_planner import MemberwisePlan, MemberwisePlanner
from kscheduler.gangs.placements import DomainUnknown, PlacementPlugins, Placements
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import UPSTREAM_1_36
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod
from tests.gangs.builders import DOORS, gang, key_of
from tests.gangs.planning import nodes_of, racked_cluster, racks_of, state_of, workers
from tests.support.checks import check_cache
from tests.support.lanes import Side

NAME = "default-scheduler"
PLUGINS = {NAME: PlacementPlugins(True, {"PodGroupPodsCount": 1, "NodeResourcesFit": 1})}


class Group:
    def __init__(self, side: Side, least: int, *, is_constrained: bool = True, has_lane: bool = True) -> None:
        self.side = side
        self.registry = Registry(DOORS, UPSTREAM_1_36)
        self.registry.set_gang(gang("train", least, topology=Topology("example.com/rack") if is_constrained else None))
        self.metrics = Metrics()
        planner = MemberwisePlanner(side.cache, side.profiles, side.lane if has_lane else None, asks_again=True)
        placements = Placements(
            planner,
            DomainIndex(side.cache.table),
            side.profiles,
            PLUGINS,
            lambda best: best[0],
            observer=Measurements(self.metrics),
            stopwatch=lambda: 0.0,
        )
        self.placements = MemberwisePlacements(planner, placements)

    def bind(self, name: str, node: str) -> None:
        pod = make_pod(name).label("scheduling.x-k8s.io/pod-group", "train").node(node).obj()
        self.side.cache.set_pod(PodInfo(pod))
        self.registry.set_member(pod, Stage.BOUND)

    def plan(self, count: int, missing: int) -> MemberwisePlan:
        tracked = self.registry.get(key_of("train"))
        assert tracked is not None
        plan = self.placements.plan_each(tracked, workers(count), missing, has_placed=False)
        check_cache(self.side.cache)
        return plan


def test_the_placement_is_taken_that_holds_most_pods_and_is_fullest() -> None:
    group = Group(racked_cluster({"r1": [4], "r2": [8], "r3": [6], "": [64]}), 2)
    before = state_of(group.side)
    plan = group.plan(3, 2)
    assert racks_of(plan) == {"r3"}
    assert len(plan.placed) == 3
    assert b"scheduler_generated_placements" not in group.metrics.exposition(), "a metric of 1.37"
    plan.placed.undo()
    assert state_of(group.side) == before


def test_where_no_placement_holds_the_group_the_first_one_says_who_had_a_node() -> None:
    group = Group(racked_cluster({"r1": [4], "r2": [8], "": [64]}), 5)
    before = state_of(group.side)
    plan = group.plan(5, 5)
    assert plan.reasons == ("0/2 placements are available, first placement status: pod group is unschedulable",)
    assert plan.nodes == {"uid-w0": "r1-0", "uid-w1": "r1-0"}
    assert len(plan.failed) == 3
    assert (len(plan.placed), state_of(group.side)) == (0, before)


def test_without_a_node_that_has_the_label_no_member_is_tried() -> None:
    plan = Group(racked_cluster({"": [64]}), 1).plan(2, 1)
    assert plan.reasons == ("no feasible placements found",)
    assert len(plan.not_tried) == 2


def test_a_group_without_constraint_has_one_placement_of_all_nodes() -> None:
    plan = Group(racked_cluster({"r1": [4], "": [8]}), 5, is_constrained=False).plan(5, 5)
    assert len(plan.placed) == 5
    assert plan.reasons is None


def test_a_group_goes_where_its_bound_pods_are() -> None:
    group = Group(racked_cluster({"r1": [4], "r2": [8]}), 2)
    group.bind("b0", "r1-0")
    assert racks_of(group.plan(1, 1)) == {"r1"}
    group = Group(racked_cluster({"r1": [4], "r2": [8]}), 2)
    group.bind("b0", "r1-0")
    group.bind("b1", "r2-0")
    with pytest.raises(DomainUnknown, match="more than 1 domain found for pod group: r1, r2"):
        group.plan(1, 1)


@settings(max_examples=60)
@given(
    racks=st.dictionaries(
        st.sampled_from(["r1", "r2", "r3", ""]), st.lists(st.integers(1, 8), min_size=1, max_size=3), min_size=1
    ),
    count=st.integers(1, 7),
    least=st.integers(1, 7),
)
def test_kernels_plan_as_the_general_lane_does(racks: dict[str, list[int]], count: int, least: int) -> None:
    plans = [Group(racked_cluster(racks), least, has_lane=has_lane).plan(count, least) for has_lane in (True, False)]
    (first, second) = [(nodes_of(plan), plan.nodes, plan.reasons, len(plan.failed)) for plan in plans]
    assert first == second
