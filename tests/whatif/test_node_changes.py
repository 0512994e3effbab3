"""Nodes are added, removed, cordoned and tainted in a scenario, in every version that a record has of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import (
    AllocationResult,
    ClaimMeta,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceSlice,
)
from kscheduler.api.objects import OwnerReference, Taint
from kscheduler.client.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kscheduler.client.protocol import EventType
from kscheduler.errors import ConfigError
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.workload import DEFAULT_NODE_SHAPES
from kscheduler.whatif.node_changes import (
    Addition,
    NodeChanges,
    changed_scenario,
    nodes_of,
    parse_addition,
    parse_tainting,
)
from kscheduler.whatif.selection import NodeSelection
from kscheduler.whatif.shapes import Shapes
from tests.devices.building import devices, make_slice
from tests.simulator.objects import pod
from tests.whatif.scenarios import OURS, names, recorded, small, two_nodes


def changed(scenario: Scenario, sought: int = 0, **changes: Any) -> Scenario:
    shapes = Shapes(nodes_of(scenario), DEFAULT_NODE_SHAPES)
    return changed_scenario(scenario, NodeChanges(**changes), shapes, OURS, sought=sought)


def held_claim(name: str, *pods: str) -> ResourceClaim:
    """A claim that is allocated, and reserved for pods with these uids."""
    reserved = [ResourceClaimConsumerReference(resource="pods", name=each, uid=each) for each in pods]
    status = ResourceClaimStatus(allocation=AllocationResult(), reserved_for=reserved)
    return ResourceClaim(ClaimMeta(name=name, namespace="default"), status=status)


def reserved_for(claim: ResourceClaim) -> list[str]:
    return [each.uid for each in claim.status.reserved_for or ()]


def selection(text: str) -> NodeSelection:
    return NodeSelection.parse("--flag", text)


@pytest.mark.parametrize("scenario", [two_nodes(), recorded(two_nodes())], ids=["generated", "recorded"])
def test_added_nodes_come_behind_those_that_are_there(scenario: Scenario) -> None:
    found = changed(scenario, add=(Addition("small", 2),))
    assert names(nodes_of(found)) == ["n0", "n1", "added-small-0", "added-small-1"]
    assert found.changes[-1].at_s == 0.0


def test_additions_of_one_shape_are_counted_together() -> None:
    found = changed(two_nodes(), 3, add=(Addition("small", 2), Addition("small", None)))
    assert len(nodes_of(found)) == 7


def test_added_nodes_have_devices_and_pods_of_daemon_sets() -> None:
    agent = pod("agent", node_name="n1")
    agent = replace(agent, metadata=replace(agent.metadata, owner_references=[OwnerReference("apps/v1", "DaemonSet")]))
    scenario = Scenario(
        two_nodes().nodes,
        [Arrival(1.0, pod("web"))],
        devices=[make_slice("n1-gpus", devices("g0"), node_name="n1", pool="n1")],
    )
    found = changed(scenario, add=(Addition("small", 2), Addition("general-32", 1)))
    assert found.notes == []
    scenario.arrivals.insert(0, Arrival(0.0, agent))
    found = changed(scenario, add=(Addition("small", 2), Addition("general-32", 1)))
    assert [(change.resource, change.object.metadata.name) for change in found.changes] == [
        (NODES, "added-small-0"),
        (NODES, "added-small-1"),
        (NODES, "added-general-32-0"),
        (RESOURCE_SLICES, "added-small-1-gpus"),
    ]
    assert [(each.at_s, each.pod.metadata.name, each.pod.spec.node_name) for each in found.arrivals] == [
        (0.0, "agent-added-small-1", "added-small-1"),
        (0.0, "agent", "n1"),
        (1.0, "web", ""),
    ]
    assert found.notes == ["1 added node is not like a node of the input: it has no pods of DaemonSets."]


@pytest.mark.parametrize("is_recorded", [False, True])
def test_the_devices_of_a_removed_node_are_taken_from_its_pods(is_recorded: bool) -> None:
    """The pods become pending or are gone; one on another node keeps its devices."""
    there = [pod(name, node_name=node) for name, node in (("web", "n0"), ("agent", "n0"), ("stays", "n1"))]
    there = [replace(each, metadata=replace(each.metadata, uid=each.metadata.name)) for each in there]
    there[1] = replace(
        there[1], metadata=replace(there[1].metadata, owner_references=[OwnerReference("apps/v1", "DaemonSet")])
    )
    items: list[Any] = [make_slice(node, devices("g0"), node_name=node, pool=node) for node in ("n0", "n1")]
    items += [held_claim("shared", "web", "stays"), held_claim("only", "web"), held_claim("of-agent", "agent")]
    made = items[-1]
    owner = OwnerReference("v1", "Pod", "agent", "agent", controller=True)
    items[-1] = replace(made, metadata=replace(made.metadata, owner_references=[owner]))
    nodes, arrivals = two_nodes().nodes, [Arrival(0.0, each) for each in there]
    scenario = Scenario(nodes, arrivals, devices=items)
    if is_recorded:
        resources: dict[Any, Resource[Any]] = {ResourceSlice: RESOURCE_SLICES, ResourceClaim: RESOURCE_CLAIMS}
        added = [ObjectChange(0.0, resources[type(item)], EventType.ADDED, item) for item in items]
        scenario = recorded(Scenario(nodes, arrivals), *added)
    found = changed(scenario, remove=(selection("n0"),))
    left: list[Any] = [change.object for change in found.changes if change.resource is not NODES] or list(found.devices)
    assert [item.metadata.name for item in left] == ["n1", "shared", "only"]
    assert [(reserved_for(item), item.status.allocation is not None) for item in left[1:]] == [
        (["stays"], True),
        ([], False),
    ]


def test_what_was_recorded_later_comes_behind_added_nodes() -> None:
    late = ObjectChange(5.0, NODES, EventType.ADDED, small("late"))
    found = changed(recorded(two_nodes(), late), add=(Addition("small", 1),))
    assert [(change.at_s, change.object.metadata.name) for change in found.changes] == [
        (0.0, "n0"),
        (0.0, "n1"),
        (0.0, "added-small-0"),
        (5.0, "late"),
    ]


def test_each_version_of_a_node_is_changed() -> None:
    """A record has a node again whenever it changed."""
    newer = replace(small("n0"), metadata=replace(small("n0").metadata, labels={"node-shape": "small", "new": "x"}))
    found = changed(
        recorded(two_nodes(), ObjectChange(5.0, NODES, EventType.MODIFIED, newer)),
        cordon=(selection("n0"),),
        taints=(parse_tainting("--taint", "n0", "kept=batch:NoSchedule"),),
    )
    versions = [change.object for change in found.changes if change.object.metadata.name == "n0"]
    assert [each.spec.unschedulable for each in versions] == [True, True]
    assert [each.spec.taints for each in versions] == [[Taint("kept", "batch", "NoSchedule")]] * 2
    others = [change.object for change in found.changes if change.object.metadata.name == "n1"]
    assert [each.spec.unschedulable for each in others] == [False]


def test_taints_and_cordons_are_taken_back() -> None:
    tainted = changed(
        two_nodes(), cordon=(selection("all"),), taints=(parse_tainting("--taint", "all", "kept=batch:NoSchedule"),)
    )
    found = changed(tainted, uncordon=(selection("n0"),), taints=(parse_tainting("--taint", "n0", "kept:NoSchedule-"),))
    assert [(node.spec.unschedulable, bool(node.spec.taints)) for node in found.nodes] == [(False, False), (True, True)]


def test_added_nodes_can_be_tainted() -> None:
    found = changed(
        two_nodes(),
        add=(Addition("general-32", 1),),
        taints=(parse_tainting("--taint", "general-32", "kept:NoExecute"),),
    )
    assert [bool(node.spec.taints) for node in nodes_of(found)] == [False, False, True]


def test_pods_on_removed_nodes_are_pending_or_gone() -> None:
    agent = pod("agent", node_name="n0")
    agent = replace(agent, metadata=replace(agent.metadata, owner_references=[OwnerReference("apps/v1", "DaemonSet")]))
    theirs = pod("theirs", node_name="n0", scheduler_name="other")
    there = [Arrival(0.0, each) for each in (pod("web", node_name="n0"), agent, theirs, pod("stays", node_name="n1"))]
    later = pod("later", scheduler_name="other")
    later = replace(later, metadata=replace(later.metadata, uid="later"))
    binding = replace(later, spec=replace(later.spec, node_name="n0"))
    scenario = recorded(
        Scenario(two_nodes().nodes, [*there, Arrival(1.0, later)]),
        ObjectChange(2.0, PODS, EventType.MODIFIED, binding),
    )
    found = changed(scenario, remove=(selection("n0"),))
    assert names(nodes_of(found)) == ["n1"]
    assert [(each.pod.metadata.name, each.pod.spec.node_name) for each in found.arrivals] == [
        ("web", ""),
        ("stays", "n1"),
    ]
    assert [change.resource for change in found.changes] == [NODES]
    assert found.notes == [
        "1 pod that was on a removed node from the start arrives as a pending pod.",
        "3 pods of DaemonSets or other schedulers on removed nodes are left out.",
    ]


def test_the_scenario_itself_stays_as_it_is() -> None:
    scenario = two_nodes()
    changed(scenario, add=(Addition("small", 2),), remove=(selection("n0"),), cordon=(selection("n1"),))
    assert scenario == two_nodes()


@pytest.mark.parametrize("text", ["x:small", "-1:small", "3:", "\u0663:small"])
def test_a_malformed_addition_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--add-nodes: expected a number and a shape, such as 20:general-32, got"):
        parse_addition("--add-nodes", text)


@pytest.mark.parametrize("text", ["kept", "kept=x", "kept=x:Never", "a b:NoSchedule", ":NoSchedule"])
def test_a_malformed_taint_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--taint: expected KEY\[=VALUE\]:EFFECT with one of NoSchedule"):
        parse_tainting("--taint", "all", text)


def test_a_selection_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match='"n9" is no node'):
        changed(two_nodes(), cordon=(selection("n9"),))
