"""Extended resources that device classes back: which of them a pod requests, and what a node has of them, for scores.

A node that has none of such a resource itself has the devices of the class instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set

from kscheduler.api.devices import DeviceClass
from kscheduler.api.objects import Node
from kscheduler.cel.selectors import selectors_for
from kscheduler.devices.allocated import DeviceID
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.selection import DeviceView, SelectorError, Selectors
from kscheduler.devices.slices import NO, UNKNOWN, YES, ParsedDevice
from kscheduler.errors import DecodeError
from kscheduler.framework.interface import Handle
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.resource_owners import ResourceOwners

log = logging.getLogger(__name__)

Stock = tuple[int, int]  # number of devices that a node has, and how many of them are in use
_NOTHING: Stock = (0, 0)


class Backing:
    """The resources that classes back, as one plugin looks at them."""

    def __init__(self, handle: Handle) -> None:
        self._devices = handle.devices
        self._resources = handle.table.resources
        self._owners = ResourceOwners(handle.table)
        self._selectors = selectors_for(handle.release)

    def columns(self, pod: PodInfo) -> list[int]:
        """Return the columns of the backed resources that the pod requests; usually none."""
        scalars, backed = pod.resources.total.scalars, self._devices.resources
        if not scalars or backed.isdisjoint(scalars):
            return []
        return [self._resources.column(name) for name in scalars if name in backed]

    def owners(self, columns: Iterable[int]) -> Set[int]:
        """Return the rows (nodes) that have one of the resources in these columns themselves, or 0 of it."""
        return self._owners.rows(self._resources.names[column] for column in columns)

    def stocks(self, pod: PodInfo, scored: Iterable[int]) -> Stocks | None:
        """Return what nodes have of the backed resources that the pod requests, as far as their columns are scored.

        None if there is no such resource.
        """
        names, classes = self._resources.names, {}
        for column in set(self.columns(pod)).intersection(scored):
            device_class = self._devices.class_of_resource(names[column])
            if device_class is not None:
                classes[column] = device_class
        return Stocks(classes, self._devices, self._selectors) if classes else None


class Stocks:
    """What nodes have of some backed resources. It is for one scheduling cycle."""

    def __init__(self, classes: Mapping[int, DeviceClass], devices: Devices, selectors: Selectors) -> None:
        self._classes = classes
        self._devices = devices
        self._selectors = selectors
        state = devices.allocated
        self._dedicated: Set[DeviceID] = state.devices
        self._shared = {device for device, _ in state.shares}

    def of(self, node: Node, column: int) -> Stock:
        """Count the node's devices of a resource. If one cannot be judged, the node has none, as in kube-scheduler."""
        device_class = self._classes.get(column)
        if device_class is None:
            return _NOTHING
        capacity = used = 0
        try:
            for device in self._devices.slices.devices_at(node):
                if self._is_of(device, device_class):
                    capacity += 1
                    used += device.id in self._dedicated or device.id in self._shared
        except (AllocationError, DecodeError, SelectorError) as error:
            log.error(
                "a node's devices cannot be counted, and do not count for its score",
                extra={"node": node.metadata.name, "device_class": device_class.metadata.name, "err": str(error)},
            )
            return _NOTHING
        return capacity, used

    def _is_of(self, device: ParsedDevice, device_class: DeviceClass) -> bool:
        return all(
            self._answer(device, selector.cel.expression)
            for selector in device_class.spec.selectors or ()
            if selector.cel is not None
        )

    def _answer(self, device: ParsedDevice, expression: str) -> bool:
        if device.allows_multiple:  # which kube-scheduler does not show to selectors here
            published = device.device
            view = DeviceView(device.slice.driver, device.attributes, published.capacity or {}, False)
            return self._selectors.get(expression).matches(view)
        answers = device.slice.answers(expression)
        if answers[device.index] == UNKNOWN:
            answers[device.index] = YES if self._selectors.get(expression).matches(device.view()) else NO
        return answers[device.index] == YES
