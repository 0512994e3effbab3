"""Constraints among the devices of a claim: attributes whose values must be equal, or must all differ.

The search reports each device to a constraint before taking it, and again when giving it back. Once it refuses a
device it goes on refusing it, however many are added.
"""

from __future__ import annotations

from typing import Protocol

from kscheduler.api.devices import DeviceConstraint
from kscheduler.config.device_rules import DeviceRules
from kscheduler.devices.slices import UNKNOWN_VALUE, AttributeValue, ParsedDevice


class Constraint(Protocol):
    def add(self, request: str, alternative: str, device: ParsedDevice) -> bool:
        """Return whether the device may be taken for the request, and remember it if so.

        `alternative`: the name of the chosen one of the request's alternatives; "" if it has none.
        """

    def remove(self, request: str, alternative: str) -> None:
        """Forget the device added last. The arguments are those of its `add`."""


def compile_constraint(constraint: DeviceConstraint, rules: DeviceRules) -> Constraint | None:
    """Return an object for one search, or None for a constraint of an unknown kind."""
    requests = frozenset(constraint.requests or ())
    if constraint.match_attribute is not None:
        return MatchAttribute(requests, constraint.match_attribute)
    if constraint.distinct_attribute is None:
        return None
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

    def add(self, request: str, alternative: str, device: ParsedDevice) -> bool:
        if not _applies(self._requests, request, alternative):
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
        if _applies(self._requests, request, alternative):
            self._count -= 1


class DistinctAttribute:
    """No two devices have the same value of the attribute."""

    __slots__ = ("_attribute", "_requests", "_values")

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._values: list[AttributeValue] = []

    def add(self, request: str, alternative: str, device: ParsedDevice) -> bool:
        if not _applies(self._requests, request, alternative):
            return True
        value = device.attribute(self._attribute)
        if value is None or value in self._values or (value is UNKNOWN_VALUE and self._values):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, alternative: str) -> None:
        if _applies(self._requests, request, alternative):
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

    def add(self, request: str, alternative: str, device: ParsedDevice) -> bool:
        if not _applies(self._requests, request, alternative):
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
        if _applies(self._requests, request, alternative):
            self._values.pop(request, None)
            self._count -= 1


def _applies(requests: frozenset[str], request: str, alternative: str) -> bool:
    if not requests or request in requests:
        return True
    return bool(alternative) and f"{request}/{alternative}" in requests
