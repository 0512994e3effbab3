"""Reads pods, nodes, storage, devices with their claims, pod groups and others from files, as kubectl prints them.

The file may be YAML (any number of documents) or JSON, with or without lists, such as the output of `kubectl get
nodes,pods -A -o json`. Objects of other kinds are counted and left out. Everything but a policy's spec is checked, and
the first error is reported with file, document, item, object, field and value. No defaults are set here. Large clusters
should be saved as JSON, which is read some forty times faster than YAML.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kscheduler.api.decode import check_pod, convert_object, key_of
from kscheduler.api.devices import (
    DeviceClass,
    DeviceObject,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import (
    APIObject,
    MetricPolicyObject,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PolicyObject,
    ReplicationController,
    Service,
    TASPolicyObject,
    Workload,
)
from kscheduler.api.pod_groups import (
    COSCHEDULING_GROUP,
    KUBERNETES_GROUP,
    AnyPodGroup,
    CompositePodGroup,
    CoschedulingPodGroup,
    PodGroup,
)
from kscheduler.api.resources import node_allocatable
from kscheduler.api.share_queues import KaiQueueObject, QueueObject, ShareQueueObject
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
    check_storage,
)
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import decode_document
from kscheduler.input.input_files import read_input
from kscheduler.input.yaml_documents import read_yaml

T = TypeVar("T")


class _Kind(NamedTuple):
    """How objects of one kind are read."""

    field: str  # of Manifests, where they are kept
    struct: type[Any]
    check: Callable[[Any], object] | None = None  # raises DecodeError for a value that the struct alone allows


# (apiVersion, kind) -> how it is read. Of policies, quotas and queues, what the spec says is read later.
_KINDS: dict[tuple[str, str], _Kind] = {
    ("v1", "Pod"): _Kind("pods", Pod, check_pod),
    ("v1", "Node"): _Kind("nodes", Node, node_allocatable),
    ("v1", "PersistentVolume"): _Kind("storage", PersistentVolume, check_storage),
    ("v1", "PersistentVolumeClaim"): _Kind("storage", PersistentVolumeClaim, check_storage),
    ("storage.k8s.io/v1", "StorageClass"): _Kind("storage", StorageClass, check_storage),
    ("storage.k8s.io/v1", "CSIDriver"): _Kind("storage", CSIDriver, check_storage),
    ("storage.k8s.io/v1", "CSINode"): _Kind("storage", CSINode, check_storage),
    ("storage.k8s.io/v1", "CSIStorageCapacity"): _Kind("storage", CSIStorageCapacity, check_storage),
    ("storage.k8s.io/v1", "VolumeAttachment"): _Kind("storage", VolumeAttachment, check_storage),
    ("v1", "Namespace"): _Kind("groups", Namespace),
    ("v1", "Service"): _Kind("groups", Service),
    ("v1", "ReplicationController"): _Kind("groups", ReplicationController),
    ("apps/v1", "ReplicaSet"): _Kind("groups", Workload),
    ("apps/v1", "StatefulSet"): _Kind("groups", Workload),
    ("policy/v1", "PodDisruptionBudget"): _Kind("groups", PodDisruptionBudget),
    ("resource.k8s.io/v1", "DeviceClass"): _Kind("devices", DeviceClass),
    ("resource.k8s.io/v1", "DeviceTaintRule"): _Kind("devices", DeviceTaintRule),
    ("resource.k8s.io/v1", "ResourceSlice"): _Kind("devices", ResourceSlice),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): _Kind("devices", ResourceClaimTemplate),
    ("resource.k8s.io/v1", "ResourceClaim"): _Kind("devices", ResourceClaim),
    ("kscheduler.io/v1alpha1", "MetricPolicy"): _Kind("policies", MetricPolicyObject),
    ("telemetry.intel.com/v1alpha1", "TASPolicy"): _Kind("policies", TASPolicyObject),
    ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota"): _Kind("quotas", ElasticQuota),
    (f"{COSCHEDULING_GROUP}/v1alpha1", "PodGroup"): _Kind("pod_groups", CoschedulingPodGroup),
    (f"{KUBERNETES_GROUP}/v1alpha2", "PodGroup"): _Kind("pod_groups", PodGroup),
    (f"{KUBERNETES_GROUP}/v1beta1", "PodGroup"): _Kind("pod_groups", PodGroup),
    (f"{KUBERNETES_GROUP}/v1alpha3", "PodGroup"): _Kind("pod_groups", PodGroup),
    (f"{KUBERNETES_GROUP}/v1alpha3", "CompositePodGroup"): _Kind("pod_groups", CompositePodGroup),
    ("kscheduler.io/v1alpha1", "Queue"): _Kind("queues", QueueObject),
    ("scheduling.run.ai/v2", "Queue"): _Kind("queues", KaiQueueObject),
}


@dataclass(frozen=True, slots=True)
class Manifests:
    pods: tuple[Pod, ...]
    nodes: tuple[Node, ...]
    others_skipped: dict[str, int]  # kind -> how many
    storage: tuple[StorageObject, ...] = ()  # in the order of the file
    policies: tuple[PolicyObject, ...] = ()  # in the order of the file
    devices: tuple[DeviceObject, ...] = ()  # in the order of the file
    quotas: tuple[ElasticQuota, ...] = ()  # in the order of the file; their amounts are not read here
    pod_groups: tuple[AnyPodGroup, ...] = ()  # in the order of the file
    queues: tuple[ShareQueueObject, ...] = ()  # in the order of the file
    groups: tuple[tuple[str, APIObject], ...] = ()  # (kind, what says which pods belong together), in that order, too


@dataclass(frozen=True, slots=True)
class _Found:
    kind: str
    api_version: str
    document: dict[str, object]
    place: str  # for messages: file, document, item


def load_manifests(path: str | Path) -> Manifests:
    """Return the objects in a file. Raises ConfigError if it cannot be read or has a malformed object."""
    items: defaultdict[str, list[Any]] = defaultdict(list)  # field -> its objects
    others: Counter[str] = Counter()
    for found in _objects(Path(path)):
        kind = _KINDS.get((found.api_version, found.kind))
        if kind is None:
            others[found.kind] += 1
        else:
            item = _read(found, kind.struct, kind.check)
            # A Workload does not say of which kind it is.
            items[kind.field].append((found.kind, item) if kind.field == "groups" else item)
    return Manifests(
        tuple(items["pods"]),
        tuple(items["nodes"]),
        dict(others),
        tuple(items["storage"]),
        tuple(items["policies"]),
        tuple(items["devices"]),
        tuple(items["quotas"]),
        tuple(items["pod_groups"]),
        tuple(items["queues"]),
        tuple(items["groups"]),
    )


def _read(found: _Found, kind: type[T], check: Callable[[T], object] | None = None) -> T:
    name = f"{found.place}: {found.kind} {key_of(found.document)}"
    try:
        item = convert_object(found.document, kind)
    except DecodeError as error:
        raise ConfigError(f"{found.place}: {found.kind} {error}") from error
    metadata = found.document.get("metadata")  # `metadata:` without anything is null
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ConfigError(f"{name}: metadata.name: expected a name, got none")
    try:
        if check is not None:
            check(item)
    except DecodeError as error:
        raise ConfigError(f"{name}: {error}") from error
    return item


# --- files to objects -------------------------------------------------------------------------------------------


def _objects(path: Path) -> Iterator[_Found]:
    for number, document in enumerate(_documents(path), start=1):
        if document is not None:
            yield from _unfold(document, f"{path}: document {number}", "", "")


def _unfold(document: object, place: str, kind: str, api_version: str) -> Iterator[_Found]:
    """Yield an object, or those in a list; the items of a list such as PodList may omit their kind."""
    if not isinstance(document, dict):
        raise ConfigError(f"{place}: expected a Kubernetes object, got {_cut(document)}")
    kind, api_version = document.get("kind", kind), document.get("apiVersion", api_version)
    if not isinstance(kind, str) or not kind:
        raise ConfigError(f"{place}: kind: expected a kind such as Pod, Node or List, got {_cut(kind or None)}")
    if not isinstance(api_version, str) or not api_version:
        raise ConfigError(f"{place}: apiVersion: expected a version such as v1, got {_cut(api_version or None)}")
    if not (kind.endswith("List") and "items" in document):
        yield _Found(kind, api_version, document, place)
        return
    items = document["items"] or []
    if not isinstance(items, list):
        raise ConfigError(f"{place}: items: expected a list, got {_cut(items)}")
    for index, item in enumerate(items):
        yield from _unfold(item, f"{place}, item {index}", kind.removesuffix("List"), api_version)


def _documents(path: Path) -> Iterator[object]:
    try:
        raw = read_input(path)
    except OSError as error:
        raise ConfigError(f"{path}: expected a readable file: {error.strerror}") from error
    if raw.lstrip().startswith(b"{"):
        yield from _json(raw, path)
    else:
        yield from _yaml(raw, path)


def _json(raw: bytes, path: Path) -> Iterator[object]:
    try:
        yield decode_document(raw)
    except DecodeError as error:
        raise ConfigError(f"{path}: expected JSON: {error}") from error


def _yaml(raw: bytes, path: Path) -> Iterator[object]:
    try:
        for document in read_yaml(raw, is_large=True):
            yield document.value
    except DecodeError as error:
        raise ConfigError(f"{path}: expected YAML: {error}") from error


def _cut(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
