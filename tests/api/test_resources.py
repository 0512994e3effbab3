"""What a pod asks for follows kube-scheduler's arithmetic."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import (
    Node,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
    QuantityMap,
)
from kscheduler.api.quantity import MAX_INT64
from kscheduler.api.resources import (
    DEFAULT_CPU_MILLI,
    DEFAULT_MEMORY,
    PodResources,
    Resources,
    claimed_resources,
    is_extended,
    is_scalar,
    node_allocatable,
    pod_resources,
)
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.errors import DecodeError
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod

GIB = 2**30
GPU = "example.com/gpu"


def asked(pod: PodBuilder) -> tuple[int, int]:
    total = pod_resources(pod.obj()).total
    return total.cpu_milli, total.memory


def running(spec: PodBuilder, status: dict[str, object], release: Release = RELEASE_1_36) -> PodResources:
    """What the pod counts for, once the kubelet has reported this."""
    document = msgspec.to_builtins(spec.obj())
    pod = msgspec.convert({**document, "status": status}, Pod)
    return pod_resources(pod, sums_resizes_apart=release.sums_resizes_apart)


def test_an_amount_is_found_by_its_name() -> None:
    total = pod_resources(make_pod("p").req(cpu="1", memory=5, ephemeral_storage=7, **{GPU: 2}).obj()).total
    names = ("cpu", "memory", "ephemeral-storage", GPU, "example.com/other")
    assert [total.amount(name) for name in names] == [1000, 5, 7, 2, 0]


@pytest.mark.parametrize(
    ("sentence", "pod", "expected"),
    [
        ("nothing", make_pod("p"), (0, 0)),
        ("one container", make_pod("p").req(cpu="1", memory="1Gi"), (1000, GIB)),
        ("containers are summed", make_pod("p").req(cpu="1").container(cpu="500m", memory=1), (1500, 1)),
        ("limits are no requests", make_pod("p").limits(cpu="1"), (0, 0)),
        (
            "the largest init container counts if it is more",
            make_pod("p").req(cpu=1, memory=5).init_container(cpu=3).init_container(cpu=2, memory=4),
            (3000, 5),
        ),
        (
            "a sidecar is summed with the containers",
            make_pod("p").req(cpu=1).init_container(cpu=2, restart_policy="Always"),
            (3000, 0),
        ),
        (
            "an init container needs its own on top of the sidecars before it",
            make_pod("p").req(cpu=1).init_container(cpu=2, restart_policy="Always").init_container(cpu=4),
            (6000, 0),
        ),
        (
            "an init container does not wait for the sidecars after it",
            make_pod("p").req(cpu=1).init_container(cpu=4).init_container(cpu=2, restart_policy="Always"),
            (4000, 0),
        ),
        ("overhead is added last", make_pod("p").req(cpu=1).init_container(cpu=3).overhead(cpu="250m"), (3250, 0)),
        (
            "pod-level requests take the place of the sum, more or less",
            make_pod("p").req(cpu=1, memory=5).pod_level_req(cpu="200m").overhead(cpu="50m"),
            (250, 5),
        ),
        ("rounding comes after summing", make_pod("p").req(memory="400m").container(memory="400m"), (0, 1)),
        ("too much is capped", make_pod("p").req(memory="8Ei").container(memory="8Ei"), (0, MAX_INT64)),
    ],
)
def test_a_pod_asks_for(sentence: str, pod: PodBuilder, expected: tuple[int, int]) -> None:
    assert asked(pod) == expected, sentence


def test_resources_that_are_counted_by_name_come_sorted_and_others_are_ignored() -> None:
    amounts: QuantityMap = {
        "example.com/gpu": 2,
        "hugepages-2Mi": "4Mi",
        "storage": "1Gi",
        "pods": 5,
        "ephemeral-storage": "1k",
    }
    total = pod_resources(make_pod("p").req(cpu=1, **amounts).obj()).total
    assert total.ephemeral_storage == 1000
    assert list(total.scalars.items()) == [("example.com/gpu", 2), ("hugepages-2Mi", 4 * 2**20)]


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("cpu", False, False),
        ("pods", False, False),
        ("unknown", False, False),
        ("hugepages-1Gi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("kubernetes.io/x", True, False),
        ("deviceclass.resource.kubernetes.io/gpu", True, False),
        ("example.com/gpu", True, True),
        ("nvidia.com/mig-1g.5gb", True, True),
        ("requests.example.com/gpu", False, False),
        ("example.com/", False, False),
        ("/gpu", False, False),
        ("Example.com/gpu", False, False),
        ("example.com/a/b", False, False),
        ("example.com/-gpu", False, False),
        (f"example.com/{'a' * 63}", True, True),
        (f"example.com/{'a' * 64}", False, False),
        (f"{'a' * 245}/gpu", False, False),
    ],
)
def test_resource_names_are_classed(name: str, scalar: bool, extended: bool) -> None:
    assert (is_scalar(name), is_extended(name)) == (scalar, extended)


@pytest.mark.parametrize(
    ("sentence", "pod", "non_zero", "score"),
    [
        ("a container without requests", make_pod("p"), (100, DEFAULT_MEMORY), (100, DEFAULT_MEMORY)),
        ("a request of zero is a request", make_pod("p").req(cpu=0, memory=0), (0, 0), (0, 0)),
        ("each of two containers", make_pod("p").req(cpu=1).container(), (1100, 2 * DEFAULT_MEMORY), None),
        ("init containers too", make_pod("p").req(cpu="10m", memory=1).init_container(), (100, DEFAULT_MEMORY), None),
        ("overhead on top", make_pod("p").overhead(cpu="5m", memory=7), (105, DEFAULT_MEMORY + 7), None),
        (
            "not if the pod asks as a whole",
            make_pod("p").container().pod_level_req(cpu="50m", memory=9),
            (50, 9),
            (200, 2 * DEFAULT_MEMORY),
        ),
        (
            "but for what the pod does not ask as a whole",
            make_pod("p").container().pod_level_req(cpu="50m"),
            (50, 2 * DEFAULT_MEMORY),
            (200, 2 * DEFAULT_MEMORY),
        ),
        (
            "unless one container asks for it",
            make_pod("p").container(memory=6).pod_level_req(cpu="50m"),
            (50, 6),
            (200, DEFAULT_MEMORY + 6),
        ),
        (
            "hugepages for the pod as a whole stand in for the requests of a container that asks",
            make_pod("p").container(cpu=1, memory=5).pod_level_req(**{"hugepages-2Mi": "2Mi"}),
            (1000, 5),
            (1100, DEFAULT_MEMORY + 5),
        ),
        (
            "a pod-level resource of another kind changes nothing",
            make_pod("p").pod_level_req(**{"example.com/gpu": 1}),
            (100, DEFAULT_MEMORY),
            (100, DEFAULT_MEMORY),
        ),
    ],
)
def test_scoring_counts_a_default_for(
    sentence: str, pod: PodBuilder, non_zero: tuple[int, int], score: tuple[int, int] | None
) -> None:
    resources = pod_resources(pod.obj())
    assert (resources.non_zero_cpu_milli, resources.non_zero_memory) == non_zero, sentence
    assert (resources.score_cpu_milli, resources.score_memory) == (score or non_zero), sentence


def test_pod_level_requests_do_not_count_in_the_fit_score_of_the_pod() -> None:
    resources = pod_resources(make_pod("p").req(cpu=1).pod_level_req(cpu=3, **{"hugepages-2Mi": "2Mi"}).obj())
    assert resources.total == Resources(cpu_milli=3000, scalars={"hugepages-2Mi": 2 * 2**20})
    assert resources.containers_only == Resources(cpu_milli=1000)


RESIZED = make_pod("p").req(cpu="2", memory="1Gi")


@pytest.mark.parametrize(
    ("sentence", "container", "conditions", "expected"),
    [
        ("a larger actual request counts", {"resources": {"requests": {"cpu": "3"}}}, [], (3000, GIB)),
        (
            "a larger granted one too",
            {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "4", "memory": "2Gi"}},
            [],
            (4000, 2 * GIB),
        ),
        ("a smaller one does not", {"resources": {"requests": {"cpu": "1"}}}, [], (2000, GIB)),
        ("nothing counts without resources in use", {"allocatedResources": {"cpu": "4"}}, [], (2000, GIB)),
        (
            "what was asked does not count if it is infeasible",
            {"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "500m", "memory": 5}},
            [{"type": "PodResizePending", "reason": "Infeasible"}],
            (1000, 5),
        ),
        (
            "it counts if it is only deferred",
            {"resources": {"requests": {"cpu": "1"}}},
            [{"type": "Ready"}, {"type": "PodResizePending", "reason": "Deferred"}],
            (2000, GIB),
        ),
    ],
)
def test_a_container_resized_in_place(
    sentence: str, container: dict[str, object], conditions: list[object], expected: tuple[int, int]
) -> None:
    status = {"containerStatuses": [{"name": "c0", **container}], "conditions": conditions}
    resources = running(RESIZED, status)
    assert (resources.total.cpu_milli, resources.total.memory) == expected, sentence
    assert resources.containers_only == Resources(2000, GIB), "the score of a pod to be placed ignores statuses"


def test_only_sidecars_among_init_containers_are_resized() -> None:
    reported = {"resources": {"requests": {"cpu": "5"}}}
    status: dict[str, object] = {
        "initContainerStatuses": [{"name": "init0", **reported}, {"name": "init1", **reported}]
    }
    pod = make_pod("p").init_container(cpu=1).init_container(cpu=1, restart_policy="Always")
    assert running(pod, status).total.cpu_milli == 5000
    assert running(make_pod("p").init_container(cpu=1), status).total.cpu_milli == 1000


def test_a_pod_resized_as_a_whole_counts_what_it_has_in_use() -> None:
    pod = make_pod("p").pod_level_req(cpu=1, memory=5)
    status: dict[str, object] = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    assert running(pod, status).total == Resources(cpu_milli=3000, memory=5)
    infeasible = {**status, "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    assert running(pod, infeasible).total == Resources(cpu_milli=3000, memory=0)
    assert running(make_pod("p").req(cpu=1), status).total == Resources(cpu_milli=1000)


INFEASIBLE: dict[str, object] = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}


def of(name: str, in_use: object = None, granted: object = None) -> dict[str, object]:
    """The status of a container: cpu that it uses, and that it has been granted."""
    status: dict[str, object] = {"name": name}
    if in_use is not None:
        status["resources"] = {"requests": {"cpu": in_use}}
    return status if granted is None else {**status, "allocatedResources": {"cpu": granted}}


TWO = make_pod("p").req(cpu=1).container(cpu=1)
INIT = make_pod("p").req(cpu=1).init_container(cpu=2)


@pytest.mark.parametrize(
    ("sentence", "pod", "status", "expected"),  # cpu by release: 1.36 and 1.37
    [
        ("the same without a resize", TWO, {"containerStatuses": [of("c0", 1, 1), of("c1", 1, 1)]}, (2000, 2000)),
        (
            "containers that grow and shrink: each at its largest, or the largest sum",
            TWO,
            {"containerStatuses": [of("c0", 3, 2), of("c1", "100m", 1)]},
            (4000, 3100),
        ),
        (
            "sums of amounts asked, granted and used",
            TWO,
            {"containerStatuses": [of("c0", 1, 2), of("c1", 4, 1)]},
            (6000, 5000),
        ),
        ("granted amounts without any in use", TWO, {"containerStatuses": [of("c0", None, 4)]}, (2000, 5000)),
        ("an init container's status", INIT, {"initContainerStatuses": [of("init0", 5, 5)]}, (2000, 5000)),
        (
            "what was asked for, if it is infeasible",
            make_pod("p").req(cpu=8).container(cpu=1),
            {"containerStatuses": [of("c0", 1, 2), of("c1", 3, 1)], **INFEASIBLE},
            (5000, 4000),
        ),
        (
            "a container without a status, if it is infeasible",
            TWO,
            {"containerStatuses": [of("c0", 3, 3)], **INFEASIBLE},
            (4000, 3000),
        ),
        ("containers without any status, if it is infeasible", TWO, INFEASIBLE, (2000, 0)),
        ("one container without a status, if it is infeasible", make_pod("p").req(cpu=1), INFEASIBLE, (1000, 0)),
        (
            "the pod's own status in place of its containers'",
            TWO,
            {
                "containerStatuses": [of("c0", 9, 9)],
                "resources": {"requests": {"cpu": 4}},
                "allocatedResources": {"cpu": 3},
            },
            (10000, 4000),
        ),
        (
            "the pod's own status without its containers'",
            make_pod("p").req(cpu=1),
            {"resources": {"requests": {"cpu": 4}}, "allocatedResources": {"cpu": 3}},
            (1000, 4000),
        ),
        (
            "not if it only has one of both",
            TWO,
            {"containerStatuses": [of("c0", 9, 9)], "resources": {"requests": {"cpu": 4}}},
            (10000, 10000),
        ),
    ],
)
@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_a_resized_pod_counts_by_its_containers_in_1_36_and_by_its_sums_in_1_37(
    sentence: str, pod: PodBuilder, status: dict[str, object], expected: tuple[int, int], release: Release
) -> None:
    resources = running(pod, status, release)
    assert resources.total.cpu_milli == expected[release is RELEASE_1_37], sentence
    assert resources.containers_only == running(pod, {}).containers_only


def test_pod_level_requests_of_a_resized_pod_may_name_more_resources_in_1_37() -> None:
    pod = make_pod("p").pod_level_req(cpu=1).container(memory=7)
    status: dict[str, object] = {
        "resources": {"requests": {"cpu": 3, "memory": 9, "example.com/gpu": 1}},
        "allocatedResources": {"cpu": 2, "memory": 5},
    }
    assert running(pod, status, RELEASE_1_36).total == Resources(cpu_milli=3000, memory=7)
    found = running(pod, status, RELEASE_1_37)
    assert found.total == Resources(cpu_milli=3000, memory=9, scalars={"example.com/gpu": 1})
    # An infeasible request without anything in use or granted: 1.36 counts none, 1.37 what the containers request.
    nothing: dict[str, object] = {"resources": {}, **INFEASIBLE}
    pod = make_pod("p").pod_level_req(cpu=1).container(cpu=7)
    assert running(pod, nothing, RELEASE_1_36).total.cpu_milli == 0
    assert running(pod, nothing, RELEASE_1_37).total.cpu_milli == 0


def test_scoring_defaults_are_added_in_each_of_the_sums_in_1_37() -> None:
    pod = make_pod("p").container()
    status: dict[str, object] = {"containerStatuses": [of("c0", "50m", "300m"), of("c1", None, "10m")]}
    found = {release: running(pod, status, release).non_zero_cpu_milli for release in (RELEASE_1_36, RELEASE_1_37)}
    # 1.36: 300 and the default 100; 1.37: asked 100 + 100, granted 300 + 10, used 50 + 10.
    assert found == {RELEASE_1_36: 400, RELEASE_1_37: 310}


def test_a_pod_of_which_nothing_is_reported_counts_as_requested_in_both_releases() -> None:
    for release in RELEASES.values():
        assert running(TWO, {}, release).total.cpu_milli == 2000


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (
            make_pod("p").req(cpu="abc"),
            'spec.containers[0].resources.requests[cpu]: expected a quantity such as "100m" or "2Gi", got "abc"',
        ),
        (
            make_pod("p").container(memory="-1Gi"),
            'spec.containers[1].resources.requests[memory]: expected an amount of 0 or more, got "-1Gi"',
        ),
        (
            make_pod("p").init_container(cpu="x"),
            "spec.initContainers[0].resources.requests[cpu]: expected a quantity",
        ),
        (make_pod("p").overhead(cpu="-0.1m"), 'spec.overhead[cpu]: expected an amount of 0 or more, got "-0.1m"'),
        (make_pod("p").pod_level_req(cpu="?"), "spec.resources.requests[cpu]: expected a quantity"),
    ],
)
def test_a_malformed_or_negative_request_is_refused_with_its_path(pod: PodBuilder, message: str) -> None:
    for _ in range(2):  # a refusal is not remembered as an answer
        with pytest.raises(DecodeError) as caught:
            pod_resources(pod.obj())
        assert str(caught.value).startswith(message)


def test_a_malformed_status_is_refused_with_its_path() -> None:
    statuses = [{"name": "other"}, {"name": "c0", "resources": {"requests": {"cpu": "x"}}}]
    with pytest.raises(DecodeError, match=r"status\.containerStatuses\[1\]\.resources\.requests\[cpu\]"):
        running(RESIZED, {"containerStatuses": statuses})


def test_equal_pods_share_one_answer() -> None:
    first, second = (make_pod(name).req(cpu="100m", memory="1Gi").obj() for name in ("a", "b"))
    assert pod_resources(first) is pod_resources(second)
    sidecars = (make_pod(name).init_container(cpu=1, restart_policy="Always").obj() for name in ("a", "b"))
    assert len({id(pod_resources(pod)) for pod in sidecars}) == 1


def test_requests_by_name_leave_out_what_is_zero() -> None:
    resources = pod_resources(make_pod("p").req(cpu="100m", memory=0, **{"example.com/gpu": 1}).obj())
    assert resources.requests == {"cpu": 100, "example.com/gpu": 1}


@given(
    containers=st.lists(st.integers(0, 5000), min_size=1, max_size=3),
    init=st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=4),
)
def test_a_pod_asks_for_the_peak_of_its_life(containers: list[int], init: list[tuple[int, bool]]) -> None:
    """The rule played through in time: init containers one by one, then everything together."""
    pod = make_pod("p").req(cpu=f"{containers[0]}m")
    for amount in containers[1:]:
        pod = pod.container(cpu=f"{amount}m")
    still_running, peak = 0, 0
    for amount, is_sidecar in init:
        pod = pod.init_container(cpu=f"{amount}m", restart_policy="Always" if is_sidecar else None)
        peak = max(peak, still_running + amount)
        still_running += amount if is_sidecar else 0
    assert asked(pod)[0] == max(peak, still_running + sum(containers))


# --- nodes ------------------------------------------------------------------------------------------------------


def test_a_node_offers_its_allocatable() -> None:
    node = make_node("n").capacity(cpu="4", memory="32Gi", ephemeral_storage="1Ti", **{"example.com/gpu": 2})
    offered = node_allocatable(node.allocatable(cpu="3500m").obj())
    assert offered.resources == Resources(3500, 32 * GIB, 2**40, {"example.com/gpu": 2})
    assert offered.pods == 110


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    node = msgspec.convert({"status": {"capacity": {"cpu": "4", "pods": "10"}}}, Node)
    assert node_allocatable(node).resources.cpu_milli == 4000
    assert node_allocatable(node).pods == 10


def test_a_node_that_says_nothing_offers_nothing() -> None:
    assert node_allocatable(Node()).resources == Resources()
    assert node_allocatable(Node()).pods == 0
    assert node_allocatable(make_node("n").allocatable(cpu=1).obj()).pods == 0


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (make_node("n").capacity(cpu="-1"), 'status.allocatable[cpu]: expected an amount of 0 or more, got "-1"'),
        (make_node("n").capacity(pods="many"), "status.allocatable[pods]: expected a quantity"),
    ],
)
def test_a_malformed_or_negative_offer_is_refused_with_its_path(node: NodeBuilder, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        node_allocatable(node.obj())
    assert str(caught.value).startswith(message)


def test_the_defaults_of_scoring_are_kube_schedulers() -> None:
    assert (DEFAULT_CPU_MILLI, DEFAULT_MEMORY) == (100, 209_715_200)


# --- what devices take of the node ----------------------------------------------------------------------------------


def with_claims(pod: PodBuilder, *statuses: NodeAllocatableResourceClaimStatus) -> Pod:
    made = pod.obj()
    return replace(made, status=replace(made.status, node_allocatable_resource_claim_statuses=list(statuses)))


def mapped(
    name: str = "c", *, containers: list[str] | None = None, **amounts: str
) -> NodeAllocatableResourceClaimStatus:
    return NodeAllocatableResourceClaimStatus(
        name, containers, mapping=[NodeAllocatableMappedResources(each, amount) for each, amount in amounts.items()]
    )


OVERHEAD = NodeAllocatableResourceClaimStatus(
    "o", ["c0", "c1"], overhead=[NodeAllocatableOverheadResources("memory", "100", "10")]
)


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
@pytest.mark.parametrize(
    ("pod", "cpu", "memory", "scored_cpu", "scored_memory"),
    [
        (with_claims(make_pod("p").req(cpu="500m", memory=50), mapped(cpu="100m", memory="20")), 600, 70, 600, 70),
        (
            with_claims(make_pod("p").req(cpu="500m"), mapped(cpu="1"), mapped("d", cpu="2")),
            3500,
            0,
            3500,
            DEFAULT_MEMORY,
        ),
        (with_claims(make_pod("p"), mapped(cpu="1")), 1000, 0, 1000 + DEFAULT_CPU_MILLI, DEFAULT_MEMORY),
        (with_claims(make_pod("p").req(cpu=1, memory=5), OVERHEAD), 1000, 125, 1000, 125),
        (with_claims(make_pod("p").req(cpu=1, memory=5), mapped(memory="7"), OVERHEAD), 1000, 132, 1000, 132),
        (
            with_claims(
                make_pod("p").req(cpu=1, memory=5), NodeAllocatableResourceClaimStatus("c", resources={"cpu": "2"})
            ),
            *(3000, 5, 3000, 5),
        ),
        # Pod-level requests include what devices take; overhead of the pod is added to all.
        (
            with_claims(make_pod("p").req(memory=5).pod_level_req(cpu="2"), mapped(cpu="1", memory="1")),
            2000,
            6,
            2000,
            6,
        ),
        (with_claims(make_pod("p").req(cpu=1, memory=5).overhead(cpu="1"), mapped(cpu="1")), 3000, 5, 3000, 5),
        # Devices are there beside init containers, too.
        (
            with_claims(make_pod("p").req(cpu=1, memory=5).init_container(cpu=3, memory=1), mapped(cpu="1")),
            *(4000, 5, 4000, 5),
        ),
        # Amounts below a thousandth are rounded up in all, not one by one.
        (with_claims(make_pod("p").req(memory=5), mapped(cpu="500u"), mapped("d", cpu="500u")), 1, 5, 101, 5),
    ],
)
def test_what_devices_take_of_the_node_is_added_to_the_requests(
    release: Release, pod: Pod, cpu: int, memory: int, scored_cpu: int, scored_memory: int
) -> None:
    found = pod_resources(pod, sums_resizes_apart=release.sums_resizes_apart, counts_claims=True)
    assert (found.total.cpu_milli, found.total.memory) == (cpu, memory)
    assert (found.non_zero_cpu_milli, found.non_zero_memory) == (scored_cpu, scored_memory)


def test_what_devices_take_counts_only_where_it_is_asked_for() -> None:
    pod = with_claims(make_pod("p").req(cpu="500m"), mapped(cpu="1"))
    assert pod_resources(pod).total.cpu_milli == 500
    assert pod_resources(pod, counts_claims=True).total.cpu_milli == 1500
    assert pod_resources(pod, counts_claims=True).score_cpu_milli == 500
    assert pod_resources(pod).total.cpu_milli == 500


@pytest.mark.parametrize(
    ("in_use", "granted", "conditions", "expected"),
    [
        # Containers: what is asked for and granted does not include devices, what is in use does.
        ("1", "1", [], 2000),
        ("3", "1", [], 3000),
        ("1", "2", [], 3000),
        ("1", "1", [{"type": "PodResizePending", "reason": "Infeasible"}], 2000),
    ],
)
def test_devices_of_a_pod_that_is_resized_count_once_in_1_37(
    in_use: str, granted: str, conditions: list[dict[str, str]], expected: int
) -> None:
    status = {
        "conditions": conditions,
        "containerStatuses": [
            {"name": "c0", "resources": {"requests": {"cpu": in_use}}, "allocatedResources": {"cpu": granted}}
        ],
        "nodeAllocatableResourceClaimStatuses": [
            {"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "1"}]}
        ],
    }
    document = msgspec.to_builtins(make_pod("p").req(cpu="1").obj())
    pod = msgspec.convert({**document, "status": status}, Pod)
    assert pod_resources(pod, sums_resizes_apart=True, counts_claims=True).total.cpu_milli == expected


def test_amounts_in_the_status_of_the_pod_as_a_whole_include_devices_in_1_37() -> None:
    status = {
        "resources": {"requests": {"cpu": "1500m"}},
        "allocatedResources": {"cpu": "1500m"},
        "nodeAllocatableResourceClaimStatuses": [
            {"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "250m"}]}
        ],
    }
    document = msgspec.to_builtins(make_pod("p").req(cpu="1").obj())
    pod = msgspec.convert({**document, "status": status}, Pod)
    assert pod_resources(pod, sums_resizes_apart=True, counts_claims=True).total.cpu_milli == 1500


def test_a_container_counts_the_whole_of_the_claims_that_it_uses() -> None:
    statuses = [mapped(containers=["c0"], cpu="1"), mapped("d", containers=["c1"], cpu="2"), OVERHEAD]
    assert claimed_resources(statuses, "c0") == {"cpu": 1000, "memory": 110_000}
    assert claimed_resources(statuses, "c1") == {"cpu": 2000, "memory": 110_000}
    assert claimed_resources(statuses, "c2") == {}
    assert claimed_resources(statuses) == {"cpu": 3000, "memory": 120_000}


def test_a_malformed_amount_of_devices_is_refused_with_its_path() -> None:
    with pytest.raises(DecodeError, match=r"^status\.nodeAllocatableResourceClaimStatuses: "):
        pod_resources(with_claims(make_pod("p"), mapped(cpu="many")), counts_claims=True)
