"""VolumeZone: a pod's node must be in the zone and region that the labels of its volumes name.

Only volumes that are bound to a claim count, and only on nodes that have a zone or region label at all: a cluster with
one zone need not label its nodes. A volume's label may name several zones, joined by "__". Nodes of one node class have
equal zone labels, so the volumes' labels are compared once for each class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kscheduler._fast import Verdicts, filter_node_classes
from kscheduler.api.objects import Pod
from kscheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    class_of,
)
from kscheduler.api.topology_labels import BETA_REGION, BETA_ZONE, BETWEEN_ZONES, REGION, ZONE
from kscheduler.framework.claim_hints import by_claims, claim_names
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ONE_GROUP, Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.status import SKIP, Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "VolumeZone"
REASON = "node(s) had no available volume zone"
_DEMANDS = "VolumeZone/demands"

_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSORS = {BETA_ZONE: ZONE, BETA_REGION: REGION}  # beta label -> the label that took its place

_Demand = tuple[str, frozenset[str]]  # (label, the values a node may have there)


class VolumeZone:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._volumes = handle.volumes
        self._verdicts = handle.table.node_classes.verdict_memo()

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        demands: list[_Demand] = []
        for name in claim_names(pod.pod):
            volume = self._volume_of(pod.pod.metadata.namespace, name)
            if isinstance(volume, Status):
                return None, volume
            if volume is not None:
                demands += _demands_of(volume)
        if not demands:
            return None, SKIP
        state.write(_DEMANDS, tuple(demands))
        return None, None

    def _volume_of(self, namespace: str, claim_name: str) -> PersistentVolume | Status | None:
        """Return the volume bound to a claim; None if the claim will be bound when the pod is placed."""
        if not claim_name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = self._volumes.reported_claim(namespace, claim_name)
        if claim is None:
            return unresolvable(f'persistentvolumeclaim "{claim_name}" not found')
        if not claim.spec.volume_name:
            return self._why_unbound(claim)
        volume = self._volumes.reported_volume(claim.spec.volume_name)
        return volume or unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')

    def _why_unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """Return None if the claim waits for a pod that uses it; else a status with the reason why it is unbound."""
        class_name = class_of(claim)
        if not class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self._volumes.storage_class(class_name)
        if storage_class is None:
            return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
        if storage_class.volume_binding_mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return unresolvable("PersistentVolume had no name")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if _is_met(state.read(_DEMANDS, tuple), node.labels) else unresolvable(REASON)

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        demands: tuple[_Demand, ...] = state.read(_DEMANDS, tuple)
        by_node_class = self._verdicts.answers(demands, lambda node_class: not _is_met(demands, node_class.labels))
        filter_node_classes(table.columns, verdicts, by_node_class, code)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    # --- the compiled lane: for pods without such volumes ---

    def sign_pod(self, pod: PodInfo) -> bool | None:
        return None if claim_names(pod.pod) else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[ClusterEvent | Registration]:
        return (
            Registration(ClusterEvent(EventResource.STORAGE_CLASS, Action.ADD), _after_class_added, ONE_GROUP),
            ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            Registration(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
                _after_claim,
                _BY_CLAIMS,
            ),
            Registration(
                ClusterEvent(EventResource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE), _after_volume, ONE_GROUP
            ),
        )


def _is_met(demands: Sequence[_Demand], labels: Mapping[str, str]) -> bool:
    """Return True if the labels have the zone and region demanded, or no zone or region label at all.

    A beta label is also looked up under its current name.
    """
    if not any(label in labels for label in _LABELS):
        return True
    return all(labels.get(label, labels.get(_SUCCESSORS.get(label, label))) in values for label, values in demands)


def _demands_of(volume: PersistentVolume) -> Iterator[_Demand]:
    """Yield (label, allowed values) for a volume's zone and region; a label is skipped if one of its values is ""."""
    labels = volume.metadata.labels or {}
    for label in _LABELS:
        if label in labels:
            values = frozenset(value.strip() for value in labels[label].split(BETWEEN_ZONES))
            if "" not in values:
                yield label, values


# --- hints ---


def _after_class_added(waiting: Pod, old: object, new: object) -> bool:
    """Return True for a new StorageClass with WaitForFirstConsumer: its claims now wait for the pod, others do not."""
    return not isinstance(new, StorageClass) or new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _after_claim(waiting: Pod, old: object, new: object) -> bool:
    return not isinstance(new, PersistentVolumeClaim) or new.key in _claim_keys(waiting)


def _after_volume(waiting: Pod, old: object, new: object) -> bool:
    """Return True for a new volume, or one whose zone or region labels changed."""
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return True
    return list(_demands_of(old)) != list(_demands_of(new))


# --- pods that are asked about together ---


def _claim_keys(pod: Pod) -> frozenset[str]:
    """Return the namespace/name of a pod's claims, without those of generic ephemeral volumes, as in kube-scheduler."""
    return frozenset(f"{pod.metadata.namespace}/{name}" for name in claim_names(pod))


_BY_CLAIMS = by_claims(_claim_keys)
