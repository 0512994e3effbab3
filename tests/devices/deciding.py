"""What an allocator decides for a node, with the plan of the claims and without, so that the two can be compared."""

from __future__ import annotations

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.api.objects import Node
from kscheduler.devices.allocator import AllocationError, Allocator, PoolError
from kscheduler.devices.integer_plan import ClaimsPlan

MOST_STEPS = 1000
Outcome = list[AllocationResult] | str | None


def plan_of(allocator: Allocator, claims: list[ResourceClaim]) -> ClaimsPlan | None:
    """Return what the allocator plans for the claims, None without a plan or if something is wrong with them."""
    try:
        return allocator.plan_for(claims, [allocator.variants_of(claim) for claim in claims])
    except AllocationError:
        return None


def decide(allocator: Allocator, node: Node, claims: list[ResourceClaim], plan: ClaimsPlan | None) -> Outcome:
    """Return allocations, None, or the text of an error.

    Raises SearchStopped after MOST_STEPS steps of the general search. Such a search cannot be compared: with its plan
    the same claims may be decided in fewer steps, and the kernel is not stopped there.
    """
    steps = iter(range(MOST_STEPS))
    try:
        return allocator.allocate(node, claims, should_stop=lambda: next(steps, None) is None, plan=plan)
    except (AllocationError, PoolError) as error:
        return str(error)
