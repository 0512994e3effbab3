"""Consumable capacity: how much of a shared device a request takes."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.api.devices import CapacityRange, CapacityRequestPolicy, Device, DeviceCapacity
from kscheduler.api.exact_quantity import Quantity
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import AllocationError
from tests.devices.building import (
    DRIVER,
    NEW,
    OLD,
    Cluster,
    device,
    in_use,
    make_claim,
    make_slice,
    request,
    request_all,
)

A = (DRIVER, "pool", "a")
FRACTIONAL = NEW.with_gates({"DRAFractionalCapacityRange": True})


def shared(name: str = "a", memory: str | DeviceCapacity = "40Gi", **fields: Any) -> Device:
    return device(name, allow_multiple_allocations=True, capacity={"memory": memory}, **fields)


def policy(
    value: str = "40Gi",
    default: str | None = None,
    values: list[str] | None = None,
    min: str | None = None,
    max: str | None = None,
    step: str | None = None,
) -> DeviceCapacity:
    bounds = CapacityRange(min, max, step) if min or max or step else None
    return DeviceCapacity(value, CapacityRequestPolicy(default, list(values) if values else None, bounds))


def used(amount: str, *, name: str = "memory") -> AllocatedState:
    return AllocatedState(shares={(A, "1")}, capacity={A: {name: Quantity.parse(amount)}})


def consumed(release: Release, capacity: DeviceCapacity, requested: str | None) -> str | None:
    """Return what a request is charged for, or None if the device is refused."""
    asked = None if requested is None else {"memory": requested}
    results = Cluster(release, [make_slice("s", [shared("a", capacity)])]).allocate(make_claim(request(capacity=asked)))
    if results is None:
        return None
    (only,) = results[0].devices.results or []
    return str((only.consumed_capacity or {})["memory"])


# --- sharing ----------------------------------------------------------------------------------------------------


def test_shares_are_taken_until_the_capacity_is_used_up(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [shared(), shared("b")])])
    requests = [request(f"r{i}", capacity={"memory": "15Gi"}) for i in range(3)]
    (result,) = cluster.allocate(make_claim(*requests)) or []
    found = [(each.device, each.share_id, each.consumed_capacity) for each in result.devices.results or ()]
    assert found == [
        ("a", "share-1", {"memory": "15Gi"}),
        ("a", "share-2", {"memory": "15Gi"}),
        ("b", "share-3", {"memory": "15Gi"}),
    ]


def test_one_request_takes_a_shared_device_once(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [shared(), shared("b")])])
    assert cluster.chosen(make_claim(request("req", 2, capacity={"memory": "1Gi"}))) == [["a", "b"]]
    assert cluster.allocate(make_claim(request("req", 3, capacity={"memory": "1Gi"}))) is None


def test_what_other_claims_consume_counts(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [shared()])], state=used("30Gi"))
    assert cluster.chosen(make_claim(request(capacity={"memory": "10Gi"}))) == [["a"]]
    assert cluster.allocate(make_claim(request(capacity={"memory": "11Gi"}))) is None


def test_a_shared_device_that_is_dedicated_to_a_claim_is_in_use(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [shared()])], state=in_use("a"))
    assert cluster.allocate(make_claim(request(capacity={"memory": "1Gi"}))) is None


def test_without_a_requested_amount_all_of_it_is_consumed(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [shared()])])
    assert consumed(release, DeviceCapacity("40Gi"), None) == "40Gi"
    assert cluster.allocate(make_claim(request("x"), request("y"))) is None


def test_a_device_without_capacity_can_be_shared_without_end(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [device("a", allow_multiple_allocations=True)])])
    (result,) = cluster.allocate(make_claim(request("x"), request("y"))) or []
    found = [(each.device, each.share_id, each.consumed_capacity) for each in result.devices.results or ()]
    assert found == [("a", "share-1", None), ("a", "share-2", None)]


def test_a_device_that_lacks_a_requested_capacity_is_passed_over(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [device("a"), shared("b")])])
    assert cluster.chosen(make_claim(request(capacity={"memory": "1Gi"}))) == [["b"]]


def test_a_device_that_is_not_shared_must_have_the_capacity_but_is_taken_whole(release: Release) -> None:
    published = [device("a", capacity={"memory": "10Gi"}), device("b", capacity={"memory": "40Gi"})]
    cluster = Cluster(release, [make_slice("s", published)])
    (result,) = cluster.allocate(make_claim(request(capacity={"memory": "20Gi"}))) or []
    (only,) = result.devices.results or []
    assert (only.device, only.share_id, only.consumed_capacity) == ("b", None, None)


def test_admin_access_does_not_exempt_from_the_capacity(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [shared()])], state=used("40Gi"))
    assert cluster.allocate(make_claim(request(admin_access=True, capacity={"memory": "1Gi"}))) is None


def test_a_dead_end_gives_back_what_it_consumed(release: Release) -> None:
    published = [shared("a", "2Gi", attributes={"m": "x"}), shared("b", "2Gi", attributes={"m": "y"})]
    cluster = Cluster(release, [make_slice("s", published)])
    claim = make_claim(request("x", capacity={"memory": "2Gi"}), request("y", 1, "m=x", capacity={"memory": "2Gi"}))
    assert cluster.chosen(claim) == [["b", "a"]]


def test_while_the_gate_is_off_shared_devices_are_taken_whole(release: Release) -> None:
    off = release.with_gates({"DRAConsumableCapacity": False})
    cluster = Cluster(off, [make_slice("s", [shared(), shared("b")])])
    (result,) = cluster.allocate(make_claim(request("x"), request("y"))) or []
    assert [(each.device, each.share_id) for each in result.devices.results or ()] == [("a", None), ("b", None)]


# --- all devices ------------------------------------------------------------------------------------------------


def test_all_leaves_out_devices_that_never_have_enough(release: Release) -> None:
    cluster = Cluster(release, [make_slice("s", [shared(), shared("b", "1Gi")])])
    assert cluster.chosen(make_claim(request_all(capacity={"memory": "2Gi"}))) == [["a"]]


def test_all_leaves_out_used_up_devices_in_1_36_and_fails_since_1_37() -> None:
    slices = [make_slice("s", [shared(), shared("b")])]
    claim = make_claim(request_all(capacity={"memory": "20Gi"}))
    assert Cluster(OLD, slices, state=used("30Gi")).chosen(claim) == [["b"]]
    assert Cluster(NEW, slices, state=used("30Gi")).allocate(claim) is None
    assert Cluster(NEW, slices, state=used("20Gi")).chosen(claim) == [["a", "b"]]


# --- request policies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "requested", "expected"),
    [
        (policy(default="1Gi", values=["1Gi", "2Gi"]), None, "1Gi"),
        (policy(values=["1Gi", "2Gi"]), None, None),  # the whole value is none of them
        (policy(values=["1Gi", "2Gi", "4Gi"]), "1500Mi", "2Gi"),
        (policy(values=["1Gi", "2Gi"]), "2048Mi", "2Gi"),
        (policy(values=["1Gi", "2Gi"]), "3Gi", None),
        (policy(min="2Gi"), "1Gi", "2Gi"),
        (policy(min="2Gi"), "5Gi", "5Gi"),
        (policy(min="1Gi", max="4Gi"), "5Gi", None),
        (policy(min="1Gi", max="4Gi", default="2Gi"), None, "2Gi"),
        (policy(min="1Gi", max="4Gi"), None, None),
        (policy(min="1Gi", step="2Gi"), "2Gi", "3Gi"),
        (policy(min="1Gi", step="2Gi"), "3Gi", "3Gi"),
        (policy(min="1Gi", max="4Gi", step="2Gi"), "4Gi", None),
        (policy(max="4Gi"), "3Gi", "3Gi"),
        (policy(max="4Gi"), "5Gi", None),
        (policy(), "3Gi", "3Gi"),
        (policy(default="1Gi"), "1Mi", "1Mi"),
        # A default counts as valid, even if the policy does not allow it.
        (policy(default="5Gi", values=["1Gi"]), None, "5Gi"),
        (policy(default="50Gi"), None, None),
    ],
)
def test_amounts_are_rounded_up_to_what_the_policy_allows(
    release: Release, capacity: DeviceCapacity, requested: str | None, expected: str | None
) -> None:
    assert consumed(release, capacity, requested) == expected


def test_a_rounded_amount_has_the_format_of_the_step_since_1_37() -> None:
    capacity = policy("10k", min="1k", step="1k")
    assert consumed(OLD, capacity, "2500") == "3000"
    assert consumed(NEW, capacity, "2500") == "3k"


@pytest.mark.parametrize(
    ("requested", "expected", "rounded_by_fractions"),
    [("600m", "1", "750m"), ("750m", "1", "750m"), ("1", "1", "1"), ("500m", "1", "500m"), ("100m", None, "500m")],
)
def test_fractions_are_counted_as_integers_unless_their_gate_is_on(
    requested: str, expected: str | None, rounded_by_fractions: str
) -> None:
    """Without the gate, 500m counts as 1 and so does the step of 250m; the minimum itself is taken as it is."""
    capacity = policy("10", min="500m", step="250m")
    assert consumed(FRACTIONAL, capacity, requested) == rounded_by_fractions
    assert consumed(NEW, capacity, requested) == (expected or "500m")


def test_what_is_smaller_than_a_thousandth_is_not_counted_in_fractions() -> None:
    capacity = policy("10", min="1", step="500u")
    assert consumed(FRACTIONAL, capacity, "1500m") == "2"
    with pytest.raises(AllocationError, match="request 1000100u is not a representable milli value"):
        consumed(FRACTIONAL, policy("10", min="1", step="500m"), "1000100u")


# --- amounts that are not possible --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "requested", "problem"),
    [
        (
            policy("10E", min="1", step="1"),
            "9223372036854775808",
            "capacity request cannot be represented in the device's range arithmetic: "
            "request 9223372036854775808 exceeds MaxInt64",
        ),
        (
            policy("10E", min="0", step="9223372036854775806"),
            "9223372036854775807",
            "capacity request cannot be represented in the device's range arithmetic: "
            "rounding request 9223372036854775807 up to the next step passes MaxInt64",
        ),
        (policy("10"), "-1", "capacity value is negative"),
    ],
)
def test_impossible_amounts_are_errors_since_1_37(capacity: DeviceCapacity, requested: str, problem: str) -> None:
    with pytest.raises(AllocationError) as raised:
        consumed(NEW, capacity, requested)
    assert str(raised.value) == (
        f"claim ns/claim, request req: checking capacity for device gpu.example.com/pool/a: "
        f'capacity "memory": {problem}'
    )
    consumed(OLD, capacity, requested)  # it decides something, as int64 overflows


def test_impossible_amounts_of_all_devices_name_the_device_without_its_pool() -> None:
    claim = make_claim(request_all(capacity={"memory": "-1"}))
    with pytest.raises(AllocationError, match='checking capacity for device a: capacity "memory": capacity value is'):
        Cluster(NEW, [make_slice("s", [shared()])]).allocate(claim)


def test_a_step_of_zero_is_never_met(release: Release) -> None:
    """kube-scheduler crashes. The apiserver does not accept it."""
    assert consumed(release, policy(min="1", step="0"), "2") is None
    assert consumed(release, policy(min="1", step="0"), "0") is None
    assert consumed(release, policy(step="1", max="100"), "2") is None


def test_an_enormous_exponent_is_compared_and_not_written_out(release: Release) -> None:
    assert consumed(release, DeviceCapacity("40Gi"), "1e2000000000") is None
    assert consumed(release, DeviceCapacity("1e2000000000"), "1Gi") == "1Gi"


def test_an_amount_that_is_no_quantity_is_an_error_that_names_it(release: Release) -> None:
    with pytest.raises(AllocationError, match="ResourceSlice s, device a: quantities must match"):
        consumed(release, DeviceCapacity("many"), None)
    with pytest.raises(AllocationError, match="claim ns/claim, request req: capacity: quantities must match"):
        consumed(release, DeviceCapacity("1"), "many")
