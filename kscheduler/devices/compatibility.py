"""Compatibility groups: which devices may draw from one counter set at the same time.

A device states them for each counter set that it consumes, such as the ways in which a GPU can be partitioned. All
devices in use on a counter set must have a group in common. Those that state none are only used beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.api.devices import DeviceCounterConsumption
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.pools import Pool
from kscheduler.devices.slices import ParsedDevice, PoolID

Groups = frozenset[str]
GroupsBefore = tuple[tuple[str, Groups | None], ...]  # (counter set, what its devices had in common; None: nothing yet)

NO_GROUPS: Groups = frozenset({""})  # stands for the absence of groups; no group has an empty name


class AllocatedGroups:
    """What the allocated devices of each counter set have in common, computed once for all nodes of a cycle."""

    __slots__ = ("_available", "_of_pools")

    def __init__(self, available: AvailableCounters) -> None:
        self._available = available
        self._of_pools: dict[PoolID, dict[str, Groups]] = {}

    def of(self, pool: Pool) -> Mapping[str, Groups]:
        """Return for each counter set with an allocated device the groups that all its devices have."""
        found = self._of_pools.get(pool.id)
        if found is None:
            found = self._of_pools[pool.id] = self._collect(pool)
        return found

    def _collect(self, pool: Pool) -> dict[str, Groups]:
        common: dict[str, Groups] = {}
        for device in pool.counters.consumers:
            if not self._available.is_allocated(device.id):
                continue
            for consumed in device.device.consumes_counters or ():
                before = common.get(consumed.counter_set)
                common[consumed.counter_set] = _joined(before, _groups_of(consumed))
        return common


class ChosenGroups:
    """The same with the devices chosen in one search."""

    __slots__ = ("_allocated", "_of_pools")

    def __init__(self, allocated: AllocatedGroups) -> None:
        self._allocated = allocated
        self._of_pools: dict[PoolID, dict[str, Groups]] = {}  # counter sets with chosen devices

    def add(self, device: ParsedDevice, pool: Pool) -> GroupsBefore | None:
        """Count a device if it may be used beside the others. Return what `remove` needs, or None if it may not."""
        allocated, chosen = self._allocated.of(pool), self._of_pools.setdefault(pool.id, {})
        after: dict[str, Groups] = {}
        for consumed in device.device.consumes_counters or ():
            name, groups = consumed.counter_set, _groups_of(consumed)
            before = after.get(name) or chosen.get(name, allocated.get(name))
            if before is not None and before.isdisjoint(groups):
                return None
            after[name] = _joined(before, groups)
        undo = tuple((name, chosen.get(name)) for name in after)
        chosen.update(after)
        return undo

    def remove(self, device: ParsedDevice, undo: GroupsBefore) -> None:
        """Forget the device that was added last."""
        chosen = self._of_pools[device.slice.pool_id]
        for name, before in undo:
            if before is None:
                del chosen[name]
            else:
                chosen[name] = before


def _groups_of(consumed: DeviceCounterConsumption) -> Groups:
    return frozenset(consumed.compatibility_groups) if consumed.compatibility_groups else NO_GROUPS


def _joined(before: Groups | None, groups: Groups) -> Groups:
    """Return what is left in common; one with groups beside one without, as slices may come to say, does not count."""
    if before is None:
        return groups
    if before == NO_GROUPS or groups == NO_GROUPS:
        return before
    return before & groups
