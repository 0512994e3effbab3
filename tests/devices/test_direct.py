"""What is allocated without a search is what the search finds; and where only the search can tell, nothing is."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kscheduler.api.devices import (
    CapacityRequestPolicy,
    Device,
    DeviceCapacity,
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceTaint,
    OpaqueConfiguration,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.objects import Node
from kscheduler.cel.selectors import Selectors
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import AllocationError, Allocator, SearchStopped
from kscheduler.devices.selection import Selectors as AnySelectors
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import (
    CLASS,
    DRIVER,
    NEW,
    RELEASES,
    Cluster,
    FakeSelectors,
    alternative,
    device,
    devices,
    first_available,
    in_use,
    make_claim,
    make_class,
    make_node,
    make_slice,
    names_of,
    request,
    request_all,
)
from tests.devices.deciding import Outcome, decide, plan_of
from tests.parity.devices.generate import generate

SELECTORS = Selectors()


def compare(
    release: Release,
    slices: SliceIndex,
    state: AllocatedState,
    classes: dict[str, DeviceClass],
    selectors: AnySelectors,
    node: Node,
    claims: list[ResourceClaim],
) -> tuple[Outcome, bool]:
    """Return what the search decides, and whether it was found without, too; fail where the two differ.

    Raises SearchStopped if the search is too long to compare.
    """

    def new_allocator() -> Allocator:
        return Allocator(release, state, classes, slices, selectors, draw_share_id=lambda: "share")

    searching, planning = new_allocator(), new_allocator()
    expected = decide(searching, node, claims, None)  # which evaluates selectors, too
    plan = plan_of(planning, claims)
    assert decide(planning, node, claims, plan) == expected
    assert planning.steps == searching.steps
    is_direct = False
    if plan is not None and plan.direct is not None:
        try:
            is_direct = plan.direct.allocate(node.metadata.name, slices.pools_of(node), state) is not None
        except AllocationError:
            assert isinstance(expected, str)
    return expected, is_direct


# --- generated clusters -------------------------------------------------------------------------------------------


def generated(seed: int, release: Release) -> None:
    """Compare all decisions for a generated cluster, whose devices are taken one pod after the other."""
    case = generate(seed, release.version)
    nodes = msgspec.convert(case.cluster["nodes"], list[Node])
    slices = SliceIndex(release, _decoded(case.cluster["resourceSlices"], list[ResourceSlice]))
    classes = {each.metadata.name: each for each in _decoded(case.cluster["deviceClasses"], list[DeviceClass])}
    state, rng = AllocatedState(), random.Random(seed)
    for pod in case.pending:
        claims = _decoded(pod["claims"], list[ResourceClaim])
        for node in rng.sample(nodes, len(nodes)):
            try:
                outcome, _ = compare(release, slices, state, classes, SELECTORS, node, claims)
            except SearchStopped:
                continue
            if isinstance(outcome, list) and rng.random() < 0.5:
                for allocation in outcome:
                    for result in allocation.devices.results or ():
                        state.add(result, release)
                break


def _decoded(objects: object, kind: type) -> list:  # type: ignore[type-arg]
    return msgspec.json.decode(msgspec.json.encode(objects), type=kind)


@given(st.integers(0, 1 << 32), st.sampled_from(RELEASES))
@settings(max_examples=60, deadline=None)
def test_the_outcome_is_that_of_the_search(seed: int, release: Release) -> None:
    generated(seed, release)


# --- clusters for which a search is rarely needed -----------------------------------------------------------------

attributes = st.fixed_dictionaries({"kind": st.sampled_from("ab")})
peculiarities = st.sampled_from(
    [{}] * 8
    + [
        {"allow_multiple_allocations": True},
        {"taints": [DeviceTaint(key="t", effect="NoSchedule")]},
        {"binds_to_node": True},
        {"capacity": {"memory": "1Gi"}},
    ]
)
pools = st.lists(st.lists(st.tuples(attributes, peculiarities, st.booleans()), max_size=5), max_size=3)
expressions = st.sampled_from(["kind=a", "kind=b"])
pods = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.lists(expressions, max_size=1)), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
CONFIGURED = make_class(
    CLASS, config=[DeviceClassConfiguration(OpaqueConfiguration("gpu.example.com", msgspec.Raw(b'"class"')))]
)
directly: list[bool] = []


@given(pools, pods, st.sampled_from(RELEASES))
@example([[({"kind": "a"}, {}, False)]], [[(1, [])]], NEW)  # which is found directly, however few cases are drawn
def check_numbers_of_devices(given_pools: list[Any], pod: list[Any], release: Release) -> None:
    state, slices = AllocatedState(), SliceIndex(release)
    for i, members in enumerate(given_pools):
        published = [device(f"d{j}", kinds, **peculiar) for j, (kinds, peculiar, _) in enumerate(members)]
        slices.put(make_slice(f"s{i}", published, pool=f"p{i}"))
        for j, (_, _, is_used) in enumerate(members):
            if is_used:
                state.devices.add((DRIVER, f"p{i}", f"d{j}"))
    claims = [
        make_claim(
            *(request(f"r{k}", count, *selecting) for k, (count, selecting) in enumerate(requests)),
            name=f"c{i}",
            config=[DeviceClaimConfiguration(["r0"], OpaqueConfiguration("gpu.example.com", msgspec.Raw(b'"claim"')))],
        )
        for i, requests in enumerate(pod)
    ]
    try:
        found, is_direct = compare(release, slices, state, {CLASS: CONFIGURED}, FakeSelectors(), make_node(), claims)
    except SearchStopped:
        return
    if isinstance(found, list):
        directly.append(is_direct)


def test_requests_for_numbers_of_devices_are_decided_as_by_the_search() -> None:
    directly.clear()
    check_numbers_of_devices()
    assert any(directly)  # the tests below name the cases in which the search decides


# --- single devices -----------------------------------------------------------------------------------------------


def look(
    published: list[Device], *claims: ResourceClaim, state: AllocatedState | None = None
) -> tuple[list[str] | None, bool]:
    """Return the devices that claims get on a node, None without, and whether they are found without a search."""
    slices = SliceIndex(NEW, [make_slice("s", published)])
    classes = {CLASS: make_class()}
    found, is_direct = compare(
        NEW, slices, state or AllocatedState(), classes, FakeSelectors(), make_node(), list(claims)
    )
    assert not isinstance(found, str)
    return None if found is None else [name for each in found for name in names_of(each)], is_direct


def test_requests_take_the_first_free_devices_one_after_the_other() -> None:
    claims = make_claim(request("a", 2)), make_claim(request("b"), name="other")
    assert look(devices("d0", "d1", "d2", "d3", "d4"), *claims, state=in_use("d1")) == (["d0", "d2", "d3"], True)


def test_only_devices_that_all_selectors_allow_are_taken() -> None:
    published = [device("d0", {"kind": "b"}), device("d1", {"kind": "a"})]
    assert look(published, make_claim(request("a", 1, "kind=a"))) == (["d1"], True)


def test_a_pod_that_has_to_go_back_is_searched_for() -> None:
    published = [device("d0", {"kind": "a"}), device("d1", {"kind": "b"})]
    one, other = request("any", 1, "kind=a"), request("a", 1, "kind=a")
    assert look(published, make_claim(one, other)) == (None, False)


@pytest.mark.parametrize(
    "peculiar",
    [
        device("d0", allow_multiple_allocations=True, capacity={"memory": "1"}),
        device("d0", taints=[DeviceTaint(key="t", effect="NoSchedule")]),
        device("d0", binds_to_node=True),
        device("d0", binding_conditions=["ready"], binding_failure_conditions=["failed"]),
        device("d0", capacity={"memory": DeviceCapacity("2", CapacityRequestPolicy(default="1"))}),
    ],
)
def test_a_device_that_takes_more_than_a_look_is_left_to_the_search(peculiar: Device) -> None:
    assert not look([peculiar], make_claim(request()))[1]
    assert look([device("plain"), peculiar], make_claim(request())) == (["plain"], True)


@pytest.mark.parametrize(
    "claim",
    [
        make_claim(request("a", 2), match=["kind"]),
        make_claim(request_all()),
        make_claim(first_available("a", alternative("b"))),
        make_claim(request(capacity={"memory": "1"})),
        make_claim(request(admin_access=True)),
        make_claim(request(count=33)),
        make_claim(),
    ],
)
def test_a_claim_that_asks_for_more_than_numbers_is_left_to_the_search(claim: ResourceClaim) -> None:
    allocator = Cluster(NEW, []).allocator()
    plain, other = plan_of(allocator, [make_claim(request())]), plan_of(allocator, [make_claim(request()), claim])
    assert plain is not None
    assert plain.direct is not None
    assert other is None or other.direct is None
