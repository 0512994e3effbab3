"""A copy of a node has the devices of its model, and its pods of DaemonSets."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kscheduler.api.devices import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceObject,
    DeviceRequestAllocationResult,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceSlice,
)
from kscheduler.api.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodResourceClaim,
    SelectorRequirement,
)
from kscheduler.client.kinds import RESOURCE_SLICES
from kscheduler.client.protocol import EventType
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.workload_devices import NodeDevices
from kscheduler.whatif.answer import difference
from kscheduler.whatif.node_changes import Addition, NodeChanges, changed_scenario, nodes_of
from kscheduler.whatif.node_contents import NodeContents
from kscheduler.whatif.selection import NodeSelection
from kscheduler.whatif.shapes import AddedNode, Shapes
from tests.devices.building import DRIVER, device, devices, make_class, make_slice, request
from tests.simulator.objects import pod
from tests.support.devices import TEMPLATE, gpu_pod, named_claim, template
from tests.whatif.scenarios import OURS, side, small, two_nodes

COPY = AddedNode(small("new"), "n0")
GENERATED = AddedNode(small("new"), "", [NodeDevices("gpu.example.com", 2)])


def published(name: str, *names: str, generation: int = 1, node: str = "n0") -> ResourceSlice:
    return make_slice(name, devices(*names), node_name=node, pool=node, generation=generation)


def recorded(*items: ResourceSlice) -> Scenario:
    """A record of these versions of slices, a second apart, all of which are deleted at the end."""
    changes = [ObjectChange(float(second), RESOURCE_SLICES, EventType.ADDED, each) for second, each in enumerate(items)]
    changes += [ObjectChange(60.0, RESOURCE_SLICES, EventType.DELETED, each) for each in items]
    return Scenario(changes=changes)


def copied(scenario: Scenario, added: AddedNode = COPY) -> list[tuple[str, str, str, list[str]]]:
    """(slice, node, pool, devices) of the slices of an added node."""
    return [
        (
            each.metadata.name,
            each.spec.node_name or "",
            each.spec.pool.name,
            [one.name for one in each.spec.devices or ()],
        )
        for each in NodeContents(scenario).slices(added)
    ]


def test_slices_for_the_model_alone_are_copied_under_new_names() -> None:
    scenario = Scenario(
        devices=[
            published("n0-gpus", "g0", "g1"),
            make_slice("x7", devices("nic"), node_name="n0", pool="nics", driver="nic.example.com"),
            published("n1-gpus", "g0", node="n1"),
            make_slice("fabric", devices("f0"), all_nodes=True, pool="fabric"),
        ]
    )
    assert copied(scenario) == [("new-gpus", "new", "new", ["g0", "g1"]), ("x7-new", "new", "nics-new", ["nic"])]
    assert NodeContents(scenario).notes([COPY]) == []


def test_of_a_record_the_last_version_of_the_newest_generation_is_copied() -> None:
    first, second = published("a-n0", "g0"), published("b-n0", "g0", generation=2)
    assert copied(recorded(first, second)) == [("b-new", "new", "new", ["g0"])]
    assert copied(recorded(first, second, published("b-n0", "g0", "g1", generation=2))) == [
        ("b-new", "new", "new", ["g0", "g1"])
    ]


def test_a_generated_node_has_the_devices_of_its_shape() -> None:
    assert copied(Scenario(), GENERATED) == [("new-gpu.example.com", "new", "new", ["device-0", "device-1"])]


def test_devices_of_a_slice_for_several_nodes_are_not_copied_and_a_note_says_so() -> None:
    of_nodes: list[Device] = [device("g0", node_name="n0"), device("g1", node_name="n1")]
    contents = NodeContents(Scenario(devices=[make_slice("rack", of_nodes, per_device_node_selection=True)]))
    assert list(contents.slices(COPY)) == []
    assert contents.notes([COPY]) == ["Added nodes lack devices: slices that describe several nodes are not copied."]
    assert contents.notes([AddedNode(small("new"), "n2")]) == []


# --- DaemonSets ---------------------------------------------------------------------------------------------------


def daemon(name: str, of: str, **spec: Any) -> Pod:
    made = pod(name, **spec)
    owners = [OwnerReference("apps/v1", "DaemonSet", of, f"uid-{of}")]
    return replace(made, metadata=replace(made.metadata, uid=f"uid-{name}", owner_references=owners))


def for_node(name: str) -> Affinity:
    """The affinity with which the controller of DaemonSets makes a pod for a node."""
    term = NodeSelectorTerm(match_fields=[SelectorRequirement("metadata.name", "In", [name])])
    return Affinity(NodeAffinity(NodeSelector([term])))


def test_of_each_daemon_set_the_first_pod_is_copied() -> None:
    scenario = Scenario(
        arrivals=[
            Arrival(0.0, daemon("proxy-1", "proxy", node_name="n0")),
            Arrival(0.0, daemon("proxy-2", "proxy", node_name="n1")),
            Arrival(0.0, pod("web", node_name="n0")),
            Arrival(5.0, daemon("agent-1", "agent", affinity=for_node("n0"))),
            Arrival(9.0, daemon("proxy-3", "proxy", affinity=for_node("n0"))),
        ]
    )
    made = list(NodeContents(scenario).pods(COPY))
    assert [(each.key, each.spec.node_name) for each in made] == [
        ("default/proxy-1-new", "new"),
        ("default/agent-1-new", "new"),
    ]
    assert len({each.metadata.uid for each in made} | {each.pod.metadata.uid for each in scenario.arrivals}) == 7
    assert list(NodeContents(scenario).pods(GENERATED)) == []


def test_what_added_nodes_lack_is_noted() -> None:
    claiming = daemon("driver", "driver", node_name="n0", resource_claims=[PodResourceClaim("d", "one")])
    contents = NodeContents(Scenario(arrivals=[Arrival(0.0, claiming)]))
    assert list(contents.pods(COPY)) == []
    assert contents.notes([COPY]) == ["Added nodes have no pods of DaemonSets that claim devices."]
    assert contents.notes([GENERATED]) == [
        "1 added node is not like a node of the input: it has no pods of DaemonSets."
    ]
    assert contents.notes([]) == []


# --- a whole answer -----------------------------------------------------------------------------------------------


def with_gpus(pods: int) -> Scenario:
    """Two nodes, one of which has two GPUs and an agent, and so many pods that claim a GPU each."""
    claiming = [Arrival(float(number), gpu_pod(f"p{number}").obj()) for number in range(pods)]
    items: list[DeviceObject] = [make_class(), template(TEMPLATE, request())]
    items.append(published("gpus-of-n1", "g0", "g1", node="n1"))
    agent = Arrival(0.0, daemon("agent", "agent", cpu="100m", node_name="n1"))
    return Scenario(two_nodes().nodes, [agent, *claiming], devices=items)


def test_pods_get_the_devices_of_an_added_node() -> None:
    scenario = with_gpus(5)
    shapes = Shapes(nodes_of(scenario), ())
    after = changed_scenario(scenario, NodeChanges(add=(Addition("n1", 1),)), shapes, OURS)
    answer = difference(side(scenario), side(after, name="changed"), [], limit=3)
    assert (answer.scheduled, answer.on_added_nodes) == (["default/p2", "default/p3"], 2)
    assert answer.comparison.pods.only_in_b == 1  # the agent of the added node
    assert [(reason.pods, reason.kind) for reason in answer.pending] == [(1, "cannot allocate all claims")]


def test_a_pod_of_a_removed_node_gets_other_devices() -> None:
    """It holds a GPU of the removed node from the start, and is placed at once with one of the other node."""
    scenario = with_gpus(0)
    scenario.devices.append(published("gpus-of-n0", "g0", "g1", node="n0"))
    results = [DeviceRequestAllocationResult("req", DRIVER, "n0", "g0")]
    terms = NodeSelector([NodeSelectorTerm(match_fields=[SelectorRequirement("metadata.name", "In", ["n0"])])])
    claim = named_claim("held")
    status = ResourceClaimStatus(
        AllocationResult(DeviceAllocationResult(results), terms),
        [ResourceClaimConsumerReference(resource="pods", name="p", uid="uid-p")],
    )
    scenario.devices.append(replace(claim, status=status))
    holder = gpu_pod("p", "held").uid("uid-p").node("n0").obj()
    scenario.arrivals.append(Arrival(0.0, holder))
    remove = NodeChanges(remove=(NodeSelection.parse("--remove-nodes", "n0"),))
    after = side(changed_scenario(scenario, remove, Shapes(nodes_of(scenario), ()), OURS))
    pods = after.run().pods
    assert pods is not None
    assert pods.node(pods.rows["default/p"]) == "n1"
    assert after.waited_s(1.0) < 0.1
