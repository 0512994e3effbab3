"""Reads pods, nodes, storage, devices with their claims, pod groups and policies from files, as kubectl prints them.

The file may be YAML (any number of documents) or JSON, with or without lists, such as the output of `kubectl get
nodes,pods -A -o json`. Objects of other kinds are counted and left out. Everything but a policy's spec is checked, and
the first error is reported with file, document, item, object, field and value. No defaults are set here. Large clusters
should be saved as JSON, which is read some forty times faster than YAML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

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
from kscheduler.api.objects import MetricPolicyObject, Node, Pod, PolicyObject, TASPolicyObject
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


_V1, _STORAGE_V1, _RESOURCE_V1 = "v1", "storage.k8s.io/v1", "resource.k8s.io/v1"
_STORAGE: dict[tuple[str, str], type[Any]] = {  # (apiVersion, kind) -> struct
    (_V1, "PersistentVolume"): PersistentVolume,
    (_V1, "PersistentVolumeClaim"): PersistentVolumeClaim,
    (_STORAGE_V1, "StorageClass"): StorageClass,
    (_STORAGE_V1, "CSIDriver"): CSIDriver,
    (_STORAGE_V1, "CSINode"): CSINode,
    (_STORAGE_V1, "CSIStorageCapacity"): CSIStorageCapacity,
    (_STORAGE_V1, "VolumeAttachment"): VolumeAttachment,
}
_DEVICES: dict[tuple[str, str], type[Any]] = {  # (apiVersion, kind) -> struct
    (_RESOURCE_V1, "DeviceClass"): DeviceClass,
    (_RESOURCE_V1, "DeviceTaintRule"): DeviceTaintRule,
    (_RESOURCE_V1, "ResourceSlice"): ResourceSlice,
    (_RESOURCE_V1, "ResourceClaimTemplate"): ResourceClaimTemplate,
    (_RESOURCE_V1, "ResourceClaim"): ResourceClaim,
}
_POLICIES: dict[tuple[str, str], type[Any]] = {  # (apiVersion, kind) -> struct; what its spec says is not read here
    ("kscheduler.io/v1alpha1", "MetricPolicy"): MetricPolicyObject,
    ("telemetry.intel.com/v1alpha1", "TASPolicy"): TASPolicyObject,
}
_POD_GROUPS: dict[tuple[str, str], type[Any]] = {  # (apiVersion, kind) -> struct
    (f"{COSCHEDULING_GROUP}/v1alpha1", "PodGroup"): CoschedulingPodGroup,
    (f"{KUBERNETES_GROUP}/v1alpha2", "PodGroup"): PodGroup,
    (f"{KUBERNETES_GROUP}/v1beta1", "PodGroup"): PodGroup,
    (f"{KUBERNETES_GROUP}/v1alpha3", "PodGroup"): PodGroup,
    (f"{KUBERNETES_GROUP}/v1alpha3", "CompositePodGroup"): CompositePodGroup,
}

_QUOTA = ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota")
_QUEUES: dict[tuple[str, str], type[Any]] = {  # (apiVersion, kind) -> struct; what its spec says is not read here
    ("kscheduler.io/v1alpha1", "Queue"): QueueObject,
    ("scheduling.run.ai/v2", "Queue"): KaiQueueObject,
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


@dataclass(frozen=True, slots=True)
class _Found:
    kind: str
    api_version: str
    document: dict[str, object]
    place: str  # for messages: file, document, item


def load_manifests(path: str | Path) -> Manifests:
    """Return the objects in a file. Raises ConfigError if it cannot be read or has a malformed object."""
    pods: list[Pod] = []
    nodes: list[Node] = []
    storage: list[StorageObject] = []
    policies: list[PolicyObject] = []
    devices: list[DeviceObject] = []
    quotas: list[ElasticQuota] = []
    pod_groups: list[AnyPodGroup] = []
    queues: list[ShareQueueObject] = []
    others: Counter[str] = Counter()
    for found in _objects(Path(path)):
        if found.api_version == "v1" and found.kind == "Pod":
            pods.append(_read(found, Pod, check_pod))
        elif found.api_version == "v1" and found.kind == "Node":
            nodes.append(_read(found, Node, node_allocatable))
        elif (found.api_version, found.kind) in _STORAGE:
            storage.append(_read(found, _STORAGE[found.api_version, found.kind], check_storage))
        elif (found.api_version, found.kind) in _DEVICES:
            devices.append(_read(found, _DEVICES[found.api_version, found.kind]))
        elif (found.api_version, found.kind) in _POLICIES:
            policies.append(_read(found, _POLICIES[found.api_version, found.kind]))
        elif (found.api_version, found.kind) == _QUOTA:
            quotas.append(_read(found, ElasticQuota))
        elif (found.api_version, found.kind) in _POD_GROUPS:
            pod_groups.append(_read(found, _POD_GROUPS[found.api_version, found.kind]))
        elif (found.api_version, found.kind) in _QUEUES:
            queues.append(_read(found, _QUEUES[found.api_version, found.kind]))
        else:
            others[found.kind] += 1
    return Manifests(
        tuple(pods),
        tuple(nodes),
        dict(others),
        tuple(storage),
        tuple(policies),
        tuple(devices),
        tuple(quotas),
        tuple(pod_groups),
        tuple(queues),
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
