"""Attributes that requests derive from devices by CEL expressions, for constraints."""

from __future__ import annotations

from kscheduler.api.devices import DeviceAttribute
from kscheduler.devices.allocated import show_device
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.requests import Variant
from kscheduler.devices.selection import SelectorError, Selectors
from kscheduler.devices.slices import AttributeValue, ParsedDevice, value_of, values_of


class DerivedAttributes:
    """Those of one search. An expression is evaluated once for each device that a constraint asks about."""

    def __init__(self, selectors: Selectors) -> None:
        self._selectors = selectors
        self._known: dict[tuple[ParsedDevice, str], DeviceAttribute] = {}  # by device and expression

    def of(self, variant: Variant, device: ParsedDevice) -> DeviceAsDerived:
        return DeviceAsDerived(self, variant, device)

    def value(self, name: str, expression: str, device: ParsedDevice) -> DeviceAttribute:
        """Raises AllocationError if the expression cannot be compiled, or fails for the device."""
        known = self._known.get((device, expression))
        if known is not None:
            return known
        try:
            compiled = self._selectors.derived(expression)
        except SelectorError as error:
            raise AllocationError(f"compile derived attribute {name} failed: {error}") from None
        try:
            found = compiled.value(device.view())
        except SelectorError as error:
            raise AllocationError(
                f"evaluate derived attribute {name} on device {show_device(device.id)} failed: {error}"
            ) from None
        self._known[device, expression] = found
        return found


class DeviceAsDerived:
    """A device as the constraints on a request see it: what the request derives hides what the driver published."""

    __slots__ = ("_attributes", "_device", "_expressions")

    def __init__(self, attributes: DerivedAttributes, variant: Variant, device: ParsedDevice) -> None:
        self._attributes = attributes
        self._expressions = variant.derived
        self._device = device

    def attribute(self, name: str) -> AttributeValue | None:
        expression = self._expressions.get(name)
        if expression is None:
            return self._device.attribute(name)
        return value_of(self._attributes.value(name, expression, self._device))

    def attribute_values(self, name: str) -> frozenset[AttributeValue] | None:
        expression = self._expressions.get(name)
        if expression is None:
            return self._device.attribute_values(name)
        return values_of(self._attributes.value(name, expression, self._device))
