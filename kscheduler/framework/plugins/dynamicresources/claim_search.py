"""Allocates the claims of a pod on one node, on trial. The special claim has other requests on other nodes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.api.objects import ContainerExtendedResourceRequest, Pod
from kscheduler.devices.allocator import AllocationError, Allocator, PoolError, SearchStopped
from kscheduler.devices.selection import Selectors
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.dynamicresources import extended_resources
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status, error_status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

CANNOT_ALLOCATE = unresolvable("cannot allocate all claims")
CANNOT_FIT = unresolvable("cannot fit resource")
STALE = unresolvable("cannot schedule extended resource claim")


class ClaimSearch:
    """The search for devices on a node, for pods of one profile. `filter_s`: how long it may take; 0 for no limit."""

    def __init__(self, handle: Handle, selectors: Selectors, filter_s: float) -> None:
        self._handle = handle
        self._devices = devices = handle.devices
        self._filter_s = filter_s
        self.drawn: tuple[str, ResourceClaim] | None = None  # uid of a pod, the special claim that is new for it
        self.new_allocator = partial(
            Allocator,
            handle.release,
            devices.allocated,
            devices.classes,
            devices.slices,
            selectors,
            draw_share_id=self._draw_share_id,
        )

    # --- the special claim ---

    def extended_resources(self, pod: PodInfo) -> dict[str, int]:
        """Return the extended resources that the pod requests, with amounts; none if no class backs any of them."""
        scalars = pod.resources.total.scalars
        if not scalars or self._devices.resources.isdisjoint(name for name, amount in scalars.items() if amount):
            return {}
        return {name: amount for name, amount in scalars.items() if amount and extended_resources.is_backable(name)}

    def new_special(self, pod: Pod) -> ResourceClaim:
        """Return the pod's new claim for extended resources; the one with which kernels have just failed to place it.

        So random numbers are drawn as if the kernels had not been asked.
        """
        drawn, self.drawn = self.drawn, None
        if drawn is not None and drawn[0] == pod.metadata.uid:
            return drawn[1]
        return extended_resources.new_claim(pod, self._handle.rng)

    def special_on(
        self, cycle: PodClaims, pod: Pod, node: NodeInfo
    ) -> tuple[ResourceClaim | None, list[ContainerExtendedResourceRequest]] | Status:
        """Return the special claim with its requests on this node, and which containers use them.

        None for the claim if device plugins provide all extended resources here. A status if the node cannot be used.
        """
        if cycle.claims[-1].spec.devices.requests is not None:  # of an earlier attempt: it is deleted at PostFilter
            return STALE
        return self.special_beside(cycle, pod, node.allocatable.resources.scalars)

    def special_beside(
        self, cycle: PodClaims, pod: Pod, own: Mapping[str, int]
    ) -> tuple[ResourceClaim | None, list[ContainerExtendedResourceRequest]] | Status:
        """Return what `special_on` does, for a node that has the extended resources `own` itself."""
        missing: list[str] = []
        for name in cycle.extended:
            if not own.get(name) and self._devices.class_of_resource(name) is not None:
                missing.append(name)
            elif name not in own:
                return CANNOT_FIT
        if not missing and not cycle.of_user:
            return None, []
        key = tuple(missing)
        known = cycle.variants.get(key)
        if known is None:
            special = cycle.claims[-1]
            requests, mappings = extended_resources.requests_for(pod, missing, self._devices)
            known = extended_resources.with_requests(special, requests), mappings
            cycle.variants[key] = known
        return known

    # --- the search ---

    def allocate(
        self, allocator: Allocator, cycle: PodClaims, special: ResourceClaim | None, node: NodeInfo
    ) -> list[AllocationResult] | Status:
        plan = None if cycle.plan is None or special is not cycle.plan_special else cycle.plan
        # With a plan, none has an allocation.
        claims = [*cycle.claims] if cycle.plan is not None else [claim for _, claim in cycle.unallocated()]
        if special is not None and cycle.special is claims[-1]:
            claims[-1] = special
        try:
            results = allocator.allocate(node.node, claims, should_stop=self._deadline(), plan=plan)
        except SearchStopped:
            # No rejection but a fault, so that the pod is tried again without waiting for an event.
            return error_status(f"node {node.name}: timed out trying to allocate devices")
        except PoolError as error:
            return unresolvable(str(error))
        except AllocationError as error:
            return error_status(str(error))
        if results is None or len(results) != len(claims):
            return CANNOT_ALLOCATE
        return results

    def _deadline(self) -> Callable[[], bool]:
        """Return a function that returns whether a search that begins now has to stop."""
        if self._filter_s <= 0:
            return _never
        stopwatch = self._handle.stopwatch
        end = stopwatch() + self._filter_s
        return lambda: stopwatch() >= end

    def _draw_share_id(self) -> str:
        return str(uuid.UUID(int=self._handle.rng.getrandbits(128), version=4))


def _never() -> bool:
    return False
