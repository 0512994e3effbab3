"""Binds and provisions volumes in a simulated cluster, as kube-controller-manager's controllers and provisioners do.

A claim is bound to the volume reserved for it by a user or the scheduler (`spec.claimRef`), or to the smallest one that
fits; with WaitForFirstConsumer, only to a reserved one. If none fits, a volume is created, provided that the class has
a provisioner (and, with WaitForFirstConsumer, that the scheduler has selected a node). Pods with generic ephemeral
volumes get their claims. Changes are processed after they are made, at the same instant of virtual time.
Not modelled: reclaim policies (provisioned volumes are deleted with their claim, all others stay, Released), storage
capacity, attaching, expansion, protection of volumes in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from kscheduler.api.labels import compile_label_selector
from kscheduler.api.objects import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    Pod,
    SelectorRequirement,
)
from kscheduler.api.quantity import parse_units
from kscheduler.api.storage import (
    AVAILABLE,
    BIND_COMPLETED,
    BOUND,
    BOUND_BY_CONTROLLER,
    LOST,
    NO_PROVISIONER,
    PROVISIONED_BY,
    RELEASED,
    SELECTED_NODE,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    CSINode,
    CSIPersistentVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
    claim_name_of,
    class_of,
    is_made_for,
)
from kscheduler.client.kinds import CSI_NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.controller import Controller, take_first

FILESYSTEM = "Filesystem"  # the default volume mode


class VolumeController(Controller):
    """Binds claims to volumes and creates volumes in one simulated cluster, which must be empty when it is created.

    `follows_pods`: False if the caller will call `pod_changed` for each pod with volumes that comes or goes.
    """

    def __init__(
        self, cluster: Cluster, defer: Callable[[Callable[[], None]], object], *, follows_pods: bool = True
    ) -> None:
        super().__init__(defer)
        self._cluster = cluster
        self._claims_due: dict[str, None] = {}  # keys of claims to process, in order of change: an ordered set
        self._volumes_due: dict[str, None] = {}  # names of volumes to process, likewise
        self._pods_due: dict[str, None] = {}  # keys of new pods that may need claims
        self._unmatched: dict[str, dict[str, None]] = {}  # class -> keys of claims for which no volume was found
        self._awaited: dict[str, dict[str, None]] = {}  # name of a volume that does not exist -> claims that name it
        self._free: dict[str, dict[str, None]] = {}  # class -> names of volumes without a claimRef
        self._reserved: dict[str, dict[str, None]] = {}  # claim key -> names of volumes whose claimRef names the claim
        self._claims: dict[str, PersistentVolumeClaim] = cluster.store(PERSISTENT_VOLUME_CLAIMS).objects
        self._volumes: dict[str, PersistentVolume] = cluster.store(PERSISTENT_VOLUMES).objects
        self._classes: dict[str, StorageClass] = cluster.store(STORAGE_CLASSES).objects
        cluster.store(PERSISTENT_VOLUME_CLAIMS).subscribe(self._claim_changed)
        cluster.store(PERSISTENT_VOLUMES).subscribe(self._volume_changed)
        cluster.store(STORAGE_CLASSES).subscribe(self._class_changed)
        if follows_pods:
            cluster.store(PODS).subscribe(self.pod_changed)

    # --- what changed ---------------------------------------------------------------------------------------------

    def _claim_changed(self, before: PersistentVolumeClaim | None, after: PersistentVolumeClaim | None) -> None:
        claim = after or before
        assert claim is not None
        self._claims_due[claim.key] = None
        if claim.spec.volume_name:
            self._volumes_due[claim.spec.volume_name] = None
        if after is None:
            self._volumes_due.update(self._reserved.get(claim.key, {}))
        self._call()

    def _volume_changed(self, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        volume = after or before
        assert volume is not None
        self._volumes_due[volume.key] = None
        self._claims_due.update(self._awaited.pop(volume.key, {}))
        for version in (before, after):
            if version is None:
                continue
            found = self._volumes_of_class(version)
            if version is after:
                found[version.key] = None
            else:
                found.pop(version.key, None)
            if version.spec.claim_ref is not None:
                self._claims_due[_key_of(version.spec.claim_ref)] = None
        if volume.spec.claim_ref is None:
            self._retry_unmatched(class_of(volume))
        self._call()

    def _volumes_of_class(self, volume: PersistentVolume) -> dict[str, None]:
        """Return the index that lists the volume.

        It is that of the free volumes of the volume's class, or that of the claim that the volume is reserved for.
        """
        claim_ref = volume.spec.claim_ref
        if claim_ref is None:
            return self._free.setdefault(class_of(volume), {})
        return self._reserved.setdefault(_key_of(claim_ref), {})

    def _class_changed(self, before: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            self._retry_unmatched(after.key)
            self._call()

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is None or not pod.spec.volumes or (before is not None and after is not None):
            return
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            if after is None:
                self._delete_claims_of(pod)
            else:
                self._pods_due[pod.key] = None
            self._call()

    def _retry_unmatched(self, class_name: str) -> None:
        self._claims_due.update(self._unmatched.pop(class_name, {}))

    def _process_one(self) -> bool:
        """Process a new pod, a changed volume or a changed claim. Returns False if there is none."""
        if self._pods_due:
            self._make_claims(take_first(self._pods_due))
        elif self._volumes_due:
            self._sync_volume(take_first(self._volumes_due))
        elif self._claims_due:
            self._sync_claim(take_first(self._claims_due))
        else:
            return False
        return True

    # --- volumes --------------------------------------------------------------------------------------------------

    def _sync_volume(self, name: str) -> None:
        volume = self._volumes.get(name)
        if volume is None:
            return
        claim_ref = volume.spec.claim_ref
        if claim_ref is None or not claim_ref.uid:  # free, or reserved by a user for a claim not bound to it yet
            self._set_phase(volume, AVAILABLE)
            return
        claim = self._claims.get(_key_of(claim_ref))
        if claim is None or claim.metadata.uid != claim_ref.uid:
            self._release(volume)
        elif not claim.spec.volume_name:
            self._claims_due[claim.key] = None  # reserved by the scheduler: the claim will be bound to it
        elif claim.spec.volume_name == name:
            self._set_phase(volume, BOUND)
        elif PROVISIONED_BY in _annotations(volume):  # the claim was bound to another volume meanwhile
            self._release(volume)
        else:
            self._unbind(volume)

    def _release(self, volume: PersistentVolume) -> None:
        if PROVISIONED_BY in _annotations(volume):
            self._cluster.delete_object(PERSISTENT_VOLUMES, volume.key)
        else:
            self._set_phase(volume, RELEASED)

    def _unbind(self, volume: PersistentVolume) -> None:
        """Free a volume: remove its claimRef, or only the uid in it if a user reserved the volume for a claim."""
        claim_ref = volume.spec.claim_ref
        assert claim_ref is not None
        by_us = BOUND_BY_CONTROLLER in _annotations(volume)
        kept = None if by_us else replace(claim_ref, uid="", resource_version="")
        metadata = _without(volume.metadata, BOUND_BY_CONTROLLER)
        status = PersistentVolumeStatus(AVAILABLE)
        self._cluster.update_object(
            replace(volume, metadata=metadata, spec=replace(volume.spec, claim_ref=kept), status=status)
        )

    def _set_phase(self, volume: PersistentVolume, phase: str) -> None:
        if volume.status.phase != phase:
            self._cluster.update_object(replace(volume, status=PersistentVolumeStatus(phase)))

    # --- claims ---------------------------------------------------------------------------------------------------

    def _sync_claim(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        if BIND_COMPLETED in _annotations(claim):
            self._sync_bound_claim(claim)
        elif claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                self._awaited.setdefault(claim.spec.volume_name, {})[key] = None
            elif volume.spec.claim_ref is None or _is_reserved_for(volume, claim):
                self._bind(volume, claim)
        else:
            self._sync_unbound_claim(claim)

    def _sync_bound_claim(self, claim: PersistentVolumeClaim) -> None:
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is not None and (volume.spec.claim_ref is None or _is_reserved_for(volume, claim)):
            self._bind(volume, claim)
        elif claim.status.phase != LOST:
            self._cluster.update_object(replace(claim, status=replace(claim.status, phase=LOST)))

    def _sync_unbound_claim(self, claim: PersistentVolumeClaim) -> None:
        class_name = class_of(claim)
        storage_class = self._classes.get(class_name)
        node_name = _annotations(claim).get(SELECTED_NODE)
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        waits = waits and node_name is None
        volume = self._match(claim, reserved_only=waits)
        if volume is not None:
            self._bind(volume, claim)
        elif waits:
            pass  # the scheduler will reserve a volume for it, or select a node
        elif storage_class is None or storage_class.provisioner == NO_PROVISIONER:
            self._unmatched.setdefault(class_name, {})[claim.key] = None
        elif node_name is not None and node_name not in self._cluster.nodes:
            metadata = _without(claim.metadata, SELECTED_NODE)  # that node has gone: the scheduler must choose again
            self._cluster.update_object(replace(claim, metadata=metadata))
        else:
            self._provision(claim, storage_class, node_name)

    def _match(self, claim: PersistentVolumeClaim, *, reserved_only: bool) -> PersistentVolume | None:
        """Return a volume reserved for the claim, else the smallest one that fits, else None.

        If `reserved_only`, only a reserved volume is returned. Of equally large ones, the first by name is chosen.
        """
        wanted = _wanted(claim)
        for name in self._reserved.get(claim.key, ()):
            volume = self._volumes[name]
            if _is_reserved_for(volume, claim) and _size(volume) >= wanted and _is_of_mode(volume, claim):
                return volume
        if reserved_only:
            return None
        best: tuple[int, str] | None = None
        selector = compile_label_selector(claim.spec.selector or LabelSelector(), "spec.selector")  # empty: any labels
        for name in self._free.get(class_of(claim), ()):
            volume = self._volumes[name]
            if (
                volume.status.phase == AVAILABLE
                and _size(volume) >= wanted
                and _is_of_mode(volume, claim)
                and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
                and selector.matches(volume.metadata.labels or {})
            ):
                found = (_size(volume), volume.key)
                best = found if best is None else min(best, found)
        return None if best is None else self._volumes[best[1]]

    def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Set what is still missing in volume and claim for the two to be bound to each other."""
        metadata, spec = volume.metadata, volume.spec
        if not _is_reserved_for(volume, claim):
            metadata = _with(metadata, BOUND_BY_CONTROLLER, "yes")
        if spec.claim_ref is None or spec.claim_ref.uid != claim.metadata.uid:
            spec = replace(spec, claim_ref=_reference(claim))
        self._update(volume, replace(volume, metadata=metadata, spec=spec, status=PersistentVolumeStatus(BOUND)))
        metadata = claim.metadata
        if claim.spec.volume_name != volume.key:
            metadata = _with(metadata, BOUND_BY_CONTROLLER, "yes")
        metadata = _with(metadata, BIND_COMPLETED, "yes")
        status = replace(claim.status, phase=BOUND, capacity=volume.spec.capacity)
        bound = replace(claim, metadata=metadata, spec=replace(claim.spec, volume_name=volume.key), status=status)
        self._update(claim, bound)

    def _update(self, before: Any, after: Any) -> None:
        if before != after:
            self._cluster.update_object(after)

    # --- provisioning ---------------------------------------------------------------------------------------------

    def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node_name: str | None) -> None:
        name = f"pvc-{claim.metadata.uid}"
        if name in self._volumes:
            return
        requests = claim.spec.resources.requests if claim.spec.resources else None
        spec = PersistentVolumeSpec(
            capacity={STORAGE: (requests or {}).get(STORAGE, 0)},
            access_modes=claim.spec.access_modes,
            claim_ref=_reference(claim),
            storage_class_name=storage_class.key,
            volume_mode=claim.spec.volume_mode,
            node_affinity=self._node_affinity(storage_class, node_name),
            csi=CSIPersistentVolumeSource(storage_class.provisioner, name),
        )
        metadata = ObjectMeta(name=name, annotations={PROVISIONED_BY: storage_class.provisioner})
        self._cluster.create_object(PersistentVolume(metadata, spec))

    def _node_affinity(self, storage_class: StorageClass, node_name: str | None) -> VolumeNodeAffinity | None:
        """Return a new volume's node affinity: the CSI driver's topology on the selected node, or that of the class.

        None if the driver reports no topology: then the volume is accessible from every node.
        """
        node = self._cluster.nodes.get(node_name or "")
        if node is not None:
            csi_node: CSINode | None = self._cluster.store(CSI_NODES).objects.get(node.key)
            drivers = csi_node.spec.drivers if csi_node else []
            keys = next((each.topology_keys for each in drivers if each.name == storage_class.provisioner), None)
            labels = node.metadata.labels or {}
            terms = [[SelectorRequirement(key, "In", [labels[key]]) for key in keys or () if key in labels]]
        else:
            terms = [
                [SelectorRequirement(each.key, "In", each.values) for each in term.match_label_expressions or ()]
                for term in storage_class.allowed_topologies or ()
            ]
        found = [NodeSelectorTerm(match_expressions=term) for term in terms if term]
        return VolumeNodeAffinity(NodeSelector(found)) if found else None

    # --- generic ephemeral volumes --------------------------------------------------------------------------------

    def _make_claims(self, pod_key: str) -> None:
        pod = self._cluster.pods.get(pod_key)
        if pod is None:
            return
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is None or volume.ephemeral.volume_claim_template is None:
                continue
            name, _ = claim_name_of(pod, volume)
            if f"{pod.metadata.namespace}/{name}" in self._claims:
                continue  # it is the pod's own, or another claim, which the scheduler reports
            template = volume.ephemeral.volume_claim_template
            owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid, controller=True)
            metadata = ObjectMeta(
                name=name,
                namespace=pod.metadata.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=[owner],
            )
            self._cluster.create_object(PersistentVolumeClaim(metadata, template.spec))

    def _delete_claims_of(self, pod: Pod) -> None:
        for volume in pod.spec.volumes or ():
            name, is_ephemeral = claim_name_of(pod, volume)
            claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if is_ephemeral and claim is not None and is_made_for(claim, pod):
                self._cluster.delete_object(PERSISTENT_VOLUME_CLAIMS, claim.key)


def _is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if the volume's claimRef names this claim; a claimRef written by a user may lack the uid."""
    claim_ref = volume.spec.claim_ref
    return (
        claim_ref is not None
        and (claim_ref.namespace, claim_ref.name) == (claim.metadata.namespace, claim.metadata.name)
        and claim_ref.uid in ("", claim.metadata.uid)
    )


def _key_of(claim_ref: ObjectReference) -> str:
    return f"{claim_ref.namespace}/{claim_ref.name}"


def _is_of_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)


def _size(volume: PersistentVolume) -> int:
    return parse_units((volume.spec.capacity or {}).get(STORAGE, 0), f"spec.capacity[{STORAGE}]")


def _wanted(claim: PersistentVolumeClaim) -> int:
    requests = claim.spec.resources.requests if claim.spec.resources else None
    return parse_units((requests or {}).get(STORAGE, 0), f"spec.resources.requests[{STORAGE}]")


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return ObjectReference("v1", "PersistentVolumeClaim", meta.namespace, meta.name, meta.uid, meta.resource_version)


def _annotations(item: PersistentVolume | PersistentVolumeClaim) -> dict[str, str]:
    return item.metadata.annotations or {}


def _with(metadata: ObjectMeta, name: str, value: str) -> ObjectMeta:
    annotations = metadata.annotations or {}
    return metadata if name in annotations else replace(metadata, annotations={**annotations, name: value})


def _without(metadata: ObjectMeta, name: str) -> ObjectMeta:
    annotations = {key: value for key, value in (metadata.annotations or {}).items() if key != name}
    return replace(metadata, annotations=annotations)
