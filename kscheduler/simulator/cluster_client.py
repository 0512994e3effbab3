"""Implements the client protocol on a simulated cluster, with latency, faults and outages.

Without latency a request is answered within the same step of the event loop. A watch delivers all pending events each
time it wakes, sends a bookmark if there was no event for a while, and ends after its timeout.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.documents import NodeDocument, PodDocument, node_document, pod_document
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import Lease, MetricPolicyObject, Pod
from kscheduler.api.share_queues import QueueObject
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.adaptive_limit import AdaptiveLimit
from kscheduler.client.alarm import Alarm
from kscheduler.client.kinds import (
    ELASTIC_QUOTAS,
    METRIC_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_CLAIMS,
    SHARE_QUEUES,
    Resource,
)
from kscheduler.client.protocol import (
    ONE_TRY,
    Binding,
    BindRequest,
    BindTry,
    DirectBinds,
    Event,
    EventSlot,
    EventType,
    OnAnswered,
    Page,
    PodStatusPatch,
    WatchEvent,
    nothing,
)
from kscheduler.client.write_permission import NOT_BOUND, not_leading
from kscheduler.errors import APIError, Unreachable
from kscheduler.simulator.faults import Fault, FaultKind, Faults, Verb, refusal
from kscheduler.simulator.field_selectors import parse_field_selector
from kscheduler.simulator.pushed_watches import PushedWatch, Receive
from kscheduler.simulator.store import Store, Watch

if TYPE_CHECKING:
    from kscheduler.api.pod_groups import CoschedulingPodGroup, GroupCondition
    from kscheduler.simulator.cluster import Cluster

OVERDUE_S = 1.0  # a write without an answer for this long counts as overdue

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Latency:
    """The simulated round-trip times of requests in seconds; a write takes effect after half of it.

    Zero means no wait.
    """

    list_s: float = 0.0
    watch_s: float = 0.0  # from a change to its delivery by a watch
    bind_s: float = 0.0
    write_s: float = 0.0  # any other request for one object
    jitter: float = 0.0  # sigma of the lognormal factor that each time is multiplied by; 0: none


class _AlwaysFree:
    """The `EventSlot` (permission to write an Event) of this client, which never limits writes."""

    def give_back(self) -> None:
        pass


_FREE = _AlwaysFree()


class ClusterClient:
    """Accesses a simulated cluster as a scheduler does: implements `client.protocol.Client`."""

    def __init__(
        self, cluster: Cluster, latency: Latency, faults: Faults, source: random.Random, *, by_events: bool = False
    ) -> None:
        """Create a client of `cluster`; `source` draws the jitter of latencies.

        `by_events`: write bindings and Events by timers of the event loop instead of a task each, which is cheaper, and
        never end or bookmark a watch. Results are equal, except for the order of what happens at the same instant.
        While there are faults, each write is a task all the same.
        """
        self.faults = faults
        self.on_success: Callable[[], object] = bool  # called for each request that the server receives
        self._cluster = cluster
        self._latency = latency
        self._random = source
        self._by_events = by_events
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # set by the first `send`: looking it up is a system call

    # --- lists ----------------------------------------------------------------------------------------------------

    async def list_page(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page[T]:
        fault = await self._begin(Verb.LIST, resource.plural, None, self._latency.list_s)
        store: Store[T] = self._cluster.store(resource)
        selector = parse_field_selector(resource, field_selector)
        if continue_token:
            name, version, start = continue_token.split(":")
            items = store.snapshot(name)
        else:
            version, start, name = str(self._cluster.version), "0", ""
            items = store.sorted_objects()
            if fault is not None and fault.kind is FaultKind.STALE_LIST:
                version = str(max(0, self._cluster.version - fault.changes))
                items = store.sorted_objects_at(int(version))
            if selector is not None:
                items = [item for item in items if selector(item)]
        page = _page(store, items, name, version, int(start), limit)
        whole = _WHOLE.get(resource.type)
        return page if whole is None else replace(page, items=[whole(item) for item in page.items])

    # --- watches --------------------------------------------------------------------------------------------------

    async def watch(
        self, resource: Resource[T], *, resource_version: str, field_selector: str = "", timeout_s: float = 300.0
    ) -> AsyncIterator[list[WatchEvent[T]]]:
        await self._begin(Verb.WATCH, resource.plural, None, 0.0)
        store: Store[T] = self._cluster.store(resource)
        selector = parse_field_selector(resource, field_selector)
        whole = _WHOLE.get(resource.type)
        version = self._start_version(resource_version)
        watch = Watch(store, store.position_after(version), selector)
        loop = asyncio.get_running_loop()
        # With `by_events` a watch never ends and sends no bookmarks, so that months without changes cost nothing.
        deadline = math.inf if self._by_events else loop.time() + timeout_s
        bookmark_s = math.inf if self._by_events else self._cluster.bookmark_interval_s
        alarm = Alarm(loop, watch.wake)
        store.attach(watch)
        try:
            while not watch.lost:
                if not watch.has_changes and not watch.broken:
                    woken: asyncio.Future[None] = loop.create_future()
                    watch.on_wake = partial(_wake, woken)
                    alarm.set(min(deadline, loop.time() + bookmark_s))
                    await woken
                if self._latency.watch_s and watch.has_changes:
                    await asyncio.sleep(self._jittered(self._latency.watch_s))
                if watch.broken:
                    raise Unreachable("the connection to the apiserver broke while watching")
                batch = watch.take()
                if batch:
                    parts = await self._deliver(resource, batch, timeout_s) if self.faults.any else (batch,)
                    for part in parts:
                        yield part if whole is None else _events_of_documents(part, whole)
                elif not watch.has_changes and not watch.lost:
                    yield [WatchEvent(EventType.BOOKMARK, None, str(self._cluster.version))]
                if loop.time() >= deadline:
                    return
        finally:
            alarm.cancel()
            store.detach(watch)

    @property
    def pushes(self) -> bool:
        """True if watches may be pushed: by events, and if no fault can happen to them."""
        return self._by_events and not self.faults.any

    async def push_watch(
        self,
        resource: Resource[T],
        receive: Receive[T],
        *,
        resource_version: str,
        field_selector: str = "",
        timeout_s: float = 300.0,
    ) -> None:
        """Watch by calls of `receive`. As all watches by events, this one lasts for ever and sends no bookmarks."""
        await self._begin(Verb.WATCH, resource.plural, None, 0.0)
        store: Store[T] = self._cluster.store(resource)
        position = store.position_after(self._start_version(resource_version))
        whole = _WHOLE.get(resource.type)
        if whole is not None:
            receive = partial(_receive_whole, receive, whole)
        watch_s = self._latency.watch_s
        delay_s = partial(self._jittered, watch_s) if watch_s else None
        selector = parse_field_selector(resource, field_selector)
        # The cluster's pods share their specs; what else an informer would leave out of them no decision reads.
        is_kept = resource.type is Pod
        loop = asyncio.get_running_loop()
        watch = PushedWatch(store, position, selector, receive, delay_s, loop, is_kept=is_kept)
        store.attach(watch)
        if watch.has_changes:
            watch.wake()
        try:
            await watch.ended
        finally:
            store.detach(watch)

    def _start_version(self, text: str) -> int:
        try:
            version = int(text)
        except ValueError:
            message = f'a watch starts from a resource version that a list gave, not "{text}"'
            raise APIError(message, status=400, reason="BadRequest") from None
        if version > self._cluster.version:
            message = f"Too large resource version: {version}, current: {self._cluster.version}"
            raise APIError(message, status=504, reason="Timeout")
        return version

    async def _deliver(
        self, resource: Resource[T], batch: list[WatchEvent[T]], timeout_s: float
    ) -> list[list[WatchEvent[T]]]:
        """Return the batches of watch events to deliver: `batch` itself, or what an injected fault makes of it."""
        fault = self.faults.draw(Verb.DELIVER, resource.plural)
        if fault is None:
            return [batch]
        if fault.kind is FaultKind.CUT:
            raise Unreachable("injected fault: watch cut")
        if fault.kind is FaultKind.SILENT:
            await asyncio.sleep(fault.delay_s or timeout_s)
            raise Unreachable("injected fault: the watch was silent")
        if fault.kind is FaultKind.DUPLICATE:
            return [batch, batch]
        if fault.kind is FaultKind.DELAYED:
            await asyncio.sleep(fault.delay_s)
            return [batch]
        raise refusal(fault, Verb.DELIVER) or Unreachable("injected fault: watch failed")

    # --- single objects -----------------------------------------------------------------------------------------------

    async def get_pod(self, namespace: str, name: str) -> Pod:
        return await self._ask(Verb.GET_POD, "pods", None, lambda: self._cluster.get_pod(namespace, name))

    async def get_aggregated(self, path: str, *, limit_bytes: int) -> bytes:
        latency_s = self._latency.list_s
        answer = await self._request(
            Verb.GET_AGGREGATED, path, None, latency_s, lambda: self._cluster.get_aggregated(path)
        )
        if len(answer) > limit_bytes:
            raise APIError(f"GET {path}: expected an answer of at most {limit_bytes} bytes, got more")
        return answer

    async def get_pod_document(self, namespace: str, name: str) -> PodDocument:
        return pod_document(await self.get_pod(namespace, name))

    async def bind(self, binding: Binding, attempt: BindTry = ONE_TRY) -> None:
        if not attempt.may_write():
            raise not_leading(NOT_BOUND)
        timer = asyncio.get_running_loop().call_later(OVERDUE_S, attempt.on_overdue)
        try:
            await self._request(Verb.BIND, "pods", binding, self._latency.bind_s, lambda: self._cluster.bind(binding))
        finally:
            timer.cancel()

    def direct_binds(self, ceiling: int) -> DirectBinds:
        return _DirectBinds(self, self._cluster.bind, self._latency.bind_s, ceiling)

    @property
    def sends(self) -> bool:
        """True if requests may be made by `send`, i.e. without a task: no fault or outage can affect them."""
        is_quick = self._by_events or not self._latency.bind_s
        return is_quick and not (self.faults.any or self._closed or self._cluster.is_down)

    def send(
        self,
        act: Callable[[], object],
        latency_s: float,
        on_answer: OnAnswered,
        on_overdue: Callable[[], None] = nothing,
    ) -> None:
        """Make a request without a task; `on_answer` is called with None or the error when the answer arrives.

        `act` carries the request out. `on_overdue` is called if there is no answer after OVERDUE_S.
        """
        there_s = back_s = latency_s / 2
        if self._latency.jitter:
            there_s, back_s = self._jittered(there_s), self._jittered(back_s)
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        if there_s + back_s > OVERDUE_S:
            loop.call_later(OVERDUE_S, on_overdue)
        if latency_s:
            loop.call_later(there_s, self._arrive, act, back_s, on_answer)
        else:
            loop.call_soon(self._arrive, act, back_s, on_answer)

    def _arrive(self, act: Callable[[], object], back_s: float, on_answer: OnAnswered) -> None:
        """Carry out a request that has arrived at the apiserver, and deliver its answer after `back_s` seconds."""
        if self._closed:
            on_answer(Unreachable("this client is closed"))
            return
        if self._cluster.is_down:
            on_answer(Unreachable("connection refused: the apiserver is down"))
            return
        self.on_success()
        try:
            act()
        except APIError as refusal:
            on_answer(refusal)
            return
        if back_s and self._loop is not None:
            self._loop.call_later(back_s, self._return, on_answer)
        else:
            on_answer(None)

    def _return(self, on_answer: OnAnswered) -> None:
        down = self._cluster.is_down
        on_answer(Unreachable("the apiserver went down before it answered") if down else None)

    async def patch_pod_status(self, pod: Pod, patch: PodStatusPatch, on_overdue: Callable[[], None] = nothing) -> None:
        timer = asyncio.get_running_loop().call_later(OVERDUE_S, on_overdue)
        try:
            await self._ask(Verb.PATCH_STATUS, "pods", pod, lambda: self._cluster.patch_pod_status(pod, patch))
        finally:
            timer.cancel()

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> None:
        key = f"{namespace}/{name}"
        await self._ask(Verb.ANNOTATE_POD, "pods", key, lambda: self._cluster.annotate_pod(key, uid, annotations))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        key = f"{namespace}/{name}"
        await self._ask(Verb.DELETE_POD, "pods", key, lambda: self._cluster.terminate_pod(key, uid=uid))

    async def patch_volume(self, name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
        return await self._patch_object(Verb.PATCH_VOLUME, PERSISTENT_VOLUMES, name, resource_version, patch)

    async def patch_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object]
    ) -> PersistentVolumeClaim:
        key = f"{namespace}/{name}"
        return await self._patch_object(Verb.PATCH_CLAIM, PERSISTENT_VOLUME_CLAIMS, key, resource_version, patch)

    async def get_resource_claim(self, namespace: str, name: str) -> ResourceClaim:
        key = f"{namespace}/{name}"
        return await self._of_claim(Verb.GET_RESOURCE_CLAIM, key, lambda: self._cluster.get_claim(key))

    async def create_resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        act: Callable[[], ResourceClaim] = lambda: self._cluster.create_object(claim)  # noqa: E731
        return await self._of_claim(Verb.CREATE_RESOURCE_CLAIM, claim.key, act)

    async def patch_resource_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object], *, subresource: str = ""
    ) -> ResourceClaim:
        verb = Verb.PATCH_RESOURCE_CLAIM_STATUS if subresource else Verb.PATCH_RESOURCE_CLAIM
        return await self._patch_object(verb, RESOURCE_CLAIMS, f"{namespace}/{name}", resource_version, patch)

    async def release_resource_claim(self, namespace: str, name: str, uid: str, consumer: str) -> ResourceClaim:
        key = f"{namespace}/{name}"
        act = lambda: self._cluster.release_claim(key, uid, consumer)  # noqa: E731
        return await self._of_claim(Verb.RELEASE_RESOURCE_CLAIM, key, act)

    async def delete_resource_claim(self, namespace: str, name: str) -> None:
        key = f"{namespace}/{name}"
        await self._of_claim(Verb.DELETE_RESOURCE_CLAIM, key, lambda: self._cluster.delete_claim(key))

    async def _of_claim(self, verb: Verb, key: str, act: Callable[[], R]) -> R:
        return await self._ask(verb, RESOURCE_CLAIMS.plural, key, act)

    async def _patch_object(
        self, verb: Verb, resource: Resource[T], key: str, resource_version: str, patch: dict[str, object]
    ) -> T:
        def act() -> T:
            patched: T = self._cluster.patch_object(resource, key, resource_version, patch)
            return patched

        return await self._ask(verb, resource.plural, key, act)

    async def patch_condition(
        self, resource: Resource[Any], namespace: str, name: str, uid: str, condition: GroupCondition
    ) -> None:
        key = f"{namespace}/{name}"
        act = lambda: self._cluster.patch_condition(resource, key, uid, condition)  # noqa: E731
        await self._ask(Verb.PATCH_CONDITION, resource.plural, key, act)

    async def patch_group_status(
        self, resource: Resource[Any], group: CoschedulingPodGroup, status: Mapping[str, object]
    ) -> None:
        act = lambda: self._cluster.patch_group_status(group, status)  # noqa: E731
        await self._ask(Verb.PATCH_GROUP, resource.plural, group.key, act)

    async def patch_policy_status(self, policy: MetricPolicyObject, status: Mapping[str, object]) -> None:
        key, uid = policy.key, policy.metadata.uid
        await self._ask(
            Verb.PATCH_POLICY, METRIC_POLICIES.plural, key, lambda: self._cluster.patch_policy_status(key, uid, status)
        )

    async def patch_quota_status(self, quota: ElasticQuota, status: Mapping[str, object]) -> None:
        key, uid = quota.key, quota.metadata.uid
        await self._ask(
            Verb.PATCH_QUOTA, ELASTIC_QUOTAS.plural, key, lambda: self._cluster.patch_quota_status(key, uid, status)
        )

    async def patch_queue_status(self, queue: QueueObject, status: Mapping[str, object]) -> None:
        key, uid = queue.key, queue.metadata.uid
        await self._ask(
            Verb.PATCH_QUEUE, SHARE_QUEUES.plural, key, lambda: self._cluster.patch_queue_status(key, uid, status)
        )

    async def event_slot(self, waited_s: float) -> EventSlot:
        return _FREE

    def take_event_slot(self, waited_s: float) -> EventSlot | None:
        return _FREE if self._by_events else None

    def send_event(self, event: Event, slot: EventSlot | None, on_answer: OnAnswered) -> bool:
        if not (self._by_events and self.sends):
            return False
        self.send(partial(self._cluster.create_event, event), self._latency.write_s, on_answer)
        return True

    async def create_event(self, event: Event, slot: EventSlot | None = None) -> None:
        await self._ask(Verb.CREATE_EVENT, "events", event, lambda: self._cluster.create_event(event))

    async def patch_event_series(self, event: Event, slot: EventSlot | None = None) -> None:
        await self._ask(Verb.PATCH_EVENT, "events", event, lambda: self._cluster.patch_event_series(event))

    async def get_lease(self, namespace: str, name: str) -> Lease:
        return await self._ask(Verb.GET_LEASE, "leases", None, lambda: self._cluster.get_lease(namespace, name))

    async def create_lease(self, lease: Lease) -> Lease:
        return await self._ask(Verb.CREATE_LEASE, "leases", lease, lambda: self._cluster.create_lease(lease))

    async def update_lease(self, lease: Lease) -> Lease:
        return await self._ask(Verb.UPDATE_LEASE, "leases", lease, lambda: self._cluster.update_lease(lease))

    async def close(self) -> None:
        self._closed = True

    # --- the way there and back -----------------------------------------------------------------------------------

    async def _ask(self, verb: Verb, plural: str, subject: object, act: Callable[[], R]) -> R:
        """Make a request for a single object, with the latency `write_s`; `act` carries it out."""
        return await self._request(verb, plural, subject, self._latency.write_s, act)

    async def _request(self, verb: Verb, plural: str, subject: object, latency_s: float, act: Callable[[], R]) -> R:
        # 1. The way there, where it may be refused.
        fault = await self._begin(verb, plural, subject, latency_s / 2)
        # 2. The server carries it out.
        answer = act()
        # 3. The way back, where the answer may get lost.
        if latency_s:
            await asyncio.sleep(self._jittered(latency_s / 2))
        if fault is not None and fault.kind is FaultKind.LOST_ANSWER:
            raise Unreachable(f"injected fault: the answer to {verb.value} was lost")
        if self._cluster.is_down:
            raise Unreachable("the apiserver went down before it answered")
        return answer

    async def _begin(self, verb: Verb, plural: str, subject: object, latency_s: float) -> Fault | None:
        """Simulate a request's way to the apiserver.

        Raise the error if it is refused; else return the fault it meets, or None.
        """
        if self._closed:
            raise Unreachable("this client is closed")
        if latency_s:
            await asyncio.sleep(self._jittered(latency_s))
        fault = self.faults.draw(verb, plural, subject)
        if fault is not None:
            if fault.delay_s:
                await asyncio.sleep(fault.delay_s)
            error = refusal(fault, verb)
            if error is not None:
                raise error
        if self._cluster.is_down:
            raise Unreachable("connection refused: the apiserver is down")
        self.on_success()
        return fault

    def _jittered(self, seconds: float) -> float:
        jitter = self._latency.jitter
        return seconds * self._random.lognormvariate(0.0, jitter) if jitter else seconds


class _DirectBinds:
    """Writes bindings without a task for each; `write` returns False when faults are possible and a task is needed."""

    def __init__(self, client: ClusterClient, bind: Callable[[Binding], None], latency_s: float, limit: int) -> None:
        self._client = client
        self._bind = bind
        self._latency_s = latency_s
        self.limit = AdaptiveLimit(limit)
        self.limit.value = limit  # what carries them out here has no load

    def write(self, request: BindRequest) -> bool:
        client = self._client
        if not client.sends:
            return False
        if request.may_write():
            act = partial(self._bind, request.binding)
            client.send(act, self._latency_s, request.on_answer, request.on_overdue)
        else:
            asyncio.get_running_loop().call_soon(request.on_answer, not_leading(NOT_BOUND))
        return True

    def refuse_to(self, node: str) -> None:
        """Do nothing: no binding waits here before it is sent."""


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _page(store: Store[T], items: list[T], name: str, version: str, start: int, limit: int) -> Page[T]:
    end = start + limit if limit > 0 else len(items)
    if end >= len(items):
        return Page(items[start:] if start else items, version, "")
    name = name or store.keep_snapshot(items)
    return Page(items[start:end], version, f"{name}:{version}:{end}")


# --- documents: complete objects, made from the stored ones, which hold only the fields that decisions read -----------


_WHOLE: Mapping[type, Callable[[Any], Any]] = {NodeDocument: node_document, PodDocument: pod_document}


def _receive_whole(receive: Receive[Any], whole: Callable[[Any], Any], batch: list[WatchEvent[Any]]) -> None:
    receive(_events_of_documents(batch, whole))


def _events_of_documents(batch: list[WatchEvent[Any]], whole: Callable[[Any], Any]) -> list[WatchEvent[Any]]:
    return [event if event.object is None else structs.replace(event, object=whole(event.object)) for event in batch]
