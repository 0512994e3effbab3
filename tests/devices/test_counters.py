"""Partitionable devices: counters that the devices of a pool share."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.api.devices import Device, ResourceSlice
from kscheduler.api.exact_quantity import Quantity
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from tests.devices.building import (
    DRIVER,
    NEW,
    OLD,
    Cluster,
    counter_set,
    device,
    in_use,
    make_claim,
    make_node,
    make_slice,
    request,
)

A = (DRIVER, "pool", "a")


def partition(name: str, memory: str, **fields: Any) -> Device:
    return device(name, consumes={"gpu": {"memory": memory}}, **fields)


def pool_of(*published: Device, memory: str = "40Gi", **fields: Any) -> list[ResourceSlice]:
    """Return a pool of two slices: one with the counter, one with the devices."""
    return [
        make_slice("counters", slices=2, shared_counters=[counter_set("gpu", memory=memory)], **fields),
        make_slice("devices", published, slices=2, **fields),
    ]


def test_devices_are_allocated_as_far_as_their_counters_reach(release: Release) -> None:
    slices = pool_of(partition("a", "20Gi"), partition("b", "30Gi"), partition("c", "20Gi"))
    assert Cluster(release, slices).chosen(make_claim(request("req", 2))) == [["a", "c"]]
    assert Cluster(release, slices).allocate(make_claim(request("req", 3))) is None


def test_allocated_devices_have_consumed_their_part(release: Release) -> None:
    slices = pool_of(partition("a", "20Gi"), partition("b", "30Gi"), partition("c", "20Gi"))
    assert Cluster(release, slices, state=in_use("a")).chosen(make_claim(request())) == [["c"]]


def test_devices_of_other_nodes_consume_too(release: Release) -> None:
    slices = [
        make_slice("counters", slices=3, all_nodes=True, shared_counters=[counter_set("gpu", memory="40Gi")]),
        make_slice("s1", [partition("a", "20Gi"), partition("b", "10Gi")], slices=3),
        make_slice("s2", [partition("x", "30Gi")], slices=3, node_name="node-2"),
    ]
    assert Cluster(release, slices, state=in_use("x")).chosen(make_claim(request())) == [["b"]]


def test_counters_may_stand_in_a_slice_for_another_node(release: Release) -> None:
    slices = [
        make_slice("c", slices=2, node_name="node-2", shared_counters=[counter_set("gpu", memory="20Gi")]),
        make_slice("d", [partition("a", "20Gi"), partition("b", "20Gi")], slices=2),
    ]
    assert Cluster(release, slices).chosen(make_claim(request())) == [["a"]]
    assert Cluster(release, slices).allocate(make_claim(request("req", 2))) is None


def test_an_overdrawn_counter_keeps_all_consuming_devices_of_the_pool_from_being_allocated(release: Release) -> None:
    """As when a driver publishes a smaller total than is allocated."""
    slices = [
        make_slice("c", slices=2, shared_counters=[counter_set("gpu", memory="10Gi"), counter_set("cpu", cores="8")]),
        make_slice("d", [partition("a", "20Gi"), device("b", consumes={"cpu": {"cores": "1"}}), device("c")], slices=2),
    ]
    assert Cluster(release, slices, state=in_use("a")).chosen(make_claim(request())) == [["c"]]


def test_what_a_dead_end_consumed_is_given_back(release: Release) -> None:
    slices = pool_of(partition("a", "30Gi"), partition("b", "20Gi", attributes={}), partition("c", "20Gi"))
    claim = make_claim(request("x"), request("y"))
    assert Cluster(release, slices).chosen(claim) == [["b", "c"]]


def test_counters_are_exact_below_one(release: Release) -> None:
    slices = pool_of(partition("a", "100m"), partition("b", "200m"), partition("c", "1n"), memory="300m")
    assert Cluster(release, slices).chosen(make_claim(request("req", 2))) == [["a", "b"]]
    assert Cluster(release, slices).allocate(make_claim(request("req", 3))) is None


def test_admin_access_does_not_exempt_from_counters(release: Release) -> None:
    slices = pool_of(partition("a", "30Gi"), partition("b", "20Gi"))
    cluster = Cluster(release, slices, state=in_use("a"))
    assert cluster.allocate(make_claim(request(admin_access=True))) is None


def test_devices_that_consume_counters_are_left_alone_while_the_gate_is_off(release: Release) -> None:
    off = release.with_gates({"DRAPartitionableDevices": False})
    slices = [make_slice("s", [partition("a", "1"), device("b")])]
    assert Cluster(off, slices).chosen(make_claim(request())) == [["b"]]
    assert Cluster(off, pool_of(partition("a", "1"), device("b"))).chosen(make_claim(request())) == [["b"]]


def test_pools_of_one_name_share_counters_in_1_36_only() -> None:
    slices = [
        *pool_of(partition("a", "30Gi"), driver="x.example.com", memory="40Gi"),
        *(
            make_slice(
                f"{each.metadata.name}-y",
                each.spec.devices or (),
                driver="y.example.com",
                slices=2,
                shared_counters=each.spec.shared_counters,
            )
            for each in pool_of(partition("b", "30Gi"))
        ),
    ]
    claim = make_claim(request("req", 2))
    assert Cluster(NEW, slices).chosen(claim) == [["a", "b"]]
    assert Cluster(OLD, slices).allocate(claim) is None


def test_what_is_left_is_computed_once_for_all_nodes(release: Release) -> None:
    slices = pool_of(partition("a", "30Gi"), partition("b", "20Gi"), all_nodes=True)
    allocator = Cluster(release, slices, state=in_use("a")).allocator()
    for name in ("node-1", "node-2"):
        assert allocator.allocate(make_node(name), [make_claim(request())]) is None


# --- shared devices ---------------------------------------------------------------------------------------------


def shared(memory: str = "30Gi") -> list[ResourceSlice]:
    return pool_of(
        partition("a", memory, allow_multiple_allocations=True, capacity={"slots": "4"}), partition("b", "20Gi")
    )


def test_a_shared_device_is_charged_once_however_many_shares_are_chosen(release: Release) -> None:
    requests = [request(f"r{i}", capacity={"slots": "1"}) for i in range(3)]
    assert Cluster(release, shared()).chosen(make_claim(*requests)) == [["a", "a", "a"]]


def test_a_shared_device_that_has_shares_is_not_charged_again(release: Release) -> None:
    state = AllocatedState(shares={(A, "1")}, capacity={A: {"slots": Quantity.parse("1")}})
    claim = make_claim(request(capacity={"slots": "1"}))
    assert Cluster(release, shared(), state=state).chosen(claim) == [["a"]]


def test_a_share_without_capacity_holds_the_counters_since_1_37() -> None:
    state = AllocatedState(shares={(A, "1")})
    claim = make_claim(request(capacity={"slots": "1"}))
    assert Cluster(NEW, shared(), state=state).chosen(claim) == [["a"]]
    assert Cluster(OLD, shared(), state=state).allocate(claim) is None


@pytest.mark.parametrize("count", [1, 2])
def test_giving_back_one_share_keeps_the_device_charged_for_the_others(release: Release, count: int) -> None:
    """The last request can be had only from `b`, whose counters `a` leaves no room for: all has to be undone."""
    slices = pool_of(
        partition("a", "30Gi", allow_multiple_allocations=True, capacity={"slots": "4"}, attributes={"m": "a"}),
        partition("b", "20Gi", attributes={"m": "b"}),
        device("c", {"m": "c"}, allow_multiple_allocations=True, capacity={"slots": "4"}),
    )
    requests = [request(f"r{i}", capacity={"slots": "1"}) for i in range(count)]
    claim = make_claim(*requests, request("last", 1, "m=b"))
    assert Cluster(release, slices).chosen(claim) == [["c"] * count + ["b"]]
