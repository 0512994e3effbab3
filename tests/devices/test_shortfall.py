"""Why claims cannot be allocated on a node: the first request that fails, and what leaves too few devices for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.devices import DeviceConstraint, DeviceRequest, DeviceTaint, ResourceClaim
from kscheduler.devices.errors import AllocationError, PoolError
from kscheduler.devices.shortfall import Cause, Shortfall, ShortfallFinder
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import (
    NEW,
    Cluster,
    alternative,
    counter_set,
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
)


def shortfalls(cluster: Cluster, *claims: ResourceClaim) -> list[Shortfall]:
    classes = {each.metadata.name: each for each in cluster.classes}
    assert not isinstance(cluster.slices, SliceIndex)
    index = SliceIndex(cluster.release, cluster.slices)
    finder = ShortfallFinder(cluster.release, cluster.state, classes, index, cluster.selectors)
    first = finder.on_node(make_node(), claims)
    assert finder.on_node(make_node(), claims) == first, "it changes nothing"
    return first


def only(cluster: Cluster, *claims: ResourceClaim) -> Shortfall:
    [found] = shortfalls(cluster, *claims)
    return found


MODELS = [device("a", {"model": "x"}), device("b", {"model": "x"}), device("c", {"model": "y"})]
TAINTED = device("t", taints=[DeviceTaint("broken", "", "NoSchedule")])


def test_claims_that_can_be_allocated_have_none() -> None:
    assert shortfalls(Cluster(NEW, [make_slice("s", MODELS)]), make_claim(request(count=3))) == []


@pytest.mark.parametrize(
    ("wanted", "cause", "detail"),
    [
        (request("gpu", 4), Cause.NO_DEVICE, ""),
        (request("gpu", 3, "model=x"), Cause.SELECTOR, "claim ns/claim: selector #0: model=x"),
        (request("gpu", 1, "model=x", "model=y"), Cause.SELECTOR, "claim ns/claim: selector #1: model=y"),
        (request("gpu", 1, "model=z"), Cause.SELECTOR, "claim ns/claim: selector #0: model=z"),
        (request_all("gpu", "model=z"), Cause.SELECTOR, "claim ns/claim: selector #0: model=z"),
        (request("gpu", 1, capacity={"memory": "1Gi"}), Cause.CAPACITY, ""),
        (request("gpu", 2, "model=x"), Cause.IN_USE, ""),
        (request_all("gpu"), Cause.IN_USE, ""),
    ],
)
def test_a_request_names_what_leaves_too_few_devices(wanted: DeviceRequest, cause: Cause, detail: str) -> None:
    cluster = Cluster(NEW, [make_slice("s", MODELS)], state=in_use("a"))
    assert only(cluster, make_claim(request("first"), wanted)) == Shortfall("ns/claim", "gpu", cause, detail)


def test_a_selector_of_the_class_is_named_with_the_class() -> None:
    cluster = Cluster(NEW, [make_slice("s", MODELS)], classes=[make_class("gpu", "model=z")])
    assert only(cluster, make_claim(request())).detail == "class gpu: selector #0: model=z"


def test_taints_are_named_before_other_claims() -> None:
    cluster = Cluster(NEW, [make_slice("s", [TAINTED, *devices("u")])], state=in_use("u"))
    assert only(cluster, make_claim(request(count=2))).cause is Cause.TAINT
    assert only(cluster, make_claim(request())).cause is Cause.IN_USE


def test_each_alternative_has_its_own_reason() -> None:
    either = first_available("gpu", alternative("big", 1, "model=z"), alternative("many", 4))
    cluster = Cluster(NEW, [make_slice("s", MODELS)])
    found = [(each.request, each.cause) for each in shortfalls(cluster, make_claim(either))]
    assert found == [("gpu/big", Cause.SELECTOR), ("gpu/many", Cause.NO_DEVICE)]


def test_requests_that_need_the_same_devices_fail_together() -> None:
    cluster = Cluster(NEW, [make_slice("s", MODELS)])
    claim = make_claim(request("one", 1, "model=y"), request("two", 1, "model=y"))
    assert only(cluster, claim) == Shortfall("ns/claim", "", Cause.TOGETHER)
    first, second = make_claim(request(count=2), name="first"), make_claim(request(count=2), name="second")
    assert only(cluster, first, second) == Shortfall("", "", Cause.TOGETHER)


def test_the_constraint_that_devices_do_not_meet_is_named() -> None:
    cluster = Cluster(NEW, [make_slice("s", MODELS)])
    claim = make_claim(request("gpu", 3), constraints=[DeviceConstraint(["gpu"], match_attribute="model")])
    detail = "constraint #0: matchAttribute model of gpu"
    assert only(cluster, claim) == Shortfall("ns/claim", "", Cause.CONSTRAINT, detail)
    claim = make_claim(request("gpu", 3), distinct=["model"])
    assert only(cluster, claim).detail == "constraint #0: distinctAttribute model of all requests"


def test_counters_that_are_used_up_are_shared() -> None:
    parts = [device(name, consumes={"gpu": {"memory": "40Gi"}}) for name in ("a", "b", "c")]
    slices = [
        make_slice("counters", slices=2, shared_counters=[counter_set("gpu", memory="80Gi")]),
        make_slice("parts", parts, slices=2),
    ]
    assert only(Cluster(NEW, slices), make_claim(request(count=3))).cause is Cause.SHARED
    assert shortfalls(Cluster(NEW, slices), make_claim(request(count=2))) == []


def test_an_incomplete_pool_is_named() -> None:
    cluster = Cluster(NEW, [make_slice("s", MODELS, slices=2, driver="d", pool="p")])
    assert only(cluster, make_claim(request())) == Shortfall("ns/claim", "req", Cause.POOL, "d/p")


def test_errors_are_in_the_allocators_words() -> None:
    cluster = Cluster(NEW, [make_slice("s", MODELS)])
    claim = make_claim(request("gpu", 1, "size=big"))
    with pytest.raises(AllocationError) as raised:
        cluster.allocate(claim)
    assert only(cluster, claim) == Shortfall("", "", Cause.ERROR, str(raised.value))


def test_a_search_without_end_is_given_up() -> None:
    many = [device(f"d{index}", {"model": f"m{index % 10}"}) for index in range(40)]
    claim = make_claim(request("gpu", 11), distinct=["model"])
    assert only(Cluster(NEW, [make_slice("s", many)]), claim).cause is Cause.GIVEN_UP


@given(
    taken=st.sets(st.sampled_from("abc")),
    wanted=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([(), ("model=x",), ("model=y",)])), min_size=1, max_size=3
    ),
    matches=st.booleans(),
)
def test_there_is_a_shortfall_if_and_only_if_the_allocator_finds_nothing(
    taken: set[str], wanted: list[tuple[int, tuple[str, ...]]], matches: bool
) -> None:
    cluster = Cluster(NEW, [make_slice("s", MODELS)], state=in_use(*taken))
    requests = [request(f"r{place}", count, *texts) for place, (count, texts) in enumerate(wanted)]
    claim = make_claim(*requests, match=["model"] if matches else [])
    try:
        results = cluster.allocate(claim)
    except (AllocationError, PoolError):
        results = None
    assert bool(shortfalls(cluster, claim)) == (results is None)
