"""What the allocator decides by the rules that both releases share, and where they differ."""

from __future__ import annotations

import pytest

from kscheduler.api.devices import (
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceSlice,
)
from kscheduler.config.releases import Release
from kscheduler.devices.allocator import AllocationError, SearchStopped
from tests.devices.building import (
    CLASS,
    NEW,
    OLD,
    Cluster,
    alternative,
    device,
    devices,
    first_available,
    in_use,
    make_claim,
    make_class,
    make_node,
    make_slice,
    request,
    request_all,
    selectors,
)

MAX_INT64 = (1 << 63) - 1


# --- counts -----------------------------------------------------------------------------------------------------


def test_a_request_gets_the_first_free_devices_in_the_order_of_the_slice(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b", "c"))], state=in_use("a"))
    assert cluster.chosen(make_claim(request("req", 2))) == [["b", "c"]]


def test_there_is_no_solution_when_devices_are_too_few(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))])
    assert cluster.allocate(make_claim(request("req", 3))) is None


def test_a_claim_without_requests_is_allocated_nothing(release: Release) -> None:
    (result,) = Cluster(release, []).allocate(make_claim()) or []
    assert result.devices.results == []
    assert result.node_selector is None


def test_claims_of_a_pod_do_not_share_devices(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))])
    first, second = make_claim(request(), name="first"), make_claim(request(), name="second")
    assert cluster.chosen(first, second) == [["a"], ["b"]]


def test_an_earlier_request_gives_way_to_a_later_one_that_can_use_only_its_device(release: Release) -> None:
    published = [device("a", {"model": "big"}), device("b", {"model": "small"})]
    cluster = Cluster(release, [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("any"), request("big", 1, "model=big"))) == [["b", "a"]]


def test_more_than_32_devices_for_a_claim_are_an_error(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices(*(f"d{i}" for i in range(40))))])
    claim = make_claim(request("first", 30), request("second", 3))
    expected = (
        "claim ns/claim: number of requested devices 33 exceeds the claim limit of 32"
        if release is OLD
        else "claim ns/claim, request second: adding 3 devices exceeds the claim limit of 32, "
        "with 30 already accounted for"
    )
    with pytest.raises(AllocationError) as raised:
        cluster.allocate(claim)
    assert str(raised.value) == expected
    assert len((cluster.chosen(make_claim(request("first", 30), request("second", 2))) or [[]])[0]) == 32


def test_counts_that_overflow_int64_are_refused(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))])
    with pytest.raises(AllocationError, match="exceeds the claim limit of 32"):
        cluster.allocate(make_claim(request("first", 1), request("second", MAX_INT64)))
    huge = first_available("either", alternative("all", MAX_INT64), alternative("one", 1))
    assert cluster.chosen(make_claim(request("first", 1), huge)) == [["a", "b"]]


def test_many_claims_need_no_deep_recursion(release: Release) -> None:
    names = [f"d{i:03}" for i in range(128)]
    cluster = Cluster(release, [make_slice("s", devices(*names))])
    claims = [make_claim(request("req", 32), name=f"claim-{i}") for i in range(4)]
    empty = [make_claim(name=f"empty-{i}") for i in range(2000)]
    chosen = cluster.chosen(*claims, *empty) or []
    assert [name for each in chosen for name in each] == names


# --- all devices ------------------------------------------------------------------------------------------------


def test_a_request_for_all_gets_every_matching_device(release: Release) -> None:
    published = [device("a", {"model": "x"}), device("b", {"model": "y"}), device("c", {"model": "x"})]
    cluster = Cluster(release, [make_slice("s", published)])
    assert cluster.chosen(make_claim(request_all("req", "model=x"))) == [["a", "c"]]


def test_a_request_for_all_fails_if_one_of_them_is_in_use_or_if_there_is_none(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))], state=in_use("b"))
    assert cluster.allocate(make_claim(request_all())) is None
    assert Cluster(release, []).allocate(make_claim(request_all())) is None


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([make_slice("s", devices("a"), slices=2)], "being updated"),
        ([make_slice("s", devices("a", "a"))], "invalid"),
    ],
)
def test_a_request_for_all_needs_complete_and_valid_pools(
    release: Release, slices: list[ResourceSlice], problem: str
) -> None:
    expected = (
        f"claim ns/claim, request req: asks for all devices, "
        f"but resource pool gpu.example.com/pool is currently {problem}"
    )
    with pytest.raises(AllocationError) as raised:
        Cluster(release, slices).allocate(make_claim(request_all()))
    assert str(raised.value) == expected


def test_a_violated_constraint_among_all_devices_is_an_error(release: Release) -> None:
    published = [device("a", {"numa": 1}), device("b", {"numa": 2})]
    cluster = Cluster(release, [make_slice("s", published)])
    with pytest.raises(AllocationError) as raised:
        cluster.allocate(make_claim(request_all(), match=["gpu.example.com/numa"]))
    assert str(raised.value) == (
        "claim ns/claim, request req: cannot add device gpu.example.com/pool/b "
        "because a claim constraint would not be satisfied"
    )


# --- alternatives -----------------------------------------------------------------------------------------------


def test_the_first_alternative_that_can_be_allocated_is_chosen(release: Release) -> None:
    published = [device("a", {"model": "small"}), device("b", {"model": "small"})]
    cluster = Cluster(release, [make_slice("s", published)])
    claim = make_claim(
        first_available("req", alternative("big", 1, "model=big"), alternative("small", 2, "model=small"))
    )
    (result,) = cluster.allocate(claim) or []
    assert [each.request for each in result.devices.results or ()] == ["req/small", "req/small"]


def test_an_alternative_is_given_up_if_what_follows_cannot_be_allocated(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))])
    claim = make_claim(first_available("req", alternative("two", 2), alternative("one", 1)), request("last"))
    assert cluster.chosen(claim) == [["a", "b"]]
    (result,) = cluster.allocate(claim) or []
    assert [each.request for each in result.devices.results or ()] == ["req/one", "last"]


def test_alternatives_with_too_many_devices_are_passed_over(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices(*(f"d{i:02}" for i in range(40))))])
    many, few = alternative("many", 33), alternative("few", 1)
    claim = make_claim(request("first", 31), first_available("req", many, few))
    (result,) = cluster.allocate(claim) or []
    assert (result.devices.results or [])[-1].request == "req/few"


def test_an_earlier_claim_changes_its_alternative_for_a_later_one(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))])
    first = make_claim(first_available("req", alternative("two", 2), alternative("one", 1)), name="first")
    assert cluster.chosen(first, make_claim(request(), name="second")) == [["a"], ["b"]]


# --- admin access -----------------------------------------------------------------------------------------------


def test_admin_access_gets_devices_in_use(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a"))], state=in_use("a"))
    (result,) = cluster.allocate(make_claim(request(admin_access=True))) or []
    assert [(each.device, each.admin_access) for each in result.devices.results or ()] == [("a", True)]


def test_admin_access_gets_a_device_once_in_a_claim_but_again_in_another(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))])
    one = make_claim(request("x", admin_access=True), request("y", admin_access=True), name="one")
    other = make_claim(request("x", admin_access=True), name="other")
    assert cluster.chosen(one, other) == [["a", "b"], ["a"]]
    assert cluster.allocate(make_claim(request("x", 3, admin_access=True))) is None


def test_admin_access_is_refused_while_its_gate_is_off(release: Release) -> None:
    off = release.with_gates({"DRAAdminAccess": False})
    with pytest.raises(AllocationError) as raised:
        Cluster(off, []).allocate(make_claim(request(admin_access=False)))
    assert str(raised.value) == "claim ns/claim, request req: admin access is requested, but the feature is disabled"


# --- selectors --------------------------------------------------------------------------------------------------


def test_selectors_of_class_and_request_must_all_hold(release: Release) -> None:
    published = [
        device("a", {"model": "x", "zone": "1"}),
        device("b", {"model": "y", "zone": "2"}),
        device("c", {"model": "x", "zone": "2"}),
    ]
    cluster = Cluster(release, [make_slice("s", published)], [make_class(CLASS, "model=x")])
    assert cluster.chosen(make_claim(request("req", 1, "zone=2"))) == [["c"]]


def test_an_expression_that_does_not_compile_ends_the_cycle_once_a_device_is_looked_at(release: Release) -> None:
    published = [make_slice("s", devices("a"))]
    with pytest.raises(AllocationError) as raised:
        Cluster(release, published).allocate(make_claim(request("req", 1, "bad")))
    assert str(raised.value) == "claim ns/claim: selector #0: CEL compile error: no condition: bad"
    with pytest.raises(AllocationError) as raised:
        Cluster(release, published, [make_class(CLASS, "worse")]).allocate(make_claim(request()))
    assert str(raised.value) == "class gpu: selector #0: CEL compile error: no condition: worse"
    assert Cluster(release, []).allocate(make_claim(request("req", 1, "bad"))) is None


def test_an_expression_that_fails_for_a_device_ends_the_cycle(release: Release) -> None:
    published = [device("a", {"model": "x"}), device("b", {"zone": "1"})]
    cluster = Cluster(release, [make_slice("s", published)])
    claim = make_claim(request("req", 1, "model=y"))
    expected = (
        "claim ns/claim: selector #0: CEL runtime error: no such key: model"
        if release is OLD
        else "claim ns/claim: selector #0 on device gpu.example.com/pool/b: CEL runtime error: no such key: model. "
        "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
        "for optional fields"
    )
    with pytest.raises(AllocationError) as raised:
        cluster.allocate(claim)
    assert str(raised.value) == expected


def test_an_expression_is_evaluated_once_for_a_device_whatever_nodes_and_claims_ask() -> None:
    published = [device("a", {"model": "x"}), device("b", {"model": "x"})]
    cluster = Cluster(NEW, [make_slice("s", published, all_nodes=True)], [make_class(CLASS, "model=x")])
    allocator = cluster.allocator()
    claim = make_claim(request("x", 1, "model=x"), request("y", 1, "model=x"))
    for name in ("n1", "n2", "n3"):
        assert allocator.allocate(make_node(name), [claim]) is not None
    assert len(cluster.selectors.evaluated) == 2


# --- requests that are wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (
            ExactDeviceRequest(device_class_name="other"),
            "claim ns/claim, request req: could not retrieve device class other: "
            'deviceclass.resource.k8s.io "other" not found',
        ),
        (
            ExactDeviceRequest(),
            "claim ns/claim, request req: missing device class name (unsupported request type?)",
        ),
        (None, "claim ns/claim, request req: missing device class name (unsupported request type?)"),
        (
            ExactDeviceRequest(device_class_name=CLASS, allocation_mode="Some"),
            "claim ns/claim, request req: unsupported count mode Some",
        ),
        (
            ExactDeviceRequest(device_class_name=CLASS, selectors=[*selectors("a=b"), DeviceSelector()]),
            "claim ns/claim, request req, selector #1: CEL expression empty (unsupported selector type?)",
        ),
    ],
)
def test_requests_that_are_not_understood_are_errors(
    release: Release, wanted: ExactDeviceRequest | None, problem: str
) -> None:
    with pytest.raises(AllocationError) as raised:
        Cluster(release, []).allocate(make_claim(DeviceRequest("req", exactly=wanted)))
    assert str(raised.value) == problem


def test_an_unknown_constraint_is_an_error(release: Release) -> None:
    claim = make_claim(request(), constraints=[DeviceConstraint(match_attribute="a/b"), DeviceConstraint()])
    with pytest.raises(AllocationError) as raised:
        Cluster(release, []).allocate(claim)
    assert str(raised.value) == "claim ns/claim, constraint #1: empty constraint (unsupported constraint type?)"


@pytest.mark.parametrize(
    ("gate", "claim", "problem"),
    [
        (
            "DRAPrioritizedList",
            make_claim(first_available("req", alternative("one"))),
            "claim ns/claim, request req: has subrequests, but the DRAPrioritizedList feature is disabled",
        ),
        (
            "DRAConsumableCapacity",
            make_claim(request("req", capacity={"memory": "1Gi"})),
            "claim ns/claim, request req: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
        (
            "DRAConsumableCapacity",
            make_claim(first_available("req", alternative("one", capacity={}))),
            "claim ns/claim, subrequest one: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
    ],
)
def test_requests_that_use_a_feature_that_is_off_are_errors(
    release: Release, gate: str, claim: object, problem: str
) -> None:
    with pytest.raises(AllocationError) as raised:
        Cluster(release.with_gates({gate: False}), []).allocate(claim)  # type: ignore[arg-type]
    assert str(raised.value) == problem


# --- the search -------------------------------------------------------------------------------------------------


def test_combinations_are_tried_but_not_permutations(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b", "c"))])
    allocator = cluster.allocator()
    assert allocator.allocate(make_node(), [make_claim(request("two", 2), request("more", 2))]) is None
    # One step for each set of up to two devices in their order (1 + 3 + 3); for each pair the next request's first
    # device, which can be had, and its second, which cannot (3 · 2).
    assert allocator.steps == 1 + 3 + 3 + 3 * 2


def test_the_search_stops_when_its_caller_asks_it_to(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", devices("a", "b"))])
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) > 2

    with pytest.raises(SearchStopped, match="filter operation aborted"):
        cluster.allocate(make_claim(request("req", 2)), should_stop=should_stop)


def test_the_search_stops_among_devices_that_do_not_match(release: Release) -> None:
    """Looking at 10,000 devices is one step of the search."""
    many = [
        make_slice(f"s{i}", [device(f"d{i}-{j}", {"model": "x"}) for j in range(100)], slices=100) for i in range(100)
    ]
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) > 5

    with pytest.raises(SearchStopped):
        Cluster(release, many).allocate(make_claim(request("req", 1, "model=y")), should_stop=should_stop)
