"""The scheduler's informers, one for each kind of object, with their handlers."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from kscheduler.api.device_sharing import share_in_slice
from kscheduler.api.objects import Namespace, Pod, PodDisruptionBudget, Service
from kscheduler.api.pod_texts import PodTexts
from kscheduler.api.sharing import NodeSharing, PodSharing, keep_selector
from kscheduler.cache.cache import Cache
from kscheduler.client.informer import PROOF_S, Handler, Informer, KeepNewest
from kscheduler.client.kinds import (
    ELASTIC_QUOTAS,
    NAMESPACES,
    NODE_DOCUMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_DOCUMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    STATEFUL_SETS,
    UNFINISHED_PODS,
    Resource,
)
from kscheduler.client.outages import Outages
from kscheduler.client.protocol import Client
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.written_claims import WrittenClaims
from kscheduler.clock import Clock
from kscheduler.config.releases import Release
from kscheduler.cycle.waiting_pods import WaitingPod
from kscheduler.framework.nominations import Nominations
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.owners import REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, Owners
from kscheduler.snapshot.volumes import Volumes
from kscheduler.watch.device_events import DeviceEvents
from kscheduler.watch.eventhandlers import (
    ControllerEvents,
    NodeDocuments,
    NodeEvents,
    PodEvents,
    TimedEvents,
)
from kscheduler.watch.past_bindings import PastBindings
from kscheduler.watch.pod_documents import PodDocuments
from kscheduler.watch.volume_events import StorageEvents, storage_kinds

if TYPE_CHECKING:
    from kscheduler.quotas.elastic import ElasticQuotas

T = TypeVar("T")

# Seconds without an event after which a short second watch tests whether a watch still works. Shorter for pods and
# nodes, which decide where room is; in a quiet cluster these 2 and the other 17 informers cost 0.7 and 0.6 requests/s.
ROOM_SILENCE_S = 2.0
SILENCE_S = 10.0
# How long a test of other kinds may become while nothing changes: client-go finds a dead connection after 45 s.
LONGEST_PROOF_S = 30.0


@dataclass(frozen=True, slots=True)
class Listeners:
    """The parts of the scheduler that the watches keep up to date. `profiles`: the scheduler names of our profiles."""

    cache: Cache
    queue: SchedulingQueue
    profiles: Container[str]
    nominations: Nominations
    namespaces: Namespaces
    owners: Owners
    budgets: DisruptionBudgets
    volumes: Volumes
    devices: Devices
    written_claims: WrittenClaims  # recognises reports of claims as they were written
    release: Release  # of Kubernetes, which decides what kinds are watched for `devices`
    node_documents: NodeDocuments | None  # None: no extender or wasm plugin needs complete nodes
    pod_documents: PodDocuments | None  # None: no wasm plugin needs complete waiting pods
    elastic_quotas: ElasticQuotas | None  # None: no profile keeps them
    wake: Callable[[], None]  # called when there may be a pod to schedule
    past_bindings: PastBindings
    pods: dict[str, Pod]  # key -> unfinished pod; written by its informer alone
    on_gone: Callable[[str], None]  # the pod with this uid needs no PodScheduled condition any more
    waiting: Mapping[str, WaitingPod]  # pod uid -> its wait for Permit plugins
    on_node_gone: Callable[[str], None]  # nothing may be bound to the node of this name any more
    # Returns the handler that an informer calls in place of the one of its kind, which that calls in turn.
    around: Callable[[Resource[Any], Handler[Any]], Handler[Any]] = lambda resource, handler: handler
    # Further kinds to watch, with their handlers; an apiserver need not serve them.
    further: Sequence[tuple[Resource[Any], Handler[Any]]] = ()


class Watches:
    """All informers. That of pods comes last in `informers`, since pods refer to all other objects."""

    def __init__(
        self,
        client: Client,
        listeners: Listeners,
        *,
        clock: Clock,
        rng: random.Random,
        stopwatch: Callable[[], float],
        measurements: Measurements,
        pauses: RetryPauses | None,
        outages: Outages | None,
        prove_silent: bool,
        bound_since: Callable[[], str] | None,
    ) -> None:
        """Build the informers without starting them.

        `pauses`: retry pauses, shared by all clients of the apiserver; `outages` by its informers. `prove_silent`: test
        whether watches without events still work. `bound_since`: see `PodSharing`.
        """
        self._bound_since = bound_since
        self._pauses = pauses or RetryPauses(random.Random(0))
        self._outages = outages or Outages(clock)
        self._prove_silent = prove_silent
        self._client = client
        self._listeners = listeners
        self._clock = clock
        self._rng = rng
        self._stopwatch = stopwatch
        self._measure = measurements
        self.pods = self._of_pods()
        node_events = self._timed(self._node_events(), "Node")
        self.nodes = self._informer(NODES, node_events, keep=NodeSharing().keep)
        self.informers: tuple[Informer[Any], ...] = (
            self.nodes,
            *self._of_groups(),
            *self._of_storage(),
            *self._of_devices(),
            *self._of_quotas(),
            *(self._informer(*each, may_be_unknown=True) for each in listeners.further),
            *self._of_documents(),
            self.pods,
        )

    def _informer(
        self,
        resource: Resource[T],
        handler: Handler[T],
        field_selector: str = "",
        keep: Callable[[T], T | None] | None = None,
        store: dict[str, T] | None = None,
        *,
        may_be_unknown: bool = False,
    ) -> Informer[T]:
        return Informer(
            self._client,
            resource,
            self._listeners.around(resource, handler),
            clock=self._clock,
            rng=self._rng,
            field_selector=field_selector,
            keep=keep,
            may_be_unknown=may_be_unknown,
            measurements=self._measure,
            pauses=self._pauses,
            outages=self._outages,
            silence_s=self._silence_s(resource),
            longest_proof_s=PROOF_S if _has_room(resource) else LONGEST_PROOF_S,
            store=store,
        )

    def _silence_s(self, resource: Resource[Any]) -> float:
        if not self._prove_silent:
            return float("inf")
        return ROOM_SILENCE_S if _has_room(resource) else SILENCE_S

    def _timed(self, handler: Handler[T], name: str) -> TimedEvents[T]:
        return TimedEvents(handler, name, stopwatch=self._stopwatch, measurements=self._measure)

    def _of_pods(self) -> Informer[Pod]:
        """Return the informer of unfinished pods, which reads complete documents if wasm plugins need these."""
        events = self._pod_events()
        sharing = PodSharing(bound_since=self._bound_since)
        keep = sharing.keep
        documents = self._listeners.pod_documents
        if documents is None:
            pods = replace(PODS, read_line=PodTexts(sharing).read)
            return self._informer(pods, events, UNFINISHED_PODS, keep=keep, store=self._listeners.pods)
        whole: Resource[Any] = POD_DOCUMENTS
        handler, keep_read = documents.follow(events), documents.reader(keep)
        return self._informer(whole, handler, UNFINISHED_PODS, keep_read, self._listeners.pods)

    def _pod_events(self) -> PodEvents:
        to = self._listeners
        return PodEvents(
            to.cache,
            to.queue,
            to.profiles,
            to.nominations,
            clock=self._clock,
            measurements=self._measure,
            wake=to.wake,
            on_gone=to.on_gone,
            waiting=to.waiting,
            past_bindings=to.past_bindings,
            stopwatch=self._stopwatch,
        )

    def _node_events(self) -> NodeEvents:
        to = self._listeners
        return NodeEvents(
            to.cache,
            to.queue,
            clock=self._clock,
            measurements=self._measure,
            wake=to.wake,
            on_gone=to.on_node_gone,
        )

    def _of_groups(self) -> Iterator[Informer[Any]]:
        """Yield the informers of namespaces, Services, controllers and PodDisruptionBudgets, which requeue no pod."""
        to = self._listeners
        namespaces: Handler[Namespace] = KeepNewest(
            lambda each: to.namespaces.set(each.metadata.name, each.metadata.labels or {}),
            lambda each: to.namespaces.remove(each.metadata.name),
        )
        services: Handler[Service] = KeepNewest(
            lambda each: to.owners.set_service(each.metadata.namespace, each.metadata.name, each.spec.selector),
            lambda each: to.owners.remove_service(each.metadata.namespace, each.metadata.name),
        )
        budgets: Handler[PodDisruptionBudget] = KeepNewest(
            to.budgets.set, lambda each: to.budgets.remove(each.metadata.namespace, each.metadata.name)
        )
        yield self._informer(NAMESPACES, namespaces)
        handlers: tuple[tuple[Resource[Any], Handler[Any]], ...] = (
            (SERVICES, services),
            (REPLICATION_CONTROLLERS, ControllerEvents(to.owners, REPLICATION_CONTROLLER)),
            (REPLICA_SETS, ControllerEvents(to.owners, REPLICA_SET)),
            (STATEFUL_SETS, ControllerEvents(to.owners, STATEFUL_SET)),
        )
        for resource, handler in handlers:
            yield self._informer(resource, handler, keep=keep_selector)
        yield self._informer(POD_DISRUPTION_BUDGETS, budgets)

    def _of_storage(self) -> Iterator[Informer[Any]]:
        """Yield the informers of storage objects: claims, volumes, classes, drivers, capacities and attachments."""
        to = self._listeners
        for kind in storage_kinds(to.volumes):
            events: StorageEvents[Any] = StorageEvents(
                kind, to.queue, clock=self._clock, measurements=self._measure, wake=to.wake
            )
            yield self._informer(kind.resource, self._timed(events, events.name))

    def _of_devices(self) -> Iterator[Informer[Any]]:
        """Yield the informers of dynamic resource allocation, whose kinds an apiserver need not serve."""
        to = self._listeners
        events = DeviceEvents(to.devices, to.queue, clock=self._clock, wake=to.wake)
        for resource, handler, name in events.handlers(to.release):
            keep = share_in_slice if resource is RESOURCE_SLICES else None
            if resource is RESOURCE_CLAIMS:
                resource = replace(resource, read_line=to.written_claims.read)
            yield self._informer(resource, self._timed(handler, name), keep=keep, may_be_unknown=True)

    def _of_quotas(self) -> Iterator[Informer[Any]]:
        """Yield the informer of ElasticQuotas, whose CRD may be missing, if a profile keeps them."""
        to = self._listeners
        if to.elastic_quotas is not None:
            from kscheduler.watch.quota_events import QuotaEvents

            events = QuotaEvents(
                to.elastic_quotas, to.queue, clock=self._clock, measurements=self._measure, wake=to.wake
            )
            yield self._informer(ELASTIC_QUOTAS, events, may_be_unknown=True)

    def _of_documents(self) -> Iterator[Informer[Any]]:
        """Yield the informer of complete nodes, if an extender or a wasm plugin needs them."""
        if self._listeners.node_documents is not None:
            yield self._informer(NODE_DOCUMENTS, self._listeners.node_documents)


def _has_room(resource: Resource[Any]) -> bool:
    """Return True for the kinds that decide where room is."""
    return resource.plural in (PODS.plural, NODES.plural)
