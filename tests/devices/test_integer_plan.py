"""What the kernel finds is what the general search finds, in as many steps; and it is asked where it can tell."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.objects import Node
from kscheduler.cel.selectors import selectors_for
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import Allocator, SearchStopped
from kscheduler.devices.counters import AvailableCounters
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

SELECTORS = {release.version: selectors_for(release) for release in RELEASES}


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
        (make_claim(request(count=2), distinct=["gpu.example.com/model"]), OLD, False),  # it is by request there
        (make_claim(request(count=2), match=["model"]), NEW.with_gates({"DRAListTypeAttributes": True}), False),
        (make_claim(request_all()), NEW, False),
        (make_claim(request(admin_access=True)), NEW, False),
        (make_claim(request(count=33)), NEW, False),
        (make_claim(request(capacity={"memory": "1Gi"})), NEW, False),
    ],
)
def test_the_kernel_is_asked_about_numbers_of_devices(claim: ResourceClaim, release: Release, is_asked: bool) -> None:
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


def _decoded(objects: object, kind: type) -> list:  # type: ignore[type-arg]
    return msgspec.json.decode(msgspec.json.encode(objects), type=kind)


@given(st.integers(0, 1 << 32), st.sampled_from(RELEASES))
@settings(max_examples=150, deadline=None)
def test_on_generated_clusters_it_finds_what_the_search_finds(seed: int, release: Release) -> None:
    case = generate(seed, release.version)
    nodes = _decoded(case.cluster["nodes"], list[Node])
    index = SliceIndex(release, _decoded(case.cluster["resourceSlices"], list[ResourceSlice]))
    classes = {each.metadata.name: each for each in _decoded(case.cluster["deviceClasses"], list[DeviceClass])}
    state, rng = AllocatedState(), random.Random(seed)

    def new_allocator() -> Allocator:
        return Allocator(release, state, classes, index, SELECTORS[release.version], draw_share_id=lambda: "share")

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
                is_used = table is not None and integers.find(table, state, available) is not None
                event(f"searched by the kernel: {is_used}")
            if isinstance(expected, list) and rng.random() < 0.5:
                for allocation in expected:
                    for result in allocation.devices.results or ():
                        state.add(result, release)
