"""Declares the requests of the scheduler to an apiserver, as values and one Protocol.

Two classes implement it: `client.kube` (a real apiserver over HTTP) and `simulator.cluster` (one in memory). Every
method may raise errors of the `APIError` family and no others; cancellation passes through. The Protocols below it are
of clients that can do some of this by callbacks, too, in place of a task for each request.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.documents import PodDocument
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import (
    Lease,
    MetricPolicyObject,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodCondition,
    PodExtendedResourceClaimStatus,
)
from kscheduler.api.share_queues import QueueObject
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.kinds import Resource
from kscheduler.errors import APIError

if TYPE_CHECKING:
    from kscheduler.api.pod_groups import CoschedulingPodGroup, GroupCondition

T = TypeVar("T")


class EventType(enum.Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"

    __hash__ = object.__hash__  # there is one of each; Enum's is a function in Python, called for each event


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One event of a watch.

    `object` is None for a bookmark, for a change that is irrelevant to the scheduler, and for an object that could not
    be decoded, which was logged.
    """

    type: EventType
    object: T | None
    resource_version: str
    unread: str = ""  # "namespace/name" of an object that could not be decoded, if at least that could be read
    is_kept: bool = False  # the object has already been through the informer's `keep`


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Objects that cannot be decoded are logged and left out, at the latest by iterating `items`.
    """

    items: Collection[T]  # read it once: a big page is decoded while it is read
    resource_version: str
    continue_token: str  # "" on the last page
    unread: Sequence[str] = ()  # "namespace/name" of those that could not be decoded; complete once `items` is read


class Binding(msgspec.Struct, frozen=True, gc=False):
    """A pod and the node to bind it to. The pod's uid excludes a later pod of the same name."""

    namespace: str
    name: str
    uid: str
    node: str


def always() -> bool:
    """Return True; the default of callbacks that decide whether to write."""
    return True


def nothing() -> None:
    """Do nothing; the default of callbacks for late answers."""


class BindTry(msgspec.Struct, frozen=True):
    """The callbacks of one request that writes a binding."""

    may_write: Callable[[], bool] = always  # called right before the request is sent
    on_overdue: Callable[[], None] = nothing  # called at most once, when the answer is much later than usual
    is_repeat: bool = False  # an earlier request for this binding may have been carried out


ONE_TRY = BindTry()


@dataclass(frozen=True, slots=True)
class PodStatusPatch:
    """A change of a pod's status. None leaves a field as it is; "" clears nominatedNodeName.

    `node_allocatable_resource_claim_statuses`, which replace those that are there, are written by themselves.
    """

    condition: PodCondition | None = None
    nominated_node_name: str | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] | None = None


class EventSeries(msgspec.Struct, frozen=True, gc=False):
    count: int
    last_observed_s: float  # Unix seconds


class Regarding(msgspec.Struct, frozen=True, gc=False):
    """An object reference of an Event: its `regarding` or `related` object."""

    kind: str
    api_version: str
    namespace: str  # "" for a cluster-scoped object
    name: str
    uid: str
    resource_version: str = ""

    @classmethod
    def pod(cls, pod: Pod) -> Regarding:
        meta = pod.metadata
        return cls("Pod", "v1", meta.namespace, meta.name, meta.uid, meta.resource_version)


class Event(msgspec.Struct, frozen=True, gc=False):
    """An events.k8s.io/v1 Event about a pod (or, for leader election, a Lease)."""

    namespace: str
    name: str
    regarding: Regarding
    type: str  # "Normal" or "Warning"
    reason: str
    action: str
    note: str
    reporting_controller: str
    reporting_instance: str
    event_time_s: float  # Unix seconds
    series: EventSeries | None = None
    related: Regarding | None = None


class EventSlot(Protocol):
    """The permission to write one Event now, as part of the limit on concurrent requests."""

    def give_back(self) -> None:
        """Return the permission, because no Event is written after all."""
        ...


class Client(Protocol):
    """The requests to the apiserver that the scheduler uses."""

    async def list_page(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page[T]:
        """Return one page of all objects of a kind. Raises Gone when the continue token is too old."""
        ...

    def watch(
        self, resource: Resource[T], *, resource_version: str, field_selector: str = "", timeout_s: float = 300.0
    ) -> AsyncIterator[list[WatchEvent[T]]]:
        """Yield the changes after `resource_version` and bookmarks, in order, in the batches in which they arrived.

        The watch ends normally when the server closes it after about `timeout_s` seconds. Raises Gone when the version
        is too old, and Unreachable when the connection breaks or is silent for too long.
        """
        ...

    async def get_aggregated(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the body of an aggregated API (such as metrics.k8s.io) at a percent-encoded path.

        Raises NotFound if no server provides the API, and APIError if the body exceeds `limit_bytes`.
        """
        ...

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Read the pod from the apiserver. Raises NotFound."""
        ...

    async def get_pod_document(self, namespace: str, name: str) -> PodDocument:
        """Read the pod from the apiserver with all its fields, including those that the scheduler ignores.

        Raises NotFound.
        """
        ...

    async def bind(self, binding: Binding, attempt: BindTry = ONE_TRY) -> None:
        """Bind the pod, with its uid as precondition. Raises NotFound, or Conflict (bound already, or another uid).

        Raises NotLeading if `attempt.may_write` returns False. After `attempt.on_overdue` the answer is still awaited.
        """
        ...

    async def patch_pod_status(self, pod: Pod, patch: PodStatusPatch, on_overdue: Callable[[], None] = nothing) -> None:
        """Merge the patch into the status of the pod with this uid.

        `on_overdue` is called at most once, when the answer is much later than usual; the answer is still awaited.
        """
        ...

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> None:
        """Set these annotations of the pod with this uid.

        Raises NotFound, or Conflict if the pod of this name has another uid.
        """
        ...

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete the pod gracefully. Raises NotFound, or Conflict if the pod of this name has another uid."""
        ...

    async def patch_volume(self, name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
        """Apply a merge patch to this version of a PersistentVolume.

        Raises NotFound, or Conflict if it has changed since.
        """
        ...

    async def patch_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object]
    ) -> PersistentVolumeClaim:
        """Apply a merge patch to this version of a PersistentVolumeClaim.

        Raises NotFound, or Conflict if it has changed since.
        """
        ...

    async def get_resource_claim(self, namespace: str, name: str) -> ResourceClaim:
        """Read the ResourceClaim from the apiserver. Raises NotFound."""
        ...

    async def create_resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a ResourceClaim, under a name of the apiserver's choice if it has only a `generate_name`."""
        ...

    async def patch_resource_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object], *, subresource: str = ""
    ) -> ResourceClaim:
        """Apply a merge patch to this version of a ResourceClaim, or to its status: `subresource="status"`.

        Raises NotFound, or Conflict if it has changed since.
        """
        ...

    async def release_resource_claim(self, namespace: str, name: str, uid: str, consumer: str) -> ResourceClaim:
        """Take the consumer with this uid out of `status.reservedFor` of the claim with this uid, in any version.

        Raises NotFound, or Conflict if the claim of this name has another uid.
        """
        ...

    async def delete_resource_claim(self, namespace: str, name: str) -> None:
        """Delete the ResourceClaim; while it has finalizers, it only gets a deletion timestamp. Raises NotFound."""
        ...

    async def patch_condition(
        self, resource: Resource[Any], namespace: str, name: str, uid: str, condition: GroupCondition
    ) -> None:
        """Merge a condition, by its type, into the status of the PodGroup with this uid.

        Its transition time stays as it is if the condition has none. Raises NotFound, or Conflict for another uid.
        """
        ...

    async def patch_group_status(
        self, resource: Resource[Any], group: CoschedulingPodGroup, status: Mapping[str, object]
    ) -> None:
        """Merge into the status of this version of Coscheduling's PodGroup.

        Raises NotFound, or Conflict if it has changed since.
        """
        ...

    async def patch_policy_status(self, policy: MetricPolicyObject, status: Mapping[str, object]) -> None:
        """Merge into the status of the MetricPolicy with this uid. Raises NotFound, or Conflict for another uid."""
        ...

    async def patch_quota_status(self, quota: ElasticQuota, status: Mapping[str, object]) -> None:
        """Merge into the status of the ElasticQuota with this uid. Raises NotFound, or Conflict for another uid."""
        ...

    async def patch_queue_status(self, queue: QueueObject, status: Mapping[str, object]) -> None:
        """Merge into the status of the Queue with this uid. Raises NotFound, or Conflict for another uid."""
        ...

    async def event_slot(self, waited_s: float) -> EventSlot:
        """Wait until one more Event may be written, and return that permission.

        `waited_s` is how long Events have been waiting already; the longer, the more of them may be under way.
        """
        ...

    async def create_event(self, event: Event, slot: EventSlot | None = None) -> None:
        """Create the Event and use up the slot; if that is None, wait for a slot first."""
        ...

    async def patch_event_series(self, event: Event, slot: EventSlot | None = None) -> None:
        """Update `series` of an Event that was created before. Raises NotFound when that has expired."""
        ...

    async def get_lease(self, namespace: str, name: str) -> Lease: ...

    async def create_lease(self, lease: Lease) -> Lease: ...

    async def update_lease(self, lease: Lease) -> Lease:
        """Replace the Lease. Raises Conflict when `metadata.resource_version` is not the current one."""
        ...

    async def close(self) -> None:
        """Close all connections; the client cannot be used afterwards."""
        ...


OnAnswered = Callable[[APIError | None], None]  # None: the answer was a plain yes


@runtime_checkable
class PushesWatches(Protocol):
    """A client that can hand the events of a watch to a function, without a task that waits for each batch."""

    @property
    def pushes(self) -> bool:
        """True if `push_watch` may be used now."""
        ...

    async def push_watch(
        self,
        resource: Resource[T],
        receive: Callable[[Sequence[WatchEvent[T]]], None],
        *,
        resource_version: str,
        field_selector: str = "",
        timeout_s: float = 300.0,
    ) -> None:
        """Watch as `Client.watch` does, but call `receive` with each batch, from the event loop.

        Returns when the server closes the watch. Raises what `Client.watch` does, and the APIError of a `receive` that
        raised one, which ends the watch.
        """
        ...


@runtime_checkable
class SendsEvents(Protocol):
    """A client that can create Events by callbacks, without one asyncio task each."""

    def take_event_slot(self, waited_s: float) -> EventSlot | None:
        """Return a slot if one is free, else None; `waited_s` is how long Events have been waiting already."""
        ...

    def send_event(self, event: Event, slot: EventSlot | None, on_answer: OnAnswered) -> bool:
        """Begin to create an Event on a slot that was taken for it; `on_answer` is called once, from the event loop.

        After a single try: a 401 is an answer like another. Returns False, and keeps the slot as it is, if this way is
        closed now: behind a proxy, or while the token is read again. With None it takes a slot, and returns False, too,
        if one has to be waited for.
        """
        ...


@runtime_checkable
class SendsEventsTogether(Protocol):
    """A client that can create several Events in one write."""

    def send_events(self, events: Sequence[tuple[Event, OnAnswered]], slot: EventSlot | None = None) -> bool:
        """Begin to create Events, of which each callback is called once, from the event loop, after a single try.

        They are answered one after the other, and meet what ends one before them, such as a webhook that hangs. With a
        slot, which was taken for the first of them, and tokens for the others, it returns False and keeps the slot if
        this way is closed now. Without one also if slots or tokens of the rate limit have to be waited for.
        """
        ...

    def take_event_tokens(self, most: int) -> int:
        """Take up to `most` tokens of the rate limit that are there now, and return how many."""
        ...

    def put_back_event_tokens(self, count: int) -> None:
        """Return tokens that were taken for Events which do not go in this way after all."""
        ...


class BindRequest(Protocol):
    """A binding to write once, by callbacks instead of a task. All of them are called from the event loop."""

    binding: Binding

    def may_write(self) -> bool:
        """Return whether the binding may be sent; called right before that."""
        ...

    def may_give_up(self, give_up: Callable[[], None]) -> None:
        """Receive a function that abandons the request; called right before `on_overdue`.

        After that function has been called no answer is reported.
        """
        ...

    def on_overdue(self) -> None:
        """React to an answer that is much later than usual; called at most once."""
        ...

    def on_answer(self, error: APIError | None) -> None:
        """Receive the outcome; called once, and never from within `DirectBinds.write`.

        `error` is what `Client.bind` would raise after a single request. It may be a 401, or NotLeading if `may_write`
        returned False.
        """
        ...


class Limit(Protocol):
    """A number that changes."""

    value: int


class DirectBinds(Protocol):
    """Writes bindings by callbacks, without one asyncio task each."""

    @property
    def limit(self) -> Limit:
        """The number of bindings that may be under way at the moment; it adapts to the apiserver."""
        ...

    def write(self, request: BindRequest) -> bool:
        """Write the binding once, when its turn comes.

        Returns False, and does nothing, if only `Client.bind` can be used now.
        """
        ...

    def refuse_to(self, node: str) -> None:
        """Answer the bindings to a node, which was deleted, with NodeGone, as far as they have not been sent."""
        ...


@runtime_checkable
class BindsDirectly(Protocol):
    """A client that can write bindings by callbacks, without one asyncio task each."""

    def direct_binds(self, ceiling: int) -> DirectBinds:
        """Return the one writer for all bindings of the program; at most `ceiling` of them are under way at once."""
        ...
