"""The interface through which DynamicResources writes: ResourceClaims, pods' statuses, Events, and its metrics."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.objects import NodeAllocatableResourceClaimStatus, Pod, PodExtendedResourceClaimStatus
from kscheduler.errors import InternalError


class ClaimWrites:
    """Services of a plugin's Handle for ResourceClaims. A request is made once, and raises the APIError family.

    This base class serves profiles that only decide, without a running scheduler: requests raise InternalError.
    """

    # --- requests ---

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim of this name as the apiserver has it."""
        raise _refused(claim)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        raise _refused(claim)

    async def patch(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        """Apply a merge patch to this version of the claim, and return the claim. Conflict if it has changed."""
        raise _refused(claim)

    async def patch_status(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        """Apply a merge patch to the status of this version of the claim, and return the claim."""
        raise _refused(claim)

    async def reserve(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> ResourceClaim:
        """Reserve this version of the claim for one more consumer, and return the claim. Conflict if it has changed.

        Calls for one version may be written together.
        """
        return await self.patch_status(claim, {"reservedFor": [*(claim.status.reserved_for or ()), consumer]})

    async def release(self, claim: ResourceClaim, consumer_uid: str) -> ResourceClaim:
        """Take a pod or PodGroup out of those that the claim is reserved for, in any version, and return the claim."""
        raise _refused(claim)

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete the claim; one that is gone already is NotFound."""
        raise _refused(claim)

    async def set_pod_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Write to the pod's status which claim was made for its extended resources."""
        raise InternalError(f"pod {pod.key} was to get a claim where no apiserver is")

    async def set_pod_node_resources(self, pod: Pod, statuses: list[NodeAllocatableResourceClaimStatus]) -> None:
        """Write to the pod's status what the devices of its claims take of its node; an empty list if nothing."""
        raise InternalError(f"pod {pod.key} was to get devices where no apiserver is")

    # --- work beside the scheduling cycles ---

    def begin(self, claim: ResourceClaim, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine, which writes about the claim, as a background task."""
        work.close()
        raise _refused(claim)

    # --- reporting ---

    def record_event(self, pod: Pod, reason: str, note: str) -> None:
        """Record a Normal Event about the pod, with the action Scheduling."""

    def created(self, result: str) -> None:
        """Count a request that created a claim for a pod's extended resources. `result`: success or failure."""

    def waited(self, profile: str, driver: str, result: str, seconds: float) -> None:
        """Record, for one allocated device, how long its pod waited for binding conditions.

        `result`: success, failure, timeout or error.
        """

    def conditions_ended(self, profile: str, driver: str, result: str) -> None:
        """Count an allocated device that has binding conditions, when its pod has ended waiting for them."""

    # --- time ---

    def now(self) -> str:
        """Return the time in whole seconds, as in fields of the API."""
        return "1970-01-01T00:00:00Z"

    def seconds_since(self, time: str) -> float:
        """Return how long ago a time as in the API was; NaN if the text is none."""
        return 0.0


def _refused(claim: ResourceClaim) -> InternalError:
    return InternalError(f"claim {claim.key} was to be written where no apiserver is")
