"""Pods whose devices take cpu, memory and the like of their node: Filter, what counts once they are there, PreBind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler._fast import Verdicts
from kscheduler.api.devices import (
    Device,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
)
from kscheduler.api.objects import (
    Container,
    ContainerClaim,
    NodeAllocatableResourceClaimStatus,
    NodeSelector,
    NodeSelectorTerm,
    RawQuantity,
    ResourceRequirements,
    SelectorRequirement,
)
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.errors import APIError, NotFound
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.devices.building import alternative, device, first_available, make_class, make_slice, request
from tests.framework.plugins.dynamicresources.bench import Bench, allocation, claim, pod_with, reserved_for

GATE = {"DRANodeAllocatableResources": True}
OLD, NEW = RELEASE_1_36.with_gates(GATE), RELEASE_1_37.with_gates(GATE)
RELEASES = pytest.mark.parametrize("release", [OLD, NEW], ids=["1.36", "1.37"])
CORES = "dra.example.com/cores"
GROUPED = NEW.with_gates({"GenericWorkload": True, "DRAWorkloadResourceClaims": True})


def standing_for(name: str = "g0", **amounts: RawQuantity) -> Device:
    """A device that stands for these amounts, in the fields of both releases."""
    old = {each: NodeAllocatableResourceMapping(None, amount) for each, amount in amounts.items()}
    new = {
        each: NodeAllocatableResource(NodeAllocatableMapping(None, None, amount)) for each, amount in amounts.items()
    }
    return device(name, node_allocatable_resource_mappings=old, node_allocatable_resources=new)


def needing(name: str = "g0", **amounts: tuple[str | None, str | None]) -> Device:
    """A device with these overheads, for each pod and for each container."""
    return device(
        name,
        node_allocatable_resources={
            each: NodeAllocatableResource(overhead=NodeAllocatableOverhead(*pair)) for each, pair in amounts.items()
        },
    )


def bench_of(release: Release, *published: Device, nodes: int = 1) -> Bench:
    """Nodes with 4 cpu, 8Gi and these devices each."""
    bench = Bench(release, nodes=nodes, gpus=0)
    for index in range(nodes):
        bench.devices.set_slice(make_slice(f"n{index}", published, node_name=f"n{index}", pool=f"n{index}"))
    return bench


def user(*claims: str, name: str = "p", containers: int = 1, cpu: str = "100m", **spec: Any) -> PodInfo:
    """A pod whose containers each use all these claims; the first one requests `cpu`."""
    made = pod_with(*claims, name=name).pod
    used = [ContainerClaim(each) for each in claims]
    listed = [
        Container(f"c{place}", resources=ResourceRequirements({"cpu": cpu} if not place else None, claims=used))
        for place in range(containers)
    ]
    return PodInfo(replace(made, spec=replace(made.spec, containers=listed, **spec)))


def verdict(bench: Bench, pod: PodInfo, group: CycleState | None = None) -> tuple[Code, str]:
    """What Filter says of n0."""
    state, status = bench.pre_filter(pod, group)
    assert status is None, status
    found = bench.plugin.filter(state, pod, next(iter(bench.cache.table)))
    return (Code.SUCCESS, "") if found is None else (found.code, ", ".join(found.reasons))


def place(bench: Bench, pod: PodInfo) -> CycleState:
    """Do with a pod on n0 what a cycle does up to Reserve."""
    state, status = bench.pre_filter(pod)
    assert status is None, status
    assert bench.filter_all(state, pod)["n0"] == ""
    bench.cache.assume(bench.plugin.assumed(state, pod, "n0"), "n0")
    assert bench.plugin.reserve(state, pod, "n0") is None
    return state


def shown(status: NodeAllocatableResourceClaimStatus) -> dict[str, Any]:
    """What a pod's status says of a claim, in the words of 1.37."""
    amounts: dict[str, Any] = dict(status.resources or {}) or {e.name: e.quantity for e in status.mapping or ()}
    overhead = {each.name: (each.per_pod, each.per_container) for each in status.overhead or ()}
    return {"claim": status.resource_claim_name, "of": status.containers or [], **amounts, "overhead": overhead}


FITS = (Code.SUCCESS, "")


# --- Filter -----------------------------------------------------------------------------------------------------


@RELEASES
@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        ("3900m", "8Gi", FITS),
        ("3901m", "1Gi", (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient cpu")),
        ("1", "9Gi", (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient memory")),
        ("5", "9Gi", (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient cpu, Insufficient memory")),
    ],
)
def test_the_node_needs_room_for_what_devices_stand_for_beside_the_requests(
    release: Release, cpu: str, memory: str, expected: tuple[Code, str]
) -> None:
    bench = bench_of(release, standing_for(cpu=cpu, memory=memory))
    bench.add(claim("c"))
    assert verdict(bench, user("c")) == expected


@RELEASES
def test_room_that_pods_take_may_be_made_by_preemption(release: Release) -> None:
    bench = bench_of(release, standing_for(cpu="3"))
    bench.cache.set_pod(PodInfo(make_pod("other").uid("uid-other").req(cpu="2").node("n0").obj()))
    bench.add(claim("c"))
    assert verdict(bench, user("c")) == (Code.UNSCHEDULABLE, "Insufficient cpu")


@RELEASES
def test_hugepages_and_ephemeral_storage_are_looked_at_but_no_extended_resources(release: Release) -> None:
    amounts = {"hugepages-2Mi": "4Mi", "ephemeral-storage": "2Gi"}
    bench = bench_of(release, standing_for(**amounts))
    bench.add(claim("c"))
    bench.cache.set_node(
        make_node("n0").capacity(cpu="4", **{"hugepages-2Mi": "4Mi", "ephemeral-storage": "2Gi"}).obj()
    )
    assert verdict(bench, user("c")) == FITS
    bench.cache.set_node(
        make_node("n0").capacity(cpu="4", **{"hugepages-2Mi": "2Mi", "ephemeral-storage": "1Gi"}).obj()
    )
    reasons = "Insufficient ephemeral-storage, Insufficient hugepages-2Mi"
    assert verdict(bench, user("c")) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37], ids=["1.36", "1.37"])
def test_without_the_gate_devices_take_nothing(release: Release) -> None:
    bench = bench_of(release, standing_for(cpu="100"))
    bench.add(claim("c"))
    assert verdict(bench, user("c")) == FITS
    assert not bench.plugin.completes_pods
    state = bench.reserved(user("c"))
    assert bench.pre_bind(state, user("c")) == ""
    assert ("set node resources", "default/p") not in bench.writes.requests


@RELEASES
def test_devices_that_take_nothing_are_as_without_the_gate(release: Release) -> None:
    bench = bench_of(release, device("g0"))
    bench.add(claim("c"))
    pod = user("c", cpu="100")  # which is for NodeResourcesFit to say
    assert verdict(bench, pod) == FITS
    state = bench.reserved(pod)
    assert bench.plugin.assumed(state, pod, "n0") is pod
    assert bench.pre_bind(state, pod) == ""
    assert ("set node resources", "default/p") not in bench.writes.requests


@RELEASES
def test_all_nodes_are_judged_by_the_devices_that_they_would_give(release: Release) -> None:
    bench = Bench(release, nodes=3, gpus=0)
    for index, amount in enumerate(("5", "1", "4")):
        published = [standing_for(cpu=amount)]
        bench.devices.set_slice(make_slice(f"n{index}", published, node_name=f"n{index}", pool=f"n{index}"))
    bench.add(claim("c"))
    pod = user("c")
    state, status = bench.pre_filter(pod)
    assert status is None
    verdicts = Verdicts()
    verdicts.reset(bench.cache.table.columns)
    bench.plugin.filter_table(state, pod, bench.cache.table, verdicts, 1)
    assert verdicts.feasible_rows() == [1]
    assert bench.plugin.prepare_claims(pod) is None


def test_amounts_may_follow_from_the_capacity_that_a_claim_uses() -> None:
    by_core = {"cpu": NodeAllocatableResource(NodeAllocatableMapping(CORES, "2"))}
    shared = device("g0", capacity={CORES: "8"}, allow_multiple_allocations=True, node_allocatable_resources=by_core)
    bench = bench_of(NEW, shared)
    bench.add(claim("c", request(capacity={CORES: "1"})))
    assert verdict(bench, user("c")) == FITS
    bench.add(claim("d", request(capacity={CORES: "2"})))
    assert verdict(bench, user("d")) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient cpu")


@RELEASES
def test_a_mapping_by_a_capacity_needs_a_device_that_is_shared_out(release: Release) -> None:
    old = {"cpu": NodeAllocatableResourceMapping(CORES)}
    new = {"cpu": NodeAllocatableResource(NodeAllocatableMapping(CORES, "1"))}
    bench = bench_of(
        release,
        device("g0", capacity={CORES: "8"}, node_allocatable_resource_mappings=old, node_allocatable_resources=new),
    )
    bench.add(claim("c"))
    code, text = verdict(bench, user("c"))
    assert code is Code.ERROR
    assert text.startswith(f"claim default/c, device g0: ConsumedCapacity is nil, but Capacity key '{CORES}' is set in")


def test_only_1_36_wants_a_container_to_use_the_claim() -> None:
    for release, expected in (
        (
            OLD,
            (
                Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
                "claim c: node-allocatable resource claim not referenced by any container within the pod",
            ),
        ),
        (NEW, FITS),
    ):
        bench = bench_of(release, standing_for(cpu="1"))
        bench.add(claim("c"))
        assert verdict(bench, pod_with("c")) == expected


def test_an_allocated_claim_counts_in_1_37_only() -> None:
    for release, expected in ((OLD, FITS), (NEW, (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient cpu"))):
        bench = bench_of(release, standing_for(cpu="5"))
        bench.add(claim("c", allocation=allocation(), reserved_for=reserved_for("uid-p")))
        assert verdict(bench, user("c")) == expected


def test_a_claim_that_is_allocated_elsewhere_takes_nothing_here() -> None:
    bench = bench_of(NEW, standing_for(cpu="5"), nodes=2)
    bench.add(claim("c", allocation=allocation("n1/g0", zone="z1")))
    assert verdict(bench, user("c")) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "resourceclaim not available on the node",
    )


def test_overhead_is_for_each_pod_and_for_each_container_that_uses_the_claim() -> None:
    for containers, expected in ((2, FITS), (3, (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient cpu"))):
        bench = bench_of(NEW, needing(cpu=("900m", "1500m")))
        bench.add(claim("c"))
        assert verdict(bench, user("c", containers=containers)) == expected


# --- pods with requests as a whole --------------------------------------------------------------------------------


@RELEASES
def test_requests_of_the_pod_as_a_whole_must_cover_its_devices(release: Release) -> None:
    bench = bench_of(release, standing_for(cpu="1"))
    bench.add(claim("c"))
    assert verdict(bench, user("c", cpu="1", resources=ResourceRequirements({"cpu": "2"}))) == FITS
    text = (
        "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests"
    )
    short = user("c", cpu="1001m", resources=ResourceRequirements({"cpu": "2"}))
    assert verdict(bench, short) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
    # And they are what counts on the node, not the sum with devices.
    bench.cache.set_pod(PodInfo(make_pod("other").uid("uid-other").req(cpu="2").node("n0").obj()))
    assert verdict(bench, user("c", cpu="1", resources=ResourceRequirements({"cpu": "2"}))) == FITS


def limited(containers: Sequence[dict[str, RawQuantity]], **limits: RawQuantity) -> dict[str, Any]:
    """A pod's spec whose containers, which all use the claim c, and which itself have limits."""
    used = [ContainerClaim("c")]
    listed = [Container(f"c{i}", resources=ResourceRequirements(None, each, used)) for i, each in enumerate(containers)]
    return {"containers": listed, "resources": ResourceRequirements(None, limits)}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (limited([{"cpu": "1"}, {"cpu": "1"}], cpu="2"), ""),  # more in all, but no container by itself
        (
            limited([{"cpu": "1"}, {"cpu": "1100m"}], cpu="2"),
            "pod level limit for cpu is insufficient to cover the limit and DRA overhead for container c1",
        ),
        (limited([{}, {}], cpu="500m"), ""),  # containers without a limit
        (limited([{"hugepages-2Mi": "2Mi"}, {}], **{"hugepages-2Mi": "4Mi"}), ""),
        (
            limited([{"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}], **{"hugepages-2Mi": "4Mi"}),
            "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container and node-allocatable "
            "DRA limits",
        ),
    ],
)
def test_limits_of_the_pod_as_a_whole_must_cover_its_devices_in_1_37(spec: dict[str, Any], expected: str) -> None:
    for release, text in ((OLD, ""), (NEW, expected)):
        bench = bench_of(release, standing_for(cpu="1", **{"hugepages-2Mi": "2Mi"}))
        bench.cache.set_node(make_node("n0").capacity(cpu="4", memory="8Gi", **{"hugepages-2Mi": "8Mi"}).obj())
        bench.add(claim("c"))
        made = pod_with("c").pod
        pod = PodInfo(replace(made, spec=replace(made.spec, **spec)))
        assert verdict(bench, pod)[1] == text


# --- sharing ------------------------------------------------------------------------------------------------------


def test_in_1_36_a_claim_is_not_shared_with_pods_on_the_node() -> None:
    bench = bench_of(OLD, standing_for(cpu="1"))
    bench.add(claim("c"))
    first = user("c", name="first")
    state = place(bench, first)
    assert bench.pre_bind(state, first) == ""
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    text = "node allocatable resource claim c is already used by another pod"
    assert verdict(bench, user("c", name="second")) == (code, text)
    status = [NodeAllocatableResourceClaimStatus("c", ["c0"], {"cpu": "1"})]
    other = make_pod("third").uid("uid-third").node("n0").obj()
    other = replace(other, status=replace(other.status, node_allocatable_resource_claim_statuses=status))
    bench.cache.set_pod(PodInfo(other))
    text = "node allocatable resource claim c shared by multiple pods"
    assert verdict(bench, user("c", name="second")) == (code, text)
    # Not so with a claim of the same name elsewhere.
    bench.cache.remove_pod("uid-first")
    elsewhere = replace(other, metadata=replace(other.metadata, namespace="elsewhere"))
    bench.cache.set_pod(PodInfo(elsewhere))
    assert verdict(bench, user("c", name="second")) == FITS


SHARED = (
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "node allocatable resource claim c has a mapped device and cannot be shared across pods",
)


@pytest.mark.parametrize(
    ("published", "users", "expected"),
    [
        (standing_for(cpu="1"), ("uid-other",), SHARED),
        (standing_for(cpu="1"), ("uid-p",), FITS),
        (standing_for(cpu="1"), (), FITS),
        (needing(cpu=("1", None)), ("uid-other",), FITS),
        (device("g0"), ("uid-other",), FITS),
    ],
    ids=["another-pods", "its-own", "nobodys", "overhead-only", "nothing"],
)
def test_in_1_37_a_claim_with_a_mapped_device_is_not_shared(
    published: Device, users: tuple[str, ...], expected: tuple[Code, str]
) -> None:
    bench = bench_of(NEW, published)
    bench.add(claim("c", allocation=allocation(), reserved_for=reserved_for(*users)))
    assert verdict(bench, user("c")) == expected


@pytest.mark.parametrize(("published", "expected"), [(standing_for(cpu="1"), SHARED), (needing(cpu=("1", None)), FITS)])
def test_in_1_37_members_of_a_gang_share_overhead_alone(published: Device, expected: tuple[Code, str]) -> None:
    bench = bench_of(GROUPED, published)
    bench.add(claim("c"))
    group = CycleState()
    first = user("c", name="first")
    state, status = bench.pre_filter(first, group)
    assert status is None
    assert bench.filter_all(state, first) == {"n0": ""}
    assert bench.plugin.reserve(state, first, "n0") is None
    assert verdict(bench, user("c", name="second"), group) == expected


# --- on the node --------------------------------------------------------------------------------------------------


@RELEASES
def test_a_pod_counts_on_its_node_with_what_its_devices_take(release: Release) -> None:
    bench = bench_of(release, standing_for("g0", cpu="2", memory="1Gi"), standing_for("g1", cpu="2"))
    bench.add(claim("c"))
    bench.add(claim("d"))
    place(bench, user("c"))
    [node] = bench.cache.table
    assert (node.requested.cpu_milli, node.requested.memory) == (2100, 2**30)
    assert verdict(bench, user("d", name="q")) == (Code.UNSCHEDULABLE, "Insufficient cpu")
    bench.cache.forget("uid-p")
    assert node.requested.cpu_milli == 0
    assert verdict(bench, user("d", name="q")) == FITS


@RELEASES
def test_what_a_claims_devices_take_is_written_before_the_pod_is_bound(release: Release) -> None:
    bench = bench_of(release, standing_for("g0", cpu="1", memory="1Gi"), standing_for("g1", cpu="500m", memory="1Gi"))
    bench.add(claim("b"))
    bench.add(claim("c"))
    pod = user("c", "b", containers=2)
    state = place(bench, pod)
    assert bench.pre_bind(state, pod) == ""
    assert bench.writes.requests[-1] == ("set node resources", "default/p")
    written = bench.writes.node_resources["default/p"]
    by_claim = {each["claim"]: (each["of"], each["cpu"], each["memory"]) for each in map(shown, written)}
    assert list(by_claim) == ["b", "c"]
    assert {(tuple(of), cpu, memory) for of, cpu, memory in by_claim.values()} == {
        (("c0", "c1"), "1", "1Gi"),
        (("c0", "c1"), "500m", "1Gi"),
    }
    assert all((each.resources is None) == (release is NEW) for each in written)


def test_init_containers_come_first_among_those_that_use_a_claim() -> None:
    bench = bench_of(NEW, needing(memory=("1Mi", "2Mi")))
    bench.add(claim("c"))
    setup = Container("setup", resources=ResourceRequirements(claims=[ContainerClaim("c"), ContainerClaim("other")]))
    pod = user("c", init_containers=[setup])
    state = place(bench, pod)
    assert bench.pre_bind(state, pod) == ""
    [written] = bench.writes.node_resources["default/p"]
    assert shown(written) == {"claim": "c", "of": ["setup", "c0"], "overhead": {"memory": ("1Mi", "2Mi")}}
    assert written.mapping is None
    [node] = bench.cache.table
    assert node.requested.memory == 5 * 2**20


@RELEASES
def test_containers_use_claims_of_templates_by_the_name_in_the_pod(release: Release) -> None:
    bench = bench_of(release, standing_for(cpu="1"))
    bench.add(claim("made", owner="uid-p"))
    made = pod_with(templates=[("t", "made")]).pod
    used = Container("c0", resources=ResourceRequirements(claims=[ContainerClaim("e-t")]))
    pod = PodInfo(replace(made, spec=replace(made.spec, containers=[used])))
    state = place(bench, pod)
    assert bench.pre_bind(state, pod) == ""
    assert [shown(each) for each in bench.writes.node_resources["default/p"]] == [
        {"claim": "made", "of": ["c0"], "cpu": "1", "overhead": {}}
    ]


@RELEASES
def test_a_pod_that_is_not_bound_gives_its_status_back(release: Release) -> None:
    bench = bench_of(release, standing_for(cpu="1"))
    bench.add(claim("c"))
    pod = user("c")
    state = place(bench, pod)
    bench.writes.refusals["set node resources"] = [APIError("etcd is full")]
    text = "updating pod default/p NodeAllocatableResourceClaimStatuses: etcd is full"
    assert bench.pre_bind(state, pod) == text
    bench.plugin.unreserve(state, pod, "n0")
    bench.plugin.unreserve(state, pod, "n0")
    bench.writes.run_background()
    assert bench.writes.requests.count(("set node resources", "default/p")) == 2
    assert bench.writes.node_resources["default/p"] == []


@RELEASES
def test_nothing_is_given_back_that_was_not_written_and_a_pod_may_be_gone(release: Release) -> None:
    bench = bench_of(release, standing_for(cpu="1"))
    bench.add(claim("c"))
    pod = user("c")
    state = place(bench, pod)
    bench.plugin.unreserve(state, pod, "n0")
    bench.writes.run_background()
    assert ("set node resources", "default/p") not in bench.writes.requests
    state, status = bench.pre_filter(pod)
    assert status is None
    assert bench.filter_all(state, pod) == {"n0": ""}
    assert bench.plugin.reserve(state, pod, "n0") is None
    assert bench.pre_bind(state, pod) == ""
    bench.writes.refusals["set node resources"] = [NotFound("gone")]
    bench.plugin.unreserve(state, pod, "n0")
    bench.writes.run_background()
    assert bench.writes.reports == []


# --- extended resources -------------------------------------------------------------------------------------------


@RELEASES
def test_of_a_claim_that_a_pod_names_twice_the_devices_found_last_count(release: Release) -> None:
    bench = bench_of(release, standing_for("g0", cpu="9"), device("g1"))
    bench.add(claim("c"))
    pod = user("c", "c")
    entries = [replace(each, name=f"e{index}") for index, each in enumerate(pod.pod.spec.resource_claims or ())]
    pod = PodInfo(replace(pod.pod, spec=replace(pod.pod.spec, resource_claims=entries)))
    assert verdict(bench, pod) == FITS


def test_devices_of_extended_resources_count_too() -> None:
    """As in kube-scheduler: no container names their claim, so 1.36 refuses them, and 1.37 counts them."""
    unused = (
        "claim <extended-resources>: node-allocatable resource claim not referenced by any container within the pod"
    )
    for release, expected in (
        (OLD, (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, unused)),
        (NEW, (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient cpu")),
    ):
        bench = bench_of(release, standing_for(cpu="5"))
        backing = make_class()
        bench.devices.set_class(replace(backing, spec=replace(backing.spec, extended_resource_name="example.com/gpu")))
        assert verdict(bench, pod_with(example_com__gpu="1")) == expected


# --- pods that get no such devices ----------------------------------------------------------------------------------


KIND = "kind={}"


def mixed_bench(release: Release, *published: Device) -> Bench:
    """Two nodes, each with a plain GPU and these devices; a class for the GPUs, and one for `cores`."""
    bench = Bench(release, gpus=0)
    for name in ("n0", "n1"):
        gpu = device("gpu", {"kind": "gpu"})
        bench.devices.set_slice(make_slice(name, [gpu, *published], node_name=name, pool=name))
    bench.devices.set_class(make_class("gpu", KIND.format("gpu")))
    bench.devices.set_class(make_class("cores", KIND.format("cores")))
    return bench


def cores(**amounts: RawQuantity) -> Device:
    made = standing_for("cores", **amounts)
    return replace(made, attributes=device("x", {"kind": "cores"}).attributes)


@RELEASES
def test_kernels_place_pods_whose_devices_take_nothing(release: Release) -> None:
    bench = mixed_bench(release, cores(cpu="1"))
    bench.add(claim("plain", request(device_class_name="gpu")))
    bench.add(claim("taking", request(device_class_name="cores")))
    bench.add(
        claim("either", first_available("r", alternative("x", 1), alternative("y", 1, device_class_name="cores")))
    )
    assert bench.plugin.prepare_claims(pod_with("plain")) is not None
    for name in ("taking", "either"):
        assert bench.plugin.prepare_claims(pod_with(name)) is None
    assert bench.plugin.prepare_claims(pod_with("plain", "taking")) is None


@RELEASES
def test_a_slice_decides_from_its_arrival_to_its_end_whether_kernels_place_pods(release: Release) -> None:
    bench = mixed_bench(release)
    bench.add(claim("c", request(device_class_name="cores")))
    pod = pod_with("c")
    assert bench.plugin.prepare_claims(pod) is not None
    more = make_slice("more", [cores(cpu="1")], node_name="n1", pool="more")
    bench.devices.set_slice(more)
    assert bench.plugin.prepare_claims(pod) is None
    plain = [replace(cores(), node_allocatable_resource_mappings=None, node_allocatable_resources=None)]
    bench.devices.set_slice(make_slice("more", plain, node_name="n1", pool="more"))
    assert bench.plugin.prepare_claims(pod) is not None
    bench.devices.set_slice(more)
    assert bench.plugin.prepare_claims(pod) is None
    bench.devices.remove_slice("more")
    assert bench.plugin.prepare_claims(pod) is not None


@RELEASES
def test_a_device_that_a_selector_cannot_judge_is_left_to_the_search(release: Release) -> None:
    bench = mixed_bench(release, standing_for("nameless", cpu="1"))  # without the attribute that selectors read
    bench.add(claim("plain", request(device_class_name="gpu")))
    assert bench.plugin.prepare_claims(pod_with("plain")) is None


@RELEASES
def test_an_allocated_claim_is_placed_by_kernels_unless_its_device_takes_something(release: Release) -> None:
    bench = mixed_bench(release, cores(cpu="1"))
    for name, of in (("plain", "gpu"), ("taking", "cores")):
        only = NodeSelector([NodeSelectorTerm(match_fields=[SelectorRequirement("metadata.name", "In", ["n1"])])])
        bench.add(claim(name, allocation=replace(allocation(f"n1/{of}"), node_selector=only)))
    prepared = bench.plugin.prepare_claims(user("plain"))
    assert prepared is not None
    assert prepared.row == 1
    # 1.36 counts nothing for a claim that has an allocation, but does not share it with a pod on the node.
    assert (bench.plugin.prepare_claims(user("taking")) is None) == (release is NEW)
    if release is OLD:
        status = [NodeAllocatableResourceClaimStatus("plain", ["c0"], {"cpu": "1"})]
        other = make_pod("other").uid("uid-other").node("n1").obj()
        other = replace(other, status=replace(other.status, node_allocatable_resource_claim_statuses=status))
        bench.cache.set_pod(PodInfo(other))
        assert bench.plugin.prepare_claims(user("plain")) is None


@RELEASES
def test_both_forms_agree_where_only_some_devices_take_something(release: Release) -> None:
    bench = mixed_bench(release, cores(cpu="5"))
    bench.add(claim("plain", request(device_class_name="gpu")))
    bench.add(claim("two", request(count=2, device_class_name="gpu")))
    bench.add(claim("taking", request(device_class_name="cores")))
    for name, expected in (("plain", [0, 1]), ("two", []), ("taking", [])):
        pod = user(name)
        state, status = bench.pre_filter(pod)
        assert status is None
        verdicts = Verdicts()
        verdicts.reset(bench.cache.table.columns)
        bench.plugin.filter_table(state, pod, bench.cache.table, verdicts, 1)
        assert verdicts.feasible_rows() == expected
        fits = [text == "" for text in bench.filter(pod).values()]
        assert fits == [row in expected for row in range(2)]
