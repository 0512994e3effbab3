"""Allocates devices to the claims of a pod on one node, as kube-scheduler's structured allocator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kscheduler.api.devices import AllocationResult, DeviceClass, DeviceRequest, ResourceClaim, ResourceSlice
from kscheduler.api.objects import Node
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.compatibility import AllocatedGroups
from kscheduler.devices.constraints import Constraint, compile_constraint
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.direct import DirectPlan
from kscheduler.devices.errors import AllocationError, PoolError, SearchStopped
from kscheduler.devices.integer_plan import ClaimsPlan, Found, IntegerPlan
from kscheduler.devices.requests import Requests, Variant, show_claim
from kscheduler.devices.results import make_allocation
from kscheduler.devices.search import MAX_RESULTS, Choice, ClaimWants, Search, Want
from kscheduler.devices.selection import Selectors
from kscheduler.devices.slice_index import NodePools, SliceIndex
from kscheduler.devices.slices import ParsedDevice

__all__ = ["AllocationError", "Allocator", "PoolError", "SearchStopped"]


def _never() -> bool:
    return False


class Allocator:
    """Allocates in one scheduling cycle, with the devices as they are at its begin; it can be asked about many nodes.

    `slices`: as published, with the taints of DeviceTaintRules. An index of them that is kept from cycle to cycle saves
    reading them again; it has to be of the same release. `steps` counts the calls of the search's innermost function,
    as kube-scheduler's GetStats.
    """

    def __init__(
        self,
        release: Release,
        state: AllocatedState,
        classes: Mapping[str, DeviceClass],
        slices: Sequence[ResourceSlice] | SliceIndex,
        selectors: Selectors,
        *,
        draw_share_id: Callable[[], str],
    ) -> None:
        self.steps = 0
        self._state = state
        self._index = slices if isinstance(slices, SliceIndex) else SliceIndex(release, slices)
        self._selectors = selectors
        self._draw_share_id = draw_share_id
        self._features = self._index.features
        self._classes = classes
        # These three are made when they are needed first: few pods need a search.
        self._requests: Requests | None = None
        self._available: AvailableCounters | None = None
        self._groups: AllocatedGroups | None = None
        # What is the same for all nodes: (id of a claim, index of a request, of an alternative) -> (claim, variant).
        self._variants: dict[tuple[int, int, int], tuple[ResourceClaim, Variant]] = {}

    def allocate(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        *,
        should_stop: Callable[[], bool] = _never,
        plan: ClaimsPlan | None = None,
    ) -> list[AllocationResult] | None:
        """Return an allocation for each claim, or None if they cannot be allocated together on the node.

        Raises AllocationError if that is an error on every node, PoolError if the node's pools are at fault.
        `should_stop` is asked often; the search ends with SearchStopped when it returns True. `plan`: that of these
        claims, if they have one; then there is a search only where it is needed.
        """
        pools = self._index.pools_of(node)
        available = self._available
        if plan is not None:
            # 1. Do the first free devices suffice? Not where devices are partitions, as a look at one tells mostly.
            if plan.direct is not None and (plan.integers is None or (pools.devices and pools.devices[0].is_plain)):
                allocations = plan.direct.allocate(node.metadata.name, pools, self._state)
                if allocations is not None:
                    self.steps += plan.direct.steps
                    return allocations
            # 2. Else the kernel searches.
            available = available or self._count_available()
            table = None if plan.integers is None else pools.table(self._features)
            if plan.integers is not None and table is not None:
                answer = plan.integers.find(table, self._state, available, self._selectors)
                if answer is not None and (answer[1] is not None or not pools.has_invalid):
                    self.steps += answer[0]
                    return None if answer[1] is None else self._allocations_of(node, claims, answer[1])
        # 3. Else the search goes through all that a device can have.
        available = available or self._count_available()
        search = Search(
            node=node,
            pools=pools,
            state=self._state,
            available=available,
            groups=self._groups,
            selectors=self._selectors,
            features=self._features,
            draw_share_id=self._draw_share_id,
            should_stop=should_stop,
        )
        wants = [self._want(claim, pools, search) for claim in claims]
        try:
            is_solved = search.run(wants)
        finally:
            self.steps += search.steps
        if not is_solved:
            if pools.has_invalid:
                raise PoolError("invalid resource pools were encountered")
            return None
        return self._make_allocations(node, claims, wants, search)

    def _count_available(self) -> AvailableCounters:
        available = AvailableCounters(self._state, by_pool_name=self._features.rules.counters_by_pool_name)
        if self._features.compatibility_groups:
            self._groups = AllocatedGroups(available)
        self._available = available
        return available

    def _make_requests(self) -> Requests:
        self._requests = Requests(self._features, self._classes)
        return self._requests

    def plan_for(
        self, claims: Sequence[ResourceClaim], requests: Sequence[Sequence[Sequence[Variant]]]
    ) -> ClaimsPlan | None:
        """Return how to allocate to claims without a search in the general form; None if that is impossible.

        `requests`: what `variants_of` returns for each of the claims.
        """
        direct = DirectPlan.of(claims, requests, self._features.rules)
        integers = IntegerPlan.of(claims, requests, self._features)
        return None if direct is None and integers is None else ClaimsPlan(direct, integers)

    # --- what is wanted -----------------------------------------------------------------------------------------

    def variants_of(self, claim: ResourceClaim) -> list[list[Variant]]:
        """Return what a claim wants, for each request its alternatives, or itself as the only one.

        Raises AllocationError, if not for all reasons for which `allocate` does.
        """
        found: list[list[Variant]] = []
        requests = self._requests or self._make_requests()
        for i, request in enumerate(claim.spec.devices.requests or ()):
            requests.check(claim, request)
            found.append([self._variant(claim, i, request, j) for j in range(len(request.first_available or (None,)))])
        return found

    def _want(self, claim: ResourceClaim, pools: NodePools, search: Search) -> ClaimWants:
        requests: list[list[Want]] = []
        least = 0  # number of devices that the claim needs at least
        checks = self._requests or self._make_requests()
        for i, request in enumerate(claim.spec.devices.requests or ()):
            checks.check(claim, request)
            wants = [
                self._want_variant(self._variant(claim, i, request, j), pools, search)
                for j in range(len(request.first_available or (None,)))
            ]
            added = min(want.count for want in wants)
            if not self._features.rules.limit_counts_whole_claims and added > MAX_RESULTS - least:
                raise AllocationError(
                    f"claim {show_claim(claim)}, request {request.name}: adding {added} devices exceeds the claim "
                    f"limit of {MAX_RESULTS}, with {least} already accounted for"
                )
            least += added
            requests.append(wants)
        if least > MAX_RESULTS:
            raise AllocationError(
                f"claim {show_claim(claim)}: number of requested devices {least} exceeds the claim limit "
                f"of {MAX_RESULTS}"
            )
        return ClaimWants(requests, self._constraints_of(claim))

    def _variant(self, claim: ResourceClaim, index: int, request: DeviceRequest, alternative: int) -> Variant:
        """Prepare a request, or one of its alternatives, once for all nodes."""
        key = id(claim), index, alternative
        known = self._variants.get(key)
        if known is None:
            chosen = request.first_available[alternative] if request.first_available else None
            requests = self._requests or self._make_requests()
            known = self._variants[key] = claim, requests.prepare(claim, request, chosen)
        return known[1]

    def _want_variant(self, variant: Variant, pools: NodePools, search: Search) -> Want:
        if not variant.wants_all:
            return Want(variant, variant.count)
        devices: list[ParsedDevice] = []
        for pool in pools.pools:
            if not pool.is_usable:
                problem = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"{variant.place}: asks for all devices, but resource pool {pool} is currently {problem}"
                )
            devices += [
                device
                for device in pool.devices
                if search.is_selectable(variant, device) and search.offers_capacity(variant, device)
            ]
        return Want(variant, len(devices), devices)

    def _constraints_of(self, claim: ResourceClaim) -> list[Constraint]:
        constraints: list[Constraint] = []
        for i, given in enumerate(claim.spec.devices.constraints or ()):
            constraint = compile_constraint(given, self._features)
            if constraint is None:
                raise AllocationError(
                    f"claim {show_claim(claim)}, constraint #{i}: empty constraint (unsupported constraint type?)"
                )
            constraints.append(constraint)
        return constraints

    # --- what was found -----------------------------------------------------------------------------------------

    def _make_allocations(
        self, node: Node, claims: Sequence[ResourceClaim], wants: Sequence[ClaimWants], search: Search
    ) -> list[AllocationResult]:
        alternatives = search.chosen_alternatives()
        return [
            self._make_allocation(
                node,
                claim,
                search.results[i],
                [variants[alternatives.get((i, r), 0)].variant for r, variants in enumerate(wants[i].requests)],
            )
            for i, claim in enumerate(claims)
        ]

    def _allocations_of(self, node: Node, claims: Sequence[ResourceClaim], found: Found) -> list[AllocationResult]:
        """Make the allocations from the devices that the kernel has found, at least one for each request."""
        allocations = []
        for claim, chosen in zip(claims, found, strict=True):
            choices = [
                Choice(
                    variant,
                    device,
                    is_marked=consumed is None,
                    share_id=None if consumed is None else self._draw_share_id(),
                    consumed=consumed,
                )
                for variant, device, consumed in chosen
            ]
            variants = list(dict.fromkeys([variant for variant, *_ in chosen]))
            allocations.append(self._make_allocation(node, claim, choices, variants))
        return allocations

    def _make_allocation(
        self, node: Node, claim: ResourceClaim, chosen: Sequence[Choice], variants: Sequence[Variant]
    ) -> AllocationResult:
        features = self._features
        return make_allocation(
            claim,
            chosen,
            variants,
            node.metadata.name,
            has_binding_conditions=features.binding_conditions,
            has_skipped_operations=features.optional_node_operations,
            repeats_claim_configs=features.rules.repeats_claim_configs,
        )
