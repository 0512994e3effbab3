"""Builders of devices, slices, classes and claims, and selectors that need no CEL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kscheduler.api.devices import (
    ALL,
    EXACT_COUNT,
    AllocationResult,
    CapacityRequirements,
    CELDeviceSelector,
    ClaimMeta,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from kscheduler.api.objects import Node, NodeSelector, NodeSelectorTerm, ObjectMeta, SelectorRequirement
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.selection import DerivedAttribute, DeviceView, Selector, SelectorError
from kscheduler.devices.slice_index import SliceIndex

DRIVER = "gpu.example.com"
CLASS = "gpu"
_ON = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
)
OLD = RELEASE_1_36.with_gates(dict.fromkeys(_ON, True))
NEW = RELEASE_1_37.with_gates(dict.fromkeys((*_ON, "DRADeviceTaintRules"), True))
RELEASES = (OLD, NEW)


# --- selectors --------------------------------------------------------------------------------------------------


class FakeSelectors:
    """Compiles `name=value`, which holds for a device whose string attribute has that value.

    As with CEL a device without the attribute is an error, and so is compiling another text.
    """

    def __init__(self) -> None:
        self.evaluated: list[tuple[str, DeviceView]] = []

    def get(self, expression: str) -> Selector:
        if "=" not in expression:
            raise SelectorError(f"no condition: {expression}")
        return FakeSelector(expression, self.evaluated)

    def derived(self, expression: str) -> DerivedAttribute:
        """Compile the name of an attribute; the derived one is equal to it."""
        if not expression.isidentifier():
            raise SelectorError(f"no name: {expression}")
        return FakeDerivedAttribute(expression)


@dataclass
class FakeDerivedAttribute:
    name: str

    def value(self, device: DeviceView) -> DeviceAttribute:
        if self.name not in device.attributes:
            raise SelectorError(f"no such key: {self.name}")
        return device.attributes[self.name]


@dataclass
class FakeSelector:
    expression: str
    evaluated: list[tuple[str, DeviceView]]

    def matches(self, device: DeviceView) -> bool:
        self.evaluated.append((self.expression, device))
        name, _, value = self.expression.partition("=")
        if name not in device.attributes:
            raise SelectorError(f"no such key: {name}")
        return device.attributes[name].string == value


def selectors(*expressions: str) -> list[DeviceSelector]:
    return [DeviceSelector(CELDeviceSelector(expression)) for expression in expressions]


# --- what drivers publish ---------------------------------------------------------------------------------------


def make_node(name: str = "node-1", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def device(name: str, attributes: Mapping[str, str | int | bool] | None = None, **fields: Any) -> Device:
    """Return a device. `capacity` may have amounts instead of objects; `consumes`: counter set -> counter -> amount."""
    capacity = fields.pop("capacity", None)
    consumes = fields.pop("consumes", {})
    if consumes:
        fields["consumes_counters"] = [
            DeviceCounterConsumption(each, counters(amounts)) for each, amounts in consumes.items()
        ]
    return Device(
        name=name,
        attributes={each: attribute(value) for each, value in attributes.items()} if attributes else None,
        capacity=capacity
        and {
            each: value if isinstance(value, DeviceCapacity) else DeviceCapacity(value)
            for each, value in capacity.items()
        },
        **fields,
    )


def in_zone(*zones: str) -> NodeSelector:
    return NodeSelector([NodeSelectorTerm([SelectorRequirement("zone", "In", list(zones))])])


def devices(*names: str) -> list[Device]:
    return [device(name) for name in names]


def attribute(value: str | int | bool) -> DeviceAttribute:
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    return DeviceAttribute(int_value=value) if isinstance(value, int) else DeviceAttribute(string=value)


def counters(amounts: Mapping[str, str]) -> dict[str, Counter]:
    return {name: Counter(value) for name, value in amounts.items()}


def counter_set(name: str, **amounts: str) -> CounterSet:
    return CounterSet(name, counters(amounts))


def make_slice(name: str, published: Sequence[Device] = (), **fields: Any) -> ResourceSlice:
    """Return a slice for node-1, unless other nodes are given, of a pool of one slice with the name `pool`."""
    pool = ResourcePool(fields.pop("pool", "pool"), fields.pop("generation", 1), fields.pop("slices", 1))
    if not {"all_nodes", "node_selector", "per_device_node_selection"} & set(fields):
        fields.setdefault("node_name", "node-1")
    return ResourceSlice(
        metadata=ObjectMeta(name=name),
        spec=ResourceSliceSpec(
            driver=fields.pop("driver", DRIVER), pool=pool, devices=list(published) or None, **fields
        ),
    )


def make_class(
    name: str = CLASS, *expressions: str, config: Sequence[DeviceClassConfiguration] | None = None
) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name),
        spec=DeviceClassSpec(selectors=selectors(*expressions), config=list(config) if config else None),
    )


# --- what pods ask for ------------------------------------------------------------------------------------------


def request(name: str = "req", count: int = 1, *expressions: str, **fields: Any) -> DeviceRequest:
    """Return a request for a number of devices."""
    return DeviceRequest(name, exactly=ExactDeviceRequest(**_wanted(count, expressions, fields)))


def request_all(name: str = "req", *expressions: str, **fields: Any) -> DeviceRequest:
    return request(name, 0, *expressions, allocation_mode=ALL, **fields)


def first_available(name: str, *alternatives: DeviceSubRequest) -> DeviceRequest:
    return DeviceRequest(name, first_available=list(alternatives))


def alternative(name: str, count: int = 1, *expressions: str, **fields: Any) -> DeviceSubRequest:
    return DeviceSubRequest(name, **_wanted(count, expressions, fields))


def _wanted(count: int, expressions: Sequence[str], fields: dict[str, Any]) -> dict[str, Any]:
    capacity = fields.pop("capacity", None)
    return {
        "device_class_name": CLASS,
        "allocation_mode": EXACT_COUNT,
        "count": count,
        "selectors": selectors(*expressions),
        "capacity": None if capacity is None else CapacityRequirements(capacity),
        **fields,
    }


def make_claim(*requests: DeviceRequest, name: str = "claim", **fields: Any) -> ResourceClaim:
    """Return a claim in the namespace ns; `match` and `distinct` are constraints on all its requests."""
    constraints: list[DeviceConstraint] = list(fields.pop("constraints", ()))
    constraints += [DeviceConstraint(match_attribute=each) for each in fields.pop("match", ())]
    constraints += [DeviceConstraint(distinct_attribute=each) for each in fields.pop("distinct", ())]
    config: list[DeviceClaimConfiguration] | None = fields.pop("config", None)
    assert not fields
    return ResourceClaim(
        metadata=ClaimMeta(name=name, namespace="ns"),
        spec=ResourceClaimSpec(DeviceClaim(list(requests), constraints or None, config)),
    )


def toleration(key: str = "", operator: str = "Exists", value: str = "", effect: str = "") -> DeviceToleration:
    return DeviceToleration(key, operator, value, effect)


# --- allocating -------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """What an allocator reads. Share ids are share-1, share-2, ..."""

    release: Release
    slices: Sequence[ResourceSlice] | SliceIndex
    classes: Sequence[DeviceClass] = field(default_factory=lambda: [make_class()])
    state: AllocatedState = field(default_factory=AllocatedState)
    selectors: FakeSelectors = field(default_factory=FakeSelectors)

    def allocator(self) -> Allocator:
        numbers = itertools.count(1)
        return Allocator(
            self.release,
            self.state,
            {each.metadata.name: each for each in self.classes},
            self.slices,
            self.selectors,
            draw_share_id=lambda: f"share-{next(numbers)}",
        )

    def allocate(
        self, *claims: ResourceClaim, node: Node | None = None, should_stop: Callable[[], bool] | None = None
    ) -> list[AllocationResult] | None:
        return self.allocator().allocate(node or make_node(), claims, should_stop=should_stop or _never)

    def chosen(self, *claims: ResourceClaim, node: Node | None = None) -> list[list[str]] | None:
        """Return the names of each claim's devices, or None."""
        results = self.allocate(*claims, node=node)
        return None if results is None else [names_of(each) for each in results]


def names_of(result: AllocationResult) -> list[str]:
    return [each.device for each in result.devices.results or ()]


def in_use(*names: str, pool: str = "pool", driver: str = DRIVER) -> AllocatedState:
    return AllocatedState(devices={(driver, pool, name) for name in names})


def _never() -> bool:
    return False
