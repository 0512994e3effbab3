"""Makes pods and nodes smaller before they are stored: equal parts become one object, unread fields are left out.

A cluster's pods come from few templates, so their containers, tolerations, labels and owners are stored once for all of
them. Objects are frozen, so that they can be shared; shared parts are also compared quickly, by identity. All that
scheduling, an out-of-tree plugin or a later write may read is kept. Only these are left out:

- volumes of kinds that `Volume` does not have, such as a service account's token, whose name is different in each pod;
- for a pod with a node, the times and texts of conditions that the kubelet and the scheduler update (except the time of
  a recent binding, if live metrics need it), and the statuses of containers without resources;
- annotations that repeat the whole object for kubectl.

The memory for finding equal parts is limited in bytes; parts that were not used for long are forgotten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import structs

from kscheduler.api.objects import (
    ContainerImage,
    ContainerStatus,
    Labels,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    QuantityMap,
    ReplicationController,
    Service,
    Volume,
    Workload,
)

T = TypeVar("T")

# Each table keeps two generations of at most this many bytes of keys. A template's key is about 600 bytes: room for
# 3,000 to 7,000 templates, and for many more parts of templates.
MAX_KEY_BYTES = 2 << 20
_PER_KEY = (
    200  # what an entry takes beside its key's own bytes, about: the bytes object, its place in the dict, the value
)
_MAX_STRINGS = 16_384

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Conditions whose times and texts nobody reads once a pod has a node. Others, DisruptionTarget among them, stay whole.
_ROUTINE: Final = frozenset({"PodReadyToStartContainers", "PodScheduled", "Initialized", "ContainersReady", "Ready"})

_encode = msgspec.msgpack.Encoder().encode


class Shared(Generic[T]):
    """Stores one object for all equal ones. Two values are equal if their msgpack encodings are equal."""

    def __init__(self, max_key_bytes: int = MAX_KEY_BYTES) -> None:
        self._most = max_key_bytes
        self._bytes = 0  # of the young keys
        self.young: dict[bytes, T] = {}  # key -> value; looked into directly where a call counts
        self._old: dict[bytes, T] = {}  # forgotten unless asked for before the young have become too many

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def find(self, key: bytes) -> T | None:
        found = self.young.get(key)
        if found is None and (found := self._old.pop(key, None)) is not None:
            self.keep(key, found)
        return found

    def keep(self, key: bytes, value: T) -> None:
        self._bytes += len(key) + _PER_KEY
        if self._bytes > self._most:
            self._old, self.young, self._bytes = self.young, {}, len(key) + _PER_KEY
        self.young[key] = value

    def clear(self) -> None:
        self.young, self._old, self._bytes = {}, {}, 0

    def get(self, value: T, kind: bytes = b"") -> T:
        """Return the stored object that is equal to this one, or store this one.

        `kind` has to distinguish values that are no substitutes for each other though their encodings are equal:
        an empty Affinity, empty ResourceRequirements and an empty mapping are the same bytes.
        """
        try:
            key = kind + _encode(value)
        except _NO_KEY:
            return value
        found = self.young.get(key)
        if found is None and (found := self.find(key)) is None:
            self.keep(key, value)
            return value
        return found


class Strings(dict[str, str]):
    """Stores one object for equal strings, such as names of nodes and namespaces: `strings[text]` returns it.

    It is a dict of recently used strings, so that finding one needs no call; older ones are forgotten if not used
    again.
    """

    def __init__(self, most: int = _MAX_STRINGS) -> None:
        super().__init__()
        self._most = most
        self._old: dict[str, str] = {}

    def __missing__(self, text: str) -> str:
        found = self._old.pop(text, text)
        if len(self) >= self._most:
            self._old = dict(self)
            self.clear()
        self[found] = found
        return found


# A value has no msgpack: a number beyond 64 bits, text that is not Unicode.
_NO_KEY = (ValueError, OverflowError)


# --- pods -------------------------------------------------------------------------------------------------------

# All fields of a spec but the node's name, which comes first and is the pod's own.
_SPEC_FIELDS = PodSpec.__struct_fields__[1:]
_spec_parts = attrgetter(*_SPEC_FIELDS)
_VOLUMES = _SPEC_FIELDS.index("volumes")
_LABELS, _ANNOTATIONS, _OWNERS = range(3)  # the parts of a template that come from the metadata
PENDING = 3  # the spec of its pods that have no node
OF_SPEC = 4
_META_KINDS = tuple(bytes((part,)) for part in (_LABELS, _ANNOTATIONS, _OWNERS))
_SPEC_KINDS = tuple(bytes((OF_SPEC + field,)) for field in range(len(_SPEC_FIELDS)))

PodParts = tuple[Any, ...]  # labels, annotations, owners, the spec without a node, the fields of the spec


class PodSharing:
    """Makes equal parts of pods shared, to save memory: `keep` returns such a pod. One instance serves one informer."""

    def __init__(self, max_key_bytes: int = MAX_KEY_BYTES, *, bound_since: Callable[[], str] | None = None) -> None:
        """Create an empty store.

        `bound_since` returns an RFC 3339 time in UTC; for pods bound since then, the time is kept.
        """
        self._bound_since = bound_since
        self._templates: Shared[PodParts] = Shared(max_key_bytes)
        self._statuses: Shared[PodStatus] = Shared(max_key_bytes)
        self._parts: Shared[Any] = Shared(max_key_bytes)  # for pods whose template is theirs alone, as a Job's pods are
        self.strings = Strings()

    def keep(self, pod: Pod) -> Pod:
        meta, spec, status = pod.metadata, pod.spec, pod.status
        parts = self.template(meta, spec)
        texts = self.strings
        created, node_name = meta.creation_timestamp, spec.node_name
        return Pod(
            ObjectMeta(
                meta.name,
                texts[meta.namespace],
                meta.uid,
                meta.resource_version,
                meta.generation,
                parts[_LABELS],
                parts[_ANNOTATIONS],
                created and texts[created],
                meta.deletion_timestamp,
                parts[_OWNERS],
            ),
            PodSpec(texts[node_name], *parts[OF_SPEC:]) if node_name else parts[PENDING],
            self.share_status(status, bool(node_name)),
        )

    def template(self, meta: ObjectMeta, spec: PodSpec) -> PodParts:
        """Return the parts that a pod shares with others of its template."""
        of_spec = _spec_parts(spec)
        if of_spec[_VOLUMES]:
            # A volume that equals its name alone says nothing more.
            volumes = [volume for volume in of_spec[_VOLUMES] if volume != Volume(volume.name)] or None
            of_spec = (*of_spec[:_VOLUMES], volumes, *of_spec[_VOLUMES + 1 :])
        annotations = meta.annotations
        if annotations is not None and LAST_APPLIED in annotations:
            annotations = _worth_keeping(annotations)
        of_meta = (meta.labels, annotations, meta.owner_references)
        try:
            key = _encode((of_meta, of_spec))
        except _NO_KEY:
            return *of_meta, PodSpec("", *of_spec), *of_spec
        found = self._templates.young.get(key)
        if found is None and (found := self._templates.find(key)) is None:
            of_spec = tuple(map(self._part, of_spec, _SPEC_KINDS))
            found = (*map(self._part, of_meta, _META_KINDS), PodSpec("", *of_spec), *of_spec)
            self._templates.keep(key, found)
        return found

    def _part(self, part: Any, kind: bytes) -> Any:
        return self._parts.get(part, kind) if isinstance(part, (list, dict, msgspec.Struct)) else part

    def share_status(self, status: PodStatus, is_bound: bool) -> PodStatus:
        """Return the status as a shared object, except for what differs in each pod: its start time and its claims."""
        if status == _NEW:
            return _NEW
        started = status.start_time
        claims, extended = status.resource_claim_statuses, status.extended_resource_claim_status
        of_node = status.node_allocatable_resource_claim_statuses
        is_own = not (started is None and claims is None and extended is None and of_node is None)
        if is_own or is_bound:
            containers, inits = status.container_statuses, status.init_container_statuses
            status = PodStatus(
                status.phase,
                status.nominated_node_name,
                None,
                self._settled(status.conditions) if is_bound else status.conditions,
                status.resources,
                status.allocated_resources,
                _of_resources(containers) if is_bound and containers else containers,
                _of_resources(inits) if is_bound and inits else inits,
            )
        status = self._statuses.get(status)
        if not is_own:
            return status
        at = started and self.strings[started]
        return PodStatus(
            status.phase,
            status.nominated_node_name,
            at,
            status.conditions,
            status.resources,
            status.allocated_resources,
            status.container_statuses,
            status.init_container_statuses,
            claims,
            extended,
            of_node,
        )

    def _settled(self, conditions: list[PodCondition] | None) -> list[PodCondition] | None:
        if not conditions:
            return None
        return [
            _condition(each.type, each.status, each.reason, self._bound_at(each)) if each.type in _ROUTINE else each
            for each in conditions
        ]

    def _bound_at(self, condition: PodCondition) -> str | None:
        at = condition.last_transition_time
        if self._bound_since is None or at is None or condition.type != "PodScheduled":
            return None
        return self.strings[at] if at >= self._bound_since() else None  # such texts sort by time


_NEW = PodStatus("Pending")  # of a pod that nobody has reported on yet


def _worth_keeping(annotations: Labels | None) -> Labels | None:
    if annotations is None or LAST_APPLIED not in annotations:
        return annotations
    return {name: value for name, value in annotations.items() if name != LAST_APPLIED} or None


@functools.lru_cache(maxsize=1_024)
def _condition(type: str, status: str, reason: str, at: str | None) -> PodCondition:
    return PodCondition(type, status, reason, last_transition_time=at)


def _of_resources(statuses: list[ContainerStatus]) -> list[ContainerStatus] | None:
    return [each for each in statuses if each.resources is not None or each.allocated_resources] or None


# --- nodes ------------------------------------------------------------------------------------------------------


class NodeSharing:
    """Makes equal amounts, conditions and images of nodes shared, to save memory: `keep` returns such a node."""

    def __init__(self) -> None:
        self._specs: Shared[NodeSpec] = Shared()
        self._amounts: Shared[QuantityMap] = Shared()
        self._conditions: Shared[list[NodeCondition]] = Shared()
        self._features: Shared[list[str]] = Shared()
        self._images: Shared[ContainerImage] = Shared()
        self.strings = Strings()

    def keep(self, node: Node) -> Node:
        meta, status = node.metadata, node.status
        return Node(
            ObjectMeta(
                self.strings[meta.name],
                meta.namespace,
                meta.uid,
                meta.resource_version,
                meta.generation,
                self._values(meta.labels),
                self._values(_worth_keeping(meta.annotations)),
                meta.creation_timestamp,
                meta.deletion_timestamp,
                meta.owner_references,
            ),
            self._specs.get(node.spec),
            NodeStatus(
                status.capacity and self._amounts.get(status.capacity),
                status.allocatable and self._amounts.get(status.allocatable),
                status.images and [self._images.get(image) for image in status.images],
                status.conditions and self._conditions.get(status.conditions),
                status.declared_features and self._features.get(status.declared_features),
            ),
        )

    def _values(self, pairs: Labels | None) -> Labels | None:
        """Share the values of a node's labels: most also occur on other nodes, though the labels as a whole do not."""
        texts = self.strings
        return None if pairs is None else {texts[name]: texts[value] for name, value in pairs.items()}


# --- controllers and services -----------------------------------------------------------------------------------

C = TypeVar("C", Service, ReplicationController, Workload)


def keep_selector(controller: C) -> C:
    """Keep only the selector of a controller; a Deployment has up to ten old ReplicaSets, with all their labels."""
    meta = controller.metadata
    identity = ObjectMeta(meta.name, meta.namespace, meta.uid, meta.resource_version)
    return structs.replace(controller, metadata=identity)
