"""The devices of generated nodes and pods: slices, classes and claim templates, as a driver and users would make them.

Each node has a pool of its own for each driver. Each driver has a class with its name; a pod shape that asks for
devices has a template with the shape's name, and its pods one claim each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.api.devices import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from kscheduler.api.objects import ObjectMeta, PodResourceClaim, QuantityMap

MAX_DEVICES = 128  # that a ResourceSlice can have
CLAIM = "devices"  # name of a pod's entry for its claim


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Equal devices that each node of a shape has."""

    driver: str
    count: int = 1
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    capacity: QuantityMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WantedDevices:
    """Devices that each pod of a shape asks for. `selector`: a CEL expression, or "" for any of the driver's."""

    driver: str
    count: int = 1
    selector: str = ""


def slices_of(node: str, shape: Sequence[NodeDevices]) -> Iterable[ResourceSlice]:
    """Yield what the drivers publish for a node, whose devices are numbered through for each driver."""
    by_driver: dict[str, list[Device]] = {}
    for each in shape:
        known = by_driver.setdefault(each.driver, [])
        attributes = {name: _attribute(value) for name, value in each.attributes.items()} or None
        capacity = {name: DeviceCapacity(amount) for name, amount in each.capacity.items()} or None
        known += [
            Device(name=f"device-{len(known) + number}", attributes=attributes, capacity=capacity)
            for number in range(each.count)
        ]
    for driver, devices in by_driver.items():
        pool = ResourcePool(node, 1, 1)
        spec = ResourceSliceSpec(driver=driver, pool=pool, node_name=node, devices=devices)
        yield ResourceSlice(metadata=ObjectMeta(name=f"{node}-{driver}"), spec=spec)


def classes_of(drivers: Iterable[str]) -> list[DeviceClass]:
    """Return a class for each of the drivers, by its name, that selects all its devices."""
    return [
        DeviceClass(ObjectMeta(name=driver), DeviceClassSpec(selectors=[_selector(f'device.driver == "{driver}"')]))
        for driver in dict.fromkeys(drivers)
    ]


def template_of(shape: str, namespace: str, wanted: Sequence[WantedDevices]) -> ResourceClaimTemplate:
    requests = [
        DeviceRequest(
            f"request-{number}",
            exactly=ExactDeviceRequest(
                device_class_name=each.driver,
                count=each.count,
                selectors=[_selector(each.selector)] if each.selector else None,
            ),
        )
        for number, each in enumerate(wanted)
    ]
    spec = ResourceClaimTemplateSpec(spec=ResourceClaimSpec(DeviceClaim(requests)))
    return ResourceClaimTemplate(ObjectMeta(name=shape, namespace=namespace), spec)


def claim_entries(shape: str, wanted: Sequence[WantedDevices]) -> list[PodResourceClaim] | None:
    """Return the claims in the spec of the shape's pods; None if they ask for no devices."""
    return [PodResourceClaim(CLAIM, resource_claim_template_name=shape)] if wanted else None


def _selector(expression: str) -> DeviceSelector:
    return DeviceSelector(CELDeviceSelector(expression))


def _attribute(value: str | int | bool) -> DeviceAttribute:
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    return DeviceAttribute(int_value=value) if isinstance(value, int) else DeviceAttribute(string=value)
