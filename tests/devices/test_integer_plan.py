"""What the kernel finds is what the general search finds, in as many steps; and it is asked where it can tell."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kscheduler.api.devices import (
    CapacityRange,
    CapacityRequestPolicy,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.objects import Node, NodeSelector, NodeSelectorTerm, RawQuantity, SelectorRequirement
from kscheduler.cel.selectors import selectors_for
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import AllocationError, Allocator, SearchStopped
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.device_table import MAX_EVALUATIONS
from kscheduler.devices.integer_plan import ClaimsPlan, IntegerPlan
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import (
    NEW,
    OLD,
    RELEASES,
    Cluster,
    alternative,
    counter_set,
    device,
    devices,
    first_available,
    in_use,
    make_claim,
    make_node,
    make_slice,
    request,
    request_all,
)
from tests.devices.deciding import decide, plan_of
from tests.parity.devices.generate import generate

LISTS = {"DRAListTypeAttributes": True}
# By release and whether attributes may be lists.
SELECTORS = {
    (release.version, has_lists): selectors_for(release.with_gates({"DRAListTypeAttributes": has_lists}))
    for release in RELEASES
    for has_lists in (False, True)
}


def integers_of(cluster: Cluster, *claims: ResourceClaim) -> IntegerPlan | None:
    plan = plan_of(cluster.allocator(), list(claims))
    return None if plan is None else plan.integers


GPUS = [device(f"g{i}", {"model": "a" if i < 2 else "b"}) for i in range(4)]


@pytest.mark.parametrize(
    ("claim", "release", "is_asked"),
    [
        (make_claim(request(count=2)), NEW, True),
        (make_claim(first_available("r", alternative("x", 5), alternative("y", 2))), NEW, True),
        (make_claim(request(count=2), match=["gpu.example.com/model"]), OLD, True),
        (make_claim(request(count=2), distinct=["gpu.example.com/model"]), NEW, True),
        (make_claim(request(count=2), distinct=["gpu.example.com/model"]), OLD, True),
        (make_claim(request(count=2), match=["model"]), NEW.with_gates(LISTS), True),
        (make_claim(request_all()), NEW, True),
        (make_claim(request(admin_access=True)), NEW, True),
        (make_claim(request(count=33)), NEW, False),
        (make_claim(request(capacity={"memory": "1Gi"})), NEW, True),
        (make_claim(), NEW, False),
    ],
)
def test_the_kernel_is_asked_about_what_is_no_error(claim: ResourceClaim, release: Release, is_asked: bool) -> None:
    cluster = Cluster(release, [make_slice("s", GPUS)])
    assert (integers_of(cluster, claim) is not None) == is_asked


def test_a_partition_is_found_beside_those_in_use() -> None:
    halves = [device(f"h{i}", consumes={"m": {"memory": "1"}}) for i in range(2)]
    whole = device("w", consumes={"m": {"memory": "2"}})
    counters = make_slice("c", shared_counters=[counter_set("m", memory="2")], slices=2)
    cluster = Cluster(NEW, [counters, make_slice("s", [whole, *halves], slices=2)], state=in_use("h0"))
    claim = make_claim(request())
    allocator = cluster.allocator()
    found = allocator.allocate(make_node(), [claim], plan=plan_of(allocator, [claim]))
    assert found is not None
    assert [each.device for each in found[0].devices.results or ()] == ["h1"]


SHARED = [
    device(
        name,
        {"model": "a"},
        allow_multiple_allocations=True,
        capacity={
            "bandwidth": DeviceCapacity("10G", CapacityRequestPolicy("1M", valid_range=CapacityRange("1M", step="8")))
        },
    )
    for name in ("s0", "s1")
]


def found_by_the_kernel(cluster: Cluster, *claims: ResourceClaim) -> list[tuple[str, RawQuantity | None]] | None:
    """Return the devices of all claims with what is consumed of their bandwidth; fail if the kernel cannot tell."""
    allocator = cluster.allocator()
    plan = integers_of(cluster, *claims)
    assert plan is not None
    assert isinstance(cluster.slices, SliceIndex)
    table = cluster.slices.pools_of(make_node()).table(cluster.slices.features)
    assert table is not None
    available = AvailableCounters(cluster.state, by_pool_name=cluster.release.devices.counters_by_pool_name)
    assert plan.find(table, cluster.state, available, cluster.selectors) is not None
    allocations = allocator.allocate(make_node(), claims, plan=ClaimsPlan(None, plan))
    if allocations is None:
        return None
    results = [result for each in allocations for result in each.devices.results or ()]
    shares = [result.share_id for result in results if result.share_id is not None]
    assert len(set(shares)) == len(shares)
    return [(result.device, (result.consumed_capacity or {}).get("bandwidth")) for result in results]


def shared_cluster(release: Release) -> Cluster:
    return Cluster(release, SliceIndex(release, [make_slice("s", SHARED)]))


@pytest.mark.parametrize("release", RELEASES)
def test_shares_are_found_as_long_as_capacity_lasts(release: Release) -> None:
    cluster = shared_cluster(release)
    consumed = "2500000000" if release is OLD else "2500M"
    claim = make_claim(request(count=2, capacity={"bandwidth": "2500M"}))
    for _ in range(2):
        assert found_by_the_kernel(cluster, claim, claim) == [("s0", consumed), ("s1", consumed)] * 2
        allocations = cluster.allocate(claim, claim)
        assert allocations is not None
        for allocation in allocations:
            for result in allocation.devices.results or ():
                cluster.state.add(result, release)
    assert found_by_the_kernel(cluster, claim) is None


@pytest.mark.parametrize("release", RELEASES)
def test_all_devices_are_found_or_the_error_is_that_of_the_search(release: Release) -> None:
    cluster = Cluster(release, SliceIndex(release, [make_slice("s", GPUS)]))
    assert found_by_the_kernel(cluster, make_claim(request_all())) == [(f"g{i}", None) for i in range(4)]
    cluster.state = in_use("g3")
    assert found_by_the_kernel(cluster, make_claim(request_all())) is None
    assert found_by_the_kernel(cluster, make_claim(request_all(admin_access=True))) is not None
    cluster.state = AllocatedState()
    claim = make_claim(request_all(), match=["gpu.example.com/model"])
    allocator = cluster.allocator()
    plan = plan_of(allocator, [claim])
    assert plan is not None
    with pytest.raises(AllocationError, match=r"cannot add device .*/g2 because a claim constraint"):
        allocator.allocate(make_node(), [claim], plan=plan)


@pytest.mark.parametrize("release", RELEASES)
def test_devices_of_other_nodes_are_not_found(release: Release) -> None:
    published = [
        device(f"d{i}", {"model": "a"}, node_name=node) for i, node in enumerate(["node-2", "node-1", "node-2"])
    ]
    published.append(device("shared", {"model": "a"}, all_nodes=True))
    cluster = Cluster(release, SliceIndex(release, [make_slice("s", published, per_device_node_selection=True)]))
    assert found_by_the_kernel(cluster, make_claim(request(count=2))) == [("d1", None), ("shared", None)]
    assert found_by_the_kernel(cluster, make_claim(request_all())) == [("d1", None), ("shared", None)]
    assert found_by_the_kernel(cluster, make_claim(request(count=3))) is None
    cluster.state = in_use("d0", "d1")
    assert found_by_the_kernel(cluster, make_claim(request(count=1))) == [("shared", None)]
    assert found_by_the_kernel(cluster, make_claim(request_all())) is None


def test_where_a_selector_is_an_error_about_a_device_of_another_node_the_search_decides() -> None:
    published = [device("d0", {"model": "a"}, node_name="node-1"), device("d1", node_name="node-2")]
    cluster = Cluster(NEW, SliceIndex(NEW, [make_slice("s", published, per_device_node_selection=True)]))
    allocator = cluster.allocator()
    for count in (1, 2):
        claim = make_claim(request("r", count, "model=a"))
        plan = plan_of(allocator, [claim])
        assert plan is not None
        if count == 1:
            assert allocator.allocate(make_node(), [claim], plan=plan) is not None
        else:
            with pytest.raises(AllocationError, match="no such key: model"):
                allocator.allocate(make_node(), [claim], plan=plan)


def test_a_malformed_selector_of_nodes_is_left_to_the_search() -> None:
    malformed = NodeSelector([NodeSelectorTerm([SelectorRequirement("zone", "Near", ["z"])])])
    published = [device("d0", all_nodes=True), device("d1", node_selector=malformed)]
    index = SliceIndex(NEW, [make_slice("s", published, per_device_node_selection=True)])
    assert index.pools_of(make_node()).table(index.features) is None
    allocator = Cluster(NEW, index).allocator()
    claim = make_claim(request())
    assert allocator.allocate(make_node(), [claim], plan=plan_of(allocator, [claim])) is not None
    claim = make_claim(request(count=2))
    with pytest.raises(AllocationError, match="failed to parse node selector"):
        allocator.allocate(make_node(), [claim], plan=plan_of(allocator, [claim]))


def test_a_taint_keeps_all_devices_from_being_found() -> None:
    tainted = device("t", taints=[DeviceTaint(key="k", effect="NoSchedule")])
    cluster = Cluster(NEW, SliceIndex(NEW, [make_slice("s", [*GPUS, tainted])]))
    assert found_by_the_kernel(cluster, make_claim(request_all())) is None
    assert found_by_the_kernel(cluster, make_claim(request(count=4))) is not None


def test_many_selectors_are_evaluated_some_at_a_time() -> None:
    many = [device(f"d{i}", {"model": "a"}) for i in range(MAX_EVALUATIONS + 1)]
    cluster = Cluster(NEW, SliceIndex(NEW, [make_slice("s", many)]))
    plan = integers_of(cluster, make_claim(request("r", 1, "model=a")))
    assert plan is not None
    assert isinstance(cluster.slices, SliceIndex)
    table = cluster.slices.pools_of(make_node()).table(cluster.slices.features)
    assert table is not None
    available = AvailableCounters(cluster.state, by_pool_name=False)
    assert plan.find(table, cluster.state, available, cluster.selectors) is None
    assert len(cluster.selectors.evaluated) == MAX_EVALUATIONS
    assert plan.find(table, cluster.state, available, cluster.selectors) is not None


@pytest.mark.parametrize("kind", ["match", "distinct"])
@pytest.mark.parametrize("release", [each.with_gates(LISTS) for each in RELEASES], ids=lambda each: each.version)
def test_lists_of_many_different_values_are_left_to_the_general_search(release: Release, kind: str) -> None:
    constraint: dict[str, Any] = {kind: ["gpu.example.com/ids"]}
    claim = make_claim(request("r1"), request("r2"), **constraint)
    for values in (21, 22):
        ids = [list(range(place * values, (place + 1) * values)) for place in range(3)]
        ids[2][0] = 0
        published = [Device(f"d{place}", {"ids": DeviceAttribute(ints=each)}) for place, each in enumerate(ids)]
        cluster = Cluster(release, SliceIndex(release, [make_slice("s", published)]))
        plan = integers_of(cluster, claim)
        assert plan is not None
        assert isinstance(cluster.slices, SliceIndex)
        table = cluster.slices.pools_of(make_node()).table(cluster.slices.features)
        assert table is not None
        available = AvailableCounters(cluster.state, by_pool_name=False)
        found = plan.find(table, cluster.state, available, cluster.selectors)
        if values == 22:
            assert found is None
            continue
        assert found is not None
        assert found[1] is not None
        assert [each.name for _, each, _ in found[1][0]] == (["d0", "d2"] if kind == "match" else ["d0", "d1"])


def test_nodes_may_see_different_counters_of_one_pool(release: Release) -> None:
    """What is left of a pool's counters is kept from node to node, for the first node that needs it."""
    slices = []
    for number, amounts in enumerate([{"memory": "1"}, {"memory": "2", "cores": "1"}], start=1):
        fields: dict[str, Any] = {"node_name": f"node-{number}", "slices": 2, "generation": number}
        published = device("d", {"model": str(number)}, consumes={"m": {"memory": "1"}})
        slices.append(make_slice(f"s{number}", [published], **fields))
        slices.append(make_slice(f"c{number}", shared_counters=[counter_set("m", **amounts)], **fields))
    cluster = Cluster(release, SliceIndex(release, slices), state=in_use("other"))
    claims = [make_claim(request("r", 1, *expressions)) for expressions in ((), ("model=2",))]
    for claim in claims:
        searched, planned = cluster.allocator(), cluster.allocator()
        plan = plan_of(planned, [claim])
        assert plan is not None
        for name in ("node-1", "node-2"):
            node = make_node(name)
            assert decide(planned, node, [claim], plan) == decide(searched, node, [claim], None)


@pytest.mark.parametrize("driver", ["gpu.example.com", "net.example.com"])
def test_in_1_36_pools_of_one_name_have_their_counters_in_common(driver: str) -> None:
    slices = []
    for number, amounts in enumerate([{"memory": "1"}, {"memory": "2", "cores": "1"}], start=1):
        fields: dict[str, Any] = {"node_name": f"node-{number}", "slices": 2}
        fields |= {"driver": driver} if number == 2 else {"driver": "gpu.example.com"}
        published = device("d", consumes={"m": {"memory": "1"}})
        slices.append(make_slice(f"s{number}", [published, *devices("e")], **fields))
        slices.append(make_slice(f"c{number}", shared_counters=[counter_set("m", **amounts)], **fields))
    cluster = Cluster(OLD, SliceIndex(OLD, slices))
    claim = make_claim(request(count=1))
    searched, planned = cluster.allocator(), cluster.allocator()
    plan = plan_of(planned, [claim])
    assert plan is not None
    for name in ("node-1", "node-2"):
        node = make_node(name)
        assert decide(planned, node, [claim], plan) == decide(searched, node, [claim], None)


def _decoded(objects: object, kind: type) -> list:  # type: ignore[type-arg]
    return msgspec.json.decode(msgspec.json.encode(objects), type=kind)


@given(st.integers(0, 1 << 32), st.sampled_from(RELEASES))
@settings(max_examples=150, deadline=None)
def test_on_generated_clusters_it_finds_what_the_search_finds(seed: int, release: Release) -> None:
    case = generate(seed, release.version)
    has_lists = case.gates["DRAListTypeAttributes"]
    release = release.with_gates({"DRAListTypeAttributes": has_lists})
    selectors = SELECTORS[release.version, has_lists]
    nodes = _decoded(case.cluster["nodes"], list[Node])
    index = SliceIndex(release, _decoded(case.cluster["resourceSlices"], list[ResourceSlice]))
    classes = {each.metadata.name: each for each in _decoded(case.cluster["deviceClasses"], list[DeviceClass])}
    rng = random.Random(seed)
    in_use_before = _decoded(case.cluster["allocated"], list[DeviceRequestAllocationResult])
    state = AllocatedState.of(in_use_before if rng.random() < 0.5 else (), release)

    def new_allocator() -> Allocator:
        return Allocator(release, state, classes, index, selectors, draw_share_id=lambda: "share")

    for pod in case.pending:
        claims = _decoded(pod["claims"], list[ResourceClaim])
        for node in nodes:
            general, planned = new_allocator(), new_allocator()
            try:
                expected = decide(general, node, claims, None)
            except SearchStopped:
                event("the search is too long to compare")  # the kernel may end where this was stopped
                continue
            plan = plan_of(planned, claims)
            integers = None if plan is None else plan.integers
            assert decide(planned, node, claims, None if integers is None else ClaimsPlan(None, integers)) == expected
            assert planned.steps == general.steps
            if integers is not None:
                table = index.pools_of(node).table(index.features)
                available = AvailableCounters(state, by_pool_name=release.devices.counters_by_pool_name)
                is_used = table is not None and integers.find(table, state, available, selectors) is not None
                event(f"searched by the kernel: {is_used}, with lists: {has_lists and bool(integers.attributes)}")
            if isinstance(expected, list) and rng.random() < 0.5:
                for allocation in expected:
                    for result in allocation.devices.results or ():
                        state.add(result, release)
