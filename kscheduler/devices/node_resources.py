"""What allocated devices take of their node's own resources: cpu, memory and the like that they stand for or need.

A driver says in its slices how much that is: by device or by what is used of a capacity (mappings), and besides for
each pod and container (overhead). Behind the feature gate DRANodeAllocatableResources; the texts of faults are
kube-scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.api.devices import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResourceMapping,
    ResourceClaim,
)
from kscheduler.api.exact_quantity import Format, Quantity
from kscheduler.api.objects import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    RawQuantity,
)
from kscheduler.errors import KSchedulerError

FindDevice = Callable[[DeviceRequestAllocationResult], Device | None]  # in the slices of a node
_NOTHING = Quantity(0, 0, Format.DECIMAL_SI)


class NodeResourcesError(KSchedulerError):
    """Raised if it is not known what a claim takes: a device is not there, or has no consumed capacity."""


class NodeShares:
    """Says what claims take, with the fields of a release: `mappings_only` for 1.36.

    Methods raise QuantityError for amounts that are no quantities, which the apiserver refuses.
    """

    def __init__(self, *, mappings_only: bool) -> None:
        self._mappings_only = mappings_only

    def takes_any(self, device: Device) -> bool:
        """Return whether the device may take something of its node."""
        return bool(
            device.node_allocatable_resource_mappings if self._mappings_only else device.node_allocatable_resources
        )

    def stands_for_any(self, device: Device) -> bool:
        """Return whether the device stands for some of its node's resources, and does not only need them."""
        return any(each.mapping is not None for each in (device.node_allocatable_resources or {}).values())

    def of_claim(
        self, claim: ResourceClaim, allocation: AllocationResult, find: FindDevice
    ) -> NodeAllocatableResourceClaimStatus | None:
        """Return what a claim with this allocation takes, for no container yet; None if nothing.

        Raises NodeResourcesError.
        """
        mapped: dict[str, Quantity] = {}
        overhead: dict[str, _Overhead] = {}
        for result in allocation.devices.results or ():
            device = find(result)
            if device is None:
                raise NodeResourcesError(self._not_found(claim, result))
            try:
                if self._mappings_only:
                    self._add_old(device, result, mapped)
                else:
                    self._add(device, result, mapped, overhead)
            except _NotConsumed as missing:
                text = f"claim {claim.key}, device {result.device}: {missing}"
                raise NodeResourcesError(text) from None
        if not mapped and not overhead:
            return None
        name, listed = claim.metadata.name, sorted(mapped.items())
        if self._mappings_only:
            resources: dict[str, RawQuantity] = {resource: str(amount) for resource, amount in listed}
            return NodeAllocatableResourceClaimStatus(name, resources=resources)
        return NodeAllocatableResourceClaimStatus(
            name,
            mapping=[NodeAllocatableMappedResources(each, str(amount)) for each, amount in listed] or None,
            overhead=[each.shown(resource) for resource, each in sorted(overhead.items())] or None,
        )

    def _not_found(self, claim: ResourceClaim, result: DeviceRequestAllocationResult) -> str:
        if self._mappings_only:
            about = f"claim {claim.key}, device {result.device}"
            return f"{about}: device {result.device} not found in pool {result.pool}"
        about = f"claim {claim.key}, device {result.device}, driver {result.driver}"
        return f"{about}: device {result.device} not found in pool {result.pool} for driver {result.driver}"

    def _add_old(self, device: Device, result: DeviceRequestAllocationResult, mapped: dict[str, Quantity]) -> None:
        for resource, mapping in (device.node_allocatable_resource_mappings or {}).items():
            amount = _amount_old(mapping, result, resource)
            if amount is not None:
                known = mapped.get(resource)
                mapped[resource] = amount if known is None else known.add(amount)

    def _add(
        self,
        device: Device,
        result: DeviceRequestAllocationResult,
        mapped: dict[str, Quantity],
        overhead: dict[str, _Overhead],
    ) -> None:
        for resource, taken in (device.node_allocatable_resources or {}).items():
            amount = None if taken.mapping is None else _amount(taken.mapping, result, resource)
            if amount is not None:
                mapped[resource] = mapped.get(resource, _NOTHING).add(amount)
            more = taken.overhead
            if more is not None and (more.per_pod is not None or more.per_container is not None):
                overhead.setdefault(resource, _Overhead()).add(more)


class _NotConsumed(Exception):
    """An allocation does not say what it uses of a device's capacities, though a mapping is by one of them."""


class _Overhead:
    """The sum of the overheads of devices with one resource; None if no device has one of the kind."""

    __slots__ = ("per_container", "per_pod")

    def __init__(self) -> None:
        self.per_pod: Quantity | None = None
        self.per_container: Quantity | None = None

    def add(self, more: NodeAllocatableOverhead) -> None:
        self.per_pod = _sum(self.per_pod, more.per_pod)
        self.per_container = _sum(self.per_container, more.per_container)

    def shown(self, resource: str) -> NodeAllocatableOverheadResources:
        per_pod, per_container = self.per_pod, self.per_container
        return NodeAllocatableOverheadResources(
            resource,
            None if per_pod is None else str(per_pod),
            None if per_container is None else str(per_container),
        )


def _sum(known: Quantity | None, more: RawQuantity | None) -> Quantity | None:
    if more is None:
        return known
    return Quantity.served(more) if known is None else known.add(Quantity.served(more))


def _amount(mapping: NodeAllocatableMapping, result: DeviceRequestAllocationResult, resource: str) -> Quantity | None:
    """Return what one device stands for; None if its mapping says nothing about this allocation."""
    if not mapping.capacity_key:
        return None if mapping.device_multiplier is None else Quantity.served(mapping.device_multiplier)
    consumed = _consumed(result, mapping.capacity_key, "NodeAllocatableResources", resource)
    if consumed is None or mapping.capacity_multiplier is None:
        return consumed
    multiplier = Quantity.served(mapping.capacity_multiplier)
    return consumed if multiplier == Quantity.of(1) else consumed.multiply(multiplier)


def _amount_old(
    mapping: NodeAllocatableResourceMapping, result: DeviceRequestAllocationResult, resource: str
) -> Quantity | None:
    """Do the same for a mapping of 1.36, where one that names neither a capacity nor an amount stands for nothing."""
    multiplier = mapping.allocation_multiplier
    if not mapping.capacity_key:
        return _NOTHING if multiplier is None else Quantity.served(multiplier)
    consumed = _consumed(result, mapping.capacity_key, "NodeAllocatableResourceMappings", resource)
    return consumed if consumed is None or multiplier is None else consumed.multiply(Quantity.served(multiplier))


def _consumed(result: DeviceRequestAllocationResult, capacity: str, field: str, resource: str) -> Quantity | None:
    """Return what the allocation uses of a capacity; None if that is not among those it uses. Raises _NotConsumed."""
    if result.consumed_capacity is None:
        key = f"Capacity key '{capacity}' is set in {field} for resource {resource}"
        raise _NotConsumed(f"ConsumedCapacity is nil, but {key}")
    amount = result.consumed_capacity.get(capacity)
    return None if amount is None else Quantity.served(amount)
