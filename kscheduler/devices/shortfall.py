"""Explains why claims cannot be allocated on a node: which request finds too few devices, and what excludes the others.

Not for scheduling cycles, which only need to know that they cannot: it asks step by step, and searches several times.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from kscheduler.api.devices import DeviceClass, DeviceConstraint, DeviceRequest, ResourceClaim
from kscheduler.api.objects import Node
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.compatibility import AllocatedGroups
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.errors import AllocationError, PoolError, SearchStopped
from kscheduler.devices.requests import Requests, Variant, show_claim
from kscheduler.devices.search import Search
from kscheduler.devices.selection import Selectors
from kscheduler.devices.slice_index import NodePools, SliceIndex
from kscheduler.devices.slices import ParsedDevice
from kscheduler.devices.taints import are_tolerated

MAX_STEPS = 10_000  # of searching on one node: combinations of devices can be very many


class Cause(enum.StrEnum):
    """What leaves too few devices for a request, in the order in which it is asked."""

    POOL = "pool"  # a resource pool is incomplete or invalid
    NO_DEVICE = "no device"  # the node has too few, whichever
    SELECTOR = "selector"  # too few match it, of those that match the selectors before it
    CAPACITY = "capacity"  # too few have the requested capacity, whether in use or not
    TAINT = "taint"  # too few have only taints that the request tolerates
    IN_USE = "in use"  # enough would do, but other claims have them
    SHARED = "shared"  # too few have what they share with others: counters of their pool, or capacity
    TOGETHER = "together"  # there are enough for each request, but not for all requests or claims together
    GIVEN_UP = "given up"  # the combinations of devices are too many to look at
    CONSTRAINT = "constraint"  # there are enough without this constraint of the claim
    ERROR = "error"  # something is wrong with a class, the claim, or a slice


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a request of a claim fails on a node."""

    claim: str  # namespace/name; "" for all claims together
    request: str  # request, or request/alternative; "" for the claim as a whole
    cause: Cause
    detail: str = ""  # the selector and its place, the constraint, the pool, or an error in the allocator's words


class ShortfallFinder:
    """Looks for shortfalls on one node after the other, with the devices as they are when it is made."""

    def __init__(
        self,
        release: Release,
        state: AllocatedState,
        classes: Mapping[str, DeviceClass],
        slices: SliceIndex,
        selectors: Selectors,
    ) -> None:
        self._state = state
        self._index = slices
        self._selectors = selectors
        self._features = slices.features
        self._requests = Requests(slices.features, classes)
        self._available = AvailableCounters(state, by_pool_name=slices.features.rules.counters_by_pool_name)
        self._groups = AllocatedGroups(self._available) if slices.features.compatibility_groups else None
        self._allocator = Allocator(release, state, classes, slices, selectors, draw_share_id=_no_share_id)
        self._steps = 0  # on the current node
        self._variants: dict[tuple[int, int], tuple[ResourceClaim, list[Variant]]] = {}
        self._prefixes: dict[Variant, list[Variant]] = {}
        self._parts: dict[tuple[int, str, int], tuple[ResourceClaim, ResourceClaim]] = {}

    def on_node(self, node: Node, claims: Sequence[ResourceClaim]) -> list[Shortfall]:
        """Return the first shortfall of these unallocated claims on the node, or [] if they can be allocated.

        A request with alternatives has one for each of them.
        """
        self._steps = 0
        try:
            if self._is_enough(node, claims):
                return []
            for claim in claims:
                found = self._of_claim(node, claim)
                if found:
                    return found
            return [Shortfall("", "", Cause.TOGETHER)]
        except SearchStopped:
            return [Shortfall("", "", Cause.GIVEN_UP)]
        except PoolError as error:
            return [Shortfall("", "", Cause.POOL, str(error))]
        except AllocationError as error:
            return [Shortfall("", "", Cause.ERROR, str(error))]

    def _of_claim(self, node: Node, claim: ResourceClaim) -> list[Shortfall]:
        """1. Each request by itself.  2. All of them, without constraints.  3. With each constraint by itself."""
        name, given = show_claim(claim), claim.spec.devices
        pools = self._index.pools_of(node)
        search = self._search(node, pools)
        for index, request in enumerate(given.requests or ()):
            found = list(self._of_request(node, claim, index, request, pools, search))
            if found and len(found) == len(request.first_available or (None,)):
                return found
        constraints = given.constraints or []
        free = self._part(claim, "free", 0, requests=given.requests, constraints=None)
        if not self._is_enough(node, [free]):
            return [Shortfall(name, "", Cause.TOGETHER)]
        for index, constraint in enumerate(constraints):
            alone = self._part(claim, "constraint", index, requests=given.requests, constraints=[constraint])
            if not self._can(node, alone):
                return [Shortfall(name, "", Cause.CONSTRAINT, _show_constraint(index, constraint))]
        if constraints and not self._can(node, claim):
            return [Shortfall(name, "", Cause.CONSTRAINT, "all constraints together")]
        return []

    def _of_request(
        self, node: Node, claim: ResourceClaim, index: int, request: DeviceRequest, pools: NodePools, search: Search
    ) -> Iterator[Shortfall]:
        """Yield a shortfall for each alternative of the request that has one."""
        for place, variant in enumerate(self._variants_of(claim, index, request)):
            found = self._of_variant(variant, pools, search)
            if found is None:
                only = request
                if request.first_available:
                    only = structs.replace(request, first_available=[request.first_available[place]])
                part = self._part(claim, f"request {place}", index, requests=[only], constraints=None)
                if self._is_enough(node, [part]):
                    return
                found = Cause.SHARED, ""
            yield Shortfall(variant.claim, variant.full_name, *found)

    def _of_variant(self, variant: Variant, pools: NodePools, search: Search) -> tuple[Cause, str] | None:
        """Return what leaves too few devices, each device looked at by itself; None if enough are left."""
        unusable = next((pool for pool in pools.pools if not pool.is_usable), None)
        least = max(variant.count, 1)
        steps = self._steps_of(variant)
        left = [each for each in pools.devices if search.is_selectable(steps[0], each)]
        if len(left) < least:
            return Cause.NO_DEVICE if unusable is None else Cause.POOL, "" if unusable is None else str(unusable)
        for selector, some in zip(variant.selectors, steps[1:], strict=True):
            left = [each for each in left if search.is_selectable(some, each)]
            if len(left) < least:
                return Cause.SELECTOR, f"{selector.place}: {selector.expression}"
        if variant.wants_all:
            least = len(left)
        left = [each for each in left if search.offers_capacity(variant, each)]
        if len(left) < least:
            return Cause.CAPACITY, ""
        if self._features.taints:
            left = [each for each in left if are_tolerated(each.taints, variant.tolerations)]
            if len(left) < least:
                return Cause.TAINT, ""
        left = [each for each in left if variant.has_admin_access or not self._is_taken(each)]
        return (Cause.IN_USE, "") if len(left) < least else None

    def _steps_of(self, variant: Variant) -> list[Variant]:
        """Return the variant without selectors, with the first one, the first two, and so on."""
        known = self._prefixes.get(variant)
        if known is None:
            ends = range(len(variant.selectors) + 1)
            known = self._prefixes[variant] = [replace(variant, selectors=variant.selectors[:end]) for end in ends]
        return known

    def _is_taken(self, device: ParsedDevice) -> bool:
        return device.id in self._state.devices

    def _is_enough(self, node: Node, claims: Sequence[ResourceClaim]) -> bool:
        return self._allocator.allocate(node, claims, should_stop=self._should_stop) is not None

    def _can(self, node: Node, claim: ResourceClaim) -> bool:
        """Return whether a claim can be allocated; a constraint that all devices together violate is an error."""
        try:
            return self._is_enough(node, [claim])
        except AllocationError:
            return False

    def _should_stop(self) -> bool:
        self._steps += 1
        return self._steps > MAX_STEPS

    def _variants_of(self, claim: ResourceClaim, index: int, request: DeviceRequest) -> list[Variant]:
        known = self._variants.get((id(claim), index))
        if known is None:
            chosen = request.first_available or (None,)
            made = [self._requests.prepare(claim, request, each) for each in chosen]
            known = self._variants[id(claim), index] = claim, made
        return known[1]

    def _part(
        self,
        claim: ResourceClaim,
        kind: str,
        index: int,
        *,
        requests: list[DeviceRequest] | None,
        constraints: list[DeviceConstraint] | None,
    ) -> ResourceClaim:
        """Return the claim with some of its requests and constraints, the same object for all nodes."""
        key = id(claim), kind, index
        if key not in self._parts:
            devices = structs.replace(claim.spec.devices, requests=requests, constraints=constraints)
            part = structs.replace(claim, spec=structs.replace(claim.spec, devices=devices))
            self._parts[key] = claim, part
        return self._parts[key][1]

    def _search(self, node: Node, pools: NodePools) -> Search:
        return Search(
            node=node,
            pools=pools,
            state=self._state,
            available=self._available,
            groups=self._groups,
            selectors=self._selectors,
            features=self._features,
            draw_share_id=_no_share_id,
            should_stop=self._should_stop,
        )


def _show_constraint(index: int, constraint: DeviceConstraint) -> str:
    if constraint.match_attribute is not None:
        kind = f"matchAttribute {constraint.match_attribute}"
    else:
        kind = f"distinctAttribute {constraint.distinct_attribute}"
    return f"constraint #{index}: {kind} of " + (", ".join(constraint.requests or ()) or "all requests")


def _no_share_id() -> str:
    return ""
