"""Writes the patches that a pod's volumes need before the pod is bound; only while this replica leads.

Unlike a binding, a patch is not repeated here: it is for one version of its object, and its author must decide
again when that version has gone.
"""

from __future__ import annotations

from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.protocol import Client
from kscheduler.client.write_permission import WritePermission


class VolumeWriter:
    """Patches through a client."""

    def __init__(self, client: Client, permission: WritePermission) -> None:
        self._client = client
        self._permission = permission

    async def patch_volume(self, name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
        """Patch a PersistentVolume. Raises APIErrors: Conflict if it is not in that version any more."""
        self._permission.check(f"persistent volume {name} is not written")
        return await self._client.patch_volume(name, resource_version, patch)

    async def patch_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object]
    ) -> PersistentVolumeClaim:
        """Patch a PersistentVolumeClaim. Raises APIErrors: Conflict if it is not in that version any more."""
        self._permission.check(f"claim {namespace}/{name} is not written")
        return await self._client.patch_claim(namespace, name, resource_version, patch)
