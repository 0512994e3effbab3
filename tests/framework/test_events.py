from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import (
    Container,
    ContainerStatus,
    Labels,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    QuantityMap,
    ResourceRequirements,
    Taint,
    Toleration,
)
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventResource,
    Registration,
    complete_registrations,
    matches,
    node_events,
    pod_events,
    waiting_pod_label,
)
from kscheduler.testing import make_pod


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
    for resource in (EventResource.UNSCHEDULABLE_POD, EventResource.UNSCHEDULED_POD, EventResource.TARGET_POD):
        assert matches(registered, event(resource, Action.ADD))
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


def registered_labels(release: Release, *registered: ClusterEvent | Registration) -> list[str]:
    return [registration.event.label for registration in complete_registrations(registered, release)]


def test_who_registers_new_nodes_gets_taints_too_in_1_36() -> None:
    with_taints = event(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
    assert registered_labels(RELEASE_1_36, NODE_ADD) == ["NodeAdd", "NodeUpdateNodeTaint"]
    assert registered_labels(RELEASE_1_36, with_taints) == ["NodeAdd|UpdateNodeTaint"]
    assert registered_labels(RELEASE_1_36, NODE_DELETE) == ["NodeDelete"]
    assert registered_labels(RELEASE_1_37, NODE_ADD) == ["NodeAdd"]
    assert registered_labels(RELEASE_1_37, with_taints) == ["NodeAdd|UpdateNodeTaint"]


def test_who_registers_pods_gets_each_kind_of_them_in_1_37() -> None:
    assert registered_labels(RELEASE_1_36, event(EventResource.POD, Action.DELETE)) == ["PodDelete"]
    assert registered_labels(RELEASE_1_37, event(EventResource.POD, Action.DELETE)) == [
        "AssignedPodDelete",
        "UnscheduledPodDelete",
        "TargetPodDelete",
    ]


def test_kinds_of_pods_with_one_hint_are_one_registration_in_1_36() -> None:
    def one(waiting: Pod, old: object, new: object) -> bool:
        return True

    def other(waiting: Pod, old: object, new: object) -> bool:
        return False

    label = event(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL)
    registered = Registration(ASSIGNED_POD_DELETE, one), Registration(NODE_DELETE, one), Registration(label, one)
    assert registered_labels(RELEASE_1_36, *registered) == ["PodDelete|UpdatePodLabel", "NodeDelete"]
    assert registered_labels(RELEASE_1_37, *registered) == [
        "AssignedPodDelete",
        "NodeDelete",
        "TargetPodUpdatePodLabel",
    ]
    apart = registered_labels(RELEASE_1_36, Registration(ASSIGNED_POD_DELETE, one), Registration(label, other))
    assert apart == ["PodDelete", "PodUpdatePodLabel"]


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
    assert labels_of(pod_events(old, new, RELEASE_1_37)) == [
        "TargetPodUpdatePodLabel",
        "TargetPodUpdatePodScaleDown",
        "TargetPodUpdatePodSchedulingGatesEliminated",
        "TargetPodUpdatePodToleration",
    ]


def test_asking_for_more_has_an_event_in_1_37() -> None:
    old, new = pod(requests={"cpu": "2", "memory": "1Gi"}), pod(requests={"cpu": "1", "memory": "2Gi"})
    assert labels_of(pod_events(old, new, RELEASE_1_36)) == ["UnschedulablePodUpdatePodScaleDown"]
    assert labels_of(pod_events(old, new, RELEASE_1_37)) == [
        "TargetPodUpdatePodScaleDown",
        "TargetPodUpdatePodScaleUp",
    ]
    old, new = pod(node="n", requests={"cpu": "1"}), pod(node="n", requests={"cpu": "1", "memory": "1Gi"})
    assert labels_of(pod_events(old, new, RELEASE_1_36)) == ["AssignedPodUpdate"]
    assert labels_of(pod_events(old, new, RELEASE_1_37)) == ["AssignedPodUpdatePodScaleUp"]


def test_pods_without_a_node_are_named_by_the_release() -> None:
    assert waiting_pod_label(Action.ADD, RELEASE_1_36) == "UnschedulablePodAdd"
    assert waiting_pod_label(Action.ADD, RELEASE_1_37) == "UnscheduledPodAdd"


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


def resized(*cpus: str, infeasible: bool = False) -> Pod:
    """A pod on a node, of two containers that ask for one core each, and have these cpus in use."""
    made = make_pod("p").node("n").req(cpu="1").container(cpu="1").obj()
    statuses = [
        ContainerStatus(f"c{number}", ResourceRequirements(requests={"cpu": cpu}), {"cpu": "1"})
        for number, cpu in enumerate(cpus)
    ]
    conditions = [PodCondition("PodResizePending", reason="Infeasible" if infeasible else "Deferred")]
    return replace(made, status=replace(made.status, container_statuses=statuses, conditions=conditions))


@pytest.mark.parametrize(
    ("before", "after", "in_1_36", "in_1_37"),
    [
        (resized("1", "3"), resized("1", "2"), True, True),
        # One grows by as much as the other shrinks; 1.36 counts each at its largest.
        (resized("500m", "3"), resized("2", "1500m"), True, False),
        (resized("1500m", "100m"), resized("1", "100m"), True, False),
        # What was requested no longer counts; used are 800 thousandths, but granted two cores.
        (resized("300m", "500m"), resized("300m", "500m", infeasible=True), False, False),
    ],
)
def test_a_resized_pod_is_scaled_down_by_the_sums_of_the_release(
    before: Pod, after: Pod, in_1_36: bool, in_1_37: bool
) -> None:
    for release, is_scaled_down in ((RELEASE_1_36, in_1_36), (RELEASE_1_37, in_1_37)):
        events = labels_of(pod_events(before, after, release))
        assert ("AssignedPodUpdatePodScaleDown" in events) is is_scaled_down, release.version


def test_a_resize_that_is_found_to_be_infeasible_scales_down() -> None:
    before = resized("100m", "100m")
    before = replace(before, spec=replace(before.spec, containers=[*make_pod("x").req(cpu="8").obj().spec.containers]))
    after = replace(before, status=resized("100m", "100m", infeasible=True).status)
    for release in (RELEASE_1_36, RELEASE_1_37):
        assert "AssignedPodUpdatePodScaleDown" in labels_of(pod_events(before, after, release))
        assert "AssignedPodUpdatePodScaleDown" not in labels_of(pod_events(after, before, release))


def test_what_an_infeasible_resize_asks_for_besides_is_no_request() -> None:
    before = resized("1", "1", infeasible=True)
    asking = make_pod("p").req(cpu="1", example_com__gpu=1).container(cpu="1").obj().spec.containers
    after = replace(before, spec=replace(before.spec, containers=asking))
    for release in (RELEASE_1_36, RELEASE_1_37):
        assert labels_of(pod_events(before, after, release)) == ["AssignedPodUpdate"]
        assert labels_of(pod_events(after, before, release)) == ["AssignedPodUpdate"]


def test_an_infeasible_resize_without_reported_amounts_scales_down_in_1_37() -> None:
    before, after = (
        replace(pod, status=replace(pod.status, container_statuses=None))
        for pod in (resized(), resized(infeasible=True))
    )
    assert "AssignedPodUpdatePodScaleDown" not in labels_of(pod_events(before, after, RELEASE_1_36))
    assert "AssignedPodUpdatePodScaleDown" in labels_of(pod_events(before, after, RELEASE_1_37))
    assert "AssignedPodUpdatePodScaleUp" in labels_of(pod_events(after, before, RELEASE_1_37))


def test_a_pod_whose_own_status_shrinks_is_scaled_down() -> None:
    made = make_pod("p").node("n").pod_level_req(cpu="1").obj()
    status = replace(made.status, resources=ResourceRequirements(requests={"cpu": "4"}))
    before, after = replace(made, status=status), made
    assert "AssignedPodUpdatePodScaleDown" in labels_of(pod_events(before, after))
