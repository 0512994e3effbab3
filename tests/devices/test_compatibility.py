"""Compatibility groups: which devices may draw from one counter set at the same time."""

from __future__ import annotations

from typing import Any

from kscheduler.api.devices import Device, DeviceCounterConsumption, ResourceSlice
from tests.devices.building import (
    NEW,
    Cluster,
    counter_set,
    counters,
    device,
    in_use,
    make_claim,
    make_slice,
    request,
)

GROUPED = NEW.with_gates({"DRADeviceCompatibilityGroups": True})


def partition(name: str, *groups: str, memory: str = "1Gi", counter_set: str = "gpu", **fields: Any) -> Device:
    consumed = DeviceCounterConsumption(counter_set, counters({"memory": memory}), list(groups) or None)
    return device(name, consumes_counters=[consumed], **fields)


def pool_of(*published: Device, memory: str = "8Gi") -> list[ResourceSlice]:
    sets = [counter_set("gpu", memory=memory), counter_set("other", memory=memory)]
    return [make_slice("counters", slices=2, shared_counters=sets), make_slice("devices", published, slices=2)]


def test_devices_of_a_counter_set_have_a_group_in_common() -> None:
    slices = pool_of(partition("a", "mig"), partition("b", "mps"), partition("c", "mps", "mig"), partition("d", "mps"))
    assert Cluster(GROUPED, slices).chosen(make_claim(request("req", 2))) == [["a", "c"]]
    assert Cluster(GROUPED, slices).chosen(make_claim(request("req", 3))) == [["b", "c", "d"]]
    assert Cluster(GROUPED, slices).allocate(make_claim(request("req", 4))) is None


def test_devices_without_groups_are_only_used_beside_each_other() -> None:
    slices = pool_of(partition("a", "mig"), partition("b"), partition("c"))
    assert Cluster(GROUPED, slices).chosen(make_claim(request("req", 2))) == [["b", "c"]]
    assert Cluster(GROUPED, slices, state=in_use("b")).chosen(make_claim(request())) == [["c"]]
    assert Cluster(GROUPED, slices, state=in_use("a")).allocate(make_claim(request())) is None


def test_allocated_devices_of_different_groups_let_no_other_beside_them() -> None:
    slices = pool_of(partition("a", "mig"), partition("b", "mps"), partition("c", "mig", "mps"), partition("d"))
    assert Cluster(GROUPED, slices, state=in_use("a")).chosen(make_claim(request())) == [["c"]]
    assert Cluster(GROUPED, slices, state=in_use("a", "b")).allocate(make_claim(request())) is None


def test_an_allocated_device_that_disagrees_about_having_groups_does_not_count() -> None:
    slices = pool_of(partition("a", "mig"), partition("b"), partition("c", "mig"))
    assert Cluster(GROUPED, slices, state=in_use("a", "b")).chosen(make_claim(request())) == [["c"]]


def test_groups_concern_one_counter_set() -> None:
    slices = pool_of(partition("a", "mig"), partition("b", "mps", counter_set="other"))
    assert Cluster(GROUPED, slices).chosen(make_claim(request("req", 2))) == [["a", "b"]]


def test_a_dead_end_and_a_refused_device_leave_the_groups_as_they_were() -> None:
    """`a` leaves nothing for y, and `b` overdraws the counter beside `c`."""
    slices = pool_of(
        partition("a", "mig"),
        partition("b", "mps", memory="8Gi"),
        partition("c", "mps", attributes={}),
        partition("d", "mps"),
    )
    claim = make_claim(request("x"), request("y"), request("z", 0))
    assert Cluster(GROUPED, slices).chosen(claim) == [["c", "d"]]


def test_a_pool_with_groups_is_incomplete_while_the_gate_is_off() -> None:
    slices = pool_of(partition("a", "mig"), device("b"))
    assert Cluster(NEW, slices).allocate(make_claim(request())) is None
    assert Cluster(GROUPED, slices).chosen(make_claim(request("req", 2))) == [["a", "b"]]
