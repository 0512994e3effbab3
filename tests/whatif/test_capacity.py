"""The fewest nodes that meet the objectives are found, and it is clear why there are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import OwnerReference
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.workload import DEFAULT_NODE_SHAPES
from kscheduler.whatif.capacity import NotMet, Trial, fewest_nodes
from kscheduler.whatif.node_changes import Addition, NodeChanges, changed_scenario, nodes_of
from kscheduler.whatif.objective import Objective
from kscheduler.whatif.played_side import PlayedSide
from kscheduler.whatif.shapes import Shapes
from tests.simulator.objects import pod
from tests.whatif.scenarios import OURS, side, small


def many(pods: int) -> Scenario:
    """One node with room for four pods, and so many pods that stay."""
    return Scenario([small("n0")], [Arrival(0.0, pod(f"p{number}")) for number in range(pods)])


def with_more(scenario: Scenario) -> Callable[[int], PlayedSide]:
    shapes = Shapes(nodes_of(scenario), DEFAULT_NODE_SHAPES)
    changes = NodeChanges(add=(Addition("small", None),))
    return lambda count: side(changed_scenario(scenario, changes, shapes, OURS, sought=count))


def found(scenario: Scenario, *texts: str, most: int = 100, start: int = 0) -> tuple[int, list[int]]:
    """Return the fewest nodes, and the numbers that were simulated."""
    objectives = [Objective.parse("--slo", text) for text in texts]
    seen: list[Trial] = []
    needed, played = fewest_nodes("small", objectives, with_more(scenario), most, seen.append, start)
    assert needed.trials == seen
    assert all(objective.is_met(played) for objective in objectives)
    return needed.nodes, [trial.nodes for trial in seen]


@pytest.mark.parametrize(
    ("pods", "start", "nodes", "simulated"),
    [
        (4, 0, 0, [0]),
        (4, 3, 0, [3, 2, 0]),
        (12, 0, 2, [0, 1, 3, 2]),
        (12, 2, 2, [2, 1]),
        (13, 2, 3, [2, 3]),
        (13, 9, 3, [9, 8, 6, 2, 4, 3]),
        (30, 0, 7, [0, 1, 3, 7, 5, 6]),
        (30, 1_000, 7, [100, 99, 97, 93, 85, 69, 37, 0, 18, 9, 4, 6, 7]),
    ],
)
def test_the_fewest_nodes_are_found(pods: int, start: int, nodes: int, simulated: list[int]) -> None:
    assert found(many(pods), "pending max < 30s", start=start) == (nodes, simulated)


def test_all_objectives_have_to_be_met() -> None:
    assert found(many(12), "pending p50 < 30s")[0] == 1
    assert found(many(12), "pending p50 < 30s", "unplaced <= 0")[0] == 2


def test_the_bound_may_be_the_answer() -> None:
    assert found(many(13), "unplaced <= 0", most=3) == (3, [0, 1, 3, 2])


def test_what_cannot_be_met_within_the_bound_is_reported_with_the_reason() -> None:
    with pytest.raises(NotMet) as raised:
        found(many(40), "unplaced <= 0", most=3)
    assert str(raised.value) == (
        'expected "unplaced <= 0" to hold with at most 3 more nodes (small, --most), got unplaced = 24 with 3; '
        "24 pods have no node: Insufficient cpu"
    )


@pytest.mark.parametrize("has_agent", [False, True])
def test_the_search_ends_when_more_nodes_stay_unused(has_agent: bool) -> None:
    """A pod of a DaemonSet, which every node has, is no use of it."""
    scenario = many(4)
    if has_agent:
        agent = pod("agent", "0", node_name="n0")
        owners = [OwnerReference("apps/v1", "DaemonSet", "agent", "agent")]
        agent = replace(agent, metadata=replace(agent.metadata, owner_references=owners))
        scenario.arrivals.insert(0, Arrival(0.0, agent))
    scenario.arrivals.append(Arrival(0.0, pod("huge", "64")))
    with pytest.raises(NotMet) as raised:
        found(scenario, "unplaced <= 0", most=1_000)
    got = "got unplaced = 1 with 15, of which 11 never get a pod; 1 pod has no node: Insufficient cpu"
    assert got in str(raised.value)


def test_nodes_without_pods_count_where_the_objective_is_about_nodes() -> None:
    """Two pods of one cpu stay on the first nodes; 50 nodes of four cpu are so many that they use 1 % of them."""
    assert found(many(2), "allocated-final:cpu <= 1%", "unplaced <= 0")[0] == 49
