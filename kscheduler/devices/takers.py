"""The published devices that may take cpu, memory and the like of their node.

A pod that can get none of them is decided as if devices never did. Behind the feature gate DRANodeAllocatableResources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kscheduler.devices.allocated import DeviceID
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.matching import DeviceMatcher, DeviceQuery
from kscheduler.devices.node_resources import NodeShares
from kscheduler.devices.selection import SelectorError
from kscheduler.devices.slices import ParsedSlice


class Takers:
    """These devices of all slices, whichever generation of their pool is current, with the fields of a release."""

    def __init__(self, *, mappings_only: bool) -> None:
        self.generation = 0  # another one with each change
        self._shares = NodeShares(mappings_only=mappings_only)
        self._indexes: dict[ParsedSlice, list[int]] = {}  # a slice with such devices -> which ones they are
        self._ids: Counter[DeviceID] = Counter()

    def __bool__(self) -> bool:
        return bool(self._indexes)

    def add(self, parsed: ParsedSlice) -> None:
        indexes = [i for i, each in enumerate(parsed.published.spec.devices or ()) if self._shares.takes_any(each)]
        if indexes:
            self.generation += 1
            self._indexes[parsed] = indexes
            self._ids.update(_ids(parsed, indexes))

    def remove(self, parsed: ParsedSlice) -> None:
        indexes = self._indexes.pop(parsed, None)
        if indexes:
            self.generation += 1
            self._ids -= Counter(_ids(parsed, indexes))

    def has(self, device: DeviceID) -> bool:
        return device in self._ids

    def may_match(self, queries: Iterable[DeviceQuery], matcher: DeviceMatcher) -> bool:
        """Return whether one of the queries allows one of the devices, or that is an error, for the search to say."""
        queries = tuple(queries)
        try:
            return any(
                matcher.selects(query, parsed.devices[i])
                for parsed, indexes in self._indexes.items()
                for i in indexes
                for query in queries
            )
        except (AllocationError, SelectorError):
            return True


def _ids(parsed: ParsedSlice, indexes: Iterable[int]) -> list[DeviceID]:
    devices = parsed.published.spec.devices or []
    driver, pool = parsed.pool_id
    return [(driver, pool, devices[i].name) for i in indexes]
