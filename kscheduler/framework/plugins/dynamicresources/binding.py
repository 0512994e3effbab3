"""Writes the claims of a pod before it is bound: allocation and reservation; and takes back what was written.

A claim is written in the version that the cycle has seen. If it has changed since, it is read again and written again,
a few times, as in kube-scheduler. So it is if the answer to an allocation is lost: if the devices were given up then,
another pod could get them as well.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from msgspec.structs import replace

from kscheduler.api.devices import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kscheduler.api.objects import NodeAllocatableResourceClaimStatus, Pod, PodExtendedResourceClaimStatus
from kscheduler.errors import APIError, Conflict, InternalError, KSchedulerError, NotFound
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.dynamicresources import conditions, extended_resources
from kscheduler.framework.plugins.dynamicresources.claims import is_reserved_for, reference
from kscheduler.framework.plugins.dynamicresources.conditions import ConditionsFailed, ConditionsTimedOut
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.snapshot.devices import is_special, unknown_claim

log = logging.getLogger(__name__)

_DEVICE = attrgetter("request", "driver", "pool", "device", "share_id")  # what an allocation says about a device

# client-go's retry.DefaultRetry.
TRIES = 5
PAUSE_S = 0.01
# After a lost answer: the first pause, which doubles each time, the longest, and all.
DOUBT_FIRST_S, DOUBT_LONGEST_S, DOUBT_TIMEOUT_S = 0.1, 1.5, 60.0
POLL_S = 5.0  # between looks at binding conditions
# For the watch to bring a claim that was created: the first pause, which doubles each time, the longest, and all.
CACHE_FIRST_S, CACHE_POLL_S, CACHE_TIMEOUT_S = 0.01, 1.0, 120.0
RELEASE_TIMEOUT_S = 30.0  # for the end of what a failed binding of the same pod has begun to take back


class NotWritten(KSchedulerError):
    """Raised if a claim could not be written, with kube-scheduler's words."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Settings of DynamicResources, in seconds."""

    filter_s: float = 10.0  # for the devices of one node; 0: no limit
    binding_s: float = 600.0  # for binding conditions


class ClaimBinding:
    """Binds the claims of one profile's pods, and takes that back."""

    def __init__(self, handle: Handle, profile: str, timeouts: Timeouts) -> None:
        release = handle.release
        self._handle = handle
        self._devices = handle.devices
        self._writes = handle.claims
        self._profile = profile
        self._timeout_s = timeouts.binding_s
        self._or_group = release.has_group_claims  # may a claim be reserved for the pod's PodGroup instead?
        self._keeps_in_flight = release.in_flight_until_bound
        self.awaits_conditions = release.has("DRADeviceBindingConditions") and release.has(
            "DRAResourceClaimDeviceStatus"
        )
        self._taking_back: Counter[str] = Counter()  # pod uid -> writes under way that take its reservations back

    # --- PreBind ----------------------------------------------------------------------------------------------------

    async def bind(self, cycle: PodClaims, pod: Pod, node_name: str) -> None:
        """Allocate and reserve all claims, and wait for the conditions of their devices.

        Raises NotWritten, ConditionsFailed or ConditionsTimedOut.
        """
        if self._taking_back:
            await self._after_earlier_binding(cycle, pod)
        written: list[str] = []
        for position in range(len(cycle.claims)):
            if not is_reserved_for(cycle.claims[position], pod, or_group=self._or_group):
                uid = cycle.claims[position].metadata.uid
                await self._bind_claim(cycle, position, pod, node_name)
                if cycle.allocations[position] is not None:
                    written.append(uid)
        found = cycle.by_node.get(node_name)
        if found is not None and found.statuses:
            await self._write_resources(cycle, pod, found.statuses)
        if self.awaits_conditions and conditions.has_conditions(cycle.claims):
            await self._await_conditions(cycle, pod, node_name)
        if self._keeps_in_flight:
            for uid in written:
                self._devices.end_allocation(uid, for_all=True)

    async def _after_earlier_binding(self, cycle: PodClaims, pod: Pod) -> None:
        """Wait for the reservations of an earlier binding of this pod to be taken back, so that they count for none."""
        uid = pod.metadata.uid
        if uid not in self._taking_back:
            return
        await self._handle.evictions.until(lambda: uid not in self._taking_back, RELEASE_TIMEOUT_S)
        for position, claim in enumerate(cycle.claims):
            latest = self._devices.claim(claim.metadata.namespace, claim.metadata.name)
            if latest is not None:
                cycle.claims[position] = latest

    async def _bind_claim(self, cycle: PodClaims, position: int, pod: Pod, node_name: str) -> None:
        claim, allocation = cycle.claims[position], cycle.allocations[position]
        of_resources = cycle.is_special(position)
        if of_resources and allocation is None and claim.spec.devices.requests is None:
            return  # device plugins provide the pod's extended resources on this node
        uid, is_written = claim.metadata.uid, False
        try:
            if is_special(claim):
                claim = cycle.claims[position] = await self._create(cycle, pod, node_name)
                is_written = True
            elif allocation is None or cycle.in_gang:
                claim = self._newest(claim, allocation)
            consumers = cycle.consumers
            consumer = consumers[position] if position < len(consumers) else reference(pod)
            claim = cycle.claims[position] = await self._write(claim, allocation, pod, consumer, in_gang=cycle.in_gang)
            is_written = True
            if of_resources:
                await self._name_claim(cycle, claim, pod, node_name)
        except NotWritten:
            await self._settle(claim, uid, allocation, is_written=is_written, of_resources=of_resources)
            raise
        await self._settle(claim, uid, allocation, is_written=True, of_resources=of_resources)

    def _newest(self, claim: ResourceClaim, chosen: AllocationResult | None) -> ResourceClaim:
        """Return an allocated claim as it is now if it has the same allocation: others may have reserved it meanwhile.

        `chosen`: the allocation that another member of the pod's gang may have written; None: the claim had one. The
        version that the cycle has seen would only meet a conflict.
        """
        newest = self._devices.claim(claim.metadata.namespace, claim.metadata.name)
        if newest is None or newest is claim or newest.metadata.uid != claim.metadata.uid:
            return claim
        if chosen is None:
            return newest if newest.status.allocation == claim.status.allocation else claim
        written = newest.status.allocation
        return newest if written is not None and _are_equal(written, chosen) else claim

    async def _settle(
        self,
        claim: ResourceClaim,
        uid: str,
        allocation: AllocationResult | None,
        *,
        is_written: bool,
        of_resources: bool,
    ) -> None:
        """Assume what was written of a claim; end its allocation in flight, if the release does so claim by claim."""
        is_assumed = False
        if is_written:
            if of_resources:
                await self._until_known(claim)
            try:
                self._devices.assume_claim(claim)
                is_assumed = not of_resources
            except InternalError as error:  # the watch has brought a newer version, or the claim is gone
                log.debug("claim is not assumed", extra={"claim": claim.key, "err": str(error)})
        if allocation is not None and not self._keeps_in_flight:
            self._devices.end_allocation(uid, for_all=is_assumed)

    async def _until_known(self, claim: ResourceClaim) -> None:
        """Wait for the watch to bring a claim that was created."""
        waited_s, pause_s = 0.0, CACHE_FIRST_S
        while waited_s < CACHE_TIMEOUT_S:
            if self._devices.claim(claim.metadata.namespace, claim.metadata.name) is not None:
                return
            await self._handle.sleep(pause_s)
            waited_s += pause_s
            pause_s = min(2 * pause_s, CACHE_POLL_S)

    async def _create(self, cycle: PodClaims, pod: Pod, node_name: str) -> ResourceClaim:
        """Create the claim for the pod's extended resources, with its requests on this node."""
        found = cycle.by_node.get(node_name)
        if found is None or found.special is None:
            raise NotWritten(f"extended resource claim not found for node {node_name}")
        try:
            created = await self._writes.create(extended_resources.to_create(found.special))
        except APIError as error:
            self._writes.created("failure")
            doing = f"create claim for extended resources {pod.metadata.namespace}/"
            raise NotWritten(f"{doing}: {error.explanation}") from error
        self._writes.created("success")
        return created

    async def _write(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        pod: Pod,
        consumer: ResourceClaimConsumerReference,
        *,
        in_gang: bool,
    ) -> ResourceClaim:
        """Write allocation and reservation, to the claim as it is now if it has changed since the cycle saw it.

        `consumer`: for whom it is reserved, the pod or its group.
        `in_gang`: another member of the pod's gang may have written the same allocation.
        """
        is_first, conflicts, doubted_s, doubt_s = True, 0, 0.0, 0.0
        while True:
            try:
                if not is_first:
                    await self._handle.sleep(doubt_s or PAUSE_S)
                    claim = await self._read_again(claim, in_doubt=doubt_s > 0)
                return await self._try_to_write(claim, allocation, pod, consumer, may_be_written=in_gang or doubt_s > 0)
            except _Conflicted as conflict:
                conflicts += 1
                if conflicts == TRIES:
                    raise NotWritten(str(conflict)) from conflict
            except _InDoubt as doubt:
                doubt_s = min(2 * doubt_s, DOUBT_LONGEST_S) or DOUBT_FIRST_S
                doubted_s += doubt_s
                if doubted_s > DOUBT_TIMEOUT_S:
                    raise NotWritten(str(doubt)) from doubt
            is_first = False

    async def _read_again(self, claim: ResourceClaim, *, in_doubt: bool) -> ResourceClaim:
        """Return the claim as the apiserver has it. `in_doubt`: it may have an allocation that we wrote."""
        try:
            found = await self._writes.get(claim)
        except APIError as error:
            if in_doubt and error.is_transient:
                raise _InDoubt(f"get claim {claim.key} after a lost answer: {error.explanation}") from error
            raise _failed("get updated claim {} after conflict", claim, error) from error
        if found.metadata.uid != claim.metadata.uid:
            raise NotWritten(f"claim {claim.key} got deleted in the meantime")
        return found

    async def _try_to_write(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        pod: Pod,
        consumer: ResourceClaimConsumerReference,
        *,
        may_be_written: bool,
    ) -> ResourceClaim:
        if claim.metadata.deletion_timestamp is not None:
            raise NotWritten(f"claim {claim.key} got deleted in the meantime")
        # 1. The finalizer, which is no part of the status.
        if allocation is not None and claim.status.allocation is not None:
            if not may_be_written or not _are_equal(claim.status.allocation, allocation):
                raise NotWritten(f"claim {claim.key} got allocated elsewhere in the meantime")
            allocation = None  # it is written already
        if allocation is not None:
            finalizers = claim.metadata.finalizers or []
            if FINALIZER not in finalizers:
                patch: dict[str, object] = {"metadata": {"finalizers": [*finalizers, FINALIZER]}}
                try:
                    claim = await self._writes.patch(claim, patch)
                except APIError as error:
                    raise _failed("add finalizer to claim {}", claim, error) from error
        # 2. The status. The claim may be reserved already, by a write whose answer was lost or for the pod's group.
        if is_reserved_for(claim, pod, or_group=self._or_group):
            return claim
        status: dict[str, object] = {"reservedFor": [*(claim.status.reserved_for or ()), consumer]}
        written = allocation or claim.status.allocation
        if self.awaits_conditions:
            if written is None:
                raise NotWritten(f"claim {claim.key} got deallocated elsewhere in the meantime")
            if written.allocation_timestamp is None:
                written = replace(written, allocation_timestamp=self._writes.now())
                status["allocation"] = {"allocationTimestamp": written.allocation_timestamp}
        if allocation is not None:
            status["allocation"] = written
        doing = "add allocation and reservation to claim" if allocation is not None else "add reservation to claim"
        try:
            if len(status) == 1:
                return await self._writes.reserve(claim, consumer)
            return await self._writes.patch_status(claim, status)
        except APIError as error:
            if allocation is not None and _is_lost(error):
                raise _InDoubt(f"{doing} {claim.key}: {error.explanation}") from error
            raise _failed(f"{doing} {{}}", claim, error) from error

    async def _name_claim(self, cycle: PodClaims, claim: ResourceClaim, pod: Pod, node_name: str) -> None:
        """Write to the pod's status which claim was made for its extended resources."""
        found = cycle.by_node.get(node_name)
        if found is None or not found.mappings:
            raise NotWritten(f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus")
        status = PodExtendedResourceClaimStatus(found.mappings, claim.metadata.name)
        try:
            await self._writes.set_pod_claim(pod, status)
        except APIError as error:
            raise NotWritten(f"update pod {pod.key} ExtendedResourceClaimStatus: {error.explanation}") from error

    async def _write_resources(
        self, cycle: PodClaims, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        """Write to the pod's status what its devices take of the node."""
        cycle.has_written_resources = True  # also if the answer is lost
        try:
            await self._writes.set_pod_node_resources(pod, [*statuses])
        except APIError as error:
            raise NotWritten(
                f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {error.explanation}"
            ) from error

    # --- binding conditions -----------------------------------------------------------------------------------------

    async def _await_conditions(self, cycle: PodClaims, pod: Pod, node_name: str) -> None:
        note = f"waiting for binding conditions for device on node {node_name}"
        self._writes.record_event(pod, "BindingConditionsPending", note)
        started = self._handle.stopwatch()
        try:
            await self._poll_conditions(cycle)
        except ConditionsFailed:
            self._report(cycle, "failure", started)
            raise
        except ConditionsTimedOut:
            self._report(cycle, "timeout", started)
            raise
        except NotWritten:
            self._report(cycle, "error", started)
            raise
        self._report(cycle, "success", started)

    async def _poll_conditions(self, cycle: PodClaims) -> None:
        waited_s = 0.0
        while not self._is_ready(cycle):
            pause_s = min(POLL_S, self._timeout_s - waited_s)
            await self._handle.sleep(pause_s)
            waited_s += pause_s
            if waited_s >= self._timeout_s:
                raise ConditionsTimedOut(f"{conditions.TIMED_OUT}: context deadline exceeded")

    def _is_ready(self, cycle: PodClaims) -> bool:
        for position, claim in enumerate(cycle.claims):
            latest = self._devices.claim(claim.metadata.namespace, claim.metadata.name)
            if latest is None:
                raise NotWritten(unknown_claim(claim.key))
            cycle.claims[position] = latest
            if not conditions.is_ready(latest):
                if self.is_overdue(latest):
                    raise ConditionsTimedOut(f"{conditions.TIMED_OUT}: claim={latest.metadata.name}")
                return False
        return True

    def is_overdue(self, claim: ResourceClaim) -> bool:
        """Return True if the claim was allocated so long ago that its binding conditions count as failed."""
        return conditions.is_overdue(claim, self._timeout_s, self._writes.seconds_since)

    def _report(self, cycle: PodClaims, result: str, started: float) -> None:
        seconds = self._handle.stopwatch() - started
        for claim in cycle.claims:
            for allocated in conditions.results_of(claim):
                self._writes.waited(self._profile, allocated.driver, result, seconds)
            for allocated in conditions.results_of(claim):
                if allocated.binding_conditions:
                    self._writes.conditions_ended(self._profile, allocated.driver, result)
        if result != "success":
            extra = {"result": result, "devices": conditions.describe(cycle.claims)}
            log.info("binding conditions are not met", extra=extra)

    # --- Unreserve --------------------------------------------------------------------------------------------------

    def take_back(self, cycle: PodClaims, pod: Pod) -> None:
        """Give up the allocations in flight, and begin to take back what was written. Idempotent."""
        for claim in cycle.of_user:
            if self._devices.end_allocation(claim.metadata.uid, for_all=False):
                self._devices.restore_claim(claim.metadata.namespace, claim.metadata.name)
            if claim.status.allocation is not None and is_reserved_for(claim, pod):
                self._begin(claim, pod, lambda claim, pod: self._release(claim, pod.metadata.uid))
        if cycle.has_written_resources:
            cycle.has_written_resources = False
            self._begin(cycle.claims[0], pod, lambda _, pod: self._clear_resources(pod))
        special = cycle.special
        if special is None:
            return
        if self._devices.end_allocation(cycle.special_uid, for_all=False):
            self._devices.restore_claim(special.metadata.namespace, special.metadata.name)
        if not is_special(special):
            self._begin(special, pod, lambda claim, pod: self.delete(claim))

    def _begin(self, claim: ResourceClaim, pod: Pod, write: Callable[[ResourceClaim, Pod], Awaitable[None]]) -> None:
        uid = pod.metadata.uid

        async def work() -> None:
            try:
                await write(claim, pod)
            finally:
                ended()

        def ended() -> None:
            self._taking_back[uid] -= 1
            if self._taking_back[uid] <= 0:
                del self._taking_back[uid]

        self._taking_back[uid] += 1
        try:
            self._writes.begin(claim, work())
        except BaseException:
            ended()
            raise

    async def _clear_resources(self, pod: Pod) -> None:
        try:
            await self._writes.set_pod_node_resources(pod, [])
        except (NotFound, Conflict):
            log.debug("pod is gone already", extra={"pod": pod.key})

    def begin_release(self, claim: ResourceClaim, consumer_uid: str) -> None:
        """Begin to take a PodGroup out of those that the claim is reserved for."""
        self._writes.begin(claim, self._release(claim, consumer_uid))

    async def _release(self, claim: ResourceClaim, consumer_uid: str) -> None:
        released = await self._writes.release(claim, consumer_uid)
        try:
            self._devices.assume_claim(released)
        except InternalError as error:
            log.debug("claim is not assumed", extra={"claim": claim.key, "err": str(error)})

    # --- PostFilter -------------------------------------------------------------------------------------------------

    def deallocate(self, claim: ResourceClaim) -> None:
        """Begin to deallocate a claim that is reserved for nobody else, so that other devices may be tried."""
        patch: dict[str, object] = {"allocation": None, "reservedFor": None, "devices": None}

        async def work() -> None:
            await self._writes.patch_status(claim, patch)

        self._writes.begin(claim, work())

    def begin_deletion(self, claim: ResourceClaim) -> None:
        """Begin to delete a claim for extended resources that is left from an earlier attempt."""
        self._writes.begin(claim, self.delete(claim))

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim, first taking its finalizer away. Raises APIError."""
        for attempt in range(TRIES):
            if attempt:
                await self._handle.sleep(PAUSE_S)
                claim = await self._writes.get(claim)
            kept = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
            try:
                await self._writes.patch(claim, {"metadata": {"finalizers": kept or None}})
                break
            except Conflict:
                if attempt == TRIES - 1:
                    raise
        try:
            await self._writes.delete(claim)
        except NotFound:
            log.debug("claim is gone already", extra={"claim": claim.key})


class _Conflicted(Exception):
    """A write met a newer version of its claim; the message is what it was doing."""


class _InDoubt(Exception):
    """An allocation may have been written or not; the message is what the write was doing."""


def _is_lost(error: APIError) -> bool:
    """Return True if a request may have been carried out although it failed."""
    return error.is_transient and error.status in (0, 504)


def _failed(what: str, claim: ResourceClaim, error: APIError) -> _Conflicted | NotWritten:
    """Return the exception for a request that failed, with words that say what it was for; {} stands for the claim."""
    text = f"{what.format(claim.key)}: {error.explanation}"
    return _Conflicted(text) if isinstance(error, Conflict) else NotWritten(text)


def _are_equal(one: AllocationResult, other: AllocationResult) -> bool:
    """Return whether two allocations of a claim have the same devices."""
    return list(map(_DEVICE, one.devices.results or ())) == list(map(_DEVICE, other.devices.results or ()))
