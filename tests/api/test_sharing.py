"""Pods and nodes with shared parts mean what they meant, and hold equal parts once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.decode import decode_object
from kscheduler.api.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerStatus,
    LabelSelector,
    Node,
    NodeAllocatableResourceClaimStatus,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Volume,
    Workload,
    WorkloadSpec,
)
from kscheduler.api.resources import pod_resources
from kscheduler.api.sharing import LAST_APPLIED, NodeSharing, PodSharing, Shared, Strings, keep_selector
from kscheduler.framework.events import Action, pod_events
from kscheduler.testing import make_node


def a_pod(name: str, **changes: Any) -> Pod:
    """Of a Deployment, decoded by itself, so that it shares nothing with another."""
    document = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "annotations": {"team": "a"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": True}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "volumes": [
                {"name": f"token-{name}", "projected": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
            ],
        },
        "status": {"phase": "Running", "startTime": f"2026-01-01T00:00:{len(name):02}Z"},
    }
    return decode_object(json.dumps(document).encode(), Pod)


# --- pods -------------------------------------------------------------------------------------------------------


def test_pods_of_one_template_share_its_parts() -> None:
    keep = PodSharing().keep
    one, other = keep(a_pod("a")), keep(a_pod("bb"))
    assert one.metadata.labels is other.metadata.labels
    assert one.metadata.annotations is other.metadata.annotations
    assert one.metadata.owner_references is other.metadata.owner_references
    assert one.metadata.namespace is other.metadata.namespace
    assert one.spec.containers is other.spec.containers
    assert one.spec.tolerations is other.spec.tolerations
    assert one.spec.volumes is other.spec.volumes
    assert one.spec.node_name is other.spec.node_name
    assert (one.metadata.name, other.metadata.name) == ("a", "bb")
    assert (one.metadata.uid, other.metadata.uid) == ("uid-a", "uid-bb")
    assert (one.status.start_time, other.status.start_time) == ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z")


def test_parts_of_templates_that_differ_are_shared_where_they_are_equal() -> None:
    keep = PodSharing().keep
    one, other = a_pod("a"), a_pod("b")
    other = replace(other, metadata=replace(other.metadata, labels={"job": "b"}))
    one, other = keep(one), keep(other)
    assert (one.metadata.labels, other.metadata.labels) == ({"app": "web"}, {"job": "b"})
    assert one.spec.containers is other.spec.containers


def test_empty_parts_of_different_kinds_are_not_taken_for_each_other() -> None:
    keep = PodSharing().keep
    pod = a_pod("a")
    one = keep(replace(pod, spec=replace(pod.spec, affinity=Affinity())))
    other = keep(replace(pod, spec=replace(pod.spec, resources=ResourceRequirements(), node_selector={})))
    assert (one.spec.affinity, one.spec.resources) == (Affinity(), None)
    assert (other.spec.affinity, other.spec.resources, other.spec.node_selector) == (None, ResourceRequirements(), {})


def test_a_waiting_pod_is_kept_as_it_is_but_for_volumes_that_say_nothing() -> None:
    pod = a_pod("a")
    condition = PodCondition("PodScheduled", "False", "Unschedulable", "0/3 nodes", "2026-01-01T00:00:00Z")
    pod = replace(pod, spec=replace(pod.spec, node_name=""), status=PodStatus(conditions=[condition]))
    assert pod.spec.volumes is not None
    assert PodSharing().keep(pod) == replace(pod, spec=replace(pod.spec, volumes=pod.spec.volumes[1:]))


def test_volumes_that_say_nothing_are_left_out() -> None:
    kept = PodSharing().keep(a_pod("a"))
    assert kept.spec.volumes == [
        Volume("data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
    ]


def test_a_bound_pods_routine_conditions_lose_their_times_and_others_do_not() -> None:
    routine = PodCondition("Ready", "True", "", "all is well", "2026-01-01T00:00:00Z")
    special = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler", "m", "2026-01-01T00:00:00Z")
    resize = PodCondition("PodResizePending", "True", "Infeasible", "m", "2026-01-01T00:00:00Z")
    pod = replace(a_pod("a"), status=PodStatus(conditions=[routine, special, resize]))
    assert PodSharing().keep(pod).status.conditions == [PodCondition("Ready", "True"), special, resize]


def test_statuses_of_containers_stay_if_they_say_something_of_resources() -> None:
    silent = ContainerStatus("c")
    granted = ContainerStatus("d", ResourceRequirements(requests={"cpu": "2"}), {"cpu": "2"})
    pod = replace(a_pod("a"), status=PodStatus(container_statuses=[silent, granted]))
    assert PodSharing().keep(pod).status.container_statuses == [granted]


def test_the_copy_of_the_object_for_kubectl_is_left_out_and_other_annotations_stay() -> None:
    keep = PodSharing().keep
    pod = a_pod("a")

    def annotated(annotations: dict[str, str]) -> Pod:
        return keep(replace(pod, metadata=replace(pod.metadata, annotations=annotations)))

    assert annotated({LAST_APPLIED: "{}", "x": "y"}).metadata.annotations == {"x": "y"}
    assert annotated({LAST_APPLIED: "{}"}).metadata.annotations is None


def test_what_msgpack_cannot_write_is_kept_unshared() -> None:
    huge = Container("c", resources=ResourceRequirements(requests={"cpu": 1 << 80}))
    pod = Pod(ObjectMeta("a", "ns"), PodSpec("n", containers=[huge]))
    assert PodSharing().keep(pod).spec.containers == [huge]


REQUESTS = st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from(("1", "2", 1, 2)), max_size=2)
CONTAINERS = st.builds(
    Container, name=st.sampled_from("cd"), resources=st.builds(ResourceRequirements, requests=REQUESTS)
)
STATUSES = st.builds(
    ContainerStatus,
    name=st.sampled_from("cd"),
    resources=st.none() | st.builds(ResourceRequirements, requests=REQUESTS),
)
PODS = st.builds(
    Pod,
    metadata=st.builds(ObjectMeta, name=st.just("a"), labels=st.none() | st.just({}) | st.just({"a": "b"})),
    spec=st.builds(
        PodSpec,
        node_name=st.sampled_from(("", "n")),
        containers=st.lists(CONTAINERS, max_size=2),
        init_containers=st.none() | st.lists(CONTAINERS, max_size=1),
    ),
    status=st.builds(
        PodStatus,
        start_time=st.none() | st.just("2026-01-01T00:00:00Z"),
        conditions=st.none()
        | st.lists(st.builds(PodCondition, type=st.sampled_from(("Ready", "PodResizePending"))), max_size=2),
        container_statuses=st.none() | st.lists(STATUSES, max_size=2),
        resource_claim_statuses=st.none() | st.just([PodResourceClaimStatus("gpu", "a-gpu-x7")]),
        extended_resource_claim_status=st.none() | st.just(PodExtendedResourceClaimStatus(None, "a-extended")),
        node_allocatable_resource_claim_statuses=st.none()
        | st.just([NodeAllocatableResourceClaimStatus("a-gpu-x7", resources={"cpu": "1"})]),
    ),
)


@given(st.lists(PODS, min_size=1, max_size=8))
def test_whatever_came_before_a_kept_pod_asks_for_what_it_asked_for(pods: list[Pod]) -> None:
    keep = PodSharing().keep
    for pod in pods:
        kept = keep(pod)
        assert kept.metadata == pod.metadata
        assert kept.spec == pod.spec
        assert pod_resources(kept) == pod_resources(pod)
        assert pod_resources(kept, counts_claims=True) == pod_resources(pod, counts_claims=True)
        assert kept.status.start_time == pod.status.start_time
        assert kept.status.resource_claim_statuses == pod.status.resource_claim_statuses
        assert kept.status.extended_resource_claim_status == pod.status.extended_resource_claim_status
        assert keep(kept) == kept
        assert [event.action for event in pod_events(pod, kept)] == [Action.UPDATE_POD_OTHER]  # no change with a name


# --- nodes ------------------------------------------------------------------------------------------------------


def test_nodes_share_images_conditions_and_amounts() -> None:
    def a_node(name: str) -> Node:
        whole = Node(
            ObjectMeta(name, labels={"zone": "a"}),
            status=NodeStatus(
                {"cpu": "4"},
                {"cpu": "3"},
                [ContainerImage(["registry/app:1"], 10), ContainerImage([f"registry/{name}:1"], 10)],
                [NodeCondition("Ready", "True")],
            ),
        )
        return decode_object(msgspec.json.encode(whole), Node)

    keep = NodeSharing().keep
    first, second = a_node("n1"), a_node("n2")
    one, other = keep(first), keep(second)
    assert (one, other) == (first, second)
    assert one.status.images
    assert other.status.images
    assert one.status.images[0] is other.status.images[0]
    assert one.status.conditions is other.status.conditions
    assert one.status.allocatable is other.status.allocatable
    assert one.spec is other.spec


def test_a_node_without_amounts_leaves_others_their_spec() -> None:
    keep = NodeSharing().keep
    assert keep(Node(ObjectMeta("empty"), status=NodeStatus({}, {}))).status.allocatable == {}
    assert keep(Node(ObjectMeta("plain"))).spec == NodeSpec()


def test_a_node_from_the_builder_is_kept_as_it_is() -> None:
    node = make_node("n1").obj()
    assert NodeSharing().keep(node) == node


def test_of_a_recent_binding_its_time_stays_where_somebody_asks_for_it() -> None:
    def bound(name: str, at: str) -> Pod:
        conditions = [
            PodCondition("PodScheduled", "True", last_transition_time=at),
            PodCondition("Ready", "True", last_transition_time=at),
        ]
        return replace(a_pod(name), status=PodStatus("Running", conditions=conditions))

    keep = PodSharing(bound_since=lambda: "2026-01-01T00:00:00Z").keep
    one, other = keep(bound("a", "2026-01-01T00:00:07Z")), keep(bound("b", "2026-01-01T00:00:07Z"))
    assert one.status.conditions == [
        PodCondition("PodScheduled", "True", last_transition_time="2026-01-01T00:00:07Z"),
        PodCondition("Ready", "True"),
    ]
    assert one.status is other.status, "pods that were bound in one second share it"
    for old in (keep(bound("c", "2025-12-31T23:59:59Z")), PodSharing().keep(bound("d", "2026-01-01T00:00:07Z"))):
        assert old.status.conditions == [PodCondition("PodScheduled", "True"), PodCondition("Ready", "True")]


# --- bounds -----------------------------------------------------------------------------------------------------


def test_what_is_remembered_of_ever_new_templates_is_bounded() -> None:
    sharing = PodSharing(max_key_bytes=50_000)
    sizes = []
    for count in range(4_000):
        sharing.keep(Pod(ObjectMeta(f"p{count}", labels={"job": f"j{count}"}), PodSpec("n")))
        sizes.append(len(sharing._templates) + len(sharing._statuses) + len(sharing._parts) + len(sharing.strings))
    assert max(sizes[2_000:]) <= max(sizes[:2_000])


def test_a_part_that_is_met_again_is_not_forgotten() -> None:
    shared: Shared[list[str]] = Shared(max_key_bytes=10_000)
    first = shared.get(["often"])
    for count in range(1_000):
        shared.get([f"once {count}"])
        assert shared.get(["often"]) is first
    assert len(shared) < 110


def test_text_that_is_met_again_is_the_same_object_and_other_text_is_forgotten() -> None:
    strings = Strings(most=100)
    first = strings["node-" + "1"]
    for count in range(1_000):
        strings[f"once-{count}"]
        assert strings["".join(["node", "-1"])] is first
    assert len(strings) <= 200


def test_values_that_are_written_differently_are_distinguished() -> None:
    shared: Shared[Any] = Shared()
    values = [{"cpu": 1}, {"cpu": "1"}, {"cpu": 1.0}, {}, None, [], {"a": None}]
    assert all(shared.get(value) is value for value in values)


# --- controllers and services -----------------------------------------------------------------------------------


def test_a_controller_keeps_what_says_which_pods_are_its_own() -> None:
    selector = LabelSelector({"app": "web"})
    whole = Workload(
        ObjectMeta("rs", "ns", "u", "7", 3, {"app": "web"}, {"revision": "4"}, "2026-01-01T00:00:00Z"),
        WorkloadSpec(selector),
    )
    assert keep_selector(whole) == Workload(ObjectMeta("rs", "ns", "u", "7"), WorkloadSpec(selector))
