"""CEL's variable `device`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kscheduler.api.devices import DeviceAttribute, DeviceCapacity
from kscheduler.api.exact_quantity import Quantity, QuantityError
from kscheduler.cel.faults import EvaluationError
from kscheduler.cel.library.quantities import QuantityValue
from kscheduler.cel.library.semvers import parse_semver
from kscheduler.cel.values import EMPTY_MAP, Map, MapWithDefault, Value


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device, as selectors see it."""

    driver: str
    attributes: Mapping[str, DeviceAttribute]  # by qualified or bare name, as served
    capacity: Mapping[str, DeviceCapacity]
    allow_multiple_allocations: bool
    prepared: list[PreparedDevice | None] = field(
        default_factory=lambda: [None], init=False, repr=False, compare=False
    )  # its value, once a selector has asked for it


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDevice:
    """The value of the variable."""

    value: Map
    longest: int  # characters of its longest text


def prepare(device: DeviceView) -> PreparedDevice:
    """Return the value of the variable for a device. It is made once.

    Raises EvaluationError if the device has an attribute that no driver may publish.
    """
    known = device.prepared[0]
    if known is None:
        known = device.prepared[0] = _prepare(device)
    return known


def _prepare(device: DeviceView) -> PreparedDevice:
    longest = len(device.driver)
    attributes: dict[str, Value] = {}
    for name, attribute in device.attributes.items():
        try:
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
    return PreparedDevice(Map(fields), longest)


def _put(domains: dict[str, Value], name: str, driver: str, value: Value) -> None:
    domain, slash, identifier = name.partition("/")
    if not slash:
        domain, identifier = driver, name
    known = domains.get(domain, EMPTY_MAP)
    if known is EMPTY_MAP:
        known = domains[domain] = Map({})
    known.entries[identifier] = value


def _attribute(attribute: DeviceAttribute) -> Value:
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        try:
            return parse_semver(attribute.version)
        except EvaluationError as error:
            raise EvaluationError(f"parse semantic version: {error}") from None
    raise EvaluationError("unsupported attribute value")


def _quantity(name: str, amount: DeviceCapacity) -> QuantityValue:
    try:
        return QuantityValue(Quantity.served(amount.value))
    except QuantityError as error:
        raise EvaluationError(f"capacity {name}: {error}") from None
