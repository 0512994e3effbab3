"""Scores a node by the alternatives that its devices satisfy: the earlier in a prioritised list, the better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.errors import InternalError

MAX_ALTERNATIVES = 8  # of a request, as the API allows


def score_of(claims: Iterable[ResourceClaim], results: Sequence[AllocationResult]) -> int:
    """Return the sum, over all prioritised requests, of 8 minus the position of the alternative that was allocated.

    `results`: allocations on the node, one for each claim without one, in order. Raises InternalError if there are
    fewer.
    """
    score, used = 0, 0
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is None:
            if used >= len(results):
                raise InternalError(
                    f"number of allocations {len(results)} is smaller than number of claims needing allocation"
                )
            allocation = results[used]
            used += 1
        chosen = {result.request for result in allocation.devices.results or () if result.request.count("/") == 1}
        for request in claim.spec.devices.requests or ():
            if request.exactly is not None:
                continue
            for position, alternative in enumerate(request.first_available or ()):
                if f"{request.name}/{alternative.name}" in chosen:
                    score += MAX_ALTERNATIVES - position
    return score
