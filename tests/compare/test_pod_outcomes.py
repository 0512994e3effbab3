"""Where each pod of a run was placed, kept in little memory."""

from __future__ import annotations

import math

from kscheduler.compare.pod_outcomes import NOT_PLACED, PodOutcomes
from kscheduler.simulator.scenario import Arrival, Scenario
from tests.compare.runs import arriving, nodes, simulated, small_pods
from tests.simulator.objects import pod


def test_pods_have_a_node_or_a_message() -> None:
    pods = simulated("a", Scenario(nodes(1), arriving(*small_pods(1), pod("large", cpu="9")))).run().pods
    assert pods is not None
    placed, large = pods.rows["default/p0"], pods.rows["default/large"]
    assert (pods.node(placed), pods.is_placed(placed), pods.bound_s(placed), pods.message(placed)) == (
        "n0",
        True,
        0.0025,
        "",
    )
    assert (pods.node(large), pods.is_placed(large)) == ("", False)
    assert math.isnan(pods.bound_s(large))
    assert pods.message(large).startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_pods_that_come_with_a_node_are_on_it() -> None:
    pods = simulated("a", Scenario(nodes(1), [Arrival(0.0, pod("there", node_name="n0"))])).run().pods
    assert pods is not None
    assert pods.node(pods.rows["default/there"]) == "n0"


def test_a_second_pod_of_a_name_is_a_pod_of_its_own() -> None:
    pods = PodOutcomes()
    pods.node_names = ["n0", "n1"]
    for node in (0, NOT_PLACED, 1):
        pods.add("default/p", node)
    assert [(key, pods.node(row)) for key, row in pods.rows.items()] == [
        ("default/p", "n0"),
        ("default/p#2", ""),
        ("default/p#3", "n1"),
    ]


def test_a_second_run_shares_the_names_of_the_first() -> None:
    one, other = PodOutcomes(), PodOutcomes()
    for pods in (one, other):
        pods.add("/".join(["default", "a-pod-of-both"]), NOT_PLACED)
    assert next(iter(one.rows)) is next(iter(other.rows))
