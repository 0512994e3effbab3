from __future__ import annotations

import pytest

from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import (
    Container,
    Labels,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    QuantityMap,
    ResourceRequirements,
    Taint,
    Toleration,
)
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventResource,
    Registration,
    complete_registrations,
    matches,
    node_events,
    pod_events,
)


def event(resource: EventResource | str, action: Action) -> ClusterEvent:
    return ClusterEvent(resource, action)


def labels_of(events: list[ClusterEvent]) -> list[str]:
    return [each.label for each in events]


# --- labels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("happened", "label"),
    [
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (event(EventResource.UNSCHEDULABLE_POD, Action.ADD), "UnschedulablePodAdd"),
        (NODE_ADD, "NodeAdd"),
        (event(EventResource.NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (event(EventResource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE), "NodeUpdateNodeDeclaredFeature"),
        (event(EventResource.UNSCHEDULABLE_POD, Action.UPDATE_POD_OTHER), "UnschedulablePodUpdate"),
        (
            event(EventResource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        ),
        (event(EventResource.CSI_NODE, Action.UPDATE), "storage.k8s.io/CSINodeUpdate"),
        (event("foos.v1.example.com", Action.ALL), "foos.v1.example.comAll"),
        (event(EventResource.POD, Action.ADD | Action.DELETE), "PodAdd|Delete"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_labels_are_those_of_kube_schedulers_metrics(happened: ClusterEvent, label: str) -> None:
    assert happened.label == label


def test_equal_events_are_one_key() -> None:
    assert {NODE_ADD: 1}[event(EventResource.NODE, Action.ADD)] == 1
    assert UNSCHEDULABLE_TIMEOUT != FORCE_ACTIVATE


# --- matching -------------------------------------------------------------------------------------------------------


def test_a_registration_takes_any_of_its_actions() -> None:
    registered = event(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
    assert matches(registered, NODE_ADD)
    assert matches(registered, event(EventResource.NODE, Action.UPDATE_NODE_LABEL))
    assert not matches(registered, event(EventResource.NODE, Action.UPDATE_NODE_TAINT))
    assert not matches(registered, event(EventResource.NODE, Action.DELETE))


def test_a_general_registration_takes_a_specific_event_but_not_the_other_way_round() -> None:
    general, specific = event(EventResource.NODE, Action.UPDATE), event(EventResource.NODE, Action.UPDATE_NODE_LABEL)
    assert matches(general, specific)
    assert not matches(specific, general)


def test_pods_stand_for_assigned_and_unscheduled_ones() -> None:
    registered = event(EventResource.POD, Action.ADD | Action.DELETE)
    assert matches(registered, ASSIGNED_POD_DELETE)
    assert matches(registered, event(EventResource.UNSCHEDULABLE_POD, Action.ADD))
    assert not matches(registered, event(EventResource.POD_GROUP, Action.ADD))


def test_wildcards_ask_for_everything_and_only_they_ask_for_wildcards() -> None:
    everything = event(EventResource.WILDCARD, Action.ALL)
    assert matches(everything, NODE_ADD)
    assert matches(everything, UNSCHEDULABLE_TIMEOUT)
    assert not matches(event(EventResource.NODE, Action.ALL), UNSCHEDULABLE_TIMEOUT)
    assert matches(event(EventResource.WILDCARD, Action.ADD), NODE_ADD)
    assert not matches(event(EventResource.WILDCARD, Action.ADD), ASSIGNED_POD_DELETE)


def test_resources_of_others_match_by_name() -> None:
    registered = event("foos.v1.example.com", Action.ALL)
    assert matches(registered, event("foos.v1.example.com", Action.ADD))
    assert not matches(registered, event("bars.v1.example.com", Action.ADD))


def test_who_registers_new_nodes_gets_taints_too() -> None:
    taints = Registration(event(EventResource.NODE, Action.UPDATE_NODE_TAINT))
    assert complete_registrations([NODE_ADD]) == (Registration(NODE_ADD), taints)
    with_taints = event(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
    assert complete_registrations([with_taints]) == (Registration(with_taints),)
    assert complete_registrations([ASSIGNED_POD_DELETE]) == (Registration(ASSIGNED_POD_DELETE),)


# --- nodes ----------------------------------------------------------------------------------------------------------

NODE = Node(
    metadata=ObjectMeta(name="n", labels={"zone": "a"}),
    status=NodeStatus(allocatable={"cpu": "4"}, conditions=[NodeCondition("Ready", "True")]),
)


def test_a_heartbeat_is_no_event() -> None:
    beaten = Node(
        metadata=ObjectMeta(name="n", labels={"zone": "a"}, annotations={}, resource_version="2"),
        spec=NodeSpec(taints=[]),
        status=NodeStatus(allocatable={"cpu": "4"}, conditions=[NodeCondition("Ready", "True")], capacity={"cpu": "5"}),
    )
    assert node_events(NodeChange.between(NODE, beaten)) == []


def test_each_change_of_a_node_has_its_event() -> None:
    changed = Node(
        metadata=ObjectMeta(name="n", labels={"zone": "b"}, annotations={"a": "1"}),
        spec=NodeSpec(taints=[Taint("k", "v", "NoSchedule")]),
        status=NodeStatus(
            allocatable={"cpu": "8"}, conditions=[NodeCondition("Ready", "False")], declared_features=["f"]
        ),
    )
    assert labels_of(node_events(NodeChange.between(NODE, changed))) == [
        "NodeUpdateNodeAllocatable",
        "NodeUpdateNodeLabel",
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeCondition",
        "NodeUpdateNodeAnnotation",
        "NodeUpdateNodeDeclaredFeature",
    ]


def test_a_node_made_schedulable_counts_as_a_change_of_taints_and_a_cordon_as_nothing() -> None:
    cordoned = Node(metadata=NODE.metadata, spec=NodeSpec(unschedulable=True), status=NODE.status)
    assert node_events(NodeChange.between(NODE, cordoned)) == []
    assert labels_of(node_events(NodeChange.between(cordoned, NODE))) == ["NodeUpdateNodeTaint"]


# --- pods -----------------------------------------------------------------------------------------------------------


def pod(
    *,
    labels: Labels | None = None,
    requests: QuantityMap | None = None,
    node: str = "",
    gates: int = 0,
    tolerated: int = 0,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="p", namespace="default", labels=labels),
        spec=PodSpec(
            node_name=node,
            containers=[Container(name="c", resources=ResourceRequirements(requests=requests))],
            scheduling_gates=[PodSchedulingGate(str(number)) for number in range(gates)] or None,
            tolerations=[Toleration(key=str(number)) for number in range(tolerated)] or None,
        ),
    )


def test_each_change_of_a_pod_has_its_event() -> None:
    old = pod(labels={"a": "1"}, requests={"cpu": "2"}, gates=1)
    new = pod(labels={"a": "2"}, requests={"cpu": "1"}, tolerated=1)
    assert labels_of(pod_events(old, new)) == [
        "UnschedulablePodUpdatePodLabel",
        "UnschedulablePodUpdatePodScaleDown",
        "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        "UnschedulablePodUpdatePodToleration",
    ]


def test_events_of_a_pod_with_a_node_say_so() -> None:
    assert labels_of(pod_events(pod(node="n"), pod(node="n", labels={"a": "1"}))) == ["AssignedPodUpdatePodLabel"]


def test_a_change_of_a_pod_without_a_name_is_a_general_update() -> None:
    nominated = Pod(metadata=pod().metadata, spec=pod().spec, status=PodStatus(nominated_node_name="n"))
    assert labels_of(pod_events(pod(), nominated)) == ["UnschedulablePodUpdate"]
    assert labels_of(pod_events(pod(gates=2), pod(gates=1))) == ["UnschedulablePodUpdate"]


@pytest.mark.parametrize(
    ("before", "after", "is_scaled_down"),
    [
        ({"cpu": "2"}, {"cpu": "3"}, False),
        ({"cpu": "2"}, {"cpu": "1"}, True),
        ({"cpu": "1"}, {"cpu": "1000m"}, False),
        ({"memory": "2Gi"}, {"memory": "1Gi"}, True),
        ({"ephemeral-storage": "2Gi"}, {"cpu": "1"}, True),
        ({"example.com/gpu": "2"}, {"example.com/gpu": "1"}, True),
        ({"example.com/gpu": "1"}, {}, True),
        ({}, {"example.com/gpu": "1"}, False),
        # Beyond 2^63 thousandths, where kube-scheduler's comparison wraps around.
        ({"memory": "12Pi"}, {"memory": "11Pi"}, True),
        ({"memory": "12Pi"}, {"memory": "1Gi"}, True),
        ({"memory": "11Pi"}, {"memory": "12Pi"}, False),
        ({"example.com/gpu": "12P"}, {"example.com/gpu": "11P"}, True),
    ],
)
def test_asking_for_less_of_anything_is_scaling_down(
    before: QuantityMap, after: QuantityMap, is_scaled_down: bool
) -> None:
    events = pod_events(pod(requests=before), pod(requests=after))
    assert ("UnschedulablePodUpdatePodScaleDown" in labels_of(events)) is is_scaled_down
