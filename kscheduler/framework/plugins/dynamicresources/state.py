"""What DynamicResources keeps of one pod, from PreFilter to PreBind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.labels import NodeTerm
from kscheduler.api.objects import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.integer_plan import ClaimsPlan
from kscheduler.framework.status import Status
from kscheduler.snapshot.row_outcomes import RowOutcomes


@dataclass(slots=True)
class NodeAllocation:
    """What the pod gets on one node: allocations of its unallocated claims in their order, the special one last."""

    results: list[AllocationResult]
    special: ResourceClaim | None  # the claim for extended resources, as it is for this node
    mappings: list[ContainerExtendedResourceRequest]
    # What devices of claims take of the node's own resources, if that counts.
    statuses: Sequence[NodeAllocatableResourceClaimStatus] = ()


@dataclass(slots=True)
class PodClaims:
    """One pod's claims in one cycle, each in the version that the plugin saw or wrote last.

    If the pod requests extended resources that classes back, a *special* claim for them is the last one.
    """

    claims: list[ResourceClaim]
    has_special: bool = False
    special_uid: str = ""  # uid of the special claim at PreFilter, before the apiserver gave it another one
    # By position: on which nodes an allocated claim can be used, None for all; and what Reserve chose for one.
    nodes: list[tuple[NodeTerm, ...] | None] = field(default_factory=list)
    allocations: list[AllocationResult | None] = field(default_factory=list)
    # By position: an allocation in flight that another member of the pod's gang has begun, and this one uses, too.
    shared: dict[int, AllocationResult] = field(default_factory=dict)
    # By position: for whom claims are to be reserved; those behind its end, and all if it is empty, for the pod itself.
    consumers: list[ResourceClaimConsumerReference] = field(default_factory=list)
    in_gang: bool = False  # is the pod placed together with others, which may use the same claims?
    allocator: Allocator | None = None  # None: all claims are allocated
    extended: dict[str, int] = field(default_factory=dict)  # extended resources of the pod -> amount
    # Extended resources that a node does not have -> the special claim with its requests there, and their users.
    variants: dict[tuple[str, ...], tuple[ResourceClaim, list[ContainerExtendedResourceRequest]]] = field(
        default_factory=dict
    )
    unavailable: set[int] = field(default_factory=set)  # positions of allocated claims that some node rejected
    by_node: dict[str, NodeAllocation] = field(default_factory=dict)  # node name -> result of Filter
    is_counted: bool = False  # did nodes pass Filter by their numbers of free devices, without a result?
    alternatives: dict[int, int] = field(default_factory=dict)  # of such nodes: row -> the alternative chosen there
    plan: ClaimsPlan | None = None  # how to allocate without a general search, if all claims are without an allocation,
    plan_special: ResourceClaim | None = None  # and the special one is this
    outcomes: RowOutcomes | None = None  # what is known of all rows, if it is kept for claims that ask for the same
    # Positions of allocated claims that stand for resources of their node; None until they are looked for.
    stands_for_resources: frozenset[int] | None = None
    has_written_resources: bool = False  # may the pod's status say by now what its devices take of the node?
    rejections: list[Status] = field(default_factory=list)  # why Filter rejected nodes, by reason number (detail)

    @property
    def special(self) -> ResourceClaim | None:
        return self.claims[-1] if self.has_special else None

    @property
    def of_user(self) -> list[ResourceClaim]:
        return self.claims[:-1] if self.has_special else self.claims

    def is_special(self, position: int) -> bool:
        return self.has_special and position == len(self.claims) - 1

    def unallocated(self) -> list[tuple[int, ResourceClaim]]:
        """Return position and claim of each claim that has to be allocated."""
        found: list[tuple[int, ResourceClaim]] = []  # not a comprehension: that would be a call more for each pod
        for position, claim in enumerate(self.claims):
            if claim.status.allocation is None and position not in self.shared:
                found.append((position, claim))
        return found

    def with_shared(self, results: list[AllocationResult]) -> list[AllocationResult]:
        """Return the allocations of all claims that have none written: these, and those that are shared."""
        if not self.shared:
            return results
        given = iter(results)
        return [
            self.shared[position] if position in self.shared else next(given)
            for position, claim in enumerate(self.claims)
            if claim.status.allocation is None
        ]
