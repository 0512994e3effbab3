"""The table form of the filter: which rows (nodes) are judged by what is known of them, and which must be searched."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import FEASIBLE, Verdicts, reject_marked
from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.allocator import Allocator
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.dynamicresources import conditions
from kscheduler.framework.plugins.dynamicresources.asked import AskedClaims
from kscheduler.framework.plugins.dynamicresources.binding import ClaimBinding
from kscheduler.framework.plugins.dynamicresources.claim_search import ClaimSearch
from kscheduler.framework.plugins.dynamicresources.claims import skips_node_operations
from kscheduler.framework.plugins.dynamicresources.counting import decide_all, needs_of, note_judged, reject_short
from kscheduler.framework.plugins.dynamicresources.node_resources import NodeResources
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.free_devices import FreeDevices
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.resource_owners import ResourceOwners

NOT_AVAILABLE = unresolvable("resourceclaim not available on the node")


class ClaimRows:
    """Judges rows (nodes) for the claims of a pod without a search, as far as that is possible."""

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
        self._devices = handle.devices
        self._search = search
        self._asked = asked
        self._free = free
        self._owners = owners
        self._binding = binding
        self._node_resources = node_resources
        self._heeds_operations = handle.release.devices.has_optional_node_operations

    def to_search(self, cycle: PodClaims, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> list[int]:
        """Reject the rows (nodes) with too few free devices. Returns the feasible ones that `filter` has to judge."""
        if self._node_resources is not None and self.may_take(cycle, self._node_resources):
            return verdicts.feasible_rows()  # what devices take depends on which ones a pod gets
        if cycle.allocator is None:
            return self._keep_available(cycle, table, verdicts, code)
        unallocated = [claim for _, claim in cycle.unallocated()]
        if len(unallocated) < len(cycle.claims):
            needs = None if cycle.has_special else needs_of(unallocated, cycle.allocator)
            if needs is not None:
                reject_short(needs, self._free, verdicts, code)
            return verdicts.feasible_rows()
        if not cycle.has_special:
            return self._count(cycle, cycle.allocator, unallocated, verdicts, code)
        if unallocated[-1].spec.devices.requests is not None:
            return verdicts.feasible_rows()
        if not self._owners.rows(cycle.extended):
            found = self._search.special_beside(cycle, pod.pod, {})
            if not isinstance(found, Status) and found[0] is not None:
                return self._count(cycle, cycle.allocator, [*cycle.of_user, found[0]], verdicts, code)
        # The special claim has other requests on nodes that have some of the extended resources themselves.
        to_search: list[int] = []
        rows_of: dict[int, tuple[ResourceClaim, list[int]]] = {}  # id of a special claim -> the claim, its nodes
        rows = verdicts.feasible_rows()
        for row in rows:
            found = self._search.special_on(cycle, pod.pod, table.at(row))
            if isinstance(found, Status):
                to_search.append(row)
            elif found[0] is not None:
                rows_of.setdefault(id(found[0]), (found[0], []))[1].append(row)
        for special, some in rows_of.values():
            claims = [*cycle.of_user, special]
            to_search += self._count(
                cycle, cycle.allocator, claims, verdicts, code, None if len(some) == len(rows) else some
            )
        cycle.is_counted = True
        return sorted(to_search)

    def may_take(self, cycle: PodClaims, node_resources: NodeResources) -> bool:
        """Return whether the pod's devices may take something of their node, on any node."""
        if node_resources.concerns_allocated(cycle):
            return True
        if cycle.allocator is None or not self._devices.slices.takers:
            return False
        if cycle.has_special:  # its requests depend on the node
            return True
        asked = self._asked.of([claim for _, claim in cycle.unallocated()], cycle.allocator)
        return asked is None or node_resources.may_take(asked)

    def _keep_available(self, cycle: PodClaims, table: NodeTable, verdicts: Verdicts, code: int) -> list[int]:
        """Reject the rows (nodes) where a pod's allocated claims cannot be used, if these name their nodes.

        Returns the feasible rows that `filter` has to judge: all or none.
        """
        if cycle.has_special or (self._binding.awaits_conditions and conditions.has_conditions(cycle.claims)):
            return verdicts.feasible_rows()
        if self._heeds_operations and any(skips_node_operations(each.status.allocation) for each in cycle.claims):
            return verdicts.feasible_rows()
        usable: list[set[int]] = []  # for each claim
        for terms in cycle.nodes:
            names = set[str]()
            for term in terms or ():
                if term.node_names is None:
                    return verdicts.feasible_rows()
                names.update(term.node_names)
            if terms is None:
                usable.append(set(verdicts.feasible_rows()))
                continue
            nodes = [node for name in names if (node := table.get(name)) is not None]
            usable.append(
                {
                    node.row
                    for node in nodes
                    if verdicts.code(node.row) == FEASIBLE
                    and any(term.matches(node.labels, node.name) for term in terms)
                }
            )
        feasible = verdicts.feasible_count()
        cycle.unavailable.update(position for position, rows in enumerate(usable) if len(rows) < feasible)
        cycle.rejections.append(NOT_AVAILABLE)
        verdicts.keep_only(sorted(set.intersection(*usable)), code, cycle.rejections.index(NOT_AVAILABLE))
        return []

    def _count(
        self,
        cycle: PodClaims,
        allocator: Allocator,
        claims: Sequence[ResourceClaim],
        verdicts: Verdicts,
        code: int,
        rows: list[int] | None = None,
    ) -> list[int]:
        """Judge rows (nodes), None for all, by their numbers of free devices. Returns those that `filter` has to judge.

        `claims`: all claims of the pod, which have no allocations.
        """
        asked = self._asked.of(claims, allocator)
        if asked is None:
            return verdicts.feasible_rows() if rows is None else rows
        cycle.plan, cycle.plan_special = asked.plan, claims[-1] if cycle.has_special else None
        needs = asked.needs
        outcomes = None if rows is not None else self._free.outcomes(asked.key)
        if outcomes is not None:
            # 1. Most rows are as they were when they were judged for a pod with such claims.
            is_decided = outcomes.mostly_unknown and decide_all(needs, self._free, outcomes)
            cycle.outcomes, cycle.is_counted = outcomes, True
            reject_marked(verdicts, outcomes.rejected, code, 1)
            rows = [row for row in sorted(outcomes.unknown) if verdicts.code(row) == FEASIBLE]
            if is_decided or not rows:
                return rows
        # 2. Numbers say what comes of most of the others.
        if needs is None:
            return verdicts.feasible_rows() if rows is None else rows
        judgement = reject_short(needs, self._free, verdicts, code, rows)
        cycle.is_counted = True
        cycle.alternatives.update(judgement.alternatives)
        if outcomes is not None and rows is not None:
            note_judged(outcomes, rows, judgement, verdicts)
        return judgement.rows
