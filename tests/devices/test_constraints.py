"""matchAttribute and distinctAttribute."""

from __future__ import annotations

import pytest

from kscheduler.api.devices import Device, DeviceAttribute, DeviceConstraint
from kscheduler.config.releases import Release
from tests.devices.building import (
    NEW,
    OLD,
    Cluster,
    alternative,
    attribute,
    device,
    first_available,
    make_claim,
    make_slice,
    request,
)

NUMA = "gpu.example.com/numa"


def test_match_attribute_takes_devices_with_one_value(release: Release) -> None:
    published = [device("a", {"numa": 1}), device("b", {"numa": 2}), device("c"), device("d", {"numa": 2})]
    cluster = Cluster(release, [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("req", 2), match=[NUMA])) == [["b", "d"]]
    assert cluster.allocate(make_claim(request("req", 3), match=[NUMA])) is None


def test_a_constraint_holds_for_the_requests_that_it_names(release: Release) -> None:
    published = [device("a", {"numa": 1}), device("b", {"numa": 2}), device("c", {"numa": 1})]
    constraint = DeviceConstraint(["x", "z"], match_attribute=NUMA)
    claim = make_claim(request("x"), request("y"), request("z"), constraints=[constraint])
    assert Cluster(release, [make_slice("s", published)]).chosen(claim) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("names", "expected"), [(["x", "y"], [["a", "c"]]), (["x", "y/one"], [["a", "c"]]), (["x", "y/two"], [["a", "b"]])]
)
def test_a_constraint_may_name_an_alternative(release: Release, names: list[str], expected: list[list[str]]) -> None:
    published = [device("a", {"numa": 1}), device("b", {"numa": 2}), device("c", {"numa": 1})]
    constraint = DeviceConstraint(names, match_attribute=NUMA)
    claim = make_claim(request("x"), first_available("y", alternative("one")), constraints=[constraint])
    assert Cluster(release, [make_slice("s", published)]).chosen(claim) == expected


@pytest.mark.parametrize(
    ("first", "second", "is_equal"),
    [
        (attribute("1"), attribute("1"), True),
        (attribute("1"), attribute(1), False),
        (attribute(1), attribute(True), False),
        (attribute(True), attribute(True), True),
        (DeviceAttribute(version="1.0.0"), DeviceAttribute(version="1.0.0"), True),
        (DeviceAttribute(version="1.0.0"), attribute("1.0.0"), False),
        (DeviceAttribute(), DeviceAttribute(), False),
        (DeviceAttribute(), attribute(""), False),
    ],
)
def test_values_are_equal_only_if_their_types_are(
    release: Release, first: DeviceAttribute, second: DeviceAttribute, is_equal: bool
) -> None:
    published = [device("a"), device("b")]
    published = [
        type(each)(name=each.name, attributes={"numa": value})
        for each, value in zip(published, (first, second), strict=True)
    ]
    cluster = Cluster(release, [make_slice("s", published)])
    found = cluster.chosen(make_claim(request("x"), request("y"), match=[NUMA]))
    assert found == ([["a", "b"]] if is_equal else None)


def test_a_qualified_attribute_comes_before_the_drivers_own(release: Release) -> None:
    published = [
        device("a", {NUMA: 1, "numa": 2}),
        device("b", {"numa": 2}),
        device("c", {"numa": 1}),
        device("d", {"other.example.com/numa": 1}),
    ]
    cluster = Cluster(release, [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("req", 2), match=[NUMA])) == [["a", "c"]]
    assert cluster.chosen(make_claim(request("req"), match=["other.example.com/numa"])) == [["d"]]


def test_a_bare_name_is_looked_up_as_it_is(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [device("a", {NUMA: 1}), device("b", {"numa": 1})])])
    assert cluster.chosen(make_claim(request("req"), match=["numa"])) == [["b"]]


def test_distinct_attribute_takes_devices_with_different_values(release: Release) -> None:
    published = [device("a", {"numa": 1}), device("b", {"numa": 1}), device("c", {"numa": 2})]
    cluster = Cluster(release, [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("x"), request("y"), distinct=[NUMA])) == [["a", "c"]]
    claim = make_claim(request("x"), request("y"), request("z"), distinct=[NUMA])
    assert cluster.allocate(claim) is None


def test_the_devices_of_one_request_differ_too_but_in_1_36_only_from_the_last_one() -> None:
    published = [device("a", {"numa": 1}), device("b", {"numa": 2}), device("c", {"numa": 1})]
    slices = [make_slice("s", published)]
    claim = make_claim(request("req", 3), distinct=[NUMA])
    assert Cluster(OLD, slices).chosen(claim) == [["a", "b", "c"]]
    assert Cluster(NEW, slices).allocate(claim) is None
    assert Cluster(NEW, slices).chosen(make_claim(request("req", 2), distinct=[NUMA])) == [["a", "b"]]


def test_a_device_given_back_frees_its_value(release: Release) -> None:
    """The first try, `a` for x, leaves nothing for y."""
    published = [device("a", {"numa": 1, "model": "m"}), device("b", {"numa": 2, "model": "n"})]
    cluster = Cluster(release, [make_slice("s", published)])
    claim = make_claim(request("x"), request("y", 1, "model=m"), distinct=[NUMA])
    assert cluster.chosen(claim) == [["b", "a"]]


def test_all_constraints_have_to_hold_and_those_before_a_refusal_are_undone(release: Release) -> None:
    published = [
        device("a", {"numa": 1, "rack": 1}),
        device("b", {"numa": 1, "rack": 1}),
        device("c", {"numa": 1, "rack": 2}),
    ]
    cluster = Cluster(release, [make_slice("s", published)])
    claim = make_claim(request("x"), request("y"), match=[NUMA], distinct=["gpu.example.com/rack"])
    assert cluster.chosen(claim) == [["a", "c"]]


def test_constraints_do_not_reach_from_claim_to_claim(release: Release) -> None:
    published = [device("a", {"numa": 1}), device("b", {"numa": 2})]
    cluster = Cluster(release, [make_slice("s", published)])
    one, other = (make_claim(request(), match=[NUMA], name=name) for name in ("one", "other"))
    assert cluster.chosen(one, other) == [["a"], ["b"]]


# --- attributes with several values -----------------------------------------------------------------------------


def with_lists(release: Release) -> Release:
    return release.with_gates({"DRAListTypeAttributes": True})


def listed(name: str, *values: str, model: str = "m") -> Device:
    attributes = {"numa": DeviceAttribute(strings=list(values)), "model": DeviceAttribute(string=model)}
    return Device(name=name, attributes=attributes)


def test_lists_match_in_a_value_that_all_have(release: Release) -> None:
    published = [listed("a", "1", "2"), listed("b", "2", "3"), listed("c", "1", "3"), listed("d", "4", "3")]
    cluster = Cluster(with_lists(release), [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("req", 2), match=[NUMA])) == [["a", "b"]]
    assert cluster.chosen(make_claim(request("x", 1, "model=m"), request("y"), match=[NUMA])) == [["a", "b"]]
    assert Cluster(release, [make_slice("s", published)]).allocate(make_claim(request("x"), match=[NUMA])) == (
        Cluster(release, [make_slice("s", published)]).allocate(make_claim(request("x")))
    )


def test_a_device_given_back_no_longer_narrows_the_values_but_in_1_36() -> None:
    """`a` and `b` have only 2 in common, which `c` does not have; without `b`, `a` and `c` have 1."""
    published = [listed("a", "1", "2"), listed("b", "2"), listed("c", "1")]
    claim = make_claim(request("x", 1), request("y", 1), request("z", 1, "model=none"), match=[NUMA])
    published.append(listed("d", "1", model="none"))
    slices = [make_slice("s", published)]
    assert Cluster(with_lists(NEW), slices).chosen(claim) == [["a", "c", "d"]]
    assert Cluster(with_lists(OLD), slices).chosen(claim) == [["c", "a", "d"]]


def test_a_single_value_is_a_list_of_one(release: Release) -> None:
    published = [device("a", {"numa": "2"}), listed("b", "1"), listed("c", "2", "1")]
    cluster = Cluster(with_lists(release), [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("req", 2), match=[NUMA])) == [["a", "c"]]


def test_values_of_lists_are_equal_only_if_their_types_are(release: Release) -> None:
    published = [
        Device(name=str(number), attributes={"numa": value})
        for number, value in enumerate(
            [DeviceAttribute(ints=[1]), DeviceAttribute(bools=[True]), DeviceAttribute(versions=["1.0.0"])]
        )
    ]
    cluster = Cluster(with_lists(release), [make_slice("s", published)])
    assert cluster.allocate(make_claim(request("req", 2), match=[NUMA])) is None
    assert cluster.chosen(make_claim(request("x"), request("y"), request("z"), distinct=[NUMA])) == [["0", "1", "2"]]


def test_distinct_lists_have_no_value_in_common(release: Release) -> None:
    published = [listed("a", "1", "2"), listed("b", "2", "3"), listed("c", "3")]
    cluster = Cluster(with_lists(release), [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("x"), request("y"), distinct=[NUMA])) == [["a", "c"]]
    assert cluster.allocate(make_claim(request("x"), request("y"), request("z"), distinct=[NUMA])) is None


def test_distinct_lists_of_one_request_differ_but_in_1_36_only_from_the_last() -> None:
    slices = [make_slice("s", [listed("a", "1"), listed("b", "2"), listed("c", "1")])]
    claim = make_claim(request("req", 3), distinct=[NUMA])
    assert Cluster(with_lists(OLD), slices).chosen(claim) == [["a", "b", "c"]]
    assert Cluster(with_lists(NEW), slices).allocate(claim) is None


def test_a_value_of_an_unknown_type_is_refused_but_in_1_36_the_first_of_distinct_ones() -> None:
    slices = [make_slice("s", [Device(name="a", attributes={"numa": DeviceAttribute()})])]
    assert Cluster(with_lists(OLD), slices).chosen(make_claim(request(), distinct=[NUMA])) == [["a"]]
    assert Cluster(with_lists(NEW), slices).allocate(make_claim(request(), distinct=[NUMA])) is None
    assert Cluster(with_lists(NEW), slices).allocate(make_claim(request(), match=[NUMA])) is None


def test_a_distinct_list_given_back_frees_its_values(release: Release) -> None:
    published = [listed("a", "1"), listed("b", "2", model="n")]
    cluster = Cluster(with_lists(release), [make_slice("s", published)])
    assert cluster.chosen(make_claim(request("x"), request("y", 1, "model=m"), distinct=[NUMA])) == [["b", "a"]]
