"""Prepares pods with claims for the compiled lane: kernels place those for which the outcome on each node is known."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import FEASIBLE, Verdicts
from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.allocator import Allocator
from kscheduler.framework.interface import Handle, PreparedClaims
from kscheduler.framework.plugins.dynamicresources import conditions, extended_resources
from kscheduler.framework.plugins.dynamicresources.asked import Asked, AskedClaims
from kscheduler.framework.plugins.dynamicresources.binding import ClaimBinding
from kscheduler.framework.plugins.dynamicresources.claim_search import CANNOT_ALLOCATE, ClaimSearch
from kscheduler.framework.plugins.dynamicresources.claims import (
    NotReady,
    find_claims,
    group_name,
    only_node,
    skips_node_operations,
)
from kscheduler.framework.plugins.dynamicresources.counting import decide_all, decide_unknown, note_judged, reject_short
from kscheduler.framework.plugins.dynamicresources.node_resources import NodeResources
from kscheduler.framework.plugins.dynamicresources.scoring import score_of
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status
from kscheduler.snapshot.free_devices import FreeDevices
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.resource_owners import ResourceOwners
from kscheduler.snapshot.row_outcomes import RowOutcomes

_ALLOCATED = "allocated"  # the key of pods whose claims are allocated on one node

MAX_SEARCHES = 32  # of nodes before a pod is placed by kernels; if it takes more, all of its plugins decide


class ClaimPreparation:
    """What is known of the claims of a pod that kernels may place."""

    def __init__(
        self,
        handle: Handle,
        search: ClaimSearch,
        asked: AskedClaims,
        free: FreeDevices,
        owners: ResourceOwners,
        binding: ClaimBinding,
        node_resources: NodeResources | None,
    ) -> None:
        self._handle = handle
        self._devices = handle.devices
        self._in_flight = handle.devices.in_flight
        self._search = search
        self._asked = asked
        self._free = free
        self._owners = owners
        self._binding = binding
        self._node_resources = node_resources
        self._heeds_operations = handle.release.devices.has_optional_node_operations
        self._resource_requests = extended_resources.KeptRequests(handle.devices)
        self._verdicts = Verdicts()
        self.prepared: tuple[str, PodClaims] | None = None  # uid of a pod that may be placed by kernels, its claims

    def prepare(self, pod: PodInfo) -> PreparedClaims | None:
        """Return what decides about the pod's claims: the one node where they are allocated, or what is known of each.

        None if they have to be looked at on each node; if some of them are allocated and others not; if they score
        differently by node; and if some may be those of the pod's group.
        """
        self.prepared = None
        if self._devices.accepts_groups and group_name(pod.pod) is not None:
            return None
        extended = self._search.extended_resources(pod) if pod.resources.total.scalars else None
        if extended:
            return None if pod.pod.spec.resource_claims else self._prepare_resources(pod, extended)
        try:
            claims = find_claims(pod.pod, self._devices)
        except NotReady:
            return None
        in_flight, allocated = self._in_flight, 0
        for claim in claims:
            if claim.status.allocation is not None:
                allocated += 1
            elif claim.metadata.uid in in_flight:
                return None
        if not claims:
            return None
        if allocated:
            return self._prepare_allocated(pod, claims) if allocated == len(claims) else None
        return self._prepare_unallocated(pod, PodClaims(claims), claims)

    def awaits_allocation(self, pod: PodInfo) -> bool:
        if not self._in_flight:
            return False
        try:
            claims = find_claims(pod.pod, self._devices)
        except NotReady:
            return False
        return any(claim.status.allocation is None and claim.metadata.uid in self._in_flight for claim in claims)

    def _prepare_allocated(self, pod: PodInfo, claims: list[ResourceClaim]) -> PreparedClaims | None:
        """Prepare to place a pod whose claims are all allocated; None if they do not name one and the same node."""
        if self._binding.awaits_conditions and conditions.has_conditions(claims):
            return None
        if self._heeds_operations and any(skips_node_operations(each.status.allocation) for each in claims):
            return None
        name = only_node(claims)
        node = None if name is None else self._handle.table.get(name)
        if node is None:
            return None
        if self._node_resources is not None and self._node_resources.concerns_on(claims, pod.pod, node):
            return None
        self.prepared = pod.uid, PodClaims(claims, allocations=[None] * len(claims))
        return PreparedClaims(_ALLOCATED, node.row)

    def _prepare_resources(self, pod: PodInfo, extended: dict[str, int]) -> PreparedClaims | None:
        """Prepare to place a pod with extended resources, if classes back all of them and no node has one itself."""
        if self._owners.rows(extended) or self._devices.special_claim(pod.pod) is not None:
            return None
        found = self._resource_requests.of(pod.pod, extended)
        if found is None:
            return None
        requests, mappings = found
        special = self._search.new_special(pod.pod)
        self._search.drawn = pod.uid, special
        asking = extended_resources.with_requests(special, requests)
        cycle = PodClaims([special], has_special=True, special_uid=special.metadata.uid, extended=extended)
        cycle.variants[tuple(extended)] = asking, mappings
        cycle.plan_special = asking
        return self._prepare_unallocated(pod, cycle, [asking])

    def _prepare_unallocated(
        self, pod: PodInfo, cycle: PodClaims, claims: Sequence[ResourceClaim]
    ) -> PreparedClaims | None:
        """Prepare to place a pod whose claims have no allocation, by what is known of each row (node)."""
        allocator = self._search.new_allocator()
        asked = self._asked.of(claims, allocator)
        if asked is None or (self._node_resources is not None and self._node_resources.may_take(asked)):
            return None
        number = len(claims)
        cycle.nodes, cycle.allocations = [None] * number, [None] * number
        cycle.allocator, cycle.plan = allocator, asked.plan
        outcomes = self._free.outcomes(asked.key)
        if outcomes is None or not self._find_unknown(cycle, allocator, asked, outcomes):
            return None
        if outcomes.scores_differ:  # they are normalised over the feasible nodes
            return None
        outcomes.state()
        cycle.outcomes, cycle.is_counted = outcomes, True
        self.prepared = pod.uid, cycle
        return PreparedClaims(outcomes)

    def _find_unknown(
        self,
        cycle: PodClaims,
        allocator: Allocator,
        asked: Asked,
        outcomes: RowOutcomes,
    ) -> bool:
        """Find the outcomes of rows (nodes) that are unknown. Returns False if that is not possible, or takes long."""
        if not outcomes.unknown:
            return True
        # 1. Numbers of free devices say what comes of most.
        needs = asked.needs
        is_decided = outcomes.mostly_unknown and decide_all(needs, self._free, outcomes)
        if asked.only_need is not None and not is_decided:
            decide_unknown(asked.only_need, self._free, outcomes)
            is_decided = True
        if not outcomes.unknown:
            return True
        table, verdicts = self._handle.table, self._verdicts
        verdicts.reset(table.columns)
        rows = [row for row in sorted(outcomes.unknown) if verdicts.code(row) == FEASIBLE]
        if len(rows) < len(outcomes.unknown):
            for row in outcomes.unknown.difference(rows):  # there is no node
                outcomes.reject(row)
        if needs is not None and rows and not is_decided:
            judgement = reject_short(needs, self._free, verdicts, 1, rows)
            note_judged(outcomes, rows, judgement, verdicts)
            rows = judgement.rows
        # 2. The others are searched, also those that the pod's filters would reject: for the next pods.
        if len(rows) > MAX_SEARCHES:
            return False
        for row in rows:
            node = table.at(row)
            results = self._search.allocate(allocator, cycle, cycle.plan_special, node)
            if not isinstance(results, Status):
                outcomes.accept(row, score_of(cycle.claims, results))
            elif results is CANNOT_ALLOCATE:
                outcomes.reject(row)
            else:
                return False
        return not outcomes.unknown
