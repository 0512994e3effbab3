"""Without an apiserver, objects are completed as one would."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.defaults import namespace_with_defaults, node_with_defaults, with_defaults
from kscheduler.api.objects import (
    RBD,
    AzureDisk,
    Container,
    ContainerPort,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    QuantityMap,
    ResourceRequirements,
    Volume,
)
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


def test_pod_level_requests_are_completed_without_pod_level_limits_since_1_37() -> None:
    pod = make_pod("p").pod_level_req(cpu="3").req(cpu="1", memory=5).container(memory=7).obj()
    found = {completes: with_defaults(pod, completes_pod_level_requests=completes).spec for completes in (False, True)}
    assert found[False].resources == ResourceRequirements(requests={"cpu": "3"})
    assert found[True].resources == ResourceRequirements(requests={"cpu": "3", "memory": 12})
    plain = make_pod("p").req(cpu="1").obj()
    assert with_defaults(plain, completes_pod_level_requests=True).spec.resources is None


HUGE = "hugepages-2Mi"


def own_resources(pod: PodBuilder) -> ResourceRequirements:
    resources = with_defaults(pod.obj()).spec.resources
    assert resources is not None
    return resources


def test_pod_level_limits_of_huge_pages_are_those_of_the_containers() -> None:
    pod = make_pod("p").pod_level_req(cpu="1").limits(**{HUGE: "4Mi"}).container().limits(**{HUGE: "2Mi"})
    found = own_resources(pod)
    assert found.limits == {HUGE: 6 << 20}
    assert found.requests == {"cpu": "1", HUGE: 6 << 20}


def test_an_init_container_that_needs_more_huge_pages_sets_the_pod_level_limit() -> None:
    pod = make_pod("p").pod_level_req(cpu="1").limits(**{HUGE: "2Mi"}).obj()
    first = Container("first", resources=ResourceRequirements(limits={HUGE: "8Mi"}))
    completed = with_defaults(replace(pod, spec=replace(pod.spec, init_containers=[first]))).spec.resources
    assert completed is not None
    assert completed.limits == {HUGE: 8 << 20}


def test_huge_pages_that_a_pod_names_itself_stay_and_other_resources_get_no_pod_level_limit() -> None:
    asking = make_pod("p").pod_level_req(**{HUGE: "2Mi"}).limits(**{HUGE: "4Mi"}, cpu="1")
    assert own_resources(asking) == ResourceRequirements(requests={HUGE: "2Mi"})
    plain = make_pod("p").limits(**{HUGE: "4Mi"})
    assert with_defaults(plain.obj()).spec.resources is None


def test_disks_get_the_kind_and_the_pool_that_they_do_not_name() -> None:
    volumes = [
        Volume(azure_disk=AzureDisk("a")),
        Volume(azure_disk=AzureDisk("b", kind="Managed")),
        Volume(rbd=RBD(["m"], "i")),
        Volume(rbd=RBD(["m"], "i", "own")),
        Volume("empty"),
    ]
    spec = with_defaults(Pod(spec=PodSpec(volumes=volumes))).spec
    assert [volume.azure_disk.kind for volume in spec.volumes or () if volume.azure_disk] == ["Shared", "Managed"]
    assert [volume.rbd.pool for volume in spec.volumes or () if volume.rbd] == ["rbd", "own"]


def test_a_namespace_is_labelled_with_its_name() -> None:
    stored = namespace_with_defaults(Namespace(ObjectMeta(name="shop", labels={"team": "a"})))
    assert stored.metadata.labels == {"team": "a", "kubernetes.io/metadata.name": "shop"}
    assert namespace_with_defaults(Namespace()) == Namespace()


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
