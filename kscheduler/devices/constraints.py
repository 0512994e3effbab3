"""Constraints among the devices of a claim: attributes whose values must be equal, or must all differ.

The search reports each device to a constraint before taking it, and again when giving it back. Once it refuses a
device it goes on refusing it, however many are added.
"""

from __future__ import annotations

from typing import Protocol

from kscheduler.api.devices import DeviceConstraint
from kscheduler.devices.features import Features
from kscheduler.devices.slices import UNKNOWN_VALUE, AttributeValue


class HasAttributes(Protocol):
    """A `ParsedDevice`, or one with attributes that a request derives."""

    def attribute(self, name: str) -> AttributeValue | None:
        """Return an attribute's value; None if the device has no such attribute."""

    def attribute_values(self, name: str) -> frozenset[AttributeValue] | None:
        """Return the values of an attribute that may be a list; None if the device has no such attribute."""


class Constraint(Protocol):
    def add(self, request: str, alternative: str, device: HasAttributes) -> bool:
        """Return whether the device may be taken for the request, and remember it if so.

        `alternative`: the name of the chosen one of the request's alternatives; "" if it has none.
        """

    def remove(self, request: str, alternative: str) -> None:
        """Forget the device added last. The arguments are those of its `add`."""


def compile_constraint(constraint: DeviceConstraint, features: Features) -> Constraint | None:
    """Return an object for one search, or None for a constraint of an unknown kind."""
    requests, rules = frozenset(constraint.requests or ()), features.rules
    if constraint.match_attribute is not None:
        if features.list_attributes:
            return MatchLists(requests, constraint.match_attribute, widens=rules.widens_matched_lists)
        return MatchAttribute(requests, constraint.match_attribute)
    if constraint.distinct_attribute is None:
        return None
    if features.list_attributes:
        return DistinctLists(requests, constraint.distinct_attribute, by_request=rules.distinct_by_request)
    if rules.distinct_by_request:
        return DistinctAttributeOfRequests(requests, constraint.distinct_attribute)
    return DistinctAttribute(requests, constraint.distinct_attribute)


class MatchAttribute:
    """All devices have the same value of the attribute."""

    __slots__ = ("_attribute", "_count", "_requests", "_value")

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._value: AttributeValue | None = None
        self._count = 0

    def add(self, request: str, alternative: str, device: HasAttributes) -> bool:
        if not applies(self._requests, request, alternative):
            return True
        value = device.attribute(self._attribute)
        if value is None:
            return False
        if self._count == 0:
            self._value = value
        elif value != self._value or value is UNKNOWN_VALUE:
            return False
        self._count += 1
        return True

    def remove(self, request: str, alternative: str) -> None:
        if applies(self._requests, request, alternative):
            self._count -= 1


class DistinctAttribute:
    """No two devices have the same value of the attribute."""

    __slots__ = ("_attribute", "_requests", "_values")

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._values: list[AttributeValue] = []

    def add(self, request: str, alternative: str, device: HasAttributes) -> bool:
        if not applies(self._requests, request, alternative):
            return True
        value = device.attribute(self._attribute)
        if value is None or value in self._values or (value is UNKNOWN_VALUE and self._values):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, alternative: str) -> None:
        if applies(self._requests, request, alternative):
            self._values.pop()


class DistinctAttributeOfRequests:
    """As DistinctAttribute, but only the last value of each request counts, as in kube-scheduler 1.36.

    So a request for several devices may get equal ones. Giving one of its devices back forgets the request's value.
    """

    __slots__ = ("_attribute", "_count", "_requests", "_values")

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._values: dict[str, AttributeValue] = {}  # request -> value
        self._count = 0

    def add(self, request: str, alternative: str, device: HasAttributes) -> bool:
        if not applies(self._requests, request, alternative):
            return True
        value = device.attribute(self._attribute)
        if value is None:
            return False
        if self._count and (value in self._values.values() or (value is UNKNOWN_VALUE and self._values)):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, alternative: str) -> None:
        if applies(self._requests, request, alternative):
            self._values.pop(request, None)
            self._count -= 1


class MatchLists:
    """There is a value that the attribute has on all devices; on each, it may have several.

    `widens`: giving a device back undoes what it has done to the values that are left. In kube-scheduler 1.36 it does
    not, until all are given back.
    """

    __slots__ = ("_attribute", "_common", "_requests", "_widens")

    def __init__(self, requests: frozenset[str], attribute: str, *, widens: bool) -> None:
        self._requests = requests
        self._attribute = attribute
        self._widens = widens
        self._common: list[frozenset[AttributeValue]] = []  # for each device, the values that all up to it have

    def add(self, request: str, alternative: str, device: HasAttributes) -> bool:
        if not applies(self._requests, request, alternative):
            return True
        values = device.attribute_values(self._attribute)
        if values and self._common:
            values &= self._common[-1]
        if not values:
            return False
        self._common.append(values)
        return True

    def remove(self, request: str, alternative: str) -> None:
        if not applies(self._requests, request, alternative):
            return
        narrowed = self._common.pop()
        if self._common and not self._widens:
            self._common[-1] = narrowed


class DistinctLists:
    """No two devices have a value of the attribute in common; on each, it may have several.

    `by_request`: as DistinctAttributeOfRequests.
    """

    __slots__ = ("_attribute", "_by_request", "_count", "_requests", "_values")

    def __init__(self, requests: frozenset[str], attribute: str, *, by_request: bool) -> None:
        self._requests = requests
        self._attribute = attribute
        self._by_request = by_request
        self._values: dict[str | int, frozenset[AttributeValue]] = {}  # by request, or number of the device
        self._count = 0

    def add(self, request: str, alternative: str, device: HasAttributes) -> bool:
        if not applies(self._requests, request, alternative):
            return True
        values = device.attribute_values(self._attribute)
        if values is None:
            return False
        takes_any = self._by_request and not self._count  # even a value of a type that is not known
        if not takes_any and not (values and all(map(values.isdisjoint, self._values.values()))):
            return False
        self._values[request if self._by_request else self._count] = values
        self._count += 1
        return True

    def remove(self, request: str, alternative: str) -> None:
        if applies(self._requests, request, alternative):
            self._count -= 1
            self._values.pop(request if self._by_request else self._count, None)


def applies(requests: frozenset[str], request: str, alternative: str) -> bool:
    """Return whether a constraint of these requests, none for all, concerns a request or one of its alternatives."""
    if not requests or request in requests:
        return True
    return bool(alternative) and f"{request}/{alternative}" in requests
