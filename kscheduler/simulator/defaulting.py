"""Applies the apiserver's defaults to objects when they are created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from kscheduler.api.defaults import (
    DEFAULT_NAMESPACE,
    azure_disk_with_defaults,
    namespace_with_defaults,
    with_defaults,
)
from kscheduler.api.devices import (
    ALL,
    EXACT_COUNT,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import (
    MetricPolicyObject,
    Namespace,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    TASPolicyObject,
)
from kscheduler.api.pod_groups import CompositePodGroup, CoschedulingPodGroup, PodGroup
from kscheduler.api.sharing import Shared
from kscheduler.api.storage import (
    BETA_IS_DEFAULT_CLASS,
    IMMEDIATE,
    IS_DEFAULT_CLASS,
    PENDING,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeStatus,
    StorageClass,
    class_of,
)

Meta = TypeVar("Meta", bound=ObjectMeta)

MAX_SPECS = 4096
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


class PodDefaults:
    """Applies defaults to pods, once per distinct spec: generated pods share few specs, so most calls are a look-up.

    `completes_pod_level_requests`: see `api.defaults.with_defaults`.
    """

    def __init__(self, *, completes_pod_level_requests: bool) -> None:
        self._completes_pod_level_requests = completes_pod_level_requests
        self._specs: dict[int, tuple[PodSpec, PodSpec]] = {}  # id(spec) -> that spec, kept alive, and with defaults
        self._equal: Shared[PodSpec] = Shared()  # specs with defaults: equal ones of several files are one object

    def apply(self, pod: Pod) -> tuple[ObjectMeta, PodSpec, PodStatus]:
        """Return the parts of the pod with defaults, as the apiserver would store it.

        Raises DecodeError for an unreadable quantity.
        """
        metadata = pod.metadata
        if not metadata.namespace:
            metadata = replace(metadata, namespace=DEFAULT_NAMESPACE)
        status = pod.status
        if pod.spec.scheduling_gates and not status.conditions:
            gated = PodCondition("PodScheduled", "False", "SchedulingGated", GATED_MESSAGE)
            status = replace(status, conditions=[gated])
        known = self._specs.get(id(pod.spec))
        return metadata, self._spec(pod) if known is None else known[1], status

    def _spec(self, pod: Pod) -> PodSpec:
        """Return a spec that is not known yet with its defaults."""
        completes = self._completes_pod_level_requests
        spec = self._equal.get(with_defaults(pod, completes_pod_level_requests=completes).spec)
        if len(self._specs) >= MAX_SPECS:
            self._specs.clear()
        self._specs[id(pod.spec)] = (pod.spec, spec)
        return spec


def object_with_defaults(item: Any, classes: Iterable[StorageClass]) -> Any:
    """Return an object of any other kind (no pod, no node) with its defaults.

    A PersistentVolumeClaim without a class gets the default one among `classes`.
    """
    if isinstance(item, Namespace):
        return namespace_with_defaults(item)
    if isinstance(item, StorageClass):
        return item if item.volume_binding_mode else replace(item, volume_binding_mode=IMMEDIATE)
    if isinstance(item, PersistentVolume):
        return _volume_with_defaults(item)
    groups = CompositePodGroup, CoschedulingPodGroup, PodGroup
    if isinstance(item, (*groups, CSIStorageCapacity, ElasticQuota, MetricPolicyObject, TASPolicyObject)):
        return replace(item, metadata=_in_a_namespace(item.metadata))
    if isinstance(item, PersistentVolumeClaim):
        return _claim_with_defaults(item, classes)
    if isinstance(item, ResourceClaim):
        spec = _devices_with_defaults(item.spec)
        return replace(item, metadata=_in_a_namespace(item.metadata), spec=spec)
    if isinstance(item, ResourceClaimTemplate):
        spec = _devices_with_defaults(item.spec.spec)
        return replace(item, metadata=_in_a_namespace(item.metadata), spec=replace(item.spec, spec=spec))
    return item


def _devices_with_defaults(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    """Return the spec of a ResourceClaim with the defaults of its requests: exactly one device each."""
    requests = [_request_with_defaults(request) for request in spec.devices.requests or ()]
    return replace(spec, devices=replace(spec.devices, requests=requests or None)) if requests else spec


def _request_with_defaults(request: DeviceRequest) -> DeviceRequest:
    if request.exactly is not None:
        request = replace(request, exactly=_count_with_defaults(request.exactly))
    if request.first_available:
        request = replace(request, first_available=[_count_with_defaults(each) for each in request.first_available])
    return request


Counted = TypeVar("Counted", ExactDeviceRequest, DeviceSubRequest)


def _count_with_defaults(counted: Counted) -> Counted:
    mode = counted.allocation_mode or EXACT_COUNT
    count = counted.count if mode == ALL else counted.count or 1
    return replace(counted, allocation_mode=mode, count=count)


def _volume_with_defaults(volume: PersistentVolume) -> PersistentVolume:
    spec, status = volume.spec, volume.status
    if spec.azure_disk is not None:
        spec = replace(spec, azure_disk=azure_disk_with_defaults(spec.azure_disk))
    return replace(volume, spec=spec, status=status if status.phase else PersistentVolumeStatus(PENDING))


def _claim_with_defaults(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    claim = replace(claim, metadata=_in_a_namespace(claim.metadata))
    if not claim.status.phase:
        claim = replace(claim, status=replace(claim.status, phase=PENDING))
    if claim.spec.storage_class_name is None and not class_of(claim):
        default = _default_class(classes)
        if default is not None:
            claim = replace(claim, spec=replace(claim.spec, storage_class_name=default.metadata.name))
    return claim


def _default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default class to use: the youngest, of equally young ones the first by name; None if there is none."""
    by_name = sorted(filter(_is_default, classes), key=lambda each: each.metadata.name)
    return max(by_name, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def _is_default(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations or {}
    return "true" in (annotations.get(IS_DEFAULT_CLASS), annotations.get(BETA_IS_DEFAULT_CLASS))


def _in_a_namespace(metadata: Meta) -> Meta:
    return metadata if metadata.namespace else replace(metadata, namespace=DEFAULT_NAMESPACE)
