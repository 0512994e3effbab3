"""Without an apiserver, objects are completed as one would."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.defaults import node_with_defaults, with_defaults
from kscheduler.api.objects import ContainerPort, Node, NodeStatus, Pod, PodSpec, QuantityMap, ResourceRequirements
from kscheduler.testing import PodBuilder, make_pod


def requests(pod: PodBuilder) -> list[QuantityMap | None]:
    spec = with_defaults(pod.obj()).spec
    return [c.resources.requests if c.resources else None for c in [*spec.containers, *(spec.init_containers or ())]]


def pod_level(pod: PodBuilder, **limits: str) -> QuantityMap | None:
    built = pod.obj()
    old = built.spec.resources or ResourceRequirements()
    spec = replace(built.spec, resources=replace(old, limits=limits))
    resources = with_defaults(replace(built, spec=spec)).spec.resources
    return resources.requests if resources else None


def test_requests_follow_from_limits_where_they_are_missing() -> None:
    assert requests(make_pod("p").req(cpu="1").limits(cpu="2", memory="1Gi")) == [{"cpu": "1", "memory": "1Gi"}]
    assert requests(make_pod("p").limits(cpu="2")) == [{"cpu": "2"}]
    assert requests(make_pod("p")) == [None]


def test_pod_level_requests_are_what_containers_ask_for_or_else_the_limits() -> None:
    assert pod_level(make_pod("p").req(cpu="1").container(cpu="500m"), cpu="4", memory="8Gi") == {
        "cpu": "1500m",
        "memory": "8Gi",
    }
    assert pod_level(make_pod("p").pod_level_req(cpu="3"), cpu="4") == {"cpu": "3"}
    assert pod_level(make_pod("p").overhead(cpu="1").req(cpu="1"), cpu="4") == {"cpu": "1000m"}
    assert pod_level(make_pod("p"), **{"example.com/gpu": "1"}) is None


def test_a_host_network_makes_container_ports_host_ports() -> None:
    pod = make_pod("p").host_network().obj()
    container = replace(pod.spec.containers[0], ports=[ContainerPort(80), ContainerPort(81, host_port=8081)])
    completed = with_defaults(replace(pod, spec=replace(pod.spec, containers=[container])))
    assert [port.host_port for port in completed.spec.containers[0].ports or ()] == [80, 8081]


def test_priority_and_names_are_filled_in() -> None:
    bare = with_defaults(Pod(spec=PodSpec(scheduler_name="")))
    assert (bare.metadata.namespace, bare.spec.scheduler_name, bare.spec.priority) == (
        "default",
        "default-scheduler",
        0,
    )
    assert bare.spec.preemption_policy == "PreemptLowerPriority"
    critical = with_defaults(Pod(spec=PodSpec(priority_class_name="system-node-critical")))
    assert critical.spec.priority == 2_000_001_000


def test_what_is_stated_stays() -> None:
    pod = make_pod("p", "shop").priority(7).scheduler_name("mine").preemption_policy("Never").req(cpu=1).obj()
    assert with_defaults(pod) == pod


def test_defaulting_twice_changes_nothing_more() -> None:
    once = with_defaults(make_pod("p").limits(cpu=1).init_container(cpu=1).obj())
    assert with_defaults(once) == once


def test_allocatable_is_capacity_unless_stated() -> None:
    assert node_with_defaults(Node(status=NodeStatus(capacity={"cpu": 4}))).status.allocatable == {"cpu": 4}
    stated = Node(status=NodeStatus(capacity={"cpu": 4}, allocatable={"cpu": 3}))
    assert node_with_defaults(stated) is stated
    assert node_with_defaults(Node()) == Node()
