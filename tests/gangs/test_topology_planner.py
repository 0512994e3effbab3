"""A gang goes to the tightest domain of nodes that holds it, or is kept together as preferred, or says why not."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kscheduler.gangs.domains import DomainIndex
from kscheduler.gangs.gang import Topology
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.topology_planner import TopologyPlanner
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.testing.wrappers import make_node, make_pod
from tests.framework.plugins.volumebinding.objects import pod_with
from tests.gangs.planning import SHAPES, nodes_of, racked_cluster, racks_of, state_of, workers
from tests.support.checks import check_cache
from tests.support.lanes import Side

LANES = pytest.mark.parametrize("has_lane", [True, False], ids=["by kernels", "one by one"])
RACK = Topology("example.com/rack")
HOSTNAME = "kubernetes.io/hostname"


class Gangs:
    def __init__(self, side: Side, has_lane: bool = True) -> None:
        self.side = side
        nominations = side.handle.nominations
        self.planner = Planner(side.cache, side.profiles, side.lane if has_lane else None, nominations=nominations)
        self.topology = TopologyPlanner(self.planner, DomainIndex(side.cache.table), self.planner.nomination_of)

    def plan(
        self,
        members: Sequence[QueuedPodInfo],
        missing: int,
        topology: Topology = RACK,
        placed: Sequence[str] = (),
    ) -> Plan:
        plan = self.topology.plan(topology, members, missing, placed)
        check_cache(self.side.cache)
        return plan


@LANES
def test_the_tightest_domain_that_holds_the_gang_is_taken(has_lane: bool) -> None:
    gangs = Gangs(racked_cluster({"r1": [8, 8], "r2": [4, 2], "r3": [4, 4], "": [64]}), has_lane)
    plan = gangs.plan(workers(4), 4)
    assert plan.reaches(4)
    assert racks_of(plan) == ({"r3"} if has_lane else {"r1"}), "without kernels the first is as good as any"
    assert len(set(nodes_of(plan).values())) == 2


def test_of_domains_that_are_equally_tight_the_first_by_name_is_taken() -> None:
    gangs = Gangs(racked_cluster({"r2": [4], "r1": [4], "r3": [4]}))
    assert racks_of(gangs.plan(workers(2), 2)) == {"r1"}


def test_a_domain_for_all_members_is_better_than_a_tighter_one_for_the_minimum() -> None:
    gangs = Gangs(racked_cluster({"r1": [4], "r2": [8, 8], "r3": [8]}))
    assert racks_of(gangs.plan(workers(4), 2)) == {"r3"}


def test_if_none_holds_all_members_the_one_is_taken_that_holds_most() -> None:
    gangs = Gangs(racked_cluster({"r1": [4], "r2": [8], "r3": [6]}))
    plan = gangs.plan(workers(5), 2)
    assert racks_of(plan) == {"r2"}
    assert len(plan.placed) == 4


@LANES
def test_a_gang_that_no_domain_holds_says_how_many_the_best_one_holds_and_leaves_no_trace(has_lane: bool) -> None:
    side = racked_cluster({"r1": [4], "r2": [4, 2], "r3": [2], "": [64]})
    before = state_of(side)
    plan = Gangs(side, has_lane).plan(workers(8), 8)
    assert not plan.reaches(8)
    assert plan.refusal == "no rack holds 8 pods; the best of 3, r2, holds 3"
    assert plan.failed[0].queued.pod_info.pod.metadata.name == "w3"
    assert plan.failed[0].rejection.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert plan.domains[0].name == ("r2" if has_lane else "r1")
    plan.placed.undo()
    assert state_of(side) == before


def test_a_gang_of_which_no_domain_holds_any_pod_says_so() -> None:
    gangs = Gangs(racked_cluster({"r1": [1], "r2": [1]}))
    plan = gangs.plan(workers(2), 2)
    assert plan.refusal == "no rack holds 2 pods; none of 2 holds any; in r1"


def test_a_required_label_that_no_node_has_refuses_the_gang() -> None:
    plan = Gangs(racked_cluster({"": [64]})).plan(workers(2), 2)
    assert not plan.reaches(2)
    assert plan.refusal == 'no node has the label "example.com/rack", which its topology requires'
    assert len(plan.not_tried) == 2


def test_placed_members_decide_the_domain() -> None:
    gangs = Gangs(racked_cluster({"r1": [4], "r2": [8, 8], "r3": [4]}))
    assert racks_of(gangs.plan(workers(2), 2, placed=["r2-0"])) == {"r2"}
    plan = gangs.plan(workers(3, name="v"), 3, placed=["r1-0"])
    assert plan.refusal == "rack r1, where 1 of its pods is, does not hold 3 more, but 2"


def test_placed_members_in_several_domains_or_none_refuse_the_rest() -> None:
    gangs = Gangs(racked_cluster({"r1": [4], "r2": [4], "": [4]}))
    plan = gangs.plan(workers(1), 1, placed=["r2-0", "r1-0", "r2-0"])
    assert plan.refusal == "its pods are in more than one rack already: r1, r2"
    plan = gangs.plan(workers(1), 1, placed=["x-0"])
    assert plan.refusal == 'one of its pods is on node x-0, which is in no domain of "example.com/rack"'


def test_racks_of_one_name_in_two_zones_are_two_domains_if_zones_are_named_as_well() -> None:
    gangs = Gangs(racked_cluster({"z1/r1": [4], "z2/r1": [4]}))
    assert gangs.plan(workers(4), 4).reaches(4)
    plan = Gangs(racked_cluster({"z1/r1": [4], "z2/r1": [4]})).plan(
        workers(4), 4, Topology("example.com/rack", ("example.com/rack", "zone"))
    )
    assert plan.refusal == "no rack holds 4 pods; the best of 2, z1/r1, holds 2"


def test_what_is_preferred_falls_back_level_by_level_to_none() -> None:
    preferred = Topology(preferred=("example.com/rack", "zone"))
    racks = {"z1/a": [2], "z1/b": [4, 4], "z2/c": [4], "z2/d": [4]}
    plan = Gangs(racked_cluster(racks)).plan(workers(2), 2, preferred)
    assert racks_of(plan) == {"c"}, "the tightest rack"
    plan = Gangs(racked_cluster(racks)).plan(workers(5), 5, preferred)
    assert racks_of(plan) == {"a", "b"}, "one zone"
    plan = Gangs(racked_cluster(racks)).plan(workers(7), 7, preferred)
    assert plan.reaches(7), "anywhere"
    assert Gangs(racked_cluster({"": [8]})).plan(workers(2), 2, preferred).reaches(2), "no node has the labels"


def test_what_is_preferred_is_looked_for_inside_what_is_required() -> None:
    topology = Topology("zone", ("example.com/rack",))
    racks = {"z1/a": [4], "z1/b": [4], "z2/c": [8]}
    assert racks_of(Gangs(racked_cluster(racks)).plan(workers(3), 3, topology)) == {"c"}
    assert racks_of(Gangs(racked_cluster({**racks, "z2/c": [6]})).plan(workers(4), 4, topology)) == {"a", "b"}
    plan = Gangs(racked_cluster(racks)).plan(workers(5), 5, topology)
    assert plan.refusal == "no zone holds 5 pods; the best of 2, z1, holds 4"


def test_a_preferred_domain_that_would_leave_a_member_out_is_not_taken() -> None:
    plan = Gangs(racked_cluster({"r1": [4], "r2": [4]})).plan(workers(3), 2, Topology(preferred=("example.com/rack",)))
    assert len(plan.placed) == 3


def test_members_that_have_a_node_are_joined_if_that_is_preferred() -> None:
    gangs = Gangs(racked_cluster({"r1": [4], "r2": [8]}))
    plan = gangs.plan(workers(1), 1, Topology(preferred=("example.com/rack",)), placed=["r2-0"])
    assert racks_of(plan) == {"r2"}


def test_the_domain_of_nominated_members_comes_first() -> None:
    gangs = Gangs(racked_cluster({"r1": [4], "r2": [8]}))
    members = workers(2)
    gangs.side.handle.nominations.nominate(members[1].pod_info, "r2-0")
    assert racks_of(gangs.plan(members, 2)) == {"r2"}


def test_terms_may_make_the_tightest_domain_too_small() -> None:
    apart = make_pod("x").label(app="a").req(cpu=1).pod_anti_affinity(HOSTNAME, {"app": "a"})
    gangs = Gangs(racked_cluster({"r1": [4, 1], "r2": [4, 4, 4]}))
    assert racks_of(gangs.plan(workers(3, apart), 3)) == {"r2"}


def test_members_that_are_rejected_whatever_the_node_are_not_looked_at_in_each_domain() -> None:
    gangs = Gangs(racked_cluster({"r1": [8], "r2": [8]}))
    plan = gangs.plan(workers(3, pod_with("missing").req(cpu=1)), 2)
    assert not plan.reaches(2)
    assert plan.refusal == ""
    assert plan.failed[0].rejection.message.endswith('persistentvolumeclaim "missing" not found.')


def test_nodes_and_labels_that_change_are_seen() -> None:
    side = racked_cluster({"r1": [4], "r2": [8]})
    gangs = Gangs(side)
    assert racks_of(gangs.plan(workers(2), 2)) == {"r1"}
    side.cache.set_node(
        make_node("r3-0").capacity(cpu=2, memory="64Gi", pods=110).label("example.com/rack", "r3").obj()
    )
    assert racks_of(gangs.plan(workers(1, name="v"), 1)) == {"r3"}


def test_pods_of_no_gang_are_placed_anywhere_afterwards() -> None:
    side = racked_cluster({"r1": [4], "": [64]})
    plan = Gangs(side).plan(workers(1), 1)
    assert racks_of(plan) == {"r1"}
    outcomes, by_lane = side.by_lane([make_pod("free").req(cpu=2).obj()])
    assert (outcomes[0].node, outcomes[0].feasible, by_lane) == ("x-0", 2, 1)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(range(len(SHAPES))), min_size=1, max_size=8),
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=4),
    st.integers(1, 8),
)
def test_no_domain_is_overlooked_and_none_is_left(shapes: list[int], racks: list[list[int]], missing: int) -> None:
    """What fits in some domain when only its nodes exist, is placed; and in one domain."""
    missing = min(missing, len(shapes))
    members = [each for i, shape in enumerate(shapes) for each in workers(1, SHAPES[shape], f"w{i}-")]
    side = racked_cluster({f"r{i}": cpus for i, cpus in enumerate(racks)})
    plan = Gangs(side).plan(members, missing)
    holds = []
    for i, cpus in enumerate(racks):
        alone = racked_cluster({f"r{i}": cpus})
        only = Planner(alone.cache, alone.profiles, None).plan(members, missing)
        holds.append(only.reaches(missing))
    assert plan.reaches(missing) == any(holds)
    assert len(racks_of(plan)) <= 1
    assert bool(plan.refusal) != plan.reaches(missing)
