"""Writes what pods need of ResourceClaims before they are bound, while this replica leads.

Unlike a binding, a request is not repeated here: it is made for one version of its claim, and the plugin decides again
when that version is outdated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.objects import NodeAllocatableResourceClaimStatus, Pod, PodExtendedResourceClaimStatus
from kscheduler.client.protocol import Client, PodStatusPatch
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.reservations import Reservations
from kscheduler.client.times import rfc3339, unix_seconds
from kscheduler.client.write_permission import WritePermission
from kscheduler.client.written_claims import WrittenClaims
from kscheduler.clock import Clock
from kscheduler.errors import APIError
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.observability.measurements import Measurements

log = logging.getLogger(__name__)

STATUS = "status"


class ClaimWriter(ClaimWrites):
    """The `ClaimWrites` of a running scheduler. `start` runs a coroutine in the background."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        recorder: EventRecorder,
        measurements: Measurements,
        permission: WritePermission,
        written: WrittenClaims,
        start: Callable[[Coroutine[Any, Any, None]], None],
        labels_creation: bool,
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._measure = measurements
        self._permission = permission
        self._written = written
        self._start = start
        self._labels_creation = labels_creation
        self._reservations = Reservations(self._write_reservations, start)

    # --- requests ---

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        return await self._client.get_resource_claim(claim.metadata.namespace, claim.metadata.name)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        self._permission.check("a claim for the extended resources of %s is not created", claim.metadata.generate_name)
        return await self._client.create_resource_claim(claim)

    async def patch(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        return await self._patch(claim, patch, "")

    async def patch_status(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        return await self._patch(claim, {STATUS: patch}, STATUS)

    async def reserve(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> ResourceClaim:
        return await self._reservations.add(claim, consumer)

    def _write_reservations(
        self, claim: ResourceClaim, consumers: list[ResourceClaimConsumerReference]
    ) -> Coroutine[Any, Any, ResourceClaim]:
        return self._patch(claim, {STATUS: {"reservedFor": consumers}}, STATUS)

    async def _patch(self, claim: ResourceClaim, patch: dict[str, object], subresource: str) -> ResourceClaim:
        metadata = claim.metadata
        self._permission.check("resource claim %s/%s is not written", metadata.namespace, metadata.name)
        written = await self._client.patch_resource_claim(
            metadata.namespace, metadata.name, metadata.resource_version, patch, subresource=subresource
        )
        self._written.expect(written)
        return written

    async def release(self, claim: ResourceClaim, consumer_uid: str) -> ResourceClaim:
        metadata = claim.metadata
        self._permission.check("resource claim %s/%s is not released", metadata.namespace, metadata.name)
        return await self._client.release_resource_claim(metadata.namespace, metadata.name, metadata.uid, consumer_uid)

    async def delete(self, claim: ResourceClaim) -> None:
        metadata = claim.metadata
        self._permission.check("resource claim %s/%s is not deleted", metadata.namespace, metadata.name)
        await self._client.delete_resource_claim(metadata.namespace, metadata.name)

    async def set_pod_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        metadata = pod.metadata
        self._permission.check("the claim of pod %s/%s is not written", metadata.namespace, metadata.name)
        await self._client.patch_pod_status(pod, PodStatusPatch(extended_resource_claim_status=status))

    async def set_pod_node_resources(self, pod: Pod, statuses: list[NodeAllocatableResourceClaimStatus]) -> None:
        metadata = pod.metadata
        self._permission.check("what devices of pod %s/%s take is not written", metadata.namespace, metadata.name)
        await self._client.patch_pod_status(pod, PodStatusPatch(node_allocatable_resource_claim_statuses=statuses))

    # --- work beside the scheduling cycles ---

    def begin(self, claim: ResourceClaim, work: Coroutine[Any, Any, None]) -> None:
        self._start(_logged(claim.key, work))

    # --- reporting ---

    def record_event(self, pod: Pod, reason: str, note: str) -> None:
        controller = pod.spec.scheduler_name
        self._recorder.record(pod, type="Normal", reason=reason, action="Scheduling", note=note, controller=controller)

    def created(self, result: str) -> None:
        self._measure.claim_created(result, with_owner=self._labels_creation)

    def waited(self, profile: str, driver: str, result: str, seconds: float) -> None:
        self._measure.waited_for_device(profile, driver, result, seconds)

    def conditions_ended(self, profile: str, driver: str, result: str) -> None:
        self._measure.device_conditions_ended(profile, driver, result)

    # --- time ---

    def now(self) -> str:
        return rfc3339(self._clock.wall())

    def seconds_since(self, time: str) -> float:
        return self._clock.wall() - unix_seconds(time)


async def _logged(claim: str, work: Coroutine[Any, Any, None]) -> None:
    """Run work that has no caller to handle its error, which is logged."""
    try:
        await work
    except APIError as error:
        log.error("resource claim not written", extra={"claim": claim, "err": str(error)})
