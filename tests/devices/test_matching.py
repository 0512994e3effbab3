"""Which devices of a pool match what a request asks, and which are left to the search."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.api.devices import CapacityRequestPolicy, Device, DeviceCapacity, DeviceTaint
from kscheduler.api.exact_quantity import Quantity
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.features import Features
from kscheduler.devices.matching import PECULIAR, DeviceMatcher, DeviceQuery, free_devices
from kscheduler.devices.pools import Pool
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import (
    DRIVER,
    NEW,
    FakeSelectors,
    device,
    devices,
    in_use,
    make_node,
    make_slice,
    toleration,
)

ANY = DeviceQuery((), ())


def pool_of(*published: Device, release: Release = NEW, **fields: Any) -> Pool:
    index = SliceIndex(release, [make_slice("s", published, **fields)])
    (pool,) = index.pools_of(make_node()).pools
    return pool


def matching(query: DeviceQuery, pool: Pool, release: Release = NEW) -> int:
    return DeviceMatcher(Features.of(release), FakeSelectors()).matching(query, pool)


def test_all_selectors_must_hold() -> None:
    pool = pool_of(
        *(device(f"d{i}", {"a": a, "b": b}) for i, (a, b) in enumerate([("1", "1"), ("1", "2"), ("2", "1")]))
    )
    assert matching(DeviceQuery(("a=1", "b=1"), ()), pool) == 0b001
    assert matching(DeviceQuery(("a=1",), ()), pool) == 0b011
    assert matching(ANY, pool) == 0b111


def test_a_selector_is_not_evaluated_again_for_a_device() -> None:
    pool = pool_of(device("d0", {"a": "1"}), device("d1", {"a": "2"}))
    matcher = DeviceMatcher(Features.of(NEW), FakeSelectors())
    query = DeviceQuery(("a=1",), ())
    assert [matcher.matching(query, pool), matcher.evaluated] == [0b01, 2]
    assert [matcher.matching(query, pool), matcher.evaluated] == [0b01, 2]


@pytest.mark.parametrize("expression", ["missing=1", "no condition"])
def test_errors_of_selectors_are_left_to_the_search(expression: str) -> None:
    assert matching(DeviceQuery((expression,), ()), pool_of(device("d0", {"a": "1"}))) == PECULIAR


def test_taints_must_be_tolerated() -> None:
    taint = DeviceTaint(key="k", effect="NoSchedule")
    pool = pool_of(device("d0", taints=[taint]), device("d1"))
    assert matching(ANY, pool) == 0b10
    assert matching(DeviceQuery((), (toleration("k"),)), pool) == 0b11
    without = NEW.with_gates({"DRADeviceTaints": False})
    assert matching(ANY, pool_of(device("d0", taints=[taint]), release=without), without) == 0b1


@pytest.mark.parametrize(
    "published",
    [
        device("d0", allow_multiple_allocations=True),
        device("d0", capacity={"memory": "-1"}),
        device("d0", capacity={"memory": DeviceCapacity("1Gi", CapacityRequestPolicy(default="1Gi"))}),
    ],
    ids=["shared", "negative capacity", "request policy"],
)
def test_devices_that_can_be_shared_or_whose_capacity_is_no_plain_amount_are_left_to_the_search(
    published: Device,
) -> None:
    assert matching(ANY, pool_of(published)) == PECULIAR
    without = NEW.with_gates({"DRAConsumableCapacity": False})
    assert matching(ANY, pool_of(published, release=without), without) == 1


def test_devices_of_other_nodes_do_not_match_and_have_no_bits() -> None:
    published = [device("d0", node_name="node-2"), device("d1", node_name="node-1"), device("d2", all_nodes=True)]
    pool = pool_of(*published, per_device_node_selection=True)
    assert matching(ANY, pool) == 0b11
    assert free_devices(pool, in_use("d0", "d1")) == (0b10, 0b10)


def test_an_error_of_a_selector_about_a_device_of_another_node_is_left_to_the_search() -> None:
    published = [device("d0", node_name="node-2"), device("d1", {"a": "1"}, all_nodes=True)]
    pool = pool_of(*published, per_device_node_selection=True)
    assert matching(DeviceQuery(("a=1",), ()), pool) == PECULIAR


def test_a_device_with_a_malformed_selector_of_nodes_is_left_to_the_search() -> None:
    malformed = NodeSelector([NodeSelectorTerm([SelectorRequirement("zone", "Near", ["z"])])])
    published = [device("d0", all_nodes=True), device("d1", node_selector=malformed)]
    assert matching(ANY, pool_of(*published, per_device_node_selection=True)) == PECULIAR


def test_devices_in_use_are_not_free_and_those_with_counters_not_certain() -> None:
    pool = pool_of(*devices("d0", "d1", "d2"), device("d3"))
    state = AllocatedState(devices={(DRIVER, "pool", "d1")})
    assert free_devices(pool, state) == (0b1101, 0b1101)
    state.capacity[DRIVER, "pool", "d2"] = {"memory": Quantity.parse("1Gi")}
    assert free_devices(pool, state) == (0b1101, 0b1001)
