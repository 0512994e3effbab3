"""The state that the results of allocated claims sum up to."""

from __future__ import annotations

from typing import Any

from kscheduler.api.devices import DeviceRequestAllocationResult
from kscheduler.api.exact_quantity import Quantity
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState


def result(device: str, **fields: Any) -> DeviceRequestAllocationResult:
    return DeviceRequestAllocationResult("req", "d", "p", device, **fields)


def test_results_are_dedicated_devices_or_shares_whose_amounts_are_summed(release: Release) -> None:
    state = AllocatedState.of(
        [
            result("a"),
            result("b", share_id="1", consumed_capacity={"memory": "1Gi", "slots": 1}),
            result("b", share_id="2", consumed_capacity={"memory": "512Mi"}),
            result("c", share_id="3"),
            result("d", admin_access=True),
            result("e", admin_access=False),
        ],
        release,
    )
    assert state.devices == {("d", "p", "a"), ("d", "p", "e")}
    assert state.shares == {(("d", "p", "b"), "1"), (("d", "p", "b"), "2"), (("d", "p", "c"), "3")}
    assert state.capacity == {("d", "p", "b"): {"memory": Quantity.parse("1536Mi"), "slots": Quantity.parse("1")}}


def test_shares_are_dedicated_devices_while_consumable_capacity_is_off(release: Release) -> None:
    off = release.with_gates({"DRAConsumableCapacity": False})
    state = AllocatedState.of([result("a", share_id="1", consumed_capacity={"memory": "1Gi"})], off)
    assert state == AllocatedState(devices={("d", "p", "a")})
