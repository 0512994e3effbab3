"""Zones and other domains of nodes are compared: those with the largest differences come first."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import Node
from kscheduler.compare.comparing import Comparison, compare
from kscheduler.compare.domains import MAX_DOMAINS
from kscheduler.compare.text import to_text
from kscheduler.simulator.scenario import Scenario
from tests.compare.runs import LEAST, MOST, arriving, nodes, simulated, small_pods

ZONE = "topology.kubernetes.io/zone"


def in_zones(made: list[Node], zones: int) -> list[Node]:
    return [
        replace(node, metadata=replace(node.metadata, labels={ZONE: f"z{number % zones:02}"}))
        for number, node in enumerate(made)
    ]


def compared(count: int, zones: int, pods: int) -> Comparison:
    scenario = Scenario(in_zones(nodes(count), zones), arriving(*small_pods(pods)))
    return compare(simulated("least.yaml", scenario, LEAST), simulated("most.yaml", scenario, MOST))


def lines_of(comparison: Comparison) -> list[str]:
    return [" ".join(line.split()) for line in to_text(comparison).splitlines()]


def test_domains_that_differ_are_listed_with_their_nodes_pods_and_use() -> None:
    comparison = compared(count=120, zones=3, pods=4)
    [zones] = [each for each in comparison.domains if each.label == ZONE]
    largest, *others = zones.domains
    assert (largest.nodes_a, largest.nodes_b, largest.pods_b) == (40, 40, 4), "MostAllocated packs them on one node"
    assert largest.used_b["cpu"] > largest.used_a["cpu"]
    assert all(each.size <= largest.size for each in others)
    assert [each.pods_b for each in others] == [0] * len(others)
    lines = lines_of(comparison)
    at = lines.index(f"by {ZONE}, the largest differences first:")
    assert lines[at + 1].startswith("nodes in A in B pods placed in A in B B - A cpu requested in A in B")
    assert lines[at + 2].startswith(f"{largest.name} 40 40 {largest.pods_a} 4 +{4 - (largest.pods_a or 0)} 0.")


def test_of_many_domains_the_largest_differences_are_listed_and_the_others_counted() -> None:
    comparison = compared(count=160, zones=40, pods=30)
    [zones] = [each for each in comparison.domains if each.label == ZONE]
    assert len(zones.domains) == MAX_DOMAINS
    assert zones.not_listed > 0
    assert len(zones.domains) + zones.not_listed + zones.equal == 40
    lines = lines_of(comparison)
    assert f"and {zones.not_listed} more that differ, each less" in lines
    assert f"and {zones.equal} that are equal in both" in lines


def test_without_a_difference_no_domain_is_listed() -> None:
    scenario = Scenario(in_zones(nodes(6), 3), arriving(*small_pods(3)))
    text = to_text(compare(simulated("a", scenario), simulated("b", scenario)))
    assert f"by {ZONE}" not in text
