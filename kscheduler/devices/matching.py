"""Which devices of a pool a request could get, as bits, which callers keep for each device query.

Bit i stands for the i-th accessible device of the pool. Devices in use match as others do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.api.devices import DeviceToleration
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.features import Features
from kscheduler.devices.pools import Pool
from kscheduler.devices.requests import Variant
from kscheduler.devices.selection import DeviceView, SelectorError, Selectors
from kscheduler.devices.slices import NO, UNKNOWN, YES, ParsedDevice
from kscheduler.devices.taints import are_tolerated

PECULIAR = -1  # in place of bits: only the search finds out whether a device can be allocated, or is an error


@dataclass(frozen=True, slots=True)
class DeviceQuery:
    """What requests of one kind ask of a device: selectors that hold, those of the class first, and tolerations."""

    expressions: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...]

    @staticmethod
    def of(variant: Variant) -> DeviceQuery:
        """Return the query of a request. Admin access and amounts of capacity are not part of it."""
        return DeviceQuery(tuple(each.expression for each in variant.selectors), variant.tolerations)


class DeviceMatcher:
    """Matches devices with queries, and counts in `evaluated` how often a selector had to be evaluated for that."""

    def __init__(self, features: Features, selectors: Selectors) -> None:
        self._features = features
        self._selectors = selectors
        self.evaluated = 0

    def matching(self, query: DeviceQuery, pool: Pool) -> int:
        """Return the devices of a pool that a query allows, as bits; PECULIAR if only the search can decide."""
        if pool.has_malformed_selectors or self._is_error(query, pool.inaccessible):
            return PECULIAR
        bits = 0
        for i, device in enumerate(pool.accessible):
            if device.has_binding_conditions and not self._features.binding_conditions:
                continue
            try:
                is_selected = self.selects(query, device)
            except SelectorError:
                return PECULIAR
            if not is_selected:
                continue
            if self._is_peculiar(device):
                return PECULIAR
            if not self._features.taints or not device.taints or are_tolerated(device.taints, query.tolerations):
                bits |= 1 << i
        return bits

    def _is_error(self, query: DeviceQuery, inaccessible: Sequence[ParsedDevice]) -> bool:
        """Return whether it is an error to ask the selectors about a device, which the search does for all nodes."""
        try:
            for device in inaccessible:
                self.selects(query, device)
        except SelectorError:
            return True
        return False

    def selects(self, query: DeviceQuery, device: ParsedDevice) -> bool:
        """Return whether the selectors of a query hold for a device. Raises SelectorError."""
        view: DeviceView | None = None
        for expression in query.expressions:
            answers = device.slice.answers(expression)
            answer = answers[device.index]
            if answer == UNKNOWN:
                self.evaluated += 1
                view = view or device.view()
                answer = YES if self._selectors.get(expression).matches(view) else NO
                answers[device.index] = answer
            if answer == NO:
                return False
        return True

    def _is_peculiar(self, device: ParsedDevice) -> bool:
        """Return whether only the search can tell: it depends on the node, is shared, or has a policy of capacity."""
        features = self._features
        if device.slice.skips_operations and features.heeds_node_operations:
            return True
        if not features.consumable_capacity:
            return False
        if device.allows_multiple:
            return True
        for capacity in device.capacity.values():  # noqa: SIM110 (for each device of a cluster: a generator is a call)
            if capacity.has_policy or capacity.limit < 0:
                return True
        return False


def free_devices(pool: Pool, state: AllocatedState) -> tuple[int, int]:
    """Return the accessible devices of a pool that are not in use, as bits, and those of them that are certain.

    Any request can always get the latter: they share no counters with others, and have all their capacity.
    """
    free = certain = 0
    for i, device in enumerate(pool.accessible):
        if device.id not in state.devices:
            free |= 1 << i
            if not device.uses_counters and device.id not in state.capacity:
                certain |= 1 << i
    return free, certain
