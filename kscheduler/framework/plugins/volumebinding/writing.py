"""Writes assumed volumes and claims to the apiserver, and waits for the volume controller and provisioners."""

from __future__ import annotations

import msgspec

from kscheduler.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from kscheduler.errors import KSchedulerError
from kscheduler.framework.csi_migration import NotTranslatable
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.volumebinding.accessible_nodes import AccessibleNodesMemo
from kscheduler.framework.plugins.volumebinding.assumption import Assumption, StaticBinding
from kscheduler.framework.plugins.volumebinding.claims import is_fully_bound
from kscheduler.framework.plugins.volumebinding.question import BoundVolume
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

POLL_S = 1.0  # kube-scheduler's interval; what is looked at is what the watches brought


class NotBound(KSchedulerError):
    """Raised if the volumes will not be bound as decided, so that the pod has to be decided again."""


async def write(handle: Handle, assumption: Assumption) -> None:
    """Reserve the chosen volumes for their claims, and request the others to be provisioned. Raises APIError."""
    for binding in assumption.bindings:
        volume = binding.volume
        patch = _volume_patch(volume)
        binding.volume = await handle.patch_volume(volume.metadata.name, volume.metadata.resource_version, patch)
    for position, claim in enumerate(assumption.provisions):
        metadata = claim.metadata
        annotations = {SELECTED_NODE: (metadata.annotations or {})[SELECTED_NODE]}
        patch = {"metadata": {"annotations": annotations}}
        assumption.provisions[position] = await handle.patch_claim(
            metadata.namespace, metadata.name, metadata.resource_version, patch
        )


def _volume_patch(volume: PersistentVolume) -> dict[str, object]:
    patch: dict[str, object] = {"spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}}
    if BOUND_BY_CONTROLLER in (volume.metadata.annotations or {}):
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return patch


class Progress:
    """Follows the binding of one pod's volumes by what the watches report; assumed versions of objects do not count."""

    def __init__(
        self, handle: Handle, memo: AccessibleNodesMemo, pod: PodInfo, node_name: str, assumption: Assumption
    ) -> None:
        self._handle = handle
        self._volumes = handle.volumes
        self._memo = memo
        self._pod = pod
        self._node_name = node_name
        self._assumption = assumption

    async def finish(self, timeout_s: float) -> None:
        """Return once all volumes are bound. Raises NotBound if they will not be, or the timeout is over."""
        for _ in range(int(timeout_s // POLL_S)):
            await self._handle.sleep(POLL_S)
            if self.is_bound():
                return
        raise NotBound("context deadline exceeded")

    def is_bound(self) -> bool:
        """Return True if all volumes are bound. Raises NotBound if one of them never will be."""
        node = self._handle.table.get(self._node_name)
        if node is None:
            raise NotBound(f'failed to get node "{self._node_name}": node "{self._node_name}" not found')
        if self._pod.uid not in node.pods:
            raise NotBound(f'pod does not exist any more: pod "{self._pod.pod.metadata.name}" not found')
        return all(self._is_taken(binding, node) for binding in self._assumption.bindings) and all(
            self._is_made(claim, node) for claim in self._assumption.provisions
        )

    def _is_taken(self, binding: StaticBinding, node: NodeInfo) -> bool:
        name = binding.volume.metadata.name
        volume = self._volumes.reported_volume(name)
        if volume is None:
            raise NotBound(f'failed to check binding: persistentvolumes "{name}" not found')
        claim = self._reported(binding.claim, "failed to check binding")
        if _is_older(volume, binding.volume):
            return False
        self._check_access(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise NotBound(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(claim)

    def _is_made(self, asked: PersistentVolumeClaim, node: NodeInfo) -> bool:
        claim = self._reported(asked, "failed to check provisioning pvc")
        name = claim.metadata.name
        if _is_older(claim, asked):
            return False
        if claim.metadata.annotations is None:
            raise NotBound(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node_name:
            # The provisioner takes it away to say that it cannot serve this node.
            raise NotBound(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._volumes.reported_volume(claim.spec.volume_name)
            if volume is None:
                return False  # the watch of volumes may be behind that of claims
            self._check_access(volume, node)
        return is_fully_bound(claim)

    def _reported(self, claim: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        found = self._volumes.reported_claim(claim.metadata.namespace, claim.metadata.name)
        if found is None:
            raise NotBound(f'{doing}: persistentvolumeclaims "{claim.key}" not found')
        return found

    def _check_access(self, volume: PersistentVolume, node: NodeInfo) -> None:
        """Raise NotBound if the node cannot access the volume: its label changed, or the volume was made elsewhere."""
        try:
            is_accessible = BoundVolume(volume, self._memo, self._volumes).is_accessible_from(node.labels, node.name)
        except NotTranslatable as error:
            raise NotBound(f"failed to translate pv to csi: {error}") from error
        if not is_accessible:
            raise NotBound(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}": '
                "no matching NodeSelectorTerms"
            )


def _is_older(
    found: PersistentVolume | PersistentVolumeClaim, written: PersistentVolume | PersistentVolumeClaim
) -> bool:
    """Return True if the object that the watch brought is older than our write."""
    return int(found.metadata.resource_version or 0) < int(written.metadata.resource_version or 0)
