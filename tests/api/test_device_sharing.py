from __future__ import annotations

import msgspec

from kscheduler.api.device_sharing import share_in_slice
from kscheduler.api.devices import ResourceSlice

DEVICE = {
    "attributes": {"model": {"string": "a100"}, "index": {"int": 1}, "healthy": {"bool": True}},
    "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "1Gi"}}},
    "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "1"}}}],
    "taints": [{"key": "broken", "effect": "NoSchedule"}],
    "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "2"}}},
    "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}},
    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]},
}


def read(*devices: dict[str, object]) -> ResourceSlice:
    document = {"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": devices}}
    return msgspec.json.decode(msgspec.json.encode(document), type=ResourceSlice)


def test_devices_share_equal_parts_and_the_slice_stays_equal() -> None:
    published = read({"name": "a", **DEVICE}, {"name": "b", **DEVICE}, {"name": "c"})
    shared = share_in_slice(published)
    assert shared == published
    first, second, _ = shared.spec.devices or []
    assert first.attributes is not None
    assert second.attributes is not None
    for name in first.attributes:
        assert first.attributes[name] is second.attributes[name]
    assert [*map(id, first.attributes)] == [*map(id, second.attributes)]
    assert first.capacity is second.capacity
    assert first.consumes_counters is second.consumes_counters
    assert first.taints is second.taints
    assert first.node_selector is second.node_selector
    assert first.node_allocatable_resources is second.node_allocatable_resources
    assert first.node_allocatable_resource_mappings is second.node_allocatable_resource_mappings


def test_values_of_different_types_and_parts_are_not_taken_for_one_another() -> None:
    published = read(
        {"name": "a", "attributes": {"x": {"int": 1}, "y": {"bool": True}, "z": {"string": "x"}}, "capacity": {}},
        {"name": "b", "attributes": {"x": {"bool": True}, "y": {"int": 1}, "z": {"version": "x"}}},
    )
    assert msgspec.json.encode(share_in_slice(published)) == msgspec.json.encode(published)


def test_a_slice_with_one_device_or_none_is_the_same_object() -> None:
    for published in (read(), read({"name": "a"})):
        assert share_in_slice(published) is published


def test_attributes_with_several_values_are_kept_as_they_are() -> None:
    several = {"attributes": {"links": {"strings": ["a", "b"]}, "model": {"string": "a100"}}}
    published = read({"name": "a", **several}, {"name": "b", **several})
    assert share_in_slice(published) == published
