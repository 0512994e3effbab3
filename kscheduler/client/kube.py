"""Implements the client protocol over HTTP, for a real apiserver.

This module knows paths, bodies and content types. Bindings and Events are sent as protobuf, the rest as JSON; lists and
watches are decoded straight into our structs. Bindings and status patches share one rate limit, in which bindings go
first; Events have a limit of their own, so that they never delay a binding. The number of all these requests under way
adapts to the apiserver's latency, again with bindings first. Only a request that was refused for an expired token is
repeated here; whether and when to repeat any other is left to its caller.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from kscheduler.api.decode import decode_object
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.documents import PodDocument
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import Lease, MetricPolicyObject, ObjectMeta, Pod, PodCondition
from kscheduler.api.share_queues import QueueObject
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client import protobuf
from kscheduler.client.adaptive_limit import AdaptiveLimit
from kscheduler.client.binding_writer import BindingWriter, binding_path
from kscheduler.client.concurrency import within
from kscheduler.client.connections import Carrier
from kscheduler.client.credentials import Credentials, checked_server, load_credentials
from kscheduler.client.foreign_bodies import decoded
from kscheduler.client.kinds import ELASTIC_QUOTAS, METRIC_POLICIES, RESOURCE_CLAIMS, SHARE_QUEUES, Resource
from kscheduler.client.line_streams import LineStream
from kscheduler.client.merge_patch import versioned
from kscheduler.client.protocol import (
    ONE_TRY,
    Binding,
    BindTry,
    DirectBinds,
    Event,
    EventSlot,
    OnAnswered,
    Page,
    PodStatusPatch,
    WatchEvent,
    nothing,
)
from kscheduler.client.ratelimit import Priority, RateLimiter
from kscheduler.client.repeated_requests import RepeatedRequests
from kscheduler.client.request_observer import RequestObserver
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.reviews import Reviews
from kscheduler.client.slots import Slots
from kscheduler.client.times import micro_time
from kscheduler.client.transport import MOST_TOGETHER, Sent, Transport
from kscheduler.client.wire import LineDecoder, WatchError, decode_page
from kscheduler.client.write_permission import NOT_BOUND, not_leading
from kscheduler.clock import Clock
from kscheduler.errors import APIError, Conflict
from kscheduler.input.decoding import json_decoder

if TYPE_CHECKING:
    from kscheduler.api.pod_groups import CoschedulingPodGroup, GroupCondition

T = TypeVar("T")

REQUEST_TIMEOUT_S = 30.0
# An admission webhook is given 30 s at most, and may hang. What the apiserver says then is certain; a client that has
# given up at the same moment does not hear it, and the binding is in doubt for ever.
WRITE_TIMEOUT_S = 40.0
LIST_TIMEOUT_S = 60.0
DEFAULT_WRITES = 100  # bindings, status patches and Events under way at once, unless `direct_binds` sets another bound
# Bindings overtake a status patch that waits for the rate limit, but for so long only: a backlog may last for minutes,
# and preemptions, volumes and autoscalers wait for conditions and nominations.
STATUS_PATIENCE_S = 0.2
# An apiserver that opens a watch at all does so at once, events or not: then another is opened beside the first.
WATCH_OPENS_S = 1.0
# A request for the Lease is sent again, too; later, if the last one took longer. Its holder has 10 s, by default.
LEASE_OVERDUE_S = 1.0
# A watch follows another on a connection that brought something so long ago at most, or during two such watches.
WATCH_UNHEARD_S = 30.0
WATCH_GRACE_S = 15.0  # beyond timeoutSeconds, for a server that is slow to end a watch
# A server that sends bookmarks does so every minute: three without a byte mean that the stream is dead.
BOOKMARK_SILENCE_S = 180.0

_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
# Errors come back as protobuf too; the success bodies are not read, and protobuf is the cheapest to write.
_ACCEPT_PROTOBUF = f"{protobuf.CONTENT_TYPE},application/json"

_CLAIMS_BELOW = f"/apis/{RESOURCE_CLAIMS.group_version}/namespaces"

_quoted = functools.lru_cache(maxsize=1_024)(quote)  # names of what is written several times in a row
_encode = msgspec.json.encode
_decode_version = json_decoder(dict[str, Any])


class KubeClient:
    """A client of one apiserver. Use it from one event loop, and call `close` when done."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Clock,
        *,
        qps: float = 50.0,
        burst: int = 100,
        observer: RequestObserver | None = None,
        pauses: RetryPauses | None = None,
        user_agent: str = "kscheduler",
    ) -> None:
        self._transport = Transport(credentials, clock, observer=observer, pauses=pauses, user_agent=user_agent)
        self._clock = clock
        self._limiter = RateLimiter(qps, burst, clock)
        self._event_limiter = RateLimiter(qps, burst, clock)
        self._event_tokens = 0  # kept for the next Events, which have to wait for their slots
        self._slots = Slots(AdaptiveLimit(DEFAULT_WRITES))
        self._event_slot = _HeldSlot(self._slots)  # all are equal
        self._repeated = RepeatedRequests(clock)
        self.reviews = Reviews(self._transport)

    @classmethod
    async def connect(
        cls,
        clock: Clock,
        *,
        kubeconfig: str = "",
        context: str = "",
        server: str = "",
        qps: float = 50.0,
        burst: int = 100,
        observer: RequestObserver | None = None,
        pauses: RetryPauses | None = None,
        user_agent: str = "kscheduler",
        environ: Mapping[str, str] = os.environ,
    ) -> KubeClient:
        """Load credentials from a kubeconfig or the pod's service account, without a request yet. Raises ConfigError.

        `server` is a URL that replaces the one of the credentials. `pauses` is shown each success.
        """
        credentials = await load_credentials(clock, kubeconfig=kubeconfig, context=context, environ=environ)
        if server:
            credentials.reach(checked_server(server, is_tls=credentials.endpoint.is_tls))
        return cls(credentials, clock, qps=qps, burst=burst, observer=observer, pauses=pauses, user_agent=user_agent)

    @property
    def host(self) -> str:
        """The apiserver's host and port."""
        return self._transport.host

    # --- reading ------------------------------------------------------------------------------------------------

    async def list_page(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page[T]:
        query = {
            "fieldSelector": field_selector,
            "labelSelector": resource.label,
            "limit": str(limit) if limit > 0 else "",
            "continue": continue_token,
        }
        path = _with_query(resource.path, query)

        async def ask(is_repeat: bool) -> bytes:
            return await self._transport.request("GET", path, timeout_s=LIST_TIMEOUT_S, own_connection=is_repeat)

        raw = await self._repeated.answer(resource.path, ask)
        return decoded(partial(decode_page, resource=resource), raw, f"list of {resource.plural}", self._transport.host)

    async def watch(
        self, resource: Resource[T], *, resource_version: str, field_selector: str = "", timeout_s: float = 300.0
    ) -> AsyncIterator[list[WatchEvent[T]]]:
        path, stream = await self._open_watch(resource, resource_version, field_selector, timeout_s)
        decode = LineDecoder(resource, partial(_expect_bookmarks, stream))
        with self._transport.reading(path, stream):
            while (lines := await stream.next_lines()) is not None:
                events: list[WatchEvent[T]] = []
                ended: APIError | None = None
                try:
                    decode.pass_on(events.extend, lines)
                except WatchError as error:
                    ended = self._transport.watch_error(resource.path, error.status)
                if events:
                    yield events
                if ended is not None:
                    raise ended

    @property
    def pushes(self) -> bool:
        return True

    async def push_watch(
        self,
        resource: Resource[T],
        receive: Callable[[Sequence[WatchEvent[T]]], None],
        *,
        resource_version: str,
        field_selector: str = "",
        timeout_s: float = 300.0,
    ) -> None:
        path, stream = await self._open_watch(resource, resource_version, field_selector, timeout_s)
        decode = LineDecoder(resource, partial(_expect_bookmarks, stream))
        with self._transport.reading(path, stream):
            try:
                await stream.hand_over(partial(decode.pass_on, receive))
            except WatchError as error:
                raise self._transport.watch_error(resource.path, error.status) from None

    async def _open_watch(
        self, resource: Resource[Any], resource_version: str, field_selector: str, timeout_s: float
    ) -> tuple[str, LineStream]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(timeout_s))),
            "fieldSelector": field_selector,
            "labelSelector": resource.label,
            "resourceVersion": resource_version,
        }
        path = _with_query(resource.path, query)
        unheard_s = max(WATCH_UNHEARD_S, 2.0 * timeout_s)

        async def open_stream(is_repeat: bool) -> LineStream:
            return await self._transport.open_stream(
                path, timeout_s=REQUEST_TIMEOUT_S, unheard_s=0.0 if is_repeat else unheard_s
            )

        stream = await self._repeated.answer(
            f"watch {resource.path}", open_stream, overdue_s=WATCH_OPENS_S, give_up=lambda stream: stream.close()
        )
        stream.idle_s = timeout_s + WATCH_GRACE_S
        return path, stream

    async def get_aggregated(self, path: str, *, limit_bytes: int) -> bytes:
        return await self._transport.request("GET", path, timeout_s=REQUEST_TIMEOUT_S, limit_bytes=limit_bytes)

    async def get_pod(self, namespace: str, name: str) -> Pod:
        return await self._get_pod(namespace, name, Pod)

    async def get_pod_document(self, namespace: str, name: str) -> PodDocument:
        return await self._get_pod(namespace, name, PodDocument)

    async def _get_pod(self, namespace: str, name: str, kind: type[T]) -> T:
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"
        raw = await self._transport.request("GET", path, timeout_s=REQUEST_TIMEOUT_S)
        return decoded(partial(decode_object, kind=kind), raw, f"pod {namespace}/{name}", self._transport.host)

    # --- writing ------------------------------------------------------------------------------------------------

    async def bind(self, binding: Binding, attempt: BindTry = ONE_TRY) -> None:
        body = protobuf.encode_binding(binding)
        await self._send_limited(Priority.BIND, "POST", binding_path(binding), body, protobuf.CONTENT_TYPE, attempt)

    def direct_binds(self, ceiling: int) -> DirectBinds:
        self._slots.limit.bound(ceiling)
        return BindingWriter(
            self._transport,
            self._limiter,
            self._slots,
            self._clock,
            accept=_ACCEPT_PROTOBUF,
            timeout_s=WRITE_TIMEOUT_S,
        )

    async def patch_pod_status(self, pod: Pod, patch: PodStatusPatch, on_overdue: Callable[[], None] = nothing) -> None:
        meta = pod.metadata
        path = f"/api/v1/namespaces/{_quoted(meta.namespace)}/pods/{quote(meta.name)}/status"
        body = status_patch_body(meta.uid, patch)
        # A strategic merge would keep entries of lists that are no longer there.
        kind = _STRATEGIC_PATCH if patch.node_allocatable_resource_claim_statuses is None else _MERGE_PATCH
        with _namesakes_conflict():
            attempt = BindTry(on_overdue=on_overdue)
            await self._send_limited(Priority.STATUS, "PATCH", path, body, kind, attempt)

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> None:
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"
        body = _encode({"metadata": {"uid": uid, "annotations": dict(annotations)}})
        # For people to read, as Events are, and out of the bindings' way like them.
        with _namesakes_conflict():
            await self._send_limited(Priority.EVENT, "PATCH", path, body, _MERGE_PATCH)

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        # As urgent as a binding: a pod of higher priority waits for the room.
        await self._send_limited(Priority.BIND, "DELETE", path, _encode(options), "application/json")

    async def patch_volume(self, name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
        return await self._patch(f"/api/v1/persistentvolumes/{quote(name)}", resource_version, patch, PersistentVolume)

    async def patch_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object]
    ) -> PersistentVolumeClaim:
        path = f"/api/v1/namespaces/{quote(namespace)}/persistentvolumeclaims/{quote(name)}"
        return await self._patch(path, resource_version, patch, PersistentVolumeClaim)

    async def get_resource_claim(self, namespace: str, name: str) -> ResourceClaim:
        return await self._claim("GET", _claim_path(namespace, name))

    async def create_resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        body = _encode(_ClaimBody(metadata=claim.metadata, spec=claim.spec))
        return await self._claim("POST", _claim_path(claim.metadata.namespace), body)

    async def patch_resource_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object], *, subresource: str = ""
    ) -> ResourceClaim:
        path = _claim_path(namespace, name) + (f"/{subresource}" if subresource else "")
        return await self._patch(path, resource_version, patch, ResourceClaim)

    async def release_resource_claim(self, namespace: str, name: str, uid: str, consumer: str) -> ResourceClaim:
        gone = {"$patch": "delete", "uid": consumer}
        body = _encode({"metadata": {"uid": uid}, "status": {"reservedFor": [gone]}})
        with _namesakes_conflict():
            return await self._claim("PATCH", f"{_claim_path(namespace, name)}/status", body, _STRATEGIC_PATCH)

    async def delete_resource_claim(self, namespace: str, name: str) -> None:
        body = _encode({"kind": "DeleteOptions", "apiVersion": "v1"})
        await self._send_limited(Priority.STATUS, "DELETE", _claim_path(namespace, name), body, "application/json")

    async def _claim(
        self, verb: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> ResourceClaim:
        """Request a claim, with a binding's priority, because a pod waits for it."""
        await self._limit(self._limiter, Priority.BIND, verb)
        raw = await self._transport.request(
            verb, path, body=body, content_type=content_type, timeout_s=REQUEST_TIMEOUT_S
        )
        return decoded(partial(decode_object, kind=ResourceClaim), raw, path, self._transport.host)

    async def _patch(self, path: str, resource_version: str, patch: dict[str, object], kind: type[T]) -> T:
        """Send a merge patch and return the patched object. It has a binding's priority, because a pod waits for it."""
        body = _encode(versioned(patch, resource_version))
        if not self._limiter.try_acquire():
            await self._limit(self._limiter, Priority.BIND, "PATCH")
        raw = await self._transport.request(
            "PATCH", path, body=body, content_type=_MERGE_PATCH, timeout_s=REQUEST_TIMEOUT_S
        )
        return decoded(partial(decode_object, kind=kind), raw, path, self._transport.host)

    async def patch_condition(
        self, resource: Resource[Any], namespace: str, name: str, uid: str, condition: GroupCondition
    ) -> None:
        path = f"{resource.within(quote(namespace)).path}/{quote(name)}/status"
        fields = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
        }
        if condition.last_transition_time is not None:
            fields["lastTransitionTime"] = condition.last_transition_time
        body = _encode({"metadata": {"uid": uid}, "status": {"conditions": [fields]}})
        with _namesakes_conflict():
            await self._send_limited(Priority.EVENT, "PATCH", path, body, _STRATEGIC_PATCH)

    async def patch_group_status(
        self, resource: Resource[Any], group: CoschedulingPodGroup, status: Mapping[str, object]
    ) -> None:
        meta = group.metadata
        await self._patch_status(resource, meta, status, resource_version=meta.resource_version)

    async def patch_policy_status(self, policy: MetricPolicyObject, status: Mapping[str, object]) -> None:
        await self._patch_status(METRIC_POLICIES, policy.metadata, status)

    async def patch_quota_status(self, quota: ElasticQuota, status: Mapping[str, object]) -> None:
        await self._patch_status(ELASTIC_QUOTAS, quota.metadata, status)

    async def patch_queue_status(self, queue: QueueObject, status: Mapping[str, object]) -> None:
        await self._patch_status(SHARE_QUEUES, queue.metadata, status)

    async def _patch_status(
        self, resource: Resource[Any], meta: ObjectMeta, status: Mapping[str, object], *, resource_version: str = ""
    ) -> None:
        """Merge into the status of the object with this uid; of this version, unless that is ""."""
        path = f"{resource.within(quote(meta.namespace)).path}/{quote(meta.name)}/status"
        patch: dict[str, object] = {"metadata": {"uid": meta.uid}, "status": dict(status)}
        body = _encode(versioned(patch, resource_version) if resource_version else patch)
        with _namesakes_conflict():
            await self._send_limited(Priority.EVENT, "PATCH", path, body, _MERGE_PATCH)

    async def _send_limited(
        self,
        priority: Priority,
        verb: str,
        path: str,
        body: bytes,
        content_type: str,
        attempt: BindTry = ONE_TRY,
        slot: EventSlot | None = None,  # one that was taken for this request, with a token
    ) -> None:
        if slot is None:
            await self._limit(self._event_limiter if priority is Priority.EVENT else self._limiter, priority, verb)
        carrier = Carrier(may_write=attempt.may_write)

        def is_overdue() -> None:
            carrier.distrust()
            attempt.on_overdue()

        async with self._slots.taken(
            Priority.REPEAT if attempt.is_repeat else priority, is_overdue, is_held=slot is not None
        ):
            if not attempt.may_write():  # asked now: it may have waited long for its token and its slot
                raise not_leading(NOT_BOUND)
            await self._transport.request(
                verb,
                path,
                body=body,
                content_type=content_type,
                accept=_ACCEPT_PROTOBUF,
                timeout_s=WRITE_TIMEOUT_S,
                carrier=carrier,
            )

    async def event_slot(self, waited_s: float) -> EventSlot:
        if self._has_event_token():
            self._event_tokens -= 1
        else:
            start = self._clock.now()
            count = await self._event_limiter.acquire_some(Priority.EVENT, MOST_TOGETHER)
            self._event_tokens += count - 1
            self._transport.observer.observe_rate_limiter("POST", self.host, self._clock.now() - start)
        await self._slots.take(Priority.EVENT, waited_s)
        return self._event_slot

    def take_event_slot(self, waited_s: float) -> EventSlot | None:
        if not (self._has_event_token() and self._slots.try_take(Priority.EVENT, waited_s)):
            return None
        self._event_tokens -= 1
        return self._event_slot

    def _has_event_token(self) -> bool:
        """Return True if a token for an Event is kept, perhaps a new one."""
        if not self._event_tokens and self._event_limiter.try_acquire():
            self._event_tokens = 1
        return self._event_tokens > 0

    def send_event(self, event: Event, slot: EventSlot | None, on_answer: OnAnswered) -> bool:
        transport, slots = self._transport, self._slots
        # As `Transport.sends`, without its call.
        if not transport.is_direct or self._clock.now() >= transport.credentials.fresh_until:
            return False
        if slot is not None:
            held = slots.sent(Priority.EVENT, nothing)
        else:
            begun = slots.begin(Priority.EVENT) if self._has_event_token() else None
            if begun is None:
                return False
            self._event_tokens -= 1
            held = begun
        sent = Sent(slots=slots, slot=held, path=_events(event.namespace), on_answer=on_answer)
        held.on_overdue = sent.distrust
        transport.send(sent, protobuf.encode_event(event), protobuf.CONTENT_TYPE, _ACCEPT_PROTOBUF, REQUEST_TIMEOUT_S)
        return True

    def take_event_tokens(self, most: int) -> int:
        kept = min(most, self._event_tokens)
        self._event_tokens -= kept
        return kept + self._event_limiter.try_acquire_some(most - kept)

    def put_back_event_tokens(self, count: int) -> None:
        self._event_tokens += count

    def send_events(self, events: Sequence[tuple[Event, OnAnswered]], slot: EventSlot | None = None) -> bool:
        transport, count = self._transport, len(events)
        if not transport.sends or (slot is None and not self._event_limiter.try_acquire_many(count)):
            return False
        slots = self._slots.begin_events(count) if slot is None else self._slots.sent_events(count)
        if slots is None:
            self._event_limiter.put_back(count)
            return False
        requests = []
        for held, (event, on_answer) in zip(slots, events, strict=True):
            sent = Sent(slots=self._slots, slot=held, path=_events(event.namespace), on_answer=on_answer)
            held.on_overdue = sent.distrust
            requests.append((sent, protobuf.encode_event(event)))
        for first in range(0, count, MOST_TOGETHER):
            together = requests[first : first + MOST_TOGETHER]
            transport.send_together(together, protobuf.CONTENT_TYPE, _ACCEPT_PROTOBUF, REQUEST_TIMEOUT_S)
        return True

    async def create_event(self, event: Event, slot: EventSlot | None = None) -> None:
        path = _events(event.namespace)
        body = protobuf.encode_event(event)
        await self._send_limited(Priority.EVENT, "POST", path, body, protobuf.CONTENT_TYPE, slot=slot)

    async def patch_event_series(self, event: Event, slot: EventSlot | None = None) -> None:
        path = f"{_events(event.namespace)}/{quote(event.name)}"
        series = event.series and {
            "count": event.series.count,
            "lastObservedTime": micro_time(event.series.last_observed_s),
        }
        await self._send_limited(Priority.EVENT, "PATCH", path, _encode({"series": series}), _MERGE_PATCH, slot=slot)

    async def _limit(self, limiter: RateLimiter, priority: Priority, verb: str) -> None:
        if limiter.try_acquire():
            return
        start = self._clock.now()
        if priority is Priority.STATUS:
            await self._limit_status(limiter)
        else:
            await limiter.acquire(priority)
        self._transport.observer.observe_rate_limiter(verb, self.host, self._clock.now() - start)

    async def _limit_status(self, limiter: RateLimiter) -> None:
        """Wait for the token of a status patch, which bindings may overtake for a while."""
        try:
            await within(STATUS_PATIENCE_S, limiter.acquire(Priority.STATUS))
        except TimeoutError:
            await limiter.acquire(Priority.BIND)

    # --- leases -------------------------------------------------------------------------------------------------

    async def get_lease(self, namespace: str, name: str) -> Lease:
        return await self._lease("GET", f"{_leases(namespace)}/{quote(name)}", None)

    async def create_lease(self, lease: Lease) -> Lease:
        return await self._lease("POST", _leases(lease.metadata.namespace), lease)

    async def update_lease(self, lease: Lease) -> Lease:
        return await self._lease("PUT", f"{_leases(lease.metadata.namespace)}/{quote(lease.metadata.name)}", lease)

    async def _lease(self, verb: str, path: str, lease: Lease | None) -> Lease:
        body = _encode(_LeaseBody(metadata=lease.metadata, spec=lease.spec)) if lease is not None else None

        async def ask(is_repeat: bool) -> bytes:
            return await self._transport.request(
                verb, path, body=body, timeout_s=REQUEST_TIMEOUT_S, own_connection=is_repeat
            )

        # A write holds for one version of the Lease.
        raw = await self._repeated.answer(f"{verb} {path}", ask, overdue_s=LEASE_OVERDUE_S)
        return decoded(partial(decode_object, kind=Lease), raw, f"lease at {path}", self._transport.host)

    # --- about the apiserver -------------------------------------------------------------------------------------

    async def version(self) -> dict[str, Any]:
        """Return the apiserver's /version, the cheapest request, to check the connection at start."""
        raw = await self._transport.request("GET", "/version", timeout_s=10.0)
        return decoded(_decode_version, raw, "version", self._transport.host)

    async def count(self, path: str) -> int:
        """Return how many objects a collection has, such as "/api/v1/nodes"; only one of them is read."""
        raw = await self._transport.request("GET", f"{path}?limit=1", timeout_s=REQUEST_TIMEOUT_S)
        page = decoded(_decode_count, raw, path, self._transport.host)
        return len(page.items) + page.metadata.remaining_item_count

    async def date(self) -> str:
        """Return the Date of an answer of the apiserver, as HTTP writes it; "" if it has none."""
        return await self._transport.date("/version", timeout_s=10.0)

    async def close(self) -> None:
        self._slots.close()
        await self._transport.close()


class _CountMeta(msgspec.Struct, rename="camel", frozen=True):
    remaining_item_count: int = 0


class _Count(msgspec.Struct, frozen=True):
    metadata: _CountMeta = _CountMeta()
    items: list[msgspec.Raw] = []


_decode_count = json_decoder(_Count)


def _expect_bookmarks(stream: LineStream) -> None:
    """Allow a watch that has brought a bookmark no more silence than there is between bookmarks."""
    stream.idle_s = min(stream.idle_s, BOOKMARK_SILENCE_S)


@functools.lru_cache(maxsize=1_024)
def _events(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(namespace)}/events"


class _HeldSlot:
    """The permission for one more concurrent Event, taken from `Slots`; implements `EventSlot`."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def give_back(self) -> None:
        self._slots.give_back(Priority.EVENT)


@contextlib.contextmanager
def _namesakes_conflict() -> Iterator[None]:
    """Raise Conflict when a patch with a uid is refused because another object has the name now."""
    try:
        yield
    except APIError as error:
        if error.status == 422 and "metadata.uid" in str(error):
            raise Conflict(str(error), status=409, reason="Conflict", explanation=error.explanation) from error
        raise


class _LeaseBody(Lease, frozen=True, omit_defaults=False):
    """A Lease with its apiVersion and kind, as it is sent."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


class _ClaimBody(ResourceClaim, frozen=True, omit_defaults=False):
    """A ResourceClaim with its apiVersion and kind, as it is sent."""

    api_version: str = RESOURCE_CLAIMS.group_version
    kind: str = RESOURCE_CLAIMS.kind


def _claim_path(namespace: str, name: str = "") -> str:
    path = f"{_CLAIMS_BELOW}/{_quoted(namespace)}/{RESOURCE_CLAIMS.plural}"
    return f"{path}/{_quoted(name)}" if name else path


def _leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases"


def _with_query(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode({name: value for name, value in query.items() if value})}"


def status_patch_body(uid: str, patch: PodStatusPatch) -> bytes:
    """Return a patch of a pod's status, which fails for another uid.

    It is a strategic merge patch, by which conditions merge by type; or a merge patch of nothing but the lists that it
    replaces.
    """
    status: dict[str, object] = {}
    if patch.condition is not None:
        status["conditions"] = [_condition(patch.condition)]
    if patch.nominated_node_name is not None:
        status["nominatedNodeName"] = patch.nominated_node_name or None  # null removes it
    if patch.extended_resource_claim_status is not None:
        status["extendedResourceClaimStatus"] = msgspec.to_builtins(patch.extended_resource_claim_status)
    if patch.node_allocatable_resource_claim_statuses is not None:
        listed = msgspec.to_builtins(patch.node_allocatable_resource_claim_statuses)
        status["nodeAllocatableResourceClaimStatuses"] = listed
    return _encode({"metadata": {"uid": uid}, "status": status})


def _condition(condition: PodCondition) -> dict[str, object]:
    """Return all fields of a condition, so that no old reason or message remains.

    Times that are not given stay unchanged.
    """
    fields: dict[str, object] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason or None,
        "message": condition.message or None,
        "lastProbeTime": condition.last_probe_time,
    }
    if condition.last_transition_time is not None:
        fields["lastTransitionTime"] = condition.last_transition_time
    if condition.observed_generation:
        fields["observedGeneration"] = condition.observed_generation
    return fields
