"""CEL's variable `device`."""

from __future__ import annotations

from kscheduler.api.devices import DeviceAttribute, DeviceCapacity
from kscheduler.api.exact_quantity import Quantity, QuantityError
from kscheduler.cel.device_view import DeviceView, PreparedDevice
from kscheduler.cel.faults import EvaluationError
from kscheduler.cel.library.quantities import QuantityValue
from kscheduler.cel.library.semvers import parse_semver
from kscheduler.cel.values import EMPTY_MAP, DeviceMap, MapWithDefault, Value


def prepare(device: DeviceView, *, has_lists: bool) -> PreparedDevice:
    """Return the value of the variable for a device, which is made once; with `has_lists`, attributes may be lists.

    Raises EvaluationError if the device has an attribute that no driver may publish.
    """
    known = device.prepared[has_lists]
    if known is None:
        known = device.prepared[has_lists] = _prepare(device, has_lists=has_lists)
    return known


def _prepare(device: DeviceView, *, has_lists: bool) -> PreparedDevice:
    longest = len(device.driver)
    attributes: dict[str, Value] = {}
    for name, attribute in device.attributes.items():
        try:
            value = _several(attribute) if has_lists else None
            if value is None:
                value = _attribute(attribute)
        except EvaluationError as error:
            raise EvaluationError(f"attribute {name}: {error}") from None
        _put(attributes, name, device.driver, value)
        longest = max(longest, len(name), len(value) if isinstance(value, str) else 0)
    capacity: dict[str, Value] = {}
    for name, amount in device.capacity.items():
        _put(capacity, name, device.driver, _quantity(name, amount))
        longest = max(longest, len(name))
    fields: dict[str, Value] = {
        "driver": device.driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": MapWithDefault(attributes),
        "capacity": MapWithDefault(capacity),
    }
    return PreparedDevice(DeviceMap(fields), longest)


def _put(domains: dict[str, Value], name: str, driver: str, value: Value) -> None:
    domain, slash, identifier = name.partition("/")
    if not slash:
        domain, identifier = driver, name
    known = domains.get(domain, EMPTY_MAP)
    if known is EMPTY_MAP:
        known = domains[domain] = DeviceMap({})
    known.entries[identifier] = value


def _several(attribute: DeviceAttribute) -> list[Value] | None:
    """Return the values of an attribute that has several, or None."""
    for values in (attribute.ints, attribute.bools, attribute.strings):
        if values:
            return list(values)
    return [_version(version) for version in attribute.versions] if attribute.versions else None


def _version(text: str) -> Value:
    try:
        return parse_semver(text)
    except EvaluationError as error:
        raise EvaluationError(f"parse semantic version: {error}") from None


def _attribute(attribute: DeviceAttribute) -> Value:
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return _version(attribute.version)
    raise EvaluationError("unsupported attribute value")


def _quantity(name: str, amount: DeviceCapacity) -> QuantityValue:
    try:
        return QuantityValue(Quantity.served(amount.value))
    except QuantityError as error:
        raise EvaluationError(f"capacity {name}: {error}") from None
