"""The builders say in a few words what the API says in many."""

from __future__ import annotations

import msgspec
import pytest

from kscheduler.api.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    ResourceRequirements,
    Taint,
    Toleration,
    WeightedPodAffinityTerm,
)
from kscheduler.testing import make_node, make_pod


def test_a_pod_starts_with_one_container_and_a_uid_of_its_own() -> None:
    pod = make_pod("p", "shop").obj()
    assert pod.key == "shop/p"
    assert pod.spec.containers == [Container(name="c0")]
    assert len({make_pod(*name).obj().metadata.uid for name in [("p", "a"), ("p", "b"), ("q", "a")]}) == 3


def test_a_builder_is_never_changed() -> None:
    base = make_pod("p").label("a", "b").req(cpu="1")
    before = base.obj()
    base.label("c", "d").req(memory="1Gi").toleration("k").node("n").init_container()
    assert base.obj() is before
    node = make_node("n").capacity(cpu="1")
    node.taint("k").label("a", "b").allocatable(cpu="2")
    assert node.obj().spec.taints is None


def test_words_about_containers_speak_of_the_last_one() -> None:
    pod = make_pod("p").req(cpu="1").container("side", memory="1Gi").req(cpu="2").limits(cpu="3").image("x").obj()
    assert pod.spec.containers == [
        Container(name="c0", resources=ResourceRequirements(requests={"cpu": "1"})),
        Container(
            name="side",
            image="x",
            resources=ResourceRequirements(requests={"memory": "1Gi", "cpu": "2"}, limits={"cpu": "3"}),
        ),
    ]


def test_resource_names_are_written_as_python_words() -> None:
    pod = make_pod("p").req(ephemeral_storage="1Gi", hugepages_2Mi="2Mi", **{"example.com/a_b": 1}).obj()
    resources = pod.spec.containers[0].resources
    assert resources is not None
    assert resources.requests == {"ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi", "example.com/a_b": 1}


def test_an_init_container_may_be_a_sidecar() -> None:
    pod = make_pod("p").init_container(cpu="1").init_container("proxy", restart_policy="Always").obj()
    assert pod.spec.init_containers == [
        Container(name="init0", resources=ResourceRequirements(requests={"cpu": "1"})),
        Container(name="proxy", restart_policy="Always"),
    ]


def test_labels_are_pairs_or_words() -> None:
    pod = make_pod("p").label("a.b/c", "1", "d", "2", e="3").label(f="4").node_selector("x", "y").obj()
    assert pod.metadata.labels == {"a.b/c": "1", "d": "2", "e": "3", "f": "4"}
    assert pod.spec.node_selector == {"x": "y"}
    with pytest.raises(TypeError, match="key, value pairs"):
        make_pod("p").label("lonely")


def test_node_affinity_is_one_term_until_a_new_one_is_asked_for() -> None:
    pod = make_pod("p").node_affinity_in("a", ["1"]).node_affinity_not_in("b", ["2"])
    pod = pod.node_affinity("c", "Exists", new_term=True).node_names("n").preferred_node_affinity(5, "d", ["3"])
    assert pod.obj().spec.affinity is not None
    assert msgspec.to_builtins(pod.obj().spec.affinity) == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "a", "operator": "In", "values": ["1"]},
                            {"key": "b", "operator": "NotIn", "values": ["2"]},
                        ]
                    },
                    {"matchExpressions": [{"key": "c", "operator": "Exists"}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "d", "operator": "In", "values": ["3"]}]}}
            ],
        }
    }


def test_the_rest_of_a_pod() -> None:
    pod = (
        make_pod("p")
        .uid("u")
        .resource_version("7")
        .annotation("a", "b")
        .owner("ReplicaSet", "rs")
        .created("2026-01-01T00:00:00Z")
        .terminating()
        .node("n")
        .priority(10)
        .preemption_policy("Never")
        .scheduler_name("mine")
        .scheduling_gate("g")
        .host_network()
        .overhead(cpu="1m")
        .pod_level_req(cpu="1")
        .toleration("k", operator="Exists", effect="NoSchedule")
        .host_port(80, "UDP", "10.0.0.1")
        .phase("Running")
        .nominated_node("m")
        .condition("PodScheduled", "False", "Unschedulable", "no room")
        .obj()
    )
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    assert (metadata.uid, metadata.resource_version, metadata.annotations) == ("u", "7", {"a": "b"})
    assert [owner.controller for owner in metadata.owner_references or ()] == [True]
    assert metadata.deletion_timestamp
    assert (spec.node_name, spec.priority, spec.scheduler_name) == ("n", 10, "mine")
    assert spec.preemption_policy == "Never"
    assert spec.scheduling_gates == [PodSchedulingGate("g")]
    assert spec.overhead == {"cpu": "1m"}
    assert spec.resources == ResourceRequirements(requests={"cpu": "1"})
    assert spec.tolerations == [Toleration("k", "Exists", "", "NoSchedule")]
    assert spec.containers[0].ports == [ContainerPort(80, 80, "10.0.0.1", "UDP")]
    assert (status.phase, status.nominated_node_name) == ("Running", "m")
    assert [condition.reason for condition in status.conditions or ()] == ["Unschedulable"]


def test_a_node_carries_its_hostname_and_its_allocatable_is_its_capacity_unless_given() -> None:
    node = make_node("n").capacity(cpu="4", **{"example.com/gpu": 2}).allocatable(cpu="3").obj()
    assert node.metadata.labels == {"kubernetes.io/hostname": "n"}
    assert node.status.capacity == {"cpu": "4", "example.com/gpu": 2, "pods": 110}
    assert node.status.allocatable == {"cpu": "3", "example.com/gpu": 2, "pods": 110}


def test_the_rest_of_a_node() -> None:
    node = (
        make_node("n")
        .uid("u")
        .resource_version("7")
        .annotation("a", "b")
        .taint("k", "v", "NoExecute")
        .unschedulable()
        .image("i", 5)
        .condition("Ready", "True")
        .declared_feature("F")
        .obj()
    )
    assert (node.metadata.uid, node.metadata.resource_version) == ("u", "7")
    assert node.spec.taints == [Taint("k", "v", "NoExecute")]
    assert node.spec.unschedulable
    assert node.status.images == [ContainerImage(["i"], 5)]
    assert [(condition.type, condition.status) for condition in node.status.conditions or ()] == [("Ready", "True")]
    assert node.status.declared_features == ["F"]


def test_what_is_built_can_be_sent_and_received() -> None:
    pod = make_pod("p").req(cpu="1").host_port(80).node_affinity_in("a", ["b"]).obj()
    node = make_node("n").capacity(cpu="4").taint("k").obj()
    assert msgspec.json.decode(msgspec.json.encode(pod), type=Pod) == pod
    assert msgspec.json.decode(msgspec.json.encode(node), type=Node) == node


def test_pod_affinity_terms_are_added_to_those_of_their_kind() -> None:
    empty = LabelSelector()
    pod = (
        make_pod("p")
        .pod_affinity("zone", {"app": "a"})
        .pod_affinity("host", None, namespaces=["x"], namespace_selector=empty)
        .pod_anti_affinity("host", empty)
        .preferred_pod_affinity(5, "zone", {"app": "b"})
        .preferred_pod_anti_affinity(7, "zone", {"app": "c"})
        .obj()
    )
    web, anywhere = PodAffinityTerm("zone", LabelSelector({"app": "a"})), PodAffinityTerm("host", None, ["x"], empty)
    assert pod.spec.affinity == Affinity(
        pod_affinity=PodAffinity(
            [web, anywhere], [WeightedPodAffinityTerm(5, PodAffinityTerm("zone", LabelSelector({"app": "b"})))]
        ),
        pod_anti_affinity=PodAffinity(
            [PodAffinityTerm("host", empty)],
            [WeightedPodAffinityTerm(7, PodAffinityTerm("zone", LabelSelector({"app": "c"})))],
        ),
    )
