"""Amounts of resources as vectors of integers: cpu in thousandths, memory and storage in bytes, others in whole units.

Each resource has a *place*, its index in every vector. What one pod asks for is a short list of (place, amount), in
which an amount of zero still names the resource. What many pods use together is a list with one number for each place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kscheduler.api.objects import QuantityMap
from kscheduler.api.quantity import parse_milli, parse_units
from kscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar
from kscheduler.errors import DecodeError

NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)  # the resources at the first places

# (place, amount), in the order of places, each place once.
Request = tuple[tuple[int, int], ...]


class ResourcePlaces:
    """The places of resources in vectors. A resource gets the next free place when it is first asked for."""

    def __init__(self) -> None:
        self.names = list(NATIVE)  # by place; it only grows
        self._by_name = {name: place for place, name in enumerate(NATIVE)}

    def of(self, name: str) -> int:
        place = self._by_name.get(name)
        if place is None:
            place = self._by_name[name] = len(self.names)
            self.names.append(name)
        return place

    def request(self, amounts: Mapping[str, int]) -> Request:
        """Return amounts by resource name as a request."""
        return tuple(sorted((self.of(name), amount) for name, amount in amounts.items()))

    def named(self, vector: Sequence[int]) -> dict[str, int]:
        """Return the amounts of a vector that are not zero, by resource name."""
        return {self.names[place]: amount for place, amount in enumerate(vector) if amount}


def at(vector: Sequence[int], place: int) -> int:
    """Return the amount at a place, 0 past the end of the vector."""
    return vector[place] if place < len(vector) else 0


def sum_of(requests: Iterable[Request]) -> Request:
    """Return the sum of requests; it names each resource that one of them names."""
    total: dict[int, int] = {}
    for request in requests:
        for place, amount in request:
            total[place] = total.get(place, 0) + amount
    return tuple(sorted(total.items()))


def parse_amounts(quantities: QuantityMap, field: str) -> dict[str, int]:
    """Return the amounts of a resource list, such as `spec.min` of an ElasticQuota, by resource name.

    As in kube-scheduler, cpu, memory, ephemeral-storage and pods are always there, 0 if they are not in the list, and
    resources that it does not count by name, such as `requests.cpu`, are ignored. Raises DecodeError, naming field and
    value, for an amount that is malformed or negative.
    """
    return dict.fromkeys(NATIVE, 0) | parse_stated(quantities, field)


def parse_stated(quantities: QuantityMap, field: str) -> dict[str, int]:
    """Return the amounts of the resources in a resource list, like `parse_amounts`, but of no others."""
    amounts: dict[str, int] = {}
    for name, quantity in quantities.items():
        where = f"{field}[{name}]"
        if name == CPU:
            amount = parse_milli(quantity, where)
        elif name in NATIVE or is_scalar(name):
            amount = parse_units(quantity, where)
        else:
            continue
        if amount < 0:
            raise DecodeError(f"{where}: expected an amount of at least 0, got {quantity}")
        amounts[name] = amount
    return amounts
