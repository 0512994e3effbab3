"""Groups are planned in each placement, and the best one is taken, as by kube-scheduler 1.37 with the gate on.

What its texts are, and which placement it takes, tests/parity compares with a real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.gangs.domains import DomainIndex
from kscheduler.gangs.gang import Topology
from kscheduler.gangs.placements import Available, DomainUnknown, PlacementPlugins, Placements, placement_plugins
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import UPSTREAM_1_37
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod
from tests.gangs.builders import DOORS, gang, key_of
from tests.gangs.planning import racked_cluster, racks_of, state_of, workers
from tests.support.checks import check_cache
from tests.support.lanes import Side

ON = RELEASE_1_37.with_gates({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})
NONE = "placements are available, first placement status:"
BY_DEFAULT = PlacementPlugins(True, {"PodGroupPodsCount": 1, "NodeResourcesFit": 1})


class Group:
    def __init__(self, side: Side, least: int, *, plugins: PlacementPlugins = BY_DEFAULT, is_constrained: bool = True):
        self.side = side
        self.planner = Planner(side.cache, side.profiles, side.lane, asks_again=True)
        self.registry = Registry(DOORS, UPSTREAM_1_37)
        topology = Topology("example.com/rack") if is_constrained else None
        self.registry.set_gang(gang("train", least, topology=topology))
        self.ties: list[list[str]] = []
        index = DomainIndex(side.cache.table)
        profiles = {"default-scheduler": plugins}
        self.metrics = Metrics()
        self.placements = Placements(
            self.planner,
            index,
            side.profiles,
            profiles,
            self._choose,
            observer=Measurements(self.metrics),
            stopwatch=lambda: 0.0,
        )

    def _choose(self, best: Sequence[Available]) -> Available:
        self.ties.append([each.domain.name for each in best if each.domain is not None])
        return best[-1]

    @property
    def tracked(self) -> TrackedGang:
        found = self.registry.get(key_of("train"))
        assert found is not None
        return found

    def bind(self, name: str, node: str) -> None:
        pod = make_pod(name).label("scheduling.x-k8s.io/pod-group", "train").node(node).obj()
        self.side.cache.set_pod(PodInfo(pod))
        self.registry.set_member(pod, Stage.BOUND)

    def plan(self, count: int, missing: int) -> Plan:
        plan = self.placements.plan(self.tracked, workers(count), missing)
        check_cache(self.side.cache)
        return plan


def test_the_placement_is_taken_that_holds_most_pods_and_is_fullest() -> None:
    group = Group(racked_cluster({"r1": [4], "r2": [8], "r3": [6], "": [64]}), 2)
    plan = group.plan(3, 2)
    assert plan.reaches(2)
    assert racks_of(plan) == {"r3"}
    assert group.ties == [["r3"]]
    assert len(plan.placed) == 3


def test_placements_are_counted_also_those_that_kernels_rule_out() -> None:
    group = Group(racked_cluster({"r1": [4], "r2": [8], "r3": [2], "r4": [1]}), 2)
    group.plan(3, 2)
    counted, duration = group.metrics.placement_evaluations_total, group.metrics.placement_evaluation_duration_seconds
    assert group.metrics.generated_placements_total.labels("default-scheduler").value == 4
    for result in ("feasible", "infeasible"):
        assert counted.labels(result, "default-scheduler").value == 2
        assert duration.labels(result, "default-scheduler").count == 2


def test_of_placements_with_equal_scores_any_is_taken() -> None:
    group = Group(racked_cluster({"r1": [4], "r2": [4]}), 2)
    assert racks_of(group.plan(2, 2)) == {"r2"}
    assert group.ties == [["r1", "r2"]]


@pytest.mark.parametrize(
    ("weights", "rack"), [({}, "r3"), ({"PodGroupPodsCount": 1}, "r3"), ({"NodeResourcesFit": 2}, "r1")]
)
def test_only_scores_of_enabled_plugins_count(weights: Mapping[str, int], rack: str) -> None:
    group = Group(racked_cluster({"r1": [4], "r2": [8], "r3": [16]}), 2, plugins=PlacementPlugins(True, weights))
    assert racks_of(group.plan(3, 2)) == {rack}


def test_without_a_constraint_or_the_generator_there_is_one_placement_of_all_nodes() -> None:
    for plugins, is_constrained in ((BY_DEFAULT, False), (PlacementPlugins(False, {}), True)):
        group = Group(racked_cluster({"r1": [4], "": [4]}), 4, plugins=plugins, is_constrained=is_constrained)
        assert group.plan(4, 4).reaches(4)
        assert group.plan(1, 1).reasons == (
            "pod group is unschedulable",
            f"0/1 {NONE} minCount (4) cannot be satisfied: 0 scheduled, 0 remaining",
        )


def test_if_no_placement_is_available_the_first_one_says_why_and_nothing_is_left() -> None:
    side = racked_cluster({"r1": [4], "r2": [2]})
    before = state_of(side)
    plan = Group(side, 4).plan(4, 4)
    assert not plan.reaches(4)
    assert plan.reasons == (
        "pod group is unschedulable",
        f"0/2 {NONE} minCount (4) cannot be satisfied: 2 scheduled, 1 remaining",
    )
    assert plan.had_node == {"uid-w0", "uid-w1"}
    assert plan.failed[0].rejection.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert state_of(side) == before


def test_a_label_that_no_node_has_leaves_no_placement() -> None:
    plan = Group(racked_cluster({"": [64]}), 1).plan(2, 1)
    assert plan.reasons == ("no feasible placements found",)
    assert len(plan.not_tried) == 2


def test_placed_pods_decide_the_placement_or_are_a_fault() -> None:
    side = racked_cluster({"r1": [4], "r2": [8, 8], "": [4]})
    group = Group(side, 3)
    group.bind("b0", "r2-1")
    assert racks_of(group.plan(2, 2)) == {"r2"}
    group.bind("b1", "r1-0")
    with pytest.raises(DomainUnknown, match="already scheduled pods: more than 1 domain found for pod group: r1, r2"):
        group.placements.plan(group.tracked, workers(2, name="v"), 2)
    group = Group(side, 3)
    group.bind("c0", "x-0")
    with pytest.raises(DomainUnknown, match="no topology domain found for pod default/c0"):
        group.placements.plan(group.tracked, workers(2, name="u"), 2)


def test_profiles_weigh_and_disable_the_plugins_about_placements() -> None:
    assert placement_plugins(default_config(ON)) == {"default-scheduler": BY_DEFAULT}
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: NodeResourcesFit, weight: 3}]
      disabled: [{name: PodGroupPodsCount}, {name: TopologyPlacementGenerator}]
"""
    found = placement_plugins(parse_config(text, release=ON))
    assert found == {"default-scheduler": PlacementPlugins(False, {"NodeResourcesFit": 3})}


def test_a_placement_is_scored_by_how_full_its_nodes_are() -> None:
    side = racked_cluster({"r1": [4], "r2": [4, 12]})
    fit = side.profiles["default-scheduler"].plugin("NodeResourcesFit")
    assert isinstance(fit, Fit)
    pods = [PodInfo(make_pod(f"p{i}").req(cpu=2, memory="16Gi").obj()) for i in range(2)]
    assert fit.score_placement(pods, [0]) == (100 + 50) // 2
    assert fit.score_placement(pods, [1, 2]) == (25 + 25) // 2
    assert fit.score_placement([], [0]) == 0
    assert fit.score_placement(pods, []) == 0
