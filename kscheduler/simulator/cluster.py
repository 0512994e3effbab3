"""Simulates an apiserver in memory, with the semantics that a scheduler relies on.

The methods here are synchronous and have no latency; `client()` returns a client as a scheduler uses it, with latency,
faults and outages. As in the real apiserver, all kinds share one resource version, updates are checked for conflicts,
bindings follow its rules, conditions are merged by type, and a patch that changes nothing makes no new version.
Not modelled: validation, quota, garbage collection, the statuses of disruption budgets, kubelets (a bound pod stays
Pending until `update_pod` sets another phase).
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from msgspec import to_builtins
from msgspec.structs import replace

from kscheduler.api.defaults import node_with_defaults
from kscheduler.api.devices import ClaimMeta, DeviceObject, ResourceClaim
from kscheduler.api.elastic_quotas import ElasticQuotaStatus
from kscheduler.api.grace_period import grace_s
from kscheduler.api.objects import (
    Lease,
    Node,
    ObjectMeta,
    Pod,
    PodCondition,
    PodStatus,
    QuantityMap,
)
from kscheduler.api.pod_groups import CoschedulingPodGroup, GroupCondition, PodGroup
from kscheduler.api.share_queues import QueueStatus
from kscheduler.api.storage import StorageClass, StorageObject
from kscheduler.client.kinds import (
    DEVICES,
    ELASTIC_QUOTAS,
    GROUPS,
    KAI_QUEUES,
    LEASES,
    METRIC_POLICIES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SHARE_QUEUES,
    STORAGE,
    STORAGE_CLASSES,
    TAS_POLICIES,
    Resource,
)
from kscheduler.client.merge_patch import merge, patched, versioned
from kscheduler.client.pod_group_kinds import COMPOSITE_POD_GROUPS, COSCHEDULING_POD_GROUPS, pod_groups
from kscheduler.client.protocol import Binding, Event, PodStatusPatch
from kscheduler.client.times import rfc3339
from kscheduler.clock import Clock
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import Conflict, NotFound
from kscheduler.input.decoding import convert
from kscheduler.simulator.cluster_client import ClusterClient, Latency
from kscheduler.simulator.defaulting import PodDefaults, object_with_defaults
from kscheduler.simulator.faults import Faults
from kscheduler.simulator.store import Store

T = TypeVar("T", Pod, Node, Lease)

FINISHED = ("Succeeded", "Failed")
# The kinds that `create_object` creates. It finds the kind by the object's struct; some kinds of workloads share one.
OBJECTS = (
    *GROUPS,
    *STORAGE,
    *DEVICES,
    RESOURCE_CLAIM_TEMPLATES,
    METRIC_POLICIES,
    TAS_POLICIES,
    ELASTIC_QUOTAS,
    SHARE_QUEUES,
    KAI_QUEUES,
    COSCHEDULING_POD_GROUPS,
    COMPOSITE_POD_GROUPS,
)
_KIND_OF: dict[type[Any], Resource[Any]] = {resource.type: resource for resource in OBJECTS}
_KIND_OF[PodGroup] = pod_groups(DEFAULT_RELEASE)  # of whatever version the cluster has
HISTORY_LIMIT = 100_000  # changes of each kind that watches can start from
BOOKMARK_INTERVAL_S = 60.0  # how often a watch without events gets a bookmark, as from the apiserver's watch cache
MAX_PREFIX = 58  # of a generateName, so that the name has at most 63 characters
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
MAX_EVENTS = 10_000  # Events kept; older ones are dropped, as a real cluster drops them after an hour


def _kind_of(resource: Resource[Any]) -> tuple[str, str]:
    """Return group and plural of a kind: a cluster has one version of each."""
    group, _, version = resource.group_version.rpartition("/")
    return group or version, resource.plural


class Cluster:
    """Holds the objects of one simulated cluster. `clock` gives timestamps; `seed` determines the uids.

    Objects get the defaults that the apiserver of `release` sets.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        history_limit: int = HISTORY_LIMIT,
        bookmark_interval_s: float = BOOKMARK_INTERVAL_S,
        release: Release = DEFAULT_RELEASE,
    ) -> None:
        self.clock = clock
        self._wall = clock.wall
        self.bookmark_interval_s = bookmark_interval_s
        self.has_group_claims = release.has_group_claims  # as a real cluster with that gate of the apiserver
        self.version = 0  # resource version of the last change to any object
        self._random = random.Random(seed)
        self._pod_defaults = PodDefaults(completes_pod_level_requests=release.completes_pod_level_requests)
        self._second = -1  # Unix time of the last timestamp, which the objects of one second share
        self._timestamp = ""
        self._last_bound = PodStatus(), "", PodStatus()  # of the last binding: the status before, when, and after
        self._pods: Store[Pod] = Store(PODS, history_limit)
        self._nodes: Store[Node] = Store(NODES, history_limit)
        self._leases: Store[Lease] = Store(LEASES, history_limit)
        stores: list[Store[Any]] = [self._pods, self._nodes, self._leases]
        stores += [Store(resource, history_limit) for resource in (*OBJECTS, pod_groups(release))]
        self._stores = {_kind_of(store.resource): store for store in stores}
        self._events: OrderedDict[str, Event] = OrderedDict()  # namespace/name -> Event, oldest first
        self.event_counts: Counter[str] = Counter()  # reason -> Events created (a series counts once)
        self.is_down = False
        self.aggregated: dict[str, Callable[[str], bytes]] = {}  # "/apis/GROUP/VERSION" -> handler of paths below it

    def _now(self) -> str:
        """Return the time as objects state it, in whole seconds."""
        second = int(self._wall())
        if second != self._second:
            self._second, self._timestamp = second, rfc3339(second)
        return self._timestamp

    # --- reading --------------------------------------------------------------------------------------------------

    def get_aggregated(self, path: str) -> bytes:
        served = self.aggregated.get("/".join(path.split("/")[:4]))
        if served is None:
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")
        return served(path)

    @property
    def pods(self) -> dict[str, Pod]:
        """The pods by `namespace/name`. The dictionary is the cluster's own and must not be changed."""
        return self._pods.objects

    @property
    def nodes(self) -> dict[str, Node]:
        return self._nodes.objects

    @property
    def leases(self) -> dict[str, Lease]:
        return self._leases.objects

    @property
    def events(self) -> list[Event]:
        """Return the last MAX_EVENTS Events, oldest first."""
        return list(self._events.values())

    def store(self, resource: Resource[Any]) -> Store[Any]:
        store = self._stores.get(_kind_of(resource))
        if store is None:
            raise NotFound(f"the server could not find the requested resource: {resource.path}", status=404)
        return store

    def client(
        self,
        *,
        latency: Latency | None = None,
        faults: Faults | None = None,
        seed: int = 0,
        by_events: bool = False,
    ) -> ClusterClient:
        """Return a client (`client.protocol.Client`) of this cluster; a cluster may have several.

        `by_events` makes bindings and Events cheaper, see `ClusterClient`.
        """
        source = random.Random(seed)
        return ClusterClient(self, latency or Latency(), faults or Faults(seed), source, by_events=by_events)

    # --- outages --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Simulate an apiserver outage: watches break and requests get no answer. Objects are kept, as in etcd."""
        self.is_down = True
        for store in self._stores.values():
            store.cut_watches()

    def start(self) -> None:
        self.is_down = False

    def compact(self) -> None:
        """Drop the history of changes, as etcd does every five minutes.

        Older watches and continue tokens then get 410 Gone.
        """
        for store in self._stores.values():
            store.compact()

    # --- pods -----------------------------------------------------------------------------------------------------

    def create_pod(self, pod: Pod) -> Pod:
        metadata, spec, status = self._pod_defaults.apply(pod)
        key = f"{metadata.namespace}/{metadata.name}"
        if key in self._pods.objects:
            raise _already_exists(PODS.plural, metadata.name)
        self.version = version = self.version + 1
        created = Pod(self._created(metadata, version), spec, status)
        self._pods.commit(key, version, created)
        return created

    def get_pod(self, namespace: str, name: str) -> Pod:
        return self._existing_pod(f"{namespace}/{name}", "")

    def update_pod(self, pod: Pod) -> Pod:
        """Replace a pod. Raises Conflict if `pod` carries a resource version other than the stored one."""
        return self._update(self._pods, pod)

    def delete_pod(self, key: str, *, gracefully: bool = False) -> None:
        """Remove the pod at once. If `gracefully`, only set its deletion timestamp; a second call removes it."""
        pod = self._existing_pod(key, "")
        if gracefully and pod.metadata.deletion_timestamp is None:
            metadata = replace(pod.metadata, deletion_timestamp=self._now())
            self._put(self._pods, replace(pod, metadata=metadata))
            return
        self.version += 1
        self._pods.commit(key, self.version, None)

    def terminate_pod(self, key: str, *, uid: str = "") -> None:
        """Delete a pod as the API's DELETE does: a pod on a node only gets a deletion timestamp.

        The caller plays the kubelet's part, and removes the pod after its grace period (`grace_s`). Pods without a
        node, finished pods and pods with a grace period of zero are removed at once; a pod that is already terminating
        stays as it is.
        """
        pod = self._existing_pod(key, uid)
        if not pod.spec.node_name or pod.status.phase in FINISHED or not grace_s(pod):
            self._remove(self._pods, key)
        elif pod.metadata.deletion_timestamp is None:
            ends = rfc3339(self.clock.wall() + grace_s(pod))
            self._put(self._pods, replace(pod, metadata=replace(pod.metadata, deletion_timestamp=ends)))

    def bind(self, binding: Binding) -> None:
        """Bind a pod as POST pods/binding does. As in the apiserver, the node need not exist."""
        key = f"{binding.namespace}/{binding.name}"
        pod = self._pods.objects.get(key)
        if pod is None:
            raise _not_found("pods", binding.name)
        metadata, spec = pod.metadata, pod.spec
        if (
            metadata.uid != binding.uid  # a binding without a uid is one for any pod of this name
            or metadata.deletion_timestamp is not None
            or spec.node_name
            or spec.scheduling_gates
        ) and (problem := _binding_problem(pod, binding)):
            message = f'Operation cannot be fulfilled on pods/binding "{binding.name}": {problem}'
            raise Conflict(message, status=409, reason="Conflict")
        self.version = version = self.version + 1
        metadata = replace(metadata, resource_version=str(version))
        bound = Pod(metadata, replace(spec, node_name=binding.node), self._bound_status(pod.status))
        self._pods.commit(key, version, bound)

    def _bound_status(self, status: PodStatus) -> PodStatus:
        """Return the status of a pod that is bound now. Pods of one status that are bound in one second share it."""
        now = self._now()
        before, when, bound = self._last_bound
        if before is status and when == now:
            return bound
        if status.conditions:
            bound = _with_condition(status, PodCondition(type="PodScheduled", status="True"), now)
        else:
            bound = replace(status, conditions=[PodCondition("PodScheduled", "True", last_transition_time=now)])
        if bound.nominated_node_name:
            bound = replace(bound, nominated_node_name="")
        self._last_bound = status, now, bound
        return bound

    def patch_pod_status(self, pod: Pod, patch: PodStatusPatch) -> None:
        """Merge a patch into the status of the pod with this uid; a patch that changes nothing makes no new version."""
        current = self._existing_pod(pod.key, pod.metadata.uid)
        status = current.status
        if patch.condition is not None:
            status = _with_condition(status, patch.condition, self._now())
        if patch.nominated_node_name is not None and patch.nominated_node_name != status.nominated_node_name:
            status = replace(status, nominated_node_name=patch.nominated_node_name)
        extended = patch.extended_resource_claim_status
        if extended is not None and extended != status.extended_resource_claim_status:
            status = replace(status, extended_resource_claim_status=extended)
        of_node = patch.node_allocatable_resource_claim_statuses
        if of_node is not None and (of_node or None) != status.node_allocatable_resource_claim_statuses:
            status = replace(status, node_allocatable_resource_claim_statuses=of_node or None)
        if status is not current.status:
            self._put(self._pods, replace(current, status=status))

    def annotate_pod(self, key: str, uid: str, annotations: Mapping[str, str]) -> None:
        """Add annotations to the pod with this uid; a call that changes nothing makes no new version."""
        current = self._existing_pod(key, uid)
        merged = {**(current.metadata.annotations or {}), **annotations}
        if merged != (current.metadata.annotations or {}):
            self._put(self._pods, replace(current, metadata=replace(current.metadata, annotations=merged)))

    def _existing_pod(self, key: str, uid: str) -> Pod:
        pod = self._pods.objects.get(key)
        if pod is None or (uid and pod.metadata.uid != uid):
            raise _not_this_one(PODS, key, uid, pod)
        return pod

    # --- nodes ----------------------------------------------------------------------------------------------------

    def create_node(self, node: Node) -> Node:
        return self._create(self._nodes, node_with_defaults(node))

    def update_node(self, node: Node) -> Node:
        """Replace a node's spec and status.

        Raises Conflict if `node` carries a resource version other than the stored one.
        """
        return self._update(self._nodes, node)

    def delete_node(self, name: str) -> None:
        self.delete_object(NODES, name)

    # --- groups, storage and policies -------------------------------------------------------------------------------

    def create_object(self, item: Any, resource: Resource[Any] | None = None) -> Any:
        """Create an object of one of the kinds in OBJECTS.

        `resource` is needed only if several kinds share the object's struct. Policies are not validated, and a claim
        stays unbound until a volume controller binds it.
        """
        classes: dict[str, StorageClass] = self.store(STORAGE_CLASSES).objects
        store = self.store(resource or _KIND_OF[type(item)])
        if isinstance(item, ResourceClaim) and item.metadata.generate_name and not item.metadata.name:
            name = item.metadata.generate_name[:MAX_PREFIX] + _suffix(self._random)
            item = replace(item, metadata=replace(item.metadata, name=name))
        return self._create(store, object_with_defaults(item, classes.values()))

    def update_object(self, item: Any, resource: Resource[Any] | None = None) -> Any:
        """Replace the object. Raises Conflict if `item` carries a resource version other than the stored one."""
        return self._update(self.store(resource or _KIND_OF[type(item)]), item)

    def delete_object(self, resource: Resource[Any], key: str) -> None:
        """Delete an object at once.

        Unlike in a real cluster, no finalizer protects a volume or claim that is in use.
        """
        if key not in self.store(resource).objects:
            raise _not_found(resource.plural, key.rpartition("/")[2])
        self._remove(self.store(resource), key)

    def patch_object(self, resource: Resource[Any], key: str, resource_version: str, patch: dict[str, object]) -> Any:
        """Apply a merge patch to an object, if it still has this resource version.

        Changing nothing makes no new version.
        """
        store: Store[Any] = self.store(resource)
        current = store.objects.get(key)
        if current is None:
            raise _not_found(resource.plural, key.rpartition("/")[2])
        changed = patched(current, versioned(patch, resource_version))
        return current if changed == current else self._update(store, changed)

    # --- resource claims ------------------------------------------------------------------------------------------

    def get_claim(self, key: str) -> ResourceClaim:
        claim: ResourceClaim | None = self.store(RESOURCE_CLAIMS).objects.get(key)
        if claim is None:
            raise _not_found(RESOURCE_CLAIMS.plural, key.rpartition("/")[2])
        return claim

    def release_claim(self, key: str, uid: str, consumer: str) -> ResourceClaim:
        """Take the consumer with this uid out of a claim's `reservedFor`; without it there, nothing changes."""
        claim: ResourceClaim = self._with_uid(RESOURCE_CLAIMS, key, uid)
        reserved = claim.status.reserved_for or []
        kept = [each for each in reserved if each.uid != consumer]
        if len(kept) == len(reserved):
            return claim
        released = replace(claim, status=replace(claim.status, reserved_for=kept or None))
        store: Store[Any] = self.store(RESOURCE_CLAIMS)
        put: ResourceClaim = self._put(store, released)
        return put

    def delete_claim(self, key: str) -> None:
        """Delete a claim as the API does: while it has finalizers, it only gets a deletion timestamp."""
        claim = self.get_claim(key)
        if not claim.metadata.finalizers:
            self._remove(self.store(RESOURCE_CLAIMS), key)
        elif claim.metadata.deletion_timestamp is None:
            metadata = replace(claim.metadata, deletion_timestamp=self._now())
            self._put(self.store(RESOURCE_CLAIMS), replace(claim, metadata=metadata))

    def patch_condition(self, resource: Resource[Any], key: str, uid: str, condition: GroupCondition) -> None:
        """Merge a condition into the status of a PodGroup, as a strategic merge patch does."""
        current: PodGroup = self._with_uid(resource, key, uid)
        old = {each.type: each for each in current.status.conditions or ()}
        before = old.get(condition.type)
        if condition.last_transition_time is None and before is not None:
            condition = replace(condition, last_transition_time=before.last_transition_time)
        if condition != before:
            conditions = list({**old, condition.type: condition}.values())
            self._put(self.store(resource), replace(current, status=replace(current.status, conditions=conditions)))

    def patch_group_status(self, group: CoschedulingPodGroup, status: Mapping[str, object]) -> None:
        """Apply a merge patch to the status of this version of Coscheduling's PodGroup."""
        self._with_uid(COSCHEDULING_POD_GROUPS, group.key, group.metadata.uid)
        patch: dict[str, object] = {"status": dict(status)}
        self.patch_object(COSCHEDULING_POD_GROUPS, group.key, group.metadata.resource_version, patch)

    def patch_policy_status(self, key: str, uid: str, status: Mapping[str, object]) -> None:
        """Apply a merge patch to a MetricPolicy's status; a patch that changes nothing makes no new version."""
        current = self._with_uid(METRIC_POLICIES, key, uid)
        merged = merge(current.status, dict(status))
        if merged != current.status:
            self._put(self.store(METRIC_POLICIES), replace(current, status=merged))

    def patch_quota_status(self, key: str, uid: str, status: Mapping[str, object]) -> None:
        """Apply a merge patch to an ElasticQuota's status; a patch that changes nothing makes no new version."""
        current = self._with_uid(ELASTIC_QUOTAS, key, uid)
        merged = merge({"used": current.status.used or {}}, dict(status))
        patched = ElasticQuotaStatus(used=cast(QuantityMap, merged["used"]) or None)
        if patched != current.status:
            self._put(self.store(ELASTIC_QUOTAS), replace(current, status=patched))

    def patch_queue_status(self, key: str, uid: str, status: Mapping[str, object]) -> None:
        """Apply a merge patch to a Queue's status; a patch that changes nothing makes no new version."""
        current = self._with_uid(SHARE_QUEUES, key, uid)
        patched = convert(merge(to_builtins(current.status), dict(status)), QueueStatus)
        if patched != current.status:
            self._put(self.store(SHARE_QUEUES), replace(current, status=patched))

    def _with_uid(self, resource: Resource[Any], key: str, uid: str) -> Any:
        """Return an object. Raises NotFound, or Conflict if it has another uid; "" stands for any."""
        current = self.store(resource).objects.get(key)
        if current is None or (uid and current.metadata.uid != uid):
            raise _not_this_one(resource, key, uid, current)
        return current

    # --- leases ---------------------------------------------------------------------------------------------------

    def get_lease(self, namespace: str, name: str) -> Lease:
        lease = self._leases.objects.get(f"{namespace}/{name}")
        if lease is None:
            raise _not_found("leases.coordination.k8s.io", name)
        return lease

    def create_lease(self, lease: Lease) -> Lease:
        return self._create(self._leases, lease)

    def update_lease(self, lease: Lease) -> Lease:
        return self._update(self._leases, lease)

    # --- events ---------------------------------------------------------------------------------------------------

    def create_event(self, event: Event) -> None:
        key = f"{event.namespace}/{event.name}"
        if key in self._events:
            raise _already_exists("events.events.k8s.io", event.name)
        self._events[key] = event
        self.event_counts[event.reason] += 1
        if len(self._events) > MAX_EVENTS:
            self._events.popitem(last=False)

    def patch_event_series(self, event: Event) -> None:
        key = f"{event.namespace}/{event.name}"
        if key not in self._events:
            raise _not_found("events.events.k8s.io", event.name)
        self._events[key] = event

    # --- any object -----------------------------------------------------------------------------------------------

    def _create(self, store: Store[T], item: T) -> T:
        key = item.key
        if key in store.objects:
            raise _already_exists(store.resource.plural, item.metadata.name)
        self.version = version = self.version + 1
        item = replace(item, metadata=self._created(item.metadata, version))
        store.commit(key, version, item)
        return item

    def _created(self, metadata: ObjectMeta, version: int) -> ObjectMeta:
        """Return a new object's metadata, with what the apiserver sets."""
        return replace(
            metadata,
            uid=metadata.uid or _uid(self._random),
            creation_timestamp=metadata.creation_timestamp or self._now(),
            resource_version=str(version),
        )

    def _update(self, store: Store[T], item: T) -> T:
        current = store.objects.get(item.key)
        if current is None:
            raise _not_found(store.resource.plural, item.metadata.name)
        given = item.metadata.resource_version
        if given and given != current.metadata.resource_version:
            raise Conflict(
                f'Operation cannot be fulfilled on {store.resource.plural} "{item.metadata.name}": the object has been '
                "modified; please apply your changes to the latest version and try again",
                status=409,
                reason="Conflict",
            )
        metadata = _kept(item.metadata, current.metadata)
        updated = self._put(store, replace(item, metadata=metadata))
        if isinstance(metadata, ClaimMeta) and metadata.deletion_timestamp is not None and not metadata.finalizers:
            self._remove(store, updated.key)  # the last finalizer held it
        return updated

    def _put(self, store: Store[T], item: T, **changed: object) -> T:
        """Store the object under a new version. `changed`: fields that change with it."""
        self.version = version = self.version + 1
        metadata = replace(item.metadata, resource_version=str(version))
        item = replace(item, metadata=metadata, **changed)
        store.commit(item.key, version, item)
        return item

    def _remove(self, store: Store[T], key: str) -> None:
        self.version += 1
        store.commit(key, self.version, None)


def in_order_of_use(items: Iterable[StorageObject | DeviceObject]) -> list[StorageObject | DeviceObject]:
    """Sort storage and devices so that each kind comes after those that it names.

    PersistentVolumeClaims come after StorageClasses, whose default one they get when they are created.
    """
    kinds = (*STORAGE, RESOURCE_CLAIM_TEMPLATES, *DEVICES)
    order = {resource.type: number for number, resource in enumerate(kinds)}
    return sorted(items, key=lambda item: order[type(item)])


def _kept(new: ObjectMeta, current: ObjectMeta) -> ObjectMeta:
    """Return an update's metadata with the fields that no update can change: uid, creation and deletion timestamps."""
    return replace(
        new,
        uid=current.uid,
        creation_timestamp=current.creation_timestamp,
        deletion_timestamp=current.deletion_timestamp,
    )


def _binding_problem(pod: Pod, binding: Binding) -> str:
    """Return why the apiserver refuses this binding, or ""."""
    if binding.uid and pod.metadata.uid != binding.uid:
        return _failed_precondition(binding.uid, pod.metadata.uid)
    if pod.metadata.deletion_timestamp is not None:
        return f"pod {pod.metadata.name} is being deleted, cannot be assigned to a host"
    if pod.spec.node_name:
        return f'pod {pod.metadata.name} is already assigned to node "{pod.spec.node_name}"'
    if pod.spec.scheduling_gates:
        return f"pod {pod.metadata.name} has non-empty .spec.schedulingGates"
    return ""


def _with_condition(status: PodStatus, condition: PodCondition, now: str) -> PodStatus:
    """Return the status with a condition merged in by its type; `status` itself if that changes nothing."""
    old = status.conditions or []
    same_type = next((other for other in old if other.type == condition.type), None) if old else None
    if condition.last_transition_time is None:
        changed = same_type is None or same_type.status != condition.status
        when = now if changed or same_type is None else same_type.last_transition_time
        condition = replace(condition, last_transition_time=when)
    if condition == same_type:
        return status
    others = [other for other in old if other is not same_type]
    return replace(status, conditions=[*others, condition])


def _suffix(source: random.Random) -> str:
    """Return what the apiserver appends to a generateName."""
    return "".join(source.choices(SUFFIX_LETTERS, k=5))


def _uid(source: random.Random) -> str:
    text = f"{source.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _not_found(plural: str, name: str) -> NotFound:
    return NotFound(f'{plural} "{name}" not found', status=404, reason="NotFound")


def _not_this_one(resource: Resource[Any], key: str, uid: str, found: Any) -> NotFound | Conflict:
    """Return the answer to a request for the object with this uid, where `found` is of that name: None, or another."""
    name = key.rpartition("/")[2]
    if found is None:
        return _not_found(resource.plural, name)
    problem = _failed_precondition(uid, found.metadata.uid)
    return Conflict(
        f'Operation cannot be fulfilled on {resource.plural} "{name}": {problem}', status=409, reason="Conflict"
    )


def _failed_precondition(wanted_uid: str, uid: str) -> str:
    return f"Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {uid}"


def _already_exists(plural: str, name: str) -> Conflict:
    return Conflict(f'{plural} "{name}" already exists', status=409, reason="AlreadyExists")
